//! Records as clients know them, and as they stand in Valkey: a blinded field and a sealed value.

use bytes::Bytes;

use super::{keys::SessionKeys, name::SessionName};
use crate::{
    crypto::{OpenError, RecordPayload, TypeCode},
    error::{Error, Reason, Result},
    telemetry,
};

/// The largest value.
pub const VALUE_MAX: usize = 16 * 1024 * 1024;

/// A record as it was read.
pub struct Record {
    pub ty: String,
    pub id: String,
    /// 0 bytes, 1 JSON, 2 text.
    pub kind: u8,
    pub value: Bytes,
    pub revision: u64,
}

/// A record to be written.
pub struct Put {
    pub ty: String,
    pub id: String,
    pub kind: u8,
    pub value: Bytes,
    /// The revision the stored one must have; 0: it must be absent.
    pub if_revision: Option<u64>,
}

/// Seals a record for its place.
pub fn seal(keys: &SessionKeys, name: &SessionName, put: &Put, revision: u64) -> Vec<u8> {
    let plaintext = RecordPayload::encode(&put.ty, &put.id, put.kind, &put.value);
    let mut envelope = Vec::new();
    let context = name.record_context(&put.ty, &put.id);
    keys.record.seal(keys.epoch, revision, &context, &plaintext, &mut envelope);
    envelope
}

/// Opens the record that stands where (type, id) belongs.
pub fn open(keys: &SessionKeys, name: &SessionName, ty: &str, id: &str, envelope: &[u8]) -> Result<Record> {
    let opened =
        keys.record.open(&name.record_context(ty, id), envelope).map_err(|error| open_error(error, ty))?;
    match RecordPayload::decode(&opened.plaintext) {
        Some((own_type, own_id, kind, value)) if own_type == ty && own_id == id => Ok(Record {
            ty: own_type.to_owned(),
            id: own_id.to_owned(),
            kind,
            value: Bytes::copy_from_slice(value),
            revision: opened.revision,
        }),
        _ => Err(open_error(OpenError::Corrupt, ty)),
    }
}

/// Opens a record whose (type, id) is not known beforehand, and checks that it stands where it belongs. `None`: corrupt.
pub fn open_listed(keys: &SessionKeys, name: &SessionName, field: &[u8], envelope: &[u8]) -> Option<Record> {
    let opened = keys
        .record
        .open_unnamed(envelope, |peeked| {
            let (ty, id, _, _) = RecordPayload::decode(peeked)?;
            (keys.record.field(ty, id).as_bytes() == field).then(|| name.record_context(ty, id))
        })
        .ok()?;
    let (ty, id, kind, value) = RecordPayload::decode(&opened.plaintext)?;
    Some(Record {
        ty: ty.to_owned(),
        id: id.to_owned(),
        kind,
        value: Bytes::copy_from_slice(value),
        revision: opened.revision,
    })
}

/// The sentinel keeps an empty session's hash in being; it is no record.
pub fn is_sentinel(field: &[u8]) -> bool {
    field.first() == Some(&0)
}

/// The type that a field begins with.
pub fn type_of(field: &[u8]) -> Option<TypeCode> {
    TypeCode::split(field).map(|(code, _)| code)
}

fn open_error(error: OpenError, ty: &str) -> Error {
    telemetry::could_not_open(&error);
    // A type of ours is not personal; an application's own might be.
    let known = super::KNOWN_TYPES.contains(&ty);
    let shown = if known { ty } else { "other" };
    match error {
        OpenError::UnknownFormat => Error::new(
            Reason::NewerFormat,
            format!("a record of type {shown} was written by a newer version: update pannier"),
        ),
        OpenError::Malformed | OpenError::Corrupt => Error::new(
            Reason::CorruptRecord,
            format!("a record of type {shown} was altered, moved or cut short: restore it from a backup"),
        ),
    }
    .with("type", shown)
}
