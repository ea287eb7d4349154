//! A store that was emptied, lost or set back is told as what it is: nobody goes on with a new identity or with old keys.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1;
use support::{
    Options, ServingStatus, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
    link::allowed,
    unary::{self, Unary},
};
use tonic::Code;

const SECOND: Duration = Duration::from_secs(1);
const CHANGED: (Code, &str) = (Code::Unavailable, "STORE_CHANGED");

async fn bot(sidecar: &Sidecar) -> Attach {
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    for n in 1..=3 {
        bot.commit(n, vec![put("creds", "creds", n.to_string())], vec![]).await.unwrap();
    }
    bot
}

/// Everything that stands in the database.
fn dump(valkey: &Valkey, pattern: &str) -> Vec<(String, Vec<u8>)> {
    let keys: Vec<String> = valkey.command(&["KEYS", pattern]);
    keys.into_iter().map(|key| (key.clone(), valkey.command(&["DUMP", &key]))).collect()
}

fn put_back(valkey: &Valkey, dump: &[(String, Vec<u8>)]) {
    for (key, value) in dump {
        let mut restore = redis::cmd("RESTORE");
        restore.arg(key).arg(0).arg(value).arg("REPLACE");
        let _: String = restore.query(&mut valkey.connection()).unwrap();
    }
}

#[tokio::test]
async fn in_an_emptied_database_nothing_is_made_and_nothing_looks_absent() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let mut sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut me = bot(&sidecar).await;
    let all = dump(&valkey, "pannier:*");
    let _: String = valkey.command(&["FLUSHALL"]);
    // At the very next call, whatever it is.
    let refused = me.get("creds", &["creds"]).await.unwrap_err();
    assert_eq!(refused.why(), CHANGED);
    let refused = me.commit(4, vec![put("creds", "creds", "new")], vec![]).await.unwrap_err();
    assert_eq!(refused.code, Code::Unavailable);
    let mut unary = Unary::of(&sidecar);
    for session in ["bot", "another"] {
        assert_eq!(Attach::open(sidecar.channel(), open(session, "me")).await.err().unwrap().why(), CHANGED);
        assert_eq!(unary.session(session).await.unwrap_err().why(), CHANGED);
        assert_eq!(unary.get(session, "creds", &["creds"]).await.unwrap_err().why(), CHANGED);
        let commit = unary::commit(session, "admin", 1, vec![put("creds", "creds", "new")]);
        assert_eq!(unary.commit(commit).await.unwrap_err().why(), CHANGED);
    }
    let list = v1::ListSessionsRequest::default();
    assert!(unary.client.list_sessions(list).await.is_err(), "an empty list would say that there are none");
    sidecar.wait_status(ServingStatus::NotServing, allowed(2 * SECOND)).await;
    assert_eq!(dump(&valkey, "*:{*"), []);
    // The data is put back: it goes on by itself.
    put_back(&valkey, &all);
    sidecar.wait_serving(allowed(5 * SECOND)).await;
    assert_eq!(Unary::of(&sidecar).value("bot", "creds", "creds").await, Some(b"3".to_vec()));
}

/// Redis without persistence, restarted: devlikeapro/waha#1020, evolution-api#2318.
#[tokio::test]
async fn a_valkey_that_comes_back_empty_is_not_taken_for_a_new_one() {
    let mut valkey = Valkey::start(ValkeyOptions::default().set("appendonly", "no"));
    let mut sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut me = bot(&sidecar).await;
    valkey.restart();
    let until = Instant::now() + allowed(5 * SECOND);
    loop {
        let refused = me.commit(4, vec![put("creds", "creds", "new")], vec![]).await.unwrap_err();
        assert_eq!(refused.code, Code::Unavailable);
        if refused.reason == "STORE_CHANGED" {
            break;
        }
        assert!(Instant::now() < until, "{refused:?}");
    }
    sidecar.wait_status(ServingStatus::NotServing, allowed(2 * SECOND)).await;
    assert_eq!(dump(&valkey, "*:{*"), []);
    sidecar.kill9();
    sidecar.spawn();
    assert_eq!(sidecar.wait_exit(allowed(5 * SECOND)).await.code(), Some(78), "nor at the next start");
}

/// openclaw#58480 and its kin: an old copy put back under a running bot breaks every chat; it is told first.
#[tokio::test]
async fn a_store_set_back_is_told_as_stale_to_who_has_seen_more() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut me = bot(&sidecar).await;
    let old = dump(&valkey, "pannier:test:{*");
    for n in 4..=6 {
        me.commit(n, vec![put("creds", "creds", n.to_string())], vec![]).await.unwrap();
    }
    let fence = me.opened.fence;
    put_back(&valkey, &old);
    let stale = (Code::FailedPrecondition, "STALE_STATE");
    let refused = me.commit(7, vec![put("creds", "creds", "7")], vec![]).await.unwrap_err();
    assert_eq!(refused.why(), stale);
    let other_writer = v1::Commit {
        writer_id: "other".into(),
        op_seq: 1,
        puts: vec![put("creds", "creds", "7")],
        ..Default::default()
    };
    assert_eq!(me.commit_as(other_writer).await.unwrap_err().why(), stale);
    // Even the number that the old copy waits for.
    let refused = me.commit(4, vec![put("creds", "creds", "again")], vec![]).await.unwrap_err();
    assert_eq!(refused.why(), stale);
    drop(me);
    let resume = Some(v1::Resume { fence, revision: 6 });
    let refused =
        Attach::open(sidecar.channel(), v1::Open { resume, ..open("bot", "me") }).await.err().unwrap();
    assert_eq!(refused.why(), stale);
    let min_revision = 6;
    let open_seen = v1::Open { min_revision, ..open("bot", "me") };
    assert_eq!(Attach::open(sidecar.channel(), open_seen).await.err().unwrap().why(), stale);
    // Who decides that the old copy is what there is, opens without a demand.
    let mut me = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    assert_eq!((me.opened.revision, me.opened.last_op_seq), (3, 3));
    assert_eq!(me.value("creds", "creds").await, Some(b"3".to_vec()));
    me.commit(4, vec![put("creds", "creds", "on")], vec![]).await.unwrap();
}

/// An Open that waits for another owner does not hold a stopping sidecar up.
#[tokio::test]
async fn a_waiting_open_ends_when_the_sidecar_stops() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let held = Attach::open(sidecar.channel(), open("bot", "first")).await.unwrap();
    let wait = v1::Open {
        on_held: v1::OnHeld::Wait.into(),
        wait_timeout: Some(prost_types::Duration { seconds: 300, nanos: 0 }),
        ..open("bot", "second")
    };
    let waiting = tokio::spawn(Attach::open(sidecar.channel(), wait));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begin = Instant::now();
    sidecar.sigterm();
    let refused = waiting.await.unwrap().err().unwrap();
    assert_eq!(refused.why(), (Code::Unavailable, "DRAINING"));
    assert!(refused.retry);
    drop(held);
    assert!(sidecar.wait_exit(allowed(5 * SECOND)).await.success());
    assert!(begin.elapsed() < allowed(SECOND), "{:?}", begin.elapsed());
}
