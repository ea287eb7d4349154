//! Two sidecars on the same queues: what one knows of, the other serves; and what both do at random leaves nobody behind.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{self, JobState, NackVerdict, OnConflict};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    blob::request_id,
    random::Random,
    schedule::{Queue, Worker, job, lease_of, ms, retry},
    unary::answer,
};

async fn start() -> (Valkey, Sidecar, Sidecar) {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendonly", "no"));
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let second = sidecar.beside("second.sock").await;
    (valkey, sidecar, second)
}

#[tokio::test]
async fn a_cron_that_one_sidecar_has_set_fires_although_that_one_is_gone() {
    let (_valkey, mut first, second) = start().await;
    let (here, there) = (Queue::of(&first, "reports"), Queue::of(&second, "reports"));
    // The other one knows the queue, and that nothing is to be done there.
    here.add(job("one")).await;
    let one = here.take(1).await.pop().unwrap();
    here.ack(&one).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let cron = v1::Cron {
        id: "each second".into(),
        rule: Some(v1::cron::Rule::Every(ms(1_000))),
        overlap: v1::Overlap::Allow.into(),
        ..Default::default()
    };
    let request = v1::UpsertCronRequest { queue: here.name.clone(), cron: Some(cron), ..Default::default() };
    here.client.clone().upsert_cron(request).await.unwrap();
    first.kill9();
    let mut worker = there.worker(30_000).await;
    worker.credit(10).await;
    for _ in 0..3 {
        let job = worker.job_within(Duration::from_secs(5)).await.expect("the cron fires no more");
        assert!(job.id.starts_with("each second@"), "{}", job.id);
    }
}

/// Ends what a worker has, and asks for as much, in one message.
async fn take_turn(queue: &Queue, worker: Option<Worker>, random: &mut Random) -> Option<Worker> {
    let mut worker = if let Some(worker) = worker {
        worker
    } else {
        let worker = queue.worker(1_000).await;
        worker.credit(3).await;
        worker
    };
    // It is closed when nothing was said for one lease.
    worker.step(Duration::from_millis(2)).await.ok()?;
    let jobs: Vec<_> = worker.jobs.drain(..).collect();
    let verdicts = [
        NackVerdict::Unspecified,
        NackVerdict::Unspecified,
        NackVerdict::Retry,
        NackVerdict::Release,
        NackVerdict::Fail,
    ];
    let settles: Vec<_> = jobs
        .iter()
        .map(|job| v1::WorkSettle {
            lease: Some(lease_of(job)),
            nack: random.of(&verdicts).into(),
            retry_after: random.of(&[None, Some(ms(0)), Some(ms(30))]),
            ..Default::default()
        })
        .collect();
    let credit = u32::try_from(settles.len()).unwrap();
    let received = jobs.iter().map(|job| job.delivery).max().unwrap_or(0);
    worker.send(v1::WorkRequest { settles, credit, received, ..Default::default() }).await;
    Some(worker)
}

/// One of several that do anything at any time.
async fn do_anything(queues: [Queue; 2], seed: u64, until: Instant) {
    let mut random = Random(seed);
    let mut leases: Vec<v1::WorkJob> = Vec::new();
    let mut worker = None;
    while Instant::now() < until {
        let queue = random.of(&queues);
        let id = format!("job {}", random.below(40));
        match random.below(18) {
            0..=3 => {
                let mut spec = |n: u64| v1::JobSpec {
                    group: random.of(&["", "a", "b", "c"]).into(),
                    when: Some(v1::job_spec::When::Delay(ms(random.of(&[0, 0, 0, 30, 300])))),
                    not_after: random
                        .of(&[None, None, Some(30)])
                        .map(|by| v1::job_spec::NotAfter::DeadlineIn(ms(by))),
                    unique_window: Some(ms(random.of(&[0, 0, 100]))),
                    priority: random.of(&[0, 0, 7]),
                    retry: retry(random.of(&[1, 2, 3]), 1),
                    on_conflict: random
                        .of(&[OnConflict::Keep, OnConflict::Replace, OnConflict::Reschedule])
                        .into(),
                    ..job(&format!("job {n}"))
                };
                let jobs = (0..4).map(|n| spec((n * 7 + seed) % 40)).collect();
                queue.batch(jobs).await.unwrap();
            }
            4..=6 => leases.extend(queue.lease(&request_id(), 3, 1_000, 0).await),
            7..=8 => {
                for job in std::mem::take(&mut leases) {
                    match random.below(5) {
                        0 => drop(queue.ack(&job).await),
                        1 => drop(queue.nack(&job, NackVerdict::Retry, Some(20)).await),
                        2 => drop(queue.nack(&job, NackVerdict::Release, None).await),
                        3 => drop(queue.nack(&job, NackVerdict::Fail, None).await),
                        _ => {}
                    }
                }
            }
            9 => drop(queue.cancel(&id).await),
            10 => drop(queue.reschedule(&id, random.of(&[0, 50, 200])).await),
            11 => {
                let states =
                    vec![random.of(&[JobState::Scheduled, JobState::Ready, JobState::Waiting]).into()];
                let (confirm, name) = (queue.name.clone(), queue.name.clone());
                let request = v1::PurgeQueueRequest { queue: name, confirm, states, ..Default::default() };
                if random.below(4) == 0 {
                    answer(queue.client.clone().purge_queue(request).await).unwrap();
                }
            }
            12 => {
                let request =
                    v1::RetryDeadRequest { queue: queue.name.clone(), all: true, ..Default::default() };
                answer(queue.client.clone().retry_dead(request).await).unwrap();
            }
            13..=16 => worker = take_turn(&queue, worker, &mut random).await,
            _ => {
                let limiter = Some(v1::Limiter { max: random.of(&[0, 3]), duration: Some(ms(50)) });
                let settings = v1::QueueSettings {
                    limiter,
                    concurrency: Some(random.of(&[0, 0, 5])),
                    skip_delayed: Some(random.of(&[true, false])),
                    ..Default::default()
                };
                queue.configure(settings).await;
            }
        }
    }
}

#[tokio::test]
async fn whatever_was_done_to_a_queue_all_its_jobs_come_to_an_end() {
    let (valkey, first, second) = start().await;
    for seed in 0..4 {
        let name = format!("queue {seed}");
        let queues = [Queue::of(&first, &name), Queue::of(&second, &name)];
        let until = Instant::now() + Duration::from_secs(3);
        tokio::join!(
            do_anything(queues.clone(), 3 * seed, until),
            do_anything(queues.clone(), 3 * seed + 1, until),
            do_anything(queues.clone(), 3 * seed + 2, until)
        );
        let [queue, _] = queues;
        let limiter = Some(v1::Limiter { max: 0, duration: None });
        let settings = v1::QueueSettings { limiter, concurrency: Some(0), ..Default::default() };
        queue.configure(settings).await;
        let mut worker = queue.worker(30_000).await;
        worker.credit(20).await;
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            while let Some(job) = worker.job_within(Duration::from_millis(100)).await {
                let settle = v1::WorkSettle { lease: Some(lease_of(&job)), ..Default::default() };
                worker.send(v1::WorkRequest { settles: vec![settle], credit: 1, ..Default::default() }).await;
            }
            let counts = queue.counts().await;
            let left = counts.scheduled + counts.ready + counts.waiting + counts.leased + counts.groups;
            if left == 0 {
                break;
            }
            assert!(Instant::now() < until, "seed {seed}: {counts:?}");
        }
        for suffix in ["due", "rdy", "lse", "grp", "ga"] {
            assert_eq!(valkey.keys(&format!("*:{suffix}")), Vec::<String>::new(), "seed {seed}");
        }
        assert_eq!(support::schedule::taken_by_nobody(&valkey), Vec::<String>::new());
    }
}
