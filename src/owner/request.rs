//! Request ids as records remember them: so that a call sent again is seen to be the same.

use crate::crypto::{Keyring, OwnerTag};

/// Stands for a request id of one owner; 7 bytes, to which a record adds one that says what came of it.
pub fn mark(keyring: &Keyring, owner: &OwnerTag, request_id: &str) -> Vec<u8> {
    blinded(keyring, "request", owner, request_id)[..7].to_vec()
}

/// Stands for a text where only its equality matters; `kind` keeps equal texts of different kinds apart.
pub fn blinded(keyring: &Keyring, kind: &str, owner: &OwnerTag, text: &str) -> [u8; 16] {
    *keyring.owner_tag(kind, &owner.to_string(), text).as_bytes()
}
