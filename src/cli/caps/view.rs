//! Policies and their standing as JSON and as rows. Instants are RFC 3339 in UTC, spans in milliseconds.

use serde::Serialize;

use crate::{
    cli::output::{instant, or_dash, shown},
    proto::v1::{self, cap_policy::Algorithm},
};

/// Titles of a policy's row.
pub const POLICY: &[&str] = &["policy", "scope", "rule", "fail open", "from config", "changed"];
/// Titles of a standing's row.
pub const USAGE: &[&str] = &["policy", "used", "limit", "left", "wait", "reset"];

/// A policy.
#[derive(Serialize)]
pub struct Policy {
    pub name: String,
    pub scope: String,
    pub algorithm: &'static str,
    /// GCRA: the burst. 0: unlimited.
    pub limit: i32,
    /// Absent: civil days.
    pub window_ms: Option<f64>,
    pub time_zone: Option<String>,
    /// For a person.
    pub rule: String,
    pub fail_open: bool,
    pub revision: u64,
    pub updated_at: Option<String>,
    pub from_config: bool,
}

impl From<v1::CapPolicy> for Policy {
    fn from(policy: v1::CapPolicy) -> Self {
        let scope = policy.scope().as_str_name().trim_start_matches("CAP_SCOPE_").to_ascii_lowercase();
        let (algorithm, limit, window, zone) = match policy.algorithm {
            Some(Algorithm::Fixed(fixed)) => {
                let zone = if fixed.time_zone.is_empty() { "UTC".to_owned() } else { fixed.time_zone };
                ("fixed", fixed.limit, fixed.window, fixed.window.is_none().then_some(zone))
            }
            Some(Algorithm::Rolling(rolling)) => ("rolling", rolling.limit, rolling.window, None),
            Some(Algorithm::Gcra(gcra)) => ("gcra", gcra.burst, gcra.period, None),
            Some(Algorithm::Unique(unique)) => ("unique", unique.limit, unique.window, None),
            Some(Algorithm::Preset(_)) | None => ("", 0, None, None),
        };
        let window_ms = window.map(millis);
        let span = window_ms.map(|ms| format!("{ms} ms")).unwrap_or_default();
        let rule = match algorithm {
            "fixed" => match &zone {
                Some(zone) => format!("{limit} a day ({zone})"),
                None => format!("{limit} in each {span}"),
            },
            "rolling" => format!("{limit} in any {span}"),
            "gcra" => format!("one per {span}, {limit} at once"),
            _ if limit == 0 => format!("any number of recipients, counted over {span}"),
            _ => format!("{limit} recipients in any {span}"),
        };
        Self {
            name: policy.name,
            scope,
            algorithm,
            limit,
            window_ms,
            time_zone: zone,
            rule,
            fail_open: policy.fail_open,
            revision: policy.revision,
            updated_at: instant(policy.updated_at),
            from_config: policy.from_config,
        }
    }
}

impl Policy {
    /// For a table.
    pub fn row(&self) -> Vec<String> {
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        vec![
            shown(&self.name),
            self.scope.clone(),
            self.rule.clone(),
            yes(self.fail_open),
            yes(self.from_config),
            or_dash(self.updated_at.as_ref()),
        ]
    }
}

/// How one policy stands.
#[derive(Serialize)]
pub struct Usage {
    pub policy: String,
    pub used: i64,
    pub limit: i64,
    pub remaining: i64,
    /// It would never be allowed.
    pub never: bool,
    pub wait_ms: Option<f64>,
    pub reset_at: Option<String>,
}

/// How several stand.
#[derive(Serialize)]
pub struct Standing {
    pub policies: Vec<Usage>,
    pub service_window_until: Option<String>,
}

impl From<v1::PeekResponse> for Standing {
    fn from(peeked: v1::PeekResponse) -> Self {
        let policies = peeked.policies.into_iter().map(|one| {
            let usage = one.usage.unwrap_or_default();
            Usage {
                policy: usage.policy,
                used: usage.used,
                limit: usage.limit,
                remaining: usage.remaining,
                never: one.never,
                wait_ms: one.retry_after.map(millis),
                reset_at: instant(usage.reset_at),
            }
        });
        Self { policies: policies.collect(), service_window_until: instant(peeked.service_window_until) }
    }
}

impl Usage {
    /// For a table.
    pub fn row(&self) -> Vec<String> {
        let unlimited = self.limit == 0;
        let number = |n: i64| if unlimited { "-".to_owned() } else { n.to_string() };
        vec![
            shown(&self.policy),
            self.used.to_string(),
            number(self.limit),
            number(self.remaining),
            self.wait_ms.map_or_else(|| "never".to_owned(), |ms| format!("{ms} ms")),
            or_dash(self.reset_at.as_ref()),
        ]
    }
}

#[allow(clippy::cast_precision_loss)] // 400 days in ms are far below 2^53
fn millis(span: prost_types::Duration) -> f64 {
    span.seconds as f64 * 1000.0 + f64::from(span.nanos) / 1_000_000.0
}
