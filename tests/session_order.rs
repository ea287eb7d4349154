//! Commits are numbered, apply in the order sent and once, whatever comes between.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{self, attach_request::Op};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, delete, open, put},
    unary::{self, Unary},
};
use tonic::Code;

fn commit(op_seq: u64, puts: Vec<v1::Put>) -> v1::Commit {
    v1::Commit { op_seq, puts, ..Default::default() }
}

fn get(ty: &str, id: &str) -> Op {
    Op::Get(v1::Get { queries: vec![v1::Query { r#type: ty.into(), ids: vec![id.into()] }] })
}

/// Bursts of 64 commits, each followed by a read of the same record, while `between` disturbs; every read must see exactly
/// the commits before it.
async fn bursts(sidecar: &Sidecar, rounds: u64, mut between: impl FnMut(u64)) {
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let mut op_seq = 0;
    for round in 0..rounds {
        between(round);
        let mut sent = Vec::new();
        for _ in 0..64 {
            op_seq += 1;
            let value = op_seq.to_string();
            let puts = vec![put("session", "same", value.clone()), put("session", &value, "x")];
            let write = bot.send(Op::Commit(commit(op_seq, puts))).await;
            sent.push((op_seq, write, bot.send(get("session", "same")).await));
        }
        for (op, write, read) in sent {
            let committed = bot.committed(write).await.unwrap();
            assert_eq!((committed.revision, committed.replayed), (op, false));
            assert_eq!(committed.base_revision, op - 1);
            let records = bot.records(read).await.unwrap();
            assert_eq!(records[0].value, op.to_string().as_bytes(), "the read behind commit {op}");
            assert_eq!(records[0].revision, op);
        }
    }
    assert_eq!(Unary::of(sidecar).info("bot").await.counts[0].records, op_seq + 1);
}

#[tokio::test]
async fn sixty_four_commits_in_flight_apply_in_order_and_each_read_sees_what_was_before_it() {
    let sidecar = Sidecar::start(Options::default()).await;
    bursts(&sidecar, 20, |_| {}).await;
}

/// A NOSCRIPT answered call by call reordered 6 of 200 such bursts.
#[tokio::test]
async fn the_order_holds_when_valkey_forgets_its_scripts_in_the_middle_of_bursts() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flusher = std::thread::spawn({
        let (stop, mut connection) = (stop.clone(), valkey.connection());
        move || {
            let mut flushed = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                redis::cmd("SCRIPT").arg("FLUSH").query::<()>(&mut connection).unwrap();
                flushed += 1;
                std::thread::sleep(Duration::from_millis(7));
            }
            flushed
        }
    });
    bursts(&sidecar, 30, |_| {}).await;
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(flusher.join().unwrap() > 10);
}

#[tokio::test]
async fn the_sixty_fifth_commit_in_flight_is_refused_and_the_others_are_not() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    valkey.sigstop();
    let mut sent = Vec::new();
    for op_seq in 1..=70 {
        sent.push(bot.send(Op::Commit(commit(op_seq, vec![put("session", "1", "x")]))).await);
    }
    for seq in &sent[64..] {
        let refused = bot.committed(*seq).await.unwrap_err();
        assert_eq!(refused.why(), (Code::ResourceExhausted, "TOO_MANY_IN_FLIGHT"));
    }
    valkey.sigcont();
    for (n, seq) in sent[..64].iter().enumerate() {
        assert_eq!(bot.committed(*seq).await.unwrap().revision, n as u64 + 1);
    }
    // A refused one does not use its number up.
    assert_eq!(bot.commit(65, vec![put("session", "1", "y")], vec![]).await.unwrap().revision, 65);
}

#[tokio::test]
async fn reads_beyond_1024_requests_in_flight_are_refused_and_the_others_are_answered() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("session", "1", "x")], vec![]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    valkey.sigstop();
    let mut sent = Vec::new();
    for _ in 0..1100 {
        sent.push(bot.send_with(30_000, get("session", "1")).await);
    }
    let refused = bot.records(sent[1024]).await.unwrap_err();
    assert_eq!(refused.why(), (Code::ResourceExhausted, "TOO_MANY_IN_FLIGHT"));
    valkey.sigcont();
    for (n, seq) in sent.into_iter().enumerate().filter(|(n, _)| *n != 1024) {
        assert_eq!(bot.records(seq).await.is_ok(), n < 1024, "read {n}");
    }
}

#[tokio::test]
async fn a_commit_sent_again_is_done_once_and_one_out_of_turn_is_not_done() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let early = bot.commit(2, vec![put("session", "1", "2")], vec![]).await.unwrap_err();
    assert_eq!(early.why(), (Code::Aborted, "OUT_OF_ORDER"));
    assert_eq!(early.metadata["last"], "0");
    bot.commit(1, vec![put("session", "1", "1")], vec![]).await.unwrap();
    bot.commit(2, vec![put("session", "1", "2")], vec![]).await.unwrap();
    for op_seq in [1, 2] {
        let again = bot.commit(op_seq, vec![put("session", "1", "again")], vec![]).await.unwrap();
        assert!(again.replayed);
        assert_eq!(again.revision, 2);
    }
    // Sent again, it is not judged by conditions that its own success has made false.
    let conditional =
        v1::Commit { expected_revision: Some(1), ..commit(2, vec![put("session", "1", "again")]) };
    assert!(bot.commit_as(conditional).await.unwrap().replayed);
    assert_eq!(bot.value("session", "1").await, Some(b"2".to_vec()));
    let zero = bot.commit(0, vec![put("session", "1", "0")], vec![]).await.unwrap_err();
    assert_eq!(zero.fields, ["commit.op_seq"]);
    let far = bot.commit(u64::MAX, vec![put("session", "1", "0")], vec![]).await.unwrap_err();
    assert_eq!(far.reason, "OUT_OF_ORDER");
    assert_eq!(far.metadata["last"], "2");
}

/// Only an applied commit uses its number up: those behind a refused one come back OUT_OF_ORDER and move up.
#[tokio::test]
async fn what_stands_behind_a_refused_commit_is_not_done_in_its_place() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let refused = v1::Commit { expected_revision: Some(7), ..commit(1, vec![put("session", "1", "a")]) };
    let first = bot.send(Op::Commit(refused)).await;
    let second = bot.send(Op::Commit(commit(2, vec![put("session", "1", "b")]))).await;
    let third = bot.send(get("session", "1")).await;
    let conflict = bot.committed(first).await.unwrap_err();
    assert_eq!(conflict.why(), (Code::Aborted, "REVISION_CONFLICT"));
    assert_eq!(bot.committed(second).await.unwrap_err().reason, "OUT_OF_ORDER");
    assert_eq!(bot.records(third).await.unwrap(), []);
    assert_eq!(bot.commit(1, vec![put("session", "1", "b")], vec![]).await.unwrap().revision, 1);
}

#[tokio::test]
async fn a_ninth_writer_replaces_the_longest_idle_one_but_never_the_holders() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "holder")).await.unwrap();
    bot.commit(1, vec![put("session", "1", "holder")], vec![]).await.unwrap();
    let by = |writer: usize, op_seq| v1::Commit {
        writer_id: format!("writer-{writer}"),
        ..commit(op_seq, vec![put("session", "1", "x")])
    };
    for writer in 0..8 {
        tokio::time::sleep(Duration::from_millis(3)).await;
        assert!(!bot.commit_as(by(writer, 1)).await.unwrap().replayed, "writer {writer}");
    }
    // The holder was idle the longest; writer 0 had to go, the others are known.
    for writer in 1..8 {
        assert!(bot.commit_as(by(writer, 1)).await.unwrap().replayed, "writer {writer}");
    }
    assert!(bot.commit(1, vec![put("session", "1", "again")], vec![]).await.unwrap().replayed);
    let forgotten = bot.commit_as(by(0, 2)).await.unwrap_err();
    assert_eq!((forgotten.reason.as_str(), forgotten.metadata["last"].as_str()), ("OUT_OF_ORDER", "0"));
    assert!(!bot.commit_as(by(0, 1)).await.unwrap().replayed, "an unknown one starts at 1");
    assert_eq!(bot.commit(2, vec![put("session", "1", "holder")], vec![]).await.unwrap().revision, 11);
}

/// A foreign write under the holder's fence makes what is in flight be sealed again; the order stays, also between writers.
#[tokio::test]
async fn commits_in_flight_keep_their_order_when_somebody_else_writes_under_the_holders_fence() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let other = Sidecar::start(Options {
        dir: Some(sidecar.dir.clone()),
        socket_name: Some("other.sock".into()),
        ..Options::with(&valkey)
    })
    .await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let (mut foreign, mut alternating) = (Unary::of(&other), [0, 0, 0]);
    let (mut op, mut last) = (0, 0);
    for round in 1..=40 {
        let outside = v1::CommitRecordsRequest {
            fence: bot.opened.fence,
            ..unary::commit("bot", "admin", round, vec![put("session", "outside", round.to_string())])
        };
        let outside = foreign.commit(outside);
        let mut sent = Vec::new();
        let inside = async {
            for n in 0..12 {
                op += 1;
                let writer = n % 3;
                alternating[writer] += 1;
                let puts = vec![put("session", "same", op.to_string())];
                let commit =
                    v1::Commit { writer_id: format!("w{writer}"), ..commit(alternating[writer], puts) };
                sent.push((op, bot.send(Op::Commit(commit)).await, bot.send(get("session", "same")).await));
            }
            for (op, write, read) in std::mem::take(&mut sent) {
                let committed = bot.committed(write).await.unwrap();
                assert!(!committed.replayed, "commit {op}");
                assert!(committed.revision > last, "commit {op}: {} after {last}", committed.revision);
                last = committed.revision;
                assert_eq!(bot.records(read).await.unwrap()[0].value, op.to_string().as_bytes());
            }
        };
        let ((), outside) = tokio::join!(inside, outside);
        assert!(!outside.unwrap().replayed);
    }
    assert_eq!(bot.value("session", "outside").await, Some(b"40".to_vec()));
    assert_eq!(foreign.info("bot").await.revision, 40 * 13);
}

/// fazer-ai/baileys-api#379: a backend that does not answer may cost a request its time, and no more.
#[tokio::test]
async fn a_request_is_answered_in_its_own_time_when_valkey_does_not_answer() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("session", "1", "1")], vec![]).await.unwrap();
    // Nothing of the Open is on its way any more: what comes next is sent at once.
    tokio::time::sleep(Duration::from_millis(300)).await;
    valkey.sigstop();
    let begin = Instant::now();
    let write = bot.send_with(50, Op::Commit(commit(2, vec![put("session", "1", "2")]))).await;
    let read = bot.send_with(50, get("session", "1")).await;
    let refused = bot.committed(write).await.unwrap_err();
    assert_eq!(refused.why(), (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"));
    assert!(refused.outcome_unknown(), "it may have been written");
    let refused = bot.records(read).await.unwrap_err();
    assert_eq!(refused.code, Code::DeadlineExceeded);
    assert!(!refused.outcome_unknown(), "a read writes nothing");
    assert!(begin.elapsed() < Duration::from_millis(2050), "{:?}", begin.elapsed());
    // Behind what hangs the same holds.
    let queued = bot.send_with(100, Op::Commit(commit(3, vec![put("session", "1", "3")]))).await;
    let refused = bot.committed(queued).await.unwrap_err();
    assert_eq!(refused.code, Code::DeadlineExceeded);
    assert!(begin.elapsed() < Duration::from_millis(4150), "{:?}", begin.elapsed());
    valkey.sigcont();
    // The outcome of 2 is unknown: it is sent again under its number, and is there once.
    let again = bot.commit(2, vec![put("session", "1", "2")], vec![]).await.unwrap();
    assert_eq!(again.revision, 2);
    assert_eq!(bot.commit(3, vec![put("session", "1", "3")], vec![]).await.unwrap().revision, 3);
    assert_eq!(bot.value("session", "1").await, Some(b"3".to_vec()));
}

#[tokio::test]
async fn a_commit_of_puts_and_deletes_is_seen_whole_by_readers() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("session", "A.0", "0")], vec![]).await.unwrap();
    // Baileys#2372, #1769, #2331: a session moves from one address to another, never missing at both.
    let mut reader = Unary::of(&sidecar);
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let reading = tokio::spawn({
        let done = done.clone();
        async move {
            let mut seen = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let found = reader.get("bot", "session", &["A.0", "A_1.0"]).await.unwrap();
                assert_eq!(found.len(), 1, "exactly one of both is there");
                seen += 1;
            }
            seen
        }
    });
    for op_seq in 2..300 {
        let (to, from) = if op_seq % 2 == 0 { ("A_1.0", "A.0") } else { ("A.0", "A_1.0") };
        let puts = vec![put("session", to, op_seq.to_string())];
        bot.commit(op_seq, puts, vec![delete("session", from)]).await.unwrap();
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(reading.await.unwrap() > 20);
}
