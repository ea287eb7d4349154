//! One primary: whether it can be used, and the one way by which calls reach it.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex as StdMutex, PoisonError},
    task::Poll,
};

use arc_swap::ArcSwap;
use redis::{Pipeline, Value};
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    error::{LinkError, ServerError},
    lanes::{Generation, describe},
    op::Lane,
    report::Report,
};

/// Where a shard is.
#[derive(Clone)]
pub(super) enum Phase {
    Starting(String),
    Ready(Arc<Generation>),
    Down(String),
    /// It answers, and must not be used as it is.
    Unfit(String),
    /// Nobody used it: the next call wakes it.
    Asleep,
    StoreChanged,
    /// It serves nothing any more: its slots are elsewhere.
    Retired,
}

impl Phase {
    /// Why it cannot be used, and whether it answers all the same.
    pub fn trouble(self) -> Option<(String, bool)> {
        match self {
            Self::Starting(why) | Self::Down(why) => Some((why, false)),
            Self::Unfit(why) => Some((why, true)),
            Self::Ready(_) | Self::Asleep | Self::StoreChanged | Self::Retired => None,
        }
    }
}

/// Why a call was not done.
pub(super) enum Undone {
    Failed(LinkError),
    /// Nothing was sent: the shard is not the one to ask any more.
    Retired,
}

/// One primary.
pub(super) struct Shard {
    /// Never the same twice in a process.
    pub id: u64,
    /// Host and port, or socket: for logs, and what a cluster calls it.
    pub label: String,
    /// Ends its keeper.
    pub retired: CancellationToken,
    phase: watch::Sender<Phase>,
    /// What is connected and checked, whether or not calls may use it yet.
    connected: StdMutex<Option<Arc<Generation>>>,
    report: ArcSwap<Report>,
    small: Mutex<()>,
    bulk: Mutex<()>,
    /// The link has ended: nothing is waited for.
    closed: CancellationToken,
}

impl Shard {
    pub fn new(id: u64, label: String, closed: CancellationToken) -> Self {
        let why = format!("connecting to {label}");
        Self {
            id,
            label,
            retired: CancellationToken::new(),
            phase: watch::Sender::new(Phase::Starting(why)),
            connected: StdMutex::new(None),
            report: ArcSwap::default(),
            small: Mutex::new(()),
            bulk: Mutex::new(()),
            closed,
        }
    }

    pub fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    pub fn set_phase(&self, phase: Phase) {
        self.phase.send_modify(|now| {
            if !matches!(now, Phase::Retired) {
                *now = phase;
            }
        });
    }

    /// Calls that wait for it look for another.
    pub fn retire(&self) {
        self.set_phase(Phase::Retired);
        if let Some(generation) = self.take_connected() {
            generation.fail("it serves no slot any more");
        }
        self.retired.cancel();
    }

    pub fn report(&self) -> Arc<Report> {
        self.report.load_full()
    }

    pub fn set_report(&self, report: Report) {
        self.report.store(Arc::new(report));
    }

    pub fn set_connected(&self, generation: &Arc<Generation>) {
        *self.lock_connected() = Some(Arc::clone(generation));
    }

    pub fn take_connected(&self) -> Option<Arc<Generation>> {
        self.lock_connected().take()
    }

    /// A living connection, whether or not calls may use it yet.
    pub fn connected(&self) -> Option<Arc<Generation>> {
        self.lock_connected().clone().filter(|generation| !generation.is_dead())
    }

    fn lock_connected(&self) -> std::sync::MutexGuard<'_, Option<Arc<Generation>>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The usable generation, if there is one now.
    pub fn current(&self) -> Option<Arc<Generation>> {
        match &*self.phase.borrow() {
            Phase::Ready(generation) if !generation.is_dead() => Some(Arc::clone(generation)),
            _ => None,
        }
    }

    /// One write of `count` commands and their replies.
    pub async fn exchange(
        &self,
        lane: Lane,
        pipeline: &Pipeline,
        count: usize,
        writes: bool,
        deadline: Instant,
    ) -> Result<Vec<Value>, Undone> {
        let gate = match lane {
            Lane::Small => &self.small,
            Lane::Bulk => &self.bulk,
        };
        let failed = |error| Err(Undone::Failed(error));
        let Ok(turn) = timeout_at(deadline, gate.lock()).await else { return failed(self.not_ready()) };
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
                    return failed(LinkError::Unreachable { outcome_unknown: writes, why: generation.why() });
                }
                () = sleep_until(deadline) => return failed(LinkError::Timeout { outcome_unknown: writes }),
            },
        };
        match replies {
            Ok(replies) => {
                let astray = replies.iter().find_map(|reply| match reply {
                    Value::ServerError(error) => {
                        Some(ServerError::from_reply(error)).filter(ServerError::needs_reconnect)
                    }
                    _ => None,
                });
                if let Some(error) = astray {
                    generation.fail(error.to_string());
                }
                Ok(replies)
            }
            Err(error) => {
                let why = describe(&error);
                generation.fail(why.as_str());
                failed(LinkError::Unreachable { outcome_unknown: writes, why })
            }
        }
    }

    /// A generation that can be used, waited for until `deadline`.
    async fn ready(&self, deadline: Instant) -> Result<Arc<Generation>, Undone> {
        let mut phase = self.phase.subscribe();
        loop {
            match &*phase.borrow_and_update() {
                Phase::Ready(generation) if !generation.is_dead() => return Ok(Arc::clone(generation)),
                Phase::StoreChanged => return Err(Undone::Failed(LinkError::StoreChanged)),
                Phase::Retired => return Err(Undone::Retired),
                _ => {}
            }
            // The sender is ours: it does not end before we do.
            if self.closed.is_cancelled() || timeout_at(deadline, phase.changed()).await.is_err() {
                return Err(Undone::Failed(self.not_ready()));
            }
        }
    }

    /// Waits until it can be used, or will not be any more.
    pub async fn wait_ready(&self, deadline: Instant) -> Result<(), LinkError> {
        match self.ready(deadline).await {
            Ok(_) | Err(Undone::Retired) => Ok(()),
            Err(Undone::Failed(error)) => Err(error),
        }
    }

    fn not_ready(&self) -> LinkError {
        let why = match &*self.phase.borrow() {
            Phase::Starting(_) => return LinkError::Starting,
            Phase::StoreChanged => return LinkError::StoreChanged,
            Phase::Down(why) | Phase::Unfit(why) => why.clone(),
            Phase::Asleep => "it is being woken: nobody has used it (--idle-disconnect)".to_owned(),
            Phase::Ready(generation) if generation.is_dead() => generation.why(),
            Phase::Ready(_) => "too many calls wait for their turn".to_owned(),
            Phase::Retired => "its slots are moving to another node".to_owned(),
        };
        LinkError::Unreachable { outcome_unknown: false, why }
    }
}
