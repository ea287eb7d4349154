//! More than the sidecar can take: what is accepted goes on as before, the rest is refused at once and told when to come again, memory
//! stays within its budget, and afterwards all is normal at once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::match_wild_err_arm
)]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use pannier::proto::v1::{self, pipe_request::Call, pipe_response::Answer};
use support::{
    Options, ServingStatus, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, Refused, open, put},
    process::resident,
    small::{Pipe, claim, rid},
    unary::{Unary, commit},
    wire::Wire,
};
use tonic::{Code, Status};

const MIB: usize = 1 << 20;

/// Refused for want of room, and told when to come again.
fn is_shed(status: &Status) -> bool {
    let refused = Refused::of_status(status);
    let shed = refused.code == Code::ResourceExhausted
        && ["TOO_MANY_IN_FLIGHT", "QUOTA"].contains(&refused.reason.as_str());
    assert!(!shed || refused.retry, "not told when to come again: {refused:?}");
    assert!(!shed || !refused.outcome_unknown(), "nothing was done: {refused:?}");
    shed
}

async fn start(args: &[&str]) -> (Valkey, Sidecar) {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "everysec"));
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let sidecar = Sidecar::start(Options { args, envs: quiet(), ..Options::with(&valkey) }).await;
    (valkey, sidecar)
}

/// A log of each refusal would be what is measured.
fn quiet() -> Vec<(String, String)> {
    vec![("PANNIER_LOG_LEVEL".into(), "warn".into())]
}

async fn make_session(sidecar: &Sidecar, name: &str) {
    let mut bot = Attach::open(sidecar.channel(), open(name, "setup")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", *b"x")], vec![]).await.unwrap();
    bot.close().await;
}

#[tokio::test]
async fn one_call_too_many_is_refused_at_once_and_the_next_after_one_ended_is_not() {
    let (valkey, mut sidecar) = start(&["--max-in-flight=8"]).await;
    make_session(&sidecar, "bot").await;
    valkey.sigstop();
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let mut unary = Unary::of(&sidecar);
            tokio::spawn(async move { unary.get("bot", "creds", &["creds"]).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    let refused = Unary::of(&sidecar).session("bot").await.unwrap_err();
    assert_eq!(refused.why(), (Code::ResourceExhausted, "TOO_MANY_IN_FLIGHT"));
    assert!(refused.retry && begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(refused.message.contains("--max-in-flight"), "{refused:?}");
    // Whoever asks whether it lives is told: an orchestrator must not kill it for being busy.
    assert!(sidecar.serving("").await.is_some());
    valkey.sigcont();
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap().len(), 1);
    }
    sidecar.wait_status(ServingStatus::Serving, Duration::from_secs(10)).await;
    Unary::of(&sidecar).session("bot").await.unwrap();
}

#[tokio::test]
async fn streams_have_a_room_of_their_own() {
    let (_valkey, sidecar) = start(&["--max-streams=3", "--max-in-flight=1"]).await;
    let mut bots = Vec::new();
    for n in 0..3 {
        bots.push(Attach::open(sidecar.channel(), open(&format!("bot-{n}"), "me")).await.unwrap());
    }
    let refused = Attach::open(sidecar.channel(), open("bot-3", "me")).await.err().unwrap();
    assert_eq!(refused.why(), (Code::ResourceExhausted, "TOO_MANY_IN_FLIGHT"));
    assert!(refused.retry && refused.message.contains("--max-streams"), "{refused:?}");
    // The others work on, and unary calls have room.
    for bot in &mut bots {
        bot.commit(1, vec![put("creds", "creds", *b"x")], vec![]).await.unwrap();
    }
    assert_eq!(Unary::of(&sidecar).info("bot-0").await.revision, 1);
    bots.pop().unwrap().close().await;
    let begun = Instant::now();
    while Attach::open(sidecar.channel(), open("bot-3", "me")).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(5), "the room of one that left is not free");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn one_session_does_not_take_the_room_of_the_others() {
    let (valkey, sidecar) = start(&["--session-in-flight=4"]).await;
    for name in ["loud", "calm"] {
        make_session(&sidecar, name).await;
    }
    valkey.sigstop();
    let calls = |name: &'static str, count: usize| -> Vec<_> {
        (0..count)
            .map(|_| {
                let mut unary = Unary::of(&sidecar);
                tokio::spawn(async move { unary.get(name, "creds", &["creds"]).await })
            })
            .collect()
    };
    let loud = calls("loud", 10);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let calm = calls("calm", 4);
    tokio::time::sleep(Duration::from_millis(300)).await;
    // A person comes through, whatever a bot does.
    let person = tokio::spawn({
        let mut unary = Unary::of(&sidecar);
        async move { unary.session("loud").await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    valkey.sigcont();
    let mut refused = 0;
    for call in loud {
        if let Err(error) = call.await.unwrap() {
            assert_eq!(error.why(), (Code::ResourceExhausted, "TOO_MANY_IN_FLIGHT"));
            assert!(error.retry && error.message.contains("--session-in-flight"), "{error:?}");
            refused += 1;
        }
    }
    assert_eq!(refused, 6);
    for call in calm {
        assert_eq!(call.await.unwrap().unwrap().len(), 1);
    }
    person.await.unwrap().unwrap();
    // And the count is given back.
    for _ in 0..10 {
        Unary::of(&sidecar).get("loud", "creds", &["creds"]).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_pipe_has_in_flight_is_bounded_by_memory_too() {
    let (valkey, sidecar) = start(&["--memory-budget=32MiB"]).await;
    let mut pipe = Pipe::open(&sidecar).await;
    pipe.call(Call::Claim(claim("first"))).await.unwrap();
    valkey.sigstop();
    let advance = |n: usize| v1::AdvanceRequest {
        id: format!("chat-{n}"),
        request_id: rid(),
        set: [("f".to_owned(), vec![b'x'; 200 << 10].into())].into(),
        ..Default::default()
    };
    for n in 0..60 {
        pipe.send(Call::Advance(advance(n))).await;
    }
    let mut refused = 0;
    // Those are answered at once, the others wait for Valkey.
    for _ in 0..15 {
        let Some((_, Err(error))) = pipe.next().await else { panic!("not refused") };
        assert_eq!(error.why(), (Code::ResourceExhausted, "QUOTA"));
        assert!(error.retry && error.message.contains("--memory-budget"), "{error:?}");
        refused += 1;
    }
    valkey.sigcont();
    let mut done = 0;
    while refused + done < 60 {
        match pipe.next().await.unwrap().1 {
            Ok(Answer::Advance(_)) => done += 1,
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error.why(), (Code::ResourceExhausted, "QUOTA"));
                refused += 1;
            }
        }
    }
    assert!(done >= 30, "{done} were done");
    pipe.call(Call::Advance(advance(99))).await.unwrap();
}

/// What the callers have seen.
#[derive(Default)]
struct Seen {
    accepted: Vec<Duration>,
    shed: Vec<Duration>,
}

impl Seen {
    fn at(times: &mut [Duration], percent: usize) -> Duration {
        times.sort_unstable();
        times
            .get((times.len() * percent / 100).min(times.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }

    fn tell(&mut self, what: &str, over: Duration) -> Duration {
        let (p50, p99) = (Self::at(&mut self.accepted, 50), Self::at(&mut self.accepted, 99));
        let (shed50, shed99) = (Self::at(&mut self.shed, 50), Self::at(&mut self.shed, 99));
        println!(
            "{what}: {} accepted ({:.0}/s, p50 {p50:.1?}, p99 {p99:.1?}), {} refused (p50 {shed50:.1?}, p99 {shed99:.1?})",
            self.accepted.len(),
            self.accepted.len() as f64 / over.as_secs_f64(),
            self.shed.len(),
        );
        p99
    }
}

/// So many callers, each with one commit at a time on a session of its own, for so long. Those who are refused come again when
/// they were told to.
async fn drive(
    sidecar: &Sidecar,
    callers: usize,
    size: usize,
    during: Duration,
    op_seq: &Arc<AtomicU64>,
) -> Seen {
    let (stop, begun) = (Arc::new(AtomicBool::new(false)), Instant::now());
    let mut tasks = Vec::new();
    let mut wires = Vec::new();
    for _ in 0..4 {
        wires.push(Wire::to(sidecar, 10_000).await);
    }
    for n in 0..callers {
        let (stop, wire, op_seq) = (Arc::clone(&stop), wires[n % 4].clone(), Arc::clone(op_seq));
        tasks.push(tokio::spawn(async move {
            let mut client = v1::session_service_client::SessionServiceClient::new(wire);
            let value = support::blob::content(n as u64, size);
            let mut seen = Seen::default();
            while !stop.load(Ordering::Relaxed) {
                let number = op_seq.fetch_add(1, Ordering::Relaxed);
                let puts = vec![put("session", "1.0", value.clone())];
                // A writer of its own each time: nobody waits for a number that was refused.
                let request = commit(&format!("bot-{}", n % SESSIONS), &format!("w-{n}-{number}"), 1, puts);
                let one = Instant::now();
                match client.commit_records(request).await {
                    Ok(_) => seen.accepted.push(one.elapsed()),
                    Err(status) if is_shed(&status) => {
                        seen.shed.push(one.elapsed());
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    // Others write this session at the same time.
                    Err(status) if status.code() == tonic::Code::Aborted => {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    Err(status) => panic!("neither done nor refused: {status:?}"),
                }
            }
            seen
        }));
    }
    tokio::time::sleep(during.saturating_sub(begun.elapsed())).await;
    stop.store(true, Ordering::Relaxed);
    let mut all = Seen::default();
    for task in tasks {
        let seen = task.await.unwrap();
        all.accepted.extend(seen.accepted);
        all.shed.extend(seen.shed);
    }
    all
}

const SESSIONS: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_times_too_much_is_shed_within_memory_and_leaves_no_trace() {
    const CAPACITY: usize = 32;
    const BUDGET: usize = 64 * MIB;
    const SIZE: usize = 256 << 10;
    let soak = std::env::var_os("PANNIER_SOAK").is_some();
    let during = Duration::from_secs(if soak { 60 } else { 10 });
    let (_valkey, sidecar) =
        start(&["--max-in-flight=32", "--memory-budget=64MiB", "--commit-buffer=32MiB"]).await;
    for n in 0..SESSIONS {
        make_session(&sidecar, &format!("bot-{n}")).await;
    }
    let op_seq = Arc::new(AtomicU64::new(1));
    drive(&sidecar, CAPACITY / 2, SIZE, Duration::from_secs(2), &op_seq).await;
    let before = resident(sidecar.pid());
    let half_during = during / 3;
    let mut half = drive(&sidecar, CAPACITY / 2, SIZE, half_during, &op_seq).await;
    let half_p99 = half.tell("half load", half_during);
    assert!(half.shed.is_empty(), "at half load nothing is refused");

    let most = Arc::new(AtomicU64::new(0));
    let watching = tokio::spawn({
        let (pid, most) = (sidecar.pid(), Arc::clone(&most));
        async move {
            loop {
                most.fetch_max(resident(pid) as u64, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    let mut over = drive(&sidecar, CAPACITY * 10, SIZE, during, &op_seq).await;
    watching.abort();
    let over_p99 = over.tell("ten times capacity", during);
    let most = most.load(Ordering::Relaxed) as usize;
    println!("memory: {} MiB before, {} MiB at most; budgets of 64 MiB and 32 MiB", before / MIB, most / MIB);
    println!(
        "p99 of what was accepted: {:.1} times that at half load",
        over_p99.as_secs_f64() / half_p99.as_secs_f64()
    );
    assert!(most < before + BUDGET + 32 * MIB, "{} MiB", most / MIB);
    assert!(!over.accepted.is_empty() && over.shed.len() > over.accepted.len() / 10, "it was not overload");
    // The machine is shared with the 320 callers: what counts is that nobody queues.
    let refused_within = Seen::at(&mut over.shed, 50);
    assert!(refused_within < Duration::from_secs(1), "half of those refused waited {refused_within:?}");
    assert!(over_p99 < 20 * half_p99.max(Duration::from_millis(50)), "{over_p99:?} after {half_p99:?}");

    let mut after = drive(&sidecar, CAPACITY / 2, SIZE, half_during, &op_seq).await;
    let after_p99 = after.tell("half load again", half_during);
    assert!(after.shed.is_empty(), "room was not given back");
    assert!(after_p99 < 5 * half_p99.max(Duration::from_millis(50)), "{after_p99:?} after {half_p99:?}");
}

/// Replies that nobody reads do not fill the memory: they are what new calls are refused for.
#[tokio::test]
async fn readers_that_do_not_read_cost_others_nothing_but_a_refusal() {
    let (_valkey, sidecar) = start(&["--memory-budget=32MiB"]).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let value = support::blob::content(1, 3 * MIB);
    bot.commit(1, vec![put("session", "1.0", value.clone())], vec![]).await.unwrap();
    bot.close().await;
    let before = resident(sidecar.pid());
    // A window of 64 KiB that is never enlarged, and nobody who polls the answers.
    let stream = tokio::net::UnixStream::connect(&sidecar.socket).await.unwrap();
    let mut builder = hyper::client::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
    builder.initial_stream_window_size(64 << 10).initial_connection_window_size(64 << 10);
    let (sender, connection) = builder.handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let query = v1::Query { r#type: "session".into(), ids: vec!["1.0".into()] };
    let request = v1::GetRecordsRequest { session: "bot".into(), queries: vec![query], ..Default::default() };
    let mut unread = Vec::new();
    let mut refused = 0;
    for _ in 0..200 {
        let response = Box::pin(raw(sender.clone(), &request));
        match tokio::time::timeout(Duration::from_millis(400), response).await {
            Ok(response) if response.headers().contains_key("grpc-status") => refused += 1,
            Ok(response) => unread.push(response),
            Err(_) => panic!("not answered"),
        }
    }
    let grown = resident(sidecar.pid()).saturating_sub(before);
    // A refusal needs no room on the line: it is read.
    for response in &mut unread {
        let body = std::pin::Pin::new(response.body_mut());
        let frame =
            tokio::time::timeout(Duration::from_millis(5), http_body_util::BodyExt::frame(body.get_mut()))
                .await;
        refused += usize::from(matches!(frame, Ok(Some(Ok(frame))) if frame.is_trailers()));
    }
    println!("{} replies, {refused} of them refused, {} MiB more than before", unread.len(), grown / MIB);
    assert!(refused >= 180, "{refused}");
    assert!(grown < 80 * MIB, "{} MiB", grown / MIB);
    drop((unread, sender));
    let begun = Instant::now();
    while Unary::of(&sidecar).value("bot", "session", "1.0").await.as_ref() != Some(&value) {
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}

async fn raw(
    mut sender: hyper::client::conn::http2::SendRequest<http_body_util::Full<bytes::Bytes>>,
    message: &impl prost::Message,
) -> http::Response<hyper::body::Incoming> {
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
    frame.extend(message.encode_to_vec());
    let request = http::Request::post("http://localhost/pannier.v1.SessionService/GetRecords")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(http_body_util::Full::new(bytes::Bytes::from(frame)))
        .unwrap();
    sender.send_request(request).await.unwrap()
}
