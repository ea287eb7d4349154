//! What all handles of a link share: its phase, and the one way by which calls reach a connection.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, OnceLock},
    task::Poll,
    time::Duration,
};

use arc_swap::ArcSwap;
use redis::{Pipeline, Value, aio::MultiplexedConnection};
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::crypto::{OwnerTag, SharedKeyring};

use super::{
    LinkConfig, LinkState, StartError,
    error::LinkError,
    keys::{ENVIRONMENT, Names},
    lanes::{Generation, describe},
    op::{Lane, reply},
    preflight::Report,
    pubsub::Hub,
    script::Script,
    server_info::text,
    store_identity::{Store, marker},
};

/// How often, and how far apart, an owner is looked for that the index lists and that is not there: it may be on its way
/// out this very moment.
const ABSENT_LOOKS: u32 = 3;
const ABSENT_APART: Duration = Duration::from_millis(100);

/// Where the link is.
#[derive(Clone)]
pub(super) enum Phase {
    Starting(String),
    Ready(Arc<Generation>),
    Down(String),
    StoreChanged,
}

pub(super) struct Inner {
    pub names: Names,
    pub config: LinkConfig,
    pub keyring: SharedKeyring,
    pub scripts: &'static [&'static Script],
    pub hub: Hub,
    /// Host and port, or socket: for logs.
    pub label: String,
    kinds: Vec<String>,
    phase: watch::Sender<Phase>,
    state: watch::Sender<LinkState>,
    failed: watch::Sender<Option<StartError>>,
    report: ArcSwap<Report>,
    /// The database of this process, from the first accepted connection on.
    store_id: OnceLock<String>,
    closed: CancellationToken,
    small: Mutex<()>,
    bulk: Mutex<()>,
}

impl Inner {
    pub fn new(
        config: LinkConfig,
        keyring: SharedKeyring,
        scripts: &'static [&'static Script],
        kinds: &[&str],
        label: String,
    ) -> Self {
        let why = format!("connecting to {label}");
        Self {
            names: Names::new(&config.env),
            config,
            keyring,
            scripts,
            hub: Hub::default(),
            label,
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            phase: watch::Sender::new(Phase::Starting(why.clone())),
            state: watch::Sender::new(LinkState::Starting { why }),
            failed: watch::Sender::new(None),
            report: ArcSwap::default(),
            store_id: OnceLock::new(),
            closed: CancellationToken::new(),
            small: Mutex::new(()),
            bulk: Mutex::new(()),
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

    pub fn set_phase(&self, phase: Phase) {
        let state = match &phase {
            Phase::Starting(why) => LinkState::Starting { why: why.clone() },
            Phase::Ready(generation) => LinkState::Ready { generation: generation.number() },
            Phase::Down(why) => LinkState::Down { why: why.clone() },
            Phase::StoreChanged => LinkState::StoreChanged,
        };
        self.phase.send_replace(phase);
        self.state.send_if_modified(|now| {
            let changed = *now != state;
            *now = state;
            changed
        });
    }

    /// Not usable for now; before the first success: not yet. A changed database stays one until it was looked at again.
    pub fn down(&self, why: &str) {
        if self.is_store_changed() {
            return;
        }
        let why = why.to_owned();
        self.set_phase(if self.has_started() { Phase::Down(why) } else { Phase::Starting(why) });
    }

    pub fn fail_start(&self, error: StartError) {
        self.failed.send_replace(Some(error));
    }

    pub fn close(&self) {
        self.set_phase(Phase::Down("shutting down".into()));
        self.closed.cancel();
    }

    pub fn report(&self) -> Arc<Report> {
        self.report.load_full()
    }

    pub fn set_report(&self, report: Report) {
        self.report.store(Arc::new(report));
    }

    pub fn store_id(&self) -> Option<&str> {
        self.store_id.get().map(String::as_str)
    }

    /// The first accepted database is this process's for good.
    pub fn accept_store(&self, id: String) {
        let _ = self.store_id.set(id);
    }

    pub fn has_started(&self) -> bool {
        self.store_id.get().is_some()
    }

    pub fn is_store_changed(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::StoreChanged)
    }

    pub fn store<'a>(&'a self, connection: &'a MultiplexedConnection) -> Store<'a> {
        Store { connection, names: &self.names, kinds: &self.kinds }
    }

    /// The usable generation, if there is one now.
    pub fn current(&self) -> Option<Arc<Generation>> {
        match &*self.phase.borrow() {
            Phase::Ready(generation) if !generation.is_dead() => Some(Arc::clone(generation)),
            _ => None,
        }
    }

    /// See [`super::Link::confirm_absent`].
    pub async fn confirm_absent(
        &self,
        kind: &str,
        tag: &OwnerTag,
        deadline: Instant,
    ) -> Result<(), LinkError> {
        let index = self.names.index(kind, tag.bucket());
        for look in 1.. {
            // Only after the wait for a connection is it known which database is ours.
            self.ready(deadline).await?;
            let id = self.store_id().unwrap_or_default();
            let mut pipeline = Pipeline::new();
            pipeline.cmd("GET").arg(ENVIRONMENT);
            pipeline.cmd("ZSCORE").arg(&index).arg(marker(id));
            pipeline.cmd("ZSCORE").arg(&index).arg(&tag.as_bytes()[..]);
            // Looked for after the index: an owner made meanwhile is there by now.
            // A blob shares the tag of the session of its name: neither stands for the other.
            let key = match kind {
                "blob" => "b",
                "namespace" => "k",
                _ => "h",
            };
            pipeline.cmd("EXISTS").arg(self.names.owner(tag, key));
            let (_, replies) = self.exchange(Lane::Small, &pipeline, 4, false, deadline).await?;
            let replies = replies.into_iter().map(reply).collect::<Result<Vec<_>, _>>()?;
            let [environment, marked, score, there] = &replies[..] else {
                return Err(LinkError::StoreChanged);
            };
            if text(environment).as_deref() != Some(&format!("{} {id}", self.names.env()))
                || *marked == Value::Nil
            {
                tracing::error!("the database was emptied, replaced, or has lost a part");
                self.set_phase(Phase::StoreChanged);
                return Err(LinkError::StoreChanged);
            }
            let listed = match score {
                Value::Double(score) => *score >= 0.0,
                Value::BulkString(score) => !score.starts_with(b"-"),
                _ => false,
            };
            if !listed || *there != Value::Int(0) {
                return Ok(());
            }
            if look == ABSENT_LOOKS || Instant::now() + ABSENT_APART >= deadline {
                tracing::error!(owner = %&tag.to_string()[..6], "the index lists an owner whose data is gone");
                return Err(LinkError::StoreChanged);
            }
            tokio::time::sleep(ABSENT_APART).await;
        }
        Ok(())
    }

    /// One write of `count` commands and their replies.
    pub async fn exchange(
        &self,
        lane: Lane,
        pipeline: &Pipeline,
        count: usize,
        writes: bool,
        deadline: Instant,
    ) -> Result<(Arc<Generation>, Vec<Value>), LinkError> {
        let gate = match lane {
            Lane::Small => &self.small,
            Lane::Bulk => &self.bulk,
        };
        let Ok(turn) = timeout_at(deadline, gate.lock()).await else { return Err(self.not_ready()) };
        let generation = self.ready(deadline).await?;
        let _timed = crate::telemetry::Exchanged::begin(lane == Lane::Bulk);
        let mut connection = generation.lane(lane);
        let mut call = pin!(connection.send_packed_commands(pipeline, 0, count));
        // The first poll puts the bytes into the connection's own queue, or in line for it.
        let first = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
        drop(turn);
        let replies = match first {
            Poll::Ready(replies) => replies,
            Poll::Pending => tokio::select! {
                biased;
                replies = &mut call => replies,
                () = generation.dead() => {
                    return Err(LinkError::Unreachable { outcome_unknown: writes, why: generation.why() });
                }
                () = sleep_until(deadline) => return Err(LinkError::Timeout { outcome_unknown: writes }),
            },
        };
        match replies {
            Ok(replies) => Ok((generation, replies)),
            Err(error) => {
                let why = describe(&error);
                generation.fail(why.as_str());
                Err(LinkError::Unreachable { outcome_unknown: writes, why })
            }
        }
    }

    /// A generation that can be used, waited for until `deadline`.
    async fn ready(&self, deadline: Instant) -> Result<Arc<Generation>, LinkError> {
        let mut phase = self.phase.subscribe();
        loop {
            match &*phase.borrow_and_update() {
                Phase::Ready(generation) if !generation.is_dead() => return Ok(Arc::clone(generation)),
                Phase::StoreChanged => return Err(LinkError::StoreChanged),
                _ => {}
            }
            if self.is_closed() || !matches!(timeout_at(deadline, phase.changed()).await, Ok(Ok(()))) {
                return Err(self.not_ready());
            }
        }
    }

    fn not_ready(&self) -> LinkError {
        let why = match &*self.phase.borrow() {
            Phase::Starting(_) => return LinkError::Starting,
            Phase::StoreChanged => return LinkError::StoreChanged,
            Phase::Down(why) => why.clone(),
            Phase::Ready(generation) if generation.is_dead() => generation.why(),
            Phase::Ready(_) => "too many calls wait for their turn".to_owned(),
        };
        LinkError::Unreachable { outcome_unknown: false, why }
    }
}
