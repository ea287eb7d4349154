//! What is sealed of a job. The content is bound to the job's id, since its number is not known when it is sealed, and holds the
//! id once more, so that a listing can open it; results, errors and progress are bound to the number.

use bytes::Bytes;
use prost::Message as _;

use super::queue::QueueName;
use crate::{
    crypto::{Context, OpenError, lp, take_lp},
    owner::namespace::NamespaceKeys,
    proto::v1,
};

/// What a client gave with a job.
pub struct Content {
    pub id: String,
    pub group: String,
    pub cap: Option<v1::CapGate>,
    pub payload: Bytes,
}

/// Parts of a job that come to be while it lives.
#[derive(Clone, Copy)]
pub enum Part {
    Result,
    Error,
    Progress,
}

impl Part {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Result => b"result",
            Self::Error => b"error",
            Self::Progress => b"progress",
        }
    }
}

/// Seals a content.
pub fn seal_content(keys: &NamespaceKeys, queue: &QueueName, content: &Content) -> Vec<u8> {
    let mut plaintext =
        Vec::with_capacity(12 + content.id.len() + content.group.len() + content.payload.len());
    lp(&mut plaintext, content.id.as_bytes());
    lp(&mut plaintext, content.group.as_bytes());
    lp(&mut plaintext, &content.cap.as_ref().map(v1::CapGate::encode_to_vec).unwrap_or_default());
    plaintext.extend_from_slice(&content.payload);
    keys.seal(&queue.context(&[content.id.as_bytes(), b"payload"]), &plaintext)
}

/// Opens a content.
pub fn open_content(keys: &NamespaceKeys, queue: &QueueName, sealed: &[u8]) -> Result<Content, OpenError> {
    let opened = keys.open_unnamed(sealed, |plaintext| {
        let id = take_lp(&mut &*plaintext)?;
        Some(queue.context(&[id, b"payload"]))
    })?;
    decode(&opened.plaintext).ok_or(OpenError::UnknownFormat)
}

fn decode(mut plaintext: &[u8]) -> Option<Content> {
    let id = String::from_utf8(take_lp(&mut plaintext)?.to_vec()).ok()?;
    let group = String::from_utf8(take_lp(&mut plaintext)?.to_vec()).ok()?;
    let cap = match take_lp(&mut plaintext)? {
        [] => None,
        bytes => Some(v1::CapGate::decode(bytes).ok()?),
    };
    Some(Content { id, group, cap, payload: Bytes::copy_from_slice(plaintext) })
}

fn part_context(queue: &QueueName, number: u64, part: Part) -> Context {
    queue.context(&[number.to_string().as_bytes(), part.name()])
}

/// Seals a part.
pub fn seal_part(keys: &NamespaceKeys, queue: &QueueName, number: u64, part: Part, value: &[u8]) -> Vec<u8> {
    keys.seal(&part_context(queue, number, part), value)
}

/// Opens a part; an empty one is none.
pub fn open_part(
    keys: &NamespaceKeys,
    queue: &QueueName,
    number: u64,
    part: Part,
    sealed: &[u8],
) -> Result<Vec<u8>, OpenError> {
    if sealed.is_empty() {
        return Ok(Vec::new());
    }
    Ok(keys.open(&part_context(queue, number, part), sealed)?.plaintext.to_vec())
}
