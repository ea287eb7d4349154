//! Keys, envelopes and blinded names: what stands between a bot's secrets and whoever reads Valkey.
//!
//! Nothing here does I/O but reading and replacing the keyring file, and nothing here knows a clock or a Valkey key name.
//! Whatever is sealed is bound to its place (a [`Context`]), so it cannot be moved, swapped or renamed unnoticed; every
//! record has a key of its own, so no count of records wears a key out.

mod canary;
mod compress;
mod context;
mod envelope;
mod kdf;
mod keyring;
mod keyring_edit;
mod keyring_file;
mod keyring_text;
mod names;
mod payload;
mod root_key;
mod rotation;
mod shared;
mod stream;

#[cfg(test)]
mod tests;

pub use canary::{check_canary, seal_canary};
pub use context::{Context, lp, take_lp};
pub use envelope::{MAX_PLAINTEXT, OVERHEAD, OpenError, Opened, envelope_revision};
pub use keyring::{KeyState, Keyring, KeyringError};
pub use names::{IndexNameKey, OwnerTag, RecordField, TypeCode};
pub use payload::{RecordPayload, ValueKind};
pub use root_key::{RecordKeys, RootKey, UnwrapError, WRAPPED_LEN, rewrap, unwrap, wrap, wrapped_kek_id};
pub use shared::{Reload, SharedKeyring};
pub use stream::{BlobKey, PREAMBLE, SEAL_OVERHEAD, SEGMENT, SegmentOpener, SegmentSealer};

/// Fills `bytes` from the operating system's generator.
///
/// # Panics
/// When the operating system has no randomness to give: nothing may be sealed then, and there is nothing to fall back on.
fn fill_random(bytes: &mut [u8]) {
    if let Err(error) = getrandom::fill(bytes) {
        panic!("the operating system gives no randomness: {error}");
    }
}

fn random_salt() -> [u8; kdf::SALT_LEN] {
    let mut salt = [0; kdf::SALT_LEN];
    fill_random(&mut salt);
    salt
}

/// The first `N` bytes of `bytes` from `at`, if they are there.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
