//! A Valkey that somebody else runs: what is behind its URL, and how to get in.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};

use super::{ConfigError, External, Valkey, reader::Reader, values};
use crate::valkey::{Topology, each_host};

impl Reader {
    pub(super) fn external(&self, url: SecretString) -> Result<Valkey, ConfigError> {
        let topology = self.topology()?;
        let hosts = each_host(url.expose_secret());
        if hosts.len() > 1 && matches!(topology, Topology::Standalone) {
            return Err(ConfigError(
                "the Valkey URL names several hosts: say what they are with --cluster or --sentinel NAME"
                    .into(),
            ));
        }
        let pem = |name: &str| -> Result<Option<Vec<u8>>, ConfigError> {
            let Some(path) = self.0.get(name) else { return Ok(None) };
            let read = std::fs::read(path);
            read.map(Some).map_err(|error| ConfigError(format!("{} {path}: {error}", self.cite(name))))
        };
        let certificate = match (pem("valkey-cert")?, self.secret_file("valkey-key")?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(ConfigError("--valkey-cert and --valkey-key go together".into())),
        };
        Ok(Valkey::Url(External {
            url,
            password: self.secret_file("valkey-password-file")?,
            allow_eviction: self.parse("allow-eviction", values::switch)?.unwrap_or(false),
            ca: pem("valkey-ca")?,
            certificate,
            idle_disconnect: self.idle_disconnect(&topology)?,
            topology,
            wake_timeout: self.parse("wake-timeout", wake_timeout)?.unwrap_or(Duration::from_secs(5)),
        }))
    }

    fn idle_disconnect(&self, topology: &Topology) -> Result<Option<Duration>, ConfigError> {
        let after = self.parse("idle-disconnect", idle_disconnect)?.filter(|after| !after.is_zero());
        if after.is_some() && matches!(topology, Topology::Cluster) {
            return Err(ConfigError(format!(
                "{}: not with --cluster; it is for one database that hibernates while nobody is connected",
                self.cite("idle-disconnect")
            )));
        }
        Ok(after)
    }

    fn topology(&self) -> Result<Topology, ConfigError> {
        let password = self.secret_file("sentinel-password-file")?;
        match (self.0.get("sentinel"), self.parse("cluster", values::switch)?.unwrap_or(false)) {
            (Some(_), true) => {
                Err(ConfigError("--sentinel and --cluster are both given; a cluster has no Sentinels".into()))
            }
            (Some(""), false) => Err(ConfigError(format!("{}: a name is needed", self.cite("sentinel")))),
            (Some(primary), false) => Ok(Topology::Sentinel { primary: primary.to_owned(), password }),
            (None, _) if password.is_some() => Err(ConfigError(format!(
                "{} has no effect without --sentinel",
                self.cite("sentinel-password-file")
            ))),
            (None, true) => Ok(Topology::Cluster),
            (None, false) => Ok(Topology::Standalone),
        }
    }
}

/// Zero: never.
fn idle_disconnect(text: &str) -> Result<Duration, String> {
    let after = values::duration(text)?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
    (after.is_zero() || allowed.contains(&after))
        .then_some(after)
        .ok_or_else(|| "0 or from 1s to 24h".to_owned())
}

fn wake_timeout(text: &str) -> Result<Duration, String> {
    let timeout = values::duration(text)?;
    (Duration::from_millis(100)..=Duration::from_secs(60))
        .contains(&timeout)
        .then_some(timeout)
        .ok_or_else(|| "from 100ms to 60s".to_owned())
}
