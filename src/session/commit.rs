//! A commit: what is asked for, the script call it becomes, and what the script's answer means.

use std::collections::BTreeMap;

use super::{
    attributes::Attributes,
    keys::SessionKeys,
    name::SessionName,
    records::{self, Put},
    reply::{self, Reply},
    scripts,
};
use crate::{
    crypto::Keyring,
    error::{Error, Reason, Result},
    valkey::{Link, Op, decimal},
};

/// Most puts and deletes of a commit.
pub const ITEMS_MAX: usize = 20_000;
/// Most bytes of a commit.
pub const BYTES_MAX: usize = 32 * 1024 * 1024;

/// A checked commit.
pub struct Commit {
    pub writer: [u8; 8],
    pub op_seq: u64,
    pub puts: Vec<Put>,
    pub deletes: Vec<(String, String)>,
    pub expected_revision: Option<u64>,
    /// The incarnation that is meant; `None`: the one at hand.
    pub incarnation: Option<u64>,
    /// What is new of the attributes.
    pub attributes: Option<Attributes>,
}

impl Commit {
    /// Bytes of its values, ids and types.
    pub fn size(&self) -> usize {
        let puts: usize = self.puts.iter().map(|put| put.value.len() + put.id.len() + put.ty.len()).sum();
        puts + self.deletes.iter().map(|(ty, id)| ty.len() + id.len()).sum::<usize>()
    }

    /// The script call that applies it on top of `base`, sealing each record for `base` + 1. `attributes` replace the stored
    /// ones.
    pub fn op(
        &self,
        link: &Link,
        name: &SessionName,
        keys: &SessionKeys,
        terms: &Terms,
        attributes: Option<&Attributes>,
    ) -> Op<'static> {
        let mut tail = Vec::with_capacity(self.puts.len() * 2 + self.deletes.len());
        let mut conditions = Vec::new();
        let mut type_names = BTreeMap::new();
        for put in &self.puts {
            let field = keys.record.field(&put.ty, &put.id);
            if field.type_code().type_name().is_none() {
                type_names
                    .entry(field.type_code().as_bytes().to_vec())
                    .or_insert_with(|| keys.seal_part(name, TYPE_PART, put.ty.as_bytes()));
            }
            if let Some(revision) = put.if_revision {
                conditions.push(field.as_bytes().to_vec());
                conditions.push(decimal(revision));
            }
            tail.push(field.as_bytes().to_vec());
            tail.push(records::seal(keys, name, put, terms.base + 1));
        }
        for (ty, id) in &self.deletes {
            tail.push(keys.record.field(ty, id).as_bytes().to_vec());
        }
        let attributes = attributes
            .map_or_else(Vec::new, |attributes| keys.seal_part(name, ATTRIBUTES_PART, &attributes.encode()));
        let frees = self.puts.is_empty() && attributes.is_empty();
        let script = if frees { &scripts::COMMIT_DELETES } else { &scripts::COMMIT };
        let mut args = vec![
            decimal(self.incarnation.unwrap_or(keys.incarnation)),
            terms.fence.map_or_else(Vec::new, decimal),
            decimal(terms.lease_ttl_ms),
            self.writer.to_vec(),
            decimal(self.op_seq),
            decimal(terms.base + 1),
            self.expected_revision.map_or_else(Vec::new, decimal),
            decimal(terms.acknowledged),
            attributes,
            decimal(self.puts.len() as u64),
            decimal(self.deletes.len() as u64),
            decimal(conditions.len() as u64 / 2),
            decimal(type_names.len() as u64),
        ];
        args.append(&mut tail);
        args.append(&mut conditions);
        for (code, sealed) in type_names {
            args.push(code);
            args.push(sealed);
        }
        let keys = vec![name.head(link), name.records(link, keys.incarnation)];
        Op::Script { script, keys, args }
    }
}

/// What sealed type names and attributes are bound to.
pub const TYPE_PART: &str = "session-type";
/// As [`TYPE_PART`].
pub const ATTRIBUTES_PART: &str = "session-attributes";
/// As [`TYPE_PART`].
pub const OWNER_PART: &str = "session-owner";

/// Under which terms a commit may apply.
pub struct Terms {
    /// The holder's fence; `None`: no lease may be live.
    pub fence: Option<u64>,
    /// 0: leave the lease alone.
    pub lease_ttl_ms: u64,
    /// The revision it goes on top of, as far as is known.
    pub base: u64,
    /// The highest revision that was acknowledged: a store behind it is an old copy.
    pub acknowledged: u64,
}

/// What the script decided.
pub enum Outcome {
    Applied {
        base: u64,
        revision: u64,
    },
    Replayed {
        revision: u64,
    },
    /// Nothing was written: seal again on top of this revision.
    Reseal {
        revision: u64,
    },
    OutOfOrder {
        last: u64,
        revision: u64,
    },
    Fenced {
        deleted: bool,
    },
    /// No head: deleted, or the database is another.
    Gone,
    Held {
        sealed_owner: Vec<u8>,
        until_ms: u64,
        now_ms: u64,
    },
    /// The head is there but the records are not.
    Lost,
    Refused(Error),
}

impl Outcome {
    /// Reads the script's answer.
    pub fn parse(value: redis::Value) -> Result<Self> {
        let mut reply = Reply::parse(value)?;
        Ok(match reply.status() {
            "OK" => Self::Applied { base: reply.number()?, revision: reply.number()? },
            "REPLAYED" => Self::Replayed { revision: reply.number()? },
            "RESEAL" => Self::Reseal { revision: reply.number()? },
            "OUT_OF_ORDER" => Self::OutOfOrder { last: reply.number()?, revision: reply.number()? },
            "FENCED" => Self::Fenced { deleted: reply.word()? == "DELETED" },
            "GONE" => Self::Gone,
            "HELD" => Self::Held {
                sealed_owner: reply.bytes()?.unwrap_or_default(),
                until_ms: reply.number()?,
                now_ms: reply.number()?,
            },
            "LOST" => Self::Lost,
            "CONFLICT" => Self::Refused(
                Error::new(Reason::RevisionConflict, "another revision is stored: read it and decide again")
                    .with("revision", reply.number()?),
            ),
            "STALE" => Self::Refused(stale(reply.number()?)),
            "TYPES" => Self::Refused(Error::too_large(
                "commit.puts",
                "more than 64 record types of the application's own in one session",
            )),
            _ => return Err(reply::unexpected()),
        })
    }
}

/// The store is behind what was acknowledged.
pub fn stale(revision: u64) -> Error {
    Error::new(
        Reason::StaleState,
        "the session is older than what was acknowledged: an old copy was put back; do not send with it, restore the newest",
    )
    .with("revision", revision)
}

/// A refused number.
pub fn out_of_order(last: u64) -> Error {
    Error::new(Reason::OutOfOrder, "op_seq must be the writer's last + 1").with("last", last)
}

/// A fence that does not hold any more.
pub fn fenced(deleted: bool) -> Error {
    let why = if deleted { "the session was deleted" } else { "a newer owner holds the session" };
    Error::new(Reason::Fenced, format!("{why}: nothing was written; stop, do not retry"))
        .with("cause", if deleted { "DELETED" } else { "TAKEN_OVER" })
}

/// The head is there, the records are not.
pub fn lost() -> Error {
    Error::new(
        Reason::CorruptRecord,
        "the session's records are gone from Valkey: restore them from a backup",
    )
    .with("type", "sentinel")
}

/// The writer of a commit.
pub fn writer(keyring: &Keyring, name: &SessionName, writer: &str) -> [u8; 8] {
    name.writer(keyring, writer)
}
