//! Whose turn it is, where something in front of a job goes another way: it has expired, its cap is asked first, a limiter holds it.
//! And what is heard of it in another sidecar.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{self, JobState, NackVerdict, OnConflict, SettleOutcome};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    blob::request_id,
    caps::{make, policy, rolling},
    schedule::{Queue, Worker, delayed, grouped, job, ms},
    unary::answer,
};
use tonic::Code;

/// What comes later than this was found by a look once a second.
const AT_ONCE: Duration = Duration::from_millis(500);

async fn start() -> (Valkey, Sidecar, Queue) {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendonly", "no"));
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let queue = Queue::of(&sidecar, "reminders");
    (valkey, sidecar, queue)
}

fn expired(id: &str, group: &str) -> v1::JobSpec {
    v1::JobSpec { not_after: Some(v1::job_spec::NotAfter::DeadlineIn(ms(1))), group: group.into(), ..job(id) }
}

fn capped(id: &str, policy: &str) -> v1::JobSpec {
    let cap =
        v1::CapGate { policies: vec![policy.into()], recipient: "someone".into(), sender: "me".into(), n: 1 };
    v1::JobSpec { cap: Some(cap), ..job(id) }
}

async fn purge(queue: &Queue, state: JobState) -> u64 {
    let request = v1::PurgeQueueRequest {
        queue: queue.name.clone(),
        confirm: queue.name.clone(),
        states: vec![state.into()],
        ..Default::default()
    };
    answer(queue.client.clone().purge_queue(request).await).unwrap().removed
}

#[tokio::test]
async fn a_purge_of_cancelled_jobs_leaves_those_that_are_done() {
    let (_valkey, _sidecar, queue) = start().await;
    queue.batch((0..600).map(|n| job(&n.to_string())).collect()).await.unwrap();
    for n in (0..600).step_by(2) {
        queue.cancel(&n.to_string()).await;
    }
    for _ in 0..3 {
        for job in queue.take(100).await {
            queue.ack(&job).await;
        }
    }
    assert_eq!(queue.counts().await.done, 600);
    assert_eq!(purge(&queue, JobState::Cancelled).await, 300);
    assert_eq!(queue.counts().await.done, 300);
    assert_eq!(queue.get("599").await.unwrap().state(), JobState::Done);
    queue.add(job("another")).await;
    queue.cancel("another").await;
    assert_eq!(purge(&queue, JobState::Done).await, 300);
    assert_eq!(queue.get("another").await.unwrap().state(), JobState::Cancelled);
}
