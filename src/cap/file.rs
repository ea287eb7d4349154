//! Policies from the configuration: a TOML file of them, set when the database is there. What somebody has changed since at run time
//! stays as it is.

use std::{path::Path, time::Duration};

use serde::Deserialize;
use tokio::time::Instant;

use super::{policy::Policy, rpc::Handler};
use crate::{
    config::ConfigError,
    proto::v1::{self, CapPreset, CapScope, cap_policy::Algorithm},
    rpc::namespace,
};

/// The largest file that is read.
const FILE_MAX: u64 = 1024 * 1024;
const CALL: Duration = Duration::from_secs(10);

/// A policy of the file, checked.
#[derive(Clone, Debug)]
pub struct Configured {
    pub(super) namespace: String,
    pub(super) policy: Policy,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    policy: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    namespace: String,
    name: String,
    scope: Option<String>,
    #[serde(default)]
    fail_open: bool,
    fixed: Option<Fixed>,
    rolling: Option<Rolling>,
    gcra: Option<Gcra>,
    unique: Option<Unique>,
    preset: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixed {
    limit: i32,
    window: Option<String>,
    #[serde(default)]
    time_zone: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rolling {
    limit: i32,
    window: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gcra {
    period: String,
    burst: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unique {
    #[serde(default)]
    limit: i32,
    window: Option<String>,
    #[serde(default)]
    unlimited: bool,
}

/// Reads and checks a file.
pub fn read(path: &Path) -> Result<Vec<Configured>, ConfigError> {
    let wrong = |why: String| ConfigError(format!("--cap-policies {}: {why}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if size > FILE_MAX {
        return Err(wrong("is larger than 1 MiB".into()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let mut configured: Vec<Configured> = Vec::new();
    for (n, entry) in file.policy.into_iter().enumerate() {
        let one = configure(entry).map_err(|why| wrong(format!("policy {}: {why}", n + 1)))?;
        let same =
            |other: &Configured| other.namespace == one.namespace && other.policy.name == one.policy.name;
        if configured.iter().any(same) {
            return Err(wrong(format!("policy {}: there is one of this name before it", n + 1)));
        }
        configured.push(one);
    }
    Ok(configured)
}

fn configure(entry: Entry) -> Result<Configured, String> {
    let span = |text: Option<String>| text.map(|text| parse_span(&text)).transpose();
    let mut algorithms = Vec::new();
    if let Some(fixed) = entry.fixed {
        let (limit, time_zone) = (fixed.limit, fixed.time_zone);
        algorithms.push(Algorithm::Fixed(v1::FixedWindow { limit, window: span(fixed.window)?, time_zone }));
    }
    if let Some(rolling) = entry.rolling {
        let window = span(Some(rolling.window))?;
        algorithms.push(Algorithm::Rolling(v1::RollingWindow { limit: rolling.limit, window }));
    }
    if let Some(gcra) = entry.gcra {
        algorithms.push(Algorithm::Gcra(v1::Gcra { period: span(Some(gcra.period))?, burst: gcra.burst }));
    }
    if let Some(unique) = entry.unique {
        let (limit, unlimited) = (unique.limit, unique.unlimited);
        algorithms.push(Algorithm::Unique(v1::UniqueRecipients {
            limit,
            window: span(unique.window)?,
            unlimited,
        }));
    }
    if let Some(preset) = entry.preset {
        algorithms.push(Algorithm::Preset(parse_preset(&preset)?.into()));
    }
    let (Some(algorithm), true) = (algorithms.pop(), algorithms.is_empty()) else {
        return Err("give one of fixed, rolling, gcra, unique and preset".into());
    };
    let asked = v1::CapPolicy {
        name: entry.name,
        scope: entry.scope.map_or(Ok(CapScope::Unspecified), |scope| parse_scope(&scope))?.into(),
        algorithm: Some(algorithm),
        fail_open: entry.fail_open,
        ..Default::default()
    };
    let namespace = namespace(entry.namespace).map_err(|error| error.to_string())?;
    Ok(Configured { namespace, policy: Policy::check(asked).map_err(|error| error.to_string())? })
}

/// `500us`, `250ms`, `6s`, `10m`, `24h`, `7d`.
pub fn parse_span(text: &str) -> Result<prost_types::Duration, String> {
    let wrong = || format!("`{text}` is not a time such as 500ms, 6s, 10m, 24h or 7d");
    let end = text.find(|char: char| !char.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..end].parse().map_err(|_| wrong())?;
    let unit_us: u64 = match &text[end..] {
        "us" | "µs" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(wrong()),
    };
    Duration::from_micros(number.checked_mul(unit_us).ok_or_else(wrong)?).try_into().map_err(|_| wrong())
}

/// `namespace`, `sender`, `recipient`, `pair`.
pub fn parse_scope(text: &str) -> Result<CapScope, String> {
    CapScope::from_str_name(&format!("CAP_SCOPE_{}", text.to_ascii_uppercase()))
        .filter(|scope| *scope != CapScope::Unspecified)
        .ok_or_else(|| format!("`{text}` is none of namespace, sender, recipient, pair"))
}

/// `meta-pair`, `meta-tier-2k` …
pub fn parse_preset(text: &str) -> Result<CapPreset, String> {
    CapPreset::from_str_name(&format!("CAP_PRESET_{}", text.to_ascii_uppercase().replace('-', "_")))
        .filter(|preset| *preset != CapPreset::Unspecified)
        .ok_or_else(|| {
            format!(
                "`{text}` is none of meta-throughput, meta-pair, meta-tier-250, meta-tier-2k, meta-tier-10k, meta-tier-100k, \
                 meta-tier-unlimited"
            )
        })
}

impl Handler {
    /// Sets the policies of the configuration, once the database is there. Until then a `fail_open` one among them is known.
    pub async fn configure(self, configured: Vec<Configured>) {
        for one in &configured {
            self.know(one);
        }
        for one in configured {
            let mut wait = Duration::from_millis(200);
            while let Err(error) = self.set_configured(&one, Instant::now() + CALL).await {
                tracing::warn!(%error, "a cap policy of the configuration could not be set; trying again");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(Duration::from_secs(10));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Configured>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path()).map_err(|error| error.0)
    }

    #[test]
    fn each_algorithm_is_read() {
        let all = parse(
            r#"
            [[policy]]
            name = "daily"
            scope = "recipient"
            fixed = { limit = 5, time_zone = "America/Mexico_City" }
            [[policy]]
            namespace = "bot-1"
            name = "daily"
            fixed = { limit = 5, window = "1h" }
            fail_open = true
            [[policy]]
            name = "slow"
            rolling = { limit = 3, window = "10s" }
            [[policy]]
            name = "pair"
            scope = "pair"
            gcra = { period = "500us", burst = 45 }
            [[policy]]
            name = "tier"
            unique = { limit = 250 }
            [[policy]]
            name = "meta"
            preset = "meta-tier-unlimited"
            "#,
        )
        .unwrap();
        assert_eq!(all.len(), 6);
        let letters: Vec<_> = all.iter().map(|one| one.policy.number()).collect();
        let day = 86_400_000;
        assert_eq!(letters, [("F", 0), ("F", 3_600_000), ("R", 10_000), ("G", 500), ("U", day), ("U", day)]);
        assert!(all[1].policy.fail_open && all[1].namespace == "bot-1" && all[0].namespace == "default");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("[[policy]]\nname='x'", "give one of"),
            ("[[policy]]\nname='x'\nfixed={limit=1}\ngcra={period='1s',burst=1}", "give one of"),
            ("[[policy]]\nname='x'\nfixed={limit=0}", "policy.fixed.limit"),
            ("[[policy]]\nname='x'\nfixed={limit=1.5}", "invalid type"),
            ("[[policy]]\nname='x'\nfixed={limit=1,time_zone='Mars'}", "policy.fixed.time_zone"),
            ("[[policy]]\nname='x'\nrolling={limit=1,window='1.5s'}", "is not a time"),
            ("[[policy]]\nname='x'\nrolling={limit=1,window='401d'}", "policy.rolling.window"),
            ("[[policy]]\nname='x'\npreset='meta'", "is none of"),
            ("[[policy]]\nname='x'\nscope='all'\nfixed={limit=1}", "is none of"),
            ("[[policy]]\nname='x'\nlimits=1", "unknown field"),
            ("[[policy]]\nname='x'\nfixed={limit=1}\n[[policy]]\nname='x'\nfixed={limit=1}", "before it"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
