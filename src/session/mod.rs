//! Sessions: the credentials and Signal keys of a bot.
//!
//! Nothing here has a TTL. A commit is all or nothing; commits of one session apply in the order sent; a stale owner's
//! write is refused by the script that would have made it.
//!
//! `rpc` is the door (`attach` the stream behind it), `store` the floor.

mod attach;
mod attributes;
mod batch;
mod busy;
mod commit;
mod convert;
mod head;
mod hints;
mod index;
mod intake;
mod keys;
mod lease;
mod lifecycle;
mod limits;
mod name;
mod opening;
mod outbox;
mod pages;
mod parts;
mod records;
mod rpc;
mod scripts;
mod store;
mod stream;
mod sweeper;
mod take;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use self::{busy::Busy, hints::Hints, keys::KeyCache, name::SessionName, parts::Budget, store::Store};
pub use self::{name::KIND, rpc::service, scripts::ALL as SCRIPTS};
use crate::{
    crypto::{OwnerTag, SharedKeyring},
    error::{Error, Result},
    owner::{reply, sweeper as sweeping},
    valkey::{Link, Replicas},
};

/// Record types of Baileys. Others are an application's own, and are not named in logs.
const KNOWN_TYPES: &[&str] = &[
    "creds",
    "pre-key",
    "session",
    "sender-key",
    "sender-key-memory",
    "app-state-sync-key",
    "app-state-sync-version",
    "lid-mapping",
    "device-list",
    "tctoken",
    "identity-key",
];

/// What sessions may take of the sidecar.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes that commits in flight hold together.
    pub commit_buffer: usize,
    /// Unary calls on one session.
    pub in_flight: usize,
}

/// The session capability of one sidecar.
pub struct Sessions {
    store: Arc<Store>,
    hints: Hints,
    budget: Budget,
    busy: Busy,
    draining: watch::Sender<bool>,
    attached: AtomicU32,
    /// Streams that do not have their lease yet.
    opening: AtomicU32,
}

impl Sessions {
    /// Starts serving sessions over `link`.
    pub fn new(link: Link, keyring: Arc<SharedKeyring>, bounds: Bounds) -> Arc<Self> {
        let store = Arc::new(Store {
            link: link.clone(),
            replicas: Replicas::new(link.clone()),
            keyring,
            keys: KeyCache::default(),
        });
        let hints = Hints::default();
        tokio::spawn(hints.clone().follow(link));
        tokio::spawn(sweeping::run(Arc::clone(&store)));
        Arc::new(Self {
            store,
            hints,
            budget: Budget::new(bounds.commit_buffer),
            busy: Busy::new(bounds.in_flight),
            draining: watch::Sender::new(false),
            attached: AtomicU32::new(0),
            opening: AtomicU32::new(0),
        })
    }

    /// Why a write of another capability, guarded by the session of this name, is refused while somebody holds it.
    pub async fn held(&self, namespace: &str, session: &str, deadline: Instant) -> Error {
        let keyring = self.store.keyring.current();
        let name = SessionName::new(&keyring, namespace.to_owned(), session.to_owned());
        match self.store.holder(&name, deadline).await {
            Ok(held) => held.error(),
            Err(error) => error,
        }
    }

    /// Takes away what is left of a session of which nothing is left: only something else had kept it.
    pub async fn forget_empty(&self, tag: OwnerTag, deadline: Instant) -> Result<()> {
        self.store.forget_empty(tag, deadline).await
    }

    /// Streams open now.
    pub fn attached(&self) -> u32 {
        self.attached.load(Ordering::Relaxed)
    }

    /// Tells every stream that the sidecar is stopping, and waits until what they had asked for is answered. Leases stay
    /// their owners'. The caller bounds the wait.
    pub async fn drain(&self) {
        self.draining.send_replace(true);
        while self.attached() + self.opening.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
