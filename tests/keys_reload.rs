//! The keyring's file while a sidecar runs, and what is said when it is the wrong one, an old one, or gone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::{
    fs,
    time::{Duration, Instant},
};

use pannier::proto::v1::KeyState;
use rustix::process::Signal;
use support::{Options, Sidecar, Valkey, ValkeyOptions, keys, unary::Unary};
use tonic::Code;

const P: KeyState = KeyState::Primary;
const D: KeyState = KeyState::DecryptOnly;
const X: KeyState = KeyState::Disabled;

/// Waits until the log says it; gives the lines.
async fn logged(sidecar: &Sidecar, what: &str, times: usize) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let lines: Vec<_> =
            sidecar.logs().lines().filter(|line| line.contains(what)).map(ToOwned::to_owned).collect();
        if lines.len() >= times {
            return lines;
        }
        assert!(Instant::now() < until, "{what:?}, {times} times:\n{}", sidecar.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

const NOT_TAKEN: &str = "the keyring was not taken; the old one stays in use";

#[tokio::test]
async fn a_file_that_is_wrong_leaves_the_old_keyring_in_use_and_one_line_says_why() {
    let (_valkey, sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 2).await;
    let good = fs::read_to_string(sidecar.keyring()).unwrap();
    let secret = good.lines().find(|line| line.starts_with("secret")).unwrap().split('"').nth(1).unwrap();
    let other_index = {
        let (keyring, _) = good.split_once("[[key]]").unwrap();
        let index = keyring.split('"').nth(1).unwrap();
        let other =
            if index.starts_with('A') { index.replacen('A', "B", 1) } else { format!("A{}", &index[1..]) };
        good.replace(index, &other)
    };
    for (n, (bad, why)) in [
        (good.replace("primary", "decrypt_only"), "no key is the primary"),
        (good.replace("secret = \"", "secret = \"!"), "not valid base64"),
        (other_index, "index_key is not the one in use"),
        (String::new(), "index_key is missing"),
    ]
    .into_iter()
    .enumerate()
    {
        keys::write(&sidecar.keyring(), &bad);
        sidecar.signal(Signal::HUP);
        let lines = logged(&sidecar, NOT_TAKEN, n + 1).await;
        assert_eq!(lines.len(), n + 1, "one line each");
        assert!(
            lines[n].contains(why) && lines[n].contains("\"ERROR\"") && !lines[n].contains(secret),
            "{}",
            lines[n]
        );
        keys::check_sessions(&sidecar, "bot", 2).await;
    }
    fs::remove_file(sidecar.keyring()).unwrap();
    sidecar.signal(Signal::HUP);
    logged(&sidecar, NOT_TAKEN, 5).await;
    keys::make_sessions(&sidecar, "new", 1).await;
    keys::write(&sidecar.keyring(), &good);
    sidecar.signal(Signal::HUP);
    logged(&sidecar, "nothing new", 1).await;
}

/// Two people who each add a key give it the same id. The one that the database knows counts.
#[tokio::test]
async fn another_key_under_the_same_id_is_refused_while_running_and_at_start() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let (one, mut two) = keys::two(&valkey).await;
    keys::make_sessions(&one, "bot", 2).await;
    keys::done(&one, &["add"]);
    keys::reload(&one, &[(1, P), (2, D)]).await;
    keys::done(&two, &["add"]);
    two.signal(Signal::HUP);
    let line = logged(&two, NOT_TAKEN, 1).await.remove(0);
    assert!(line.contains("key 2 of the keyring is not the key 2 this database was written with"), "{line}");
    keys::check_sessions(&two, "bot", 2).await;
    // Its commands see it as well, before they change a thing.
    let said = keys::refused(&two, &["promote", "2"], 78);
    assert!(said.contains("not the key 2 this database was written with"), "{said}");
    let said = keys::refused(&one, &["promote", "2"], 1);
    assert!(said.contains(&format!(":{}", two.pid())), "it does not count as knowing key 2: {said}");

    two.stop().await;
    two.spawn();
    let status = two.wait_exit(Duration::from_secs(10)).await;
    assert_eq!(status.code(), Some(78));
    assert!(two.logs().contains("restore keyring.toml"), "{}", two.logs());
    keys::copy(&one.keyring(), &two.keyring());
    two.spawn();
    two.wait_serving(Duration::from_secs(10)).await;
    keys::check_sessions(&two, "bot", 2).await;
}

/// A sidecar that nobody sent a signal finds the key in its file when it meets it, and takes the file over.
#[tokio::test]
async fn a_key_that_only_the_file_has_is_read_once_and_taken() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let one = Sidecar::start(Options::with(&valkey)).await;
    // Both have the same file, and the second one is asleep to it.
    let two = one.beside("two.sock").await;
    keys::alive(&one, 2).await;
    keys::done(&one, &["add"]);
    keys::reload(&one, &[(1, P), (2, D)]).await;
    let said = keys::refused(&one, &["promote", "2"], 1);
    assert!(said.contains(&format!(":{}", two.pid())), "{said}");
    let text = fs::read_to_string(one.keyring()).unwrap();
    let by_hand =
        text.replace("primary", "later").replace("decrypt_only", "primary").replace("later", "decrypt_only");
    keys::write(&one.keyring(), &by_hand);
    keys::reload(&one, &[(1, D), (2, P)]).await;
    keys::make_sessions(&one, "new", 1).await;
    assert!(!two.logs().contains("read again"), "nobody told it");
    keys::check_sessions(&two, "new", 1).await;
    logged(&two, "the keyring was read again: it has changed", 1).await;
    let until = Instant::now() + Duration::from_secs(5);
    while !keys::sidecars(&one).await.iter().all(|info| info.keys[1].state() == P) {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    keys::make_sessions(&two, "newer", 1).await;
    assert_eq!(keys::wraps(&two, 2).await.sessions, 2, "it wraps under the new one now");
}

/// A key that is disabled too early: a clear answer, nothing is lost, and it can be taken back.
#[tokio::test]
async fn a_key_disabled_by_hand_is_a_mismatch_until_it_is_enabled_again() {
    let (_valkey, sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 2).await;
    keys::done(&sidecar, &["add"]);
    keys::reload(&sidecar, &[(1, P), (2, D)]).await;
    keys::done(&sidecar, &["promote", "2"]);
    keys::reload(&sidecar, &[(1, D), (2, P)]).await;
    assert!(
        keys::refused(&sidecar, &["disable", "2"], 78).contains("is the primary: promote another one first")
    );
    let good = fs::read_to_string(sidecar.keyring()).unwrap();
    keys::write(&sidecar.keyring(), &good.replace("decrypt_only", "disabled"));
    keys::reload(&sidecar, &[(1, X), (2, P)]).await;
    let refused = Unary::of(&sidecar).get("bot-1", "creds", &["creds"]).await.unwrap_err();
    assert_eq!(
        refused.why(),
        (Code::FailedPrecondition, "KEY_MISMATCH"),
        "also from a cache of before: {refused:?}"
    );
    let ended = keys::rewrap(&sidecar, 0).await.unwrap();
    assert_eq!((ended.moved, ended.failed), (0, 2));
    assert!(ended.failures.iter().all(|failure| failure.reason == "KEY_MISMATCH"), "{ended:?}");
    keys::done(&sidecar, &["enable", "1"]);
    keys::reload(&sidecar, &[(1, D), (2, P)]).await;
    keys::check_sessions(&sidecar, "bot", 2).await;
    assert_eq!(keys::rewrap(&sidecar, 0).await.unwrap().moved, 2);
}

#[tokio::test]
async fn a_lost_keyring_is_said_to_be_lost_and_none_is_made() {
    // With a URL.
    let (_valkey, mut sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 1).await;
    sidecar.stop().await;
    let keyring = sidecar.keyring();
    let saved = fs::read_to_string(&keyring).unwrap();
    fs::remove_file(&keyring).unwrap();
    sidecar.spawn();
    assert_eq!(sidecar.wait_exit(Duration::from_secs(10)).await.code(), Some(78));
    assert!(sidecar.logs().contains("restore it from its backup") && !keyring.exists(), "{}", sidecar.logs());
    // Another one is not this one.
    assert!(support::pannier(&["keys", "init", "--keyring", support::path_str(&keyring)]).status.success());
    sidecar.spawn();
    assert_eq!(sidecar.wait_exit(Duration::from_secs(10)).await.code(), Some(78));
    assert!(sidecar.logs().contains("index_key is not the one this database was written with"));
    keys::write(&keyring, &saved);
    sidecar.spawn();
    sidecar.wait_serving(Duration::from_secs(10)).await;
    keys::check_sessions(&sidecar, "bot", 1).await;

    // Embedded.
    let mut sidecar = Sidecar::start(Options::default()).await;
    keys::make_sessions(&sidecar, "bot", 1).await;
    sidecar.stop().await;
    fs::remove_file(sidecar.keyring()).unwrap();
    sidecar.spawn();
    assert_eq!(sidecar.wait_exit(Duration::from_secs(10)).await.code(), Some(78));
    assert!(
        sidecar.logs().contains("is gone: restore keyring.toml from its backup")
            && !sidecar.keyring().exists()
    );
}
