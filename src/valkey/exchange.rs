//! What all handles of a link share: the shards, whether the database behind them may be used, and the way by which calls
//! reach them.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use redis::{Pipeline, Value};
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::crypto::SharedKeyring;

use super::{
    LinkConfig, LinkState, StartError,
    busy_poll::BusyPoll,
    error::LinkError,
    idle::Idle,
    keys::Names,
    lanes::Generation,
    op::Lane,
    pubsub::Hub,
    report::Report,
    script::Script,
    shard::{Phase, Shard, Undone},
    topology::Shards,
};

/// Whether the database may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Database {
    /// Not accepted yet.
    Unknown,
    Accepted,
    Changed,
}

pub(super) struct Inner {
    pub names: Names,
    pub config: LinkConfig,
    pub keyring: SharedKeyring,
    pub scripts: &'static [&'static Script],
    pub hub: Hub,
    pub busy_poll: BusyPoll,
    pub idle: Arc<Idle>,
    /// Host and port, or socket: for logs.
    pub label: String,
    pub kinds: Vec<String>,
    /// The database's own hash: where calls without a key go, and subscriptions.
    home_key: Vec<u8>,
    /// Asks for a new look at who serves what.
    pub look: Notify,
    /// Looks that were taken.
    pub looks: watch::Sender<u64>,
    shards: watch::Sender<Arc<Shards>>,
    database: watch::Sender<Database>,
    state: watch::Sender<LinkState>,
    failed: watch::Sender<Option<StartError>>,
    report: ArcSwap<Report>,
    /// The database of this process, from the first accepted connection on.
    store_id: OnceLock<String>,
    closed: CancellationToken,
    /// Shards so far.
    ids: AtomicU64,
    /// Generations so far, of all shards.
    generations: AtomicU64,
    /// Shards that a redirection made known, to be connected. Unset without a cluster.
    newcomers: OnceLock<mpsc::UnboundedSender<Arc<Shard>>>,
}

impl Inner {
    /// Shares it, with the task that looks at the sockets after calls.
    pub fn start(self) -> Arc<Self> {
        let inner = Arc::new(self);
        let awake = Arc::clone(&inner);
        tokio::spawn(async move {
            tokio::select! {
                () = awake.busy_poll.run() => {}
                () = awake.closed() => {}
            }
        });
        inner
    }

    pub fn new(
        config: LinkConfig,
        keyring: SharedKeyring,
        scripts: &'static [&'static Script],
        kinds: &[&str],
        label: String,
    ) -> Self {
        let why = format!("connecting to {label}");
        let names = Names::new(&config.env);
        Self {
            home_key: names.meta().into_bytes(),
            names,
            busy_poll: BusyPoll::new(config.busy_poll),
            idle: Arc::new(Idle::new(config.idle_disconnect)),
            config,
            keyring,
            scripts,
            hub: Hub::default(),
            label,
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            look: Notify::new(),
            looks: watch::Sender::new(0),
            shards: watch::Sender::new(Arc::new(Shards::unknown())),
            database: watch::Sender::new(Database::Unknown),
            state: watch::Sender::new(LinkState::Starting { why }),
            failed: watch::Sender::new(None),
            report: ArcSwap::default(),
            store_id: OnceLock::new(),
            closed: CancellationToken::new(),
            ids: AtomicU64::new(0),
            generations: AtomicU64::new(0),
            newcomers: OnceLock::new(),
        }
    }

    pub fn state(&self) -> watch::Receiver<LinkState> {
        self.state.subscribe()
    }

    pub fn failed(&self) -> watch::Receiver<Option<StartError>> {
        self.failed.subscribe()
    }

    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// The number of the next generation, of whichever shard.
    pub fn next_generation(&self) -> u64 {
        self.generations.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn new_shard(&self, label: String) -> Arc<Shard> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed) + 1;
        let shard = Shard::new(id, label, self.closed.clone());
        if self.is_store_changed() {
            shard.set_phase(Phase::StoreChanged);
        }
        Arc::new(shard)
    }

    pub fn shards(&self) -> Arc<Shards> {
        Arc::clone(&self.shards.borrow())
    }

    pub fn is_cluster(&self) -> bool {
        self.shards.borrow().is_cluster()
    }

    pub fn set_shards(&self, shards: Shards) {
        self.shards.send_replace(Arc::new(shards));
        self.tell();
    }

    /// Who connects to shards that calls find out about.
    pub fn connects(&self, newcomers: mpsc::UnboundedSender<Arc<Shard>>) {
        let _ = self.newcomers.set(newcomers);
    }

    /// The shard at a place that a redirection told, known or not.
    pub fn guest(&self, place: &str) -> Arc<Shard> {
        let fresh = self.new_shard(place.to_owned());
        let mut known = None;
        self.shards.send_if_modified(|shards| {
            known = shards.at(place).cloned();
            if known.is_none() {
                *shards = Arc::new(shards.with_guest(Arc::clone(&fresh)));
            }
            known.is_none()
        });
        let Some(known) = known else {
            if let Some(newcomers) = self.newcomers.get() {
                let _ = newcomers.send(Arc::clone(&fresh));
            }
            return fresh;
        };
        known
    }

    /// The shard that subscriptions are made at: the one of the database's own hash.
    pub fn home(&self) -> Option<Arc<Shard>> {
        self.shards.borrow().of_key(&self.home_key).cloned()
    }

    /// The same from those that are known, while nobody adds one.
    pub fn update_shards(&self, next: impl FnOnce(&Shards) -> Shards) {
        self.shards.send_modify(|shards| *shards = Arc::new(next(shards)));
        self.tell();
    }

    /// A shard has a connection that was checked. Calls may use it when the database was accepted.
    pub fn connected(&self, shard: &Shard, generation: &Arc<Generation>) {
        shard.set_connected(generation);
        if self.has_started() && !self.is_store_changed() {
            shard.set_phase(Phase::Ready(Arc::clone(generation)));
        }
        self.tell();
    }

    /// A shard is not usable for now; before the first success: not yet. A changed database stays one until it was looked
    /// at again.
    pub fn down(&self, shard: &Shard, why: &str) {
        self.unusable(shard, Phase::Down(why.to_owned()));
    }

    /// The same: it goes `Down`, or it answers and is `Unfit`.
    pub fn unusable(&self, shard: &Shard, phase: Phase) {
        shard.take_connected();
        if !self.is_store_changed() {
            shard.set_phase(match phase {
                Phase::Down(why) | Phase::Unfit(why) if !self.has_started() => Phase::Starting(why),
                phase => phase,
            });
        }
        self.tell();
        self.look.notify_one();
    }

    /// Lets no call use the connection any more, as nobody uses the link; false, and nothing has changed, if somebody does after all.
    /// Whoever comes later waits for the next connection, so that no call is cut off.
    pub fn fall_asleep(&self, shard: &Shard, generation: &Arc<Generation>) -> bool {
        if self.is_store_changed() {
            return false;
        }
        shard.set_phase(Phase::Asleep);
        if self.idle.is_used() {
            self.connected(shard, generation);
            return false;
        }
        shard.take_connected();
        self.tell();
        true
    }

    /// The first accepted database is this process's for good; calls may use what is connected.
    pub fn accept_store(&self, id: String) {
        let _ = self.store_id.set(id);
        self.database.send_replace(Database::Accepted);
        for shard in &self.shards().all {
            if let Some(generation) = shard.connected() {
                shard.set_phase(Phase::Ready(generation));
            }
        }
        self.tell();
    }

    /// The database is back.
    pub fn accept_again(&self) {
        if let Some(id) = self.store_id() {
            self.accept_store(id.to_owned());
        }
    }

    /// The database is not the one it was: nothing is served.
    pub fn store_changed(&self) {
        self.database.send_replace(Database::Changed);
        for shard in &self.shards().all {
            shard.set_phase(Phase::StoreChanged);
        }
        self.tell();
    }

    /// Nothing can be connected to, since nobody tells what there is.
    pub fn astray(&self, why: &str) {
        if !self.has_started() {
            self.state.send_if_modified(|now| {
                let next = LinkState::Starting { why: why.to_owned() };
                let changed = *now != next;
                *now = next;
                changed
            });
        }
    }

    /// Tells whoever watches the link how it is. It is ready when the database was accepted and any part of it can be used:
    /// an owner whose part cannot be gets the error itself.
    fn tell(&self) {
        let shards = self.shards();
        let phases: Vec<Phase> = shards.all.iter().map(|shard| shard.phase()).collect();
        let newest = phases.iter().filter_map(|phase| match phase {
            Phase::Ready(generation) => Some(generation.number()),
            _ => None,
        });
        let state = match newest.max() {
            _ if self.is_store_changed() => LinkState::StoreChanged,
            Some(generation) if self.has_started() => LinkState::Ready { generation },
            _ if phases.iter().any(|phase| matches!(phase, Phase::Asleep)) => LinkState::Asleep,
            _ => {
                let found = phases.into_iter().find_map(Phase::trouble);
                let (why, unfit) = found.unwrap_or_else(|| (format!("connecting to {}", self.label), false));
                match self.has_started() {
                    false => LinkState::Starting { why },
                    true if unfit => LinkState::Unfit { why },
                    true => LinkState::Down { why },
                }
            }
        };
        self.state.send_if_modified(|now| {
            let changed = *now != state;
            *now = state;
            changed
        });
    }

    pub fn fail_start(&self, error: StartError) {
        self.failed.send_replace(Some(error));
    }

    pub fn close(&self) {
        self.closed.cancel();
        for shard in &self.shards().all {
            shard.set_phase(Phase::Down("shutting down".into()));
        }
        self.tell();
    }

    pub fn report(&self) -> Arc<Report> {
        self.report.load_full()
    }

    /// What was found at a shard. Of all shards together the weakest counts.
    pub fn set_report(&self, shard: &Shard, report: Report) {
        let id = self.store_id().unwrap_or(&report.facts.store_id).to_owned();
        shard.set_report(report);
        let shards = self.shards();
        let reports: Vec<(String, Arc<Report>)> =
            shards.all.iter().map(|shard| (shard.label.clone(), shard.report())).collect();
        self.report.store(Arc::new(Report::of_all(&reports, &id)));
    }

    pub fn store_id(&self) -> Option<&str> {
        self.store_id.get().map(String::as_str)
    }

    pub fn has_started(&self) -> bool {
        self.store_id.get().is_some()
    }

    pub fn is_store_changed(&self) -> bool {
        *self.database.borrow() == Database::Changed
    }

    /// Whether any call would be sent at once.
    pub fn is_ready(&self) -> bool {
        self.shards.borrow().all.iter().any(|shard| shard.current().is_some())
    }

    /// The shard that a call for `key` would be sent to at once.
    pub fn ready_shard(&self, key: Option<&[u8]>) -> Option<u64> {
        let shards = self.shards.borrow();
        let key = key.unwrap_or(&self.home_key);
        shards.of_key(key).filter(|shard| shard.current().is_some()).map(|shard| shard.id)
    }

    /// Whether a shard is known.
    pub fn has_shard(&self, id: u64) -> bool {
        self.shards.borrow().all.iter().any(|shard| shard.id == id)
    }

    /// The shard that serves `key`, waited for until `deadline`.
    pub async fn shard(&self, key: Option<&[u8]>, deadline: Instant) -> Result<Arc<Shard>, LinkError> {
        let key = key.unwrap_or(&self.home_key);
        if let Some(shard) = self.shards.borrow().of_key(key) {
            return Ok(Arc::clone(shard));
        }
        let mut shards = self.shards.subscribe();
        loop {
            if let Some(shard) = shards.borrow_and_update().of_key(key) {
                return Ok(Arc::clone(shard));
            }
            if self.is_store_changed() {
                return Err(LinkError::StoreChanged);
            }
            self.look.notify_one();
            if self.is_closed() || !matches!(timeout_at(deadline, shards.changed()).await, Ok(Ok(()))) {
                return Err(if self.has_started() {
                    LinkError::Unreachable {
                        outcome_unknown: false,
                        why: "no node serves this part of the cluster".into(),
                    }
                } else {
                    LinkError::Starting
                });
            }
        }
    }

    /// One write to the shard of `key`.
    pub async fn exchange(
        &self,
        lane: Lane,
        key: Option<&[u8]>,
        pipeline: &Pipeline,
        writes: bool,
        deadline: Instant,
    ) -> Result<Vec<Value>, LinkError> {
        loop {
            let shard = self.shard(key, deadline).await?;
            match shard.exchange(lane, pipeline, pipeline.len(), writes, deadline).await {
                Ok(replies) => return Ok(replies),
                Err(Undone::Failed(error)) => return Err(error),
                Err(Undone::Retired) => {}
            }
        }
    }
}
