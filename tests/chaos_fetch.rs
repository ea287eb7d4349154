//! A bad network under FetchBlob: a fetch gives the whole content, outlives what is short, or ends with a clear error in its time. What
//! was cut off never looks whole.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1;
use support::{
    Sidecar, Valkey,
    attach::Refused,
    bad_network::{behind, check_refusal, faults_for, healed, start},
    blob::{Blobs, Fetching, content},
    chaos::{Fault, Network},
    link::allowed,
};
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

/// More than all buffers between here and Valkey take while nobody reads.
const SIZE: usize = 6 << 20;
/// A fetch that has not begun is a call like others; one part of it may take longer.
const BEGIN_WITHIN: Duration = Duration::from_secs(5);
const PART_WITHIN: Duration = Duration::from_secs(30);

/// A client that takes no more than it reads.
fn narrow(sidecar: &Sidecar) -> Blobs {
    let endpoint = Endpoint::from_shared(format!("unix:{}", sidecar.socket.display())).unwrap();
    let windows = endpoint.initial_stream_window_size(65_535).initial_connection_window_size(65_535);
    Blobs::new(windows.connect_lazy())
}

fn request() -> v1::FetchBlobRequest {
    v1::FetchBlobRequest { blob: "archive".into(), ..Default::default() }
}

/// A fetch whose first chunk has come.
async fn half(sidecar: &Sidecar) -> Fetching {
    let mut fetching = narrow(sidecar).begin_fetch(request()).await.unwrap();
    while fetching.content.is_empty() {
        assert!(fetching.step().await.unwrap());
    }
    fetching
}

fn check(fault: Fault, what: &str, fetched: Result<Vec<u8>, Refused>, good: &[u8]) -> bool {
    match fetched {
        Ok(content) => assert!(content == good, "{fault:?}: {what} gave another content"),
        Err(refused) => {
            check_refusal(fault, what, &refused);
            assert!(!refused.outcome_unknown(), "{fault:?}: {what} changes nothing: {refused:?}");
            println!("{fault:?}: {what}: {}", refused.reason);
            return false;
        }
    }
    true
}

/// Each fault on a sidecar and a network of its own, all at once: most of it is waiting.
async fn each<F: Future<Output = ()> + Send + 'static>(
    suffer: impl Fn(Fault, Network, Sidecar, Vec<u8>) -> F,
) -> (Valkey, Sidecar) {
    let (valkey, _whole, first) = start().await;
    let good = content(1, SIZE);
    first.blobs().save("archive", &good).await.unwrap();
    let mut faults = JoinSet::new();
    for fault in faults_for("FetchBlob") {
        let (network, sidecar) = behind(&valkey, &first).await;
        faults.spawn(suffer(fault, network, sidecar, good.clone()));
    }
    while let Some(ended) = faults.join_next().await {
        ended.unwrap();
    }
    (valkey, first)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_outlives_a_bad_network_that_does_not_last() {
    each(|fault, network, sidecar, good| async move {
        let fetching = half(&sidecar).await;
        network.suffer(fault);
        let end = tokio::spawn(fetching.end());
        tokio::time::sleep(Duration::from_secs(2)).await;
        network.suffer(Fault::None);
        let fetched = tokio::time::timeout(allowed(PART_WITHIN), end).await;
        let fetched = fetched.unwrap_or_else(|_| panic!("{fault:?}: the fetch has no end")).unwrap();
        let whole = check(fault, "the fetch", fetched.map(|(_, content)| content), &good);
        assert!(whole, "{fault:?}: it did not go on");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_over_a_network_that_stays_bad_is_whole_or_ends_with_an_error_in_its_time() {
    each(|fault, network, sidecar, good| async move {
        let fetching = half(&sidecar).await;
        network.suffer(fault);
        let begun = Instant::now();
        let blobs = sidecar.blobs();
        let begins = async {
            let opened = tokio::time::timeout(allowed(BEGIN_WITHIN), blobs.begin_fetch(request())).await;
            let opened = opened.unwrap_or_else(|_| panic!("{fault:?}: the new fetch was not answered"));
            Ok(opened?.end().await?.1)
        };
        let both = async { tokio::join!(fetching.end(), begins) };
        // A part that was read just in time is followed by one that has its own.
        let both = tokio::time::timeout(2 * allowed(PART_WITHIN), both).await;
        let (going, beginning) = both.unwrap_or_else(|_| panic!("{fault:?}: a fetch has no end"));
        let going = check(fault, "the fetch that went on", going.map(|(_, content)| content), &good);
        let beginning = check(fault, "the new fetch", beginning, &good);
        println!("{fault:?}: whole: {going}, {beginning} after {:?}", begun.elapsed());
        match fault {
            Fault::Delay(_) | Fault::CloseOld => assert!(going && beginning, "{fault:?} needs no failure"),
            Fault::HalfOpen => assert!(going, "{fault:?} needs no failure"),
            // Parts that were read before may be all that was left.
            _ => assert!(!going && !beginning, "{fault:?} carries no 6 MiB"),
        }
        network.suffer(Fault::None);
        healed(&sidecar, fault).await;
        assert!(sidecar.blobs().fetch("archive").await.unwrap() == good, "{fault:?}: not the same");
        let error = sidecar.blobs().stat("archive").await.unwrap().last_error;
        assert!(error.is_none(), "{fault:?}: a network spoils no blob: {error:?}");
    })
    .await;
}
