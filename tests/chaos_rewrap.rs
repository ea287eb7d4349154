//! A bad network under Rewrap: it goes on over what is short, or ends with an error in its time. Run again it comes to its end, with every
//! root key under the new key and everything readable, before and after.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{KeyState, RewrapRequest, RewrapResponse};
use support::{
    Sidecar,
    attach::Refused,
    bad_network::{check_refusal, faults_for, healed, start},
    blob::content,
    chaos::{Fault, Network},
    keys,
    link::allowed,
};
use tokio::task::JoinSet;
use tonic::Streaming;

const SESSIONS: usize = 240;
const BLOBS: usize = 10;
/// Sessions, blobs and the namespace.
const OWNERS: u64 = (SESSIONS + BLOBS + 1) as u64;
/// What one batch of owners may take.
const WORD_WITHIN: Duration = Duration::from_secs(30);

const P: KeyState = KeyState::Primary;
const D: KeyState = KeyState::DecryptOnly;

async fn prepare(sidecar: &Sidecar) {
    keys::make_sessions(sidecar, "bot", SESSIONS).await;
    for n in 0..BLOBS {
        sidecar.blobs().save(&format!("blob-{n}"), &content(n as u64, 1000)).await.unwrap();
    }
    support::conversations::go(sidecar, support::small::step("5255", "awaiting_amount")).await;
}

async fn check_all(sidecar: &Sidecar, fault: Fault) {
    keys::check_sessions(sidecar, "bot", SESSIONS).await;
    for n in 0..BLOBS {
        let found = sidecar.blobs().fetch(&format!("blob-{n}")).await.unwrap();
        assert!(found == content(n as u64, 1000), "{fault:?}: blob {n}");
    }
    assert_eq!(support::conversations::read(sidecar, "5255").await.step, "awaiting_amount", "{fault:?}");
}

/// The next key becomes the primary; those before it only open.
async fn promote(sidecar: &Sidecar, next: u32) {
    let with =
        |primary| (1..=next).map(move |id| (id, if id == primary { P } else { D })).collect::<Vec<_>>();
    // The command waits for a network that this process carries.
    let run = |words: &[&str]| tokio::task::block_in_place(|| keys::done(sidecar, words));
    run(&["add"]);
    keys::reload(sidecar, &with(next - 1)).await;
    run(&["promote", &next.to_string()]);
    keys::reload(sidecar, &with(next)).await;
}

/// A rewrap that has begun to move root keys and has most of them before it.
async fn begun(sidecar: &Sidecar) -> Streaming<RewrapResponse> {
    let slow = RewrapRequest { owners_per_second: 100 };
    let mut words = sidecar.admin().rewrap(slow).await.unwrap().into_inner();
    loop {
        let word = words.message().await.unwrap().expect("it goes on");
        assert!(word.moved < OWNERS / 2, "it was too quick");
        if word.moved > 0 {
            return words;
        }
    }
}

/// To its end, whichever. A word or an end comes all the time.
async fn end(mut words: Streaming<RewrapResponse>, fault: Fault) -> Result<RewrapResponse, Refused> {
    let mut last = None;
    loop {
        let word = tokio::time::timeout(allowed(WORD_WITHIN), words.message()).await;
        match word.unwrap_or_else(|_| panic!("{fault:?}: neither a word nor an end")) {
            Ok(Some(word)) => last = Some(word),
            Ok(None) => break,
            Err(status) => {
                let refused = Refused::of_status(&status);
                check_refusal(fault, "the rewrap", &refused);
                return Err(refused);
            }
        }
    }
    let last: RewrapResponse = last.expect("it ended without a word");
    assert!(last.done, "{fault:?}: it ended in peace, and not at its end: {last:?}");
    assert_eq!((last.failed, last.failures.len()), (0, 0), "{fault:?}: a network damages no key: {last:?}");
    Ok(last)
}

/// Everything is readable whatever was moved; another run moves the rest, and each once.
async fn ends_when_run_again(
    sidecar: &Sidecar,
    fault: Fault,
    ended: Result<RewrapResponse, Refused>,
    key: u32,
) {
    let (old, new) = (keys::wraps(sidecar, key - 1).await.owners, keys::wraps(sidecar, key).await.owners);
    assert_eq!(old + new, OWNERS, "{fault:?}: {old} + {new}");
    match &ended {
        Ok(_) => assert_eq!(old, 0, "{fault:?}: it said that it was done"),
        Err(refused) => println!("{fault:?}: {}, {old} were left", refused.reason),
    }
    check_all(sidecar, fault).await;
    let again = keys::rewrap(sidecar, 100_000).await.unwrap();
    assert_eq!((again.moved, again.skipped, again.failed, again.done), (old, new, 0, true), "{fault:?}");
    assert_eq!(keys::wraps(sidecar, key - 1).await.owners, 0, "{fault:?}");
    assert_eq!(keys::wraps(sidecar, key).await.owners, OWNERS, "{fault:?}");
    check_all(sidecar, fault).await;
}

/// With a database of its own, whose keys it turns over twice.
async fn suffer(fault: Fault, network: Network, mut sidecar: Sidecar) {
    // A network that is bad for a moment.
    promote(&sidecar, 2).await;
    let words = begun(&sidecar).await;
    network.suffer(fault);
    let ended = tokio::spawn(end(words, fault));
    tokio::time::sleep(Duration::from_secs(1)).await;
    network.suffer(Fault::None);
    let ended = ended.await.unwrap();
    healed(&sidecar, fault).await;
    assert!(ended.is_ok(), "{fault:?}: it did not go on: {ended:?}");
    ends_when_run_again(&sidecar, fault, ended, 2).await;

    // One that stays bad.
    promote(&sidecar, 3).await;
    let words = begun(&sidecar).await;
    let since = Instant::now();
    network.suffer(fault);
    let ended = end(words, fault).await;
    println!("{fault:?}: done: {} after {:?}", ended.is_ok(), since.elapsed());
    match fault {
        Fault::Delay(_) | Fault::HalfOpen | Fault::CloseOld => assert!(ended.is_ok(), "{fault:?}: {ended:?}"),
        Fault::Silent | Fault::NoReplies | Fault::Reset => {
            assert!(ended.is_err(), "{fault:?} carries nothing");
        }
        _ => {}
    }
    network.suffer(Fault::None);
    healed(&sidecar, fault).await;
    ends_when_run_again(&sidecar, fault, ended, 3).await;

    // Nothing lives in memory alone.
    sidecar.restart().await;
    check_all(&sidecar, fault).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewrap_over_a_bad_network_goes_on_or_ends_with_an_error_and_the_next_run_ends_it() {
    let (mut faults, mut databases) = (JoinSet::new(), Vec::new());
    for fault in faults_for("Rewrap") {
        let (valkey, network, sidecar) = start().await;
        prepare(&sidecar).await;
        databases.push(valkey);
        faults.spawn(suffer(fault, network, sidecar));
    }
    while let Some(ended) = faults.join_next().await {
        ended.unwrap();
    }
}
