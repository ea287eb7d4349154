//! Archives go when their time has come, by the clock of Valkey; what lives is never pruned by age. Needs the feature
//! `test-clock`, which lets `pannier:test-clock` (ms) shift the clock that scripts see.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::delete_session_request::Mode;
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
    unary::Unary,
};

const DAY_MS: u64 = 24 * 3600 * 1000;

async fn live(sidecar: &Sidecar, session: &str, value: &str) -> u64 {
    let mut bot = Attach::open(sidecar.channel(), open(session, "me")).await.unwrap();
    let op_seq = bot.opened.last_op_seq + 1;
    bot.commit(op_seq, vec![put("creds", "creds", value), put("sender-key", "old", value)], vec![])
        .await
        .unwrap();
    let incarnation = bot.opened.incarnation;
    bot.close().await;
    incarnation
}

fn shift(valkey: &Valkey, days: u64) {
    let _: String = valkey.command(&["SET", "pannier:test-clock", &(days * DAY_MS).to_string()]);
}

fn records(valkey: &Valkey) -> usize {
    valkey.command::<Vec<String>>(&["KEYS", "pannier:test:{*}:r:*"]).len()
}

async fn until(what: &str, mut reached: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !reached().await {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// openclaw#19618, PR#26625: pruning by age would have deleted sessions in use.
#[tokio::test]
async fn archives_are_unlinked_after_seven_days_and_nothing_that_lives_ever_is() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut admin = Unary::of(&sidecar);
    live(&sidecar, "lives", "x").await;
    for session in ["soft", "both"] {
        live(&sidecar, session, "first").await;
        assert!(admin.delete(session, Mode::Soft).await.unwrap().deleted);
    }
    live(&sidecar, "both", "second").await;
    let mut cleared = Attach::open(sidecar.channel(), open("cleared", "me")).await.unwrap();
    cleared.commit(1, vec![put("creds", "creds", "first")], vec![]).await.unwrap();
    cleared.clear(2).await.unwrap();
    cleared.close().await;
    assert_eq!(records(&valkey), 6);

    shift(&valkey, 6);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(records(&valkey), 6, "kept for seven days");
    let later = live(&sidecar, "soft", "third").await;
    assert!(admin.delete("soft", Mode::Soft).await.unwrap().deleted);

    shift(&valkey, 8);
    until("archives of day 0 are gone", async || records(&valkey) == 4).await;
    let archives = admin.session("soft").await.unwrap().archives;
    assert_eq!(archives.iter().map(|one| one.incarnation).collect::<Vec<_>>(), [later], "not yet its time");
    assert_eq!(admin.session("both").await.unwrap().archives, []);
    assert_eq!(admin.value("both", "creds", "creds").await, Some(b"second".to_vec()));

    shift(&valkey, 4000);
    until("the last archive is gone", async || records(&valkey) == 3).await;
    assert!(!admin.session("soft").await.unwrap().exists);
    until("nothing of it is left", async || {
        valkey.command::<Vec<String>>(&["KEYS", "pannier:test:{*}:h"]).len() == 3
    })
    .await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    for (session, value) in [("lives", "x"), ("both", "second")] {
        for ty in [("creds", "creds"), ("sender-key", "old")] {
            assert_eq!(admin.value(session, ty.0, ty.1).await, Some(value.as_bytes().to_vec()));
        }
    }
    assert!(admin.session("cleared").await.unwrap().exists);
    assert!(Attach::open(sidecar.channel(), open("soft", "me")).await.unwrap().opened.created);
}

#[tokio::test]
async fn a_lease_ends_by_the_clock_of_valkey() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    drop(Attach::open(sidecar.channel(), open("bot", "first")).await.unwrap());
    let held = Attach::open(sidecar.channel(), open("bot", "second")).await.err().unwrap();
    assert_eq!(held.reason, "SESSION_HELD");
    let _: String = valkey.command(&["SET", "pannier:test-clock", "29000"]);
    assert!(Attach::open(sidecar.channel(), open("bot", "second")).await.is_err());
    let _: String = valkey.command(&["SET", "pannier:test-clock", "31000"]);
    let second = Attach::open(sidecar.channel(), open("bot", "second")).await.unwrap();
    drop(second);
    // A clock that falls back (another primary's) does not bring a lease to an end early, nor make it longer than it is.
    let _: String = valkey.command(&["SET", "pannier:test-clock", "0"]);
    let held = Attach::open(sidecar.channel(), open("bot", "third")).await.err().unwrap();
    assert_eq!(held.reason, "SESSION_HELD");
}
