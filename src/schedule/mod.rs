//! Schedule: delayed, retried and recurring jobs, in groups, under limits, for workers that may die at any moment.
//!
//! A job that was accepted ends exactly once. Whatever is decided about it is decided by one script on its queue's slot, by the
//! server's clock; a lease's fence lets only its newest holder settle it.
//!
//! `rpc` is the door (`stream`, `settling` and `poll` what workers use), `store` the floor; `runner` hands jobs to workers, `timers` does
//! what comes by itself.

mod adding;
mod answers;
mod batch;
mod batchers;
mod caps;
mod convert;
mod crons;
mod depth;
mod discover;
mod every;
pub mod gate;
mod gated;
mod handle;
mod header;
mod hello;
mod jobs;
mod limits;
mod listing;
mod mend;
mod poll;
mod queue;
mod rpc;
mod runner;
mod scripts;
mod sealed;
mod settings;
mod settling;
mod spec;
mod store;
mod stream;
mod timers;
mod watch;
mod worker;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use self::{
    gate::Gate,
    handle::Handle,
    queue::{Queue, QueueName},
    store::Store,
    timers::Timers,
};
pub use self::{
    queue::KIND,
    rpc::{Handler, service},
    scripts::ALL as SCRIPTS,
    settings::AT_REST,
};
use crate::{
    crypto::SharedKeyring,
    error::{Error, Reason},
    owner::namespace::Namespaces,
    telemetry,
    valkey::Link,
};

/// Queues in memory from which on those are dropped that do not exist.
const MANY: usize = 4096;

/// The queues in memory.
struct Queues {
    handles: HashMap<(String, String), Arc<Handle>>,
    /// How many there are when they are looked over again: with more that do exist, later.
    look_at: usize,
}

/// The schedule capability of one sidecar.
pub struct Schedules {
    store: Arc<Store>,
    timers: Timers,
    gate: Arc<dyn Gate>,
    queues: Mutex<Queues>,
    draining: CancellationToken,
}

impl Schedules {
    /// Starts serving queues over `link`.
    pub fn new(
        link: Link,
        keyring: Arc<SharedKeyring>,
        namespaces: Arc<Namespaces>,
        gate: Arc<dyn Gate>,
    ) -> Arc<Self> {
        let schedules = Arc::new(Self {
            store: Arc::new(Store { link, keyring, namespaces }),
            timers: Timers::start(),
            gate,
            queues: Mutex::new(Queues { handles: HashMap::new(), look_at: MANY }),
            draining: CancellationToken::new(),
        });
        tokio::spawn(discover::run(Arc::downgrade(&schedules)));
        if telemetry::is_recording() {
            tokio::spawn(depth::run(Arc::downgrade(&schedules)));
        }
        schedules
    }

    /// A queue in use.
    fn handle(&self, namespace: &str, queue: &str) -> Arc<Handle> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), queue.to_owned());
        if queues.handles.len() >= queues.look_at && !queues.handles.contains_key(&key) {
            // Those that were only asked for and are not there.
            queues.handles.retain(|_, handle| Arc::strong_count(handle) > 1 || handle.is_planned());
            queues.look_at = MANY.max(2 * queues.handles.len());
        }
        let handle = queues.handles.entry(key).or_insert_with(|| {
            let name = QueueName::new(&self.store.keyring.current(), namespace, queue);
            let queue = Queue::new(&self.store.link, name);
            Handle::new(&self.store, queue, self.timers.clone(), Arc::clone(&self.gate))
        });
        Arc::clone(handle)
    }

    /// Tells workers that no more jobs come; their streams end within seconds, as do calls that wait.
    #[allow(clippy::unused_async)]
    pub async fn drain(&self) {
        self.draining.cancel();
    }
}

/// What a stream ends with.
fn stopping() -> Error {
    Error::new(Reason::Draining, "this sidecar is stopping; connect again")
        .retry_after(Duration::from_millis(500))
}
