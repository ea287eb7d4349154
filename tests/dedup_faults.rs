//! The sidecar is killed with -9 again and again while messages are claimed, worked on and completed: none is lost, and none is
//! worked on twice inside its in-progress time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use pannier::proto::v1::{
    claim_response::Outcome, complete_claim_response::Outcome as Completed,
    dedup_service_client::DedupServiceClient,
};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    small::{claim, complete, ms},
};
use tonic::transport::Channel;

const MESSAGES: u64 = 120;
const IN_PROGRESS_MS: u64 = 1_000;

#[derive(Default)]
struct Seen {
    /// The fence of each time that a message was worked on.
    runs: Mutex<BTreeMap<u64, Vec<u64>>>,
    done: Mutex<BTreeMap<u64, Vec<u64>>>,
    answered_twice: AtomicU64,
}

/// The same request until it is answered, as our clients do.
async fn until_answered<T, F>(mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
{
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match tokio::time::timeout(Duration::from_secs(3), call()).await {
            Ok(Ok(answer)) => return answer.into_inner(),
            Ok(Err(status)) => assert_ne!(status.code(), tonic::Code::InvalidArgument, "{status}"),
            Err(_) => {}
        }
        assert!(Instant::now() < end, "no answer");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn work(socket: PathBuf, seen: Arc<Seen>, worker: u64) {
    let client: DedupServiceClient<Channel> = DedupServiceClient::new(support::channel(&socket));
    let mut random = 88_172_645_463_325_252 ^ (worker << 7);
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) % below
    };
    let mut message = worker * 17;
    let end = Instant::now() + Duration::from_secs(90);
    while seen.done.lock().unwrap().len() < usize::try_from(MESSAGES).unwrap() {
        assert!(Instant::now() < end, "messages were lost");
        message = (message + 1) % MESSAGES;
        let mut request = claim(&format!("message {message}"));
        request.in_progress_ttl = ms(IN_PROGRESS_MS);
        let claimed = until_answered(|| {
            let (mut client, request) = (client.clone(), request.clone());
            async move { client.claim(request).await }
        })
        .await;
        seen.answered_twice.fetch_add(u64::from(claimed.replayed), Ordering::Relaxed);
        match claimed.outcome() {
            Outcome::New | Outcome::Takeover => {}
            Outcome::Duplicate => {
                tokio::time::sleep(Duration::from_millis(2)).await;
                continue;
            }
            _ => continue,
        }
        seen.runs.lock().unwrap().entry(message).or_default().push(claimed.fence);
        tokio::time::sleep(Duration::from_millis(next(40))).await;
        // Every fifth worker dies at its work.
        if next(5) == 0 {
            continue;
        }
        let request = complete(&format!("message {message}"), claimed.fence, b"done");
        let completed = until_answered(|| {
            let (mut client, request) = (client.clone(), request.clone());
            async move { client.complete_claim(request).await }
        })
        .await;
        if completed.outcome() == Completed::Completed {
            seen.done.lock().unwrap().entry(message).or_default().push(claimed.fence);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_message_is_lost_and_none_is_worked_on_twice_at_a_time() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let mut sidecar = Sidecar::start(Options::with(&valkey)).await;
    let seen = Arc::new(Seen::default());
    let workers: Vec<_> =
        (0..6).map(|worker| tokio::spawn(work(sidecar.socket.clone(), Arc::clone(&seen), worker))).collect();
    let mut kills = 0;
    while workers.iter().any(|worker| !worker.is_finished()) && kills < 60 {
        tokio::time::sleep(Duration::from_millis(60 + 37 * (kills % 7))).await;
        sidecar.restart().await;
        kills += 1;
    }
    for worker in workers {
        worker.await.unwrap();
    }
    let (runs, done) = (seen.runs.lock().unwrap(), seen.done.lock().unwrap());
    assert_eq!((runs.len() as u64, done.len() as u64), (MESSAGES, MESSAGES), "every message was handled");
    let mut again = 0;
    for (message, fences) in runs.iter() {
        let mut fences = fences.clone();
        fences.sort_unstable();
        for pair in fences.windows(2) {
            again += 1;
            assert!(
                pair[1] - pair[0] >= IN_PROGRESS_MS * 1000,
                "message {message} was worked on twice: {fences:?}"
            );
        }
        let by: std::collections::BTreeSet<_> = done[message].iter().collect();
        assert_eq!(by.len(), 1, "message {message} was completed once");
        assert_eq!(fences.last(), by.first().copied(), "nobody works on what is done");
    }
    println!(
        "{kills} kills, {again} takeovers, {} answers given again",
        seen.answered_twice.load(Ordering::Relaxed)
    );
    assert!(kills >= 5 && again >= 5, "{kills} kills, {again} takeovers");
}
