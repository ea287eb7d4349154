//! The keyring: the index key that blinds owner names, and the keys that wrap root keys. It lives in a file outside Valkey;
//! who holds it and the database holds everything, so errors name the file and the entry and never a byte of a key.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use thiserror::Error;
use zeroize::Zeroizing;

use super::{
    IndexNameKey, OwnerTag,
    kdf::{HmacSha256, Prk, Secret32},
    names,
};

/// More keys than any rotation needs; a bound for a file that is no keyring.
pub(super) const MAX_KEYS: usize = 256;

/// What a key is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// Wraps and unwraps. Exactly one key is.
    Primary,
    /// Unwraps only.
    DecryptOnly,
    /// Neither; on its way out.
    Disabled,
}

impl KeyState {
    /// As the file spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::DecryptOnly => "decrypt_only",
            Self::Disabled => "disabled",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Primary, Self::DecryptOnly, Self::Disabled].into_iter().find(|state| state.as_str() == text)
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a keyring is refused, and what to do. Holds no key material.
#[derive(Debug, Error)]
#[error("{}{what}", .path.as_ref().map(|path| format!("keyring {}: ", path.display())).unwrap_or_default())]
pub struct KeyringError {
    path: Option<PathBuf>,
    what: String,
    missing: bool,
}

impl KeyringError {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { path: None, what: what.into(), missing: false }
    }

    pub(super) fn missing(what: impl Into<String>) -> Self {
        Self { missing: true, ..Self::new(what) }
    }

    pub(super) fn at(self, path: &Path) -> Self {
        Self { path: Some(path.to_owned()), ..self }
    }

    /// Whether there is no file at all: the one case in which a first start may make one.
    pub fn is_missing(&self) -> bool {
        self.missing
    }
}

/// One wrapping key.
pub(super) struct Key {
    pub(super) id: u32,
    pub(super) state: KeyState,
    pub(super) secret: Secret32,
}

impl Key {
    /// What wraps root keys.
    pub(super) fn wrapping(&self) -> Prk {
        Prk::new(&Prk::new(self.secret.bytes()).derive("pannier/v1/wrap"))
    }

    /// What seals this key's canary.
    pub(super) fn canary(&self) -> Prk {
        Prk::new(&Prk::new(self.secret.bytes()).derive("pannier/v1/canary"))
    }
}

/// A valid keyring: one primary, no two keys alike. Wiped on drop.
pub struct Keyring {
    pub(super) index_key: Secret32,
    owner_tags: HmacSha256,
    index_names: IndexNameKey,
    pub(super) keys: Vec<Key>,
    primary: usize,
}

impl Keyring {
    /// A new keyring with one key, and its file's text.
    ///
    /// # Panics
    /// When the operating system has no randomness.
    pub fn generate() -> (Self, Zeroizing<String>) {
        let key = Key { id: 1, state: KeyState::Primary, secret: Secret32::random() };
        let keyring = Self::assemble(Secret32::random(), vec![key], 0);
        let text = keyring.to_toml();
        (keyring, text)
    }

    /// Checks what must hold over all keys together.
    pub(super) fn new(index_key: Secret32, keys: Vec<Key>) -> Result<Self, KeyringError> {
        let mut ids = BTreeMap::new();
        for (at, key) in keys.iter().enumerate() {
            if let Some(first) = ids.insert(key.id, at) {
                return Err(KeyringError::new(format!(
                    "[[key]] number {} and number {} have the same id {}: give each its own",
                    first + 1,
                    at + 1,
                    key.id
                )));
            }
            if key.secret.same(&index_key) {
                return Err(KeyringError::new(format!(
                    "key {} has the bytes of index_key: make it anew",
                    key.id
                )));
            }
            if let Some(twin) = keys[..at].iter().find(|other| other.secret.same(&key.secret)) {
                return Err(KeyringError::new(format!(
                    "keys {} and {} have the same bytes: a new id needs a new secret",
                    twin.id, key.id
                )));
            }
        }
        let mut primaries = (0..keys.len()).filter(|at| keys[*at].state == KeyState::Primary);
        match (primaries.next(), primaries.next()) {
            (Some(primary), None) => Ok(Self::assemble(index_key, keys, primary)),
            (None, _) => Err(KeyringError::new("no key is the primary: set state = \"primary\" on one")),
            (Some(one), Some(two)) => Err(KeyringError::new(format!(
                "keys {} and {} are both primary: set one of them to decrypt_only",
                keys[one].id, keys[two].id
            ))),
        }
    }

    fn assemble(index_key: Secret32, keys: Vec<Key>, primary: usize) -> Self {
        Self {
            owner_tags: names::hmac(index_key.bytes()),
            index_names: IndexNameKey::new(&Prk::new(index_key.bytes())),
            index_key,
            keys,
            primary,
        }
    }

    /// The key that wraps new root keys.
    pub fn primary_id(&self) -> u32 {
        self.primary().id
    }

    /// Every key's id and state, in the file's order.
    pub fn ids(&self) -> Vec<(u32, KeyState)> {
        self.keys.iter().map(|key| (key.id, key.state)).collect()
    }

    /// The blinded name of an owner; `name` is empty for kinds that have none.
    pub fn owner_tag(&self, kind: &str, namespace: &str, name: &str) -> OwnerTag {
        OwnerTag::new(&self.owner_tags, kind, namespace, name)
    }

    /// What seals the names of the listing.
    pub fn index_name_key(&self) -> &IndexNameKey {
        &self.index_names
    }

    /// Whether both blind names in the same way; if not, one finds nothing of the other's.
    pub fn same_index_key(&self, other: &Self) -> bool {
        self.index_key.same(&other.index_key)
    }

    pub(super) fn primary(&self) -> &Key {
        &self.keys[self.primary]
    }

    pub(super) fn key(&self, id: u32) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// Whether both are the same in every key and state.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.same_index_key(other)
            && self.keys.len() == other.keys.len()
            && self
                .keys
                .iter()
                .zip(&other.keys)
                .all(|(a, b)| a.id == b.id && a.state == b.state && a.secret.same(&b.secret))
    }
}

/// Ids and states, never bytes.
impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("keys", &self.ids()).finish_non_exhaustive()
    }
}
