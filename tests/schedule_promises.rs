//! Promises of the proto's comments that hold in the quiet case by themselves: here are those who do not answer, or are gone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{self, SettleOutcome};
use support::schedule::{at_ms, delayed, grouped, job, now_ms, start};
use tokio::time::timeout;

#[tokio::test]
async fn a_worker_that_is_gone_while_it_has_a_groups_head_holds_the_group_for_one_lease() {
    let (_valkey, _sidecar, queue) = start().await;
    for n in 0..3 {
        queue.add(grouped(&format!("job {n}"), "chat")).await;
    }
    let mut gone = queue.worker(2_000).await;
    gone.credit(3).await;
    let head = gone.job().await;
    gone.heartbeat().await;
    gone.until("the heartbeat", |worker| worker.renewed > 0).await;
    let began = Instant::now();
    drop(gone);
    let mut worker = queue.worker(30_000).await;
    worker.credit(3).await;
    for n in 0..3 {
        let job = worker.job().await;
        assert_eq!(job.id, format!("job {n}"));
        assert_eq!(worker.ack(&job).await, SettleOutcome::Ok);
    }
    assert!(began.elapsed() < Duration::from_millis(3_300), "{:?}", began.elapsed());
    assert_eq!(queue.ack(&head).await, SettleOutcome::LeaseLost);
}

#[tokio::test]
async fn a_delivery_that_nobody_answers_is_made_again_within_the_lease_and_a_second() {
    // The stream stands, and what it carries is lost: no `received`, no heartbeat.
    let (_valkey, _sidecar, queue) = start().await;
    queue.add(job("one")).await;
    let mut deaf = queue.worker(1_500).await;
    deaf.credit(1).await;
    deaf.until("the delivery", |worker| !worker.jobs.is_empty()).await;
    let began = Instant::now();
    let mut worker = queue.worker(30_000).await;
    worker.credit(1).await;
    assert_eq!(worker.job().await.id, "one");
    assert!(began.elapsed() < Duration::from_millis(2_700), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_purge_whose_caller_goes_away_stops() {
    // OptimalBits/bull#2357: a clean that could not be stopped for hours.
    let (_valkey, _sidecar, queue) = start().await;
    for round in 0..30 {
        queue.batch((0..1000).map(|n| delayed(&format!("{round} {n}"), 60_000)).collect()).await.unwrap();
    }
    let mut client = queue.client.clone();
    let request = v1::PurgeQueueRequest {
        queue: queue.name.clone(),
        confirm: queue.name.clone(),
        ..Default::default()
    };
    let cut = timeout(Duration::from_millis(30), client.purge_queue(request)).await;
    assert!(cut.is_err(), "it was done before it could be stopped");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let left = queue.counts().await.scheduled;
    assert!(left > 0 && left < 30_000, "{left}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(queue.counts().await.scheduled, left);
}

#[tokio::test]
async fn delayed_jobs_are_late_by_milliseconds_on_an_idle_server() {
    // taskforcesh/bullmq#3144: about 100 ms, since an idle server looks at its blocked clients ten times a second.
    let (_valkey, _sidecar, queue) = start().await;
    let mut worker = queue.worker(60_000).await;
    worker.credit(200).await;
    let begin = now_ms() + 500;
    for n in 0..100 {
        let when = Some(v1::job_spec::When::DueAt(support::schedule::timestamp(begin + 20 * n)));
        queue.add(v1::JobSpec { when, ..job(&format!("job {n}")) }).await;
    }
    let mut late = Vec::new();
    for _ in 0..100 {
        let got = worker.job().await;
        late.push(at_ms(got.leased_at.as_ref()) - at_ms(got.due_at.as_ref()));
    }
    late.sort_unstable();
    // The half of them says it also where tests share their machine.
    assert!(late[0] >= 0 && late[50] < 10, "{late:?}");
}
