//! Numbers for people: how fast jobs are added and worked off from one process. Run alone, on a quiet machine:
//! `cargo test --release --test schedule_bench -- --ignored --nocapture --test-threads=1`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::cast_precision_loss)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1;
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    blob::request_id,
    schedule::{Queue, at_ms, delayed, job, lease_of, now_ms},
};

async fn start() -> (Valkey, Sidecar, Queue) {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "everysec"));
    let sidecar = Sidecar::start(Options {
        envs: vec![("PANNIER_LOG_LEVEL".into(), "warn".into())],
        ..Options::with(&valkey)
    })
    .await;
    let queue = Queue::of(&sidecar, "bench");
    (valkey, sidecar, queue)
}

fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

fn payload(n: usize) -> v1::JobSpec {
    v1::JobSpec { payload: vec![b'x'; 200].into(), ..job(&format!("job {n}")) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a benchmark"]
async fn adding_and_working_off() {
    let (_valkey, _sidecar, queue) = start().await;
    let begin = Instant::now();
    for n in 0..2_000 {
        queue.add(payload(n)).await;
    }
    eprintln!("add one by one       {:>8.0}/s", rate(2_000, begin.elapsed()));
    let begin = Instant::now();
    let lanes: Vec<_> = (0..64)
        .map(|lane| {
            let queue = queue.clone();
            tokio::spawn(async move {
                for n in 0..500 {
                    queue.add(payload(10_000 + lane * 1_000 + n)).await;
                }
            })
        })
        .collect();
    for lane in lanes {
        lane.await.unwrap();
    }
    eprintln!("add, 64 in flight    {:>8.0}/s", rate(32_000, begin.elapsed()));
    let begin = Instant::now();
    for batch in 0..50 {
        queue.batch((0..1_000).map(|n| payload(1_000_000 + batch * 1_000 + n)).collect()).await.unwrap();
    }
    eprintln!("add in batches       {:>8.0}/s", rate(50_000, begin.elapsed()));
    for (concurrency, count) in [(1, 2_000), (50, 20_000), (100, 40_000)] {
        let mut worker = queue.worker(30_000).await;
        let begin = Instant::now();
        worker.credit(concurrency).await;
        let mut done = 0;
        while done < count {
            worker.step(Duration::from_secs(5)).await.unwrap();
            let jobs: Vec<_> = worker.jobs.drain(..).collect();
            done += jobs.len();
            let credit = u32::try_from(jobs.len()).unwrap();
            let settles = jobs
                .iter()
                .map(|job| v1::WorkSettle { lease: Some(lease_of(job)), ..Default::default() })
                .collect();
            worker.send(v1::WorkRequest { settles, credit, ..Default::default() }).await;
        }
        eprintln!("work off, {concurrency:>3} at once {:>8.0}/s", rate(done, begin.elapsed()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a benchmark"]
async fn lateness_of_delayed_jobs() {
    let (_valkey, _sidecar, queue) = start().await;
    let mut worker = queue.worker(30_000).await;
    worker.credit(1_000).await;
    let specs = (0..500).map(|n| delayed(&format!("{} {n}", request_id()), 1_000 + 4 * n)).collect();
    queue.batch(specs).await.unwrap();
    let mut late = Vec::new();
    for _ in 0..500 {
        let job = worker.job().await;
        late.push(now_ms() - at_ms(job.due_at.as_ref()));
    }
    late.sort_unstable();
    eprintln!("late by p50 {} ms, p99 {} ms, most {} ms", late[250], late[495], late[499]);
}
