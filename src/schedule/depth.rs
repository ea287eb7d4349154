//! How many jobs there are, for the metrics: totals over all queues, for a queue's name is its owner's.

use std::{
    sync::{Arc, PoisonError, Weak},
    time::Duration,
};

use redis::{Value, cmd};
use tokio::time::sleep;

use super::{Schedules, handle::Handle, store::soon};
use crate::{
    error::Result,
    telemetry,
    valkey::{Lane, Link, Op},
};

/// Between two counts.
const EVERY: Duration = Duration::from_secs(5);
/// Queues of one write.
const TOGETHER: usize = 100;
/// Places of the keys that hold jobs that are delayed, ready, behind others of their group, leased, and dead.
const COUNTED: [usize; 5] = [3, 4, 8, 5, 7];

/// Counts until the sidecar ends.
pub async fn run(schedules: Weak<Schedules>) {
    loop {
        let Some(here) = schedules.upgrade() else { return };
        let (link, queues) = (here.store.link.clone(), queues(&here));
        drop(here);
        match count(&link, &queues).await {
            Ok(jobs) => telemetry::queue_depth(queues.len(), jobs),
            Err(error) => tracing::debug!(%error, "jobs could not be counted"),
        }
        sleep(EVERY).await;
    }
}

fn queues(schedules: &Schedules) -> Vec<Arc<Handle>> {
    let queues = schedules.queues.lock().unwrap_or_else(PoisonError::into_inner);
    queues.handles.values().map(Arc::clone).collect()
}

async fn count(link: &Link, queues: &[Arc<Handle>]) -> Result<telemetry::Depth> {
    let mut jobs = telemetry::Depth::default();
    for queues in queues.chunks(TOGETHER) {
        let ops: Vec<_> = queues
            .iter()
            .flat_map(|handle| {
                COUNTED.map(|at| {
                    let mut read = cmd("ZCARD");
                    read.arg(handle.queue.key(at));
                    Op::Cmd(read)
                })
            })
            .collect();
        for (n, reply) in link.read(Lane::Bulk, &ops, soon()).await?.into_iter().enumerate() {
            if let Value::Int(count) = reply {
                jobs[n % COUNTED.len()] += u64::try_from(count).unwrap_or(0);
            }
        }
    }
    Ok(jobs)
}
