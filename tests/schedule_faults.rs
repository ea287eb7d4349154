//! What must not hold up a queue, or lose a word: a connection that dies silently, a reader who does not read, a record that only a newer
//! version knows, leases that end while they are walked over.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{self, JobState, watch_queue_response::Event};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    link::Proxy,
    schedule::{Queue, at_ms, delayed, job, lease_of, ms, now_ms, start},
};
use tokio::time::timeout;

#[tokio::test]
async fn a_connection_that_dies_silently_makes_no_job_late() {
    // bullmq#2466, #2534, #3289: delayed jobs were hours overdue, since nothing woke the worker.
    let valkey = Valkey::start(ValkeyOptions { tcp: true, ..ValkeyOptions::default() });
    let proxy = Proxy::start(valkey.port).await;
    let url = Some(format!("valkey://127.0.0.1:{}", proxy.port));
    let sidecar = Sidecar::start(Options { valkey_url: url, ..Options::default() }).await;
    let queue = Queue::of(&sidecar, "cut");
    let due = at_ms(queue.add(delayed("one", 12_000)).await.due_at.as_ref());
    let mut worker = queue.worker(30_000).await;
    worker.credit(1).await;
    proxy.go_silent();
    let one = worker.job_within(Duration::from_secs(20)).await.expect("it never came");
    let late = at_ms(one.leased_at.as_ref()) - due;
    assert!((0..3_000).contains(&late), "{late} ms late");
    assert!(now_ms() - due < 4_000);
}

#[tokio::test]
async fn a_watch_that_reads_too_slowly_is_told_that_it_has_missed_something() {
    // bullmq#2874, #2517: events were lost without a word.
    let (_valkey, _sidecar, queue) = start().await;
    let request = v1::WatchQueueRequest { queue: queue.name.clone(), ..Default::default() };
    let mut events = queue.client.clone().watch_queue(request).await.unwrap().into_inner();
    assert_eq!(events.message().await.unwrap().unwrap().event(), Event::Watching);
    // More than all buffers between here and there take.
    for round in 0..20 {
        let jobs = (0..1000).map(|n| job(&format!("{round} {n:0>480}"))).collect();
        queue.batch(jobs).await.unwrap();
    }
    let (mut told, mut missed) = (0, false);
    while let Ok(event) = timeout(Duration::from_secs(2), events.message()).await {
        match event.unwrap().unwrap().event() {
            Event::Resync => missed = true,
            Event::Created => told += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(missed && told < 20_000, "{told} told, missed: {missed}");
    // It goes on from there.
    queue.add(job("one more")).await;
    let event = timeout(Duration::from_secs(5), events.message()).await.unwrap().unwrap().unwrap();
    assert_eq!((event.event(), event.id.as_str()), (Event::Created, "one more"));
}

async fn every_second(queue: &Queue, id: &str) {
    let cron = v1::Cron {
        id: id.to_owned(),
        rule: Some(v1::cron::Rule::Every(ms(1_000))),
        overlap: v1::Overlap::Allow.into(),
        template: Some(v1::JobSpec { payload: id.as_bytes().to_vec().into(), ..Default::default() }),
        ..Default::default()
    };
    let request = v1::UpsertCronRequest { queue: queue.name.clone(), cron: Some(cron), ..Default::default() };
    queue.client.clone().upsert_cron(request).await.unwrap();
}

/// Which crons' jobs come within a while.
async fn fires(queue: &Queue, within: Duration) -> Vec<String> {
    let (mut all, until) = (Vec::new(), Instant::now() + within);
    while Instant::now() < until {
        for job in queue.take(100).await {
            all.push(String::from_utf8(job.payload.to_vec()).unwrap());
            queue.ack(&job).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    all
}

#[tokio::test]
async fn a_cron_that_only_a_newer_version_can_read_holds_up_no_other() {
    let (valkey, _sidecar, queue) = start().await;
    every_second(&queue, "newer").await;
    let crons = valkey.keys("pannier:*:c").pop().unwrap();
    let mut fields: Vec<(Vec<u8>, Vec<u8>)> = valkey.command(&["HGETALL", &crons]);
    let (field, mut stored) = fields.pop().unwrap();
    let store = |stored: &[u8]| {
        let mut set = redis::cmd("HSET");
        set.arg(&crons).arg(&field).arg(stored);
        set.query::<()>(&mut valkey.connection()).unwrap();
    };
    // Behind the slots stands the envelope, which says its version in its second byte.
    stored[19] = 2;
    store(&stored);
    every_second(&queue, "ours").await;
    fires(&queue, Duration::from_millis(500)).await;
    let came = fires(&queue, Duration::from_millis(4_500)).await;
    assert!(came.len() >= 3 && came.iter().all(|id| id == "ours"), "{came:?}");
    // It keeps its place for whoever can read it.
    stored[19] = 1;
    store(&stored);
    let came = fires(&queue, Duration::from_millis(3_500)).await;
    assert!(came.iter().any(|id| id == "newer") && came.iter().any(|id| id == "ours"), "{came:?}");
}

#[tokio::test]
async fn a_purge_of_leased_jobs_asks_all_of_them_also_while_others_end() {
    let (_valkey, _sidecar, queue) = start().await;
    for round in 0..3 {
        queue.batch((0..1000).map(|n| job(&format!("{round} {n}"))).collect()).await.unwrap();
    }
    let mut worker = queue.worker(60_000).await;
    let mut others = [queue.worker(60_000).await, queue.worker(60_000).await];
    worker.credit(1_000).await;
    worker.until("its jobs", |worker| worker.jobs.len() == 1_000).await;
    for other in &mut others {
        other.credit(1_000).await;
        other.until("its jobs", |worker| worker.jobs.len() == 1_000).await;
    }
    // Those that end are the first of the list that the purge walks over.
    let settles: Vec<_> = worker
        .jobs
        .drain(..)
        .map(|job| v1::WorkSettle { lease: Some(lease_of(&job)), ..Default::default() })
        .collect();
    let request = v1::PurgeQueueRequest {
        queue: queue.name.clone(),
        confirm: queue.name.clone(),
        states: vec![JobState::Leased.into()],
        ..Default::default()
    };
    let mut client = queue.client.clone();
    let (purged, ()) = tokio::join!(client.purge_queue(request), async {
        for settles in settles.chunks(250) {
            worker.send(v1::WorkRequest { settles: settles.to_vec(), ..Default::default() }).await;
        }
    });
    let asked = purged.unwrap().into_inner().cancel_requested;
    worker.until("all outcomes", |worker| worker.outcomes.len() == 1_000).await;
    assert!(asked >= 2_000, "{asked}");
    for job in others.iter().flat_map(|other| &other.jobs).step_by(20) {
        assert!(queue.get(&job.id).await.unwrap().cancel_requested, "{}", job.id);
    }
}
