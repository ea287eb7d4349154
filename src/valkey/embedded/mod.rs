//! The embedded default: a private `valkey-server` child on a unix socket, its data in the user's data directory. It is a
//! real Valkey, so there is one way of storing, not two.
//!
//! Two locks keep a data directory to one sidecar (`pannier.lock`) and one server (`valkey.lock`, held by the server
//! itself for as long as it lives, whoever started it). What is made on a first start is made in this order, each fsynced:
//! the keyring, the database, the `store-id` file. So data without a keyring, or an empty database beside a `store-id`, is
//! always a loss and never a first start.

mod child;
mod data_dir;
mod examine;
mod memory;
mod server_binary;
mod stop;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::crypto::{Keyring, SharedKeyring};

use super::StartError;
pub(super) use child::{Child, ChildError};
use data_dir::DataDir;
pub use examine::examine_embedded;
use server_binary::ServerBinary;
pub use stop::{Stopped, running_embedded, stop_orphan};

/// Longest path of a unix socket that every system takes.
const MAX_SOCKET_PATH: usize = 100;
/// An fsync above this slows every commit down enough to be worth a word.
const SLOW_FSYNC: Duration = Duration::from_millis(10);
/// How long a sidecar that is just ending may still hold the data directory.
const LOCK_WITHIN: Duration = Duration::from_secs(3);

/// When the child's AOF is synced to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Before each reply: survives a crash of the host.
    #[default]
    Always,
    /// Once a second: a crash of the host sets sessions back by up to a second.
    Everysec,
}

impl Fsync {
    fn setting(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Everysec => "everysec",
        }
    }
}

/// How the child is run.
#[derive(Clone, Debug)]
pub struct EmbeddedConfig {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// The directory of our own socket; the child's goes beside it.
    pub socket_dir: PathBuf,
    /// The server binary; else one is looked for.
    pub server: Option<PathBuf>,
    /// `appendfsync`.
    pub fsync: Fsync,
    /// `maxmemory` in bytes; else 60 % of what the host or cgroup has.
    pub maxmemory: Option<u64>,
}

struct Prepared {
    dir: DataDir,
    server: ServerBinary,
    socket: PathBuf,
    fsync: Fsync,
    maxmemory: u64,
}

/// A locked data directory, ready for its server. It stays locked until the last clone is dropped.
#[derive(Clone)]
pub struct Embedded(Arc<Prepared>);

impl Embedded {
    /// Locks the data directory, finds a server, and reads the keyring or, on a first start, makes one.
    ///
    /// # Errors
    /// Whatever a human must mend: the process is to exit with the error's code.
    pub async fn prepare(
        config: EmbeddedConfig,
        keyring_path: &Path,
    ) -> Result<(Self, SharedKeyring), StartError> {
        let refuse = StartError::Config;
        let dir = DataDir::create(&config.data_dir).map_err(refuse)?;
        let until = Instant::now() + LOCK_WITHIN;
        let dir = loop {
            match dir.lock() {
                Ok(locked) => break locked,
                Err(_) if Instant::now() < until => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(why) => return Err(refuse(why)),
            }
        };
        let socket = dir.socket_path(&config.socket_dir);
        if [dir.path(), &socket].iter().any(|path| path.to_str().is_none()) {
            return Err(refuse("the paths of data directory and socket must be UTF-8".into()));
        }
        if socket.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(refuse(format!(
                "the socket path {} is longer than {MAX_SOCKET_PATH} bytes: give a shorter --socket",
                socket.display()
            )));
        }
        let remembered = dir.engine().map_err(refuse)?;
        let server =
            server_binary::find(config.server.as_deref(), remembered.as_ref()).await.map_err(refuse)?;
        if let Some(remembered) = &remembered {
            server_binary::check_compatible(remembered, &server).map_err(refuse)?;
        }
        let keyring = keyring(&dir, keyring_path).map_err(refuse)?;
        let maxmemory = config.maxmemory.unwrap_or_else(memory::default_maxmemory);
        measure_fsync(&dir).await;
        let prepared = Prepared { dir, server, socket, fsync: config.fsync, maxmemory };
        Ok((Self(Arc::new(prepared)), keyring))
    }

    /// The socket of the child.
    pub fn socket(&self) -> &Path {
        &self.0.socket
    }

    pub(super) fn child(&self) -> Child {
        Child::new(Arc::clone(&self.0))
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("data_dir", &self.0.dir.path()).finish_non_exhaustive()
    }
}

fn keyring(dir: &DataDir, path: &Path) -> Result<SharedKeyring, String> {
    match Keyring::load(path) {
        Ok(keyring) => return Ok(SharedKeyring::with_file(keyring, path)),
        Err(error) if !error.is_missing() => return Err(error.to_string()),
        Err(_) => {}
    }
    if dir.holds_data() {
        return Err(format!(
            "{} holds data, but its keyring {} is gone: restore keyring.toml from its backup; without it the data cannot \
             be read",
            dir.path().display(),
            path.display()
        ));
    }
    if let Some(parent) = path.parent() {
        data_dir::create_private(parent)?;
    }
    let (keyring, _) = Keyring::generate();
    keyring.save_new(path).map_err(|error| error.to_string())?;
    tracing::warn!(
        keyring = %path.display(),
        "a new keyring was made: BACK IT UP. Without it nothing that is stored can ever be read"
    );
    Ok(SharedKeyring::with_file(keyring, path))
}

/// The directory of the socket, private if we have to make it.
fn create_socket_dir(socket: &Path) -> Result<(), String> {
    socket.parent().map_or(Ok(()), data_dir::create_private)
}

async fn measure_fsync(dir: &DataDir) {
    let path = dir.path().to_path_buf();
    let cost = tokio::task::spawn_blocking(move || data_dir::fsync_cost(&path)).await;
    match cost {
        Ok(Ok(cost)) if cost > SLOW_FSYNC => tracing::warn!(
            fsync_ms = %cost.as_millis(),
            "an fsync is slow on this disk, and every commit waits for one: put --data-dir on a faster disk, or accept the \
             loss of a second with --embedded-fsync everysec"
        ),
        Ok(Ok(cost)) => tracing::info!(fsync_us = %cost.as_micros(), "what one fsync costs here"),
        Ok(Err(error)) => tracing::warn!(%error, "could not measure what an fsync costs"),
        Err(_) => {}
    }
}
