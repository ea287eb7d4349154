//! A bad network under WatchQueue: what happened is told, or a resync or an end says that it may not have been. Who reads again then, as
//! the API says, knows how every job is.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;
#[path = "chaos/watcher.rs"]
mod watcher;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use pannier::proto::v1::{self, JobState, watch_queue_response::Event};
use support::{
    Sidecar, Valkey,
    bad_network::{behind, faults_for, start},
    chaos::{Fault, Network},
    link::allowed,
    schedule::{Queue, job},
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use watcher::{Changes, Known, Watcher};

const BACK_WITHIN: Duration = Duration::from_secs(5);
/// It says every 10 s that somebody watches, which may take 5 s.
const ENDS_WITHIN: Duration = Duration::from_secs(15);

/// A queue in which jobs come and go, and somebody who watches it over a network of its own.
struct Watched {
    network: Network,
    _sidecar: Sidecar,
    changes: Changes,
    known: Arc<Mutex<Known>>,
    watching: tokio::task::JoinHandle<()>,
}

impl Watched {
    async fn start(fault: Fault, valkey: &Valkey, first: &Sidecar) -> Self {
        let (network, sidecar) = behind(valkey, first).await;
        let name = format!("{fault:?}");
        let (over_it, read) = (Queue::of(&sidecar, &name), Queue::of(first, &name));
        // All that were done can be read again.
        let retention = Some(v1::Retention { done_count: Some(100_000), ..Default::default() });
        read.configure(v1::QueueSettings { retention, ..Default::default() }).await;
        let known = Arc::new(Mutex::new(Known::default()));
        let somebody = Watcher { watched: over_it, read: read.clone(), known: Arc::clone(&known) };
        let watching = tokio::spawn(somebody.run(fault));
        let watched = Self { network, _sidecar: sidecar, changes: Changes::start(read), known, watching };
        watched.until(allowed(BACK_WITHIN), "nothing is told", |known| known.told > 10).await;
        watched
    }

    /// Waits until `reached`, or panics.
    async fn until(&self, within: Duration, what: &str, reached: impl Fn(&Known) -> bool) -> Duration {
        let begun = Instant::now();
        while !reached(&self.known.lock().unwrap()) {
            assert!(!self.watching.is_finished(), "the watcher has failed");
            assert!(begun.elapsed() < within, "{what}: {}", self.known.lock().unwrap());
            sleep(Duration::from_millis(10)).await;
        }
        begun.elapsed()
    }

    /// Heals the network; when events come again, all that has ever happened must be known.
    async fn nothing_is_lost(self, fault: Fault) -> Known {
        self.network.suffer(Fault::None);
        let current = self.changes.current();
        let what = format!("{fault:?}: nothing is told of what happens after it");
        let back = self.until(allowed(BACK_WITHIN), &what, |known| known.last > current).await;
        let Self { network, _sidecar, changes, known, watching } = self;
        let ids = changes.end().await;
        let begun = Instant::now();
        loop {
            let unknown: Vec<_> = {
                let known = known.lock().unwrap();
                let is_done = |id: &&String| known.jobs.get(*id) == Some(&JobState::Done);
                ids.iter().filter(|id| !is_done(id)).cloned().collect()
            };
            if unknown.is_empty() {
                break;
            }
            let in_time = begun.elapsed() < allowed(BACK_WITHIN);
            assert!(in_time, "{fault:?}: lost without a word: {unknown:?}: {}", known.lock().unwrap());
            sleep(Duration::from_millis(10)).await;
        }
        watching.abort();
        assert!(watching.await.is_err_and(|error| error.is_cancelled()), "the watcher has failed");
        drop(network);
        let known = std::mem::take(&mut *known.lock().unwrap());
        println!("{fault:?}: {} jobs, {known}, back after {back:?}", ids.len());
        known
    }
}

/// Each fault on a sidecar and a network of its own, all at once: most of it is waiting.
async fn each<F: Future<Output = ()> + Send + 'static>(suffer: impl Fn(Fault, Watched) -> F) {
    let (valkey, _whole, first) = start().await;
    let mut faults = JoinSet::new();
    for fault in faults_for("WatchQueue") {
        faults.spawn(suffer(fault, Watched::start(fault, &valkey, &first).await));
    }
    while let Some(ended) = faults.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_during_a_bad_network_is_told_or_said_to_be_lost() {
    each(|fault, watched| async move {
        watched.network.suffer(fault);
        sleep(Duration::from_secs(2)).await;
        let known = watched.nothing_is_lost(fault).await;
        match fault {
            Fault::Delay(_) => assert!(known.ended.is_empty(), "{fault:?} loses nothing: {known}"),
            Fault::Drip(_) => {}
            _ => assert!(known.resyncs + known.ended.len() > 0, "{fault:?} loses something: {known}"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_over_a_network_that_stays_bad_goes_on_or_ends_in_its_time() {
    each(|fault, watched| async move {
        watched.network.suffer(fault);
        let current = watched.changes.current();
        match fault {
            Fault::Delay(_) | Fault::HalfOpen | Fault::CloseOld => {
                let what = format!("{fault:?}: it does not go on");
                watched.until(allowed(BACK_WITHIN), &what, |known| known.last > current).await;
            }
            // It carries something. More waits than can be told.
            Fault::Drip(_) => {
                let what = format!("{fault:?}: neither a word nor an end");
                let goes_on = |known: &Known| known.last > current || !known.ended.is_empty();
                watched.until(allowed(ENDS_WITHIN), &what, goes_on).await;
                sleep(2 * ENDS_WITHIN).await;
            }
            _ => {
                let what = format!("{fault:?}: no end");
                watched.until(allowed(ENDS_WITHIN), &what, |known| !known.ended.is_empty()).await;
                // So does each that is begun meanwhile.
                watched.until(allowed(ENDS_WITHIN), &what, |known| known.ended.len() > 1).await;
            }
        }
        let known = watched.nothing_is_lost(fault).await;
        // Each makes who watches read everything again.
        assert!(known.resyncs < 100, "{fault:?}: {known}");
    })
    .await;
}

/// Subscriptions are made anew with each connection: none that comes while that is done may be forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_is_begun_while_the_link_comes_back_is_told_what_happens() {
    let (valkey, _whole, first) = start().await;
    let (network, sidecar) = behind(&valkey, &first).await;
    network.suffer(Fault::Reset);
    sleep(Duration::from_millis(200)).await;
    // Slow, so that it takes a while.
    network.suffer(Fault::Delay(Duration::from_millis(10)));
    let (mut all, begun) = (JoinSet::new(), Instant::now());
    let seen = CancellationToken::new();
    for n in 0.. {
        if seen.is_cancelled() && n > 50 {
            break;
        }
        assert!(begun.elapsed() < allowed(BACK_WITHIN), "the link does not come back");
        let name = format!("queue {n}");
        let (watched, whole, seen) = (Queue::of(&sidecar, &name), Queue::of(&first, &name), seen.clone());
        all.spawn(async move {
            let request = v1::WatchQueueRequest { queue: name, ..Default::default() };
            let mut events = watched.client.clone().watch_queue(request).await.unwrap().into_inner();
            assert_eq!(events.message().await.unwrap().unwrap().event(), Event::Watching);
            seen.cancel();
            whole.add(job("one")).await;
            let event = timeout(allowed(Duration::from_secs(1)), events.message()).await;
            event.map_err(|_| n).map(|event| event.unwrap().unwrap().event())
        });
        sleep(Duration::from_millis(5)).await;
    }
    let (mut told, mut deaf) = (0, Vec::new());
    while let Some(event) = all.join_next().await {
        match event.unwrap() {
            Ok(event) => told += usize::from(matches!(event, Event::Created | Event::Resync)),
            Err(n) => deaf.push(n),
        }
    }
    deaf.sort_unstable();
    println!("{told} were told");
    assert!(deaf.is_empty(), "told {told}; these hear nothing: {deaf:?}");
}
