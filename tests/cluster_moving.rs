//! Every capability while the slots of its keys go from node to node, key by key: nothing is torn, lost or done twice.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use pannier::proto::v1;
use support::{
    Options, Sidecar, blob, caps,
    cluster::Cluster,
    schedule,
    small::{claim, complete, consume, get, rid, step},
};
use tonic::{Code, Response, Status};

/// What a call is tried again for, under the same id. Somebody else's turn comes: a slot moves on.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tries until it is done.
async fn until_done<T, F: Future<Output = Result<Response<T>, Status>>>(mut call: impl FnMut() -> F) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match call().await {
            Ok(answer) => return answer.into_inner(),
            Err(status)
                if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Aborted) =>
            {
                assert!(Instant::now() < until, "not done in time: {status:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(status) => panic!("{status:?}"),
        }
    }
}

/// What was done until it was told to stop.
async fn claims(sidecar: &Sidecar, stop: &AtomicBool) -> u32 {
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        let request = v1::ClaimRequest { request_id: rid(), ..claim(&format!("message-{number}")) };
        let mine = until_done(|| async { sidecar.dedup().claim(request.clone()).await }).await;
        assert_eq!(mine.outcome(), v1::claim_response::Outcome::New, "message {number}: {mine:?}");
        let done = complete(&request.key, mine.fence, b"done");
        until_done(|| async { sidecar.dedup().complete_claim(done.clone()).await }).await;
        let again = claim(&request.key);
        let again = until_done(|| async { sidecar.dedup().claim(again.clone()).await }).await;
        assert_eq!(
            (again.outcome(), again.result.as_ref()),
            (v1::claim_response::Outcome::Duplicate, &b"done"[..])
        );
    }
    number
}

async fn conversations(sidecar: &Sidecar, stop: &AtomicBool) -> u32 {
    let (mut number, mut version) = (0, 0);
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        let request = v1::AdvanceRequest { request_id: rid(), ..step("chat", &format!("step-{number}")) };
        until_done(|| async { sidecar.conversations().advance(request.clone()).await }).await;
        let read = until_done(|| async { sidecar.conversations().get_conversation(get("chat")).await }).await;
        let state = read.state.unwrap();
        assert_eq!(state.step, format!("step-{number}"));
        assert!(state.version > version, "a version was given twice");
        version = state.version;
    }
    number
}

async fn sends(sidecar: &Sidecar, stop: &AtomicBool) -> u32 {
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        let request = consume(&format!("send-{number}"), &["many"]);
        until_done(|| async { sidecar.caps().consume(request.clone()).await }).await;
    }
    assert_eq!(caps::used(sidecar, "many").await, i64::from(number), "a send was counted twice, or not");
    number
}

async fn jobs(sidecar: &Sidecar, stop: &AtomicBool) -> u32 {
    let queue = schedule::Queue::of(sidecar, "work");
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        let id = format!("job-{number}");
        let until = Instant::now() + PATIENCE;
        let request_id = rid();
        while let Err(refused) = queue.add_as(schedule::job(&id), &request_id).await {
            assert!(Instant::now() < until, "{refused:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let until = Instant::now() + PATIENCE;
    let mut done = 0;
    while done < number {
        assert!(Instant::now() < until, "{done} of {number} jobs");
        for job in queue.take(100).await {
            queue.ack(&job).await;
            done += 1;
        }
    }
    assert_eq!(queue.take(10).await.len(), 0, "a job was there twice");
    number
}

async fn blobs(sidecar: &Sidecar, stop: &AtomicBool) -> u32 {
    let mut number = 0;
    let mut kept = None;
    while !stop.load(Ordering::SeqCst) {
        let content = blob::content(u64::from(number), 400_000);
        let saved = sidecar.blobs().save("archive", &content).await;
        if saved.is_ok() {
            number += 1;
            kept = Some(content);
        }
        let Some(kept) = &kept else { continue };
        match sidecar.blobs().fetch("archive").await {
            // A save that failed late may have been done all the same.
            Ok(fetched) => assert!(saved.is_err() || fetched == *kept, "not what was saved last"),
            Err(refused) => {
                assert!(
                    matches!(refused.code, Code::Unavailable | Code::DeadlineExceeded | Code::Aborted),
                    "{refused:?}"
                );
            }
        }
    }
    number
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_torn_lost_or_done_twice() {
    let cluster = Arc::new(Cluster::start(2, 0));
    let options = Options { valkey_url: Some(cluster.url()), ..Options::default() }.arg("--cluster");
    let sidecar = Arc::new(Sidecar::start(options).await);
    caps::make(&sidecar, caps::policy("many", caps::daily(1_000_000))).await;
    let stop = Arc::new(AtomicBool::new(false));
    let begin = |work: fn(Arc<Sidecar>, Arc<AtomicBool>) -> tokio::task::JoinHandle<u32>| {
        work(Arc::clone(&sidecar), Arc::clone(&stop))
    };
    let tasks = [
        ("claims", begin(|sidecar, stop| tokio::spawn(async move { claims(&sidecar, &stop).await }))),
        (
            "conversations",
            begin(|sidecar, stop| tokio::spawn(async move { conversations(&sidecar, &stop).await })),
        ),
        ("sends", begin(|sidecar, stop| tokio::spawn(async move { sends(&sidecar, &stop).await }))),
        ("jobs", begin(|sidecar, stop| tokio::spawn(async move { jobs(&sidecar, &stop).await }))),
        ("blobs", begin(|sidecar, stop| tokio::spawn(async move { blobs(&sidecar, &stop).await }))),
    ];
    tokio::time::sleep(Duration::from_millis(500)).await;
    // Those that hold several keys: the queue's, the caps', the blob's, and two others by chance. There and back again.
    let mover = Arc::clone(&cluster);
    let there_and_back = tokio::task::spawn_blocking(move || {
        let mut slots = mover.slots_with(2);
        slots.truncate(if std::env::var_os("PANNIER_SOAK").is_some() { usize::MAX } else { 12 });
        for slot in &slots {
            let from = mover.owner_of(0, *slot).unwrap();
            mover.move_slot(*slot, from, 1 - from, Duration::from_millis(2));
            mover.move_slot(*slot, 1 - from, from, Duration::ZERO);
        }
        slots.len()
    })
    .await
    .unwrap();
    stop.store(true, Ordering::SeqCst);
    println!("{there_and_back} slots went there and back");
    assert!(there_and_back >= 3, "only {there_and_back} slots were moved");
    for (what, task) in tasks {
        let count = task.await.unwrap();
        println!("{what}: {count}");
        assert!(count > 10, "{what}: {count}");
    }
}
