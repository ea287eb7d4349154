//! A rewrap that is broken off, run twice, or meets what cannot be opened: nothing is lost, and the next run ends it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{KeyState, RewrapRequest, delete_session_request::Mode};
use support::{Sidecar, Valkey, ValkeyOptions, keys, unary::Unary};
use tonic::Code;

const P: KeyState = KeyState::Primary;
const D: KeyState = KeyState::DecryptOnly;

/// Adds key 2 and makes it the primary.
async fn promote(sidecar: &Sidecar) {
    keys::done(sidecar, &["add"]);
    keys::reload(sidecar, &[(1, P), (2, D)]).await;
    keys::done(sidecar, &["promote", "2"]);
    keys::reload(sidecar, &[(1, D), (2, P)]).await;
}

async fn counts(sidecar: &Sidecar) -> (u64, u64) {
    (keys::wraps(sidecar, 1).await.owners, keys::wraps(sidecar, 2).await.owners)
}

#[tokio::test]
async fn a_sidecar_killed_in_the_middle_leaves_all_readable_and_the_next_run_ends_it() {
    let (_valkey, mut sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 300).await;
    promote(&sidecar).await;
    let mut words =
        sidecar.admin().rewrap(RewrapRequest { owners_per_second: 150 }).await.unwrap().into_inner();
    loop {
        let word = words.message().await.unwrap().expect("it goes on");
        assert!(!word.done, "it was too quick to be killed");
        if word.moved >= 60 {
            break;
        }
    }
    sidecar.restart().await;
    let (old, new) = counts(&sidecar).await;
    assert!(old > 0 && new >= 60 && old + new == 300, "{old} + {new}");
    keys::check_sessions(&sidecar, "bot", 300).await;

    let ended = keys::rewrap(&sidecar, 100_000).await.unwrap();
    assert!(ended.done, "{ended:?}");
    assert_eq!((ended.moved, ended.skipped, ended.failed), (old, new, 0));
    assert_eq!(counts(&sidecar).await, (0, 300));
    keys::check_sessions(&sidecar, "bot", 300).await;
}

#[tokio::test]
async fn two_at_once_move_each_root_key_once() {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "everysec"));
    let (one, two) = keys::two(&valkey).await;
    keys::make_sessions(&one, "bot", 400).await;
    keys::done(&one, &["add"]);
    keys::spread(&one, &two, &[(1, P), (2, D)]).await;
    keys::done(&one, &["promote", "2"]);
    keys::spread(&one, &two, &[(1, D), (2, P)]).await;
    let (a, b) = tokio::join!(keys::rewrap(&one, 100_000), keys::rewrap(&two, 100_000));
    let (a, b) = (a.unwrap(), b.unwrap());
    eprintln!("{} and {} moved", a.moved, b.moved);
    assert!(a.done && b.done && a.failed + b.failed == 0, "{a:?} {b:?}");
    assert_eq!(a.moved + b.moved, 400);
    assert_eq!(counts(&one).await, (0, 400));
    keys::check_sessions(&two, "bot", 400).await;
}

#[tokio::test]
async fn it_ends_when_its_client_goes_away_or_its_sidecar_stops() {
    let (_valkey, mut sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 200).await;
    promote(&sidecar).await;
    let slow = RewrapRequest { owners_per_second: 40 };
    let mut words = sidecar.admin().rewrap(slow).await.unwrap().into_inner();
    words.message().await.unwrap().unwrap();
    drop(words);
    tokio::time::sleep(Duration::from_millis(700)).await;
    let (left, _) = counts(&sidecar).await;
    assert!(left > 0);
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(counts(&sidecar).await.0, left, "it went on without anybody who listens");

    let mut words = sidecar.admin().rewrap(slow).await.unwrap().into_inner();
    words.message().await.unwrap().unwrap();
    let began = Instant::now();
    sidecar.sigterm();
    let ended = loop {
        match words.message().await {
            Ok(Some(word)) => assert!(!word.done),
            Ok(None) => panic!("it ended as if all was well"),
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), Code::Unavailable, "{ended:?}");
    assert!(sidecar.wait_exit(Duration::from_secs(10)).await.success());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn it_goes_on_after_valkey_was_killed() {
    let (mut valkey, sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 200).await;
    promote(&sidecar).await;
    let mut words =
        sidecar.admin().rewrap(RewrapRequest { owners_per_second: 100 }).await.unwrap().into_inner();
    words.message().await.unwrap().unwrap();
    valkey.restart();
    let mut last = None;
    while let Some(word) = words.message().await.unwrap() {
        last = Some(word);
    }
    let last = last.unwrap();
    assert!(last.done && last.failed == 0, "{last:?}");
    assert_eq!(counts(&sidecar).await, (0, 200));
    keys::check_sessions(&sidecar, "bot", 200).await;
}

/// hashicorp/vault#29532, #31791: the context binds before and after. What belongs to another owner, or was altered, stays as it is, is
/// named, and does not hold up the rest.
#[tokio::test]
async fn a_root_key_in_another_owners_place_is_named_and_not_wrapped_anew() {
    let (valkey, sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 5).await;
    promote(&sidecar).await;
    let heads = valkey.keys("pannier:test:{*}:h");
    let (a, b) = (&heads[0], &heads[1]);
    let (key_a, key_b) = (hget(&valkey, a, "k"), hget(&valkey, b, "k"));
    hset(&valkey, a, "k", &key_b);
    let ended = keys::rewrap(&sidecar, 0).await.unwrap();
    assert_eq!((ended.moved, ended.failed), (4, 1), "{ended:?}");
    let failure = &ended.failures[0];
    assert_eq!(
        (failure.kind.as_str(), failure.reason.as_str()),
        ("session", "CORRUPT_RECORD"),
        "{failure:?}"
    );
    assert!(failure.name.starts_with("bot-") && failure.namespace == "default", "{failure:?}");
    assert_eq!(hget(&valkey, a, "k"), key_b, "it stays as it is");

    let output = keys::keys(&sidecar, &["rewrap"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&failure.name) && said.contains("CORRUPT_RECORD"), "{said}");

    // Put back, it comes along; another's that was wrapped anew opens nothing here either.
    hset(&valkey, a, "k", &key_a);
    assert_eq!(keys::rewrap(&sidecar, 0).await.unwrap().moved, 1);
    let good = hget(&valkey, a, "k");
    hset(&valkey, a, "k", &hget(&valkey, b, "k"));
    let mut refused = 0;
    let fresh = keys::elsewhere(&sidecar).await;
    for n in 0..5 {
        match Unary::of(&fresh).get(&format!("bot-{n}"), "creds", &["creds"]).await {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.why(), (Code::DataLoss, "CORRUPT_RECORD"));
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 1);
    hset(&valkey, a, "k", &good);
    keys::check_sessions(&fresh, "bot", 5).await;
}

#[tokio::test]
async fn it_works_in_a_full_valkey() {
    let (valkey, sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 20).await;
    promote(&sidecar).await;
    let _: String = valkey.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = sidecar.blobs().save("blob", b"bytes").await.unwrap_err();
    assert_eq!(refused.why(), (Code::ResourceExhausted, "VALKEY_OUT_OF_MEMORY"), "it is full");
    let ended = keys::rewrap(&sidecar, 0).await.unwrap();
    assert_eq!((ended.moved, ended.failed, ended.done), (20, 0, true), "{ended:?}");
    assert_eq!(counts(&sidecar).await, (0, 20));
    keys::check_sessions(&sidecar, "bot", 20).await;
}

/// A root key that has no name, or is none: counted, and told apart.
#[tokio::test]
async fn damaged_heads_are_counted_and_hold_up_nothing() {
    let (valkey, sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 4).await;
    Unary::of(&sidecar).delete("bot-3", Mode::Soft).await.unwrap();
    promote(&sidecar).await;
    let heads: Vec<_> = valkey
        .keys("pannier:test:{*}:h")
        .into_iter()
        .filter(|head| !hget(&valkey, head, "k").is_empty())
        .collect();
    hset(&valkey, &heads[0], "nm", b"no name");
    hset(&valkey, &heads[1], "k", b"no key");
    let ended = keys::rewrap(&sidecar, 0).await.unwrap();
    assert_eq!((ended.moved, ended.failed, ended.done), (2, 2, true), "{ended:?}");
    let unnamed = ended.failures.iter().find(|failure| failure.name.is_empty()).unwrap();
    assert_eq!((unnamed.namespace.as_str(), unnamed.reason.as_str()), ("", "CORRUPT_RECORD"));
    let status = keys::shown(&sidecar, &["status"]);
    assert_eq!(status["damaged"].as_u64(), Some(1), "{status}");
    let old = status["keys"].as_array().unwrap().iter().find(|key| key["id"] == 1).unwrap();
    assert_eq!(old["owners"].as_u64(), Some(1), "{status}");
}

fn hget(valkey: &Valkey, key: &str, field: &str) -> Vec<u8> {
    let value: Option<Vec<u8>> =
        redis::cmd("HGET").arg(key).arg(field).query(&mut valkey.connection()).unwrap();
    value.unwrap_or_default()
}

fn hset(valkey: &Valkey, key: &str, field: &str, value: &[u8]) {
    redis::cmd("HSET").arg(key).arg(field).arg(value).exec(&mut valkey.connection()).unwrap();
}
