//! A walk over all keys of all nodes.

use std::fmt;

use redis::Value;
use tokio::time::Instant;

use super::{
    error::LinkError,
    exchange::Inner,
    lanes::one,
    op::{self, Lane},
    server_info::text,
    shard::Undone,
};

/// A place in a walk: the node, and its own cursor. When the nodes of a cluster change meanwhile, keys may be missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    node: u16,
    cursor: u64,
}

impl Scan {
    /// Reads what [`fmt::Display`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (node, cursor) = text.split_once('-').unwrap_or(("0", text));
        let scan = Self { node: node.parse().ok()?, cursor: cursor.parse().ok()? };
        (scan != Self::default()).then_some(scan)
    }

    /// The node that is walked.
    pub(super) fn node(self) -> usize {
        usize::from(self.node)
    }

    /// The node's own place.
    pub(super) fn cursor(self) -> u64 {
        self.cursor
    }

    /// What comes after a step that gave `cursor`, of so many nodes.
    pub(super) fn next(self, cursor: u64, nodes: usize) -> Option<Self> {
        if cursor != 0 {
            return Some(Self { cursor, ..self });
        }
        let node = self.node + 1;
        (usize::from(node) < nodes).then_some(Self { node, cursor: 0 })
    }
}

impl fmt::Display for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            0 => write!(f, "{}", self.cursor),
            node => write!(f, "{node}-{}", self.cursor),
        }
    }
}

impl Inner {
    /// See [`super::Link::scan`].
    pub async fn scan(
        &self,
        from: Scan,
        pattern: &str,
        count: usize,
        deadline: Instant,
    ) -> Result<(Option<Scan>, Vec<Vec<u8>>), LinkError> {
        // Only then are the nodes known.
        self.shard(None, deadline).await?;
        let shards = self.shards();
        let mut nodes: Vec<_> = shards.all.iter().collect();
        nodes.sort_by(|one, other| one.label.cmp(&other.label));
        let Some(node) = nodes.get(from.node()) else { return Ok((None, Vec::new())) };
        let scan = one(command(from.cursor, pattern, count));
        let reply = match node.exchange(Lane::Bulk, &scan, 1, false, deadline).await {
            Ok(replies) => replies.into_iter().next().map_or(Ok(Value::Nil), op::reply)?,
            Err(Undone::Failed(error)) => return Err(error),
            Err(Undone::Retired) => return Ok((from.next(0, nodes.len()), Vec::new())),
        };
        let Some((cursor, keys)) = page(reply) else { return Ok((None, Vec::new())) };
        Ok((from.next(cursor, nodes.len()), keys))
    }
}

/// One step of a walk over a node.
pub(super) fn command(cursor: u64, pattern: &str, count: usize) -> redis::Cmd {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count);
    scan
}

/// Where to go on, 0 for nowhere, and the keys that were found.
pub(super) fn page(reply: Value) -> Option<(u64, Vec<Vec<u8>>)> {
    let Value::Array(parts) = reply else { return None };
    let mut parts = parts.into_iter();
    let cursor = text(&parts.next()?)?.parse().ok()?;
    let Value::Array(keys) = parts.next()? else { return None };
    let keys = keys.into_iter().filter_map(|key| match key {
        Value::BulkString(key) => Some(key),
        _ => None,
    });
    Some((cursor, keys.collect()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back() {
        for (node, cursor, text) in [(0, 17, "17"), (2, 0, "2-0"), (1, 9, "1-9")] {
            let scan = Scan { node, cursor };
            assert_eq!(scan.to_string(), text);
            assert_eq!(Scan::parse(text), Some(scan));
        }
        assert_eq!(Scan::parse("0"), None);
        assert_eq!(Scan::parse("x"), None);
        assert_eq!(Scan::parse("-1"), None);
    }
}
