//! Leases jobs of one queue for all its workers in this sidecar: as many as they have credit for, in one call, fair among them.
//! Sleeps until the next thing that is known to come, or somebody says that there is something.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::broadcast::error::RecvError,
    time::{Instant, sleep},
};

use super::{
    gated,
    handle::Handle,
    queue::Queue,
    store::{Leased, Leases, Settle, Settled, soon},
    worker::{Delivered, Worker},
};
use crate::error::Result;

/// Jobs of one call.
const MOST: usize = 250;
/// Candidates for a cap that are looked at when there were none before.
const GATED_FEW: usize = 20;
/// The same when there were.
const GATED_MANY: usize = 500;
/// A queue with pending jobs is asked this often, whatever is known of it: what other sidecars say may be lost.
const POLL: Duration =
    if cfg!(feature = "test-clock") { Duration::from_millis(50) } else { Duration::from_secs(1) };
/// An empty one.
const IDLE: Duration =
    if cfg!(feature = "test-clock") { Duration::from_millis(500) } else { Duration::from_secs(30) };
/// After jobs that could not be handed out: they are ready again at once.
const LATER: Duration = Duration::from_secs(1);
/// After a call that failed.
const AGAIN: Duration = Duration::from_millis(200);

/// Runs while there are workers.
pub async fn run(handle: Arc<Handle>) {
    let queue = Arc::clone(&handle.queue);
    let mut pulse = queue.pulse();
    let mut state = handle.store.link.state();
    let mut wakes = handle.store.link.subscribe(&queue.wake_channel()).await;
    let mut gated_most = GATED_FEW;
    loop {
        pulse.mark_unchanged();
        let Some(workers) = handle.workers_of_runner() else { return };
        let (takers, others) = reserve(&queue, &workers, MOST, &[]);
        let mut unopened = false;
        let wait = if takers.is_empty() {
            IDLE
        } else {
            match lease(&handle, &takers, others, gated_most).await {
                Ok(round) => {
                    gated_most = if round.saw_gated { GATED_MANY } else { GATED_FEW };
                    unopened = round.unopened;
                    round.pause
                }
                Err(error) => {
                    tracing::debug!(queue = %queue.name.short(), %error, "jobs could not be leased");
                    AGAIN
                }
            }
        };
        // Not woken by what it gives back itself.
        if unopened {
            sleep(LATER).await;
            continue;
        }
        tokio::select! {
            biased;
            () = sleep(wait) => {}
            _ = pulse.changed() => {}
            woken = wakes.recv() => match woken {
                Ok(message) => cancelled(&workers, &queue, &message),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => {
                    wakes = handle.store.link.subscribe(&queue.wake_channel()).await;
                }
            },
            // What was said while the connection was away is lost.
            _ = state.changed() => {}
        }
    }
}

/// A message may say that a lease is to be cancelled: `c`, number, fence.
fn cancelled(workers: &[Arc<Worker>], queue: &Arc<Queue>, message: &[u8]) {
    if message.first() != Some(&b'c') || message.len() != 14 {
        return;
    }
    let number = message[1..7].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let fence = message[7..14].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    for worker in workers {
        worker.cancel_requested(queue, number, fence);
    }
}

type Taker = (Arc<Worker>, usize);

/// Takes credit of workers that agree in the length of a lease, whose leases among `ending` end in the same call; says whether others
/// have to wait for the next round.
fn reserve(
    queue: &Arc<Queue>,
    workers: &[Arc<Worker>],
    most: usize,
    ending: &[Settle],
) -> (Vec<Taker>, bool) {
    let (mut takers, mut total, mut others) = (Vec::<Taker>::new(), 0, false);
    for worker in workers {
        if takers.first().is_some_and(|(first, _)| first.lease_ms != worker.lease_ms) {
            others |= worker.has_credit();
            continue;
        }
        let got = worker.reserve(queue, most - total, ending);
        if got > 0 {
            total += got;
            takers.push((Arc::clone(worker), got));
        }
    }
    (takers, others)
}

/// Settles, and leases the next jobs in the same call for workers that wait for them: most often for those whose jobs have ended.
pub async fn settle(handle: &Arc<Handle>, items: &[Settle], deadline: Instant) -> Result<Vec<Settled>> {
    let (queue, store) = (&handle.queue, &handle.store);
    // What is given back by ourselves asks for nothing, or what cannot be handed out would go round.
    let wanted = items.iter().any(|item| item.holder.is_some()) && store.link.is_ready();
    let workers = if wanted { handle.workers() } else { Vec::new() };
    let most = MOST.saturating_sub(items.len());
    let (takers, others) = reserve(queue, &workers, most, items);
    let want: usize = takers.iter().map(|(_, count)| count).sum();
    if want > 0 {
        let lease_ms = takers[0].0.lease_ms;
        match store.turn(queue, items, (want, lease_ms), deadline.min(soon())).await {
            Ok((outcomes, found)) => {
                if found.leased.len() < want || want == most || others {
                    queue.wake();
                }
                plan(handle, &found, lease_ms);
                let mut settled: Vec<_> =
                    outcomes.into_iter().map(|outcome| Settled { outcome, told: false }).collect();
                deliver(handle, &takers, found.leased, Some((items, &mut settled))).await;
                return Ok(settled);
            }
            // What has ended must be told, whatever is in the way of what comes next.
            Err(error) => {
                tracing::debug!(queue = %queue.name.short(), %error, "nothing could be leased with a settle");
                for (worker, count) in &takers {
                    worker.give_back(*count);
                }
            }
        }
    }
    let outcomes = store.settle(queue, items, deadline).await;
    queue.wake();
    Ok(outcomes?.into_iter().map(|outcome| Settled { outcome, told: false }).collect())
}

/// What a round has found.
struct Round {
    /// How long nothing is to be expected.
    pause: Duration,
    /// Caps were asked.
    saw_gated: bool,
    /// Jobs could not be opened, and went back.
    unopened: bool,
}

/// One round.
async fn lease(handle: &Arc<Handle>, takers: &[Taker], others: bool, gated_most: usize) -> Result<Round> {
    let want: usize = takers.iter().map(|(_, count)| count).sum();
    let lease_ms = takers[0].0.lease_ms;
    let asked = leases(handle, want, lease_ms, gated_most).await;
    let (found, saw_gated) = match asked {
        Ok(found) => found,
        Err(error) => {
            for (worker, count) in takers {
                worker.give_back(*count);
            }
            return Err(error);
        }
    };
    let count = found.leased.len();
    let pause = wait_after(&found, found.again || count == want || (others && count > 0));
    plan(handle, &found, lease_ms);
    let unopened = !deliver(handle, takers, found.leased, None).await;
    let pause = if saw_gated { Duration::from_millis(1) } else { pause };
    Ok(Round { pause, saw_gated, unopened })
}

/// Plans for the ends of leases.
fn plan(handle: &Arc<Handle>, found: &Leases, lease_ms: u64) {
    if !found.leased.is_empty() {
        handle.tick_in(lease_ms + 1);
    }
    if found.first_lease_end > 0 {
        handle.tick_in(found.first_lease_end.saturating_sub(found.now) + 1);
    }
}

async fn leases(
    handle: &Arc<Handle>,
    want: usize,
    lease_ms: u64,
    gated_most: usize,
) -> Result<(Leases, bool)> {
    let found = handle.store.lease(&handle.queue, want, lease_ms, (&[], gated_most), None, soon()).await?;
    if found.gated.is_empty() {
        return Ok((found, false));
    }
    let found = gated::decide(handle, found, want, lease_ms, None).await?;
    Ok((found, true))
}

fn wait_after(found: &Leases, full: bool) -> Duration {
    if full && found.ready_left > 0 && found.not_before == 0 {
        return Duration::ZERO;
    }
    let mut next = None;
    for at in [found.first_due, if found.ready_left > 0 { found.not_before } else { 0 }] {
        if at > 0 {
            next = Some(next.map_or(at, |next: u64| next.min(at)));
        }
    }
    let pending = found.ready_left > 0 || found.first_due > 0 || found.first_lease_end > 0;
    let poll = if pending || !found.leased.is_empty() { POLL } else { IDLE };
    next.map_or(poll, |at| Duration::from_millis(at.saturating_sub(found.now)).min(poll))
}

/// Hands the jobs out in turn. What a worker that is gone would have got goes back, uncounted. `settled` goes with them, as far as it
/// is theirs.
///
/// False: they could not be opened, and would come back at once.
async fn deliver(
    handle: &Arc<Handle>,
    takers: &[Taker],
    leased: Vec<Leased>,
    mut settled: Option<(&[Settle], &mut Vec<Settled>)>,
) -> bool {
    let mut shares: Vec<Vec<Leased>> = takers.iter().map(|_| Vec::new()).collect();
    let mut at = 0;
    for job in leased {
        while shares[at].len() >= takers[at].1 {
            at = (at + 1) % takers.len();
        }
        shares[at].push(job);
        at = (at + 1) % takers.len();
    }
    let (mut back, mut opened) = (Vec::new(), true);
    for ((worker, reserved), share) in takers.iter().zip(shares) {
        let news = settled.as_mut().map(|(items, settled)| (*items, settled.as_mut_slice()));
        match worker.deliver(handle, *reserved, share, news).await {
            Delivered::Sent => {}
            Delivered::Closed(refused) => back.extend(refused),
            Delivered::Unopened(refused) => {
                opened = false;
                back.extend(refused);
            }
        }
    }
    give_back(handle, back);
    opened
}

/// Gives leases back in the background, uncounted.
pub fn give_back(handle: &Arc<Handle>, leases: Vec<(u64, u64)>) {
    if leases.is_empty() {
        return;
    }
    let handle = Arc::clone(handle);
    tokio::spawn(async move {
        for chunk in leases.chunks(super::batch::TOGETHER) {
            let settles = chunk
                .iter()
                .map(|(number, fence)| Settle {
                    number: *number,
                    fence: *fence,
                    verdict: b'L',
                    wait: None,
                    sealed: Vec::new(),
                    holder: None,
                })
                .collect();
            let until = Instant::now() + Duration::from_secs(20);
            if let Err(error) = handle.batchers.settle(settles, until).await {
                tracing::debug!(%error, "leases could not be given back; they run out");
            }
        }
    });
}
