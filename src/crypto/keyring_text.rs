//! The keyring as TOML. A parser's own messages quote what they stumble on, and that may be a key: ours never do.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use zeroize::Zeroizing;

use super::{
    KeyState, Keyring, KeyringError,
    kdf::Secret32,
    keyring::{Key, MAX_KEYS},
};

/// Standard base64; hand-made files often lack the padding, and it carries nothing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

const HEADING: &str = "\
# Pannier keyring. Whoever has this file and the database can read every session; without it the database cannot be
# read at all. Keep a backup apart from the database's backups. Change it with `pannier keys`, not by hand.
";

impl Keyring {
    /// Parses a keyring file's text.
    ///
    /// # Errors
    /// Says which entry is wrong and what it must be.
    pub fn parse(text: &str) -> Result<Self, KeyringError> {
        // The parser's own message shows the line it stumbled on, which may hold a key.
        let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.as_bytes()[..before].split(|byte| *byte == b'\n').count();
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

    /// The file's text.
    pub(super) fn to_toml(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(HEADING.len() + 128 * (self.keys.len() + 1)));
        text.push_str(HEADING);
        text.push_str("\nindex_key = \"");
        push_base64(&mut text, self.index_key.bytes());
        text.push_str("\"\n");
        for key in &self.keys {
            key.push_to(&mut text);
        }
        text
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

fn secret(whose: &str, value: toml::Value) -> Result<Secret32, KeyringError> {
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
    Ok(Secret32::copy_of(array))
}

/// A misspelt entry would otherwise be a silent default. Names that could be a misplaced secret are not shown.
fn refuse_unknown(whose: &str, rest: &toml::Table) -> Result<(), KeyringError> {
    let Some(name) = rest.keys().next() else { return Ok(()) };
    let plain =
        name.len() <= 24 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let shown = if plain { format!("unknown entry {name:?}") } else { "an unknown entry".to_owned() };
    Err(KeyringError::new(format!("{whose}{shown}: remove it")))
}

pub(super) fn push_base64(text: &mut String, bytes: &[u8; 32]) {
    let mut buffer = Zeroizing::new([0; 44]);
    if let Ok(len) = BASE64.encode_slice(bytes, &mut *buffer)
        && let Ok(encoded) = str::from_utf8(&buffer[..len])
    {
        text.push_str(encoded);
    }
}
