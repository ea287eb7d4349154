//! How a lease is lost, and how a broken stream goes on: a stale owner learns it, and stores nothing any more.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{
    self, OnHeld, attach_request::Op, attach_response::Event, delete_session_request::Mode,
    lease_lost::Reason,
};
use support::{
    Options, Sidecar,
    attach::{Attach, Refused, open, put},
    link::allowed,
    unary::Unary,
};
use tonic::Code;

const SECOND: Duration = Duration::from_secs(1);

fn take_over(session: &str, owner: &str) -> v1::Open {
    v1::Open { on_held: OnHeld::TakeOver.into(), ..open(session, owner) }
}

fn resume(session: &str, owner: &str, fence: u64, revision: u64) -> v1::Open {
    v1::Open { resume: Some(v1::Resume { fence, revision }), ..open(session, owner) }
}

async fn bot(sidecar: &Sidecar, owner: &str) -> Attach {
    let mut bot = Attach::open(sidecar.channel(), take_over("bot", owner)).await.unwrap();
    let op = bot.opened.last_op_seq + 1;
    bot.commit(op, vec![put("creds", "creds", owner)], vec![]).await.unwrap();
    bot
}

async fn refused(sidecar: &Sidecar, open: v1::Open) -> Refused {
    Attach::open(sidecar.channel(), open).await.err().expect("refused")
}

/// fazer-ai/baileys-api#315, #331, #332, openclaw#72621: one identity in two places is told, at once, which of them
/// has lost it.
#[tokio::test]
async fn an_idle_owner_is_told_at_once_that_it_was_taken_over() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut first = bot(&sidecar, "first").await;
    let begin = Instant::now();
    let second = Attach::open(sidecar.channel(), take_over("bot", "second")).await.unwrap();
    assert!(second.opened.fence > first.opened.fence);
    assert_eq!(first.lost().await, Reason::TakenOver);
    assert!(begin.elapsed() < 2 * SECOND, "by a hint, not at the next renewal: {:?}", begin.elapsed());
}

#[tokio::test]
async fn an_owner_whose_session_is_deleted_is_told_so_whatever_it_asks_next() {
    let sidecar = Sidecar::start(Options::default()).await;
    for mode in [Mode::Soft, Mode::Shred] {
        for asks in ["nothing", "get", "list", "commit", "clear"] {
            let mut me = bot(&sidecar, "me").await;
            let deleted = Unary::of(&sidecar).delete("bot", mode).await.unwrap();
            assert!(deleted.deleted);
            let op_seq = me.opened.last_op_seq + 2;
            let op = match asks {
                "get" => Some(Op::Get(v1::Get {
                    queries: vec![v1::Query { r#type: "creds".into(), ids: vec!["creds".into()] }],
                })),
                "list" => Some(Op::List(v1::List::default())),
                "commit" => Some(Op::Commit(v1::Commit {
                    op_seq,
                    puts: vec![put("creds", "creds", "late")],
                    ..Default::default()
                })),
                "clear" => Some(Op::Clear(v1::ClearSession { op_seq, ..Default::default() })),
                _ => None,
            };
            if let Some(op) = op {
                let seq = me.send(op).await;
                let refused = me.reply(seq).await.unwrap_err();
                assert_eq!(refused.why(), (Code::Aborted, "FENCED"), "{asks} {mode:?}");
            }
            assert_eq!(me.lost().await, Reason::Deleted, "{asks} {mode:?}");
            assert!(!Unary::of(&sidecar).session("bot").await.unwrap().exists, "{asks} {mode:?}");
        }
    }
}

#[tokio::test]
async fn a_broken_lease_ends_the_stream_and_leaves_the_session_free() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut me = bot(&sidecar, "me").await;
    let broken = Unary::of(&sidecar).break_lease("bot").await.unwrap();
    assert!(broken.broken && broken.fence > me.opened.fence);
    let late = me.commit(2, vec![put("creds", "creds", "late")], vec![]).await.unwrap_err();
    assert_eq!(late.why(), (Code::Aborted, "FENCED"));
    assert_eq!(me.lost().await, Reason::TakenOver);
    let again = Unary::of(&sidecar).break_lease("bot").await.unwrap();
    assert!(!again.broken, "nobody holds it now");
    let mut other = Attach::open(sidecar.channel(), open("bot", "other")).await.unwrap();
    assert_eq!(other.value("creds", "creds").await, Some(b"me".to_vec()));
    let refused = refused(&sidecar, resume("bot", "me", me.opened.fence, 1)).await;
    assert_eq!(refused.why(), (Code::Aborted, "FENCED"));
}

#[tokio::test]
async fn a_broken_stream_resumes_when_nobody_came_between() {
    let sidecar = Sidecar::start(Options::default()).await;
    let first = bot(&sidecar, "me").await;
    let (mut fence, incarnation) = (first.opened.fence, first.opened.incarnation);
    drop(first);
    for op_seq in 2..5 {
        let mut me = Attach::open(sidecar.channel(), resume("bot", "me", fence, op_seq - 1)).await.unwrap();
        assert!(me.opened.resumed && me.opened.fence > fence);
        assert_eq!((me.opened.incarnation, me.opened.last_op_seq), (incarnation, op_seq - 1));
        fence = me.opened.fence;
        me.commit(op_seq, vec![put("creds", "creds", "me")], vec![]).await.unwrap();
    }
    // The same owner's unbroken run of Opens: its first fence still counts.
    let plain = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    assert!(!plain.opened.resumed);
    let me = Attach::open(sidecar.channel(), resume("bot", "me", fence, 4)).await.unwrap();
    assert!(me.opened.resumed);
}

#[tokio::test]
async fn a_stream_does_not_resume_after_another_owner_even_if_that_one_has_gone() {
    let sidecar = Sidecar::start(Options::default()).await;
    let first = bot(&sidecar, "me").await;
    let fence = first.opened.fence;
    let other = bot(&sidecar, "other").await;
    let taken = refused(&sidecar, resume("bot", "me", fence, 1)).await;
    assert_eq!(taken.why(), (Code::Aborted, "FENCED"));
    // Nothing was taken by the attempt: the other one still writes.
    let mut other = { other };
    other.commit(2, vec![put("creds", "creds", "still")], vec![]).await.unwrap();
    other.close().await;
    let gone = refused(&sidecar, resume("bot", "me", fence, 1)).await;
    assert_eq!(gone.why(), (Code::Aborted, "FENCED"));
    // Not even when it is its own again: the run was broken.
    Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap().close().await;
    let broken = refused(&sidecar, resume("bot", "me", fence, 1)).await;
    assert_eq!(broken.why(), (Code::Aborted, "FENCED"));
}

#[tokio::test]
async fn a_stream_does_not_resume_into_a_deleted_or_newly_made_session() {
    let sidecar = Sidecar::start(Options::default()).await;
    for mode in [Mode::Soft, Mode::Shred] {
        let first = bot(&sidecar, "me").await;
        let fence = first.opened.fence;
        drop(first);
        Unary::of(&sidecar).delete("bot", mode).await.unwrap();
        let deleted = refused(&sidecar, resume("bot", "me", fence, 1)).await;
        assert_eq!(deleted.why(), (Code::Aborted, "FENCED"));
        assert!(!Unary::of(&sidecar).session("bot").await.unwrap().exists, "nothing was made");
        let made = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
        assert!(made.opened.created);
        let newly = refused(&sidecar, resume("bot", "me", fence, 1)).await;
        assert_eq!(newly.why(), (Code::Aborted, "FENCED"));
        drop(made);
    }
}

#[tokio::test]
async fn a_stream_resumes_over_its_own_clear() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut me = bot(&sidecar, "me").await;
    let (before, cleared) = (me.opened.fence, me.clear(2).await.unwrap());
    assert!(cleared.fence > before && cleared.incarnation == cleared.fence);
    assert_eq!((cleared.revision, cleared.replayed), (2, false));
    assert_eq!(me.value("creds", "creds").await, None);
    me.commit(3, vec![put("creds", "creds", "new")], vec![]).await.unwrap();
    drop(me);
    for fence in [before, cleared.fence] {
        let mut me = Attach::open(sidecar.channel(), resume("bot", "me", fence, 3)).await.unwrap();
        assert!(me.opened.resumed);
        // The Clear is sent again: it had happened, and takes nothing away a second time.
        let again = me.clear(2).await.unwrap();
        assert!(again.replayed);
        assert_eq!((again.incarnation, again.fence), (cleared.incarnation, me.opened.fence));
        assert_eq!(me.value("creds", "creds").await, Some(b"new".to_vec()));
    }
}

#[tokio::test]
async fn a_session_behind_what_was_acknowledged_is_stale_and_is_not_taken() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut me = bot(&sidecar, "me").await;
    me.commit(2, vec![put("creds", "creds", "2")], vec![]).await.unwrap();
    let fence = me.opened.fence;
    me.close().await;
    let stale = refused(&sidecar, v1::Open { min_revision: 3, ..open("bot", "me") }).await;
    assert_eq!(stale.why(), (Code::FailedPrecondition, "STALE_STATE"));
    assert!(!Unary::of(&sidecar).info("bot").await.lease.is_some_and(|lease| lease.live));
    drop(Attach::open(sidecar.channel(), v1::Open { min_revision: 2, ..open("bot", "me") }).await.unwrap());
    let stale = refused(&sidecar, resume("bot", "me", fence + 1, 3)).await;
    assert!(matches!(stale.reason.as_str(), "STALE_STATE" | "FENCED"), "{stale:?}");
    // A session that was never seen cannot have a revision.
    let none = refused(&sidecar, v1::Open { min_revision: 1, ..open("other", "me") }).await;
    assert_eq!(none.why(), (Code::FailedPrecondition, "STALE_STATE"));
    assert!(!Unary::of(&sidecar).session("other").await.unwrap().exists);
}

#[tokio::test]
async fn a_session_that_must_exist_is_not_made() {
    let sidecar = Sidecar::start(Options::default()).await;
    let open = v1::Open { must_exist: true, ..open("bot", "me") };
    let refused = refused(&sidecar, open.clone()).await;
    assert_eq!(refused.why(), (Code::NotFound, "SESSION_NOT_FOUND"));
    assert!(!Unary::of(&sidecar).session("bot").await.unwrap().exists);
    drop(bot(&sidecar, "me").await);
    assert!(!Attach::open(sidecar.channel(), open).await.unwrap().opened.created);
}

/// The end of a pod: what was asked is answered, the lease stays its owner's, and the next sidecar goes on with it.
#[tokio::test]
async fn a_stopping_sidecar_says_so_and_its_streams_resume_at_the_next() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let mut me = bot(&sidecar, "me").await;
    let mut sent = Vec::new();
    for op_seq in 2..40 {
        let puts = vec![put("session", "1.0", vec![1; 2000])];
        sent.push(me.send(Op::Commit(v1::Commit { op_seq, puts, ..Default::default() })).await);
    }
    sidecar.sigterm();
    me.push(|event| matches!(event, Event::Draining(_))).await;
    let mut acknowledged = 1;
    for seq in sent {
        match me.committed(seq).await {
            Ok(committed) => {
                acknowledged += 1;
                assert_eq!(committed.revision, acknowledged, "no answer is left out between others");
            }
            Err(refused) => {
                assert!(matches!(refused.reason.as_str(), "DRAINING" | "UNANSWERED"), "{refused:?}");
            }
        }
    }
    me.end().await.expect("an end in peace");
    assert!(sidecar.wait_exit(allowed(10 * SECOND)).await.success());
    sidecar.spawn();
    sidecar.wait_serving(30 * SECOND).await;
    let held = refused(&sidecar, open("bot", "other")).await;
    assert_eq!(held.reason, "SESSION_HELD", "the lease stayed its owner's");
    let resume = resume("bot", "me", me.opened.fence, acknowledged);
    let again = Attach::open(sidecar.channel(), resume).await.unwrap();
    assert!(again.opened.resumed);
    assert_eq!(again.opened.last_op_seq, acknowledged, "all that was written had been acknowledged");
}
