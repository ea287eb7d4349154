//! The stream is the lease: who gets it, how it is kept, how it ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{
    self, OnHeld, attach_response::Event, delete_session_request::Mode, lease_lost::Reason,
};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
    link::allowed,
    unary::Unary,
};
use tonic::Code;

const SECOND: Duration = Duration::from_secs(1);

fn span(duration: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(duration).ok()
}

/// An Open with the shortest lease there is.
fn short(session: &str, owner: &str) -> v1::Open {
    v1::Open { lease_ttl: span(3 * SECOND), ..open(session, owner) }
}

fn wait(session: &str, owner: &str, timeout: Duration) -> v1::Open {
    v1::Open { on_held: OnHeld::Wait.into(), wait_timeout: span(timeout), ..short(session, owner) }
}

fn take_over(session: &str, owner: &str) -> v1::Open {
    v1::Open { on_held: OnHeld::TakeOver.into(), ..open(session, owner) }
}

/// fazer-ai/baileys-api#312, openclaw#119584 (cases 24 and 33): a second login is refused, not let in beside the first.
#[tokio::test]
async fn a_held_session_is_refused_with_its_owner_and_the_end_of_the_lease() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut first = Attach::open(sidecar.channel(), open("bot", "first")).await.unwrap();
    let before = jiff::Timestamp::now();
    for on_held in [OnHeld::Unspecified, OnHeld::Fail] {
        let again = v1::Open { on_held: on_held.into(), ..open("bot", "second") };
        let held = Attach::open(sidecar.channel(), again).await.err().unwrap();
        assert_eq!(held.why(), (Code::FailedPrecondition, "SESSION_HELD"));
        assert_eq!(held.metadata["owner"], "first");
        let until: jiff::Timestamp = held.metadata["until"].parse().unwrap();
        let left = until.duration_since(before);
        assert!((25..=31).contains(&left.as_secs()), "30 s of lease: {left:?}");
        assert!(held.retry);
    }
    // Nothing of the first one's was touched.
    assert_eq!(first.commit(1, vec![put("creds", "creds", "x")], vec![]).await.unwrap().revision, 1);
    first.close().await;
    Attach::open(sidecar.channel(), open("bot", "second")).await.unwrap().close().await;
}

#[tokio::test]
async fn who_waits_gets_the_session_as_soon_as_it_is_released() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut best = Duration::MAX;
    for round in 0..4 {
        let session = format!("bot-{round}");
        let first = Attach::open(sidecar.channel(), open(&session, "first")).await.unwrap();
        let waiting = tokio::spawn({
            let channel = sidecar.channel();
            async move {
                let taken = Attach::open(channel, wait(&session, "second", 20 * SECOND)).await.unwrap();
                (Instant::now(), taken)
            }
        });
        // Just after a poll: without a hint the next one comes half a second later.
        tokio::time::sleep(Duration::from_millis(560)).await;
        let released = Instant::now();
        first.close().await;
        let (at, mut second) = waiting.await.unwrap();
        best = best.min(at.saturating_duration_since(released));
        second.commit(1, vec![put("creds", "creds", "x")], vec![]).await.unwrap();
    }
    assert!(best < Duration::from_millis(250), "{best:?}");
}

#[tokio::test]
async fn who_waits_gets_an_abandoned_session_when_its_lease_has_run_out_and_not_before() {
    let sidecar = Sidecar::start(Options::default()).await;
    let first = Attach::open(sidecar.channel(), short("bot", "first")).await.unwrap();
    let begin = Instant::now();
    drop(first);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let held = Attach::open(sidecar.channel(), open("bot", "other")).await.err().unwrap();
    assert_eq!(held.why(), (Code::FailedPrecondition, "SESSION_HELD"));
    assert!(Unary::of(&sidecar).info("bot").await.lease.unwrap().live);
    let second = Attach::open(sidecar.channel(), wait("bot", "second", 20 * SECOND)).await.unwrap();
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(2500) && took < allowed(3 * SECOND), "{took:?}");
    assert!(second.opened.fence > 0);
}

#[tokio::test]
async fn waiting_ends_in_time_with_session_held() {
    let sidecar = Sidecar::start(Options::default()).await;
    let _first = Attach::open(sidecar.channel(), open("bot", "first")).await.unwrap();
    let begin = Instant::now();
    let waiting = wait("bot", "second", Duration::from_millis(700));
    let held = Attach::open(sidecar.channel(), waiting).await.err().unwrap();
    assert_eq!(held.why(), (Code::FailedPrecondition, "SESSION_HELD"));
    assert_eq!(held.metadata["owner"], "first");
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(700) && took < allowed(Duration::from_millis(700)), "{took:?}");
}

/// One that gives up waiting must not get the lease behind its back.
#[tokio::test]
async fn who_gives_up_waiting_does_not_get_the_session_later() {
    let sidecar = Sidecar::start(Options::default()).await;
    let first = Attach::open(sidecar.channel(), open("bot", "first")).await.unwrap();
    let waiting = Attach::open(sidecar.channel(), wait("bot", "second", 20 * SECOND));
    assert!(tokio::time::timeout(Duration::from_millis(300), waiting).await.is_err());
    first.close().await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    Attach::open(sidecar.channel(), open("bot", "third")).await.unwrap();
}

#[tokio::test]
async fn the_same_owner_gets_its_session_at_once_under_a_new_fence() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut old = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    old.commit(1, vec![put("creds", "creds", "x")], vec![]).await.unwrap();
    let mut new = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    assert!(new.opened.fence > old.opened.fence);
    assert_eq!(new.opened.incarnation, old.opened.incarnation);
    assert_eq!((new.opened.last_op_seq, new.opened.resumed), (1, false));
    let refused = old.commit(2, vec![put("creds", "creds", "late")], vec![]).await.unwrap_err();
    assert_eq!(refused.why(), (Code::Aborted, "FENCED"));
    assert_eq!(old.lost().await, Reason::TakenOver);
    assert_eq!(new.value("creds", "creds").await, Some(b"x".to_vec()));
    assert_eq!(new.commit(2, vec![put("creds", "creds", "y")], vec![]).await.unwrap().revision, 2);
}

#[tokio::test]
async fn a_fence_is_never_given_twice_whatever_happens_to_the_session() {
    let mut valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "always"));
    let mut sidecar = Sidecar::start(Options::with(&valkey)).await;
    let (mut fences, mut incarnations) = (Vec::new(), Vec::new());
    let mut note = |opened: &v1::Opened| {
        assert!(fences.last().is_none_or(|last| *last < opened.fence), "{fences:?} then {}", opened.fence);
        fences.push(opened.fence);
        if incarnations.last() != Some(&opened.incarnation) {
            assert!(!incarnations.contains(&opened.incarnation), "{incarnations:?}");
            incarnations.push(opened.incarnation);
        }
    };
    for round in 0..12 {
        let mut bot = Attach::open(sidecar.channel(), take_over("bot", "me")).await.unwrap();
        note(&bot.opened);
        let mut unary = Unary::of(&sidecar);
        match round % 6 {
            0 => bot.close().await,
            1 => {
                let op = bot.opened.last_op_seq + 1;
                let cleared = bot.clear(op).await.unwrap();
                note(&v1::Opened {
                    fence: cleared.fence,
                    incarnation: cleared.incarnation,
                    ..Default::default()
                });
            }
            2 => assert!(unary.delete("bot", Mode::Soft).await.unwrap().deleted),
            3 => assert!(unary.delete("bot", Mode::Shred).await.unwrap().deleted),
            4 => sidecar.restart().await,
            _ => {
                valkey.restart();
                sidecar.wait_serving(allowed(5 * SECOND)).await;
            }
        }
    }
    assert_eq!(fences.len(), 14);
    assert!(incarnations.len() >= 5, "{incarnations:?}");
}

#[tokio::test]
async fn a_lease_is_renewed_at_a_third_of_it_and_outlives_its_ttl() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), short("bot", "me")).await.unwrap();
    bot.push(|event| matches!(event, Event::Renewed(_))).await;
    let begin = Instant::now();
    for _ in 0..4 {
        let Event::Renewed(renewed) = bot.push(|event| matches!(event, Event::Renewed(_))).await else {
            unreachable!()
        };
        let left: Duration = renewed.lease_left.unwrap().try_into().unwrap();
        assert!(left > 2 * SECOND && left <= 3 * SECOND, "{left:?}");
    }
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(3300) && took < allowed(4 * SECOND), "{took:?}");
    let held = Attach::open(sidecar.channel(), open("bot", "other")).await.err().unwrap();
    assert_eq!(held.reason, "SESSION_HELD");
}

#[tokio::test]
async fn a_lapsed_lease_goes_on_when_nobody_has_taken_it() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), short("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "1")], vec![]).await.unwrap();
    valkey.sigstop();
    tokio::time::sleep(5 * SECOND).await;
    valkey.sigcont();
    // It may take a reconnection; then the same stream goes on under the same fence.
    let until = Instant::now() + allowed(5 * SECOND);
    let committed = loop {
        match bot.commit(2, vec![put("creds", "creds", "2")], vec![]).await {
            Ok(committed) => break committed,
            Err(refused) => {
                assert!(refused.code == Code::Unavailable && Instant::now() < until, "{refused:?}");
            }
        }
    };
    assert_eq!(committed.revision, 2);
    let lease = Unary::of(&sidecar).info("bot").await.lease.unwrap();
    assert!(lease.live && lease.fence == bot.opened.fence);
}
