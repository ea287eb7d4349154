//! What happens in a queue without anybody asking: lost leases come back, crons fire, old jobs go. Every sidecar does it for
//! every queue there is; two at once do no harm. Sleeps until the next thing that is known to come.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, Mutex, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, sleep_until},
};

use super::{
    crons,
    handle::Handle,
    mend,
    store::{Ticked, soon},
};
use crate::{error::Result, valkey::LinkState};

/// Things of each kind in one step of Valkey's time.
const MOST: usize = 200;
/// Ticks at once.
const AT_ONCE: usize = 4;
/// A queue in which something is pending is looked at this often, whatever is known of it.
const POLL: Duration =
    if cfg!(feature = "test-clock") { Duration::from_millis(100) } else { Duration::from_secs(20) };
/// The same in ms.
pub const POLL_MS: u64 = POLL.as_secs() * 1000 + POLL.subsec_millis() as u64;
/// A queue in which nothing is pending.
const IDLE: Duration =
    if cfg!(feature = "test-clock") { Duration::from_secs(1) } else { Duration::from_secs(300) };
/// After a new connection to Valkey.
const GRACE: Duration = Duration::from_secs(2);
/// Stands for a connection that is gone: they are counted from 1.
const AWAY: u64 = 0;
/// After a tick that failed.
const AGAIN: Duration = Duration::from_secs(1);

struct Planned {
    at: u64,
    handle: Weak<Handle>,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// A handle on the timers of one sidecar.
#[derive(Clone)]
pub struct Timers {
    began: Instant,
    plans: mpsc::UnboundedSender<Planned>,
    calm: Arc<Mutex<Calm>>,
}

/// Which connection there is to Valkey, and until when after a new one nothing is taken for lost: those whose heartbeats could not
/// come through must have their turn first.
struct Calm {
    generation: Option<u64>,
    until: Instant,
}

impl Timers {
    /// Starts them. They end with the last handle.
    pub fn start() -> Self {
        let (plans, planned) = mpsc::unbounded_channel();
        let began = Instant::now();
        tokio::spawn(run(began, planned));
        let calm = Arc::new(Mutex::new(Calm { generation: None, until: began }));
        Self { began, plans, calm }
    }

    /// ms since the start of the process.
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// How long to wait since the connection is away, or has just come back.
    fn grace(&self, link: &LinkState) -> Option<Duration> {
        let mut calm = self.calm.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = match link {
            LinkState::Ready { generation } => *generation,
            LinkState::Starting { .. } => return Some(AGAIN),
            // It was there, even if nothing was looked at meanwhile.
            LinkState::Down { .. }
            | LinkState::Unfit { .. }
            | LinkState::Asleep
            | LinkState::StoreChanged => {
                calm.generation = Some(AWAY);
                return Some(AGAIN);
            }
        };
        if calm.generation.is_some_and(|before| before != generation) {
            calm.until = Instant::now() + GRACE;
        }
        calm.generation = Some(generation);
        let left = calm.until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Plans a tick.
    pub fn plan(&self, handle: &Arc<Handle>, at: u64) {
        let _ = self.plans.send(Planned { at, handle: Arc::downgrade(handle) });
    }
}

async fn run(began: Instant, mut plans: mpsc::UnboundedReceiver<Planned>) {
    let mut heap: BinaryHeap<Reverse<Planned>> = BinaryHeap::new();
    let room = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let next = heap.peek().map(|Reverse(first)| began + Duration::from_millis(first.at));
        tokio::select! {
            plan = plans.recv() => match plan {
                Some(plan) => heap.push(Reverse(plan)),
                None => return,
            },
            () = async { sleep_until(next.unwrap_or_else(Instant::now)).await }, if next.is_some() => {
                let Some(Reverse(planned)) = heap.pop() else { continue };
                let Some(handle) = planned.handle.upgrade() else { continue };
                // A sooner plan has been carried out instead.
                if handle.planned.load(Ordering::Relaxed) != planned.at {
                    continue;
                }
                let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
                handle.planned.store(u64::MAX, Ordering::Relaxed);
                tokio::spawn(async move {
                    let wait = look(&handle).await;
                    drop(permit);
                    handle.tick_in(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
                });
            }
        }
    }
}

/// Does what is due; gives when to look again.
async fn look(handle: &Arc<Handle>) -> Duration {
    let mut link = handle.store.link.state();
    let grace = handle.timers.grace(&link.borrow_and_update());
    if let Some(grace) = grace {
        return grace;
    }
    let ticked = tokio::select! {
        biased;
        // What was begun on one connection must not go on with the next, before the heartbeats that wait for it as well.
        _ = link.changed() => return AGAIN,
        ticked = tick(handle) => ticked,
    };
    match ticked {
        Ok(wait) => wait,
        Err(error) => {
            tracing::debug!(queue = %handle.queue.name.short(), %error, "a queue's timers were cut short");
            AGAIN
        }
    }
}

async fn tick(handle: &Arc<Handle>) -> Result<Duration> {
    let Some(mut ticked) = handle.store.tick(&handle.queue, MOST, soon()).await? else { return Ok(IDLE) };
    if ticked.first_cron > 0 && ticked.first_cron <= ticked.now {
        let next = crons::fire(handle, ticked.now).await?;
        ticked.more |= next == Some(ticked.now);
        ticked.first_cron = next.unwrap_or(0);
    }
    handle.queue.wake();
    let now = handle.timers.now();
    if now >= handle.mended.load(Ordering::Relaxed) + u64::try_from(IDLE.as_millis()).unwrap_or(u64::MAX) {
        handle.mended.store(now, Ordering::Relaxed);
        mend::step(handle).await?;
    }
    Ok(next(&ticked))
}

fn next(ticked: &Ticked) -> Duration {
    if ticked.more {
        return Duration::ZERO;
    }
    let until = |at: u64| Duration::from_millis(at.saturating_sub(ticked.now) + 1);
    let pending = [ticked.first_due, ticked.first_lease_end, ticked.first_cron];
    let soonest = pending.into_iter().filter(|at| *at > 0).min();
    let trim = if ticked.first_trim > 0 { until(ticked.first_trim) } else { IDLE };
    soonest.map_or(IDLE, |at| until(at).min(POLL)).min(trim)
}
