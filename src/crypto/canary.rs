//! A canary: a known text sealed under a key of the keyring and kept in Valkey. It opens only under the same bytes, so it
//! tells "another key under this id" from "an altered record".

use super::{Context, Keyring, envelope, kdf::Prk};

pub(super) const PLAINTEXT: &[u8] = b"pannier";

/// The canary of key `id`; `None` when the keyring does not have it.
///
/// # Panics
/// When the operating system has no randomness.
pub fn seal_canary(keyring: &Keyring, id: u32) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    envelope::seal(&key(keyring, id)?, 0, 0, &context(id), PLAINTEXT, &mut out);
    Some(out)
}

/// Whether `canary` was made under the key that this keyring has as `id`.
pub fn check_canary(keyring: &Keyring, id: u32, canary: &[u8]) -> bool {
    key(keyring, id)
        .and_then(|key| envelope::open(&key, &context(id), canary).ok())
        .is_some_and(|opened| opened.plaintext[..] == *PLAINTEXT)
}

pub(super) fn key(keyring: &Keyring, id: u32) -> Option<Prk> {
    Some(keyring.key(id)?.canary())
}

pub(super) fn context(id: u32) -> Context {
    Context::new("canary", &[id.to_string().as_bytes()])
}
