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
        let Some(node) = nodes.get(usize::from(from.node)) else { return Ok((None, Vec::new())) };
        let mut scan = redis::cmd("SCAN");
        scan.arg(from.cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count);
        let reply = match node.exchange(Lane::Bulk, &one(scan), 1, false, deadline).await {
            Ok(replies) => replies.into_iter().next().map_or(Ok(Value::Nil), op::reply)?,
            Err(Undone::Failed(error)) => return Err(error),
            Err(Undone::Retired) => return Ok((next_node(from, nodes.len()), Vec::new())),
        };
        let Value::Array(parts) = reply else { return Ok((None, Vec::new())) };
        let mut parts = parts.into_iter();
        let cursor = parts.next().as_ref().and_then(text).and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let keys = match parts.next() {
            Some(Value::Array(keys)) => keys,
            _ => Vec::new(),
        };
        let keys = keys.into_iter().filter_map(|key| match key {
            Value::BulkString(key) => Some(key),
            _ => None,
        });
        let next = if cursor == 0 { next_node(from, nodes.len()) } else { Some(Scan { cursor, ..from }) };
        Ok((next, keys.collect()))
    }
}

fn next_node(from: Scan, nodes: usize) -> Option<Scan> {
    let node = from.node + 1;
    (usize::from(node) < nodes).then_some(Scan { node, cursor: 0 })
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
