//! Blobs: session archives and other large opaque state, streamed, versioned, verified.
//!
//! The last good generation is never lost: a save becomes visible whole, by one script, or not at all. What is given out was
//! proven first. Neither way holds more than a few parts in memory. Nothing committed has a TTL.
//!
//! `rpc` is the door (`incoming` and `save`, `fetch` the streams behind it), `store` the floor. The session of the same name guards a blob.

mod body;
mod collect;
mod convert;
mod fetch;
mod incoming;
mod index;
mod keys;
mod lifecycle;
mod limits;
mod manifest;
mod name;
mod pace;
mod rpc;
mod save;
mod scripts;
mod store;
mod transfers;
mod upload;

use std::{sync::Arc, time::Duration};

pub use self::{name::KIND, rpc::service, scripts::ALL as SCRIPTS};
use self::{pace::Pacer, store::Store, transfers::Transfers};
use crate::{crypto::SharedKeyring, owner::sweeper, session::Sessions, valkey::Link};

/// Generations kept of a blob, the current one among them.
const KEEP_GENERATIONS: u64 = 3;
/// How long one that has fallen out stays for its readers.
const READERS: Duration = Duration::from_secs(15 * 60);
/// How long an archive is kept.
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);
/// Archives of one blob.
const ARCHIVES_MAX: u64 = 3;
/// An upload whose next part takes longer than this is given up.
const PART_TIME: Duration = Duration::from_secs(2 * 60);
/// Uploads of one blob at once; one more ends the one that has been idle longest.
const UPLOADS_MAX: u64 = 16;
/// Generations of one blob in all, those to be collected among them: what its scripts walk over.
const GENERATIONS_MAX: u64 = 256;
/// How long the last error is remembered, ms.
const ERROR_KEEP: u64 = 7 * 24 * 3600 * 1000;
/// A client that is silent, or takes nothing, for this long is given up.
const IDLE: Duration = Duration::from_secs(30);
/// One call to Valkey during a transfer: a short outage does not end it.
const CALL: Duration = Duration::from_secs(30);

/// What an operator may set.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one blob.
    pub max_blob: u64,
    /// Bytes in Valkey of the generations beside the current one, for each blob.
    pub max_history: u64,
    /// Bytes a second of all saves together, and of all fetches together; 0: no limit.
    pub bulk_rate: u64,
}

/// The blob capability of one sidecar.
pub struct Blobs {
    store: Arc<Store>,
    transfers: Transfers,
}

impl Blobs {
    /// Starts serving blobs over `link`.
    pub fn new(
        link: Link,
        keyring: Arc<SharedKeyring>,
        sessions: Arc<Sessions>,
        limits: Limits,
    ) -> Arc<Self> {
        let (writes, reads) = (Pacer::new(limits.bulk_rate), Pacer::new(limits.bulk_rate));
        let store = Arc::new(Store { link, keyring, sessions, limits, writes, reads });
        tokio::spawn(sweeper::run(Arc::clone(&store)));
        Arc::new(Self { store, transfers: Transfers::default() })
    }

    /// Lets transfers end for a few seconds and cuts off the rest with DRAINING; the caller bounds the wait.
    pub async fn drain(&self) {
        self.transfers.drain().await;
    }
}
