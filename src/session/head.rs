//! The head of a session: everything about it but its records.

use std::collections::BTreeMap;

use redis::Value;

use super::reply::{pairs, parse_number};
use crate::{error::Result, owner::catalog::Listed};

/// What belongs to one incarnation, live or archived.
#[derive(Clone, Default)]
pub struct Incarnation {
    pub wrapped_key: Vec<u8>,
    pub created_ms: u64,
    pub last_write_ms: u64,
    pub attributes: Vec<u8>,
    /// Type code → records, bytes.
    pub counts: BTreeMap<Vec<u8>, (u64, u64)>,
    /// Type code → sealed name, of types that have no code of their own.
    pub type_names: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Archives only.
    pub purge_ms: u64,
    /// Archives only.
    pub deleted_ms: u64,
    /// Archives only: the session's revision when it was archived.
    pub revision: u64,
}

/// The head as it was read.
#[derive(Clone, Default)]
pub struct Head {
    pub fence: u64,
    /// HMAC of the owner; empty when the lease was released.
    pub owner: Vec<u8>,
    pub sealed_owner: Vec<u8>,
    pub lease_expiry_ms: u64,
    /// 0: no live session.
    pub live: u64,
    pub revision: u64,
    pub sealed_name: Vec<u8>,
    /// Oldest first, as stored.
    pub archive_list: String,
    /// By incarnation; `live` among them when there is one.
    pub incarnations: BTreeMap<u64, Incarnation>,
    pub writers: Vec<u8>,
    /// The last instant this head has seen.
    pub clock_ms: u64,
}

impl Head {
    /// `None` when there is no head.
    pub fn parse(value: Value) -> Result<Option<Self>> {
        let fields = pairs(value)?;
        if fields.is_empty() {
            return Ok(None);
        }
        let mut head = Self::default();
        let mut live = Incarnation::default();
        for (field, value) in fields {
            let number = || parse_number(&value).unwrap_or(0);
            match field.as_slice() {
                b"f" => head.fence = number(),
                b"o" => head.owner = value,
                b"on" => head.sealed_owner = value,
                b"x" => head.lease_expiry_ms = number(),
                b"i" => head.live = number(),
                b"r" => head.revision = number(),
                b"w" => head.writers = value,
                b"t" => head.clock_ms = number(),
                b"nm" => head.sealed_name = value,
                b"al" => head.archive_list = String::from_utf8_lossy(&value).into_owned(),
                other => match archived(other) {
                    Some((incarnation, name)) => {
                        head.incarnations.entry(incarnation).or_default().take(name, value);
                    }
                    None => live.take(other, value),
                },
            }
        }
        if head.live != 0 {
            head.incarnations.insert(head.live, live);
        }
        Ok(Some(head))
    }

    /// The live incarnation.
    pub fn live(&self) -> Option<&Incarnation> {
        self.incarnations.get(&self.live)
    }

    /// Archived incarnations, oldest first.
    pub fn archives(&self) -> Vec<u64> {
        self.archive_list.split(',').filter_map(|one| one.parse().ok()).collect()
    }

    /// The last op_seq of a writer that was applied.
    pub fn last_op(&self, writer: [u8; 8]) -> u64 {
        let entry = self.writers.chunks_exact(32).find(|entry| entry[..8] == writer);
        entry.and_then(|entry| entry[8..16].try_into().ok()).map_or(0, u64::from_be_bytes)
    }
}

impl Listed for Head {
    const KIND: &'static str = super::KIND;
    const KEY: &'static str = "h";

    fn parse(fields: Value) -> Result<Option<Self>> {
        Self::parse(fields)
    }

    fn sealed_name(&self) -> &[u8] {
        &self.sealed_name
    }
}

impl Incarnation {
    fn take(&mut self, field: &[u8], value: Vec<u8>) {
        let number = || parse_number(&value).unwrap_or(0);
        match field {
            b"k" => self.wrapped_key = value,
            b"c" => self.created_ms = number(),
            b"u" => self.last_write_ms = number(),
            b"at" => self.attributes = value,
            b"p" => self.purge_ms = number(),
            b"d" => self.deleted_ms = number(),
            b"r" => self.revision = number(),
            [b'#', b'n', code @ ..] => self.counts.entry(code.to_vec()).or_default().0 = number(),
            [b'#', b'b', code @ ..] => self.counts.entry(code.to_vec()).or_default().1 = number(),
            [b'#', b't', code @ ..] => {
                self.type_names.insert(code.to_vec(), value);
            }
            // A field of a later version: kept where it is.
            _ => {}
        }
    }
}

/// `a:<incarnation>:<name>`.
fn archived(field: &[u8]) -> Option<(u64, &[u8])> {
    let rest = field.strip_prefix(b"a:")?;
    let colon = rest.iter().position(|byte| *byte == b':')?;
    Some((parse_number(&rest[..colon])?, &rest[colon + 1..]))
}
