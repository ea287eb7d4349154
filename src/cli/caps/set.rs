//! `pannier caps set`.

use clap::Args;

use super::{Context, view};
use crate::{
    cap::{parse_preset, parse_scope, parse_span},
    cli::{
        Format,
        context::request_id,
        outcome::{Failed, Outcome, USAGE},
        output::{self, json, shown},
    },
    proto::v1::{self, CapScope, cap_policy::Algorithm},
};

/// Makes a policy or changes it; it holds at once for every sidecar. A new limit goes on with what was counted.
#[derive(Args, Debug)]
#[command(group(
    clap::ArgGroup::new("algorithm").required(true).args(["fixed", "rolling", "gcra", "unique", "preset"])
))]
pub struct Set {
    policy: String,
    /// At most this many in each window: civil days of --time-zone, or --window.
    #[arg(long, value_name = "LIMIT")]
    fixed: Option<i32>,
    /// At most this many (≤ 128) in any span of --window.
    #[arg(long, value_name = "LIMIT", requires = "window")]
    rolling: Option<i32>,
    /// One per --period, this many at once.
    #[arg(long, value_name = "BURST", requires = "period")]
    gcra: Option<i32>,
    /// At most this many different recipients in any span of --window (24h by default).
    #[arg(long, value_name = "LIMIT")]
    unique: Option<i32>,
    /// A published limit of Meta: meta-throughput, meta-pair, meta-tier-250, -2k, -10k, -100k, -unlimited.
    #[arg(long, value_name = "NAME", value_parser = parse_preset)]
    preset: Option<v1::CapPreset>,
    /// Such as 500ms, 10s, 24h, 7d.
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    window: Option<prost_types::Duration>,
    /// Such as 6s.
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    period: Option<prost_types::Duration>,
    /// An IANA name such as America/Mexico_City; UTC by default.
    #[arg(long, value_name = "ZONE", default_value = "", hide_default_value = true)]
    time_zone: String,
    /// What is counted apart: namespace (the default), sender, recipient or pair.
    #[arg(long, value_name = "SCOPE", value_parser = parse_scope)]
    scope: Option<CapScope>,
    /// Send rather than wait while Valkey cannot be reached.
    #[arg(long)]
    fail_open: bool,
    #[command(flatten)]
    format: Format,
}

impl Set {
    pub async fn run(self, mut context: Context) -> Outcome {
        let algorithm = self.algorithm()?;
        let policy = v1::CapPolicy {
            name: self.policy,
            scope: self.scope.unwrap_or_default().into(),
            algorithm: Some(algorithm),
            fail_open: self.fail_open,
            ..Default::default()
        };
        let request = v1::SetPolicyRequest {
            namespace: context.namespace.clone(),
            request_id: request_id()?,
            policy: Some(policy),
        };
        let answer = context.client.set_policy(context.target.request(request)).await?.into_inner();
        let policy = view::Policy::from(answer.policy.unwrap_or_default());
        if self.format.json {
            return json(&policy);
        }
        let what = if answer.created { "made" } else { "set" };
        output::note(&format!("{} is {what}: {}", shown(&policy.name), policy.rule));
        Ok(())
    }

    fn algorithm(&self) -> Outcome<Algorithm> {
        let of = |given: bool, flag: &str, with: &str| {
            if given {
                Err(Failed::new(USAGE, format!("{flag} has no effect here: it goes with {with}")))
            } else {
                Ok(())
            }
        };
        if self.gcra.is_none() {
            of(self.period.is_some(), "--period", "--gcra")?;
        }
        if self.fixed.is_none() {
            of(!self.time_zone.is_empty(), "--time-zone", "--fixed")?;
        }
        if self.gcra.is_some() || self.preset.is_some() {
            of(self.window.is_some(), "--window", "--fixed, --rolling and --unique")?;
        }
        let (window, period) = (self.window, self.period);
        Ok(match (self.fixed, self.rolling, self.gcra, self.unique, self.preset) {
            (Some(limit), ..) => {
                Algorithm::Fixed(v1::FixedWindow { limit, window, time_zone: self.time_zone.clone() })
            }
            (_, Some(limit), ..) => Algorithm::Rolling(v1::RollingWindow { limit, window }),
            (_, _, Some(burst), ..) => Algorithm::Gcra(v1::Gcra { period, burst }),
            (_, _, _, Some(limit), _) => {
                Algorithm::Unique(v1::UniqueRecipients { limit, window, unlimited: false })
            }
            (.., preset) => Algorithm::Preset(preset.unwrap_or_default().into()),
        })
    }
}
