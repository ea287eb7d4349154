//! Lists conversations by walking the keyspace: for a person who looks, so that no index has to be kept for every chat.

use redis::{Value, cmd};
use tokio::time::Instant;

use super::{
    scripts,
    state::Content,
    store::{KEY, State, Store, context, found},
};
use crate::{
    error::{Error, Result},
    owner::reply::unexpected,
    valkey::{Lane, Op},
};

/// Keys that one SCAN looks at.
const SCAN: usize = 500;
/// SCANs of one page.
const STEPS: usize = 20;
/// States read in one write: each may be 256 KiB.
const TOGETHER: usize = 32;

/// One page.
pub struct Page {
    pub found: Vec<(String, State)>,
    /// "" ends.
    pub cursor: String,
}

impl Store {
    /// The next conversations of a namespace.
    pub async fn list(&self, namespace: &str, cursor: &str, limit: usize, deadline: Instant) -> Result<Page> {
        let mut cursor: u64 = match cursor {
            "" => 0,
            text => text
                .parse()
                .ok()
                .filter(|cursor| *cursor != 0)
                .ok_or_else(|| Error::bad_field("cursor", "is none that this call has given"))?,
        };
        let Some(keys) = self.namespaces.existing(namespace, deadline).await? else {
            return Ok(Page { found: Vec::new(), cursor: String::new() });
        };
        let pattern = format!("{}{{??????????????????????}}:{KEY}", self.namespaces.link.prefix());
        let mut page = Vec::new();
        for _ in 0..STEPS {
            let (next, names) = self.scan(cursor, &pattern, SCAN.min(limit.max(10)), deadline).await?;
            cursor = next;
            for names in names.chunks(TOGETHER) {
                let ops: Vec<_> = names
                    .iter()
                    .map(|key| Op::Script {
                        script: &scripts::GET,
                        keys: vec![key.clone()],
                        args: vec![Vec::new()],
                    })
                    .collect();
                for value in self.namespaces.link.read(Lane::Bulk, &ops, deadline).await? {
                    let Some((mut state, sealed)) = found(value)? else { continue };
                    // Another namespace's does not open with these keys.
                    let opened =
                        keys.open_unnamed(&sealed, |plain| Some(context(namespace, Content::id_of(plain)?)));
                    let Ok(opened) = opened else { continue };
                    let Some((id, content)) = Content::decode(&opened.plaintext) else { continue };
                    state.content = content;
                    page.push((id, state));
                }
            }
            if cursor == 0 || page.len() >= limit {
                break;
            }
        }
        let cursor = if cursor == 0 { String::new() } else { cursor.to_string() };
        Ok(Page { found: page, cursor })
    }

    async fn scan(
        &self,
        cursor: u64,
        pattern: &str,
        count: usize,
        deadline: Instant,
    ) -> Result<(u64, Vec<Vec<u8>>)> {
        let mut scan = cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count);
        let Value::Array(parts) = self.namespaces.link.run(Lane::Bulk, Op::Cmd(scan), deadline).await? else {
            return Err(unexpected());
        };
        let mut parts = parts.into_iter();
        let (Some(Value::BulkString(next)), Some(Value::Array(names))) = (parts.next(), parts.next()) else {
            return Err(unexpected());
        };
        let next =
            std::str::from_utf8(&next).ok().and_then(|next| next.parse().ok()).ok_or_else(unexpected)?;
        let names = names.into_iter().filter_map(|name| match name {
            Value::BulkString(name) => Some(name),
            _ => None,
        });
        Ok((next, names.collect()))
    }
}
