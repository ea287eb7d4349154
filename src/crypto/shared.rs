//! The keyring that a running sidecar uses, replaced as a whole when its file changes.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;

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
        Self(Arc::new(Inner { current: ArcSwap::from_pointee(keyring), path }))
    }

    /// The keyring as it is now.
    pub fn current(&self) -> Arc<Keyring> {
        self.0.current.load_full()
    }

    /// The file it is read from.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Reads the file again. A file that is refused changes nothing: the sidecar goes on with what it has.
    ///
    /// # Errors
    /// As [`Keyring::load`]; also when the index key is another, since nothing stored would be found under it.
    pub fn reload(&self) -> Result<Reload, KeyringError> {
        let Some(path) = self.path() else { return Ok(Reload::Unchanged) };
        let fresh = Keyring::load(path)?;
        let current = self.current();
        if !fresh.same_index_key(&current) {
            return Err(KeyringError::new(
                "index_key is not the one in use: it must never change; restore it",
            )
            .at(path));
        }
        if fresh.same(&current) {
            return Ok(Reload::Unchanged);
        }
        let new_primary = fresh.primary_id() != current.primary_id();
        self.0.current.store(Arc::new(fresh));
        Ok(Reload::Changed { new_primary })
    }

    /// For a key id that is not there: the keyring of the file if that is another one by now.
    pub(super) fn reread(&self) -> Option<Arc<Keyring>> {
        match self.reload() {
            Ok(Reload::Changed { new_primary }) => {
                tracing::info!(new_primary, "the keyring file has changed and was read again");
                Some(self.current())
            }
            // Another task may have read it between our look and now.
            Ok(Reload::Unchanged) => Some(self.current()),
            Err(error) => {
                tracing::warn!(%error, "the keyring file was not taken");
                None
            }
        }
    }
}
