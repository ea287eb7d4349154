//! A walk over every owner that has a root key of its own, by the index. An owner is listed before it is made and until it is
//! gone, so none is missed.

use futures_util::future::try_join_all;
use redis::{Value, cmd};
use tokio::time::Instant;

use super::scripts;
use crate::{
    blob,
    crypto::OwnerTag,
    error::Result,
    owner::{catalog::BUCKETS, namespace, reply::unexpected},
    session,
    valkey::{Lane, Link, Op},
};

/// Owners looked at in one write, at most.
pub const BATCH: usize = 100;

/// A kind of owner with root keys of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// In tags, contexts and the index.
    pub name: &'static str,
    /// The key of its hash, behind the tag.
    key: &'static str,
}

/// All of them. (A queue's jobs are sealed under the namespace's.)
pub const KINDS: [Kind; 3] = [
    Kind { name: namespace::KIND, key: "k" },
    Kind { name: session::KIND, key: "h" },
    Kind { name: blob::KIND, key: "b" },
];

/// An owner as it was read.
pub struct Owner {
    /// Which one.
    pub tag: OwnerTag,
    /// Its hash.
    pub key: Vec<u8>,
    /// Namespace and name, as `IndexNameKey` sealed them.
    pub sealed_name: Vec<u8>,
    /// The wrapped root key of what is live.
    pub live: Option<Vec<u8>>,
    /// Those of its archives.
    pub archived: Vec<Vec<u8>>,
}

/// Owners listed, about: what is being made and unmade is among them.
pub async fn total(link: &Link, deadline: Instant) -> Result<u64> {
    let counts = KINDS.iter().flat_map(|kind| (0..BUCKETS).map(|bucket| (*kind, bucket)));
    let counts = counts.map(async |(kind, bucket)| -> Result<u64> {
        let mut count = cmd("ZCOUNT");
        count.arg(link.index_key(kind.name, bucket)).arg(-1).arg("+inf");
        match link.run(Lane::Bulk, Op::Cmd(count), deadline).await? {
            Value::Int(count) => Ok(u64::try_from(count).unwrap_or(0)),
            _ => Err(unexpected()),
        }
    });
    Ok(try_join_all(counts).await?.into_iter().sum())
}

/// Reads owners; those that are not there are left out.
pub async fn read(link: &Link, kind: Kind, tags: &[OwnerTag], deadline: Instant) -> Result<Vec<Owner>> {
    let owners = tags.iter().map(async |tag| -> Result<Option<Owner>> {
        let key = link.owner_key(tag, kind.key);
        let op = Op::Script { script: &scripts::WRAPPED, keys: vec![key.clone()], args: Vec::new() };
        let Value::Array(reply) = link.run(Lane::Bulk, op, deadline).await? else { return Err(unexpected()) };
        let mut reply = reply.into_iter().map(|value| match value {
            Value::BulkString(bytes) => Some(bytes),
            _ => None,
        });
        let (sealed_name, live) = (reply.next().flatten(), reply.next().flatten());
        let archived: Vec<_> = reply.flatten().collect();
        let there = sealed_name.is_some() || live.is_some() || !archived.is_empty();
        let sealed_name = sealed_name.unwrap_or_default();
        Ok(there.then_some(Owner { tag: *tag, key, sealed_name, live, archived }))
    });
    Ok(try_join_all(owners).await?.into_iter().flatten().collect())
}
