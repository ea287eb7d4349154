//! Between the wire and the domain, with replies cut to size.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{
    attributes::Attributes, head::Head, keys::SessionKeys, limits::MESSAGE_BYTES, name::SessionName,
    records::Record, store, take,
};
pub use crate::rpc::{durability_out, timestamp};
use crate::{
    error::{Error, Result},
    proto::v1,
};

const LABELS_MAX: usize = 16;

/// Attributes of a request.
pub fn attributes(path: &str, value: Option<v1::Attributes>) -> Result<Option<Attributes>> {
    let Some(value) = value else { return Ok(None) };
    if value.labels.len() > LABELS_MAX {
        return Err(Error::bad_field(format!("{path}.labels"), "must be at most 16"));
    }
    for (name, text) in &value.labels {
        if name.is_empty() || name.len() > 64 || text.len() > 256 {
            return Err(Error::bad_field(
                format!("{path}.labels"),
                "names must be 1..64 bytes, values at most 256 bytes",
            ));
        }
    }
    Ok(Some(Attributes {
        paired: value.paired,
        next_pre_key_id: value.next_pre_key_id,
        labels: value.labels.into_iter().collect::<BTreeMap<_, _>>(),
    }))
}

/// Attributes for a reply.
pub fn attributes_out(value: Attributes) -> v1::Attributes {
    v1::Attributes {
        paired: value.paired,
        next_pre_key_id: value.next_pre_key_id,
        labels: value.labels.into_iter().collect(),
    }
}

/// Counts for a reply.
pub fn counts_out(counts: Vec<(String, u64, u64)>) -> Vec<v1::TypeCount> {
    counts.into_iter().map(|(r#type, records, bytes)| v1::TypeCount { r#type, records, bytes }).collect()
}

/// A record for a reply.
pub fn record_out(record: Record) -> v1::Record {
    v1::Record {
        kind: kind_out(record.kind).into(),
        r#type: record.ty,
        id: record.id,
        value: record.value,
        revision: record.revision,
    }
}

fn kind_out(kind: u8) -> v1::ValueKind {
    match kind {
        1 => v1::ValueKind::Json,
        2 => v1::ValueKind::Text,
        _ => v1::ValueKind::Bytes,
    }
}

/// Records of one message: whole ones, and fragments of one that is larger than a message.
#[derive(Default)]
pub struct Chunk {
    pub records: Vec<v1::Record>,
    pub fragments: Vec<v1::Fragment>,
    pub size: usize,
}

/// Cuts records into messages of about 1 MiB; at least one, perhaps empty.
pub fn chunks(records: Vec<Record>) -> Vec<Chunk> {
    let mut chunks = vec![Chunk::default()];
    for record in records {
        if record.value.len() > MESSAGE_BYTES {
            for fragment in fragments(&record) {
                let size = fragment.data.len() + 64;
                room(&mut chunks, size).fragments.push(fragment);
            }
        } else {
            let size = record.value.len() + record.id.len() + record.ty.len() + 32;
            room(&mut chunks, size).records.push(record_out(record));
        }
    }
    chunks
}

fn room(chunks: &mut Vec<Chunk>, size: usize) -> &mut Chunk {
    if chunks.last().is_none_or(|last| last.size > 0 && last.size + size > MESSAGE_BYTES + 4096) {
        chunks.push(Chunk::default());
    }
    let last = chunks.len() - 1;
    chunks[last].size += size;
    &mut chunks[last]
}

fn fragments(record: &Record) -> Vec<v1::Fragment> {
    let total = record.value.len();
    (0..total)
        .step_by(MESSAGE_BYTES)
        .map(|offset| v1::Fragment {
            r#type: record.ty.clone(),
            id: record.id.clone(),
            kind: kind_out(record.kind).into(),
            offset: offset as u64,
            total: total as u64,
            data: slice(&record.value, offset, total.min(offset + MESSAGE_BYTES)),
            revision: record.revision,
            if_revision: None,
        })
        .collect()
}

fn slice(value: &Bytes, from: usize, to: usize) -> Bytes {
    value.slice(from..to)
}

/// A live session, as of `now_ms`.
pub fn info(name: &SessionName, head: &Head, keys: &SessionKeys, now_ms: u64) -> v1::SessionInfo {
    let live = head.live();
    let lease = (!head.owner.is_empty()).then(|| v1::Lease {
        owner: take::held(name, keys, &head.sealed_owner, 0, 0).owner.unwrap_or_default(),
        fence: head.fence,
        expires_at: timestamp(head.lease_expiry_ms),
        live: head.lease_expiry_ms > now_ms,
    });
    v1::SessionInfo {
        namespace: name.namespace.clone(),
        session: name.session.clone(),
        incarnation: head.live,
        revision: head.revision,
        attributes: store::attributes(name, keys, live).map(attributes_out),
        counts: counts_out(store::counts(name, keys, live)),
        lease,
        created_at: live.and_then(|live| timestamp(live.created_ms)),
        last_write_at: live.and_then(|live| timestamp(live.last_write_ms)),
        fence: head.fence,
    }
}
