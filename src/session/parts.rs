//! Gathers the parts of a commit: checks every item, joins fragments, and holds the whole inside a shared memory budget.

use std::{collections::HashSet, sync::Arc};

use bytes::{Bytes, BytesMut};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    attributes::Attributes,
    commit::{BYTES_MAX, Commit, ITEMS_MAX},
    limits,
    records::{Put, VALUE_MAX},
};
use crate::{
    error::{Error, Reason, Result},
    proto::v1,
};

const UNIT: usize = 1024;

/// Memory that commits of all sessions may hold together.
#[derive(Clone)]
pub struct Budget(Arc<Semaphore>);

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / UNIT).max(1))))
    }

    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        Arc::clone(&self.0).try_acquire_many_owned(units).map_err(|_| {
            Error::new(
                Reason::Quota,
                "the commits in flight fill the sidecar's commit buffer: try again (--commit-buffer)",
            )
            .retry_after(std::time::Duration::from_millis(200))
        })
    }
}

/// The parts so far.
pub struct Parts {
    puts: Vec<Put>,
    deletes: Vec<(String, String)>,
    open: Option<Open>,
    size: usize,
    held: Option<OwnedSemaphorePermit>,
}

/// A value whose fragments are coming in.
struct Open {
    put: Put,
    total: usize,
    data: BytesMut,
}

/// What of a commit is not its items.
pub struct Heading {
    pub writer: [u8; 8],
    pub op_seq: u64,
    pub expected_revision: Option<u64>,
    pub incarnation: Option<u64>,
    pub attributes: Option<Attributes>,
}

impl Parts {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { puts: Vec::new(), deletes: Vec::new(), open: None, size: 0, held: None }
    }

    /// Takes one message's items in. `path` is where they stand in the request: "commit", or "" when they are its own fields.
    pub fn add(
        &mut self,
        budget: &Budget,
        path: &str,
        puts: Vec<v1::Put>,
        deletes: Vec<v1::RecordRef>,
        fragments: Vec<v1::Fragment>,
    ) -> Result<()> {
        let before = self.size;
        for (n, put) in puts.into_iter().enumerate() {
            self.put(&under(path, &format!("puts[{n}]")), put)?;
        }
        for (n, fragment) in fragments.into_iter().enumerate() {
            self.fragment(&under(path, &format!("fragments[{n}]")), &fragment)?;
        }
        for (n, delete) in deletes.into_iter().enumerate() {
            limits::record_type(under(path, &format!("deletes[{n}].type")), &delete.r#type)?;
            limits::id(under(path, &format!("deletes[{n}].id")), &delete.id)?;
            self.size += delete.r#type.len() + delete.id.len();
            self.deletes.push((delete.r#type, delete.id));
        }
        if self.puts.len() + self.deletes.len() > ITEMS_MAX {
            return Err(Error::too_large(whole(path), "more than 20000 items in one commit"));
        }
        if self.size > BYTES_MAX {
            return Err(Error::too_large(whole(path), "more than 32 MiB in one commit"));
        }
        let permit = budget.take(self.size - before)?;
        match &mut self.held {
            Some(held) => held.merge(permit),
            None => self.held = Some(permit),
        }
        Ok(())
    }

    fn put(&mut self, path: &str, put: v1::Put) -> Result<()> {
        let Some(record) = put.record else {
            return Err(Error::bad_field(format!("{path}.record"), "is missing"));
        };
        limits::record_type(format!("{path}.record.type"), &record.r#type)?;
        limits::id(format!("{path}.record.id"), &record.id)?;
        let kind = kind(&format!("{path}.record.kind"), record.kind)?;
        text(&format!("{path}.record.value"), kind, &record.value)?;
        if record.value.len() > VALUE_MAX {
            return Err(Error::too_large(format!("{path}.record.value"), "a value is at most 16 MiB"));
        }
        self.size += record.value.len() + record.r#type.len() + record.id.len();
        self.puts.push(Put {
            ty: record.r#type,
            id: record.id,
            kind,
            value: record.value,
            if_revision: put.if_revision,
        });
        Ok(())
    }

    fn fragment(&mut self, path: &str, fragment: &v1::Fragment) -> Result<()> {
        let offset = usize::try_from(fragment.offset).unwrap_or(usize::MAX);
        let total = usize::try_from(fragment.total).unwrap_or(usize::MAX);
        if total > VALUE_MAX {
            return Err(Error::too_large(format!("{path}.total"), "a value is at most 16 MiB"));
        }
        if fragment.data.is_empty() || fragment.data.len() > limits::MESSAGE_BYTES {
            return Err(Error::bad_field(format!("{path}.data"), "must be 1 byte to 1 MiB"));
        }
        if self.open.is_none() {
            limits::record_type(format!("{path}.type"), &fragment.r#type)?;
            limits::id(format!("{path}.id"), &fragment.id)?;
            let kind = kind(&format!("{path}.kind"), fragment.kind)?;
            self.size += fragment.r#type.len() + fragment.id.len();
            let put = Put {
                ty: fragment.r#type.clone(),
                id: fragment.id.clone(),
                kind,
                value: Bytes::new(),
                if_revision: fragment.if_revision,
            };
            self.open = Some(Open { put, total, data: BytesMut::new() });
        }
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        if open.put.ty != fragment.r#type || open.put.id != fragment.id || open.total != total {
            return Err(Error::bad_field(path, "another value's fragments must be finished first"));
        }
        if offset != open.data.len() || offset + fragment.data.len() > total {
            return Err(Error::bad_field(
                format!("{path}.offset"),
                "fragments must come in order, without gaps",
            ));
        }
        self.size += fragment.data.len();
        open.data.extend_from_slice(&fragment.data);
        if open.data.len() == total
            && let Some(Open { mut put, data, .. }) = self.open.take()
        {
            put.value = data.freeze();
            text(&format!("{path}.data"), put.kind, &put.value)?;
            self.puts.push(put);
        }
        Ok(())
    }

    /// The whole commit, and the memory it holds until it is done.
    pub fn finish(self, path: &str, heading: Heading) -> Result<(Commit, Option<OwnedSemaphorePermit>)> {
        if self.open.is_some() {
            return Err(Error::bad_field(under(path, "fragments"), "the last value is not complete"));
        }
        if heading.op_seq == 0 {
            return Err(Error::bad_field(under(path, "op_seq"), "must be at least 1"));
        }
        let mut seen = HashSet::with_capacity(self.puts.len() + self.deletes.len());
        let names = self.puts.iter().map(|put| (put.ty.as_str(), put.id.as_str()));
        for name in names.chain(self.deletes.iter().map(|(ty, id)| (ty.as_str(), id.as_str()))) {
            if !seen.insert(name) {
                return Err(Error::bad_field(whole(path), "names one record twice: put or delete it once"));
            }
        }
        let Heading { writer, op_seq, expected_revision, incarnation, attributes } = heading;
        let commit = Commit {
            writer,
            op_seq,
            puts: self.puts,
            deletes: self.deletes,
            expected_revision,
            incarnation,
            attributes,
        };
        Ok((commit, self.held))
    }
}

/// A field's path in the request.
fn under(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// What stands for all items.
fn whole(path: &str) -> &str {
    if path.is_empty() { "puts" } else { path }
}

fn kind(path: &str, kind: i32) -> Result<u8> {
    match v1::ValueKind::try_from(kind) {
        Ok(v1::ValueKind::Unspecified | v1::ValueKind::Bytes) => Ok(0),
        Ok(v1::ValueKind::Json) => Ok(1),
        Ok(v1::ValueKind::Text) => Ok(2),
        Err(_) => Err(Error::bad_field(path, "is no known kind of value")),
    }
}

fn text(path: &str, kind: u8, value: &[u8]) -> Result<()> {
    if kind != 0 && std::str::from_utf8(value).is_err() {
        return Err(Error::bad_field(path, "must be UTF-8 for this kind"));
    }
    Ok(())
}
