//! Reads what scripts answer: an array that begins with a status word.

use redis::Value;

use crate::error::{Error, Reason, Result};

/// A script's answer, taken apart.
pub struct Reply {
    values: std::vec::IntoIter<Value>,
    status: String,
}

impl Reply {
    /// Fails on anything that no script of ours answers.
    pub fn parse(value: Value) -> Result<Self> {
        let Value::Array(values) = value else { return Err(unexpected()) };
        let mut values = values.into_iter();
        let status = match values.next() {
            Some(Value::BulkString(bytes)) => String::from_utf8(bytes).map_err(|_| unexpected())?,
            Some(Value::SimpleString(text)) => text,
            _ => return Err(unexpected()),
        };
        Ok(Self { values, status })
    }

    /// The status word.
    pub fn status(&self) -> &str {
        &self.status
    }

    /// The next element as bytes; nil is `None`.
    pub fn bytes(&mut self) -> Result<Option<Vec<u8>>> {
        match self.values.next() {
            Some(Value::BulkString(bytes)) => Ok(Some(bytes)),
            Some(Value::SimpleString(text)) => Ok(Some(text.into_bytes())),
            Some(Value::Nil | Value::Boolean(false)) => Ok(None),
            Some(Value::Int(n)) => Ok(Some(n.to_string().into_bytes())),
            _ => Err(unexpected()),
        }
    }

    /// The next element as a whole number.
    pub fn number(&mut self) -> Result<u64> {
        match self.values.next() {
            Some(Value::Int(n)) => u64::try_from(n).ok(),
            Some(Value::BulkString(bytes)) => parse_number(&bytes),
            Some(Value::SimpleString(text)) => text.parse().ok(),
            _ => None,
        }
        .ok_or_else(unexpected)
    }

    /// The next element as text.
    pub fn word(&mut self) -> Result<String> {
        self.bytes()?.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(unexpected)
    }

    /// How many elements are left.
    pub fn left(&self) -> usize {
        self.values.len()
    }
}

/// Pairs of a hash, whichever way the protocol version wraps them.
pub fn pairs(value: Value) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let flat = match value {
        Value::Map(map) => map,
        Value::Array(items) => {
            let mut items = items.into_iter();
            let mut map = Vec::with_capacity(items.len() / 2);
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                map.push((key, value));
            }
            map
        }
        Value::Nil => Vec::new(),
        _ => return Err(unexpected()),
    };
    flat.into_iter()
        .map(|pair| match pair {
            (Value::BulkString(key), Value::BulkString(value)) => Ok((key, value)),
            _ => Err(unexpected()),
        })
        .collect()
}

/// A decimal as Valkey stores it.
pub fn parse_number(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// What TIME answers, in µs.
pub fn micros(time: &Value) -> Result<u64> {
    let Value::Array(parts) = time else { return Err(unexpected()) };
    let part = |at: usize| match parts.get(at) {
        Some(Value::BulkString(bytes)) => parse_number(bytes),
        Some(Value::Int(n)) => u64::try_from(*n).ok(),
        _ => None,
    };
    Ok(part(0).ok_or_else(unexpected)? * 1_000_000 + part(1).ok_or_else(unexpected)?)
}

/// The answer is none that the script gives.
pub fn unexpected() -> Error {
    Error::new(Reason::Internal, "Valkey gave an answer of an unknown shape")
}
