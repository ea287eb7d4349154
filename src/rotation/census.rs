//! How many root keys each key wraps. Read off the wrapped keys themselves, without opening any.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::walk::{self, BATCH, KINDS};
use crate::{
    blob,
    crypto::wrapped_kek_id,
    error::Result,
    owner::{
        catalog::{self, BUCKETS},
        namespace,
    },
    valkey::Link,
};

/// What one key wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrapped {
    /// Live sessions.
    pub sessions: u64,
    /// Soft-deleted incarnations of sessions.
    pub archives: u64,
    /// Blobs.
    pub blobs: u64,
    /// Namespaces.
    pub namespaces: u64,
}

impl Wrapped {
    /// All root keys: at 0 nothing needs the key.
    pub fn all(&self) -> u64 {
        self.sessions + self.archives + self.blobs + self.namespaces
    }
}

/// A count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// By key id; a key that wraps nothing is not among them.
    pub by_key: BTreeMap<u32, Wrapped>,
    /// Root keys that are none: damaged, or of a later format.
    pub damaged: u64,
}

impl Census {
    /// What this key wraps.
    pub fn of(&self, id: u32) -> Wrapped {
        self.by_key.get(&id).copied().unwrap_or_default()
    }
}

/// Counts by reading every owner of the database on the bulk lane, so it takes a second for every 10 000 or so. An owner that
/// is made or removed meanwhile may or may not be counted; one that was there all along is.
///
/// # Errors
/// When Valkey does not answer inside the deadline.
pub async fn census(link: &Link, deadline: Instant) -> Result<Census> {
    let mut census = Census::default();
    for kind in KINDS {
        for bucket in 0..BUCKETS {
            for tags in catalog::bucket(link, kind.name, bucket, deadline).await?.chunks(BATCH) {
                for owner in walk::read(link, kind, tags, deadline).await? {
                    let live = owner.live.iter().map(|wrapped| (wrapped, false));
                    for (wrapped, archived) in
                        live.chain(owner.archived.iter().map(|wrapped| (wrapped, true)))
                    {
                        let Some(id) = wrapped_kek_id(wrapped) else {
                            census.damaged += 1;
                            continue;
                        };
                        let count = census.by_key.entry(id).or_default();
                        *match (kind.name, archived) {
                            (_, true) => &mut count.archives,
                            (namespace::KIND, _) => &mut count.namespaces,
                            (blob::KIND, _) => &mut count.blobs,
                            _ => &mut count.sessions,
                        } += 1;
                    }
                }
            }
        }
    }
    Ok(census)
}
