//! A database as a whole: carried to another server, or renamed after it was copied. No sidecar may use it meanwhile. While it is
//! under way `pannier:environment` holds a word that no sidecar takes for a database; its true value is written last, in one
//! command, so that what was broken off is never used and can be run again.

mod adopt;
mod contents;
mod migrate;

pub use adopt::{Adopted, Adoption};
pub use contents::{Contents, Fingerprint};
pub use migrate::{Migrated, Stage, migrate};

use redis::{Cmd, Value, cmd};

use crate::{
    crypto::Keyring,
    rotation::{alive, registry_key},
    valkey::{Depot, ENVIRONMENT},
};

/// Why it was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// Valkey does not answer, or not as expected. To be run again.
    #[error("{0}")]
    Broken(String),
    /// A person must decide.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for Stopped {
    fn from(why: String) -> Self {
        Self::Broken(why)
    }
}

/// What `pannier:environment` says; empty: nothing.
async fn environment(depot: &Depot) -> Result<String, String> {
    let mut read = cmd("GET");
    read.arg(ENVIRONMENT);
    match depot.ask(read).await? {
        Value::BulkString(value) => Ok(String::from_utf8_lossy(&value).into_owned()),
        _ => Ok(String::new()),
    }
}

/// Writes what `pannier:environment` says.
async fn set_environment(depot: &Depot, value: &str) -> Result<(), String> {
    let mut write = cmd("SET");
    write.arg(ENVIRONMENT).arg(value);
    depot.ask(write).await.map(|_| ())
}

/// Fails while a sidecar runs on this environment. One that was killed counts as running for 90 s.
async fn refuse_while_in_use(depot: &Depot, keyring: &Keyring, env: &str) -> Result<(), Stopped> {
    if depot.is_private() {
        // Its data directory is locked, by us.
        return Ok(());
    }
    let mut read = cmd("HGETALL");
    read.arg(registry_key(env));
    let (entries, now) = (depot.ask(read).await?, depot.ask(cmd("TIME")).await?);
    let running = alive(keyring, entries, &now).map_err(|error| {
        Stopped::Refused(format!(
            "the registry of sidecars cannot be read, so it is not known who runs: {error}"
        ))
    })?;
    if running.is_empty() {
        return Ok(());
    }
    let named: Vec<_> = running.iter().map(|sidecar| sidecar.shown().escape_debug().to_string()).collect();
    Err(Stopped::Refused(format!(
        "a sidecar runs on it: {}. Stop it first (`pannier stop`); one that was killed, or whose entry came with a copy, counts \
         as running for 90 s",
        named.join(", ")
    )))
}

/// A command on one key.
fn on(name: &str, key: &[u8]) -> Cmd {
    let mut command = cmd(name);
    command.arg(key);
    command
}

/// Whether a key, without its prefix, is of those that running sidecars keep for themselves: no copy has a use for it.
fn is_of_running_sidecars(rest: &[u8]) -> bool {
    rest == b"sidecars" || rest.starts_with(b"sweeper:")
}
