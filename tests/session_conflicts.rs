//! Conditions, attributes, and writes by others: nobody's update is lost without being told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeSet;

use pannier::proto::v1::{self, attach_request::Op, attach_response::Event};
use support::{
    Options, Sidecar,
    attach::{Attach, delete, open, put},
    unary::{self, Unary},
};
use tonic::Code;

fn put_if(ty: &str, id: &str, value: &str, revision: u64) -> v1::Put {
    v1::Put { if_revision: Some(revision), ..put(ty, id, value) }
}

/// WhiskeySockets/Baileys#2811: two that read the same record and both write it; the second learns it.
#[tokio::test]
async fn the_second_of_two_writers_that_read_the_same_record_is_refused() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("session", "x", "v1")], vec![]).await.unwrap();
    let read = bot.get("session", &["x"]).await.unwrap()[0].revision;
    bot.commit(2, vec![put_if("session", "x", "mine", read)], vec![]).await.unwrap();
    let refused = bot
        .commit(3, vec![put("session", "y", "beside"), put_if("session", "x", "yours", read)], vec![])
        .await
        .unwrap_err();
    assert_eq!(refused.why(), (Code::Aborted, "REVISION_CONFLICT"));
    assert_eq!(bot.value("session", "x").await, Some(b"mine".to_vec()));
    assert_eq!(bot.value("session", "y").await, None, "nothing of it is written");
    assert_eq!(bot.commit(3, vec![put("session", "y", "again")], vec![]).await.unwrap().revision, 3);
}

#[tokio::test]
async fn conditions_hold_on_absence_and_on_the_whole_session() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put_if("session", "x", "new", 0)], vec![]).await.unwrap();
    let exists = bot.commit(2, vec![put_if("session", "x", "newer", 0)], vec![]).await.unwrap_err();
    assert_eq!(exists.reason, "REVISION_CONFLICT");
    let absent = bot.commit(2, vec![put_if("session", "z", "x", 1)], vec![]).await.unwrap_err();
    assert_eq!(absent.reason, "REVISION_CONFLICT");
    let whole = |op_seq, expected| v1::Commit {
        op_seq,
        expected_revision: Some(expected),
        puts: vec![put("session", "x", "whole")],
        ..Default::default()
    };
    for wrong in [0, 2, u64::MAX] {
        let refused = bot.commit_as(whole(2, wrong)).await.unwrap_err();
        assert_eq!(
            (refused.reason.as_str(), refused.metadata["revision"].as_str()),
            ("REVISION_CONFLICT", "1")
        );
    }
    assert_eq!(bot.commit_as(whole(2, 1)).await.unwrap().revision, 2);
    bot.commit(3, vec![], vec![delete("session", "x")]).await.unwrap();
    bot.commit(4, vec![put_if("session", "x", "after", 0)], vec![]).await.unwrap();
    assert_eq!(bot.value("session", "x").await, Some(b"after".to_vec()));
    let other_life = v1::Commit { incarnation: 7, ..whole(5, 4) };
    assert_eq!(bot.commit_as(other_life).await.unwrap_err().why(), (Code::Aborted, "FENCED"));
    let this_life = v1::Commit { incarnation: bot.opened.incarnation, ..whole(5, 4) };
    assert_eq!(bot.commit_as(this_life).await.unwrap().revision, 5);
}

/// Baileys PR#2587: two that add to one index at the same time; with the condition the union is kept.
#[tokio::test]
async fn an_index_that_many_add_to_at_once_keeps_what_all_have_added() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "x")], vec![]).await.unwrap();
    bot.close().await;
    let mut tasks = Vec::new();
    for adder in 0..4 {
        let mut client = Unary::of(&sidecar);
        tasks.push(tokio::spawn(async move {
            let (mut op_seq, mut conflicts) = (1, 0);
            for n in 0..15 {
                loop {
                    let found = client.get("bot", "tctoken", &["__index"]).await.unwrap();
                    let revision = found.first().map_or(0, |one| one.revision);
                    let mut index: BTreeSet<String> = found
                        .first()
                        .map(|one| serde_json::from_slice(&one.value).unwrap())
                        .unwrap_or_default();
                    index.insert(format!("{adder}-{n}@lid"));
                    let value = serde_json::to_string(&index).unwrap();
                    let puts = vec![put_if("tctoken", "__index", &value, revision)];
                    match client.commit(unary::commit("bot", &format!("w{adder}"), op_seq, puts)).await {
                        Ok(_) => {
                            op_seq += 1;
                            break;
                        }
                        Err(refused) if refused.reason == "REVISION_CONFLICT" => conflicts += 1,
                        Err(refused) if refused.reason == "BUSY" => {}
                        Err(refused) => panic!("{refused:?}"),
                    }
                }
            }
            conflicts
        }));
    }
    let mut conflicts = 0;
    for task in tasks {
        conflicts += task.await.unwrap();
    }
    let value = Unary::of(&sidecar).value("bot", "tctoken", "__index").await.unwrap();
    let index: BTreeSet<String> = serde_json::from_slice(&value).unwrap();
    assert_eq!(index.len(), 60, "{conflicts} conflicts on the way");
    assert!(conflicts > 0, "they did meet");
}

#[tokio::test]
async fn a_unary_commit_needs_a_free_session_or_the_holders_fence() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut admin = Unary::of(&sidecar);
    let none = admin.commit(unary::commit("bot", "admin", 1, vec![put("session", "1", "x")])).await;
    assert_eq!(none.unwrap_err().why(), (Code::NotFound, "SESSION_NOT_FOUND"));
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("session", "1", "bot")], vec![]).await.unwrap();
    let request = || unary::commit("bot", "admin", 1, vec![put("session", "1", "admin")]);
    let held = admin.commit(request()).await.unwrap_err();
    assert_eq!(held.why(), (Code::FailedPrecondition, "SESSION_HELD"));
    assert_eq!(held.metadata["owner"], "me");
    let wrong = v1::CommitRecordsRequest { fence: bot.opened.fence - 1, ..request() };
    assert_eq!(admin.commit(wrong).await.unwrap_err().why(), (Code::Aborted, "FENCED"));
    let right = v1::CommitRecordsRequest { fence: bot.opened.fence, ..request() };
    let committed = admin.commit(right.clone()).await.unwrap();
    assert_eq!((committed.base_revision, committed.revision, committed.replayed), (1, 2, false));
    assert!(admin.commit(right).await.unwrap().replayed);
    // The holder is told, and its own next write says that somebody wrote in between.
    let Event::Changed(changed) = bot.push(|event| matches!(event, Event::Changed(_))).await else {
        unreachable!()
    };
    assert_eq!(changed.revision, 2);
    assert_eq!(bot.value("session", "1").await, Some(b"admin".to_vec()));
    let committed = bot.commit(2, vec![put("session", "2", "bot")], vec![]).await.unwrap();
    assert_eq!((committed.base_revision, committed.revision), (2, 3));
    bot.close().await;
    let free = unary::commit("bot", "admin", 2, vec![put("session", "3", "admin")]);
    assert_eq!(admin.commit(free).await.unwrap().revision, 4);
    let late = unary::commit("bot", "admin", 4, vec![put("session", "3", "admin")]);
    assert_eq!(admin.commit(late).await.unwrap_err().metadata["last"], "2");
}

/// A Get in front of which a commit had to be sealed again still sees that commit.
#[tokio::test]
async fn a_read_behind_a_commit_that_is_sealed_again_sees_it() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let mut admin = Unary::of(&sidecar);
    for round in 1..30 {
        let outside = v1::CommitRecordsRequest {
            fence: bot.opened.fence,
            ..unary::commit("bot", "admin", round, vec![put("session", "outside", "x")])
        };
        let committed = admin.commit(outside).await.unwrap();
        // The stream does not know of it, or has just heard.
        let puts = vec![put("session", "1", round.to_string())];
        let write = bot.send(Op::Commit(v1::Commit { op_seq: round, puts, ..Default::default() })).await;
        let query = v1::Query { r#type: "session".into(), ids: vec!["1".into()] };
        let read = bot.send(Op::Get(v1::Get { queries: vec![query] })).await;
        assert_eq!(bot.committed(write).await.unwrap().base_revision, committed.revision);
        let record = bot.records(read).await.unwrap().remove(0);
        assert_eq!((record.value.as_ref(), record.revision), (round.to_string().as_bytes(), round * 2));
    }
}

fn attributes(paired: Option<bool>, next_pre_key_id: Option<u64>, label: &str) -> v1::Attributes {
    let labels = [(label.to_owned(), "x".to_owned())].into();
    v1::Attributes { paired, next_pre_key_id, labels }
}

#[tokio::test]
async fn attributes_come_with_the_commit_that_carries_them_or_not_at_all() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut admin = Unary::of(&sidecar);
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    assert_eq!(bot.opened.attributes, None);
    let with = |op_seq, expected_revision, attributes| v1::Commit {
        op_seq,
        expected_revision,
        puts: vec![put("creds", "creds", "x")],
        attributes: Some(attributes),
        ..Default::default()
    };
    bot.commit_as(with(1, None, attributes(None, Some(31), "a"))).await.unwrap();
    bot.commit_as(with(2, Some(9), attributes(Some(true), Some(99), "refused"))).await.unwrap_err();
    bot.commit_as(with(2, None, attributes(Some(false), None, "b"))).await.unwrap();
    let known = admin.info("bot").await.attributes.unwrap();
    assert_eq!((known.paired, known.next_pre_key_id), (Some(false), Some(31)), "not the refused ones");
    assert!(known.labels.contains_key("a") && known.labels.contains_key("b") && known.labels.len() == 2);

    // What somebody else writes meanwhile stays, though the holder has never seen it.
    let outside = v1::CommitRecordsRequest {
        fence: bot.opened.fence,
        attributes: Some(attributes(None, Some(40), "outside")),
        ..unary::commit("bot", "admin", 1, vec![])
    };
    admin.commit(outside).await.unwrap();
    bot.commit_as(with(3, None, attributes(Some(true), None, "c"))).await.unwrap();
    let known = admin.info("bot").await.attributes.unwrap();
    assert_eq!((known.paired, known.next_pre_key_id), (Some(true), Some(40)));
    assert_eq!(known.labels.len(), 4, "{:?}", known.labels);

    // A falling counter is written, and reported.
    assert!(!sidecar.logs().contains("next_pre_key_id fell"));
    bot.commit_as(with(4, None, attributes(None, Some(5), "d"))).await.unwrap();
    assert!(sidecar.logs().contains("next_pre_key_id fell"));
    drop(bot);
    let bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    assert_eq!(bot.opened.attributes.unwrap().next_pre_key_id, Some(5));
}

#[tokio::test]
async fn attributes_of_unary_commits_that_race_are_all_kept() {
    let sidecar = Sidecar::start(Options::default()).await;
    Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap().close().await;
    let mut tasks = Vec::new();
    for writer in 0..4 {
        let mut client = Unary::of(&sidecar);
        tasks.push(tokio::spawn(async move {
            for op_seq in 1..=4 {
                let label = format!("{writer}-{op_seq}");
                let request = v1::CommitRecordsRequest {
                    attributes: Some(attributes(None, None, &label)),
                    ..unary::commit("bot", &format!("w{writer}"), op_seq, vec![])
                };
                while let Err(refused) = client.commit(request.clone()).await {
                    assert_eq!(refused.reason, "BUSY");
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let info = Unary::of(&sidecar).info("bot").await;
    assert_eq!((info.attributes.unwrap().labels.len(), info.revision), (16, 16));
}
