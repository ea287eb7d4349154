//! Processes die and servers refuse at any moment: what was acknowledged is there, and nothing is there by halves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{self, attach_request::Op, attach_response::Event, delete_session_request::Mode};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, delete, open, put},
    link::allowed,
    unary::Unary,
};
use tonic::Code;

const SECOND: Duration = Duration::from_secs(1);

/// How many kills: ten times as many with `PANNIER_SOAK=1`, twenty with 2 …
fn rounds(usual: u64) -> u64 {
    std::env::var("PANNIER_SOAK")
        .ok()
        .and_then(|n| n.parse::<u64>().ok())
        .map_or(usual, |n| usual * 10 * n.max(1))
}

/// The same sequence for the same seed, which is printed.
struct Random(u64);

impl Random {
    fn new(name: &str) -> Self {
        let seed = std::env::var("PANNIER_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) << 20 | 0x5eed);
        eprintln!("{name}: PANNIER_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Commit n: the counter says n, `a-n` and `b-n` come, `a-(n-1)` goes, and pre-key n goes in the same commit that brings session n.
fn step(n: u64) -> v1::Commit {
    let text = n.to_string();
    let puts = vec![
        put("creds", "creds", text.clone()),
        put("session", &format!("a-{n}"), vec![b'a'; 700]),
        put("sender-key", &format!("b-{n}"), text.clone()),
        put("pre-key", &(n + 1).to_string(), text),
    ];
    let deletes = vec![delete("session", &format!("a-{}", n - 1)), delete("pre-key", &n.to_string())];
    v1::Commit { op_seq: n, puts, deletes, ..Default::default() }
}

/// Asserts that the session is exactly what commit `n` left, with what commits from `from` on left for good.
async fn is_exactly(bot: &mut Attach, from: u64, n: u64) {
    let creds = bot.value("creds", "creds").await.map(|value| String::from_utf8(value).unwrap());
    assert_eq!(creds, (n > 0).then(|| n.to_string()), "the counter");
    if n == 0 {
        return;
    }
    let names = [n - 1, n, n + 1].map(|n| format!("a-{n}"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = bot.get("session", &names).await.unwrap();
    assert_eq!(found.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [names[1]]);
    let names = [n.to_string(), (n + 1).to_string(), (n + 2).to_string()];
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = bot.get("pre-key", &names).await.unwrap();
    assert_eq!(found.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [names[1]]);
    let all: Vec<String> = (from..=n).map(|n| format!("b-{n}")).collect();
    for ids in all.chunks(1000) {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        assert_eq!(bot.get("sender-key", &ids).await.unwrap().len(), ids.len(), "none before it is missing");
    }
}

/// Sends commits from `from` on without waiting; gives the last one acknowledged once the stream has ended or all are done.
async fn burst(mut bot: Attach, from: u64, count: u64) -> (Attach, u64) {
    let mut acknowledged = from - 1;
    let (mut sent, mut next) = (std::collections::VecDeque::new(), from);
    loop {
        while sent.len() < 48 && next < from + count {
            sent.push_back((next, bot.send(Op::Commit(step(next))).await));
            next += 1;
        }
        let Some((n, seq)) = sent.pop_front() else { return (bot, acknowledged) };
        match bot.committed(seq).await {
            Ok(committed) => {
                assert_eq!(n, acknowledged + 1, "acknowledged in order");
                // One that had happened before Valkey died tells the revision of now.
                assert!(committed.revision == n || (committed.replayed && committed.revision > n));
                acknowledged = n;
            }
            Err(_) => return (bot, acknowledged),
        }
    }
}

/// Baileys#1404, #1245 (cases 3, 7 and 17): killed at any moment, a commit is there whole or not at all.
#[tokio::test]
async fn killed_at_random_the_sidecar_loses_nothing_acknowledged_and_leaves_nothing_by_halves() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let mut sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut random = Random::new("kill the sidecar");
    let mut last = 0;
    for round in 0..rounds(40) {
        let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
        assert_eq!(bot.opened.last_op_seq, last, "round {round}");
        is_exactly(&mut bot, last.saturating_sub(600).max(1), last).await;
        let burst = tokio::spawn(burst(bot, last + 1, u64::MAX / 2));
        tokio::time::sleep(Duration::from_micros(random.below(45_000))).await;
        sidecar.kill9();
        let (_, acknowledged) = burst.await.unwrap();
        sidecar.spawn();
        sidecar.wait_serving(30 * SECOND).await;
        let info = Unary::of(&sidecar).info("bot").await;
        assert!(info.revision >= acknowledged, "{} of {acknowledged} acknowledged", info.revision);
        last = info.revision;
    }
    assert!(last > rounds(40), "there was something to lose: {last}");
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    is_exactly(&mut bot, 1, last).await;
}

#[tokio::test]
async fn killed_at_random_valkey_loses_nothing_acknowledged_and_the_stream_goes_on() {
    let mut valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "always"));
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut random = Random::new("kill valkey");
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    assert_eq!(bot.opened.durability(), v1::Durability::Fsync);
    let fence = bot.opened.fence;
    let mut last = 0;
    for round in 0..rounds(12) {
        let count = 300;
        let burst = tokio::spawn(burst(bot, last + 1, count));
        tokio::time::sleep(Duration::from_micros(random.below(60_000))).await;
        valkey.kill9();
        tokio::time::sleep(Duration::from_millis(random.below(400))).await;
        valkey.spawn();
        let (again, acknowledged) = burst.await.unwrap();
        bot = again;
        // Every commit has 10 s and Valkey was away for less: the stream sent them again itself.
        assert_eq!(acknowledged, last + count, "round {round}");
        last = acknowledged;
        is_exactly(&mut bot, 1, last).await;
    }
    assert_eq!(Unary::of(&sidecar).info("bot").await.lease.unwrap().fence, fence, "one stream all along");
}

/// Baileys PR#2675, NousResearch/hermes-agent#84180: a full disk or memory must not cost the creds.
#[tokio::test]
async fn a_full_valkey_refuses_writes_keeps_what_is_there_and_reads_on() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let lease_ttl = Some(prost_types::Duration { seconds: 3, nanos: 0 });
    let mut bot = Attach::open(sidecar.channel(), v1::Open { lease_ttl, ..open("bot", "me") }).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "old"), put("session", "1", "old")], vec![]).await.unwrap();
    let _: String = valkey.command(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let full = (Code::ResourceExhausted, "VALKEY_OUT_OF_MEMORY");
    let fence = bot.opened.fence;
    for op_seq in [2, 2] {
        let refused = bot.commit(op_seq, vec![put("creds", "creds", "new")], vec![]).await.unwrap_err();
        assert_eq!(refused.why(), full);
        assert!(!refused.outcome_unknown(), "nothing was written");
    }
    assert_eq!(bot.value("creds", "creds").await, Some(b"old".to_vec()));
    let made = Attach::open(sidecar.channel(), open("another", "me")).await.err().unwrap();
    assert_eq!(made.why(), full);
    assert!(!Unary::of(&sidecar).session("another").await.unwrap().exists);
    // The lease is renewed meanwhile.
    tokio::time::sleep(Duration::from_millis(4500)).await;
    let held = Unary::of(&sidecar).info("bot").await.lease.unwrap();
    assert!(held.live && held.fence == fence);
    // What makes room is let through.
    assert_eq!(bot.clear(2).await.unwrap().revision, 2);
    assert_eq!(bot.commit(3, vec![put("creds", "creds", "x")], vec![]).await.unwrap_err().why(), full);
    bot.close().await;
    assert!(Unary::of(&sidecar).delete("bot", Mode::Soft).await.unwrap().deleted);
    assert!(Unary::of(&sidecar).delete("bot", Mode::Shred).await.unwrap().deleted);
    let _: String = valkey.command(&["CONFIG", "SET", "maxmemory", "0"]);
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    assert!(bot.opened.created);
    bot.commit(1, vec![put("creds", "creds", "new")], vec![]).await.unwrap();
}

#[tokio::test]
async fn a_valkey_that_turns_read_only_is_waited_for_and_used_again() {
    let valkey = Valkey::start(ValkeyOptions::default().set("replica-serve-stale-data", "yes"));
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "1")], vec![]).await.unwrap();
    let port = support::valkey::free_port().to_string();
    let _: String = valkey.command(&["REPLICAOF", "127.0.0.1", &port]);
    let begin = Instant::now();
    let commit = |op_seq| {
        Op::Commit(v1::Commit {
            op_seq,
            puts: vec![put("creds", "creds", op_seq.to_string())],
            ..Default::default()
        })
    };
    let short = bot.send_with(700, commit(2)).await;
    let refused = bot.committed(short).await.unwrap_err();
    assert!(matches!(refused.code, Code::Unavailable | Code::DeadlineExceeded), "{refused:?}");
    assert!(begin.elapsed() < allowed(Duration::from_millis(700)), "{:?}", begin.elapsed());
    let long = bot.send_with(20_000, commit(2)).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    let _: String = valkey.command(&["REPLICAOF", "NO", "ONE"]);
    let back = Instant::now();
    assert_eq!(bot.committed(long).await.unwrap().revision, 2);
    assert!(back.elapsed() < allowed(5 * SECOND), "{:?}", back.elapsed());
    assert_eq!(bot.value("creds", "creds").await, Some(b"2".to_vec()));
}

#[tokio::test]
async fn with_valkey_away_calls_fail_in_time_and_come_back_by_themselves() {
    let mut valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "always"));
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "1")], vec![]).await.unwrap();
    valkey.kill9();
    let begin = Instant::now();
    let get = v1::Get { queries: vec![v1::Query { r#type: "creds".into(), ids: vec!["creds".into()] }] };
    let read = bot.send_with(500, Op::Get(get)).await;
    let refused = bot.records(read).await.unwrap_err();
    assert!(matches!(refused.code, Code::Unavailable | Code::DeadlineExceeded), "{refused:?}");
    assert!(begin.elapsed() < allowed(Duration::from_millis(500)));
    let begin = Instant::now();
    let refused = Attach::open_with(sidecar.channel(), open("other", "me"), 800).await.err().unwrap();
    assert!(matches!(refused.code, Code::Unavailable | Code::DeadlineExceeded), "{refused:?}");
    assert!(begin.elapsed() < allowed(Duration::from_millis(800)));
    let mut request =
        tonic::Request::new(v1::GetSessionRequest { session: "bot".into(), ..Default::default() });
    request.set_timeout(Duration::from_millis(600));
    let begin = Instant::now();
    let status = sidecar.sessions().get_session(request).await.unwrap_err();
    assert!(
        matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled),
        "{status:?}"
    );
    assert!(begin.elapsed() < allowed(Duration::from_millis(600)));
    valkey.spawn();
    let back = Instant::now();
    let until = back + allowed(5 * SECOND);
    while let Err(refused) = bot.commit(2, vec![put("creds", "creds", "2")], vec![]).await {
        assert!(refused.code == Code::Unavailable && Instant::now() < until, "{refused:?}");
    }
    assert!(back.elapsed() < allowed(5 * SECOND), "{:?}", back.elapsed());
    assert_eq!(bot.value("creds", "creds").await, Some(b"2".to_vec()));
}

/// Whatever is asked while Valkey restarts is answered once it is back, within its own time, and not refused on the way.
#[tokio::test]
async fn calls_that_meet_a_restart_of_valkey_are_answered_after_it() {
    let mut valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "always"));
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "1")], vec![]).await.unwrap();
    let mut random = Random::new("calls over a restart");
    for round in 0..rounds(6) {
        let session = format!("other-{round}");
        let channel = sidecar.channel();
        let opening = tokio::spawn(async move {
            let mut asked = 0;
            let until = Instant::now() + Duration::from_millis(700);
            while Instant::now() < until {
                let other = Attach::open(channel.clone(), open(&format!("{session}-{asked}"), "me")).await;
                other.expect("open").close().await;
                asked += 1;
            }
            asked
        });
        let mut unary = Unary::of(&sidecar);
        let asking = tokio::spawn(async move {
            let (mut asked, until) = (0, Instant::now() + Duration::from_millis(700));
            while Instant::now() < until {
                unary.session("bot").await.expect("get session");
                unary.get("bot", "creds", &["creds"]).await.expect("get records");
                let list = v1::ListSessionsRequest::default();
                unary.client.list_sessions(list).await.expect("list sessions");
                asked += 1;
            }
            asked
        });
        tokio::time::sleep(Duration::from_millis(100 + random.below(100))).await;
        valkey.kill9();
        let op_seq = 2 + round;
        let clearing = bot.send(Op::Clear(v1::ClearSession { op_seq, ..Default::default() })).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        valkey.spawn();
        let Event::Cleared(cleared) = bot.reply(clearing).await.unwrap() else { panic!("not cleared") };
        assert_eq!(cleared.revision, op_seq);
        assert!(opening.await.unwrap() > 0);
        assert!(asking.await.unwrap() > 0);
    }
}
