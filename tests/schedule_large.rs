//! Many jobs: no script handles more than some hundreds of them, none takes long, and what is gone leaves no memory behind. A million at
//! once with PANNIER_SOAK=1. And nothing of them is in Valkey in clear.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use pannier::proto::v1::{self, JobState, NackVerdict, SettleOutcome};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    schedule::{Queue, grouped, job, lease_of, ms, now_ms, timestamp},
};

fn many() -> usize {
    if std::env::var_os("PANNIER_SOAK").is_some() { 1_000_000 } else { 30_000 }
}

/// What a script may take, µs, on a machine that does other things too; without a soak run's peace more.
fn longest() -> u64 {
    if std::env::var_os("PANNIER_SOAK").is_some() { 5_000 } else { 20_000 }
}

async fn start(options: ValkeyOptions) -> (Valkey, Sidecar, Queue) {
    let valkey = Valkey::start(
        options.set("appendonly", "no").set("slowlog-log-slower-than", "0").set("slowlog-max-len", "2000"),
    );
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let queue = Queue::of(&sidecar, "large");
    (valkey, sidecar, queue)
}

async fn fill(queue: &Queue, count: usize, make: impl Fn(usize) -> v1::JobSpec) {
    for begin in (0..count).step_by(1_000) {
        queue.batch((begin..begin + 1_000).map(&make).collect()).await.unwrap();
    }
}

fn slowest(valkey: &Valkey) -> u64 {
    let entries: Vec<Vec<redis::Value>> = valkey.command(&["SLOWLOG", "GET", "2000"]);
    let _: () = valkey.command(&["SLOWLOG", "RESET"]);
    let mut times: Vec<u64> = entries
        .into_iter()
        .filter(|entry| {
            let redis::Value::Array(words) = &entry[3] else { return false };
            matches!(&words[0], redis::Value::BulkString(word) if word == b"EVALSHA")
        })
        .map(|entry| match entry[2] {
            redis::Value::Int(micros) => u64::try_from(micros).unwrap(),
            _ => 0,
        })
        .collect();
    // Whatever else the machine does falls into one or the other: the longest fiftieth tells nothing of the script.
    times.sort_unstable();
    times.get(times.len() * 49 / 50).copied().unwrap_or(0)
}

fn memory(valkey: &Valkey) -> i64 {
    let info: String = valkey.command(&["INFO", "memory"]);
    info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn many_jobs_due_at_the_same_moment_are_handled_in_steps() {
    // OptimalBits/bull#1893, taskforcesh/bullmq#4608, OptimalBits/bull#2357.
    let (valkey, _sidecar, queue) = start(ValkeyOptions::default()).await;
    queue.add(job("first of all")).await;
    let first = queue.take(1).await.pop().unwrap();
    queue.ack(&first).await;
    let before = memory(&valkey);
    let due = now_ms() + if many() > 100_000 { 120_000 } else { 10_000 };
    let when = || Some(v1::job_spec::When::DueAt(timestamp(due)));
    fill(&queue, many(), |n| v1::JobSpec {
        when: when(),
        unique_window: Some(ms(0)),
        ..job(&format!("job {n}"))
    })
    .await;
    eprintln!(
        "adding: {} µs; {} bytes a job",
        slowest(&valkey),
        (memory(&valkey) - before) / i64::try_from(many()).unwrap()
    );
    assert_eq!(queue.counts().await.scheduled, many() as u64);
    // A walk through all of them.
    let (mut cursor, mut seen) = (String::new(), 0);
    loop {
        let request = v1::ListJobsRequest {
            queue: queue.name.clone(),
            state: JobState::Scheduled.into(),
            cursor,
            limit: 500,
            ..Default::default()
        };
        let page = queue.client.clone().list_jobs(request).await.unwrap().into_inner();
        assert!(page.jobs.len() <= 500 && page.corrupt == 0);
        seen += page.jobs.len();
        cursor = page.cursor;
        if cursor.is_empty() || seen >= 20_000 {
            break;
        }
    }
    assert_eq!(seen, many().min(20_000));
    let listing = slowest(&valkey);
    assert!(listing < longest(), "a page took {listing} µs");
    // All are due at once; somebody works meanwhile.
    let wait = u64::try_from((due - now_ms()).max(0)).unwrap();
    tokio::time::sleep(Duration::from_millis(wait)).await;
    let mut worker = queue.worker(30_000).await;
    worker.credit(200).await;
    let began = Instant::now();
    for _ in 0..2_000 {
        let job = worker.job().await;
        let settles = vec![v1::WorkSettle { lease: Some(lease_of(&job)), ..Default::default() }];
        worker.send(v1::WorkRequest { settles, credit: 1, ..Default::default() }).await;
    }
    eprintln!("2000 jobs worked off in {:?}", began.elapsed());
    let working = slowest(&valkey);
    assert!(working < longest(), "a script took {working} µs");
    worker.until("all settled", |worker| worker.outcomes.len() == 2_000).await;
    drop(worker);
    let request = v1::PurgeQueueRequest {
        queue: queue.name.clone(),
        confirm: queue.name.clone(),
        ..Default::default()
    };
    let purged = queue.client.clone().purge_queue(request).await.unwrap().into_inner().removed;
    // What was on its way to the worker comes back meanwhile.
    assert!(purged + 2_200 >= many() as u64, "{purged}");
    let purging = slowest(&valkey);
    assert!(purging < longest(), "a step of a purge took {purging} µs");
    queue
        .configure(v1::QueueSettings {
            retention: Some(v1::Retention { done_count: Some(0), ..Default::default() }),
            ..Default::default()
        })
        .await;
    let until = Instant::now() + Duration::from_secs(20);
    while queue.counts().await.done > 0 {
        assert!(Instant::now() < until, "done jobs are not trimmed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let request = v1::PurgeQueueRequest {
        queue: queue.name.clone(),
        confirm: queue.name.clone(),
        ..Default::default()
    };
    queue.client.clone().purge_queue(request).await.unwrap();
    // bullmq#366: what has ended leaves nothing.
    let left = memory(&valkey) - before;
    assert!(left < 3_000_000, "{left} bytes are left");
}

/// What no reader of Valkey may see.
const CANARIES: [&str; 7] = [
    "canary-queue-5511987654321",
    "canary-id-5511987654321",
    "canary-payload-5511987654321",
    "canary-group-5511987654321",
    "canary-result-5511987654321",
    "canary-error-5511987654321",
    "canary-cron-5511987654321",
];

#[tokio::test]
async fn nothing_of_a_job_is_in_valkey_in_clear() {
    let (valkey, sidecar, queue) = start(ValkeyOptions::default()).await;
    let queue = Queue { name: CANARIES[0].into(), ..queue };
    let _: () = valkey.command(&["SAVE"]);
    let mut monitor = std::os::unix::net::UnixStream::connect(valkey.socket()).unwrap();
    monitor.write_all(b"MONITOR\r\n").unwrap();
    let spec = |n: usize| v1::JobSpec {
        payload: CANARIES[2].as_bytes().to_vec().into(),
        cap: None,
        ..grouped(&format!("{} {n}", CANARIES[1]), CANARIES[3])
    };
    for n in 0..4 {
        queue.add(spec(n)).await;
    }
    queue.ingest(&["canary-payload-5511987654321"]).await.unwrap();
    let mut worker =
        queue.try_worker(v1::WorkHello { worker: CANARIES[1].into(), ..queue.hello(30_000) }).await.unwrap();
    worker.credit(2).await;
    let first = worker.job().await;
    let settle = |nack: NackVerdict, job: &v1::WorkJob| v1::WorkSettle {
        lease: Some(lease_of(job)),
        nack: nack.into(),
        result: CANARIES[4].as_bytes().to_vec().into(),
        error: CANARIES[5].into(),
        retry_after: None,
    };
    let progress = vec![v1::WorkProgress {
        lease: Some(lease_of(&first)),
        progress: CANARIES[4].as_bytes().to_vec().into(),
    }];
    worker.send(v1::WorkRequest { progress, ..Default::default() }).await;
    worker
        .send(v1::WorkRequest {
            settles: vec![settle(NackVerdict::Unspecified, &first)],
            ..Default::default()
        })
        .await;
    let second = worker.job().await;
    worker
        .send(v1::WorkRequest { settles: vec![settle(NackVerdict::Fail, &second)], ..Default::default() })
        .await;
    worker.until("both settled", |worker| worker.outcomes.len() == 2).await;
    assert!(worker.outcomes.values().all(|outcome| *outcome == SettleOutcome::Ok));
    let cron = v1::Cron {
        id: CANARIES[6].into(),
        rule: Some(v1::cron::Rule::Pattern("1 2 3 4 *".into())),
        template: Some(v1::JobSpec { payload: CANARIES[2].as_bytes().to_vec().into(), ..Default::default() }),
        ..Default::default()
    };
    let request = v1::UpsertCronRequest { queue: queue.name.clone(), cron: Some(cron), ..Default::default() };
    queue.client.clone().upsert_cron(request).await.unwrap();
    // All keys of a queue are of one hash slot (bullmq#906: CROSSSLOT).
    let tags: std::collections::BTreeSet<_> = valkey
        .keys("pannier:test:{*")
        .into_iter()
        .filter(|key| !key.ends_with("}:k"))
        .map(|key| key.split(['{', '}']).nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(tags.len(), 1, "{tags:?}");
    let dead = queue.get(&format!("{} 1", CANARIES[1])).await;
    let all: Vec<_> = [queue.get(&second.id).await.unwrap(), queue.get(&first.id).await.unwrap()].into();
    assert!(all.iter().any(|job| job.error == CANARIES[5]) || dead.is_ok());
    assert!(
        all.iter().any(|job| job.result == CANARIES[4].as_bytes() || job.progress == CANARIES[4].as_bytes())
    );
    let _: () = valkey.command(&["SAVE"]);
    let _ = monitor.set_read_timeout(Some(Duration::from_millis(500)));
    let mut transcript = Vec::new();
    let _ = std::io::Read::read_to_end(&mut monitor, &mut transcript);
    assert!(transcript.len() > 10_000, "the monitor has seen nothing");
    let dump = std::fs::read(valkey.dir.path().join("dump.rdb")).unwrap();
    let logs = sidecar.logs().into_bytes();
    for (place, bytes) in [("MONITOR", &transcript), ("RDB", &dump), ("logs", &logs)] {
        for secret in CANARIES.iter().chain(&["5511987654321"]) {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} is in clear in {place}");
        }
    }
}

#[tokio::test]
async fn a_watch_tells_what_happens_from_now_on() {
    // bullmq#76: everything was told again after a restart; bullmq#2874: events were lost without a word.
    use v1::watch_queue_response::Event;
    let (mut valkey, _sidecar, queue) = {
        let valkey = Valkey::start(ValkeyOptions::default());
        let sidecar = Sidecar::start(Options::with(&valkey)).await;
        let queue = Queue::of(&sidecar, "watched");
        (valkey, sidecar, queue)
    };
    queue.add(job("before")).await;
    let request = v1::WatchQueueRequest { queue: queue.name.clone(), ..Default::default() };
    let mut events = queue.client.clone().watch_queue(request).await.unwrap().into_inner();
    assert_eq!(events.message().await.unwrap().unwrap().event(), Event::Watching);
    queue.add(job("one")).await;
    let jobs = queue.take(2).await;
    queue.ack(&jobs[1]).await;
    queue.nack(&jobs[0], NackVerdict::Release, None).await;
    let mut told = Vec::new();
    for _ in 0..5 {
        let event =
            tokio::time::timeout(Duration::from_secs(5), events.message()).await.unwrap().unwrap().unwrap();
        assert!(now_ms() - support::schedule::at_ms(event.at.as_ref()) < 10_000);
        told.push((event.event(), event.id));
    }
    let of = |event, id: &str| (event, id.to_owned());
    assert_eq!(
        told,
        [
            of(Event::Created, "one"),
            of(Event::Leased, "before"),
            of(Event::Leased, "one"),
            of(Event::Done, "one"),
            of(Event::Released, "before"),
        ]
    );
    valkey.restart();
    let resync = loop {
        let event =
            tokio::time::timeout(Duration::from_secs(15), events.message()).await.unwrap().unwrap().unwrap();
        if event.event() == Event::Resync {
            break event;
        }
    };
    assert_eq!(resync.number, 0);
    // A lease that is lost is told once.
    queue.lease(&support::blob::request_id(), 1, 1_000, 2_000).await;
    let mut lost = 0;
    let until = tokio::time::Instant::now() + Duration::from_secs(4);
    while let Ok(Ok(Some(event))) = tokio::time::timeout_at(until, events.message()).await {
        lost += u32::from(event.event() == Event::LeaseLost);
    }
    assert_eq!(lost, 1);
}

#[tokio::test]
async fn idle_queues_and_many_workers_cost_little() {
    // taskforcesh/bullmq#2157, #2243: tens of thousands of commands a second while idle; 35 connections a worker.
    let (valkey, _sidecar, queue) = start(ValkeyOptions::default()).await;
    let mut workers = Vec::new();
    for n in 0..50 {
        let mut worker = Queue { name: format!("queue {n}"), ..queue.clone() }.worker(60_000).await;
        worker.credit(1).await;
        let _ = worker.step(Duration::from_millis(1)).await;
        workers.push(worker);
    }
    let clients: String = valkey.command(&["CLIENT", "LIST"]);
    let ours = clients.lines().filter(|line| !line.contains("cmd=client")).count();
    assert!(ours <= 5, "{ours} connections:\n{clients}");
    let commands = || -> u64 {
        let info: String = valkey.command(&["INFO", "stats"]);
        info.lines()
            .find_map(|line| line.strip_prefix("total_commands_processed:"))
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = commands();
    let span = Duration::from_secs(10);
    tokio::time::sleep(span).await;
    let rate = (commands() - before) / span.as_secs();
    eprintln!("{rate} commands a second, those in scripts among them, while 50 workers of 50 queues idle");
    assert!(rate < 15, "{rate} commands a second");
}
