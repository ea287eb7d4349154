//! The keyring: the index key that blinds owner names, and the keys that wrap root keys. It lives in a file outside Valkey;
//! who holds it and the database holds everything, so errors name the file and the entry and never a byte of a key.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    path::{Path, PathBuf},
};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use zeroize::Zeroizing;

use super::{
    IndexNameKey, OwnerTag,
    kdf::{Bytes32, HmacSha256, Prk},
    names, random,
};

/// More keys than any rotation needs; a bound for a file that is no keyring.
const MAX_KEYS: usize = 256;

/// Standard base64; hand-made files often lack the padding, and it carries nothing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

const HEADING: &str = "\
# Pannier keyring. Whoever has this file and the database can read every session; without it the database cannot be
# read at all. Keep a backup apart from the database's backups. Change it with `pannier keys`, not by hand.
";

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

    fn parse(text: &str) -> Option<Self> {
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
    secret: Bytes32,
}

impl Key {
    /// What wraps root keys.
    pub(super) fn wrapping(&self) -> Prk {
        Prk::new(&Prk::new(&self.secret).derive("pannier/v1/wrap"))
    }

    /// What seals this key's canary.
    pub(super) fn canary(&self) -> Prk {
        Prk::new(&Prk::new(&self.secret).derive("pannier/v1/canary"))
    }
}

/// A valid keyring: one primary, no two keys alike. Wiped on drop.
pub struct Keyring {
    index_key: Bytes32,
    owner_tags: HmacSha256,
    index_names: IndexNameKey,
    keys: Vec<Key>,
    primary: usize,
}

impl Keyring {
    /// A new keyring with one key, and its file's text.
    ///
    /// # Panics
    /// When the operating system has no randomness.
    pub fn generate() -> (Self, Zeroizing<String>) {
        let key = Key { id: 1, state: KeyState::Primary, secret: Zeroizing::new(random()) };
        let keyring = Self::assemble(Zeroizing::new(random()), vec![key], 0);
        let text = keyring.to_toml();
        (keyring, text)
    }

    /// Parses a keyring file's text.
    ///
    /// # Errors
    /// Says which entry is wrong and what it must be.
    pub fn parse(text: &str) -> Result<Self, KeyringError> {
        // The parser's own message shows the line it stumbled on, which may hold a key.
        let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let line =
                error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
            KeyringError::new(format!("line {line} is not valid TOML"))
        })?;
        let index_key = match table.remove("index_key") {
            Some(value) => secret("index_key", value)?,
            None => return Err(KeyringError::new("index_key is missing: it must be 32 bytes in base64")),
        };
        let entries = match table.remove("key") {
            Some(toml::Value::Array(entries)) => entries,
            Some(_) => return Err(KeyringError::new("key must be a list: write each key under [[key]]")),
            None => {
                return Err(KeyringError::new("there is no [[key]]: one with state = \"primary\" is needed"));
            }
        };
        refuse_unknown("", &table)?;
        if entries.len() > MAX_KEYS {
            return Err(KeyringError::new(format!("more than {MAX_KEYS} keys")));
        }
        let mut keys = Vec::with_capacity(entries.len());
        for (at, entry) in entries.into_iter().enumerate() {
            keys.push(key(at + 1, entry)?);
        }
        Self::new(index_key, keys)
    }

    /// Checks what must hold over all keys together.
    pub(super) fn new(index_key: Bytes32, keys: Vec<Key>) -> Result<Self, KeyringError> {
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
            if key.secret.ct_eq(&*index_key).into() {
                return Err(KeyringError::new(format!(
                    "key {} has the bytes of index_key: make it anew",
                    key.id
                )));
            }
            if let Some(twin) = keys[..at].iter().find(|other| other.secret.ct_eq(&*key.secret).into()) {
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

    fn assemble(index_key: Bytes32, keys: Vec<Key>, primary: usize) -> Self {
        Self {
            owner_tags: names::hmac(&index_key),
            index_names: IndexNameKey::new(&Prk::new(&index_key)),
            index_key,
            keys,
            primary,
        }
    }

    /// The file's text.
    pub(super) fn to_toml(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(HEADING.len() + 128 * (self.keys.len() + 1)));
        text.push_str(HEADING);
        text.push_str("\n# Blinds the names of owners. Never changed: with another one nothing would be found.\nindex_key = \"");
        push_base64(&mut text, &self.index_key);
        text.push_str("\"\n");
        for key in &self.keys {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n[[key]]\nid = {}\nstate = \"{}\"\nsecret = \"", key.id, key.state);
            push_base64(&mut text, &key.secret);
            text.push_str("\"\n");
        }
        text
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
        self.index_key.ct_eq(&*other.index_key).into()
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
                .all(|(a, b)| a.id == b.id && a.state == b.state && bool::from(a.secret.ct_eq(&*b.secret)))
    }

    /// The same keys with states (or presence) changed, for the commands that edit the file.
    fn changed(&self, change: impl FnOnce(&mut Vec<Key>)) -> Result<Self, KeyringError> {
        let mut keys = self
            .keys
            .iter()
            .map(|key| Key { id: key.id, state: key.state, secret: key.secret.clone() })
            .collect();
        change(&mut keys);
        Self::new(self.index_key.clone(), keys)
    }

    fn known(&self, id: u32) -> Result<&Key, KeyringError> {
        self.key(id).ok_or_else(|| KeyringError::new(format!("there is no key {id}")))
    }

    fn with_state(&self, id: u32, state: KeyState) -> Result<Self, KeyringError> {
        self.changed(|keys| {
            for key in keys {
                if key.id == id {
                    key.state = state;
                } else if state == KeyState::Primary && key.state == KeyState::Primary {
                    key.state = KeyState::DecryptOnly;
                }
            }
        })
    }

    /// With one more key, `decrypt_only` until every sidecar knows it; gives its id.
    ///
    /// # Errors
    /// When there is no room for one more.
    ///
    /// # Panics
    /// When the operating system has no randomness.
    pub fn with_new_key(&self) -> Result<(Self, u32), KeyringError> {
        let last = self.keys.iter().map(|key| key.id).max().unwrap_or(0);
        let id = last.checked_add(1).ok_or_else(|| KeyringError::new("the key ids are used up"))?;
        if self.keys.len() >= MAX_KEYS {
            return Err(KeyringError::new(format!("there are {MAX_KEYS} keys: remove disabled ones first")));
        }
        let key = Key { id, state: KeyState::DecryptOnly, secret: Zeroizing::new(random()) };
        Ok((self.changed(|keys| keys.push(key))?, id))
    }

    /// With `id` as the primary; the former one becomes `decrypt_only`.
    ///
    /// # Errors
    /// When there is no such key, or it is disabled.
    pub fn with_primary(&self, id: u32) -> Result<Self, KeyringError> {
        match self.known(id)?.state {
            KeyState::Disabled => Err(KeyringError::new(format!(
                "key {id} is disabled: set it to decrypt_only everywhere first"
            ))),
            KeyState::Primary | KeyState::DecryptOnly => self.with_state(id, KeyState::Primary),
        }
    }

    /// With `id` disabled. Owners still wrapped under it can no longer be opened: rewrap first.
    ///
    /// # Errors
    /// When there is no such key, or it is the primary.
    pub fn with_disabled(&self, id: u32) -> Result<Self, KeyringError> {
        match self.known(id)?.state {
            KeyState::Primary => {
                Err(KeyringError::new(format!("key {id} is the primary: promote another one first")))
            }
            KeyState::DecryptOnly | KeyState::Disabled => self.with_state(id, KeyState::Disabled),
        }
    }

    /// With a disabled `id` back as `decrypt_only`.
    ///
    /// # Errors
    /// When there is no such key, or it is the primary.
    pub fn with_enabled(&self, id: u32) -> Result<Self, KeyringError> {
        match self.known(id)?.state {
            KeyState::Primary => {
                Err(KeyringError::new(format!("key {id} is the primary: it is not disabled")))
            }
            KeyState::DecryptOnly | KeyState::Disabled => self.with_state(id, KeyState::DecryptOnly),
        }
    }

    /// Without `id`, which must be disabled.
    ///
    /// # Errors
    /// When there is no such key, or it is still in use.
    pub fn without(&self, id: u32) -> Result<Self, KeyringError> {
        match self.known(id)?.state {
            KeyState::Disabled => self.changed(|keys| keys.retain(|key| key.id != id)),
            state => {
                Err(KeyringError::new(format!("key {id} is {state}: only a disabled key can be removed")))
            }
        }
    }
}

/// Ids and states, never bytes.
impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("keys", &self.ids()).finish_non_exhaustive()
    }
}

/// Reads the `at`-th entry under `[[key]]`.
fn key(at: usize, entry: toml::Value) -> Result<Key, KeyringError> {
    let whose = |what: &str| format!("[[key]] number {at}: {what}");
    let toml::Value::Table(mut entry) = entry else {
        return Err(KeyringError::new(whose("must be a table")));
    };
    let id = match entry.remove("id") {
        Some(toml::Value::Integer(id)) => u32::try_from(id).ok(),
        _ => None,
    };
    let id = id.ok_or_else(|| KeyringError::new(whose("id must be a whole number from 0 to 4294967295")))?;
    let state = match entry.remove("state") {
        Some(toml::Value::String(state)) => KeyState::parse(&state),
        _ => None,
    };
    let state = state.ok_or_else(|| {
        KeyringError::new(whose("state must be \"primary\", \"decrypt_only\" or \"disabled\""))
    })?;
    let secret = match entry.remove("secret") {
        Some(value) => secret(&whose("secret"), value)?,
        None => return Err(KeyringError::new(whose("secret is missing: it must be 32 bytes in base64"))),
    };
    refuse_unknown(&whose(""), &entry)?;
    Ok(Key { id, state, secret })
}

fn secret(whose: &str, value: toml::Value) -> Result<Bytes32, KeyringError> {
    let toml::Value::String(text) = value else {
        return Err(KeyringError::new(format!("{whose} must be a string: 32 bytes in base64")));
    };
    let text = Zeroizing::new(text);
    // Decoding wants a little more room than the bytes need.
    let mut bytes = Zeroizing::new(vec![0; text.len()]);
    let len = BASE64
        .decode_slice(text.trim(), &mut bytes)
        .map_err(|_| KeyringError::new(format!("{whose} is not valid base64")))?;
    let Ok(array) = <&[u8; 32]>::try_from(&bytes[..len]) else {
        return Err(KeyringError::new(format!("{whose} has {len} bytes: it must have 32")));
    };
    Ok(Zeroizing::new(*array))
}

/// A misspelt entry would otherwise be a silent default. Names that could be a misplaced secret are not shown.
fn refuse_unknown(whose: &str, rest: &toml::Table) -> Result<(), KeyringError> {
    let Some(name) = rest.keys().next() else { return Ok(()) };
    let plain =
        name.len() <= 24 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let shown = if plain { format!("unknown entry {name:?}") } else { "an unknown entry".to_owned() };
    Err(KeyringError::new(format!("{whose}{shown}: remove it")))
}

fn push_base64(text: &mut String, bytes: &[u8; 32]) {
    let mut buffer = Zeroizing::new([0; 44]);
    if let Ok(len) = BASE64.encode_slice(bytes, &mut *buffer)
        && let Ok(encoded) = str::from_utf8(&buffer[..len])
    {
        text.push_str(encoded);
    }
}
