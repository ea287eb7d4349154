//! Whose turn it is, where something in front of a job goes another way: it has expired, its cap is asked first, a limiter holds it.
//! And what is heard of it in another sidecar.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{self, JobState, NackVerdict, OnConflict, SettleOutcome};
use support::{
    caps::{make, policy, rolling},
    schedule::{Queue, Worker, delayed, grouped, job, ms, start},
    unary::answer,
};

/// What comes later than this was found by a look once a second.
const AT_ONCE: Duration = Duration::from_millis(500);

fn expired(id: &str, group: &str) -> v1::JobSpec {
    v1::JobSpec { not_after: Some(v1::job_spec::NotAfter::DeadlineIn(ms(1))), group: group.into(), ..job(id) }
}

fn capped(id: &str, policy: &str) -> v1::JobSpec {
    let cap =
        v1::CapGate { policies: vec![policy.into()], recipient: "someone".into(), sender: "me".into(), n: 1 };
    v1::JobSpec { cap: Some(cap), ..job(id) }
}

#[tokio::test]
async fn jobs_that_have_expired_hold_up_nobody() {
    let (_valkey, _sidecar, queue) = start().await;
    for round in 0..2 {
        // One behind another in a group, and side by side.
        for n in 0..8 {
            queue.add(expired(&format!("{round} chat {n}"), "chat")).await;
        }
        queue.add(grouped(&format!("{round} in the chat"), "chat")).await;
        queue.batch((0..200).map(|n| expired(&format!("{round} late {n}"), "")).collect()).await.unwrap();
        queue.add(v1::JobSpec { priority: 5, ..job(&format!("{round} live")) }).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    // A call that does not wait has what there is.
    let got = queue.take(1).await;
    assert_eq!(got.len(), 1, "{:?}", queue.counts().await);
    queue.ack(&got[0]).await;
    let began = Instant::now();
    let mut worker = queue.worker(30_000).await;
    worker.credit(1).await;
    for _ in 0..3 {
        let job = worker.job().await;
        assert_eq!(worker.ack(&job).await, SettleOutcome::Ok);
        worker.credit(1).await;
    }
    assert!(began.elapsed() < Duration::from_millis(800), "{:?}", began.elapsed());
    assert_eq!(queue.counts().await.dead, 2 * 208);
}

#[tokio::test]
async fn a_limiter_is_no_slower_than_it_says_while_nothing_is_settled() {
    let (_valkey, _sidecar, queue) = start().await;
    let limiter = Some(v1::Limiter { max: 5, duration: Some(ms(100)) });
    queue.configure(v1::QueueSettings { limiter, ..Default::default() }).await;
    queue.batch((0..40).map(|n| job(&format!("job {n}"))).collect()).await.unwrap();
    let mut worker = queue.worker(30_000).await;
    let began = Instant::now();
    worker.credit(100).await;
    for _ in 0..40 {
        worker.job().await;
    }
    // Seven intervals of 101 ms.
    assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_job_with_a_cap_is_not_overtaken_by_those_behind_it() {
    let (_valkey, sidecar, queue) = start().await;
    make(&sidecar, policy("many", rolling(100, 60_000))).await;
    queue
        .batch((0..10).map(|n| v1::JobSpec { priority: 5, ..job(&format!("plain {n}")) }).collect())
        .await
        .unwrap();
    queue.batch(vec![capped("first", "many"), capped("second", "many")]).await.unwrap();
    let got = queue.take(1).await;
    assert_eq!(got.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["first"]);
    let mut worker = queue.worker(30_000).await;
    worker.credit(1).await;
    assert_eq!(worker.job().await.id, "second");
    worker.credit(10).await;
    for n in 0..10 {
        assert_eq!(worker.job().await.id, format!("plain {n}"));
    }
}

#[tokio::test]
async fn a_call_that_does_not_wait_finds_what_is_behind_jobs_whose_cap_denies() {
    let (_valkey, sidecar, queue) = start().await;
    make(&sidecar, policy("one", rolling(1, 60_000))).await;
    queue.batch((0..100).map(|n| capped(&format!("capped {n}"), "one")).collect()).await.unwrap();
    queue.add(v1::JobSpec { priority: 5, ..job("plain") }).await;
    assert_eq!(queue.take(1).await[0].id, "capped 0");
    assert_eq!(queue.take(1).await.first().map(|job| job.id.clone()), Some("plain".into()));
}

#[tokio::test]
async fn a_job_whose_cap_cannot_be_read_takes_nobody_with_it() {
    let (valkey, sidecar, queue) = start().await;
    let before = valkey.keys("*");
    make(&sidecar, policy("many", rolling(100, 60_000))).await;
    let mut connection = valkey.connection();
    for key in valkey.keys("*").into_iter().filter(|key| !before.contains(key)) {
        let fields: redis::RedisResult<Vec<Vec<u8>>> = redis::cmd("HKEYS").arg(&key).query(&mut connection);
        for field in fields.unwrap_or_default().into_iter().filter(|field| field.len() == 8) {
            let () = redis::cmd("HSET").arg(&key).arg(field).arg("damaged").query(&mut connection).unwrap();
        }
    }
    // Another sidecar has no copy of the policy.
    let second = sidecar.beside("second.sock").await;
    let there = Queue::of(&second, "reminders");
    queue.batch((0..3).map(|n| capped(&format!("capped {n}"), "many")).collect()).await.unwrap();
    let plain =
        |n| v1::JobSpec { priority: 5, retry: support::schedule::retry(1, 1), ..job(&format!("plain {n}")) };
    queue.batch((0..20).map(plain).collect()).await.unwrap();
    let mut worker = there.worker(30_000).await;
    let began = Instant::now();
    worker.credit(10).await;
    for n in 0..20 {
        let job = worker.job().await;
        assert_eq!((job.id.clone(), job.attempt), (format!("plain {n}"), 1));
        worker.ack(&job).await;
        worker.credit(1).await;
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let capped = queue.get("capped 1").await.unwrap();
    assert_eq!((capped.state(), capped.attempts), (JobState::Scheduled, 0));
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

async fn retry_dead(queue: &Queue, ids: Vec<String>) -> u64 {
    let request =
        v1::RetryDeadRequest { queue: queue.name.clone(), all: ids.is_empty(), ids, ..Default::default() };
    answer(queue.client.clone().retry_dead(request).await).unwrap().retried
}

#[tokio::test]
async fn retrying_all_that_are_dead_retries_each_once_also_while_they_die_again() {
    let (_valkey, _sidecar, queue) = start().await;
    queue.batch((0..900).map(|n| job(&n.to_string())).collect()).await.unwrap();
    let mut worker = queue.worker(30_000).await;
    worker.credit(1000).await;
    let failing = tokio::spawn(async move {
        loop {
            let job = worker.job_within(Duration::from_secs(60)).await.unwrap();
            let settle = v1::WorkSettle {
                lease: Some(support::schedule::lease_of(&job)),
                nack: NackVerdict::Fail.into(),
                ..Default::default()
            };
            worker.send(v1::WorkRequest { settles: vec![settle], credit: 1, ..Default::default() }).await;
        }
    });
    let until = Instant::now() + Duration::from_secs(10);
    while queue.counts().await.dead < 900 {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(retry_dead(&queue, vec![]).await, 900);
    failing.abort();
}

#[tokio::test]
async fn a_job_that_is_due_keeps_its_turn_when_it_is_promoted() {
    let (_valkey, _sidecar, queue) = start().await;
    queue.add(job("one")).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    queue.add(job("two")).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let request = v1::PromoteJobRequest { queue: queue.name.clone(), id: "one".into(), ..Default::default() };
    queue.client.clone().promote_job(request).await.unwrap();
    assert_eq!(queue.take(1).await[0].id, "one");
}

async fn comes(worker: &mut Worker, what: &str) -> v1::WorkJob {
    let began = Instant::now();
    let job = worker.job().await;
    assert!(began.elapsed() < AT_ONCE, "{what}: {:?}", began.elapsed());
    job
}

#[tokio::test]
async fn what_makes_a_job_ready_is_heard_at_once_in_another_sidecar() {
    let (_valkey, sidecar, here) = start().await;
    let second = sidecar.beside("second.sock").await;
    let there = Queue::of(&second, "reminders");
    let mut worker = there.worker(30_000).await;
    worker.credit(500).await;
    let pause = || tokio::time::sleep(Duration::from_millis(150));
    for round in 0..3 {
        let id = |what: &str| format!("{what} {round}");
        pause().await;
        here.add(job(&id("plain"))).await;
        comes(&mut worker, "a new one").await;
        here.add(delayed(&id("soon"), 100)).await;
        pause().await;
        comes(&mut worker, "a due one").await;
        // Among others that are due later, in one batch and one by one.
        here.batch(vec![
            delayed(&id("far"), 60_000),
            delayed(&id("near"), 100),
            delayed(&id("farther"), 90_000),
        ])
        .await
        .unwrap();
        pause().await;
        comes(&mut worker, "the first due of a batch").await;
        // The followers of a group.
        let first = id("a chat");
        for n in 0..4 {
            here.add(grouped(&format!("{first} {n}"), &first)).await;
        }
        let head = comes(&mut worker, "a head").await;
        pause().await;
        assert_eq!(here.ack(&head).await, SettleOutcome::Ok);
        let next = comes(&mut worker, "a follower of one that is done").await;
        pause().await;
        here.nack(&next, NackVerdict::Release, Some(0)).await;
        let next = comes(&mut worker, "one that was given back").await;
        pause().await;
        here.nack(&next, NackVerdict::Fail, None).await;
        let next = comes(&mut worker, "a follower of a dead one").await;
        pause().await;
        here.nack(&next, NackVerdict::Retry, Some(50)).await;
        pause().await;
        let next = comes(&mut worker, "a retry").await;
        here.nack(&next, NackVerdict::Retry, Some(60_000)).await;
        pause().await;
        here.cancel(&next.id).await;
        comes(&mut worker, "a follower of one that was cancelled").await;
        // Due times that change.
        here.reschedule(&id("far"), 50).await.unwrap();
        pause().await;
        comes(&mut worker, "a rescheduled one").await;
        let request =
            v1::PromoteJobRequest { queue: here.name.clone(), id: id("farther"), ..Default::default() };
        here.client.clone().promote_job(request).await.unwrap();
        let farther = comes(&mut worker, "a promoted one").await;
        here.nack(&farther, NackVerdict::Fail, None).await;
        pause().await;
        assert_eq!(retry_dead(&here, vec![id("farther")]).await, 1);
        let farther = comes(&mut worker, "a dead one with a new life").await;
        here.nack(&farther, NackVerdict::Retry, Some(60_000)).await;
        pause().await;
        here.add(v1::JobSpec { on_conflict: OnConflict::Replace.into(), ..job(&id("farther")) }).await;
        comes(&mut worker, "a replaced one").await;
        // A purge of what a group waits for.
        here.add(v1::JobSpec { group: id("purged"), ..delayed(&id("held"), 60_000) }).await;
        here.add(grouped(&id("behind"), &id("purged"))).await;
        pause().await;
        assert_eq!(purge(&here, JobState::Scheduled).await, 1);
        comes(&mut worker, "a follower of one that was purged").await;
        let request = v1::PauseQueueRequest { queue: here.name.clone(), ..Default::default() };
        here.client.clone().pause_queue(request).await.unwrap();
        here.add(job(&id("paused"))).await;
        pause().await;
        let request = v1::ResumeQueueRequest { queue: here.name.clone(), ..Default::default() };
        here.client.clone().resume_queue(request).await.unwrap();
        comes(&mut worker, "the end of a pause").await;
        here.ingest(&[&id("message")]).await.unwrap();
        comes(&mut worker, "a message").await;
    }
}

#[tokio::test]
async fn who_waits_for_one_of_few_leases_hears_at_once_that_it_is_free() {
    let (_valkey, sidecar, here) = start().await;
    let second = sidecar.beside("second.sock").await;
    let mut worker = Queue::of(&second, "reminders").worker(30_000).await;
    worker.credit(500).await;
    // Over both, with groups, and others that are due later.
    for job in 0..3 {
        here.add(delayed(&format!("filler {job}"), 60_000)).await;
    }
    let settings = v1::QueueSettings { concurrency: Some(1), ..Default::default() };
    here.configure(settings).await;
    let mut holder = here.worker(30_000).await;
    for n in 0..6 {
        here.add(grouped(&format!("turn {n}"), &format!("turn of {}", n % 2))).await;
    }
    let mut job = worker.job().await;
    for n in 0..5 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        if n == 2 {
            holder.credit(1).await;
        }
        here.ack(&job).await;
        let began = Instant::now();
        job = loop {
            if let Some(job) = worker.job_within(Duration::from_millis(10)).await {
                break job;
            }
            if let Some(job) = holder.job_within(Duration::from_millis(10)).await {
                break job;
            }
            assert!(began.elapsed() < AT_ONCE, "turn {n}");
        };
    }
}
