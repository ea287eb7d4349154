//! What a request may hold. Everything outside is INVALID_ARGUMENT naming the field, before anything is written.

pub use crate::rpc::{UNARY_BYTES, id, namespace, page, span};
use crate::{
    error::{Error, Result},
    proto::v1,
};

/// Bytes of a record type.
pub const TYPE_MAX: usize = 128;
/// Ids of one Get.
pub const GET_MAX: usize = 1_000;
/// Bytes of one reply message, about.
pub const MESSAGE_BYTES: usize = 1024 * 1024;
/// A record type of 1..128 bytes.
pub fn record_type(field: impl Into<String>, value: &str) -> Result<()> {
    match value.len() {
        1..=TYPE_MAX => Ok(()),
        0 => Err(Error::bad_field(field, "must not be empty (1..128 bytes)")),
        _ => Err(Error::bad_field(field, "must be at most 128 bytes")),
    }
}

/// The records a Get names, with their count bounded and no type or id out of bounds.
pub fn queries(field: &str, queries: Vec<v1::Query>) -> Result<Vec<(String, String)>> {
    let count: usize = queries.iter().map(|query| query.ids.len()).sum();
    if count > GET_MAX {
        return Err(Error::too_large(field, "more than 1000 ids: ask for fewer at a time"));
    }
    let mut ids = Vec::with_capacity(count);
    for (n, query) in queries.into_iter().enumerate() {
        record_type(format!("{field}[{n}].type"), &query.r#type)?;
        for (m, one) in query.ids.into_iter().enumerate() {
            id(format!("{field}[{n}].ids[{m}]"), &one)?;
            ids.push((query.r#type.clone(), one));
        }
    }
    Ok(ids)
}
