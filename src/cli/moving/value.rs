//! A record's value as text of BufferJSON and as it is stored: bytes as they are, everything else as its text, to the letter.
//! This is what the TypeScript adapter stores too, so that a bot goes on with what was imported.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::proto::v1::{Attributes, ValueKind};

/// The largest value.
pub const VALUE_MAX: usize = 16 << 20;

const BYTES_BEGIN: &str = r#"{"type":"Buffer","data":""#;
const BYTES_END: &str = r#""}"#;

/// A value as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub kind: ValueKind,
    pub value: Vec<u8>,
}

/// Reads a text.
///
/// # Errors
///
/// Why it is corrupt. Nothing of its content is repeated.
pub fn from_text(text: Vec<u8>) -> Result<Stored, String> {
    if text.len() > VALUE_MAX {
        return Err(format!("{} bytes: a value is at most 16 MiB", text.len()));
    }
    let whole = std::str::from_utf8(&text).map_err(|_| "corrupt: not UTF-8".to_owned())?;
    if whole.trim().is_empty() {
        return Err("corrupt: empty".to_owned());
    }
    if let Err(error) = serde_json::from_str::<IgnoredAny>(whole) {
        let what = if error.is_eof() { "cut off" } else { "not JSON" };
        return Err(format!("corrupt: {what} (line {} column {})", error.line(), error.column()));
    }
    if matches!(whole.trim(), "null" | "false" | "0" | "-0" | "\"\"") {
        return Err("corrupt: holds no value".to_owned());
    }
    Ok(match canonical_bytes(whole) {
        Some(value) => Stored { kind: ValueKind::Bytes, value },
        None => Stored { kind: ValueKind::Json, value: text },
    })
}

/// The text that `useMultiFileAuthState` would have written.
///
/// # Errors
///
/// Why there is none.
pub fn to_text(stored: &Stored) -> Result<Vec<u8>, String> {
    match stored.kind {
        ValueKind::Json => match serde_json::from_slice::<IgnoredAny>(&stored.value) {
            Ok(_) => Ok(stored.value.clone()),
            Err(_) => Err("corrupt: stored as JSON, but it is none".to_owned()),
        },
        ValueKind::Text => {
            let text = String::from_utf8_lossy(&stored.value);
            Ok(serde_json::Value::from(text.as_ref()).to_string().into_bytes())
        }
        ValueKind::Bytes | ValueKind::Unspecified => {
            Ok(format!("{BYTES_BEGIN}{}{BYTES_END}", STANDARD.encode(&stored.value)).into_bytes())
        }
    }
}

/// The bytes, if the text is exactly what BufferJSON writes for them.
fn canonical_bytes(text: &str) -> Option<Vec<u8>> {
    let data = text.strip_prefix(BYTES_BEGIN)?.strip_suffix(BYTES_END)?;
    let bytes = STANDARD.decode(data).ok()?;
    (STANDARD.encode(&bytes) == data).then_some(bytes)
}

/// What listings show of an account, as the adapter gives it with its creds.
///
/// # Errors
///
/// Why these are no creds that a bot could go on with.
pub fn attributes(creds: &Stored) -> Result<Attributes, String> {
    if creds.kind != ValueKind::Json {
        return Err("corrupt: bytes, not creds".to_owned());
    }
    let found: Creds =
        serde_json::from_slice(&creds.value).map_err(|_| "corrupt: not the creds of Baileys".to_owned())?;
    for (key, seen) in [("noiseKey", found.noise_key), ("signedIdentityKey", found.signed_identity_key)] {
        if seen != Some(Seen::Object) {
            return Err(format!("corrupt: not the creds of Baileys, {key} is missing"));
        }
    }
    let is_truthy = |seen: Option<Seen>| !matches!(seen, None | Some(Seen::Falsy | Seen::Number(0)));
    let next_pre_key_id = match found.next_pre_key_id {
        Some(Seen::Number(id)) if id < 1 << 53 => Some(id),
        _ => None,
    };
    let paired = Some(is_truthy(found.registered) || is_truthy(found.me));
    Ok(Attributes { paired, next_pre_key_id, ..Attributes::default() })
}

/// What is looked at of creds. All else is passed over unread: it may hold what Rust takes for no text, such as half an emoji.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Creds {
    noise_key: Option<Seen>,
    signed_identity_key: Option<Seen>,
    registered: Option<Seen>,
    me: Option<Seen>,
    next_pre_key_id: Option<Seen>,
}

/// A value from afar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Falsy,
    Number(u64),
    Object,
    Other,
}

impl<'de> Deserialize<'de> for Seen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;
        impl<'de> Visitor<'de> for Look {
            type Value = Seen;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_unit<E>(self) -> Result<Seen, E> {
                Ok(Seen::Falsy)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Seen, E> {
                Ok(if value { Seen::Other } else { Seen::Falsy })
            }

            fn visit_u64<E>(self, value: u64) -> Result<Seen, E> {
                Ok(Seen::Number(value))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Seen, E> {
                Ok(Seen::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Seen, E> {
                Ok(Seen::Other)
            }

            fn visit_str<E>(self, value: &str) -> Result<Seen, E> {
                Ok(if value.is_empty() { Seen::Falsy } else { Seen::Other })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Seen, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Seen::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Seen, A::Error> {
                while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Seen::Object)
            }
        }
        deserializer.deserialize_any(Look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back_to_the_letter() {
        for (text, kind) in [
            (r#"{"type":"Buffer","data":"AAEC/w=="}"#, ValueKind::Bytes),
            (r#"{"type":"Buffer","data":""}"#, ValueKind::Bytes),
            (r#"{"type":"Buffer","data":"AAEC/w"}"#, ValueKind::Json),
            (r#"{"type":"Buffer","data":"AAEC/x=="}"#, ValueKind::Json),
            (r#"{"type": "Buffer","data":"AAEC/w=="}"#, ValueKind::Json),
            (r#"{"type":"Buffer","data":[1,2,255]}"#, ValueKind::Json),
            (r#"{"0":1,"1":255}"#, ValueKind::Json),
            (r#""4915112345678""#, ValueKind::Json),
            ("{\"a\":1.50,\"a\":1e2}\n", ValueKind::Json),
            ("\"\\ud800 \\u00e9é\"", ValueKind::Json),
            ("[]", ValueKind::Json),
        ] {
            let stored = from_text(text.into()).unwrap();
            assert_eq!(stored.kind, kind, "{text}");
            assert_eq!(to_text(&stored).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn what_is_corrupt_is_refused_without_a_word_of_it() {
        for (text, why) in [
            ("", "empty"),
            (" \n", "empty"),
            ("{\"secret\":\"abc", "cut off"),
            ("{\"secret\":1}}", "not JSON"),
            ("\u{feff}{}", "not JSON"),
            ("null", "no value"),
            ("\0\0\0\0", "not JSON"),
        ] {
            let refused = from_text(text.into()).unwrap_err();
            assert!(refused.contains(why) && !refused.contains("secret"), "{text:?}: {refused}");
        }
        assert!(from_text(vec![0xff, b'"']).unwrap_err().contains("UTF-8"));
        assert!(from_text(vec![b' '; VALUE_MAX + 1]).unwrap_err().contains("16 MiB"));
    }

    #[test]
    fn creds_are_known_by_their_keys() {
        let creds = |text: &str| attributes(&from_text(text.into()).unwrap());
        let found =
            creds(r#"{"noiseKey":{},"signedIdentityKey":{},"me":{"id":"x"},"nextPreKeyId":31}"#).unwrap();
        assert_eq!((found.paired, found.next_pre_key_id), (Some(true), Some(31)));
        let found = creds(r#"{"noiseKey":{},"signedIdentityKey":{},"registered":false}"#).unwrap();
        assert_eq!((found.paired, found.next_pre_key_id), (Some(false), None));
        assert!(
            creds(r#"{"noiseKey":{},"me":{"name":"\ud83d"},"signedIdentityKey":{}}"#).is_ok(),
            "half an emoji"
        );
        assert!(creds(r#"{"noiseKey":{}}"#).unwrap_err().contains("signedIdentityKey"));
        assert!(creds("[1]").is_err());
        assert!(creds(r#"{"type":"Buffer","data":""}"#).is_err());
    }
}
