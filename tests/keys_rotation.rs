//! A whole rotation, by the commands that a person gives: everything stays readable, no call fails, and the old key is of
//! no use afterwards.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use pannier::proto::v1::{self, KeyState, claim_response, delete_session_request::Mode};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
    blob::content,
    caps, conversations, keys,
    schedule::{Queue, job},
    small::{claim, complete, consume, step},
    unary::Unary,
};
use tokio::task::JoinSet;

const P: KeyState = KeyState::Primary;
const D: KeyState = KeyState::DecryptOnly;
const X: KeyState = KeyState::Disabled;

/// dapr/dapr#4341: a rotation that can be ended. Ten sessions, an archive, blobs, what claims and conversations keep.
#[tokio::test]
async fn everything_is_readable_after_its_first_key_is_gone() {
    let (_valkey, mut sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 10).await;
    let mut unary = Unary::of(&sidecar);
    let archive = unary.delete("bot-9", Mode::Soft).await.unwrap().archive.unwrap();
    keys::make_sessions(&sidecar, "other", 1).await;
    let archive_in_blob = content(7, 300_000);
    sidecar.blobs().save("bot-0", &archive_in_blob).await.unwrap();
    sidecar.blobs().save("alone", b"small").await.unwrap();
    let claimed = sidecar.dedup().claim(claim("wamid.1")).await.unwrap().into_inner();
    sidecar.dedup().complete_claim(complete("wamid.1", claimed.fence, b"the answer")).await.unwrap();
    conversations::go(&sidecar, step("5255", "awaiting_amount")).await;
    Queue::of(&sidecar, "reminders").add(job("one")).await;

    let before = keys::wraps(&sidecar, 1).await;
    let counts = (before.sessions, before.archives, before.blobs, before.namespaces, before.owners);
    assert_eq!(counts, (10, 1, 2, 1, 14));

    assert!(keys::done(&sidecar, &["add"]).contains("key 2 was added"));
    keys::reload(&sidecar, &[(1, P), (2, D)]).await;
    assert!(keys::done(&sidecar, &["promote", "2"]).contains("key 2 is the primary now"));
    keys::reload(&sidecar, &[(1, D), (2, P)]).await;
    let said = keys::refused(&sidecar, &["disable", "1"], 1);
    assert!(
        said.contains("still wraps 14 root keys (10 sessions, 1 archives, 2 blobs, 1 namespaces)"),
        "{said}"
    );

    let moved = keys::shown(&sidecar, &["rewrap"]);
    assert_eq!((moved["moved"].as_u64(), moved["failed"].as_u64()), (Some(14), Some(0)), "{moved}");
    let again = keys::shown(&sidecar, &["rewrap"]);
    assert_eq!((again["moved"].as_u64(), again["skipped"].as_u64()), (Some(0), Some(14)), "{again}");
    assert_eq!((keys::wraps(&sidecar, 1).await.owners, keys::wraps(&sidecar, 2).await.owners), (0, 14));

    assert!(keys::refused(&sidecar, &["remove", "1"], 78).contains("only a disabled key can be removed"));
    assert!(keys::done(&sidecar, &["disable", "1"]).contains("key 1 is disabled"));
    let said = keys::refused(&sidecar, &["remove", "1", "--yes"], 1);
    assert!(
        said.contains("still in use by a running sidecar") && said.contains(&format!(":{}", sidecar.pid())),
        "{said}"
    );
    keys::reload(&sidecar, &[(1, X), (2, P)]).await;
    assert!(keys::refused(&sidecar, &["remove", "1"], 64).contains("--yes"), "what destroys asks");
    assert!(keys::done(&sidecar, &["remove", "1", "--yes"]).contains("key 1 is gone"));
    keys::reload(&sidecar, &[(2, P)]).await;

    for restarted in [false, true] {
        if restarted {
            sidecar.restart().await;
        }
        keys::check_sessions(&sidecar, "bot", 9).await;
        assert_eq!(sidecar.blobs().fetch("bot-0").await.unwrap(), archive_in_blob);
        assert_eq!(sidecar.blobs().fetch("alone").await.unwrap(), b"small");
        let known = sidecar.dedup().claim(claim("wamid.1")).await.unwrap().into_inner();
        assert_eq!(
            (known.outcome(), &known.result[..]),
            (claim_response::Outcome::Duplicate, &b"the answer"[..])
        );
        assert_eq!(conversations::read(&sidecar, "5255").await.step, "awaiting_amount");
        assert_eq!(Queue::of(&sidecar, "reminders").get("one").await.unwrap().payload, job("one").payload);
    }
    let mut unary = Unary::of(&sidecar);
    unary.restore("bot-9", archive.incarnation, false).await.unwrap();
    keys::check_sessions(&sidecar, "bot", 10).await;
}

/// What the traffic has done.
#[derive(Default)]
struct Traffic {
    calls: AtomicU64,
    stop: AtomicBool,
}

/// One kind of call, again and again until told to stop. A call that fails ends the test.
fn go_on<F: Future<Output = ()> + Send + 'static>(
    tasks: &mut JoinSet<()>,
    traffic: &Arc<Traffic>,
    mut call: impl FnMut(u64) -> F + Send + 'static,
) {
    let traffic = Arc::clone(traffic);
    tasks.spawn(async move {
        for n in 0.. {
            if traffic.stop.load(Ordering::Relaxed) {
                return;
            }
            call(n).await;
            traffic.calls.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

fn start_traffic(tasks: &mut JoinSet<()>, traffic: &Arc<Traffic>, sidecar: &Sidecar, who: &'static str) {
    // An attached bot, which holds its root key for as long as it is attached.
    let (channel, also) = (sidecar.channel(), Arc::clone(traffic));
    tasks.spawn(async move {
        let mut attach = Attach::open(channel, open(&format!("attached-{who}"), who)).await.unwrap();
        for op in 1.. {
            if also.stop.load(Ordering::Relaxed) {
                return attach.close().await;
            }
            attach.commit(op, vec![put("session", "peer", op.to_string())], Vec::new()).await.unwrap();
            assert_eq!(attach.value("session", "peer").await.unwrap(), op.to_string().into_bytes());
            also.calls.fetch_add(2, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    // Bots that come and go, are deleted and come back: their root keys move within their heads.
    let channel = sidecar.channel();
    let unary = Unary::of(sidecar);
    go_on(tasks, traffic, move |n| {
        let (channel, mut unary, name) = (channel.clone(), unary.clone(), format!("coming-{who}-{}", n % 7));
        async move {
            let mut attach = Attach::open(channel, open(&name, who)).await.unwrap();
            let op = attach.opened.last_op_seq + 1;
            attach.commit(op, vec![put("creds", "creds", keys::value(&name))], Vec::new()).await.unwrap();
            attach.close().await;
            let archive = unary.delete(&name, Mode::Soft).await.unwrap().archive.unwrap();
            unary.restore(&name, archive.incarnation, false).await.unwrap();
            assert_eq!(unary.value(&name, "creds", "creds").await, Some(keys::value(&name)));
        }
    });
    let blobs = sidecar.blobs();
    go_on(tasks, traffic, move |n| {
        let (blobs, name) = (blobs.clone(), format!("blob-{who}-{}", n % 5));
        async move {
            let bytes = content(n + 1, 20_000);
            blobs.save(&name, &bytes).await.unwrap();
            assert_eq!(blobs.fetch(&name).await.unwrap(), bytes);
        }
    });
    let dedup = sidecar.dedup();
    go_on(tasks, traffic, move |n| {
        let (mut dedup, key) = (dedup.clone(), format!("{who}-{n}"));
        async move {
            let claimed = dedup.claim(claim(&key)).await.unwrap().into_inner();
            dedup.complete_claim(complete(&key, claimed.fence, key.as_bytes())).await.unwrap();
            let known = dedup.claim(claim(&key)).await.unwrap().into_inner();
            assert_eq!(&known.result[..], key.as_bytes());
        }
    });
    let chats = sidecar.conversations();
    go_on(tasks, traffic, move |n| {
        let (mut chats, id) = (chats.clone(), format!("{who}-{}", n % 9));
        async move {
            let state = chats.advance(step(&id, "here")).await.unwrap().into_inner().state.unwrap();
            assert_eq!(state.step, "here");
        }
    });
    let queue = Queue::of(sidecar, who);
    go_on(tasks, traffic, move |n| {
        let (queue, id) = (queue.clone(), format!("job-{n}"));
        async move {
            queue.add(job(&id)).await;
            for job in queue.take(10).await {
                assert_eq!(job.payload, support::schedule::job(&job.id).payload);
                queue.ack(&job).await;
            }
        }
    });
    let limits = sidecar.caps();
    go_on(tasks, traffic, move |n| {
        let (mut limits, send) = (limits.clone(), format!("send-{who}-{n}"));
        async move {
            limits.consume(consume(&send, &["daily"])).await.unwrap();
        }
    });
    // A namespace that is made while it goes on: its root key too.
    let dedup = sidecar.dedup();
    go_on(tasks, traffic, move |n| {
        let (mut dedup, namespace) = (dedup.clone(), format!("tenant-{who}-{}", n / 20));
        async move {
            dedup.claim(v1::ClaimRequest { namespace, ..claim(&n.to_string()) }).await.unwrap();
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_under_traffic_fails_no_call_and_leaves_the_old_key_useless() {
    let owners = 10_000;
    let valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "everysec"));
    let (one, mut two) = keys::two(&valkey).await;
    caps::make(&one, caps::policy("daily", caps::daily(1_000_000))).await;
    let made = Instant::now();
    keys::make_sessions(&one, "idle", owners).await;
    eprintln!("{owners} sessions made in {:?}", made.elapsed());
    let old = fs::read_to_string(one.keyring()).unwrap();

    let traffic = Arc::new(Traffic::default());
    let mut tasks = JoinSet::new();
    start_traffic(&mut tasks, &traffic, &one, "one");
    start_traffic(&mut tasks, &traffic, &two, "two");
    let pause = || tokio::time::sleep(Duration::from_millis(500));
    pause().await;

    keys::done(&one, &["add"]);
    keys::spread(&one, &two, &[(1, P), (2, D)]).await;
    pause().await;
    keys::done(&one, &["promote", "2"]);
    // One of them uses it before the other: each opens what the other makes.
    keys::reload(&one, &[(1, D), (2, P)]).await;
    pause().await;
    let said = keys::refused(&one, &["disable", "1"], 1);
    assert!(
        said.contains("still the primary of a running sidecar") && said.contains(&format!(":{}", two.pid())),
        "{said}"
    );
    keys::spread(&one, &two, &[(1, D), (2, P)]).await;
    let began = Instant::now();
    let ended = keys::rewrap(&one, 2_000).await.unwrap();
    eprintln!("rewrapped in {:?} under traffic: {ended:?}", began.elapsed());
    assert!(ended.done && ended.failed == 0 && ended.moved >= owners as u64, "{ended:?}");
    assert_eq!(keys::wraps(&one, 1).await.owners, 0);

    keys::done(&one, &["disable", "1"]);
    keys::spread(&one, &two, &[(1, X), (2, P)]).await;
    pause().await;
    keys::done(&one, &["remove", "1", "--yes"]);
    keys::spread(&one, &two, &[(2, P)]).await;
    pause().await;
    traffic.stop.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no call fails");
    }
    let calls = traffic.calls.load(Ordering::Relaxed);
    eprintln!("{calls} calls meanwhile");
    assert!(calls > 500, "{calls}");
    keys::check_sessions(&two, "idle", owners.min(200)).await;

    // The old keyring alone: a clear no.
    two.stop().await;
    keys::write(&two.keyring(), &old);
    two.spawn();
    assert_eq!(two.wait_exit(Duration::from_secs(10)).await.code(), Some(78));
    assert!(two.logs().contains("everything in this database was wrapped under key 2"), "{}", two.logs());
    let said = keys::refused(&two, &["promote", "1"], 78);
    assert!(said.contains("the keyring is an old one"), "{said}");
    keys::write(&one.keyring(), &old);
    one.signal(rustix::process::Signal::HUP);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(one.logs().contains("the keyring was not taken; the old one stays in use"));
    keys::check_sessions(&one, "idle", 10).await;
}

/// The embedded Valkey and its one sidecar: no URL is needed anywhere.
#[tokio::test]
async fn a_rotation_of_the_embedded_default_needs_no_address_of_a_database() {
    let sidecar = Sidecar::start(Options::default()).await;
    keys::make_sessions(&sidecar, "bot", 3).await;
    let data = sidecar.data_dir();
    let run = |words: &[&str]| {
        let output =
            support::pannier(&[&["keys"], words, &["--data-dir", support::path_str(&data)]].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["add"]);
    keys::reload(&sidecar, &[(1, P), (2, D)]).await;
    run(&["promote", "2"]);
    keys::reload(&sidecar, &[(1, D), (2, P)]).await;
    assert_eq!(keys::rewrap(&sidecar, 0).await.unwrap().moved, 3);
    run(&["disable", "1"]);
    keys::reload(&sidecar, &[(1, X), (2, P)]).await;
    run(&["enable", "1"]);
    keys::reload(&sidecar, &[(1, D), (2, P)]).await;
    keys::check_sessions(&sidecar, "bot", 3).await;
    drop(sidecar);
    let output = support::pannier(&["keys", "disable", "1", "--data-dir", "/nonexistent/pannier"]);
    assert_eq!(output.status.code(), Some(78), "{}", String::from_utf8_lossy(&output.stderr));
}
