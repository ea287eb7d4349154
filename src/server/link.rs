//! From configuration to a link: which Valkey, which keyring, and what was asked of its durability.

use std::{path::Path, sync::LazyLock, time::Duration};

use secrecy::ExposeSecret as _;
use tokio_util::sync::CancellationToken;

use super::Failure;
use crate::{
    blob, cap,
    config::{Config, External, Valkey},
    conversation,
    crypto::SharedKeyring,
    dedup, owner,
    proto::v1::Durability,
    rotation, schedule, session,
    valkey::{
        Depot, DurabilityLevel, Embedded, EmbeddedConfig, Fsync, InUse, Link, LinkConfig, LinkState, Script,
        StartError, Target, Unexamined, UrlTarget, running_embedded,
    },
};

/// Kinds of owners that have an index.
pub const KINDS: &[&str] = &[session::KIND, blob::KIND, owner::namespace::KIND, schedule::KIND];

/// Every script there is.
static SCRIPTS: LazyLock<Vec<&'static Script>> = LazyLock::new(|| {
    let state = [owner::scripts::ALL, rotation::SCRIPTS, session::SCRIPTS, blob::SCRIPTS].concat();
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
        Valkey::Url(given) => (Target::Url(url_target(given)), load_keyring(&config.keyring)?),
    };
    Ok(Prepared { target, keyring })
}

/// Where a Valkey is that somebody else runs.
pub fn url_target(given: &External) -> UrlTarget {
    let mut target = UrlTarget::new(given.url.expose_secret());
    target.password.clone_from(&given.password);
    target.topology = given.topology.clone();
    target.ca.clone_from(&given.ca);
    target.client_certificate.clone_from(&given.certificate);
    target
}

/// What the link needs to know of the configuration.
pub fn link_config(config: &Config, target: Target) -> LinkConfig {
    let mut link = LinkConfig::new(target, &config.env);
    link.init = config.init;
    link.connections = config.connections;
    link.busy_poll = config.busy_poll;
    if let Valkey::Url(given) = &config.valkey {
        link.allow_eviction = given.allow_eviction;
        link.connect_within = given.wake_timeout;
        link.idle_disconnect = given.idle_disconnect;
    }
    link.assume_durability = config.durability.and_then(level);
    link
}

/// What a command has that looks at the database by itself, beside the sidecars.
pub struct Visit {
    /// Ends with this.
    pub link: Link,
    /// The file's.
    pub keyring: SharedKeyring,
    _in_use: Option<InUse>,
    stop: CancellationToken,
}

/// A database while no sidecar uses it, found as `serve` would with this configuration. Nothing is accepted or written.
pub async fn depot(config: &Config) -> Result<(Depot, SharedKeyring), Failure> {
    // What looks like a first start would make a keyring.
    if matches!(config.valkey, Valkey::Embedded { .. }) && !config.data_dir.join("store-id").exists() {
        let message = format!(
            "no database is in {}: give --data-dir, or say where the database is with --valkey-url",
            config.data_dir.display()
        );
        return Err(Failure { code: 78, message });
    }
    let Prepared { target, keyring } = prepare(config).await?;
    Ok((open(config, target).await?, keyring))
}

/// The same of an external one, which another keyring may be for.
pub async fn depot_without_keyring(config: &Config) -> Result<Depot, Failure> {
    match &config.valkey {
        Valkey::Url(given) => open(config, Target::Url(url_target(given))).await,
        Valkey::Embedded { .. } => Err(Failure { code: 78, message: "a URL is needed".into() }),
    }
}

async fn open(config: &Config, target: Target) -> Result<Depot, Failure> {
    Depot::open(&link_config(config, target)).await.map_err(|error| match error {
        Unexamined::Config(message) => Failure { code: 78, message },
        Unexamined::Unreachable(message) => Failure { code: 69, message },
    })
}

/// Connects as `serve` would with this configuration, and takes nothing into use. An embedded Valkey must be running.
pub async fn visit(config: &Config, within: Duration) -> Result<Visit, Failure> {
    let unavailable = |message: String| Failure { code: 69, message };
    let keyring = load_keyring(&config.keyring)?;
    let target = match &config.valkey {
        Valkey::Url(given) => Target::Url(url_target(given)),
        Valkey::Embedded { .. } => {
            let wrong = |message: String| Failure { code: 78, message };
            let socket = running_embedded(&config.data_dir).map_err(wrong)?.ok_or_else(|| {
                let dir = config.data_dir.display();
                unavailable(format!(
                    "no embedded Valkey runs on {dir}: start `pannier serve`, or say where the database is with --valkey-url"
                ))
            })?;
            Target::Url(UrlTarget::new(format!("unix://{}", socket.display())))
        }
    };
    let prepared = Prepared { target, keyring };
    let stop = CancellationToken::new();
    let (link, keyring) =
        prepared.begin(|target| LinkConfig { init: false, ..link_config(config, target) }, stop.clone())?;
    let mut state = link.state();
    let ready = state.wait_for(|state| matches!(state, LinkState::Ready { .. } | LinkState::StoreChanged));
    tokio::select! {
        error = link.start_error() => return Err(error.into()),
        ready = tokio::time::timeout(within, ready) => {
            if ready.is_err() {
                return Err(unavailable("Valkey does not answer".into()));
            }
        }
    }
    Ok(Visit { _in_use: link.in_use(), link, keyring, stop })
}

impl Visit {
    /// Closes the connection.
    pub async fn end(self) {
        self.stop.cancel();
        self.link.closed().await;
    }
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
        let wanted_durability = config.durability.and_then(level);
        self.begin(
            |target| LinkConfig { init: config.init, wanted_durability, ..link_config(config, target) },
            stop,
        )
    }

    fn begin(
        self,
        link: impl FnOnce(Target) -> LinkConfig,
        stop: CancellationToken,
    ) -> Result<(Link, SharedKeyring), Failure> {
        let started = Link::start(link(self.target), self.keyring.clone(), &SCRIPTS, KINDS, stop)?;
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
