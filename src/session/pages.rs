//! Walks over records: one page a step, and a cursor that says where the next one begins.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redis::Value;

use super::{
    keys::SessionKeys,
    limits::MESSAGE_BYTES,
    name::SessionName,
    records::{self, Record},
    reply::{self, Reply},
};
use crate::error::{Error, Result};

/// Bytes of a field: a type code of up to 9, and a name of 16.
const FIELD_MAX: usize = 25;

/// Where a walk stands: Valkey's scan cursor; and when a step did not fit in a page, the last field of it that was given out
/// and where the step had ended.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Cursor {
    pub scan: u64,
    last: Vec<u8>,
    end: u64,
}

impl Cursor {
    /// "" begins.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let malformed = || Error::bad_field("cursor", "is none that this call has given");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed())?;
        let (scan, rest) = bytes.split_first_chunk::<8>().ok_or_else(malformed)?;
        let scan = u64::from_be_bytes(*scan);
        if rest.is_empty() {
            return Ok(Self { scan, ..Self::default() });
        }
        let (end, last) = rest.split_first_chunk::<8>().ok_or_else(malformed)?;
        if !(1..=FIELD_MAX).contains(&last.len()) {
            return Err(malformed());
        }
        Ok(Self { scan, last: last.to_vec(), end: u64::from_be_bytes(*end) })
    }

    /// For the client to send back.
    pub fn encode(&self) -> String {
        let end = self.end.to_be_bytes();
        let end = if self.last.is_empty() { &[][..] } else { &end[..] };
        URL_SAFE_NO_PAD.encode([&self.scan.to_be_bytes(), end, &self.last].concat())
    }
}

/// What a client asks a walk for.
pub struct Walk {
    /// "" for all types.
    pub ty: String,
    pub cursor: Cursor,
    pub limit: usize,
    pub ids_only: bool,
}

/// One step of a walk.
pub struct Step {
    pub records: Vec<Record>,
    /// `None`: that was all.
    pub next: Option<Cursor>,
    pub corrupt: u32,
}

/// What the list script answered.
pub enum Listed {
    Step {
        scan: u64,
        fields: Vec<(Vec<u8>, Vec<u8>)>,
    },
    /// Another incarnation is live, or none.
    Moved {
        deleted: bool,
    },
    Gone,
    Lost,
}

impl Listed {
    /// Reads the script's answer.
    pub fn parse(value: Value) -> Result<Self> {
        let mut reply = Reply::parse(value)?;
        Ok(match reply.status() {
            "OK" => {
                let scan = reply.number()?;
                let mut fields = Vec::with_capacity(reply.left() / 2);
                while reply.left() > 1 {
                    let field = reply.bytes()?.unwrap_or_default();
                    fields.push((field, reply.bytes()?.unwrap_or_default()));
                }
                Self::Step { scan, fields }
            }
            "MOVED" => Self::Moved { deleted: reply.number()? == 0 },
            "GONE" => Self::Gone,
            "LOST" => Self::Lost,
            _ => return Err(reply::unexpected()),
        })
    }
}

impl Walk {
    /// Makes a page of what one step looked at: in byte order, from behind the last field given out, up to the limits.
    pub fn page(
        &self,
        keys: &SessionKeys,
        name: &SessionName,
        scan: u64,
        mut fields: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Step {
        fields.sort();
        fields.dedup_by(|a, b| a.0 == b.0);
        let code = (!self.ty.is_empty()).then(|| keys.record.type_code(&self.ty));
        // A step that ends elsewhere than the first time looked at other fields: what of it was given out is not known, and
        // comes again.
        let last_given = if scan == self.cursor.end { self.cursor.last.as_slice() } else { &[] };
        let wanted = |field: &[u8]| {
            field > last_given
                && !records::is_sentinel(field)
                && code.is_none_or(|code| field.starts_with(code.as_bytes()))
        };
        let mut step = Step { records: Vec::new(), next: None, corrupt: 0 };
        let (mut size, mut last) = (0, None);
        for (field, envelope) in fields.into_iter().filter(|(field, _)| wanted(field)) {
            let full = step.records.len() + step.corrupt as usize >= self.limit;
            let Some(last) = last.as_ref().filter(|_| full || size >= MESSAGE_BYTES) else {
                match records::open_listed(keys, name, &field, &envelope) {
                    Some(mut record) => {
                        if self.ids_only {
                            record.value.clear();
                        }
                        size += record.value.len() + record.id.len() + 32;
                        step.records.push(record);
                    }
                    None => step.corrupt += 1,
                }
                last = Some(field);
                continue;
            };
            step.next = Some(Cursor { scan: self.cursor.scan, last: Vec::clone(last), end: scan });
            return step;
        }
        step.next = (scan != 0).then_some(Cursor { scan, ..Cursor::default() });
        step
    }
}
