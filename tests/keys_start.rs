//! A sidecar is ready only with the keyring of its database: what is wrong with a keyring is found before the first call is served,
//! teaches the database nothing, and is not taken for an outage, nor an outage for it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use pannier::proto::v1::KeyState;
use rustix::process::Signal;
use support::{
    Options, ServingStatus, Sidecar, Valkey, ValkeyOptions,
    admin_http::{self, wait_ready},
    cluster::Cluster,
    keys,
    link::allowed,
    unary::Unary,
};
use tonic::Code;

const P: KeyState = KeyState::Primary;
const D: KeyState = KeyState::DecryptOnly;
const X: KeyState = KeyState::Disabled;

const SECOND: Duration = Duration::from_secs(1);
const META: &str = "pannier:test:meta";
const OLD: &str = "the keyring is an old one";

/// What the database says of itself and its keys.
fn known(valkey: &Valkey) -> BTreeMap<String, Vec<u8>> {
    valkey.command(&["HGETALL", META])
}

/// Starts it to be refused.
async fn refused(sidecar: &mut Sidecar) -> String {
    let from = sidecar.logs().len();
    sidecar.spawn();
    sidecar.ends_unready(from).await
}

/// What the file was while key 1 was all there is, and while key 2 was only added; everything is under key 2 by now.
async fn rotate(sidecar: &Sidecar) -> (String, String) {
    let files = add_and_promote(sidecar).await;
    let ended = keys::rewrap(sidecar, 0).await.unwrap();
    assert!(ended.done && ended.failed == 0, "{ended:?}");
    files
}

/// Up to its rewrap.
async fn add_and_promote(sidecar: &Sidecar) -> (String, String) {
    let file = || fs::read_to_string(sidecar.keyring()).unwrap();
    let first = file();
    keys::done(sidecar, &["add"]);
    keys::reload(sidecar, &[(1, P), (2, D)]).await;
    let added = file();
    keys::done(sidecar, &["promote", "2"]);
    keys::reload(sidecar, &[(1, D), (2, P)]).await;
    (first, added)
}

/// Puts a file in the place of the keyring, and starts with it.
async fn refused_with(sidecar: &mut Sidecar, keyring: &str) -> String {
    keys::write(&sidecar.keyring(), keyring);
    refused(sidecar).await
}

#[tokio::test]
async fn a_keyring_from_before_the_last_rewrap_is_never_ready() {
    let (mut valkey, mut sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 2).await;
    let (first, _) = rotate(&sidecar).await;
    let last = fs::read_to_string(sidecar.keyring()).unwrap();
    sidecar.stop().await;
    for _ in 0..3 {
        let said = refused_with(&mut sidecar, &first).await;
        assert!(said.contains(OLD) && said.contains("wrapped under key 2"), "{said}");
    }
    // The key is there, and is not to be used.
    let said = refused_with(
        &mut sidecar,
        &last.replace("decrypt_only", "later").replace("primary", "disabled").replace("later", "primary"),
    )
    .await;
    assert!(said.contains(OLD), "{said}");

    // An outage tells nothing of the keyring: it is waited for, and then the keyring is judged.
    valkey.kill9();
    keys::write(&sidecar.keyring(), &first);
    let from = sidecar.logs().len();
    sidecar.spawn();
    sidecar.wait_status(ServingStatus::NotServing, allowed(SECOND)).await;
    tokio::time::sleep(2 * SECOND).await;
    assert!(sidecar.is_running(), "an outage is no reason to exit:\n{}", sidecar.logs());
    assert!(!sidecar.logs()[from..].contains(OLD), "{}", sidecar.logs());
    valkey.spawn();
    let said = sidecar.ends_unready(from).await;
    assert!(said.contains(OLD), "{said}");

    keys::write(&sidecar.keyring(), &last);
    sidecar.spawn();
    sidecar.wait_serving(allowed(10 * SECOND)).await;
    keys::check_sessions(&sidecar, "bot", 2).await;
}

/// Nobody has said that what was made before the key came needs it: it serves what it can open, and says what it cannot.
#[tokio::test]
async fn a_keyring_that_lacks_a_key_of_its_database_serves_and_says_so() {
    let (_valkey, mut sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 2).await;
    let (first, _) = add_and_promote(&sidecar).await;
    keys::make_sessions(&sidecar, "new", 1).await;
    sidecar.stop().await;
    assert!(!sidecar.logs().contains("the database knows key"), "{}", sidecar.logs());
    keys::write(&sidecar.keyring(), &first);
    sidecar.spawn();
    sidecar.wait_serving(allowed(10 * SECOND)).await;
    assert!(
        sidecar.logs().contains("the database knows key 2, which the keyring does not have"),
        "{}",
        sidecar.logs()
    );
    keys::check_sessions(&sidecar, "bot", 2).await;
    let refused = Unary::of(&sidecar).get("new-0", "creds", &["creds"]).await.unwrap_err();
    assert_eq!(refused.why(), (Code::FailedPrecondition, "KEY_MISMATCH"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_keyring_is_never_ready_on_a_cluster_either() {
    let cluster = Cluster::start(3, 0);
    let options = Options { valkey_url: Some(cluster.url()), ..Options::default() }.arg("--cluster");
    let mut sidecar = Sidecar::start(options).await;
    keys::make_sessions(&sidecar, "bot", 3).await;
    let first = fs::read_to_string(sidecar.keyring()).unwrap();
    keys::done(&sidecar, &["add"]);
    let added = fs::read_to_string(sidecar.keyring()).unwrap();
    keys::reload(&sidecar, &[(1, P), (2, D)]).await;
    keys::write(
        &sidecar.keyring(),
        &added
            .replace("primary", "later")
            .replace("decrypt_only", "primary")
            .replace("later", "decrypt_only"),
    );
    keys::reload(&sidecar, &[(1, D), (2, P)]).await;
    assert_eq!(keys::rewrap(&sidecar, 0).await.unwrap().moved, 3);
    let last = fs::read_to_string(sidecar.keyring()).unwrap();
    sidecar.stop().await;
    let said = refused_with(&mut sidecar, &first).await;
    assert!(said.contains(OLD), "{said}");
    keys::write(&sidecar.keyring(), &last);
    sidecar.spawn();
    sidecar.wait_serving(allowed(10 * SECOND)).await;
    keys::check_sessions(&sidecar, "bot", 3).await;
}

/// It has every key that is needed, and would wrap what is new under one that the others have given up.
#[tokio::test]
async fn a_keyring_whose_primary_was_disabled_since_is_refused() {
    let (_valkey, mut sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 2).await;
    let (_, added) = rotate(&sidecar).await;
    keys::done(&sidecar, &["disable", "1"]);
    keys::reload(&sidecar, &[(1, X), (2, P)]).await;
    let disabled = fs::read_to_string(sidecar.keyring()).unwrap();

    // While it runs.
    keys::write(&sidecar.keyring(), &added);
    sidecar.signal(Signal::HUP);
    let until = Instant::now() + allowed(5 * SECOND);
    while !sidecar.logs().contains("the keyring was not taken; the old one stays in use") {
        assert!(Instant::now() < until, "{}", sidecar.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(sidecar.logs().contains("key 1, its primary, was disabled"), "{}", sidecar.logs());
    keys::make_sessions(&sidecar, "new", 1).await;
    assert_eq!(keys::wraps(&sidecar, 1).await.owners, 0, "it wraps under key 2 as before");

    // At the start, and by whom it is a copy of.
    sidecar.stop().await;
    let said = refused_with(&mut sidecar, &added).await;
    assert!(said.contains(OLD) && said.contains("key 1, its primary, was disabled"), "{said}");
    assert!(keys::refused(&sidecar, &["promote", "2"], 78).contains(OLD));

    // It can be taken back, by the commands that say so to the database.
    keys::write(&sidecar.keyring(), &disabled);
    keys::done(&sidecar, &["enable", "1"]);
    sidecar.spawn();
    sidecar.wait_serving(allowed(10 * SECOND)).await;
    keys::done(&sidecar, &["promote", "1"]);
    keys::reload(&sidecar, &[(1, P), (2, D)]).await;
    sidecar.stop().await;
    sidecar.spawn();
    sidecar.wait_serving(allowed(10 * SECOND)).await;
    keys::make_sessions(&sidecar, "newer", 1).await;
    assert_eq!(keys::wraps(&sidecar, 1).await.owners, 1);

    // And once more the other way round, to the end.
    keys::done(&sidecar, &["promote", "2"]);
    keys::reload(&sidecar, &[(1, D), (2, P)]).await;
    assert_eq!(keys::rewrap(&sidecar, 0).await.unwrap().moved, 1);
    keys::done(&sidecar, &["disable", "1"]);
    keys::reload(&sidecar, &[(1, X), (2, P)]).await;
    keys::done(&sidecar, &["remove", "1", "--yes"]);
    sidecar.stop().await;
    let last = fs::read_to_string(sidecar.keyring()).unwrap();
    let said = refused_with(&mut sidecar, &added).await;
    assert!(said.contains(OLD), "{said}");
    keys::write(&sidecar.keyring(), &last);
    sidecar.spawn();
    sidecar.wait_serving(allowed(10 * SECOND)).await;
    keys::check_sessions(&sidecar, "bot", 2).await;
}

/// The database learns a new key from a keyring that is its own, never from another.
#[tokio::test]
async fn another_keyring_teaches_the_database_nothing() {
    let (valkey, mut sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 2).await;
    let mut other = keys::elsewhere(&sidecar).await;
    other.stop().await;
    fs::remove_file(other.keyring()).unwrap();
    let file = support::path_str(&other.keyring()).to_owned();
    assert!(support::pannier(&["keys", "init", "--keyring", &file]).status.success());
    keys::done(&other, &["add"]);
    let before = known(&valkey);
    let said = refused(&mut other).await;
    assert!(said.contains("index_key is not the one this database was written with"), "{said}");
    assert_eq!(known(&valkey), before);
    keys::done(&sidecar, &["add"]);
    keys::reload(&sidecar, &[(1, P), (2, D)]).await;

    // The same index key, another key 1, and a key 3 that nobody knows.
    let mine = fs::read_to_string(sidecar.keyring()).unwrap();
    let theirs = fs::read_to_string(other.keyring()).unwrap();
    let (index, _) = mine.split_once("[[key]]").unwrap();
    let (_, their_keys) = theirs.split_once("[[key]]").unwrap();
    let mixed = format!("{index}[[key]]{}", their_keys.replace("id = 2", "id = 3"));
    let before = known(&valkey);
    let said = refused_with(&mut other, &mixed).await;
    assert!(said.contains("key 1 of the keyring is not the key 1"), "{said}");
    assert_eq!(known(&valkey), before);

    // A start that ended between the two: whose index key it is decides who may go on.
    sidecar.stop().await;
    let _: i64 = valkey.command(&["HDEL", META, "canary:1", "canary:2"]);
    refused_with(&mut other, &theirs).await;
    sidecar.spawn();
    sidecar.wait_serving(allowed(10 * SECOND)).await;
    keys::check_sessions(&sidecar, "bot", 2).await;
}

#[tokio::test]
async fn of_two_keyrings_that_come_to_an_empty_database_at_once_one_is_its() {
    for round in 0..4 {
        let valkey = Valkey::start(ValkeyOptions::default());
        let mut both = Vec::new();
        for _ in 0..2 {
            both.push(Sidecar::start(Options { no_wait: true, ..Options::with(&valkey) }).await);
        }
        let until = Instant::now() + allowed(10 * SECOND);
        while both.iter_mut().all(Sidecar::is_running) {
            assert!(Instant::now() < until, "round {round}: both go on");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let at = both.iter_mut().position(|one| !one.is_running()).unwrap();
        let mut loser = both.remove(at);
        let mut winner = both.remove(0);
        let said = loser.ends_unready(0).await;
        assert!(said.contains("index_key is not the one") || said.contains("in use already"), "{said}");
        winner.wait_serving(allowed(10 * SECOND)).await;
        keys::make_sessions(&winner, "bot", 1).await;
        winner.restart().await;
        keys::check_sessions(&winner, "bot", 1).await;
        // Without --init it is told what is wrong.
        let said = refused(&mut loser).await;
        assert!(said.contains("index_key is not the one"), "{said}");
    }
}

/// Cut off while the others rotated: it does not serve with what it had, says why, and goes on with the right file by itself.
#[tokio::test]
async fn one_that_comes_back_with_an_old_keyring_waits_for_the_new_file() {
    let mut valkey = Valkey::start(ValkeyOptions::default());
    let one = Sidecar::start(Options::with(&valkey).arg("--admin").arg("127.0.0.1:0")).await;
    let mut two = keys::elsewhere(&one).await;
    keys::make_sessions(&one, "bot", 2).await;
    let own = keys::alive(&one, 2).await.into_iter().find(|info| info.own).unwrap().id;
    two.signal(Signal::STOP);
    // Silent for so long that it counts as gone.
    let registry = "pannier:test:sidecars";
    let entries: Vec<(String, String)> = valkey.command(&["HGETALL", registry]);
    let (id, entry) = entries.into_iter().find(|(id, _)| *id != own).unwrap();
    let (seen, rest) = entry.split_once(' ').unwrap();
    let seen = seen.parse::<u64>().unwrap() - 100_000;
    let _: i64 = valkey.command(&["HSET", registry, &id, &format!("{seen} {rest}")]);
    rotate(&one).await;
    valkey.restart();
    two.signal(Signal::CONT);

    let address = admin_http::address(&two);
    let (_, why) = wait_ready(&address, 503, allowed(10 * SECOND)).await;
    let until = Instant::now() + allowed(10 * SECOND);
    while !admin_http::get(&address, "/readyz").await.body.contains(OLD) {
        assert!(Instant::now() < until, "{why}\n{}", two.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(two.serving("").await, Some(ServingStatus::NotServing));
    let why = admin_http::get(&address, "/readyz").await.body;
    assert!(!why.contains("away") && !why.contains("starting"), "Valkey is there: {why}");
    assert!(two.is_running(), "it has sessions to go on with");
    let live = support::pannier(&["doctor", "--live", "--json", "--address", &two.address()]);
    let told = String::from_utf8_lossy(&live.stdout);
    assert!(live.status.code() == Some(78) && told.contains(OLD), "{told}");

    keys::copy(&one.keyring(), &two.keyring());
    two.wait_serving(allowed(10 * SECOND)).await;
    keys::check_sessions(&two, "bot", 2).await;
    keys::check_sessions(&one, "bot", 2).await;
}
