//! Lists conversations by walking the keyspace: for a person who looks, so that no index has to be kept for every chat.

use tokio::time::Instant;

use super::{
    scripts,
    state::Content,
    store::{KEY, State, Store, context, found},
};
use crate::{
    error::{Error, Result},
    valkey::{Lane, Op, Scan},
};

/// Keys that one SCAN looks at.
const LOOKED_AT: usize = 500;
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
        let mut place = match cursor {
            "" => Scan::default(),
            text => Scan::parse(text)
                .ok_or_else(|| Error::bad_field("cursor", "is none that this call has given"))?,
        };
        let link = &self.namespaces.link;
        let Some(keys) = self.namespaces.existing(namespace, deadline).await? else {
            return Ok(Page { found: Vec::new(), cursor: String::new() });
        };
        let pattern = format!("{}{{??????????????????????}}:{KEY}", self.namespaces.link.prefix());
        let mut page = Vec::new();
        for _ in 0..STEPS {
            let (next, names) = link.scan(place, &pattern, LOOKED_AT.min(limit.max(10)), deadline).await?;
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
            let Some(next) = next else { return Ok(Page { found: page, cursor: String::new() }) };
            place = next;
            if page.len() >= limit {
                break;
            }
        }
        Ok(Page { found: page, cursor: place.to_string() })
    }
}
