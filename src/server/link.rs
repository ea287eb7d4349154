//! From configuration to a link: which Valkey, which keyring, and what was asked of its durability.

use std::{future::pending, path::Path, sync::LazyLock};

use secrecy::{ExposeSecret as _, SecretString};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Failure;
use crate::{
    blob, cap,
    config::{Config, Valkey},
    conversation,
    crypto::{Reload, SharedKeyring},
    dedup, owner,
    proto::v1::Durability,
    schedule, session,
    valkey::{
        DurabilityLevel, Embedded, EmbeddedConfig, Fsync, Link, LinkConfig, LinkState, Script, StartError,
        Target, UrlTarget,
    },
};

/// Kinds of owners that have an index.
pub const KINDS: &[&str] = &[session::KIND, blob::KIND, owner::namespace::KIND, schedule::KIND];

/// Every script there is.
static SCRIPTS: LazyLock<Vec<&'static Script>> = LazyLock::new(|| {
    let state = [owner::scripts::ALL, session::SCRIPTS, blob::SCRIPTS].concat();
    let calls = [dedup::SCRIPTS, conversation::SCRIPTS, cap::SCRIPTS, schedule::SCRIPTS].concat();
    [state, calls].concat()
});

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self { code: error.exit_code(), message: error.to_string() }
    }
}

/// What was read and locked before the socket is bound.
pub struct Prepared {
    target: Target,
    keyring: SharedKeyring,
}

/// Finds the server, locks the data directory, reads the keyring.
pub async fn prepare(config: &Config) -> Result<Prepared, Failure> {
    let (target, keyring) = match &config.valkey {
        Valkey::Embedded { server, fsync_always, max_memory } => {
            let socket_dir = config.socket.path.parent().unwrap_or_else(|| Path::new("/"));
            let embedded = EmbeddedConfig {
                data_dir: config.data_dir.clone(),
                socket_dir: socket_dir.to_owned(),
                server: server.clone(),
                fsync: if *fsync_always { Fsync::Always } else { Fsync::Everysec },
                maxmemory: *max_memory,
            };
            let (embedded, keyring) = Embedded::prepare(embedded, &config.keyring).await?;
            (Target::Embedded(embedded), keyring)
        }
        Valkey::Url { url, password, .. } => {
            (Target::Url(url_target(url, password.as_ref())), load_keyring(&config.keyring)?)
        }
    };
    Ok(Prepared { target, keyring })
}

/// Where a Valkey is that somebody else runs.
pub fn url_target(url: &SecretString, password: Option<&SecretString>) -> UrlTarget {
    let mut target = UrlTarget::new(url.expose_secret());
    target.password = password.cloned();
    target
}

/// What the link needs to know of the configuration.
pub fn link_config(config: &Config, target: Target) -> LinkConfig {
    let mut link = LinkConfig::new(target, &config.env);
    link.init = config.init;
    if let Valkey::Url { allow_eviction, .. } = &config.valkey {
        link.allow_eviction = *allow_eviction;
    }
    link.assume_durability = config.durability.and_then(level);
    link
}

fn load_keyring(path: &Path) -> Result<SharedKeyring, Failure> {
    SharedKeyring::load(path).map_err(|error| {
        let todo = if error.is_missing() {
            format!(
                "\nOn the first start make one with `pannier keys init --keyring {}`; later restore it from its backup: \
                 without it nothing that is stored can be read",
                path.display()
            )
        } else {
            String::new()
        };
        Failure { code: 78, message: format!("{error}{todo}") }
    })
}

impl Prepared {
    /// Begins to connect.
    pub fn start(self, config: &Config, stop: CancellationToken) -> Result<(Link, SharedKeyring), Failure> {
        let link = link_config(config, self.target);
        let started = Link::start(link, self.keyring.clone(), &SCRIPTS, KINDS, stop)?;
        Ok((started, self.keyring))
    }
}

pub fn level(durability: Durability) -> Option<DurabilityLevel> {
    match durability {
        Durability::Memory => Some(DurabilityLevel::Memory),
        Durability::Aof => Some(DurabilityLevel::Aof),
        Durability::Fsync => Some(DurabilityLevel::Fsync),
        Durability::Replicas | Durability::Unspecified => None,
    }
}

/// Waits until the link is up for the first time and fails if it cannot give what was asked for; else never ends.
pub async fn check_durability(link: &Link, asked: Option<Durability>) -> Failure {
    let Some(asked) = asked.and_then(level) else { return pending().await };
    let mut state = link.state();
    if state.wait_for(|state| matches!(state, LinkState::Ready { .. })).await.is_err() {
        return pending().await;
    }
    let given = link.facts().durability;
    if given >= asked {
        return pending().await;
    }
    let message = format!(
        "--durability {}: this server gives {} only; set appendonly and appendfsync on it, or ask for less",
        name(asked),
        name(given)
    );
    Failure { code: 78, message }
}

pub fn name(level: DurabilityLevel) -> &'static str {
    match level {
        DurabilityLevel::Memory => "memory",
        DurabilityLevel::Aof => "aof",
        DurabilityLevel::Fsync => "fsync",
    }
}

/// Reads the keyring again at every SIGHUP.
pub async fn reload_on_hangup(keyring: SharedKeyring) {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
    while hangup.recv().await.is_some() {
        match keyring.reload() {
            Ok(Reload::Changed { new_primary }) => {
                tracing::info!(new_primary, "the keyring was read again: it has changed");
            }
            Ok(Reload::Unchanged) => tracing::info!("the keyring was read again: nothing new"),
            Err(error) => tracing::error!(%error, "the keyring was not taken; the old one stays in use"),
        }
    }
}
