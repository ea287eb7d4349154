//! An owner's root key, stored only wrapped under a key of the keyring, and the keys derived from it.
//!
//! ```text
//! wrapped: 'P' 01 81 00 | u32be kek_id | u32be epoch | salt[24] | commitment[32] | ct[32] | tag[16]
//! ```

use thiserror::Error;
use zeroize::Zeroizing;

use super::{
    BlobKey, Context, Keyring, OpenError, Opened, SharedKeyring, array_at,
    envelope::{self, MAGIC, VERSION, aad},
    kdf::{COMMITMENT_LEN, HmacSha256, Prk, SALT_LEN, Secret32, TAG_LEN},
    keyring::KeyState,
    random_salt,
};

const SUITE_WRAP: u8 = 0x81;
const HEADER_LEN: usize = 36;
const BODY_AT: usize = HEADER_LEN + COMMITMENT_LEN;

/// The length of a wrapped root key, in bytes.
pub const WRAPPED_LEN: usize = BODY_AT + 32 + TAG_LEN;

/// 32 random bytes that everything of one owner is sealed under. Wiped on drop; no `Debug`.
pub struct RootKey(Secret32);

impl RootKey {
    /// A new one.
    pub fn generate() -> Self {
        Self(Secret32::random())
    }

    #[cfg(test)]
    pub(super) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Secret32::copy_of(&bytes))
    }

    #[cfg(test)]
    pub(super) fn as_bytes(&self) -> &[u8; 32] {
        self.0.bytes()
    }

    /// The keys that seal the owner's records and blind their names.
    pub fn record_keys(&self) -> RecordKeys {
        let root = Prk::new(self.0.bytes());
        RecordKeys {
            record: Prk::new(&root.derive("pannier/v1/record")),
            name: super::names::hmac(&root.derive("pannier/v1/name")),
        }
    }
}

impl RootKey {
    /// The key that seals the bodies of a blob.
    pub fn blob_key(&self) -> BlobKey {
        BlobKey(Prk::new(&Prk::new(self.0.bytes()).derive("pannier/v1/blob")))
    }
}

/// `k_record` and `k_name` of one owner, ready to use. Wiped on drop; no `Debug`.
pub struct RecordKeys {
    pub(super) record: Prk,
    pub(super) name: HmacSha256,
}

impl RecordKeys {
    /// Appends `plaintext` sealed for `ctx` to `out` ([`super::OVERHEAD`] bytes more, or fewer where compression pays).
    ///
    /// # Panics
    /// When the operating system has no randomness.
    pub fn seal(&self, epoch: u32, revision: u64, ctx: &Context, plaintext: &[u8], out: &mut Vec<u8>) {
        envelope::seal(&self.record, epoch, revision, ctx, plaintext, out);
    }

    /// Opens what [`RecordKeys::seal`] made for the same context; gives at most [`super::MAX_PLAINTEXT`] bytes out of a
    /// compressed body.
    ///
    /// # Errors
    /// Says whether it is no envelope, one of a newer format, or an altered one.
    pub fn open(&self, ctx: &Context, envelope: &[u8]) -> Result<Opened, OpenError> {
        envelope::open(&self.record, ctx, envelope)
    }

    /// Opens a record found in a walk, whose type and id only its plaintext tells. `context` makes the context of the
    /// plaintext, which is not proven yet, and `None` where it does not fit the place; the context then proves it.
    ///
    /// # Errors
    /// As [`RecordKeys::open`].
    pub fn open_unnamed(
        &self,
        envelope: &[u8],
        context: impl FnOnce(&[u8]) -> Option<Context>,
    ) -> Result<Opened, OpenError> {
        envelope::open_unnamed(&self.record, envelope, context)
    }
}

/// Why a root key does not unwrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnwrapError {
    /// Wrapped under a key the keyring does not have, also after reading it again.
    #[error("sealed with key {0}, which the keyring does not have")]
    UnknownKeyId(u32),
    /// Wrapped under a key the keyring has disabled.
    #[error("sealed with key {0}, which the keyring has disabled")]
    DisabledKeyId(u32),
    /// The commitment is not this key's: another key under the same id, or altered. The canary of the id tells which.
    #[error("sealed with another key of the same id, or altered")]
    Mismatch,
    /// The key is the right one, but the rest was altered or belongs to another owner.
    #[error("altered, or another owner's")]
    Corrupt,
    /// A version, suite or flag that this build does not know.
    #[error("wrapped in a format this version does not know")]
    UnknownFormat,
    /// No wrapped root key.
    #[error("this is no wrapped key")]
    Malformed,
}

/// Wraps `root` under the primary key for `ctx` = context(kind, namespace, owner).
///
/// # Panics
/// When the operating system has no randomness.
pub fn wrap(keyring: &Keyring, root: &RootKey, epoch: u32, ctx: &Context) -> [u8; WRAPPED_LEN] {
    wrap_with(keyring, root, epoch, ctx, &random_salt())
}

/// As [`wrap`] with a given salt: for known answers.
pub(super) fn wrap_with(
    keyring: &Keyring,
    root: &RootKey,
    epoch: u32,
    ctx: &Context,
    salt: &[u8; SALT_LEN],
) -> [u8; WRAPPED_LEN] {
    let key = keyring.primary();
    let mut out = [0; WRAPPED_LEN];
    let (header, rest) = out.split_at_mut(HEADER_LEN);
    header[..4].copy_from_slice(&[MAGIC, VERSION, SUITE_WRAP, 0]);
    header[4..8].copy_from_slice(&key.id.to_be_bytes());
    header[8..12].copy_from_slice(&epoch.to_be_bytes());
    header[12..].copy_from_slice(salt);
    let okm = key.wrapping().okm(header);
    let (commitment, rest) = rest.split_at_mut(COMMITMENT_LEN);
    commitment.copy_from_slice(okm.commitment());
    let (body, tag) = rest.split_at_mut(32);
    body.copy_from_slice(root.0.bytes());
    tag.copy_from_slice(&okm.encrypt(&aad(header, ctx), body));
    out
}

/// The id of the key that `wrapped` claims to be wrapped under.
pub fn wrapped_kek_id(wrapped: &[u8]) -> Option<u32> {
    if wrapped.len() != WRAPPED_LEN || wrapped[..3] != [MAGIC, VERSION, SUITE_WRAP] {
        return None;
    }
    array_at(wrapped, 4).map(u32::from_be_bytes)
}

/// Unwraps a root key and gives the epoch it was wrapped at. A key id that the keyring does not have (or has disabled)
/// makes the keyring file be read once more.
///
/// # Errors
/// [`UnwrapError`] says whose fault it is.
pub fn unwrap(keyring: &SharedKeyring, wrapped: &[u8], ctx: &Context) -> Result<(RootKey, u32), UnwrapError> {
    let current = keyring.current();
    match unwrap_with(&current, wrapped, ctx) {
        Err(why @ (UnwrapError::UnknownKeyId(_) | UnwrapError::DisabledKeyId(_))) => match keyring.reread() {
            Some(fresh) => unwrap_with(&fresh, wrapped, ctx),
            None => Err(why),
        },
        done => done,
    }
}

/// The same root key wrapped under the primary key, for the same context and epoch; `None` when it is so already.
///
/// # Errors
/// [`UnwrapError`]; the keyring's file is not read again.
///
/// # Panics
/// When the operating system has no randomness.
pub fn rewrap(
    keyring: &Keyring,
    wrapped: &[u8],
    ctx: &Context,
) -> Result<Option<[u8; WRAPPED_LEN]>, UnwrapError> {
    if wrapped_kek_id(wrapped) == Some(keyring.primary_id()) {
        return Ok(None);
    }
    let (root, epoch) = unwrap_with(keyring, wrapped, ctx)?;
    let anew = wrap(keyring, &root, epoch, ctx);
    // It replaces the only copy there is: what would not open again must not be written.
    match unwrap_with(keyring, &anew, ctx) {
        Ok((same, _)) if same.0.same(&root.0) => Ok(Some(anew)),
        _ => Err(UnwrapError::Malformed),
    }
}

fn unwrap_with(keyring: &Keyring, wrapped: &[u8], ctx: &Context) -> Result<(RootKey, u32), UnwrapError> {
    if wrapped.len() != WRAPPED_LEN || wrapped[0] != MAGIC {
        return Err(UnwrapError::Malformed);
    }
    if wrapped[1..4] != [VERSION, SUITE_WRAP, 0] {
        return Err(UnwrapError::UnknownFormat);
    }
    let (Some(id), Some(epoch)) = (array_at(wrapped, 4), array_at(wrapped, 8)) else {
        return Err(UnwrapError::Malformed);
    };
    let id = u32::from_be_bytes(id);
    let key = keyring.key(id).ok_or(UnwrapError::UnknownKeyId(id))?;
    if key.state == KeyState::Disabled {
        return Err(UnwrapError::DisabledKeyId(id));
    }
    let (header, rest) = wrapped.split_at(HEADER_LEN);
    let (commitment, rest) = rest.split_at(COMMITMENT_LEN);
    let okm = key.wrapping().okm(header);
    if !okm.commits_to(commitment) {
        return Err(UnwrapError::Mismatch);
    }
    let (Some(root), Some(tag)) = (array_at::<32>(rest, 0), array_at(rest, 32)) else {
        return Err(UnwrapError::Malformed);
    };
    let mut root = Zeroizing::new(root);
    if !okm.decrypt(&aad(header, ctx), &mut *root, tag) {
        return Err(UnwrapError::Corrupt);
    }
    Ok((RootKey(Secret32::copy_of(&root)), u32::from_be_bytes(epoch)))
}
