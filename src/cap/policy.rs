//! A policy: what is counted apart, and by which rule. Checked here, whether it came over the wire or from a file.

use std::time::Duration;

use super::window::Window;
use crate::{
    crypto::{lp, take_lp},
    error::{Error, Result},
    proto::v1::{self, CapPreset, CapScope, cap_policy},
    rpc::{DAYS_400, duration, span_ms, span_us, timestamp},
};

/// Bytes of a policy's name.
pub const NAME_MAX: usize = 128;
const LIMIT_MAX: i32 = 1_000_000_000;
const ROLLING_MAX: i32 = 128;
const DAY_MS: u64 = 24 * 3600 * 1000;

/// A policy, checked.
#[derive(Clone, Debug)]
pub struct Policy {
    pub name: String,
    pub scope: CapScope,
    pub rule: Rule,
    /// Of `Gcra` the burst; 0 of `Unique`: unlimited.
    pub limit: u64,
    pub fail_open: bool,
}

/// By which a policy counts.
#[derive(Clone, Debug)]
pub enum Rule {
    Fixed(Window),
    Rolling { window_ms: u64 },
    Gcra { period_us: u64 },
    Unique { window_ms: u64 },
}

/// A policy as it is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    pub policy: Policy,
    /// 0: not stored yet, only known from the configuration.
    pub revision: u64,
    /// Since which revision its counters are the same.
    pub definition: u64,
    pub updated_ms: u64,
    pub from_config: bool,
    /// Stands for the name in keys.
    pub field: [u8; 8],
}

/// 1..128 bytes.
pub fn name(field: impl Into<String>, value: &str) -> Result<()> {
    if (1..=NAME_MAX).contains(&value.len()) {
        return Ok(());
    }
    Err(Error::bad_field(field, "must be 1..128 bytes"))
}

impl Policy {
    /// Checks what was asked for.
    pub fn check(asked: v1::CapPolicy) -> Result<Self> {
        name("policy.name", &asked.name)?;
        let scope = CapScope::try_from(asked.scope)
            .map_err(|_| Error::bad_field("policy.scope", "is no known scope"))?;
        let scope = if scope == CapScope::Unspecified { CapScope::Namespace } else { scope };
        let (scope, rule, limit) = match asked.algorithm {
            None => return Err(Error::bad_field("policy.algorithm", "is missing")),
            Some(cap_policy::Algorithm::Preset(preset)) => {
                if asked.scope != CapScope::Unspecified as i32 {
                    return Err(Error::bad_field("policy.scope", "is the preset's: leave it out"));
                }
                preset_of(preset)?
            }
            Some(cap_policy::Algorithm::Fixed(fixed)) => {
                let window = span_ms("policy.fixed.window", fixed.window, DAYS_400)?;
                let window = match window {
                    Some(_) if !fixed.time_zone.is_empty() => {
                        return Err(Error::bad_field(
                            "policy.fixed.time_zone",
                            "is for civil days: leave window out",
                        ));
                    }
                    Some(ms) => Window::Span(ms),
                    None => Window::days(&fixed.time_zone).ok_or_else(|| {
                        Error::bad_field("policy.fixed.time_zone", "is no known IANA time zone")
                    })?,
                };
                (scope, Rule::Fixed(window), limit("policy.fixed.limit", fixed.limit, LIMIT_MAX)?)
            }
            Some(cap_policy::Algorithm::Rolling(rolling)) => {
                let window_ms = required(
                    "policy.rolling.window",
                    span_ms("policy.rolling.window", rolling.window, DAYS_400)?,
                )?;
                let limit = limit("policy.rolling.limit", rolling.limit, ROLLING_MAX).map_err(|error| {
                    if rolling.limit > ROLLING_MAX {
                        return Error::bad_field(
                            "policy.rolling.limit",
                            "must be at most 128: use gcra for more",
                        );
                    }
                    error
                })?;
                (scope, Rule::Rolling { window_ms }, limit)
            }
            Some(cap_policy::Algorithm::Gcra(gcra)) => {
                let period_us =
                    required("policy.gcra.period", span_us("policy.gcra.period", gcra.period, DAYS_400)?)?;
                let burst = limit("policy.gcra.burst", gcra.burst, LIMIT_MAX)?;
                if u128::from(period_us) * u128::from(burst) > DAYS_400.as_micros() {
                    return Err(Error::bad_field(
                        "policy.gcra.burst",
                        "times period must be at most 400 days",
                    ));
                }
                (scope, Rule::Gcra { period_us }, burst)
            }
            Some(cap_policy::Algorithm::Unique(unique)) => {
                if !matches!(scope, CapScope::Namespace | CapScope::Sender) {
                    return Err(Error::bad_field("policy.scope", "must be NAMESPACE or SENDER for unique"));
                }
                let window_ms = span_ms("policy.unique.window", unique.window, DAYS_400)?.unwrap_or(DAY_MS);
                let limit = match (unique.unlimited, unique.limit) {
                    (true, 0) => 0,
                    (true, _) => {
                        return Err(Error::bad_field("policy.unique.limit", "must be 0 with unlimited"));
                    }
                    (false, limit_) => limit("policy.unique.limit", limit_, LIMIT_MAX)?,
                };
                (scope, Rule::Unique { window_ms }, limit)
            }
        };
        Ok(Self { name: asked.name, scope, rule, limit, fail_open: asked.fail_open })
    }

    /// The letter of its algorithm in Valkey, and its number there: ms, of `Gcra` µs, of civil days 0.
    pub fn number(&self) -> (&'static str, u64) {
        match &self.rule {
            Rule::Fixed(Window::Span(ms)) => ("F", *ms),
            Rule::Fixed(Window::Day { .. }) => ("F", 0),
            Rule::Rolling { window_ms } => ("R", *window_ms),
            Rule::Gcra { period_us } => ("G", *period_us),
            Rule::Unique { window_ms } => ("U", *window_ms),
        }
    }

    /// Bits for the script: fail open, unlimited, civil days.
    pub fn flags(&self) -> u64 {
        let unlimited = matches!(self.rule, Rule::Unique { .. }) && self.limit == 0;
        let days = matches!(self.rule, Rule::Fixed(Window::Day { .. }));
        u64::from(self.fail_open) + 2 * u64::from(unlimited) + 4 * u64::from(days)
    }

    fn zone(&self) -> &str {
        match &self.rule {
            Rule::Fixed(Window::Day { name, .. }) => name,
            _ => "",
        }
    }

    /// What makes its counters what they are; a new limit does not.
    pub fn definition(&self) -> String {
        let (letter, number) = self.number();
        format!("{letter} {number} {} {}", self.scope as i32, self.zone())
    }

    /// What of it is sealed.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        lp(&mut out, self.name.as_bytes());
        lp(&mut out, (self.scope as i32).to_string().as_bytes());
        lp(&mut out, self.zone().as_bytes());
        out
    }

    /// From what was sealed, and the numbers beside it.
    pub fn decode(mut plain: &[u8], letter: u8, flags: u64, limit: u64, number: u64) -> Option<Self> {
        let mut text = || String::from_utf8(take_lp(&mut plain)?.to_vec()).ok();
        let (name, scope, zone) = (text()?, text()?, text()?);
        let rule = match letter {
            b'F' if flags & 4 != 0 => Rule::Fixed(Window::days(&zone)?),
            b'F' => Rule::Fixed(Window::Span(number)),
            b'R' => Rule::Rolling { window_ms: number },
            b'G' => Rule::Gcra { period_us: number },
            b'U' => Rule::Unique { window_ms: number },
            _ => return None,
        };
        let scope = CapScope::try_from(scope.parse::<i32>().ok()?).ok()?;
        Some(Self { name, scope, rule, limit, fail_open: flags & 1 != 0 })
    }
}

impl Stored {
    /// For a reply.
    pub fn to_wire(&self) -> v1::CapPolicy {
        let policy = &self.policy;
        let limit = i32::try_from(policy.limit).unwrap_or(i32::MAX);
        let algorithm = match &policy.rule {
            Rule::Fixed(Window::Span(ms)) => cap_policy::Algorithm::Fixed(v1::FixedWindow {
                limit,
                window: Some(duration(*ms)),
                time_zone: String::new(),
            }),
            Rule::Fixed(Window::Day { name, .. }) => {
                cap_policy::Algorithm::Fixed(v1::FixedWindow { limit, window: None, time_zone: name.clone() })
            }
            Rule::Rolling { window_ms } => cap_policy::Algorithm::Rolling(v1::RollingWindow {
                limit,
                window: Some(duration(*window_ms)),
            }),
            Rule::Gcra { period_us } => cap_policy::Algorithm::Gcra(v1::Gcra {
                period: Duration::from_micros(*period_us).try_into().ok(),
                burst: limit,
            }),
            Rule::Unique { window_ms } => cap_policy::Algorithm::Unique(v1::UniqueRecipients {
                limit,
                window: Some(duration(*window_ms)),
                unlimited: policy.limit == 0,
            }),
        };
        v1::CapPolicy {
            name: policy.name.clone(),
            scope: policy.scope.into(),
            algorithm: Some(algorithm),
            fail_open: policy.fail_open,
            revision: self.revision,
            updated_at: timestamp(self.updated_ms),
            from_config: self.from_config,
        }
    }
}

fn limit(field: &str, value: i32, most: i32) -> Result<u64> {
    if !(1..=most).contains(&value) {
        return Err(Error::bad_field(field, format!("must be 1..{most}")));
    }
    Ok(u64::from(value.unsigned_abs()))
}

fn required(field: &str, value: Option<u64>) -> Result<u64> {
    value.ok_or_else(|| Error::bad_field(field, "is missing"))
}

/// As Meta published them on 2026-11-29: developers.facebook.com/docs/whatsapp/throughput and
/// developers.facebook.com/docs/whatsapp/messaging-limits.
fn preset_of(preset: i32) -> Result<(CapScope, Rule, u64)> {
    let preset = CapPreset::try_from(preset).unwrap_or(CapPreset::Unspecified);
    let tier = |limit| (CapScope::Namespace, Rule::Unique { window_ms: DAY_MS }, limit);
    Ok(match preset {
        CapPreset::Unspecified => return Err(Error::bad_field("policy.preset", "is no known preset")),
        CapPreset::MetaThroughput => (CapScope::Sender, Rule::Rolling { window_ms: 1000 }, 80),
        CapPreset::MetaPair => (CapScope::Pair, Rule::Gcra { period_us: 6_000_000 }, 45),
        CapPreset::MetaTier250 => tier(250),
        CapPreset::MetaTier2k => tier(2_000),
        CapPreset::MetaTier10k => tier(10_000),
        CapPreset::MetaTier100k => tier(100_000),
        CapPreset::MetaTierUnlimited => tier(0),
    })
}
