//! Which primary serves which hash slot.

use std::{collections::HashMap, sync::Arc};

use crc16::{State, XMODEM};
use redis::Value;

use super::{server_info::text, shard::Shard, target::Place};

/// Hash slots of a cluster.
const SLOTS: usize = 16_384;
/// A slot that no node serves.
const NOBODY: u16 = u16::MAX;

/// The primaries, as far as they are known.
#[derive(Default)]
pub(super) struct Shards {
    /// Those that serve slots, then those that a slot is being moved to.
    pub all: Vec<Arc<Shard>>,
    /// For each slot the place of its shard in `all`; `None`: one server has everything.
    slots: Option<Box<[u16]>>,
}

impl Shards {
    /// One server for everything.
    pub fn single(shard: Arc<Shard>) -> Self {
        Self { all: vec![shard], slots: None }
    }

    /// A cluster of which nothing is known yet.
    pub fn unknown() -> Self {
        Self { all: Vec::new(), slots: Some(vec![NOBODY; SLOTS].into()) }
    }

    /// The shards of `view`.
    pub fn of(view: &View, mut shard: impl FnMut(&Node) -> Arc<Shard>) -> Self {
        let mut slots = vec![NOBODY; SLOTS];
        let mut all = Vec::new();
        let mut places: HashMap<&Place, u16> = HashMap::new();
        for range in &view.0 {
            let place = *places.entry(&range.node.place).or_insert_with(|| {
                all.push(shard(&range.node));
                u16::try_from(all.len() - 1).unwrap_or(NOBODY)
            });
            for slot in range.first..=range.last {
                if let Some(slot) = slots.get_mut(usize::from(slot)) {
                    *slot = place;
                }
            }
        }
        Self { all, slots: Some(slots.into()) }
    }

    /// The same with one more that serves no slot yet.
    pub fn with_guest(&self, guest: Arc<Shard>) -> Self {
        let mut all = self.all.clone();
        all.push(guest);
        Self { all, slots: self.slots.clone() }
    }

    /// The shard of `key`'s slot.
    pub fn of_key(&self, key: &[u8]) -> Option<&Arc<Shard>> {
        let Some(slots) = &self.slots else { return self.all.first() };
        self.all.get(usize::from(slots[slot(key)]))
    }

    /// The shard at a place.
    pub fn at(&self, place: &str) -> Option<&Arc<Shard>> {
        self.all.iter().find(|shard| shard.label == place)
    }

    /// Whether every slot has a shard.
    pub fn is_whole(&self) -> bool {
        self.slots.as_ref().is_none_or(|slots| !slots.contains(&NOBODY))
    }

    pub fn is_cluster(&self) -> bool {
        self.slots.is_some()
    }
}

/// The hash slot of a key: of what is between its first braces, if there is anything.
pub(super) fn slot(key: &[u8]) -> usize {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|byte| *byte == b'}').filter(|length| *length > 0).map(|length| &rest[..length])
    });
    usize::from(State::<XMODEM>::calculate(tag.unwrap_or(key))) % SLOTS
}

/// What one node says of all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct View(Vec<Range>);

/// Neighbouring slots of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Range {
    first: u16,
    last: u16,
    node: Node,
}

/// A primary.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Node {
    pub place: Place,
    /// Its name, where the cluster tells addresses and knows the name as well.
    pub hostname: Option<String>,
}

impl View {
    /// Reads the reply to `CLUSTER SLOTS`. A node that does not know its own address is at `asked`.
    pub fn parse(reply: &Value, asked: &str) -> Option<Self> {
        let Value::Array(ranges) = reply else { return None };
        let mut found = Vec::with_capacity(ranges.len());
        for range in ranges {
            let Value::Array(range) = range else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = &range[..] else {
                return None;
            };
            let [host, Value::Int(port), ..] = &primary[..] else { return None };
            let host =
                text(host).filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| asked.to_owned());
            let hostname = primary.get(3).and_then(hostname).filter(|name| *name != host);
            let node = Node { place: Place { host, port: u16::try_from(*port).ok()? }, hostname };
            found.push(Range { first: u16::try_from(*first).ok()?, last: u16::try_from(*last).ok()?, node });
        }
        found.sort();
        (!found.is_empty()).then_some(Self(found))
    }
}

impl View {
    /// What all who answered say together, each under its own place: what most say, but whether a slot is its own every node
    /// knows best, and where it went as well. News of a slot that moved reach the others later.
    pub fn of_all(views: &[(String, Self)]) -> Option<Self> {
        let mut votes: HashMap<&Self, usize> = HashMap::new();
        for (_, view) in views {
            *votes.entry(view).or_default() += 1;
        }
        let (most, _) = votes.iter().max_by_key(|(_, votes)| **votes)?;
        if votes.len() == 1 {
            return Some(Self::clone(most));
        }
        let own: HashMap<&str, &Self> = views.iter().map(|(place, view)| (place.as_str(), view)).collect();
        let mut merged: Vec<Range> = Vec::new();
        for slot in 0..u16::try_from(SLOTS).unwrap_or(u16::MAX) {
            let Some(mut node) = most.owner(slot) else { continue };
            for _ in 0..views.len() {
                let says = own.get(node.place.to_string().as_str()).and_then(|view| view.owner(slot));
                match says {
                    Some(other) if other.place != node.place => node = other,
                    _ => break,
                }
            }
            match merged.last_mut() {
                Some(range) if range.last + 1 == slot && range.node == *node => range.last = slot,
                _ => merged.push(Range { first: slot, last: slot, node: node.clone() }),
            }
        }
        (!merged.is_empty()).then_some(Self(merged))
    }

    fn owner(&self, slot: u16) -> Option<&Node> {
        self.0.iter().find(|range| (range.first..=range.last).contains(&slot)).map(|range| &range.node)
    }
}

/// The host name among a node's further networking data.
fn hostname(metadata: &Value) -> Option<String> {
    let pairs: Vec<(String, String)> = match metadata {
        Value::Array(flat) => {
            flat.chunks(2).filter_map(|pair| Some((text(pair.first()?)?, text(pair.get(1)?)?))).collect()
        }
        Value::Map(pairs) => {
            pairs.iter().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
        }
        _ => return None,
    };
    pairs
        .into_iter()
        .find(|(name, _)| name == "hostname")
        .map(|(_, value)| value)
        .filter(|value| !value.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn slots_are_those_of_the_server() {
        // From the specification of Redis Cluster.
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"foo{}{bar}"), usize::from(State::<XMODEM>::calculate(b"foo{}{bar}")) % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), usize::from(State::<XMODEM>::calculate(b"{bar")) % SLOTS);
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
    }

    #[test]
    fn a_view_tells_places_and_names() {
        let node = |host: Value, port, more: Vec<Value>| {
            Value::Array(vec![host, Value::Int(port), bulk("id"), Value::Array(more)])
        };
        let reply = Value::Array(vec![
            Value::Array(vec![Value::Int(8192), Value::Int(16383), node(Value::Nil, 7001, Vec::new())]),
            Value::Array(vec![
                Value::Int(0),
                Value::Int(8191),
                node(bulk("10.0.0.1"), 7000, vec![bulk("hostname"), bulk("one.example")]),
                node(bulk("10.0.0.9"), 7009, Vec::new()),
            ]),
        ]);
        let view = View::parse(&reply, "seed.example").unwrap();
        assert_eq!(view.0.len(), 2);
        assert_eq!(view.0[0].node.place.to_string(), "10.0.0.1:7000");
        assert_eq!(view.0[0].node.hostname.as_deref(), Some("one.example"));
        assert_eq!(view.0[1].node.place.to_string(), "seed.example:7001");
        assert_eq!(View::parse(&Value::Array(Vec::new()), "x"), None);
        assert_eq!(View::parse(&bulk("x"), "x"), None);
    }

    fn range(first: u16, last: u16, port: u16) -> Range {
        Range { first, last, node: Node { place: Place { host: "h".into(), port }, hostname: None } }
    }

    #[test]
    fn a_node_knows_its_own_slots_best() {
        let before = View(vec![range(0, 99, 1), range(100, 199, 2), range(200, 299, 3)]);
        // Node 1 gave slot 50 to node 4, which nobody asked; nodes 2 and 3 have not heard of it.
        let after = View(vec![
            range(0, 49, 1),
            range(50, 50, 4),
            range(51, 99, 1),
            range(100, 199, 2),
            range(200, 299, 3),
        ]);
        let say = |port: u16, view: &View| (format!("h:{port}"), view.clone());
        assert_eq!(View::of_all(&[say(1, &after), say(2, &before), say(3, &before)]), Some(after.clone()));
        // A primary that is cut off thinks that it still is one; whoever took over is not asked by it.
        let taken = View(vec![range(0, 99, 4), range(100, 199, 2), range(200, 299, 3)]);
        assert_eq!(View::of_all(&[say(4, &taken), say(2, &taken), say(1, &before)]), Some(taken));
        assert_eq!(View::of_all(&[say(2, &before)]), Some(before));
        assert_eq!(View::of_all(&[]), None);
    }
}
