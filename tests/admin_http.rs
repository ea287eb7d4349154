//! The admin port: what it says, that it says it at any time, and that nobody can hold it up.

// What is counted is whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::float_cmp)]

mod support;

use std::time::{Duration, Instant};

use support::{
    Options, ServingStatus, Sidecar, Valkey, ValkeyOptions,
    admin_http::{address, get, raw, wait_ready},
    random::Random,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const SECOND: Duration = Duration::from_secs(1);

/// What a bound of the design may take in a test.
fn allowed(bound: Duration) -> Duration {
    (bound * 3).max(bound + 2 * SECOND)
}

fn watched(valkey: &Valkey) -> Options {
    Options::with(valkey).arg("--admin").arg("127.0.0.1:0")
}

async fn start() -> (Valkey, Sidecar, String) {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(watched(&valkey)).await;
    let address = address(&sidecar);
    (valkey, sidecar, address)
}

#[tokio::test]
async fn three_pages_answer_and_nothing_else_does() {
    let (_valkey, mut sidecar, address) = start().await;
    let alive = get(&address, "/livez").await;
    assert_eq!((alive.status, alive.body.as_str()), (200, "alive\n"));
    let ready = get(&address, "/readyz?verbose").await;
    assert_eq!((ready.status, ready.body.as_str()), (200, "ready\n"));
    let metrics = get(&address, "/metrics").await;
    assert_eq!(metrics.status, 200);
    assert!(metrics.head.contains("content-type: text/plain; version=0.0.4"), "{}", metrics.head);
    assert!(metrics.head.contains("connection: close") && metrics.head.contains("cache-control: no-store"));
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        ("GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        ("GET /../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        ("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 405),
        ("DELETE /readyz HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        ("HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        ("nonsense\r\n\r\n", 400),
    ] {
        assert_eq!(raw(&address, request).await.map(|answer| answer.status), Some(status), "{request:?}");
    }
    let long = format!("GET /livez HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(40_000));
    assert!(
        raw(&address, &long).await.is_none_or(|answer| answer.status == 431),
        "a head of 40 kB is too long"
    );
    assert!(sidecar.stop().await.success());
    assert!(TcpStream::connect(&address).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn without_the_flag_there_is_no_port_and_one_that_is_taken_is_refused() {
    let (valkey, sidecar, address) = start().await;
    let other = Sidecar::start(Options {
        env: None,
        dir: Some(sidecar.dir.clone()),
        socket_name: Some("b.sock".into()),
        ..Options::with(&valkey)
    })
    .await;
    assert!(!other.logs().contains("/readyz"), "off by default");
    let dir = support::short_temp_dir();
    let keyring = dir.path().join("keyring.toml");
    assert!(support::pannier(&["keys", "init", "--keyring", support::path_str(&keyring)]).status.success());
    let socket = dir.path().join("p.sock");
    let url = valkey.url();
    let arguments =
        ["serve", "--valkey-url", &url, "--env", "test", "--keyring", support::path_str(&keyring)];
    let more = ["--socket", support::path_str(&socket), "--admin", &address];
    let refused = support::pannier(&[&arguments[..], &more[..]].concat());
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(78) && text.contains("--admin") && text.contains("in use"),
        "{text}"
    );
    assert!(!socket.exists(), "nothing is left behind");
}

/// components-contrib#554: readiness falls when Valkey is killed, says why, and comes back unaided; being alive never asks Valkey.
#[tokio::test]
async fn readiness_falls_with_valkey_says_why_and_comes_back() {
    let mut valkey = Valkey::start(
        ValkeyOptions { tcp: true, ..ValkeyOptions::default() }.set("requirepass", "canary-pass-1"),
    );
    let url = format!("valkey://:canary-pass-1@127.0.0.1:{}", valkey.port);
    let options = Options {
        valkey_url: None,
        envs: vec![("PANNIER_VALKEY_URL".into(), url)],
        args: ["--env", "test", "--init", "--admin", "127.0.0.1:0"].map(Into::into).into(),
        dir: Some(support::short_temp_dir()),
        no_wait: true,
        ..Options::default()
    };
    let keyring = options.dir.as_ref().unwrap().path().join("data/keyring.toml");
    assert!(support::pannier(&["keys", "init", "--keyring", support::path_str(&keyring)]).status.success());
    let mut sidecar = Sidecar::start(options).await;
    sidecar.wait_serving(10 * SECOND).await;
    let address = address(&sidecar);
    wait_ready(&address, 200, allowed(SECOND)).await;
    valkey.kill9();
    let (fell, why) = wait_ready(&address, 503, allowed(6 * SECOND)).await;
    assert!(fell > Duration::from_millis(500), "not at once: {fell:?}");
    assert!(why.contains("Valkey is away") && !why.contains("canary"), "{why}");
    assert_eq!(get(&address, "/livez").await.status, 200);
    valkey.spawn();
    wait_ready(&address, 200, allowed(5 * SECOND)).await;
    // One that does not answer is as good as dead; who asks whether we are alive is not held up by it.
    valkey.sigstop();
    let frozen = Instant::now();
    wait_ready(&address, 503, allowed(6 * SECOND)).await;
    for path in ["/livez", "/metrics"] {
        let asked = Instant::now();
        assert_eq!(get(&address, path).await.status, 200);
        assert!(asked.elapsed() < SECOND, "{path} took {:?}", asked.elapsed());
    }
    valkey.sigcont();
    wait_ready(&address, 200, allowed(5 * SECOND)).await;
    assert!(frozen.elapsed() < 60 * SECOND);
    assert!(sidecar.stop().await.success());
}

/// A reconnection is told by gRPC health; who would take the pod out of service for it is spared.
#[tokio::test]
async fn a_connection_that_is_back_at_once_is_no_reason_to_be_unready() {
    let (valkey, sidecar, address) = start().await;
    let before = support::admin_http::metrics(&address).await;
    let reconnects =
        |metrics: &support::admin_http::Metrics| metrics.value("pannier_valkey_reconnects_total", &[]);
    for _ in 0..5 {
        let killed: i64 = valkey.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        assert!(killed > 0, "there was a connection to kill");
        let until = Instant::now() + Duration::from_millis(700);
        while Instant::now() < until {
            let answer = get(&address, "/readyz").await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
    let after = support::admin_http::metrics(&address).await;
    assert!(reconnects(&after) >= reconnects(&before) + 4.0, "they were seen, each:\n{}", after.text);
    assert_eq!(after.value("pannier_valkey_reconnects_total", &[("reason", "other")]), 0.0, "{}", after.text);
    assert_eq!(sidecar.serving("").await, Some(ServingStatus::Serving));
}

/// dapr#9743: stuck not ready after a recovery. 20 kills, each with another length.
#[tokio::test]
async fn it_is_ready_again_after_every_one_of_many_outages() {
    let (mut valkey, sidecar, address) = start().await;
    let seed = u64::from(std::process::id());
    let mut random = Random(seed);
    let mut slowest = Duration::ZERO;
    for cycle in 0..20 {
        valkey.kill9();
        let down = Duration::from_millis(random.below(1500));
        tokio::time::sleep(down).await;
        valkey.spawn();
        // From the moment that it answers.
        let begin = Instant::now();
        loop {
            let ready = get(&address, "/readyz").await.status == 200;
            if ready && sidecar.serving("").await == Some(ServingStatus::Serving) {
                break;
            }
            assert!(
                begin.elapsed() < allowed(5 * SECOND),
                "cycle {cycle} after {down:?} (seed {seed}): {:?}",
                get(&address, "/readyz").await
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        slowest = slowest.max(begin.elapsed());
    }
    println!("ready {slowest:?} after Valkey at the latest");
}

#[tokio::test]
async fn with_valkey_away_at_the_start_it_is_alive_and_not_ready_and_says_so() {
    let mut valkey = Valkey::stopped(ValkeyOptions::default());
    let mut sidecar = Sidecar::start(Options { no_wait: true, ..watched(&valkey) }).await;
    sidecar.wait_status(ServingStatus::NotServing, allowed(SECOND)).await;
    let address = address(&sidecar);
    let answer = get(&address, "/readyz").await;
    assert!(answer.status == 503 && answer.body.contains("starting"), "{answer:?}");
    assert_eq!(get(&address, "/livez").await.status, 200);
    valkey.spawn();
    wait_ready(&address, 200, allowed(2 * SECOND)).await;
}

#[tokio::test]
async fn while_it_stops_it_is_alive_and_not_ready_until_the_end() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let mut sidecar = Sidecar::start(watched(&valkey).arg("--drain-delay").arg("2s")).await;
    let address = address(&sidecar);
    sidecar.sigterm();
    let (told, why) = wait_ready(&address, 503, SECOND).await;
    assert!(told < SECOND && why.contains("stopping"), "{why}");
    assert_eq!(get(&address, "/livez").await.status, 200);
    assert!(sidecar.wait_exit(10 * SECOND).await.success());
}

#[tokio::test]
async fn clients_that_say_nothing_hold_up_neither_the_next_one_nor_the_end() {
    let (_valkey, mut sidecar, address) = start().await;
    let mut idle = Vec::new();
    for n in 0..40 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let _ = stream.write_all(&b"GET /livez HTTP/1.1\r\nX: y"[..n % 25]).await;
        idle.push(stream);
    }
    // Each has seconds for its head; then there is room again.
    let begin = Instant::now();
    while raw(&address, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .is_none_or(|answer| answer.status != 200)
    {
        assert!(begin.elapsed() < allowed(5 * SECOND), "no room after {:?}", begin.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut first = idle.remove(0);
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(10 * SECOND, first.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "a client that says nothing is left after its time");
    let late = TcpStream::connect(&address).await.unwrap();
    let stopping = Instant::now();
    assert!(sidecar.stop().await.success());
    assert!(
        stopping.elapsed() < 3 * SECOND,
        "an open connection held up the end for {:?}",
        stopping.elapsed()
    );
    drop(late);
}
