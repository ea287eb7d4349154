//! Deleting, restoring, and the fence that keeps late writers away from what is gone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use pannier::proto::v1::{self, OnHeld, delete_session_request::Mode};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
    unary::{self, Unary, answer},
};
use tonic::Code;

/// A new life of the session, with one record; gives its incarnation.
async fn live(sidecar: &Sidecar, value: &str) -> u64 {
    let take = v1::Open { on_held: OnHeld::TakeOver.into(), ..open("bot", "me") };
    let mut bot = Attach::open(sidecar.channel(), take).await.unwrap();
    let op_seq = bot.opened.last_op_seq + 1;
    bot.commit(op_seq, vec![put("creds", "creds", value), put("foo-bar", "1", value)], vec![]).await.unwrap();
    let incarnation = bot.opened.incarnation;
    bot.close().await;
    incarnation
}

fn keys(valkey: &Valkey, pattern: &str) -> Vec<String> {
    valkey.command::<Vec<String>>(&["KEYS", pattern])
}

/// openclaw PR#92617: what a clean-up path deletes can be brought back.
#[tokio::test]
async fn a_deleted_session_can_be_restored_whole() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut admin = Unary::of(&sidecar);
    let incarnation = live(&sidecar, "first").await;
    let deleted = admin.delete("bot", Mode::Soft).await.unwrap();
    assert!(deleted.deleted && !deleted.oldest_archive_dropped);
    let archive = deleted.archive.unwrap();
    assert_eq!((archive.incarnation, archive.revision), (incarnation, 1));
    let kept = archive.purge_at.unwrap().seconds - archive.deleted_at.unwrap().seconds;
    assert_eq!(kept, 7 * 24 * 3600);
    let counts: Vec<_> = archive.counts.iter().map(|one| (one.r#type.as_str(), one.records)).collect();
    assert_eq!(counts, [("creds", 1), ("foo-bar", 1)]);

    let gone = admin.session("bot").await.unwrap();
    assert!(!gone.exists && gone.archives.len() == 1);
    let missing = admin.get("bot", "creds", &["creds"]).await.unwrap_err();
    assert_eq!(missing.why(), (Code::NotFound, "SESSION_NOT_FOUND"));
    assert!(!admin.delete("bot", Mode::Soft).await.unwrap().deleted, "a second time there is nothing");

    let restored = admin.restore("bot", 0, false).await.unwrap().session.unwrap();
    assert_eq!(restored.incarnation, incarnation);
    assert!(restored.fence > incarnation && restored.revision > 1);
    assert_eq!(admin.value("bot", "creds", "creds").await, Some(b"first".to_vec()));
    assert_eq!(admin.walk("bot", "", 10).await.len(), 2);
    let after = admin.session("bot").await.unwrap();
    assert!(after.exists && after.archives.is_empty());
    let again = admin.restore("bot", 0, true).await.unwrap_err();
    assert_eq!(again.why(), (Code::NotFound, "ARCHIVE_NOT_FOUND"));
    // Sent again with the incarnation it named, it is a no-op.
    assert_eq!(admin.restore("bot", incarnation, true).await.unwrap().session.unwrap().fence, restored.fence);
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    assert_eq!(bot.opened.last_op_seq, 1);
    bot.commit(2, vec![put("creds", "creds", "on")], vec![]).await.unwrap();
}

#[tokio::test]
async fn a_live_session_is_only_replaced_by_an_archive_when_that_is_asked_for() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut admin = Unary::of(&sidecar);
    let first = live(&sidecar, "first").await;
    admin.delete("bot", Mode::Soft).await.unwrap();
    let second = live(&sidecar, "second").await;
    assert_ne!(first, second);
    let refused = admin.restore("bot", first, false).await.unwrap_err();
    assert_eq!(refused.why(), (Code::FailedPrecondition, "WRONG_STATE"));
    assert_eq!(admin.value("bot", "creds", "creds").await, Some(b"second".to_vec()));
    let mut holder = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    admin.restore("bot", first, true).await.unwrap();
    assert_eq!(admin.value("bot", "creds", "creds").await, Some(b"first".to_vec()));
    // The holder had the other life: nothing it still sends reaches this one.
    let late = holder.commit(3, vec![put("creds", "creds", "late")], vec![]).await.unwrap_err();
    assert_eq!(late.why(), (Code::Aborted, "FENCED"));
    assert_eq!(admin.value("bot", "creds", "creds").await, Some(b"first".to_vec()));
    let archives = admin.session("bot").await.unwrap().archives;
    assert_eq!(archives.iter().map(|one| one.incarnation).collect::<Vec<_>>(), [second]);
}

#[tokio::test]
async fn a_fourth_archive_drops_the_oldest_and_says_so() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut admin = Unary::of(&sidecar);
    let mut lives = Vec::new();
    for n in 0..5 {
        lives.push(live(&sidecar, &n.to_string()).await);
        let deleted = admin.delete("bot", Mode::Soft).await.unwrap();
        assert_eq!(deleted.oldest_archive_dropped, n >= 3, "deletion {n}");
    }
    let archives = admin.session("bot").await.unwrap().archives;
    let kept: Vec<_> = archives.iter().map(|one| one.incarnation).collect();
    assert_eq!(kept, [lives[4], lives[3], lives[2]], "newest first");
    assert_eq!(keys(&valkey, "pannier:test:{*}:r:*").len(), 3);
    let gone = admin.restore("bot", lives[0], false).await.unwrap_err();
    assert_eq!(gone.reason, "ARCHIVE_NOT_FOUND");
    // A Clear makes an archive too.
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let op_seq = bot.opened.last_op_seq + 1;
    assert!(bot.clear(op_seq).await.unwrap().oldest_archive_dropped);
    bot.close().await;
    // The live one and three archives: bringing one back leaves three.
    let restored = admin.restore("bot", lives[3], true).await.unwrap();
    assert!(!restored.oldest_archive_dropped);
    assert_eq!(admin.value("bot", "creds", "creds").await, Some(b"3".to_vec()));
    assert_eq!(admin.session("bot").await.unwrap().archives.len(), 3);
}

#[tokio::test]
async fn shredding_leaves_nothing_behind() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut admin = Unary::of(&sidecar);
    for value in ["a", "b"] {
        live(&sidecar, value).await;
        admin.delete("bot", Mode::Soft).await.unwrap();
    }
    let archived = admin.session("bot").await.unwrap().archives[1].incarnation;
    let last = live(&sidecar, "c").await;
    let shred = |incarnation| v1::DeleteSessionRequest {
        session: "bot".into(),
        mode: Mode::Shred.into(),
        incarnation,
        ..Default::default()
    };
    assert!(!answer(admin.client.delete_session(shred(12345)).await).unwrap().deleted);
    assert!(answer(admin.client.delete_session(shred(archived)).await).unwrap().deleted);
    assert_eq!(admin.session("bot").await.unwrap().archives.len(), 1);
    assert_eq!(admin.value("bot", "creds", "creds").await, Some(b"c".to_vec()));
    assert!(answer(admin.client.delete_session(shred(last)).await).unwrap().deleted);
    assert!(!admin.session("bot").await.unwrap().exists);
    assert!(answer(admin.client.delete_session(shred(0)).await).unwrap().deleted);
    assert!(!answer(admin.client.delete_session(shred(0)).await).unwrap().deleted);
    assert_eq!(keys(&valkey, "pannier:test:{*}*"), Vec::<String>::new());
    let listed: usize = keys(&valkey, "pannier:test:idx:session:*")
        .iter()
        .map(|key| valkey.command::<usize>(&["ZCARD", key]) - 1)
        .sum();
    assert_eq!(listed, 0, "in no index either");
    assert!(admin.restore("bot", archived, false).await.is_err());
    let answer = admin.session("bot").await.unwrap();
    assert!(!answer.exists && answer.archives.is_empty());
}

/// fazer-ai/baileys-api#366: deleting works without a lease, on a session that is not there, and again.
#[tokio::test]
async fn deleting_what_is_not_there_is_no_error() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut admin = Unary::of(&sidecar);
    for mode in [Mode::Unspecified, Mode::Soft, Mode::Shred] {
        assert!(!admin.delete("never was", mode).await.unwrap().deleted);
    }
    live(&sidecar, "x").await;
    let other_life = v1::DeleteSessionRequest { session: "bot".into(), incarnation: 5, ..Default::default() };
    assert!(!answer(admin.client.delete_session(other_life).await).unwrap().deleted);
    assert!(admin.session("bot").await.unwrap().exists);
    let missing = admin.break_lease("never was").await.unwrap_err();
    assert_eq!(missing.why(), (Code::NotFound, "SESSION_NOT_FOUND"));
    let missing = admin.restore("never was", 0, false).await.unwrap_err();
    assert_eq!(missing.why(), (Code::NotFound, "ARCHIVE_NOT_FOUND"));
}

/// `creds.update` listeners and the tctoken flush outlive a logout: what they write late stays unwritten.
#[tokio::test]
async fn what_is_written_after_a_logout_does_not_bring_the_session_back() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut admin = Unary::of(&sidecar);
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let (fence, incarnation) = (bot.opened.fence, bot.opened.incarnation);
    bot.commit(1, vec![put("creds", "creds", "old")], vec![]).await.unwrap();
    // The holder clears: its own late writes still name the life they meant.
    bot.clear(2).await.unwrap();
    let late = v1::Commit {
        op_seq: 3,
        incarnation,
        puts: vec![put("creds", "creds", "late")],
        ..Default::default()
    };
    assert_eq!(bot.commit_as(late).await.unwrap_err().why(), (Code::Aborted, "FENCED"));
    assert_eq!(bot.value("creds", "creds").await, None);
    assert_eq!(bot.commit(3, vec![put("creds", "creds", "new")], vec![]).await.unwrap().revision, 3);
    // fazer-ai/baileys-api#330: a clean-up by one who is not the owner any more is refused.
    for mode in [Mode::Soft, Mode::Shred] {
        let stale = v1::DeleteSessionRequest {
            session: "bot".into(),
            mode: mode.into(),
            incarnation: if mode == Mode::Soft { incarnation } else { incarnation + 1 },
            ..Default::default()
        };
        assert!(!answer(admin.client.delete_session(stale).await).unwrap().deleted);
    }
    assert_eq!(bot.value("creds", "creds").await, Some(b"new".to_vec()));
    admin.delete("bot", Mode::Soft).await.unwrap();
    let late = v1::CommitRecordsRequest {
        fence,
        ..unary::commit("bot", "me", 4, vec![put("creds", "creds", "late")])
    };
    assert!(admin.commit(late).await.is_err());
    assert!(!admin.session("bot").await.unwrap().exists);
}

/// A client that says the same twice (its answer was lost) clears once.
#[tokio::test]
async fn a_clear_counts_like_a_commit() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "x")], vec![]).await.unwrap();
    assert_eq!(bot.clear(3).await.unwrap_err().why(), (Code::Aborted, "OUT_OF_ORDER"));
    let cleared = bot.clear(2).await.unwrap();
    bot.commit(3, vec![put("creds", "creds", "y")], vec![]).await.unwrap();
    let again = bot.clear(2).await.unwrap();
    assert!(again.replayed && again.incarnation == cleared.incarnation && again.revision == 3);
    assert_eq!(bot.value("creds", "creds").await, Some(b"y".to_vec()));
    assert_eq!(Unary::of(&sidecar).session("bot").await.unwrap().archives.len(), 1);
}
