//! Many records, many sessions, many writes: none lost, none slower than its own size.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use pannier::proto::v1::{self, attach_request::Op};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, delete, open, put},
    unary::Unary,
};

/// WhiskeySockets/Baileys#794, PR#824: 200 saves that nobody waits for leave the last one.
#[tokio::test]
async fn two_hundred_saves_that_nobody_waits_for_leave_the_last() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let mut sent = std::collections::VecDeque::new();
    for i in 0..200_u64 {
        // A client keeps 64 in flight and queues the rest itself.
        if sent.len() == 64 {
            bot.committed(sent.pop_front().unwrap()).await.unwrap();
        }
        let puts = vec![put("creds", "creds", format!(r#"{{"i":{i}}}"#))];
        sent.push_back(bot.send(Op::Commit(v1::Commit { op_seq: i + 1, puts, ..Default::default() })).await);
    }
    // The Close comes behind them all.
    bot.close().await;
    let creds = Unary::of(&sidecar).value("bot", "creds", "creds").await.unwrap();
    let creds: serde_json::Value = serde_json::from_slice(&creds).unwrap();
    assert_eq!(creds["i"], 199);
}

/// How long the append-only files are.
fn appended(valkey: &Valkey) -> u64 {
    let dir = valkey.dir.path().join("appendonlydir");
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

fn commands(valkey: &Valkey) -> HashMap<String, u64> {
    let info: String = valkey.command(&["INFO", "commandstats"]);
    info.lines()
        .filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), rest.split_once(',')?.0.parse().ok()?))
        })
        .collect()
}

/// adiwajshing/Baileys PR#1568: one key of 20 000 is written by itself, not with all the others.
#[tokio::test]
async fn a_write_of_one_record_writes_that_record_however_many_there_are() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let mut written = Vec::new();
    for (op_seq, count) in [(1, 100), (1000, 19_900)] {
        let from = op_seq * 1000;
        let puts = (0..count).map(|n| put("session", &(from + n).to_string(), vec![b'x'; 120])).collect();
        let op = bot.opened.last_op_seq + 1 + written.len() as u64 * 51;
        bot.commit(op, puts, vec![]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1200)).await;
        let (bytes, calls) = (appended(&valkey), commands(&valkey));
        for n in 0..50 {
            bot.commit(op + 1 + n, vec![put("session", "one", vec![b'y'; 200])], vec![]).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1200)).await;
        let each = (appended(&valkey) - bytes) / 50;
        assert!(each < 200 + 88 + 900, "{each} bytes a write of 200 with {count} more records");
        written.push(each);
        let calls_now = commands(&valkey);
        let more = |name: &str| calls_now.get(name).unwrap_or(&0) - calls.get(name).unwrap_or(&0);
        // And now and then one by which the sidecar says that it is there.
        let beside = more("time").saturating_sub(50).min(2) + 1;
        assert!(
            (50..=50 + beside).contains(&more("evalsha")),
            "one script a commit, not {}",
            more("evalsha")
        );
        assert_eq!(more("hgetall") + more("hscan") + more("hkeys"), 0, "nothing that grows with the session");
    }
    assert!(written[1] < written[0] + 64, "{written:?}: the same in a large session as in a small one");
}

/// Baileys#2797: what piles up can be seen.
#[tokio::test]
async fn five_thousand_pre_keys_are_counted_by_type() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let mut puts: Vec<_> = (1..=5241).map(|n| put("pre-key", &n.to_string(), vec![7; 64])).collect();
    puts.push(put("creds", "creds", "x"));
    bot.commit(1, puts, vec![]).await.unwrap();
    let used = (1..=52).map(|n| delete("pre-key", &n.to_string())).collect();
    bot.commit(2, vec![], used).await.unwrap();
    let counts = Unary::of(&sidecar).info("bot").await.counts;
    assert_eq!((counts[1].r#type.as_str(), counts[1].records), ("pre-key", 5241 - 52));
    let each = counts[1].bytes / counts[1].records;
    assert!((64..300).contains(&each), "{each}");
    assert_eq!(bot.opened.counts, [], "as it was at the Open");
}

/// Baileys#54, #936, #2317: a key that is missing is missing, not an error, so that Baileys uploads new ones.
#[tokio::test]
async fn a_missing_pre_key_is_left_out_of_the_answer() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let puts = (1..=30).map(|n| put("pre-key", &n.to_string(), n.to_string())).collect();
    bot.commit(1, puts, vec![]).await.unwrap();
    bot.commit(2, vec![], vec![delete("pre-key", "30")]).await.unwrap();
    drop(bot);
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let found = bot.get("pre-key", &["29", "30", "31"]).await.unwrap();
    assert_eq!(found.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["29"]);
    assert_eq!(bot.get("session", &["30"]).await.unwrap(), []);
    assert_eq!(bot.get("session", &[]).await.unwrap(), []);
}

/// openclaw#58480, #63496: who reads while it is written gets the old or the new, never nothing.
#[tokio::test]
async fn a_reader_beside_the_writer_sees_the_old_or_the_new() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "1"), put("session", "1", "1")], vec![]).await.unwrap();
    let mut reader = Unary::of(&sidecar);
    let reading = tokio::spawn(async move {
        let (mut last, mut seen) = (0, 0);
        while last < 400 {
            let queries = ["creds", "session"].map(|ty| v1::Query {
                r#type: ty.into(),
                ids: vec![if ty == "creds" { "creds".into() } else { "1".into() }],
            });
            let request = v1::GetRecordsRequest {
                session: "bot".into(),
                queries: queries.into(),
                ..Default::default()
            };
            let found = reader.client.get_records(request).await.unwrap().into_inner();
            let values: Vec<u64> = found
                .records
                .iter()
                .map(|one| std::str::from_utf8(&one.value).unwrap().parse().unwrap())
                .collect();
            assert_eq!(values, [found.revision, found.revision], "one snapshot");
            assert!(values[0] >= last, "never back");
            last = values[0];
            seen += 1;
        }
        seen
    });
    for n in 2..=400_u64 {
        let puts = vec![put("creds", "creds", n.to_string()), put("session", "1", n.to_string())];
        bot.commit(n, puts, vec![]).await.unwrap();
    }
    assert!(reading.await.unwrap() > 10);
}

/// Baileys#2267, adiwajshing#834: what was acknowledged a moment ago is there for whoever asks now.
#[tokio::test]
async fn a_read_elsewhere_right_after_a_write_sees_it() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let mut elsewhere = Unary::of(&sidecar);
    for n in 1..=200_u64 {
        let id = format!("key-{n}");
        bot.commit(n, vec![put("app-state-sync-key", &id, id.clone())], vec![]).await.unwrap();
        assert_eq!(elsewhere.value("bot", "app-state-sync-key", &id).await, Some(id.clone().into_bytes()));
    }
}

/// tulir/whatsmeow#505, #298, devlikeapro/waha#1503: a shared store that locks drops messages.
#[tokio::test]
async fn thirty_two_sessions_of_fifty_writes_a_second_have_no_error() {
    let sidecar = Arc::new(Sidecar::start(Options::default()).await);
    let mut tasks = Vec::new();
    for n in 0..32 {
        let sidecar = sidecar.clone();
        tasks.push(tokio::spawn(async move {
            let mut bot = Attach::open(sidecar.channel(), open(&format!("bot-{n}"), "me")).await.unwrap();
            let begin = Instant::now();
            for op_seq in 1..=100_u64 {
                let puts = vec![
                    put("session", &format!("{}.0", op_seq % 20), vec![n; 1500]),
                    put("creds", "creds", op_seq.to_string()),
                ];
                bot.commit(op_seq, puts, vec![]).await.unwrap();
                let due = begin + Duration::from_millis(20) * u32::try_from(op_seq).unwrap();
                tokio::time::sleep(due.saturating_duration_since(Instant::now())).await;
            }
            assert_eq!(bot.value("creds", "creds").await, Some(b"100".to_vec()));
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}
