//! Jobs that a cap must allow: counted at dispatch, once for each attempt; denied ones wait until the cap frees. And jobs through the
//! pipe.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{
    self, DeadReason, JobState, NackVerdict, SettleOutcome, enqueued::Outcome, pipe_request::Call,
    pipe_response::Answer,
};
use support::{
    Sidecar, Valkey,
    blob::request_id,
    caps::{daily, make, policy, rolling, start, used},
    schedule::{Queue, at_ms, grouped, job, now_ms},
    small::Pipe,
};

async fn with(policies: Vec<v1::CapPolicy>) -> (Valkey, Sidecar, Queue) {
    let (valkey, sidecar) = start().await;
    for policy in policies {
        make(&sidecar, policy).await;
    }
    let queue = Queue::of(&sidecar, "sends");
    (valkey, sidecar, queue)
}

fn gate(policy: &str, recipient: &str) -> v1::CapGate {
    v1::CapGate { policies: vec![policy.into()], recipient: recipient.into(), sender: "me".into(), n: 1 }
}

fn capped(id: &str, policy: &str) -> v1::JobSpec {
    v1::JobSpec { cap: Some(gate(policy, "someone")), ..job(id) }
}

#[tokio::test]
async fn a_cap_lets_so_many_through_and_the_rest_waits_for_the_next_window() {
    let (_valkey, sidecar, queue) = with(vec![policy("day", daily(3))]).await;
    queue.batch((0..300).map(|n| capped(&format!("job {n}"), "day")).collect()).await.unwrap();
    let mut worker = queue.worker(30_000).await;
    worker.credit(50).await;
    let mut got = Vec::new();
    while let Some(job) = worker.job_within(Duration::from_millis(800)).await {
        got.push(job);
    }
    let ids: Vec<_> = got.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(ids, ["job 0", "job 1", "job 2"]);
    assert_eq!(used(&sidecar, "day").await, 3);
    let counts = queue.counts().await;
    assert_eq!((counts.leased, counts.scheduled, counts.ready), (3, 297, 0));
    let waiting = queue.get("job 7").await.unwrap();
    assert_eq!((waiting.state(), waiting.attempts), (JobState::Scheduled, 0));
    assert!(at_ms(waiting.due_at.as_ref()) > now_ms());
    // Those far behind wait for later days.
    let last = queue.get("job 299").await.unwrap();
    assert!(at_ms(last.due_at.as_ref()) > at_ms(waiting.due_at.as_ref()));
    // A job that comes now does not overtake the cap.
    queue.add(capped("late", "day")).await;
    queue.add(job("free")).await;
    assert_eq!(worker.job().await.id, "free");
    assert!(worker.job_within(Duration::from_millis(500)).await.is_none());
}

#[tokio::test]
async fn each_attempt_counts_once_and_all_jobs_run_in_the_end() {
    let (_valkey, sidecar, queue) = with(vec![policy("burst", rolling(5, 1_000))]).await;
    queue.batch((0..12).map(|n| capped(&format!("job {n}"), "burst")).collect()).await.unwrap();
    let mut worker = queue.worker(30_000).await;
    worker.credit(20).await;
    let first = worker.job().await;
    assert_eq!(worker.settle(&first, NackVerdict::Retry, Some(0)).await, SettleOutcome::Ok);
    let (mut starts, mut done) = (vec![at_ms(first.leased_at.as_ref())], 0);
    let until = Instant::now() + Duration::from_secs(15);
    while done < 12 {
        assert!(Instant::now() < until, "{:?}", queue.counts().await);
        let Some(job) = worker.job_within(Duration::from_millis(300)).await else { continue };
        starts.push(at_ms(job.leased_at.as_ref()));
        assert_eq!(worker.ack(&job).await, SettleOutcome::Ok);
        worker.credit(1).await;
        done += 1;
    }
    assert_eq!(starts.len(), 13);
    // The cap counts when it is asked, a moment before the lease.
    for window in starts.windows(6) {
        assert!(window[5] - window[0] > 900, "{starts:?}");
    }
    assert!(used(&sidecar, "burst").await <= 5);
}

#[tokio::test]
async fn what_a_cap_never_allows_is_dead_and_says_why() {
    let (_valkey, _sidecar, queue) = with(vec![policy("small", rolling(2, 60_000))]).await;
    queue.add(v1::JobSpec { cap: Some(v1::CapGate { n: 3, ..gate("small", "x") }), ..job("never") }).await;
    queue.add(v1::JobSpec { cap: Some(gate("none", "x")), ..job("unknown") }).await;
    queue.add(job("free")).await;
    let mut worker = queue.worker(30_000).await;
    worker.credit(5).await;
    assert_eq!(worker.job().await.id, "free");
    let until = Instant::now() + Duration::from_secs(5);
    while queue.counts().await.dead < 2 {
        assert!(Instant::now() < until, "{:?}", queue.counts().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(queue.get("never").await.unwrap().dead_reason(), DeadReason::CapNever);
    assert_eq!(queue.get("unknown").await.unwrap().dead_reason(), DeadReason::CapConfig);
}

#[tokio::test]
async fn a_denied_head_holds_its_group_and_nobody_else() {
    let recipients =
        v1::CapPolicy { scope: v1::CapScope::Recipient.into(), ..policy("each", rolling(1, 1_500)) };
    let (_valkey, _sidecar, queue) = with(vec![recipients]).await;
    let to = |id: &str, chat: &str| v1::JobSpec { cap: Some(gate("each", chat)), ..grouped(id, chat) };
    for spec in [to("a1", "a"), to("a2", "a"), to("b1", "b"), to("a3", "a")] {
        queue.add(spec).await;
    }
    let mut worker = queue.worker(30_000).await;
    worker.credit(10).await;
    let mut order = Vec::new();
    let began = Instant::now();
    while order.len() < 4 {
        let job = worker.job().await;
        order.push(job.id.clone());
        worker.ack(&job).await;
    }
    assert_eq!(order, ["a1", "b1", "a2", "a3"]);
    assert!(began.elapsed() > Duration::from_millis(2_500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn one_at_a_time_by_lease_jobs_meets_the_cap_too() {
    let (_valkey, _sidecar, queue) = with(vec![policy("two", rolling(2, 60_000))]).await;
    for n in 0..3 {
        queue.add(capped(&format!("job {n}"), "two")).await;
    }
    let first = queue.lease(&request_id(), 1, 30_000, 2_000).await;
    let second = queue.lease(&request_id(), 1, 30_000, 2_000).await;
    assert_eq!((first[0].id.as_str(), second[0].id.as_str()), ("job 0", "job 1"));
    assert!(queue.lease(&request_id(), 1, 30_000, 300).await.is_empty());
    assert_eq!(queue.counts().await.scheduled, 1);
}

#[tokio::test]
async fn jobs_go_through_the_pipe() {
    let (_valkey, sidecar, queue) = with(Vec::new()).await;
    let mut pipe = Pipe::open(&sidecar).await;
    let enqueue = |id: &str| {
        Call::Enqueue(v1::EnqueueRequest {
            queue: queue.name.clone(),
            request_id: request_id(),
            job: Some(job(id)),
            ..Default::default()
        })
    };
    for n in 0..200 {
        pipe.send(enqueue(&format!("job {n}"))).await;
    }
    for _ in 0..200 {
        let Ok(Answer::Enqueue(answer)) = pipe.next().await.unwrap().1 else { panic!() };
        assert_eq!(answer.job.unwrap().outcome(), Outcome::Created);
    }
    let item = v1::IngestItem { dedup_key: "wamid.1".into(), job: None };
    let ingest = Call::Ingest(v1::IngestRequest {
        queue: queue.name.clone(),
        items: vec![item],
        ..Default::default()
    });
    let Ok(Answer::Ingest(answer)) = pipe.call(ingest).await else { panic!() };
    assert_eq!(answer.items[0].outcome(), Outcome::Created);
    assert!(pipe.call(enqueue("")).await.is_ok());
    assert_eq!(queue.counts().await.ready, 202);
}
