//! The keys of one blob, unwrapped for one call and wiped with it.

use super::name::BlobName;
use crate::{
    crypto::{BlobKey, Keyring, RecordKeys, RootKey, SharedKeyring, UnwrapError, lp, take_lp, unwrap, wrap},
    error::Error,
};

/// The epoch of root keys; nothing raises it yet.
const EPOCH: u32 = 1;

/// The keys of a blob. No `Debug`.
pub struct BlobKeys {
    /// Written into each header.
    pub epoch: u32,
    /// Seals manifests and errors.
    pub record: RecordKeys,
    /// Seals bodies.
    pub body: BlobKey,
}

impl BlobKeys {
    /// A fresh root key, wrapped: used if the blob has none.
    pub fn propose(keyring: &Keyring, name: &BlobName) -> Vec<u8> {
        wrap(keyring, &RootKey::generate(), EPOCH, &name.key_context()).to_vec()
    }

    /// Opens a wrapped root key.
    pub fn unwrap(keyring: &SharedKeyring, name: &BlobName, wrapped: &[u8]) -> Result<Self, UnwrapError> {
        let (root, epoch) = unwrap(keyring, wrapped, &name.key_context())?;
        Ok(Self { epoch, record: root.record_keys(), body: root.blob_key() })
    }

    /// Seals why something failed.
    pub fn seal_error(&self, name: &BlobName, error: &Error) -> Vec<u8> {
        let (mut plaintext, mut out) = (Vec::new(), Vec::new());
        lp(&mut plaintext, error.reason().wire().0.as_bytes());
        lp(&mut plaintext, error.to_string().as_bytes());
        self.record.seal(self.epoch, 0, &name.error_context(), &plaintext, &mut out);
        out
    }

    /// Reason and message; `None` when it does not open.
    pub fn open_error(&self, name: &BlobName, sealed: &[u8]) -> Option<(String, String)> {
        let opened = self.record.open(&name.error_context(), sealed).ok()?;
        let mut rest = &opened.plaintext[..];
        let mut text = || String::from_utf8(take_lp(&mut rest)?.to_vec()).ok();
        Some((text()?, text()?))
    }
}
