//! Any number of sidecars on one Valkey agree on who owns a session.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{
    self, OnHeld, attach_request::Op, attach_response::Event, delete_session_request::Mode,
    lease_lost::Reason,
};
use rustix::process::Signal;
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
    link::allowed,
    unary::{self, Unary},
};
use tonic::Code;

const SECOND: Duration = Duration::from_secs(1);

struct Pair {
    valkey: Valkey,
    one: Sidecar,
    two: Sidecar,
}

async fn pair() -> Pair {
    let valkey = Valkey::start(ValkeyOptions::default());
    let one = Sidecar::start(Options::with(&valkey)).await;
    let two = Sidecar::start(Options {
        dir: Some(one.dir.clone()),
        socket_name: Some("two.sock".into()),
        ..Options::with(&valkey)
    })
    .await;
    Pair { valkey, one, two }
}

fn take_over(owner: &str) -> v1::Open {
    v1::Open { on_held: OnHeld::TakeOver.into(), ..open("bot", owner) }
}

fn short(owner: &str) -> v1::Open {
    v1::Open { lease_ttl: Some(prost_types::Duration { seconds: 3, nanos: 0 }), ..open("bot", owner) }
}

/// Stops the process, and waits until no thread of it runs any more.
fn freeze(sidecar: &Sidecar) {
    sidecar.signal(Signal::STOP);
    let runs = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
        !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    };
    while std::fs::read_dir(format!("/proc/{}/task", sidecar.pid())).unwrap().any(runs) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

async fn first(pair: &Pair) -> Attach {
    let mut first = Attach::open(pair.one.channel(), open("bot", "first")).await.unwrap();
    first.commit(1, vec![put("creds", "creds", "first")], vec![]).await.unwrap();
    first
}

/// fazer-ai/baileys-api#315, openclaw#72621, #119584 (cases 23 and 33).
#[tokio::test]
async fn a_take_over_through_another_sidecar_is_told_at_once_and_fences_the_first_owner() {
    let pair = pair().await;
    let mut first = first(&pair).await;
    let held = Attach::open(pair.two.channel(), open("bot", "second")).await.err().unwrap();
    assert_eq!(held.why(), (Code::FailedPrecondition, "SESSION_HELD"));
    assert_eq!(held.metadata["owner"], "first");
    let begin = Instant::now();
    let mut second = Attach::open(pair.two.channel(), take_over("second")).await.unwrap();
    assert!(second.opened.fence > first.opened.fence);
    assert_eq!(first.lost().await, Reason::TakenOver);
    assert!(begin.elapsed() < 2 * SECOND, "by a hint: {:?}", begin.elapsed());
    let stale = v1::CommitRecordsRequest {
        fence: first.opened.fence,
        ..unary::commit("bot", "first", 2, vec![put("creds", "creds", "late")])
    };
    let refused = Unary::of(&pair.one).commit(stale).await.unwrap_err();
    assert_eq!(refused.why(), (Code::Aborted, "FENCED"));
    assert_eq!(second.value("creds", "creds").await, Some(b"first".to_vec()));
    second.commit(1, vec![put("creds", "creds", "second")], vec![]).await.unwrap();
    // Back and forth, each time under a higher fence.
    let mut fence = second.opened.fence;
    for n in 0..6 {
        let (sidecar, owner) = if n % 2 == 0 { (&pair.one, "first") } else { (&pair.two, "second") };
        let taken = Attach::open(sidecar.channel(), take_over(owner)).await.unwrap();
        assert!(taken.opened.fence > fence);
        fence = taken.opened.fence;
    }
}

/// Hints are only hints: without them the first owner finds out at its next renewal, and can write nothing before.
#[tokio::test]
async fn a_take_over_that_nobody_hints_at_is_noticed_at_the_next_renewal() {
    let pair = pair().await;
    let mut first = Attach::open(pair.one.channel(), short("first")).await.unwrap();
    first.commit(1, vec![put("creds", "creds", "first")], vec![]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let heads: Vec<String> = pair.valkey.command(&["KEYS", "pannier:test:{*}:h"]);
    let _: i64 = pair.valkey.command(&["HINCRBY", &heads[0], "f", "1"]);
    let begin = Instant::now();
    assert_eq!(first.lost().await, Reason::TakenOver);
    assert!(begin.elapsed() < allowed(SECOND), "a third of 3 s: {:?}", begin.elapsed());
    assert_eq!(Unary::of(&pair.one).value("bot", "creds", "creds").await, Some(b"first".to_vec()));
}

/// The first sidecar is frozen, its session is taken over and written, it wakes up: nothing it still had in hand is written.
#[tokio::test]
async fn a_sidecar_that_wakes_up_after_a_take_over_writes_nothing() {
    let pair = pair().await;
    let mut first = first(&pair).await;
    for round in 0..4 {
        freeze(&pair.one);
        let mut late = Vec::new();
        for op_seq in 2..20 {
            let puts = vec![put("creds", "creds", "late")];
            late.push(first.send(Op::Commit(v1::Commit { op_seq, puts, ..Default::default() })).await);
        }
        let mut second = Attach::open(pair.two.channel(), take_over("second")).await.unwrap();
        let op_seq = second.opened.last_op_seq + 1;
        second.commit(op_seq, vec![put("creds", "creds", round.to_string())], vec![]).await.unwrap();
        pair.one.signal(Signal::CONT);
        for seq in late {
            assert_eq!(first.committed(seq).await.unwrap_err().code, Code::Aborted);
        }
        assert_eq!(first.lost().await, Reason::TakenOver);
        assert_eq!(second.value("creds", "creds").await, Some(round.to_string().into_bytes()));
        first = Attach::open(pair.one.channel(), take_over("first")).await.unwrap();
        assert_eq!(first.opened.last_op_seq, 1);
    }
}

/// A Clear that had happened is answered again, but does not hand its sender the fence of whoever has come since.
#[tokio::test]
async fn a_clear_sent_again_after_a_take_over_does_not_bring_the_lease_back() {
    let pair = pair().await;
    let mut first = first(&pair).await;
    let cleared = first.clear(2).await.unwrap();
    first.commit(3, vec![put("creds", "creds", "anew")], vec![]).await.unwrap();
    // Frozen, and deaf to the hint that is sent meanwhile.
    freeze(&pair.one);
    let _: i64 = pair.valkey.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let again = first.send(Op::Clear(v1::ClearSession { op_seq: 2, ..Default::default() })).await;
    let puts = vec![put("creds", "creds", "late")];
    let late = first.send(Op::Commit(v1::Commit { op_seq: 4, puts, ..Default::default() })).await;
    let mut second = Attach::open(pair.two.channel(), take_over("second")).await.unwrap();
    pair.one.signal(Signal::CONT);
    let Event::Cleared(again) = first.reply(again).await.unwrap() else { panic!("not cleared") };
    assert!(again.replayed && again.incarnation == cleared.incarnation);
    assert_ne!(again.fence, second.opened.fence);
    assert_eq!(first.committed(late).await.unwrap_err().why(), (Code::Aborted, "FENCED"));
    assert_eq!(first.lost().await, Reason::TakenOver);
    assert_eq!(second.value("creds", "creds").await, Some(b"anew".to_vec()));
    second.commit(1, vec![put("creds", "creds", "second")], vec![]).await.unwrap();
}

#[tokio::test]
async fn a_stream_resumes_through_another_sidecar() {
    let mut pair = pair().await;
    let first = first(&pair).await;
    let resume = v1::Resume { fence: first.opened.fence, revision: 1 };
    pair.one.kill9();
    drop(first);
    let mut resumed =
        Attach::open(pair.two.channel(), v1::Open { resume: Some(resume), ..open("bot", "first") })
            .await
            .unwrap();
    assert!(resumed.opened.resumed);
    assert!(resumed.commit(1, vec![put("creds", "creds", "again")], vec![]).await.unwrap().replayed);
    assert_eq!(resumed.commit(2, vec![put("creds", "creds", "on")], vec![]).await.unwrap().revision, 2);
}

/// The logout path of one process, the late writes of another (cases 25 and 29).
#[tokio::test]
async fn a_session_deleted_through_one_sidecar_is_not_revived_through_the_other() {
    let pair = pair().await;
    for mode in [Mode::Soft, Mode::Shred] {
        let mut first = Attach::open(pair.one.channel(), take_over("first")).await.unwrap();
        let op_seq = first.opened.last_op_seq + 1;
        first.commit(op_seq, vec![put("creds", "creds", "x")], vec![]).await.unwrap();
        assert!(Unary::of(&pair.two).delete("bot", mode).await.unwrap().deleted);
        let late =
            first.commit(op_seq + 1, vec![put("tctoken", "__index", "late")], vec![]).await.unwrap_err();
        assert_eq!(late.why(), (Code::Aborted, "FENCED"));
        assert_eq!(first.lost().await, Reason::Deleted);
        for sidecar in [&pair.one, &pair.two] {
            assert!(!Unary::of(sidecar).session("bot").await.unwrap().exists);
        }
        // A key cached from the life before does not get in the way of the next.
        let mut next = Attach::open(pair.two.channel(), open("bot", "second")).await.unwrap();
        assert!(next.opened.created);
        next.commit(next.opened.last_op_seq + 1, vec![put("creds", "creds", "next")], vec![]).await.unwrap();
        assert_eq!(Unary::of(&pair.one).value("bot", "creds", "creds").await, Some(b"next".to_vec()));
        next.close().await;
    }
}

#[tokio::test]
async fn one_of_many_that_open_at_once_gets_the_session() {
    let pair = pair().await;
    for round in 0..10 {
        let session = format!("bot-{round}");
        let mut tasks = Vec::new();
        for n in 0..8 {
            let channel = if n % 2 == 0 { pair.one.channel() } else { pair.two.channel() };
            let open = open(&session, &format!("owner-{n}"));
            tasks.push(tokio::spawn(Attach::open(channel, open)));
        }
        let mut won = Vec::new();
        for task in tasks {
            match task.await.unwrap() {
                Ok(bot) => won.push(bot),
                Err(refused) => assert_eq!(refused.why(), (Code::FailedPrecondition, "SESSION_HELD")),
            }
        }
        assert_eq!(won.len(), 1);
        assert!(won[0].opened.created);
        won[0].commit(1, vec![put("creds", "creds", "x")], vec![]).await.unwrap();
    }
}
