//! The keyring that a running sidecar uses, replaced as a whole when its file changes.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};

use super::{Keyring, KeyringError};

/// What reading the file again brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// Nothing new.
    Unchanged,
    /// Keys or states changed.
    Changed {
        /// Another key is the primary: cached root keys are to be dropped.
        new_primary: bool,
    },
}

/// A keyring shared by everything in the process. Clones are the same one.
#[derive(Clone)]
pub struct SharedKeyring(Arc<Inner>);

struct Inner {
    current: ArcSwap<Keyring>,
    path: Option<PathBuf>,
    changes: watch::Sender<()>,
    wanted: Notify,
}

impl SharedKeyring {
    /// Reads the file at `path` and keeps it for [`SharedKeyring::reload`].
    ///
    /// # Errors
    /// As [`Keyring::load`].
    pub fn load(path: &Path) -> Result<Self, KeyringError> {
        Ok(Self::with_file(Keyring::load(path)?, path))
    }

    /// A keyring that was just read from, or written to, `path`.
    pub fn with_file(keyring: Keyring, path: &Path) -> Self {
        Self::inner(keyring, Some(path.to_owned()))
    }

    /// A keyring without a file: it never changes.
    pub fn fixed(keyring: Keyring) -> Self {
        Self::inner(keyring, None)
    }

    fn inner(keyring: Keyring, path: Option<PathBuf>) -> Self {
        let current = ArcSwap::from_pointee(keyring);
        Self(Arc::new(Inner { current, path, changes: watch::Sender::new(()), wanted: Notify::new() }))
    }

    /// The keyring as it is now.
    pub fn current(&self) -> Arc<Keyring> {
        self.0.current.load_full()
    }

    /// The file it is read from.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Tells of every change.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    /// Asks for a look at the file, as when a key was needed that only it has.
    pub fn want(&self) {
        self.0.wanted.notify_one();
    }

    /// Waits until a key was needed that only the file has: it is to be looked at, and taken if it is right.
    pub async fn wanted(&self) {
        self.0.wanted.notified().await;
    }

    /// The file's keyring, if it is another one than that in use. It is not taken yet.
    ///
    /// # Errors
    /// As [`Keyring::load`]; also when the index key is another, since nothing stored would be found under it.
    pub fn read(&self) -> Result<Option<Keyring>, KeyringError> {
        let Some(path) = self.path() else { return Ok(None) };
        let fresh = Keyring::load(path)?;
        let current = self.current();
        if !fresh.same_index_key(&current) {
            return Err(KeyringError::new(
                "index_key is not the one in use: it must never change; restore it",
            )
            .at(path));
        }
        Ok((!fresh.same(&current)).then_some(fresh))
    }

    /// Uses `fresh` from now on. Says whether another key is the primary.
    pub fn take(&self, fresh: Keyring) -> bool {
        let primary = fresh.primary_id();
        let before = self.0.current.swap(Arc::new(fresh));
        self.0.changes.send_replace(());
        primary != before.primary_id()
    }

    /// Reads the file again and takes it. A file that is refused changes nothing: the sidecar goes on with what it has.
    ///
    /// # Errors
    /// As [`SharedKeyring::read`].
    pub fn reload(&self) -> Result<Reload, KeyringError> {
        Ok(match self.read()? {
            Some(fresh) => Reload::Changed { new_primary: self.take(fresh) },
            None => Reload::Unchanged,
        })
    }

    /// For a key id that is not there: the keyring of the file, for this once. It is taken by whoever waits for
    /// [`SharedKeyring::wanted`]: nothing may be wrapped under its primary before the database has proved its keys.
    pub(super) fn reread(&self) -> Option<Arc<Keyring>> {
        match self.read() {
            Ok(Some(fresh)) => {
                self.want();
                Some(Arc::new(fresh))
            }
            // Another task may have read it between our look and now.
            Ok(None) => Some(self.current()),
            Err(error) => {
                tracing::debug!(%error, "a key was looked for in the keyring file");
                self.want();
                None
            }
        }
    }
}
