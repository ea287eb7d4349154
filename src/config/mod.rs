//! Configuration: flags over `PANNIER_*` over a TOML file over defaults. All of it is read and checked before anything
//! is bound or started; secrets never appear in what is printed.

mod access;
mod external;
mod limits;
mod observe;
mod places;
mod reader;
mod reference;
mod sources;
mod table;
mod values;

use std::{fmt, path::PathBuf, time::Duration};

use secrecy::SecretString;

use crate::{
    proto::v1::Durability,
    valkey::{Connections, Topology},
};

pub use self::limits::Limits;
pub use access::{Access, Listen, SocketAuth, Tls, host_and_port, is_loopback};
pub use observe::{Observe, Otlp, Place};
pub use places::{MAX_SOCKET_PATH, default_data_dir, default_sockets, has_password};
pub use reference::reference;
pub use sources::{Flags, Given, Origin};
pub use table::{SETTINGS, Setting, suggest};
pub use values::secret;

/// What must be put right by a person. It says how, and repeats no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// The checked configuration of `serve`.
#[derive(Debug)]
pub struct Config {
    /// Part of every key name.
    pub env: String,
    /// Which Valkey.
    pub valkey: Valkey,
    /// How many connections are made to each of its nodes.
    pub connections: Connections,
    /// Data of the embedded Valkey; not made yet.
    pub data_dir: PathBuf,
    /// The keyring's file.
    pub keyring: PathBuf,
    /// What was asked for; checked against the server when the link is up.
    pub durability: Option<Durability>,
    /// Threads that serve; sealing large commits has threads of its own.
    pub worker_threads: usize,
    /// How long a thread looks for what comes next, after a call, before it sleeps.
    pub busy_poll: Duration,
    /// Bytes for unfinished multi-part commits.
    pub commit_buffer: u64,
    /// What may be in progress at once.
    pub limits: Limits,
    /// Begin with an empty database.
    pub init: bool,
    /// What blobs may take.
    pub blobs: crate::blob::Limits,
    /// Policies of caps, to be set at start.
    pub cap_policies: Vec<crate::cap::Configured>,
    /// The unix socket.
    pub socket: Socket,
    /// Who may call, and where else than on the socket.
    pub access: Access,
    /// Who may see what goes on, and where.
    pub observe: Observe,
    /// How long new calls are served after SIGTERM.
    pub drain_delay: Duration,
    /// Whether reflection is offered.
    pub reflection: bool,
    /// The log.
    pub log: Log,
    /// Each setting as it is, for `config show`.
    pub shown: Vec<Shown>,
}

/// Which Valkey is used.
#[derive(Debug)]
pub enum Valkey {
    /// A child of ours.
    Embedded {
        /// The binary, if one was named.
        server: Option<PathBuf>,
        /// `appendfsync always` instead of `everysec`.
        fsync_always: bool,
        /// Bytes; None: by the machine's memory.
        max_memory: Option<u64>,
    },
    /// Somebody else runs it.
    Url(External),
}

/// A Valkey that somebody else runs.
#[derive(Debug)]
pub struct External {
    /// May hold a password.
    pub url: SecretString,
    /// From its own file.
    pub password: Option<SecretString>,
    /// One that evicts keys may be used.
    pub allow_eviction: bool,
    /// What is behind the URL.
    pub topology: Topology,
    /// PEM of the authorities to trust instead of the built-in ones.
    pub ca: Option<Vec<u8>>,
    /// PEM of our certificate, and its key.
    pub certificate: Option<(Vec<u8>, SecretString)>,
    /// What one attempt to connect may take.
    pub wake_timeout: Duration,
    /// How long nobody uses the connections before they are let go. None: they are kept.
    pub idle_disconnect: Option<Duration>,
}

/// The unix socket and who may use it.
#[derive(Clone, Debug)]
pub struct Socket {
    /// At most [`MAX_SOCKET_PATH`] bytes.
    pub path: PathBuf,
    /// Whatever the umask.
    pub mode: u32,
    /// Another group than the process's.
    pub group: Option<u32>,
    /// Users beside our own.
    pub allow_uids: Vec<u32>,
}

impl Socket {
    /// Whether others than our own user are meant to come in.
    pub fn is_shared(&self) -> bool {
        self.mode & 0o077 != 0
    }
}

/// How the log is written.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// JSON lines instead of text; None: by whether stderr is a terminal.
    pub json: Option<bool>,
    /// Of Pannier's own events.
    pub level: tracing::Level,
}

/// One line of `config show`.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Shown {
    /// The setting.
    pub name: &'static str,
    /// Its value, without secrets.
    pub value: String,
    /// Where it came from.
    pub origin: String,
}

impl Config {
    /// Reads and checks everything that can be checked without starting.
    pub fn load(flags: &Flags, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        reader::Reader(Given::collect(flags, environment)?).config(environment)
    }

    /// [`Config::load`] with the process's environment.
    pub fn from_process(flags: &Flags) -> Result<Self, ConfigError> {
        Self::load(flags, &process_environment)
    }
}

/// A variable of this process; one that is not Unicode counts as absent.
pub fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.name, self.value, self.origin)
    }
}
