//! What a worker says in one message is done together: its jobs end, and the next ones begin, in one call of Valkey.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{collections::HashMap, time::Duration};

use pannier::proto::v1::{self, NackVerdict, SettleOutcome};
use support::{
    Sidecar, Valkey,
    schedule::{Queue, Worker, grouped, job, lease_of, ms, retry, start},
};

fn settle(job: &v1::WorkJob, nack: NackVerdict) -> v1::WorkSettle {
    let lease = Some(lease_of(job));
    v1::WorkSettle { lease, nack: nack.into(), retry_after: Some(ms(0)), ..Default::default() }
}

fn done(job: &v1::WorkJob) -> v1::WorkSettle {
    v1::WorkSettle { lease: Some(lease_of(job)), result: b"r".to_vec().into(), ..Default::default() }
}

/// Ends a job and asks for the next.
async fn turn(worker: &mut Worker, settle: v1::WorkSettle) {
    worker.send(v1::WorkRequest { settles: vec![settle], credit: 1, ..Default::default() }).await;
}

fn calls(valkey: &Valkey) -> u64 {
    let stats: String = valkey.command(&["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    line.split("calls=").nth(1).unwrap().split(',').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_job_ends_and_the_next_begins_in_one_call() {
    let (valkey, _sidecar, queue) = start().await;
    queue.batch((0..200).map(|n| job(&format!("job {n}"))).collect()).await.unwrap();
    let mut worker = queue.worker(30_000).await;
    worker.credit(1).await;
    let mut one = worker.job().await;
    let before = calls(&valkey);
    for n in 1..200 {
        turn(&mut worker, done(&one)).await;
        let next = worker.job().await;
        worker.until("the outcome", |worker| worker.outcomes.contains_key(&(one.number, one.fence))).await;
        assert_eq!(worker.outcomes[&(one.number, one.fence)], SettleOutcome::Ok);
        assert_eq!(next.id, format!("job {n}"));
        one = next;
    }
    // A tick may come between.
    let took = calls(&valkey) - before;
    assert!(took < 220, "{took} calls for 199 jobs");
    assert_eq!(queue.counts().await.done, 199);
}

#[tokio::test]
async fn a_worker_for_one_at_a_time_has_the_next_only_when_the_one_before_has_ended() {
    let (_valkey, _sidecar, queue) = start().await;
    queue.batch((0..20).map(|n| job(&format!("job {n}"))).collect()).await.unwrap();
    let hello = v1::WorkHello { max_in_flight: 1, ..queue.hello(30_000) };
    let mut worker = queue.try_worker(hello).await.unwrap();
    // More credit than there may be jobs.
    worker.credit(5).await;
    let mut one = worker.job().await;
    for _ in 1..20 {
        assert!(worker.job_within(Duration::from_millis(5)).await.is_none());
        // A settle of a lease that is not its own makes no room, nor does the same one said twice.
        let strange = v1::LeaseRef { fence: one.fence + 1, ..lease_of(&one) };
        let strange = v1::WorkSettle { lease: Some(strange), ..Default::default() };
        let settles = vec![strange, done(&one), done(&one)];
        worker.send(v1::WorkRequest { settles, credit: 3, ..Default::default() }).await;
        one = worker.job().await;
        assert_eq!(queue.counts().await.leased, 1);
    }
}

#[tokio::test]
async fn who_has_lost_a_lease_is_told_so_and_has_the_next_all_the_same() {
    let (_valkey, _sidecar, queue) = start().await;
    queue.add(job("one")).await;
    let mut slow = queue.worker(30_000).await;
    slow.credit(1).await;
    let one = slow.job().await;
    assert_eq!(queue.ack(&one).await, SettleOutcome::Ok);
    queue.add(job("two")).await;
    turn(&mut slow, settle(&one, NackVerdict::Fail)).await;
    assert_eq!(slow.job().await.id, "two");
    slow.until("the outcome", |worker| worker.outcomes.len() == 1).await;
    assert_eq!(slow.outcomes[&(one.number, one.fence)], SettleOutcome::AlreadyDone);
}

#[tokio::test]
async fn one_call_ends_a_groups_head_and_begins_its_next() {
    let (valkey, _sidecar, queue) = start().await;
    for n in 0..30 {
        queue.add(grouped(&format!("job {n}"), "chat")).await;
    }
    let mut worker = queue.worker(30_000).await;
    worker.credit(1).await;
    let mut one = worker.job().await;
    let before = calls(&valkey);
    for n in 1..30 {
        turn(&mut worker, done(&one)).await;
        one = worker.job().await;
        assert_eq!(one.id, format!("job {n}"));
    }
    assert!(calls(&valkey) - before < 40);
}

#[tokio::test]
async fn a_full_valkey_takes_how_jobs_end() {
    let (valkey, _sidecar, queue) = start().await;
    queue.batch((0..3).map(|n| job(&format!("job {n}"))).collect()).await.unwrap();
    let mut worker = queue.worker(30_000).await;
    worker.credit(2).await;
    let jobs = [worker.job().await, worker.job().await];
    let () = valkey.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(queue.try_add(job("another")).await.is_err());
    turn(&mut worker, done(&jobs[0])).await;
    assert_eq!(worker.ack(&jobs[1]).await, SettleOutcome::Ok);
    worker.until("both outcomes", |worker| worker.outcomes.len() == 2).await;
    assert_eq!(worker.outcomes[&(jobs[0].number, jobs[0].fence)], SettleOutcome::Ok);
    let () = valkey.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(queue.counts().await.done, 2);
}

#[tokio::test]
async fn a_pause_a_limiter_and_a_cap_on_leases_hold_what_comes_next() {
    let (_valkey, _sidecar, queue) = start().await;
    queue.batch((0..60).map(|n| job(&format!("job {n}"))).collect()).await.unwrap();
    let limiter = v1::Limiter { max: 5, duration: Some(ms(1_000)) };
    let settings = v1::QueueSettings { limiter: Some(limiter), concurrency: Some(2), ..Default::default() };
    queue.configure(settings).await;
    let mut worker = queue.worker(30_000).await;
    worker.credit(4).await;
    let mut starts = Vec::new();
    for _ in 0..18 {
        let one = worker.job().await;
        assert!(queue.counts().await.leased <= 2);
        starts.push(support::schedule::at_ms(one.leased_at.as_ref()));
        turn(&mut worker, done(&one)).await;
    }
    for (first, sixth) in starts.iter().zip(&starts[5..]) {
        assert!(sixth - first > 1_000, "{starts:?}");
    }
    let one = worker.job().await;
    let mut client = queue.client.clone();
    let pause = v1::PauseQueueRequest { queue: queue.name.clone(), ..Default::default() };
    client.pause_queue(pause).await.unwrap();
    // One more may have been on its way.
    tokio::time::sleep(Duration::from_millis(50)).await;
    while worker.job_within(Duration::from_millis(5)).await.is_some() {}
    turn(&mut worker, done(&one)).await;
    assert!(worker.job_within(Duration::from_millis(1_500)).await.is_none());
}

/// Ends jobs in all ways, one after the other, and gives what is stored then, but for instants and names.
async fn stored(sidecar: &Sidecar, valkey: &Valkey, name: &str, watched: bool) -> Vec<(String, Vec<u8>)> {
    let queue = Queue::of(sidecar, name);
    queue.add(job("first")).await;
    let mut client = queue.client.clone();
    let watch = v1::WatchQueueRequest { queue: name.to_owned(), ..Default::default() };
    let _watch = if watched { Some(client.watch_queue(watch).await.unwrap().into_inner()) } else { None };
    tokio::time::sleep(Duration::from_millis(200)).await;
    for n in 0..40 {
        let spec = if n % 7 == 3 { grouped(&format!("job {n}"), "chat") } else { job(&format!("job {n}")) };
        let priority = n % 3;
        queue.add(v1::JobSpec { priority, retry: retry(2, 1), ..spec }).await;
    }
    for n in 0..5 {
        queue.add(support::schedule::delayed(&format!("later {n}"), 3_600_000 + i64::from(n))).await;
    }
    let mut worker = queue.worker(60_000).await;
    worker.credit(1).await;
    let mut ended = 0;
    while let Some(one) = worker.job_within(Duration::from_millis(500)).await {
        ended += 1;
        let how = match ended % 5 {
            0 => settle(&one, NackVerdict::Retry),
            3 if one.attempt == 1 => settle(&one, NackVerdict::Fail),
            _ => done(&one),
        };
        turn(&mut worker, how).await;
    }
    drop(worker);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut all = Vec::new();
    let head = valkey
        .keys("pannier:*:h")
        .into_iter()
        .max_by_key(|key| valkey.command::<u64>(&["HGET", key, "t"]))
        .unwrap();
    let prefix = head.strip_suffix('h').unwrap();
    for total in ["s", "nc", "nl", "nd", "nx", "nr"] {
        all.push((
            total.to_owned(),
            valkey.command::<Option<Vec<u8>>>(&["HGET", &head, total]).unwrap_or_default(),
        ));
    }
    for zset in ["due", "rdy", "lse", "done", "dead", "grp"] {
        let count: u64 = valkey.command(&["ZCARD", &format!("{prefix}{zset}")]);
        all.push((zset.to_owned(), count.to_be_bytes().to_vec()));
    }
    let jobs: HashMap<String, Vec<u8>> = valkey.command(&["HGETALL", &format!("{prefix}j:0")]);
    for (field, value) in jobs {
        let value = if value.len() < 100 && field.chars().all(|c| c.is_ascii_digit()) {
            let clear = [0..13, 38..51, 59..60].into_iter().flat_map(|part| value[part].to_vec());
            clear
                .chain([
                    u8::from(value[25..31].iter().any(|byte| *byte > 0)),
                    u8::try_from(value.len()).unwrap(),
                ])
                .collect()
        } else {
            vec![u8::from(value.is_empty())]
        };
        all.push((field, value));
    }
    all.sort();
    all
}

#[tokio::test]
async fn the_short_ways_of_the_scripts_store_what_the_long_ones_do() {
    let (valkey, sidecar, _queue) = start().await;
    // Somebody who watches makes them take the long way.
    let short = stored(&sidecar, &valkey, "short", false).await;
    let long = stored(&sidecar, &valkey, "long", true).await;
    assert!(short.len() > 60);
    assert_eq!(short, long);
}

#[tokio::test]
async fn how_far_a_job_was_is_kept_also_when_it_ends_right_after() {
    let (_valkey, _sidecar, queue) = start().await;
    queue.batch((0..300).map(|n| job(&format!("job {n}"))).collect()).await.unwrap();
    let mut worker = queue.worker(30_000).await;
    worker.credit(300).await;
    for n in 0..300 {
        let one = worker.job().await;
        let progress =
            v1::WorkProgress { lease: Some(lease_of(&one)), progress: format!("{n}").into_bytes().into() };
        if n % 2 == 0 {
            // Two messages, one right after the other.
            worker.send(v1::WorkRequest { progress: vec![progress], ..Default::default() }).await;
            worker.send(v1::WorkRequest { settles: vec![done(&one)], ..Default::default() }).await;
        } else {
            let settles = vec![done(&one)];
            worker.send(v1::WorkRequest { progress: vec![progress], settles, ..Default::default() }).await;
        }
    }
    worker.until("all outcomes", |worker| worker.outcomes.len() == 300).await;
    for n in 0..300 {
        let found = queue.get(&format!("job {n}")).await.unwrap();
        assert_eq!(found.progress, format!("{n}").into_bytes(), "job {n}");
    }
}
