//! Large values and large commits: whole or not at all, inside bounds that are told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::Duration;

use pannier::proto::v1::{self, ValueKind, attach_request::Op};
use support::{
    Options, Sidecar,
    attach::{Attach, open, put},
    unary::Unary,
};
use tonic::Code;

const MIB: usize = 1 << 20;

/// Bytes that no compression makes smaller; the same for the same seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn commit(op_seq: u64, puts: Vec<v1::Put>, more: bool) -> Op {
    Op::Commit(v1::Commit { op_seq, puts, more, ..Default::default() })
}

fn fragment(id: &str, offset: usize, total: usize, data: Vec<u8>) -> v1::Fragment {
    v1::Fragment {
        r#type: "session".into(),
        id: id.into(),
        offset: offset as u64,
        total: total as u64,
        data: data.into(),
        ..Default::default()
    }
}

async fn attached() -> (Sidecar, Attach) {
    let sidecar = Sidecar::start(Options::default()).await;
    let bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    (sidecar, bot)
}

#[tokio::test]
async fn a_value_of_16_mib_goes_both_ways_and_one_byte_more_is_refused() {
    let (sidecar, mut bot) = attached().await;
    let value = noise(1, 16 * MIB);
    let seq = bot.send_value(1, "session", "large", &value).await;
    assert_eq!(bot.committed(seq).await.unwrap().revision, 1);
    assert!(bot.value("session", "large").await.unwrap() == value);

    let seq = bot.send_value(2, "session", "larger", &noise(2, 16 * MIB + 1)).await;
    let refused = bot.committed(seq).await.unwrap_err();
    assert_eq!(refused.why(), (Code::InvalidArgument, "TOO_LARGE"));
    assert_eq!(refused.fields, ["commit.fragments[0].total"]);
    assert_eq!(bot.value("session", "larger").await, None);
    assert_eq!(bot.commit(2, vec![put("session", "small", "x")], vec![]).await.unwrap().revision, 2);

    // Without a stream it does not fit, and says what to use.
    let mut unary = Unary::of(&sidecar);
    let refused = unary.get("bot", "session", &["large"]).await.unwrap_err();
    assert_eq!(refused.why(), (Code::InvalidArgument, "TOO_LARGE"));
    assert!(refused.message.contains("Attach"), "{}", refused.message);
    let (mut found, mut too_large, mut cursor) = (Vec::new(), Vec::new(), String::new());
    loop {
        let request = v1::ListRecordsRequest { session: "bot".into(), cursor, ..Default::default() };
        let page = unary.list(request).await.unwrap();
        found.extend(page.records.into_iter().map(|one| one.id));
        too_large.extend(page.too_large);
        cursor = page.cursor;
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(too_large, [v1::RecordRef { r#type: "session".into(), id: "large".into() }]);
    assert_eq!(found, ["small"]);

    // With the next Open it comes as preloaded.
    drop(bot);
    let open = v1::Open { preload_types: vec!["session".into(), "creds".into()], ..open("bot", "me") };
    let bot = Attach::open(sidecar.channel(), open).await.unwrap();
    assert!(bot.opened.preload_complete);
    let mut ids: Vec<_> = bot.preloaded.iter().map(|one| (one.id.as_str(), one.value.len())).collect();
    ids.sort_unstable();
    assert_eq!(ids, [("large", 16 * MIB), ("small", 1)]);
    assert!(bot.preloaded.iter().any(|one| one.value == value));
}

#[tokio::test]
async fn preload_gives_the_types_asked_for_and_says_when_it_left_something_out() {
    let (sidecar, mut bot) = attached().await;
    for n in 0..3 {
        let seq = bot.send_value(n + 1, "session", &format!("large-{n}"), &noise(n, 15 * MIB)).await;
        bot.committed(seq).await.unwrap();
    }
    let small = (0..500).map(|n| put("pre-key", &n.to_string(), n.to_string())).collect();
    bot.commit(4, small, vec![]).await.unwrap();
    bot.commit(5, vec![put("foo-bar", "1", "own type")], vec![]).await.unwrap();
    drop(bot);
    let with = |types: &[&str]| v1::Open {
        preload_types: types.iter().map(|ty| (*ty).to_owned()).collect(),
        ..open("bot", "me")
    };
    let bot = Attach::open(sidecar.channel(), with(&["pre-key", "foo-bar", "tctoken"])).await.unwrap();
    assert!(bot.opened.preload_complete);
    assert_eq!(bot.preloaded.len(), 501);
    assert!(bot.preloaded.iter().all(|one| one.r#type == "foo-bar" || one.id.as_bytes() == one.value));
    drop(bot);
    let bot = Attach::open(sidecar.channel(), with(&["session"])).await.unwrap();
    assert!(!bot.opened.preload_complete, "45 MiB are more than 32");
    assert!(bot.preloaded.len() < 3);
    let counts: Vec<_> = bot.opened.counts.iter().map(|one| (one.r#type.as_str(), one.records)).collect();
    assert_eq!(counts, [("foo-bar", 1), ("pre-key", 500), ("session", 3)]);
}

#[tokio::test]
async fn a_commit_of_32_mib_in_parts_is_one_commit_and_a_byte_more_is_none() {
    let (_sidecar, mut bot) = attached().await;
    // Types and ids count too: 7 + 1 bytes a record.
    let sizes = |last: usize| [16 * MIB - 8, 8 * MIB - 8, 8 * MIB - 8 + last];
    for (op_seq, last) in [(1, 0), (2, 1)] {
        let mut seq = 0;
        for (n, size) in sizes(last).into_iter().enumerate() {
            let value = noise(n as u64, size);
            for offset in (0..size).step_by(MIB) {
                let end = size.min(offset + MIB);
                let part = fragment(&n.to_string(), offset, size, value[offset..end].to_vec());
                let more = !(n == 2 && end == size);
                let part =
                    Op::Commit(v1::Commit { op_seq, fragments: vec![part], more, ..Default::default() });
                if seq == 0 {
                    seq = bot.send(part).await;
                } else {
                    bot.send_part(part).await;
                }
            }
        }
        if last == 0 {
            assert_eq!(bot.committed(seq).await.unwrap().revision, 1);
        } else {
            let refused = bot.committed(seq).await.unwrap_err();
            assert_eq!(refused.why(), (Code::InvalidArgument, "TOO_LARGE"));
        }
    }
    for (n, size) in sizes(0).into_iter().enumerate() {
        assert!(bot.value("session", &n.to_string()).await.unwrap() == noise(n as u64, size));
    }
    // More in one Get than it may give.
    bot.commit(2, vec![put("session", "3", "x")], vec![]).await.unwrap();
    let refused = bot.get("session", &["0", "1", "2", "3"]).await.unwrap_err();
    assert_eq!(refused.why(), (Code::InvalidArgument, "TOO_LARGE"));
    assert_eq!(bot.get("session", &["0", "1", "3"]).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_commit_of_too_many_items_is_refused() {
    let (_sidecar, mut bot) = attached().await;
    let puts = |count: usize| (0..count).map(|n| put("pre-key", &n.to_string(), "x")).collect::<Vec<_>>();
    assert_eq!(bot.commit(1, puts(20_000), vec![]).await.unwrap().revision, 1);
    let refused = bot.commit(2, puts(20_001), vec![]).await.unwrap_err();
    assert_eq!(refused.why(), (Code::InvalidArgument, "TOO_LARGE"));
    assert_eq!(bot.opened.revision + 1, bot.commit(1, vec![], vec![]).await.unwrap().revision);
}

#[tokio::test]
async fn what_comes_between_the_parts_of_a_commit_is_answered_and_costs_it_nothing() {
    let (_sidecar, mut bot) = attached().await;
    let first = bot.send(commit(1, vec![put("session", "1", "a")], true)).await;
    // Another request goes ahead of it, another commit is refused, whole or in parts of its own.
    assert_eq!(bot.value("session", "1").await, None);
    let other = bot.send(commit(1, vec![put("session", "2", "b")], false)).await;
    assert_eq!(bot.committed(other).await.unwrap_err().why(), (Code::InvalidArgument, "PROTOCOL"));
    let parted = bot.send(commit(1, vec![put("session", "2", "b")], true)).await;
    assert_eq!(bot.committed(parted).await.unwrap_err().reason, "PROTOCOL");
    bot.send_part(commit(1, vec![put("session", "3", "b")], false)).await;
    let part = |puts, more| v1::AttachRequest { seq: first, timeout_ms: 0, op: Some(commit(1, puts, more)) };
    bot.send_raw(part(vec![put("session", "4", "c")], true)).await;
    bot.send_raw(part(vec![put("session", "5", "d")], false)).await;
    assert_eq!(bot.committed(first).await.unwrap().revision, 1);
    let mut found: Vec<_> =
        bot.get("session", &["1", "2", "3", "4", "5"]).await.unwrap().into_iter().map(|one| one.id).collect();
    found.sort();
    assert_eq!(found, ["1", "4", "5"]);
}

#[tokio::test]
async fn a_part_that_is_refused_refuses_the_commit_once_and_the_stream_goes_on() {
    let (_sidecar, mut bot) = attached().await;
    let mut broken: Vec<(Vec<v1::Fragment>, &str)> = vec![
        (vec![fragment("1", 5, 100, vec![1; 10])], "offset"),
        (vec![fragment("1", 0, 20, vec![1; 10]), fragment("2", 0, 20, vec![1; 10])], "another value"),
        (vec![fragment("1", 0, 20, vec![1; 10]), fragment("1", 15, 20, vec![1; 5])], "a gap"),
        (vec![fragment("1", 0, 20, vec![1; 21])], "beyond the total"),
        (vec![fragment("1", 0, 20, vec![1; 10]), fragment("1", 10, 30, vec![1; 10])], "another total"),
        (vec![fragment("1", 0, 20, vec![])], "empty"),
        (vec![fragment("1", 0, 3 * MIB, vec![1; MIB + 1])], "more than 1 MiB"),
        (vec![fragment("", 0, 20, vec![1; 20])], "no id"),
    ];
    for (fragments, what) in broken.drain(..) {
        let part = Op::Commit(v1::Commit { op_seq: 1, fragments, more: true, ..Default::default() });
        let seq = bot.send(part).await;
        let refused = bot.committed(seq).await.unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument, "{what}");
        assert!(refused.fields[0].starts_with("commit.fragments["), "{what}: {:?}", refused.fields);
        // The rest of it is passed over without a word.
        bot.send_part(commit(1, vec![put("session", "9", "rest")], true)).await;
        bot.send_part(commit(1, vec![put("session", "9", "rest")], false)).await;
    }
    let seq = bot.send(Op::Commit(v1::Commit {
        op_seq: 1,
        fragments: vec![fragment("1", 0, 20, vec![1; 10])],
        ..Default::default()
    }));
    let seq = seq.await;
    assert_eq!(bot.committed(seq).await.unwrap_err().fields, ["commit.fragments"], "an incomplete value");
    let seq = bot.send(commit(1, vec![put("session", "1", "x")], true)).await;
    bot.send_part(commit(2, vec![put("session", "2", "x")], false)).await;
    assert_eq!(bot.committed(seq).await.unwrap_err().fields, ["commit.op_seq"], "another number");
    assert_eq!(bot.commit(1, vec![put("session", "8", "x")], vec![]).await.unwrap().revision, 1);
    let found = bot.get("session", &["1", "2", "8", "9"]).await.unwrap();
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn parts_that_do_not_all_come_are_dropped_and_their_memory_is_free_again() {
    let sidecar = Sidecar::start(Options::default().arg("--commit-buffer").arg("32MiB")).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let mut other = Attach::open(sidecar.channel(), open("other", "me")).await.unwrap();
    let value = || vec![7; 3 * MIB];
    let part = |n: usize, more| {
        let puts = vec![put("session", &n.to_string(), value())];
        Op::Commit(v1::Commit { op_seq: 1, puts, more, ..Default::default() })
    };
    let unfinished = bot.send(part(0, true)).await;
    for n in 1..10 {
        bot.send_part(part(n, true)).await;
    }
    // The parts are in once the same stream answers what came behind them.
    assert_eq!(bot.value("session", "0").await, None);
    // The buffer is one for all.
    let refused = other.commit(1, vec![put("session", "1", value())], vec![]).await.unwrap_err();
    assert_eq!(refused.why(), (Code::ResourceExhausted, "QUOTA"));
    assert!(refused.retry);
    assert_eq!(other.commit(1, vec![put("session", "1", "small")], vec![]).await.unwrap().revision, 1);
    let dropped = bot.committed(unfinished).await.unwrap_err();
    assert_eq!(dropped.why(), (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"));
    assert!(!dropped.outcome_unknown());
    bot.send_part(part(11, false)).await;
    assert_eq!(other.commit(2, vec![put("session", "1", value())], vec![]).await.unwrap().revision, 2);
    assert_eq!(bot.commit(1, vec![put("session", "20", value())], vec![]).await.unwrap().revision, 1);
    assert_eq!(bot.get("session", &["0", "1", "11"]).await.unwrap(), []);
}

/// tulir/whatsmeow and devlikeapro/waha#1406: large chains are kept whole; adiwajshing#1475, #1119: so are
/// creds of 8 MB.
#[tokio::test]
async fn creds_of_8_mb_and_a_hundred_versions_of_a_1_mb_session_are_kept_whole() {
    let (sidecar, mut bot) = attached().await;
    let history: Vec<String> = (0..50_000)
        .map(|n| format!(r#"{{"key":{{"remoteJid":"{n}@s.whatsapp.net","id":"3EB0{:032X}"}},"messageTimestamp":{n},"padding":"{:060}"}}"#, n * 7919, n))
        .collect();
    let creds = format!(r#"{{"processedHistoryMessages":[{}]}}"#, history.join(","));
    assert!(creds.len() > 8_000_000);
    let seq = bot.send_value(1, "creds", "creds", creds.as_bytes()).await;
    bot.committed(seq).await.unwrap();
    let mut chain = noise(4, MIB / 2);
    chain.extend(vec![b'a'; MIB / 2]);
    for n in 0..100 {
        chain[n] ^= 0xff;
        bot.commit(n as u64 + 2, vec![put("session", "1", chain.clone())], vec![]).await.unwrap();
    }
    assert!(bot.value("session", "1").await.unwrap() == chain);
    assert!(bot.value("creds", "creds").await.unwrap() == creds.as_bytes());
    let counts = Unary::of(&sidecar).info("bot").await.counts;
    let bytes = |ty: &str| {
        counts.iter().find(|one| one.r#type == ty).map_or(0, |one| usize::try_from(one.bytes).unwrap())
    };
    assert!(bytes("creds") < creds.len() / 2, "compressed: {}", bytes("creds"));
    assert!(bytes("session") > MIB / 2 && bytes("session") < MIB / 2 + 10_000, "{}", bytes("session"));
}

/// Baileys PR#2067, PR#2641: the same id once as an object, once as bytes; each comes back as what it was.
#[tokio::test]
async fn a_value_comes_back_as_the_kind_it_was_put_as() {
    let (_sidecar, mut bot) = attached().await;
    let with = |kind: ValueKind, value: &[u8]| {
        let mut put = put("session", "1", value);
        put.record.as_mut().unwrap().kind = kind.into();
        put
    };
    let json = br#"{"a":[1,2]}"#;
    let values: [(ValueKind, &[u8]); 4] = [
        (ValueKind::Json, json),
        (ValueKind::Bytes, &[0, 159, 146, 150]),
        (ValueKind::Text, "é\u{0}".as_bytes()),
        (ValueKind::Bytes, b""),
    ];
    for (n, (kind, value)) in values.into_iter().enumerate() {
        bot.commit(n as u64 + 1, vec![with(kind, value)], vec![]).await.unwrap();
        let record = bot.get("session", &["1"]).await.unwrap().remove(0);
        assert_eq!((record.kind(), record.value.as_ref(), record.revision), (kind, value, n as u64 + 1));
    }
    for kind in [ValueKind::Json, ValueKind::Text] {
        let refused = bot.commit(5, vec![with(kind, &[0xff, 0xfe])], vec![]).await.unwrap_err();
        assert_eq!(refused.fields, ["commit.puts[0].record.value"]);
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_costs_bounded_memory_and_keeps_its_lease() {
    let (sidecar, mut bot) = attached().await;
    bot.commit(1, vec![put("session", "1", noise(5, MIB))], vec![]).await.unwrap();
    drop(bot);
    let lease_ttl = Some(prost_types::Duration { seconds: 3, nanos: 0 });
    let mut bot = Attach::open(sidecar.channel(), v1::Open { lease_ttl, ..open("bot", "me") }).await.unwrap();
    let before = resident(sidecar.pid());
    let get =
        || Op::Get(v1::Get { queries: vec![v1::Query { r#type: "session".into(), ids: vec!["1".into()] }] });
    let mut sent = Vec::new();
    for _ in 0..600 {
        sent.push(bot.send_with(100_000, get()).await);
    }
    let mut most = 0;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        most = most.max(resident(sidecar.pid()));
    }
    assert!(most < before + 160 * MIB, "{} MiB more", (most - before) / MIB);
    let held = Attach::open(sidecar.channel(), open("bot", "other")).await.err().unwrap();
    assert_eq!(held.reason, "SESSION_HELD");
    for seq in sent {
        assert_eq!(bot.records(seq).await.unwrap()[0].value.len(), MIB);
    }
    assert_eq!(bot.commit(2, vec![put("session", "1", "x")], vec![]).await.unwrap().revision, 2);
}

/// Bytes of memory that a process has in use.
fn resident(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}
