//! What a request may hold. Everything outside is INVALID_ARGUMENT naming the field, before anything is written.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Error, Result};
pub use crate::rpc::{namespace, page, request_id};

/// Bytes of a blob's name.
pub const NAME_MAX: usize = 256;
/// Bytes of one chunk, both ways.
pub const CHUNK_MAX: usize = 256 * 1024;
/// Bytes of a content digest.
const DIGEST_MAX: usize = 64;
const LABELS_MAX: usize = 16;

/// A name of 1..256 bytes.
pub fn blob(field: &str, value: &str) -> Result<()> {
    match value.len() {
        1..=NAME_MAX => Ok(()),
        0 => Err(Error::bad_field(field, "must not be empty (1..256 bytes)")),
        _ => Err(Error::bad_field(field, "must be at most 256 bytes")),
    }
}

/// A digest of the client's own.
pub fn content_digest(field: &str, value: &[u8]) -> Result<()> {
    if value.len() <= DIGEST_MAX {
        return Ok(());
    }
    Err(Error::bad_field(field, "must be at most 64 bytes"))
}

/// A few short texts.
pub fn labels(field: &str, labels: HashMap<String, String>) -> Result<BTreeMap<String, String>> {
    if labels.len() > LABELS_MAX {
        return Err(Error::bad_field(field, "must be at most 16"));
    }
    for (name, value) in &labels {
        if name.is_empty() || name.len() > 64 || value.len() > 256 {
            return Err(Error::bad_field(field, "names must be 1..64 bytes, values at most 256 bytes"));
        }
    }
    Ok(labels.into_iter().collect())
}

/// A generation that must be named.
pub fn generation(field: &str, value: u64) -> Result<u64> {
    if value == 0 {
        return Err(Error::bad_field(field, "must name a generation"));
    }
    Ok(value)
}
