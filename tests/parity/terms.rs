//! What the table says, in the wire's terms.

use serde_json::{Map, Value, json};

/// The arguments of a call. Whatever a call has not taken is one that it does not know.
pub struct Args {
    given: Map<String, Value>,
}

impl Args {
    pub fn of(given: Value) -> Self {
        let Value::Object(given) = given else { panic!("arguments have names: {given}") };
        Self { given }
    }

    pub fn done(&self) {
        assert!(self.given.is_empty(), "unknown arguments: {:?}", self.given.keys());
    }

    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.given.remove(name)
    }

    /// "" when it is not given, as on the wire.
    pub fn text(&mut self, name: &str) -> String {
        self.optional_text(name).unwrap_or_default()
    }

    pub fn optional_text(&mut self, name: &str) -> Option<String> {
        self.take(name).map(|value| value.as_str().unwrap_or_else(|| panic!("{name}: {value}")).to_owned())
    }

    pub fn flag(&mut self, name: &str) -> bool {
        self.take(name).is_some_and(|value| value.as_bool().unwrap())
    }

    pub fn number<T: TryFrom<i64>>(&mut self, name: &str) -> Option<T> {
        let number = self.take(name)?.as_i64().unwrap_or_else(|| panic!("{name} is no whole number"));
        Some(T::try_from(number).unwrap_or_else(|_| panic!("{name}: the wire cannot say {number}")))
    }

    /// `name` without its `_ms`.
    pub fn duration(&mut self, name: &str) -> Option<prost_types::Duration> {
        self.take(&format!("{name}_ms")).map(|value| duration(value.as_f64().unwrap()))
    }

    pub fn texts(&mut self, name: &str) -> Vec<String> {
        let list = self.take(name).unwrap_or_else(|| json!([]));
        list.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
    }

    /// A part of its own.
    pub fn part<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.take(name).map(|value| whole(value, read))
    }

    pub fn list<T>(&mut self, name: &str, read: impl Fn(&mut Self) -> T) -> Vec<T> {
        let Some(list) = self.take(name) else { return Vec::new() };
        list.as_array().unwrap().iter().map(|one| whole(one.clone(), &read)).collect()
    }

    /// A text's UTF-8, or bytes.
    pub fn bytes(&mut self, name: &str) -> Vec<u8> {
        match self.take(name) {
            None => Vec::new(),
            Some(Value::String(text)) => text.into_bytes(),
            Some(value) => bytes_of(&value).unwrap_or_else(|| panic!("{name}: {value}")),
        }
    }

    /// A value that may be missing, as clients keep it: then no bytes; an empty text would look like none.
    pub fn value(&mut self, name: &str) -> Vec<u8> {
        match self.take(name) {
            None => Vec::new(),
            Some(Value::String(text)) if text.is_empty() => b"\xfe\"\"".to_vec(),
            Some(value) => encode(&value),
        }
    }

    pub fn object(&mut self, name: &str) -> Map<String, Value> {
        self.take(name).map(|value| value.as_object().unwrap().clone()).unwrap_or_default()
    }

    /// The number of an enum's word, 0 when it is not given.
    pub fn word(&mut self, name: &str, prefix: &str, number: impl Fn(&str) -> Option<i32>) -> i32 {
        let Some(word) = self.optional_text(name) else { return 0 };
        number(&format!("{prefix}{}", word.to_uppercase())).unwrap_or_else(|| panic!("{name}: {word}"))
    }
}

fn whole<T>(value: Value, read: impl FnOnce(&mut Args) -> T) -> T {
    let mut part = Args::of(value);
    let made = read(&mut part);
    part.done();
    made
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // as far as the table goes, exact
pub fn duration(ms: f64) -> prost_types::Duration {
    let nanos = (ms * 1e6) as i64;
    prost_types::Duration { seconds: nanos / 1_000_000_000, nanos: (nanos % 1_000_000_000) as i32 }
}

#[allow(clippy::cast_precision_loss)]
pub fn ms(duration: Option<&prost_types::Duration>) -> Value {
    let Some(duration) = duration else { return Value::Null };
    let nanos = duration.seconds * 1_000_000_000 + i64::from(duration.nanos);
    if nanos % 1_000_000 == 0 { json!(nanos / 1_000_000) } else { json!(nanos as f64 / 1e6) }
}

pub fn at(instant: Option<&prost_types::Timestamp>) -> Value {
    instant.map_or(Value::Null, |at| json!(at.seconds * 1000 + i64::from(at.nanos) / 1_000_000))
}

/// An enum's name as the table has it.
pub fn word(name: &str, prefix: &str) -> Value {
    json!(
        name.strip_prefix(prefix)
            .unwrap_or_else(|| panic!("{name} does not begin with {prefix}"))
            .to_lowercase()
    )
}

/// None where the wire has an empty text.
pub fn some(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { json!(text) }
}

pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    let text = object.get("bytes")?.as_str()?;
    Some((0..text.len()).step_by(2).map(|n| u8::from_str_radix(&text[n..n + 2], 16).unwrap()).collect())
}

/// A value as clients keep it: a text's UTF-8; behind 0xFF bytes, behind 0xFE JSON.
pub fn encode(value: &Value) -> Vec<u8> {
    if let Value::String(text) = value {
        return text.clone().into_bytes();
    }
    bytes_of(value).map_or_else(
        || [b"\xfe", value.to_string().as_bytes()].concat(),
        |bytes| [b"\xff", bytes.as_slice()].concat(),
    )
}

pub fn decode(kept: &[u8]) -> Value {
    match kept.first() {
        Some(0xff) => json!({ "bytes": hex(&kept[1..]) }),
        Some(0xfe) => serde_json::from_slice(&kept[1..]).unwrap(),
        _ => json!(std::str::from_utf8(kept).unwrap()),
    }
}

/// The same of one that may be missing.
pub fn decode_present(kept: &[u8]) -> Value {
    if kept.is_empty() { Value::Null } else { decode(kept) }
}
