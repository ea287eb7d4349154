//! The link to Valkey: connections that come back by themselves, scripts, and the checks that the database is the right
//! one and set up so that what is acknowledged is kept.

mod absent;
mod busy_poll;
mod canaries;
mod cluster;
mod depot;
mod embedded;
mod error;
mod examine;
mod exchange;
mod funnel;
mod idle;
mod keys;
mod lanes;
mod link;
mod nodes;
mod op;
mod preflight;
mod pubsub;
mod reconnect;
mod replicas;
mod report;
mod routed;
mod scan;
mod script;
mod sentinel;
mod server_info;
mod shard;
mod source;
mod store_identity;
mod target;
mod topology;

use std::time::Duration;

pub use canaries::{Mismatch, REWRAPPED, Standing, disabled_field, question};
pub use depot::{Depot, Walk};
pub use embedded::{
    Embedded, EmbeddedConfig, Fsync, Stopped, examine_embedded, running_embedded, stop_orphan,
};
pub use error::{LinkError, ServerError};
pub use examine::{Unexamined, examine};
pub use funnel::Funnel;
pub use idle::{InUse, Users};
pub use keys::{BUCKETS, ENVIRONMENT, valid_env};
pub use link::Link;
pub use op::{Lane, Op};
pub use replicas::Replicas;
pub use report::{DurabilityLevel, Finding, Level, Report, ServerFacts};
pub use scan::Scan;
pub use script::{Script, decimal};
pub use store_identity::new_store_id;
pub use target::{Topology, UrlTarget, each_host, install_crypto_provider};

/// What the link needs to know.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Where Valkey is.
    pub target: Target,
    /// `[a-z0-9-]{1,32}`; part of every key name.
    pub env: String,
    /// An empty database may be taken into use.
    pub init: bool,
    /// A server that evicts keys may be used.
    pub allow_eviction: bool,
    /// What an acknowledged write must survive for the database to be taken into use.
    pub wanted_durability: Option<DurabilityLevel>,
    /// What is asserted where the ACL hides the settings.
    pub assume_durability: Option<DurabilityLevel>,
    /// A connection that is not made after this long is given up. (A hibernating database may take 1 to 5 s.)
    pub connect_within: Duration,
    /// How many connections are made.
    pub connections: Connections,
    /// How long the runtime looks for what comes next, after a call, before it sleeps; zero: not at all.
    pub busy_poll: Duration,
    /// The connections are let go once nobody has used the link for this long; None: never. Not for a cluster.
    pub idle_disconnect: Option<Duration>,
}

/// How many connections are made to each node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    /// Three: small calls, bulk, and probes with subscriptions.
    #[default]
    Standard,
    /// Two, for hosted plans that count them: bulk shares that of small calls, which then wait behind it.
    Minimal,
}

impl Connections {
    fn to_one_node(self) -> u32 {
        match self {
            Self::Standard => 3,
            Self::Minimal => 2,
        }
    }
}

impl LinkConfig {
    /// The defaults for `target` and `env`.
    pub fn new(target: Target, env: impl Into<String>) -> Self {
        Self {
            target,
            env: env.into(),
            init: false,
            allow_eviction: false,
            wanted_durability: None,
            assume_durability: None,
            connect_within: Duration::from_secs(5),
            connections: Connections::Standard,
            busy_poll: Duration::ZERO,
            idle_disconnect: None,
        }
    }

    /// Why a server that gives this must not be taken into use.
    fn lacks_durability(&self, given: DurabilityLevel) -> Option<String> {
        let wanted = self.wanted_durability.filter(|wanted| given < *wanted)?;
        Some(format!(
            "--durability {}: this server gives {} only; set appendonly and appendfsync on it, or ask for less",
            wanted.name(),
            given.name()
        ))
    }

    fn allowances(&self) -> preflight::Allowances {
        preflight::Allowances { eviction: self.allow_eviction, durability: self.assume_durability }
    }
}

/// Where Valkey is.
#[derive(Clone, Debug)]
pub enum Target {
    /// Somebody else runs it.
    Url(UrlTarget),
    /// Our own child does.
    Embedded(Embedded),
}

/// The state of the link, for health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Not connected yet.
    Starting {
        /// What is being waited for.
        why: String,
    },
    /// Usable.
    Ready {
        /// Counts up with every reconnection.
        generation: u64,
    },
    /// Was usable, and will be again.
    Down {
        /// What is wrong.
        why: String,
    },
    /// Nobody used it, so its connections were let go; the next call brings them back.
    Asleep,
    /// It answers, and must not be used as it is: a person must put something right, and then it will be used again.
    Unfit {
        /// What is wrong, and what to do.
        why: String,
    },
    /// The database was emptied or replaced.
    StoreChanged,
}

/// Why the start cannot succeed without a human.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The configuration, a key, or the database does not fit.
    #[error("{0}")]
    Config(String),
}

impl StartError {
    /// The exit code of the process (sysexits).
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) => 78,
        }
    }
}
