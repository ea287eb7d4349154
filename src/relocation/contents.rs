//! What a key holds, independent of the server that holds it: to compare two copies, and to write one where `RESTORE` cannot.
//! (Two dumps of the same hash differ: its order is each server's own.)

use redis::{Cmd, Value, cmd};
use sha2::{Digest as _, Sha256};

use crate::valkey::Depot;

/// Members of one command when a key is written anew.
const SLICE: usize = 500;

/// Of one key, or of many: independent of their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Takes one more in.
    pub fn add(&mut self, other: &Self) {
        let mut carry = 0;
        for (sum, more) in self.0.iter_mut().zip(other.0).rev() {
            let total = u16::from(*sum) + u16::from(more) + carry;
            *sum = u8::try_from(total & 0xff).unwrap_or_default();
            carry = total >> 8;
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A key as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    kind: String,
    /// The instant at which it goes, ms; -1: it stays.
    pub expires: i64,
    /// Members: in order for a list, sorted for all else.
    members: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Contents {
    /// Reads keys; `None` where one is not there (any more).
    ///
    /// # Errors
    /// When Valkey does not answer, or a key is of a type that Pannier does not use.
    pub async fn read(depot: &Depot, keys: &[Vec<u8>]) -> Result<Vec<Option<Self>>, String> {
        let on = |name: &str, key: &Vec<u8>| {
            let mut command = cmd(name);
            command.arg(key);
            command
        };
        let types = depot.send(keys.iter().map(|key| on("TYPE", key)).collect()).await?;
        let mut kinds = Vec::with_capacity(keys.len());
        let mut reads = Vec::with_capacity(2 * keys.len());
        for (key, kind) in keys.iter().zip(types) {
            let kind = match kind.map_err(|error| error.to_string())? {
                Value::SimpleString(kind) => kind,
                Value::BulkString(kind) => String::from_utf8_lossy(&kind).into_owned(),
                _ => return Err("TYPE gave no word".into()),
            };
            let mut read = match kind.as_str() {
                // A TYPE again: it goes the same way as the others.
                "none" => on("TYPE", key),
                "string" => on("GET", key),
                "hash" => on("HGETALL", key),
                "set" => on("SMEMBERS", key),
                "zset" | "list" => on(if kind == "zset" { "ZRANGE" } else { "LRANGE" }, key),
                other => return Err(format!("a key is a {other}, which Pannier does not use")),
            };
            if kind == "zset" || kind == "list" {
                read.arg(0).arg(-1);
            }
            if kind == "zset" {
                read.arg("WITHSCORES");
            }
            reads.extend([read, on("PEXPIRETIME", key)]);
            kinds.push(kind);
        }
        let mut replies = depot.send(reads).await?.into_iter();
        let mut found = Vec::with_capacity(keys.len());
        for kind in kinds {
            let mut next = || replies.next().unwrap_or(Ok(Value::Nil)).map_err(|error| error.to_string());
            let (value, expires) = (next()?, next()?);
            let expires = if let Value::Int(at) = expires { at } else { -1 };
            let gone = kind == "none" || expires == -2;
            found.push((!gone).then(|| Self { members: members(&kind, value), kind, expires }));
        }
        Ok(found)
    }

    /// What is the same in every copy, and in no other key.
    pub fn fingerprint(&self, key: &[u8]) -> Fingerprint {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(bytes);
        };
        part(key);
        part(self.kind.as_bytes());
        part(&self.expires.to_be_bytes());
        for (member, value) in &self.members {
            part(member);
            part(value);
        }
        Fingerprint(hash.finalize().into())
    }

    /// The commands that write it under `key`, whatever is there.
    pub fn written(&self, key: &[u8]) -> Vec<Cmd> {
        let on = |name: &str| {
            let mut command = cmd(name);
            command.arg(key);
            command
        };
        let mut commands = vec![on("DEL")];
        for slice in self.members.chunks(SLICE) {
            let mut write = on(match self.kind.as_str() {
                "string" => "SET",
                "hash" => "HSET",
                "set" => "SADD",
                "zset" => "ZADD",
                _ => "RPUSH",
            });
            for (member, value) in slice {
                match self.kind.as_str() {
                    "hash" => write.arg(member).arg(value),
                    "zset" => write.arg(score(value).to_string()).arg(member),
                    _ => write.arg(member),
                };
            }
            commands.push(write);
        }
        if self.expires >= 0 {
            let mut expire = on("PEXPIREAT");
            expire.arg(self.expires);
            commands.push(expire);
        }
        commands
    }
}

fn score(bytes: &[u8]) -> f64 {
    <[u8; 8]>::try_from(bytes).map_or(0.0, f64::from_be_bytes)
}

fn bytes(value: Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) => text.into_bytes(),
        Value::Int(number) => number.to_string().into_bytes(),
        Value::Double(number) => number.to_be_bytes().to_vec(),
        _ => Vec::new(),
    }
}

fn members(kind: &str, value: Value) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut members: Vec<_> = match value {
        Value::Map(pairs) => pairs.into_iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        Value::Array(all) | Value::Set(all) => all
            .into_iter()
            .map(|one| match one {
                Value::Array(pair) => {
                    let mut pair = pair.into_iter();
                    let mut next = || pair.next().map(bytes).unwrap_or_default();
                    (next(), next())
                }
                one => (bytes(one), Vec::new()),
            })
            .collect(),
        one => vec![(bytes(one), Vec::new())],
    };
    if kind != "list" {
        members.sort_unstable();
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_independent_of_the_order() {
        let (one, two) = (Fingerprint([0xff; 32]), Fingerprint([1; 32]));
        let sum = |parts: [&Fingerprint; 2]| {
            let mut sum = Fingerprint::default();
            for part in parts {
                sum.add(part);
            }
            sum
        };
        assert_eq!(sum([&one, &two]), sum([&two, &one]));
        assert_ne!(sum([&one, &two]), sum([&one, &one]));
    }
}
