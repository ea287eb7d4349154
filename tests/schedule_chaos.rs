//! Jobs while everything dies: sidecars and workers by kill -9, Valkey by pauses. Every job ends once, groups keep their order, no
//! lease is settled twice; a message that is ingested again and again becomes one job. At full count with PANNIER_SOAK=1.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use pannier::proto::v1::{self, SettleOutcome, enqueued::Outcome};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    random::Random,
    schedule::{Queue, Worker, grouped, job, lease_of, now_ms, retry},
};

fn soak() -> bool {
    std::env::var_os("PANNIER_SOAK").is_some()
}

fn seed() -> u64 {
    let seed = std::env::var("PANNIER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::try_from(now_ms()).unwrap());
    eprintln!("seed {seed}");
    seed
}

#[derive(Default)]
struct Seen {
    /// By number: the fences of all leases that a worker got.
    leases: BTreeMap<u64, Vec<u64>>,
    /// By number: the lease that was settled.
    settled: HashMap<u64, u64>,
    groups: HashMap<u64, String>,
}

struct Fleet {
    queues: Vec<Queue>,
    seen: Mutex<Seen>,
    stop: AtomicBool,
    /// Workers below this number are to die.
    kill: AtomicU64,
}

/// A worker that connects again whenever its stream breaks, with what it holds.
async fn work(fleet: Arc<Fleet>, me: u64, seed: u64) {
    let mut random = Random(seed);
    let mut held: Vec<v1::WorkJob> = Vec::new();
    while !fleet.stop.load(Ordering::Relaxed) {
        let queue = &fleet.queues[usize::try_from(random.below(fleet.queues.len() as u64)).unwrap()];
        let hello = v1::WorkHello { held: held.iter().map(lease_of).collect(), ..queue.hello(2_000) };
        let Ok(Ok(mut worker)) = tokio::time::timeout(Duration::from_secs(3), queue.try_worker(hello)).await
        else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let kept: HashSet<_> =
            worker.welcome.clone().unwrap().held.iter().map(|l| (l.number, l.fence)).collect();
        held.retain(|job| kept.contains(&(job.number, job.fence)));
        worker.credit(10).await;
        let _ = serve(&fleet, me, &mut worker, &mut held, &mut random).await;
        if fleet.kill.load(Ordering::Relaxed) == me {
            // kill -9: it forgets everything.
            fleet.kill.store(u64::MAX, Ordering::Relaxed);
            held.clear();
        }
    }
}

async fn serve(
    fleet: &Fleet,
    me: u64,
    worker: &mut Worker,
    held: &mut Vec<v1::WorkJob>,
    random: &mut Random,
) -> Result<(), tonic::Status> {
    let mut heartbeat = Instant::now();
    loop {
        if fleet.stop.load(Ordering::Relaxed) || fleet.kill.load(Ordering::Relaxed) == me {
            return Ok(());
        }
        if heartbeat.elapsed() > Duration::from_millis(600) {
            worker.heartbeat().await;
            heartbeat = Instant::now();
        }
        worker.step(Duration::from_millis(20)).await?;
        while let Some(job) = worker.jobs.pop_front() {
            worker.received(job.delivery).await;
            let mut seen = fleet.seen.lock().unwrap();
            seen.leases.entry(job.number).or_default().push(job.fence);
            seen.groups.insert(job.number, job.group.clone());
            held.push(job);
        }
        for lost in std::mem::take(&mut worker.lost) {
            held.retain(|job| (job.number, job.fence) != (lost.number, lost.fence));
        }
        if worker.draining {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Some of the work is done.
        tokio::time::sleep(Duration::from_millis(random.below(5))).await;
        let settles: Vec<_> = held
            .iter()
            .filter(|job| !worker.outcomes.contains_key(&(job.number, job.fence)))
            .map(|job| {
                // Now and then an attempt fails.
                let fails = job.attempt < 3 && random.below(20) == 0;
                let nack = if fails { v1::NackVerdict::Retry } else { v1::NackVerdict::Unspecified };
                v1::WorkSettle { lease: Some(lease_of(job)), nack: nack.into(), ..Default::default() }
            })
            .collect();
        let failing: HashSet<_> = settles
            .iter()
            .filter(|settle| settle.nack != 0)
            .map(|settle| settle.lease.as_ref().unwrap().fence)
            .collect();
        if settles.is_empty() {
            continue;
        }
        // kill -9 with jobs at work.
        if fleet.kill.load(Ordering::Relaxed) == me {
            return Ok(());
        }
        let waiting: Vec<_> = held.iter().map(|job| (job.number, job.fence)).collect();
        // With the next jobs in the same call, or in one of their own.
        let freed = u32::try_from(held.len()).unwrap();
        let credit = random.of(&[0, freed]);
        worker.send(v1::WorkRequest { settles, credit, ..Default::default() }).await;
        let until = Instant::now() + Duration::from_secs(3);
        while waiting.iter().any(|lease| !worker.outcomes.contains_key(lease)) {
            if Instant::now() > until || !worker.errors.is_empty() {
                return Ok(());
            }
            worker.step(Duration::from_millis(500)).await?;
        }
        record(fleet, &waiting, &worker.outcomes, &failing);
        held.clear();
        worker.outcomes.clear();
        if credit < freed {
            worker.credit(freed).await;
        }
    }
}

/// No job may be settled as done by two leases. (One that was done before is so by the same lease: its answer was lost.)
fn record(
    fleet: &Fleet,
    waiting: &[(u64, u64)],
    outcomes: &HashMap<(u64, u64), SettleOutcome>,
    failing: &HashSet<u64>,
) {
    let mut seen = fleet.seen.lock().unwrap();
    for (number, fence) in waiting {
        if outcomes[&(*number, *fence)] == SettleOutcome::Ok && !failing.contains(fence) {
            let before = seen.settled.insert(*number, *fence);
            assert_eq!(before, None, "job {number} was settled twice");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_job_ends_once_and_in_the_order_of_its_group() {
    let (jobs, groups, workers) = if soak() { (50_000, 500, 20) } else { (2_000, 40, 8) };
    let seed = seed();
    let mut random = Random(seed);
    let valkey = Valkey::start(ValkeyOptions::default());
    let first = Sidecar::start(Options::with(&valkey)).await;
    let mut sidecars = vec![first];
    for n in 1..3 {
        sidecars.push(sidecars[0].beside(&format!("s{n}.sock")).await);
    }
    let queues: Vec<_> = sidecars.iter().map(|sidecar| Queue::of(sidecar, "chaos")).collect();
    for begin in (0..jobs).step_by(500) {
        let batch = (begin..begin + 500)
            .map(|n| v1::JobSpec {
                retry: retry(50, 1),
                ..grouped(&format!("job {n}"), &format!("chat {}", n % groups))
            })
            .collect();
        queues[0].batch(batch).await.unwrap();
    }
    let fleet = Arc::new(Fleet {
        queues,
        seen: Mutex::default(),
        stop: AtomicBool::new(false),
        kill: AtomicU64::new(u64::MAX),
    });
    let tasks: Vec<_> =
        (0..workers).map(|me| tokio::spawn(work(Arc::clone(&fleet), me, seed + me))).collect();
    let until = Instant::now() + Duration::from_secs(if soak() { 1_200 } else { 120 });
    let (mut kills, mut last) = (0, 0);
    loop {
        assert!(Instant::now() < until, "not all jobs have ended: {:?}", fleet.queues[0].counts().await);
        match random.below(5) {
            0 | 1 => {
                let which = usize::try_from(random.below(3)).unwrap();
                sidecars[which].restart().await;
                kills += 1;
            }
            2 => {
                valkey.sigstop();
                tokio::time::sleep(Duration::from_millis(random.below(300))).await;
                valkey.sigcont();
            }
            _ => fleet.kill.store(random.below(workers), Ordering::Relaxed),
        }
        tokio::time::sleep(Duration::from_millis(random.below(300))).await;
        let counts = fleet.queues[0].info().await;
        let totals = counts.totals.unwrap();
        if totals.done + totals.dead >= jobs {
            last += 1;
            // Whatever would end a second time had the chance to.
            if last == 5 {
                break;
            }
        }
    }
    fleet.stop.store(true, Ordering::Relaxed);
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(20), task).await.unwrap().unwrap();
    }
    let info = fleet.queues[0].info().await;
    let (totals, counts) = (info.totals.unwrap(), info.counts.unwrap());
    eprintln!("{kills} sidecars killed; {totals:?}");
    assert_eq!((totals.created, totals.done + totals.dead), (jobs, jobs));
    assert_eq!((counts.leased, counts.ready, counts.waiting, counts.groups), (0, 0, 0, 0));
    assert_eq!(support::schedule::taken_by_nobody(&valkey), Vec::<String>::new());
    let what_was = fleet.seen.lock().unwrap();
    let mut by_group: HashMap<&str, Vec<u64>> = HashMap::new();
    for (number, group) in &what_was.groups {
        by_group.entry(group).or_default().push(*number);
    }
    let mut compared = 0;
    for numbers in by_group.values_mut() {
        numbers.sort_unstable();
        for pair in numbers.windows(2) {
            let earlier = what_was.leases[&pair[0]].iter().max().unwrap();
            let later = what_was.leases[&pair[1]].iter().min().unwrap();
            assert!(earlier < later, "{} and {} of one group were at work together", pair[0], pair[1]);
            compared += 1;
        }
    }
    assert!(compared > usize::try_from(jobs / 2).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_redelivered_over_kills_becomes_one_job() {
    let kills = if soak() { 1_000 } else { 25 };
    let mut random = Random(seed());
    let valkey = Valkey::start(ValkeyOptions::default());
    let mut sidecar = Sidecar::start(Options::with(&valkey)).await;
    let queue = Queue::of(&sidecar, "webhooks");
    let stop = Arc::new(AtomicBool::new(false));
    let delivering: Vec<_> = (0..4)
        .map(|lane| {
            let (queue, stop) = (queue.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut numbers = Vec::new();
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = format!("wamid.{lane}.{n}");
                    // As a webhook is: delivered until it is answered with OK, and now and then once more.
                    let number = loop {
                        match queue.ingest(&[&key]).await {
                            Ok(answers) => break answers[0].number,
                            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                        }
                    };
                    if n % 3 == 0
                        && let Ok(again) = queue.ingest(&[&key]).await
                    {
                        assert_eq!((again[0].outcome(), again[0].number), (Outcome::Existing, number));
                    }
                    numbers.push(number);
                }
                numbers
            })
        })
        .collect();
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(random.below(60))).await;
        sidecar.restart().await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut numbers = Vec::new();
    for task in delivering {
        numbers.extend(tokio::time::timeout(Duration::from_secs(30), task).await.unwrap().unwrap());
    }
    let count = numbers.len() as u64;
    let distinct: HashSet<_> = numbers.into_iter().collect();
    assert_eq!(distinct.len() as u64, count, "two messages became one job");
    let info = queue.info().await;
    assert_eq!((info.counts.unwrap().ready, info.totals.unwrap().created), (count, count));
    eprintln!("{count} messages over {kills} kills");
    assert!(count > 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_that_stops_under_load_loses_nothing_and_counts_no_attempt() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let mut first = Sidecar::start(Options::with(&valkey)).await;
    let second = first.beside("second.sock").await;
    let (queue, other) = (Queue::of(&first, "drain"), Queue::of(&second, "drain"));
    let all = 1_000;
    for begin in (0..all).step_by(500) {
        queue.batch((begin..begin + 500).map(|n| job(&format!("job {n}"))).collect()).await.unwrap();
    }
    let mut worker = queue.worker(30_000).await;
    worker.credit(50).await;
    let mut running = Vec::new();
    for _ in 0..40 {
        running.push(worker.job().await);
    }
    first.sigterm();
    worker.until("the notice", |worker| worker.draining).await;
    let mut held = running.split_off(20);
    for job in &running {
        assert_eq!(worker.ack(job).await, SettleOutcome::Ok);
    }
    let ended = loop {
        match worker.step(Duration::from_secs(10)).await {
            Ok(_) => {}
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), tonic::Code::Unavailable);
    assert!(first.wait_exit(Duration::from_secs(20)).await.success());
    // Jobs that came while it said goodbye were never received: they are back. The rest goes on elsewhere.
    let hello = v1::WorkHello { held: held.iter().map(lease_of).collect(), ..other.hello(30_000) };
    let mut worker = other.try_worker(hello).await.unwrap();
    assert_eq!(worker.welcome.as_ref().unwrap().held.len(), held.len());
    for job in held.drain(..) {
        assert_eq!(worker.ack(&job).await, SettleOutcome::Ok);
    }
    worker.credit(1_000).await;
    for _ in 40..all {
        let job = worker.job().await;
        assert_eq!(job.attempt, 1, "a drain has counted an attempt");
        assert_eq!(worker.ack(&job).await, SettleOutcome::Ok);
    }
    let totals = other.info().await.totals.unwrap();
    assert_eq!((totals.done, totals.leases_lost, totals.retried), (all, 0, 0));
}

#[tokio::test]
async fn the_first_job_after_a_restart_of_valkey_starts_soon() {
    // bullmq#4479: a blocked command that never came back.
    let mut valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let queue = Queue::of(&sidecar, "restart");
    let mut worker = queue.worker(30_000).await;
    worker.credit(10).await;
    for round in 0..3 {
        queue.add(job(&format!("before {round}"))).await;
        let leased = worker.job().await;
        valkey.restart();
        let recovered = Instant::now();
        queue.add(job(&format!("after {round}"))).await;
        assert_eq!(worker.job().await.id, format!("after {round}"));
        assert!(recovered.elapsed() < Duration::from_secs(4), "{:?}", recovered.elapsed());
        assert_eq!(worker.ack(&leased).await, SettleOutcome::Ok);
    }
}

#[tokio::test]
async fn an_outage_of_valkey_ends_no_lease_whose_worker_lives() {
    let mut valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let queue = Queue::of(&sidecar, "outage");
    queue.add(job("one")).await;
    let mut worker = queue.worker(2_000).await;
    worker.credit(5).await;
    let one = worker.job().await;
    valkey.kill9();
    for _ in 0..7 {
        worker.heartbeat().await;
        let _ = worker.step(Duration::from_millis(500)).await.unwrap();
    }
    valkey.spawn();
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        worker.heartbeat().await;
        worker.step(Duration::from_millis(500)).await.unwrap();
    }
    assert!(worker.lost.is_empty(), "{:?}", worker.lost);
    assert!(worker.jobs.is_empty(), "it was given out again");
    worker.errors.clear();
    assert_eq!(worker.ack(&one).await, SettleOutcome::Ok);
    assert_eq!(queue.info().await.totals.unwrap().leases_lost, 0);
}

#[tokio::test]
async fn a_job_is_not_late_because_a_message_between_sidecars_was_lost() {
    // bullmq#2466: delayed jobs were hours overdue until another one was added.
    let valkey = Valkey::start(ValkeyOptions::default());
    let first = Sidecar::start(Options::with(&valkey)).await;
    let second = first.beside("second.sock").await;
    let (here, there) = (Queue::of(&first, "wake"), Queue::of(&second, "wake"));
    here.add(job("so that it exists")).await;
    let mut worker = here.worker(30_000).await;
    worker.credit(100).await;
    let leased = worker.job().await;
    for n in 0..10 {
        // Whoever hears messages loses its connection at this moment.
        let _: i64 = valkey.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        let id = format!("job {n}");
        there.add(support::schedule::delayed(&id, 200)).await;
        let began = Instant::now();
        let job = worker.job().await;
        assert_eq!(job.id, id);
        assert!(began.elapsed() < Duration::from_millis(3_200), "{:?}", began.elapsed());
        worker.ack(&job).await;
    }
    worker.ack(&leased).await;
}

#[tokio::test]
async fn a_lost_database_is_told_as_such() {
    // bullmq#390: FLUSHALL lost everything silently.
    let valkey = Valkey::start(ValkeyOptions::default());
    let mut sidecar = Sidecar::start(Options::with(&valkey)).await;
    let queue = Queue::of(&sidecar, "lost");
    queue.add(job("one")).await;
    let leased = queue.take(1).await.pop().unwrap();
    let _: () = valkey.command(&["FLUSHALL"]);
    let ack = v1::ack_jobs_request::Ack { number: leased.number, fence: leased.fence, ..Default::default() };
    let request = v1::AckJobsRequest { queue: queue.name.clone(), acks: vec![ack], ..Default::default() };
    let refused = support::unary::answer(queue.client.clone().ack_jobs(request).await).unwrap_err();
    assert_eq!(refused.reason, "STORE_CHANGED");
    assert_eq!(queue.try_add(job("two")).await.unwrap_err().reason, "STORE_CHANGED");
    sidecar.wait_status(support::ServingStatus::NotServing, Duration::from_secs(10)).await;
    assert!(sidecar.is_running());
}
