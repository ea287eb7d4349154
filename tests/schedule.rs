//! Jobs through the built binary and a real Valkey: adding, leasing, settling.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{JobState, NackVerdict, SettleOutcome, enqueued::Outcome};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    schedule::{Queue, at_ms, delayed, grouped, job, now_ms, retry},
};

async fn start() -> (Valkey, Sidecar, Queue) {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let queue = Queue::of(&sidecar, "reminders");
    (valkey, sidecar, queue)
}

#[tokio::test]
async fn a_job_goes_to_a_worker_and_ends() {
    let (_valkey, _sidecar, queue) = start().await;
    let added = queue.add(job("one")).await;
    assert_eq!((added.outcome(), added.number, added.state()), (Outcome::Created, 1, JobState::Ready));
    let mut worker = queue.worker(30_000).await;
    worker.credit(10).await;
    let got = worker.job().await;
    assert_eq!((got.id.as_str(), &got.payload[..], got.attempt), ("one", &b"payload of one"[..], 1));
    assert_eq!(worker.ack(&got).await, SettleOutcome::Ok);
    // bullmq's second answer to the same settle is an error; ours says that it was done before.
    assert_eq!(worker.ack(&got).await, SettleOutcome::AlreadyDone);
    let done = queue.get("one").await.unwrap();
    assert_eq!((done.state(), &done.result[..]), (JobState::Done, &b"result"[..]));
    // A job that comes while the worker waits is there at once.
    let began = Instant::now();
    queue.add(job("two")).await;
    assert_eq!(worker.job().await.id, "two");
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn every_add_says_what_became_of_it() {
    // taskforcesh/bullmq#3765, OptimalBits/bull#1828: an id that was used is dropped without a word.
    let (_valkey, _sidecar, queue) = start().await;
    let first = queue.add_as(delayed("A", 60_000), "request-0000000001").await.unwrap();
    assert_eq!(
        (first.outcome(), first.state(), first.replayed),
        (Outcome::Created, JobState::Scheduled, false)
    );
    let again = queue.add_as(delayed("A", 90_000), "request-0000000001").await.unwrap();
    assert_eq!((again.outcome(), again.replayed, again.due_at), (Outcome::Created, true, first.due_at));
    let other = queue.add(delayed("A", 90_000)).await;
    assert_eq!((other.outcome(), other.due_at), (Outcome::Existing, first.due_at));
    let mut spec = delayed("A", 90_000);
    spec.set_on_conflict(pannier::proto::v1::OnConflict::Reschedule);
    let moved = queue.add(spec.clone()).await;
    assert_eq!(moved.outcome(), Outcome::Rescheduled);
    assert!(at_ms(moved.due_at.as_ref()) > at_ms(first.due_at.as_ref()) + 20_000);
    spec.set_on_conflict(pannier::proto::v1::OnConflict::Replace);
    spec.when = None;
    spec.payload = b"another".to_vec().into();
    let replaced = queue.add(spec).await;
    assert_eq!(
        (replaced.outcome(), replaced.number, replaced.state()),
        (Outcome::Replaced, 1, JobState::Ready)
    );
    let got = queue.take(1).await.pop().unwrap();
    assert_eq!(&got.payload[..], b"another");
    assert_eq!(queue.outcome(job("A")).await, Outcome::Existing);
    assert_eq!(queue.ack(&got).await, SettleOutcome::Ok);
    let finished = queue.add(job("A")).await;
    assert_eq!(finished.outcome(), Outcome::AlreadyFinished);
    assert!(at_ms(finished.finished_at.as_ref()) > now_ms() - 10_000);
}

#[tokio::test]
async fn a_delayed_job_starts_when_it_is_due() {
    let (_valkey, _sidecar, queue) = start().await;
    let mut worker = queue.worker(30_000).await;
    worker.credit(100).await;
    for n in 0..20 {
        queue.add(delayed(&format!("job {n}"), 300 + 10 * n)).await;
    }
    for n in 0..20 {
        let got = worker.job().await;
        assert_eq!(got.id, format!("job {n}"));
        let late = at_ms(got.leased_at.as_ref()) - at_ms(got.due_at.as_ref());
        assert!((0..1000).contains(&late), "late by {late} ms");
        assert!(now_ms() >= at_ms(got.due_at.as_ref()) - 1, "too early");
    }
}

#[tokio::test]
async fn a_lease_that_is_lost_comes_back_within_the_lease_and_a_second() {
    let (_valkey, _sidecar, queue) = start().await;
    queue.add(job("one")).await;
    let first = queue.lease("request-0000000001", 1, 1_000, 0).await.pop().unwrap();
    let mut worker = queue.worker(30_000).await;
    worker.credit(1).await;
    let began = Instant::now();
    let second = worker.job().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((second.attempt, second.number), (2, first.number));
    assert!(second.fence > first.fence);
    // bullmq#3183: the first worker wakes up and settles what is another's.
    assert_eq!(queue.ack(&first).await, SettleOutcome::LeaseLost);
    assert_eq!(worker.ack(&second).await, SettleOutcome::Ok);
    assert_eq!(queue.get("one").await.unwrap().state(), JobState::Done);
}

#[tokio::test]
async fn attempts_end_with_the_last_one_and_releases_count_none() {
    // bullmq#1094, bullmq#3000.
    let (_valkey, _sidecar, queue) = start().await;
    queue.add(pannier::proto::v1::JobSpec { retry: retry(3, 1), ..job("one") }).await;
    for _ in 0..10 {
        let got = queue.lease(&support::blob::request_id(), 1, 30_000, 5_000).await.pop().unwrap();
        assert_eq!(got.attempt, 1);
        assert_eq!(queue.nack(&got, NackVerdict::Release, Some(0)).await, SettleOutcome::Ok);
    }
    for attempt in 1..=3 {
        let got = queue.lease(&support::blob::request_id(), 1, 30_000, 5_000).await.pop().unwrap();
        assert_eq!((got.attempt, got.max_attempts), (attempt, 3));
        assert_eq!(queue.nack(&got, NackVerdict::Retry, None).await, SettleOutcome::Ok);
    }
    let dead = queue.get("one").await.unwrap();
    assert_eq!(
        (dead.state(), dead.dead_reason(), dead.error.as_str()),
        (JobState::Dead, pannier::proto::v1::DeadReason::Attempts, "it failed")
    );
    assert!(queue.take(1).await.is_empty());
}

#[tokio::test]
async fn the_same_lease_request_gives_the_same_jobs() {
    let (_valkey, _sidecar, queue) = start().await;
    for n in 0..5 {
        queue.add(job(&format!("job {n}"))).await;
    }
    let first = queue.lease("request-0000000001", 3, 30_000, 0).await;
    let again = queue.lease("request-0000000001", 3, 30_000, 0).await;
    let pairs = |jobs: &[pannier::proto::v1::WorkJob]| {
        jobs.iter().map(|job| (job.number, job.fence)).collect::<Vec<_>>()
    };
    assert_eq!(first.len(), 3);
    assert_eq!(pairs(&first), pairs(&again));
    assert_eq!(queue.take(100).await.len(), 2);
}

#[tokio::test]
async fn never_more_jobs_than_credit() {
    let (_valkey, _sidecar, queue) = start().await;
    queue.batch((0..500).map(|n| job(&format!("job {n}"))).collect()).await.unwrap();
    let mut worker = queue.worker(30_000).await;
    worker.credit(5).await;
    let mut got = Vec::new();
    while let Some(job) = worker.job_within(Duration::from_millis(300)).await {
        got.push(job);
    }
    assert_eq!(got.len(), 5);
    assert_eq!(queue.counts().await.leased, 5);
    for job in &got {
        assert_eq!(worker.ack(job).await, SettleOutcome::Ok);
    }
    assert!(worker.job_within(Duration::from_millis(300)).await.is_none());
    worker.credit(495).await;
    for _ in 0..495 {
        let job = worker.job().await;
        worker
            .send(pannier::proto::v1::WorkRequest {
                settles: vec![pannier::proto::v1::WorkSettle {
                    lease: Some(support::schedule::lease_of(&job)),
                    ..Default::default()
                }],
                ..Default::default()
            })
            .await;
    }
    worker.until("all settled", |worker| worker.outcomes.len() == 500).await;
    assert_eq!(queue.counts().await.done, 500);
}

#[tokio::test]
async fn a_group_runs_in_order_one_at_a_time() {
    let (_valkey, _sidecar, queue) = start().await;
    for n in 0..3 {
        let added = queue.add(grouped(&format!("a{n}"), "chat a")).await;
        assert_eq!(added.state(), if n == 0 { JobState::Ready } else { JobState::Waiting });
    }
    queue.add(grouped("b0", "chat b")).await;
    let mut got = queue.take(10).await;
    let mut ids: Vec<_> = got.iter().map(|job| job.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a0", "b0"]);
    let a0 = got.remove(got.iter().position(|job| job.id == "a0").unwrap());
    // A failure does not let the next one by (head of the line waits).
    queue.nack(&a0, NackVerdict::Retry, Some(0)).await;
    let a0 = queue.take(10).await.pop().unwrap();
    assert_eq!((a0.id.as_str(), a0.attempt), ("a0", 2));
    assert!(queue.take(10).await.is_empty());
    queue.ack(&a0).await;
    let a1 = queue.take(10).await.pop().unwrap();
    assert_eq!(a1.id, "a1");
    // Dead and cancelled ones make way.
    queue.nack(&a1, NackVerdict::Fail, None).await;
    assert_eq!(queue.cancel("a2").await, pannier::proto::v1::cancel_job_response::Outcome::Cancelled);
    queue.add(grouped("a3", "chat a")).await;
    assert_eq!(queue.take(10).await.pop().unwrap().id, "a3");
}

#[tokio::test]
async fn ids_of_any_characters_are_distinct() {
    // bullmq#3384, #4052.
    let (_valkey, _sidecar, queue) = start().await;
    let long = "x".repeat(512);
    let ids = ["a:b", "a:b:c", "a:b:c:d", "{x}", "*", "é", "123", "00123", " ", "a b:{c}", &long];
    for id in ids {
        assert_eq!(queue.outcome(job(id)).await, Outcome::Created, "{id}");
        assert_eq!(queue.outcome(job(id)).await, Outcome::Existing, "{id}");
    }
    let refused = queue.try_add(job(&"x".repeat(513))).await.unwrap_err();
    assert_eq!(refused.fields, ["job.id"]);
    assert_eq!(queue.counts().await.ready, ids.len() as u64);
}

#[tokio::test]
async fn an_ingested_message_becomes_one_job() {
    let (_valkey, _sidecar, queue) = start().await;
    let first = queue.ingest(&["wamid.1", "wamid.2", "wamid.1"]).await.unwrap();
    let outcomes: Vec<_> = first.iter().map(pannier::proto::v1::Enqueued::outcome).collect();
    assert_eq!(outcomes, [Outcome::Created, Outcome::Created, Outcome::Existing]);
    for job in queue.take(10).await {
        queue.ack(&job).await;
    }
    let again = queue.ingest(&["wamid.1", "wamid.3"]).await.unwrap();
    assert_eq!(again[0].outcome(), Outcome::AlreadyFinished);
    assert_eq!(again[1].outcome(), Outcome::Created);
}

#[tokio::test]
async fn what_a_worker_has_not_received_goes_back_when_its_stream_breaks() {
    // bullmq#3045.
    let (_valkey, _sidecar, queue) = start().await;
    queue.batch((0..4).map(|n| job(&format!("job {n}"))).collect()).await.unwrap();
    let mut worker = queue.worker(30_000).await;
    worker.credit(4).await;
    worker.until("four jobs", |worker| worker.jobs.len() == 4).await;
    worker.received(1).await;
    worker.heartbeat().await;
    worker.until("the heartbeat", |worker| worker.renewed > 0).await;
    let held = worker.jobs.pop_front().unwrap();
    drop(worker);
    let mut other = queue.worker(30_000).await;
    other.credit(10).await;
    for n in 1..4 {
        let job = other.job().await;
        assert_eq!((job.id.as_str(), job.attempt), (format!("job {n}").as_str(), 1));
    }
    assert!(other.job_within(Duration::from_millis(300)).await.is_none(), "the received one keeps its lease");
    // A stream that comes back names it and goes on.
    let hello = pannier::proto::v1::WorkHello {
        held: vec![
            support::schedule::lease_of(&held),
            pannier::proto::v1::LeaseRef { queue: "reminders".into(), number: 77, fence: 1 },
        ],
        ..queue.hello(30_000)
    };
    let mut third = queue.try_worker(hello).await.unwrap();
    assert_eq!(third.welcome.as_ref().unwrap().held, [support::schedule::lease_of(&held)]);
    assert_eq!(third.lost.len(), 1);
    assert_eq!(third.ack(&held).await, SettleOutcome::Ok);
}
