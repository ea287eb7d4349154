//! What cannot be taken now, or cannot be read, is told as what it is.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::Duration;

use pannier::proto::v1::{
    self, AttachRequest, Durability, attach_request::Op, pipe_request,
    pipe_service_client::PipeServiceClient, schedule_service_client::ScheduleServiceClient,
};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, Refused, delete, open, put},
    unary::Unary,
};
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;

const REFUSED: (Code, &str) = (Code::Unavailable, "VALKEY_REFUSES_WRITES");

/// A disk that is full stops the saving, and that stops the writes: as bad as it sounds, it must cost no connection, and no
/// credentials.
#[tokio::test]
async fn a_valkey_that_cannot_save_is_told_reads_on_and_is_used_again() {
    let options = ValkeyOptions::default().set("enable-protected-configs", "yes").set("appendonly", "no");
    let valkey = Valkey::start(options);
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "old")], vec![]).await.unwrap();

    let _: String = valkey.command(&["CONFIG", "SET", "save", "3600 1"]);
    let _: String = valkey.command(&["CONFIG", "SET", "dir", "/proc"]);
    let _: String = valkey.command(&["BGSAVE"]);
    let refused = tokio::time::timeout(Duration::from_secs(20), async {
        let mut op_seq = 2;
        loop {
            match bot.commit(op_seq, vec![put("creds", "creds", "newer")], vec![]).await {
                Ok(_) => op_seq += 1,
                Err(refused) => break refused,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let refused = refused.await.expect("the failed save forbids writes");
    assert_eq!(refused.why(), REFUSED);
    assert!(
        refused.retry && !refused.outcome_unknown() && refused.message.contains("MISCONF"),
        "{refused:?}"
    );
    // Signs of life come every 2 s; none of them may take this for a dead connection.
    for _ in 0..25 {
        assert_eq!(sidecar.serving("").await, Some(ServingStatus::Serving));
        assert!(bot.value("creds", "creds").await.is_some());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let logs = sidecar.logs();
    assert!(!logs.contains("lost Valkey"), "{logs}");
    assert_eq!(logs.matches("Valkey refuses writes: look").count(), 1, "{logs}");

    let dir = valkey.dir.path().to_str().unwrap().to_owned();
    let _: String = valkey.command(&["CONFIG", "SET", "dir", &dir]);
    let _: String = valkey.command(&["CONFIG", "SET", "save", ""]);
    let revision = Unary::of(&sidecar).info("bot").await.revision;
    let last = bot.commit(revision + 1, vec![put("creds", "creds", "new")], vec![]).await.unwrap();
    assert_eq!(last.revision, revision + 1);
}

#[tokio::test]
async fn a_valkey_without_its_replicas_is_told_and_used_again() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let _: String = valkey.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let refused = bot.commit(1, vec![put("creds", "creds", "1")], vec![]).await.unwrap_err();
    assert_eq!(refused.why(), REFUSED);
    assert!(refused.message.contains("NOREPLICAS"), "{}", refused.message);
    let _: String = valkey.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    bot.commit(1, vec![put("creds", "creds", "1")], vec![]).await.unwrap();
}

#[tokio::test]
async fn what_only_deletes_gets_through_when_memory_is_full() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("session", "1", "old")], vec![]).await.unwrap();
    let _: String = valkey.command(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let full = bot.commit(2, vec![put("session", "2", "x")], vec![]).await.unwrap_err();
    assert_eq!(full.reason, "VALKEY_OUT_OF_MEMORY");
    bot.commit(2, vec![], vec![delete("session", "1")]).await.unwrap();
    assert_eq!(bot.value("session", "1").await, None);
}

#[tokio::test]
async fn a_durability_that_is_changed_while_it_runs_shows_in_the_replies() {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "always"));
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let first = bot.commit(1, vec![put("session", "1", "x")], vec![]).await.unwrap();
    assert_eq!(first.durability(), Durability::Fsync);
    let _: String = valkey.command(&["CONFIG", "SET", "appendfsync", "everysec"]);
    // Looked at every 15 s or so.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let second = bot.commit(2, vec![put("session", "1", "x")], vec![]).await.unwrap();
    assert_eq!(second.durability(), Durability::Aof);
    assert!(sidecar.logs().contains("the durability of Valkey was changed"));
}

/// A client whose message was not read must not take the end of its stream for an answer.
#[tokio::test]
async fn a_message_that_cannot_be_read_ends_the_stream_with_its_reason() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let too_large = put("session", "1", vec![7; 5 << 20]);
    let large = || {
        let commit = v1::Commit { op_seq: 1, puts: vec![too_large.clone()], ..Default::default() };
        AttachRequest { seq: 2, timeout_ms: 0, op: Some(Op::Commit(commit)) }
    };
    let first = AttachRequest { seq: 1, timeout_ms: 0, op: Some(Op::Open(open("bot", "me"))) };
    for requests in [vec![first, large()], vec![large()]] {
        let opens = requests.len() == 2;
        let stream = tokio_stream::iter(requests);
        let mut replies = sidecar.sessions().attach(stream).await.unwrap().into_inner();
        if opens {
            assert_eq!(replies.message().await.unwrap().unwrap().seq, 1);
        }
        assert_eq!(end_of(&mut replies).await.why(), (Code::InvalidArgument, "TOO_LARGE"));
    }
}

#[tokio::test]
async fn breaking_a_named_lease_again_breaks_no_later_one() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let request =
        v1::BreakLeaseRequest { session: "bot".into(), fence: bot.opened.fence, ..Default::default() };
    let first = sidecar.sessions().break_lease(request.clone()).await.unwrap().into_inner();
    assert!(first.broken && first.fence > bot.opened.fence);
    let next = Attach::open(sidecar.channel(), open("bot", "another")).await.unwrap();
    let again = sidecar.sessions().break_lease(request).await.unwrap().into_inner();
    assert_eq!((again.broken, again.fence), (false, next.opened.fence));
    assert!(Unary::of(&sidecar).info("bot").await.lease.unwrap().live);
}

/// The same on the streams of small calls and of workers.
#[tokio::test]
async fn a_pipe_and_a_worker_are_told_too_what_of_theirs_was_not_read() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let large = "x".repeat(5 << 20);
    let hello = v1::WorkHello { worker: large.clone(), queues: vec!["q".into()], ..Default::default() };
    let fine = v1::WorkHello { queues: vec!["q".into()], ..Default::default() };
    let too_large = v1::WorkRequest { hello: Some(hello), ..Default::default() };
    let fine = v1::WorkRequest { hello: Some(fine), ..Default::default() };
    for requests in [vec![too_large.clone()], vec![fine, too_large]] {
        let mut client = ScheduleServiceClient::new(sidecar.channel());
        let mut replies = client.work(tokio_stream::iter(requests)).await.unwrap().into_inner();
        assert_eq!(end_of(&mut replies).await.why(), (Code::InvalidArgument, "TOO_LARGE"));
    }
    let claim = v1::ClaimRequest { key: large, ..Default::default() };
    let call = v1::PipeRequest { seq: 1, call: Some(pipe_request::Call::Claim(claim)), ..Default::default() };
    let mut client = PipeServiceClient::new(sidecar.channel());
    let mut replies = client.pipe(tokio_stream::iter([call])).await.unwrap().into_inner();
    assert_eq!(end_of(&mut replies).await.why(), (Code::InvalidArgument, "TOO_LARGE"));
}

async fn end_of<T>(replies: &mut tonic::Streaming<T>) -> Refused {
    loop {
        match replies.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended as if all were well"),
            Err(status) => return Refused::of_status(&status),
        }
    }
}
