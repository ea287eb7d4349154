//! What the storage design fixes, and what an attacker who can write the database may try.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod keyring;
mod keyring_file;
mod known_answers;
mod tampering;
mod timing;
mod vectors;

use super::{
    Keyring, RecordKeys, RootKey,
    kdf::Secret32,
    keyring::{Key, KeyState},
};

/// `N` bytes counting up from `first`.
fn counting<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|at| first.wrapping_add(u8::try_from(at).unwrap()))
}

/// index_key = 40..5f, key 1 = 00..1f.
fn keyring() -> Keyring {
    keyring_of(&[(1, KeyState::Primary, 0x00)])
}

fn keyring_of(keys: &[(u32, KeyState, u8)]) -> Keyring {
    let keys =
        keys.iter().map(|&(id, state, first)| Key { id, state, secret: Secret32::copy_of(&counting(first)) });
    Keyring::new(Secret32::copy_of(&counting(0x40)), keys.collect()).unwrap()
}

/// R = 20..3f.
fn root() -> RootKey {
    RootKey::from_bytes(counting(0x20))
}

fn record_keys() -> RecordKeys {
    root().record_keys()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
