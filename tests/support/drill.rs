//! Bots that go on writing while something is done to Valkey, and say afterwards what they were told.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use pannier::proto::v1;
use tokio::task::JoinHandle;

use super::{
    Sidecar,
    attach::put,
    unary::{self, Unary},
};

/// What a call may take. Nothing takes longer, whatever is done to Valkey.
pub const DEADLINE: Duration = Duration::from_secs(4);

/// What one bot saw.
#[derive(Default)]
pub struct Log {
    /// Each acknowledged write: its number, when, and whether a replica had it.
    pub done: Vec<(u64, Instant, bool)>,
    /// Each call that failed, and why.
    pub failed: Vec<(Instant, String)>,
    /// Writes that were acknowledged and are gone: their numbers, and whether a replica had them.
    pub lost: Vec<(u64, bool)>,
    /// The longest that a call took.
    pub slowest: Duration,
}

impl Log {
    pub fn last(&self) -> u64 {
        self.done.last().map_or(0, |(number, ..)| *number)
    }

    /// The longest time between two acknowledged writes.
    pub fn gap(&self) -> Duration {
        self.done.windows(2).map(|pair| pair[1].1 - pair[0].1).max().unwrap_or_default()
    }

    /// How long after `moment` the next write was acknowledged.
    pub fn resumed(&self, moment: Instant) -> Option<Duration> {
        self.done.iter().find(|(_, at, _)| *at >= moment).map(|(_, at, _)| *at - moment)
    }
}

/// Bots that write, each its own session, one record after the other.
pub struct Bots {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Log>>,
}

impl Bots {
    pub fn start(sidecar: &Sidecar, names: &[String], durability: v1::Durability) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |name: &String| {
            let bot = write(Unary::of(sidecar), name.clone(), durability, Arc::clone(&stop));
            tokio::spawn(bot)
        };
        let tasks = names.iter().map(start).collect();
        Self { stop, tasks }
    }

    /// Ends them; their logs are in the order of their names.
    pub async fn stop(self) -> Vec<Log> {
        self.stop.store(true, Ordering::SeqCst);
        let mut logs = Vec::new();
        for task in self.tasks {
            logs.push(task.await.unwrap());
        }
        logs
    }
}

/// Every write is sent until it is acknowledged, under the same number.
async fn write(mut sidecar: Unary, name: String, durability: v1::Durability, stop: Arc<AtomicBool>) -> Log {
    let mut log = Log::default();
    let mut number = 1;
    while !stop.load(Ordering::SeqCst) {
        let value = number.to_string();
        let puts = vec![put("session", "1.0", value.clone()), put("session", "2.0", value)];
        let commit = v1::CommitRecordsRequest {
            min_durability: durability.into(),
            ..unary::commit(&name, "bot", number, puts)
        };
        let mut request = tonic::Request::new(commit);
        request.set_timeout(DEADLINE);
        let began = Instant::now();
        let answer = unary::answer(sidecar.client.commit_records(request).await);
        log.slowest = log.slowest.max(began.elapsed());
        match answer {
            Ok(committed) => {
                log.done.push((number, Instant::now(), committed.durability() == v1::Durability::Replicas));
                number += 1;
            }
            Err(refused) if refused.reason == "OUT_OF_ORDER" => {
                // What was acknowledged by the old primary alone is gone with it.
                let (last, _, replicated) = *log.done.last().unwrap();
                log.lost.push((last, replicated));
                log.done.pop();
                number = last;
            }
            Err(refused) => {
                log.failed.push((Instant::now(), format!("{:?} {}", refused.code, refused.reason)));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    log
}

/// The revision of each session.
pub async fn revisions(sidecar: &Sidecar, names: &[String]) -> Vec<u64> {
    let mut unary = Unary::of(sidecar);
    let mut revisions = Vec::new();
    for name in names {
        revisions.push(unary.info(name).await.revision);
    }
    revisions
}

/// Nothing that was acknowledged is torn, lost or there twice. `before`: the revisions that the bots found.
pub async fn assert_kept(sidecar: &Sidecar, names: &[String], logs: &[Log], before: &[u64]) {
    let mut unary = Unary::of(sidecar);
    for ((name, log), before) in names.iter().zip(logs).zip(before) {
        let records = unary.get(name, "session", &["1.0", "2.0"]).await.unwrap();
        let values: Vec<String> =
            records.iter().map(|record| String::from_utf8(record.value.to_vec()).unwrap()).collect();
        assert_eq!(values, [log.last().to_string(), log.last().to_string()], "{name} is torn or lost");
        // One revision a write: none was made twice.
        assert_eq!(unary.info(name).await.revision, before + log.last(), "{name}");
        let slowest = log.slowest;
        assert!(slowest < DEADLINE + Duration::from_millis(1500), "{name}: a call took {slowest:?}");
    }
}
