//! Start and stop: nothing claims to be ready that is not, what a person must mend exits with 78, and the end comes in
//! order and in time, whoever hangs on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::{
    fs,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use rustix::process::{Signal, kill_process};
use support::{
    Options, ServingStatus, Sidecar, Valkey, ValkeyOptions, cluster::Cluster, pannier, path_str,
    short_temp_dir,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic_health::pb::HealthCheckRequest;

/// What a bound of the design may take in a test.
fn allowed(bound: Duration) -> Duration {
    (bound * 3).max(bound + Duration::from_secs(2))
}

const SECOND: Duration = Duration::from_secs(1);

/// dapr#2699, #769: Valkey away at the start looks like what it is, and its coming is seen.
#[tokio::test]
async fn with_valkey_away_at_the_start_it_is_not_serving_until_valkey_comes() {
    let mut valkey = Valkey::stopped(ValkeyOptions::default());
    let mut sidecar = Sidecar::start(Options { no_wait: true, ..Options::with(&valkey) }).await;
    sidecar.wait_status(ServingStatus::NotServing, allowed(SECOND)).await;
    assert_eq!(sidecar.serving("pannier.v1.SessionService").await, Some(ServingStatus::NotServing));
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(sidecar.serving("").await, Some(ServingStatus::NotServing));
    assert!(sidecar.is_running(), "an unreachable Valkey is no reason to exit");
    let out = pannier(&["healthcheck", "--address", path_str(&sidecar.socket)]);
    assert_eq!(out.status.code(), Some(69));

    valkey.spawn();
    sidecar.wait_serving(allowed(2 * SECOND)).await;
    assert_eq!(sidecar.serving("pannier.v1.SessionService").await, Some(ServingStatus::Serving));
    assert!(sidecar.stop().await.success());
}

/// components-contrib#554, dapr#9743: readiness falls when Valkey dies and comes back unaided, time and again.
#[tokio::test]
async fn readiness_follows_valkey_down_and_up() {
    let mut valkey = Valkey::start(ValkeyOptions::default());
    let mut sidecar = Sidecar::start(Options::with(&valkey)).await;
    for round in 0..5 {
        valkey.kill9();
        sidecar.wait_status(ServingStatus::NotServing, allowed(6 * SECOND)).await;
        tokio::time::sleep(Duration::from_millis(300 * round)).await;
        valkey.spawn();
        sidecar.wait_serving(allowed(5 * SECOND)).await;
    }
    // One that does not answer is as good as dead.
    valkey.sigstop();
    sidecar.wait_status(ServingStatus::NotServing, allowed(6 * SECOND)).await;
    valkey.sigcont();
    sidecar.wait_serving(allowed(5 * SECOND)).await;
    assert!(sidecar.stop().await.success());
}

#[tokio::test]
async fn the_embedded_valkey_is_restarted_adopted_and_stopped() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let first = sidecar.embedded_pid();
    kill_process(first, Signal::KILL).unwrap();
    sidecar.wait_status(ServingStatus::NotServing, allowed(6 * SECOND)).await;
    sidecar.wait_serving(allowed(5 * SECOND)).await;
    let second = sidecar.embedded_pid();
    assert_ne!(first, second);

    sidecar.restart().await;
    assert_eq!(sidecar.embedded_pid(), second, "a live one left by a killed sidecar is adopted");

    assert!(sidecar.stop().await.success());
    assert!(!support::is_alive(second), "it ends with its sidecar");
    let left: Vec<_> =
        fs::read_dir(sidecar.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".sock")), "{left:?}");
}

#[tokio::test]
async fn what_a_person_must_mend_exits_with_78_and_says_how() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let url = valkey.url();
    let serve = |env: &str, more: &[&str]| {
        let dir = short_temp_dir();
        let keyring = dir.path().join("keyring.toml");
        if !more.contains(&"no-keyring") {
            assert!(pannier(&["keys", "init", "--keyring", path_str(&keyring)]).status.success());
        }
        let socket = dir.path().join("pannier.sock");
        let mut arguments = vec!["serve", "--valkey-url", &url, "--env", env];
        arguments.extend(["--keyring", path_str(&keyring), "--socket", path_str(&socket)]);
        arguments.extend(more.iter().filter(|flag| flag.starts_with("--")));
        let output = pannier(&arguments);
        assert!(!socket.exists());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = serve("test", &["no-keyring"]);
    assert!(code == Some(78) && text.contains("pannier keys init"), "{text}");
    let (code, text) = serve("test", &[]);
    assert!(code == Some(78) && text.contains("--init"), "an empty database: {text}");

    let mut sidecar = Sidecar::start(Options::with(&valkey)).await;
    assert!(sidecar.stop().await.success());
    let (code, text) = serve("test", &["--init"]);
    assert!(code == Some(78), "--init with one that is in use: {text}");
    let (code, text) = serve("other", &[]);
    assert!(code == Some(78), "another environment's: {text}");
    let (code, text) = serve("test", &[]);
    assert!(code == Some(78), "another keyring: {text}");
    // Its own keyring still works after all that.
    sidecar.restart().await;
    assert!(sidecar.stop().await.success());
}

#[tokio::test]
async fn a_durability_that_the_server_cannot_give_is_refused_at_start() {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "everysec"));
    let mut sidecar = Sidecar::start(Options::with(&valkey).arg("--durability=aof")).await;
    assert!(sidecar.stop().await.success());
    let from = sidecar.logs().len();
    sidecar.options.args = vec!["--durability=fsync".into()];
    sidecar.spawn();
    let said = sidecar.ends_unready(from).await;
    assert!(said.contains("gives aof only"), "{said}");

    // One that is not to be used is not taken into use.
    let fresh = Valkey::start(ValkeyOptions::default().set("appendonly", "no"));
    let options = Options { no_wait: true, ..Options::with(&fresh).arg("--durability=aof") };
    let mut sidecar = Sidecar::start(options).await;
    let said = sidecar.ends_unready(0).await;
    assert!(said.contains("gives memory only"), "{said}");
    assert!(fresh.keys("*").is_empty(), "{:?}", fresh.keys("*"));
}

#[tokio::test]
async fn a_durability_that_one_node_of_a_cluster_cannot_give_is_refused_at_start() {
    let cluster = Cluster::start(3, 0);
    let options = Options { valkey_url: Some(cluster.url()), ..Options::default() };
    let mut sidecar = Sidecar::start(options.arg("--cluster").arg("--durability=fsync")).await;
    assert!(sidecar.stop().await.success());
    cluster.nodes[1].command::<()>(&["CONFIG", "SET", "appendfsync", "everysec"]);
    let from = sidecar.logs().len();
    sidecar.spawn();
    let said = sidecar.ends_unready(from).await;
    assert!(said.contains("gives aof only"), "{said}");
}

/// dapr#2918: a client that comes first waits until the sidecar is ready; it does not fail.
#[tokio::test]
async fn a_client_that_comes_first_gets_through_when_the_sidecar_comes() {
    let dir = short_temp_dir();
    let address = dir.path().join("pannier.sock");
    let client = tokio::spawn(async move {
        let channel = support::channel(&address);
        for _ in 0..1500 {
            let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
            if let Ok(watch) = health.watch(HealthCheckRequest::default()).await {
                let mut watch = watch.into_inner();
                while let Ok(Some(answer)) = watch.message().await {
                    if answer.status() == ServingStatus::Serving {
                        return true;
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    });
    tokio::time::sleep(3 * SECOND).await;
    let mut sidecar = Sidecar::start(Options { dir: Some(dir), no_wait: true, ..Options::default() }).await;
    assert!(tokio::time::timeout(20 * SECOND, client).await.unwrap().unwrap());
    assert!(sidecar.stop().await.success());
}

/// hyper#4170: a connection that never says a word, one that stops in the middle, and one that does not read.
#[tokio::test]
async fn peers_that_hang_do_not_hold_up_the_end() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let _silent = UnixStream::connect(&sidecar.socket).unwrap();
    let mut half = tokio::net::UnixStream::connect(&sidecar.socket).await.unwrap();
    half.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let mut deaf = tokio::net::UnixStream::connect(&sidecar.socket).await.unwrap();
    deaf.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00").await.unwrap();
    let idle = sidecar.health();
    idle.clone().check(HealthCheckRequest::default()).await.unwrap();

    let begin = Instant::now();
    assert!(sidecar.stop().await.success());
    assert!(begin.elapsed() < allowed(2 * SECOND), "took {:?}", begin.elapsed());
    assert!(!sidecar.socket.exists());
    let mut rest = Vec::new();
    half.read_to_end(&mut rest).await.unwrap();
}

/// Nothing that hangs holds up the end beyond its bound: here the embedded Valkey itself, with a call waiting for it.
#[tokio::test]
async fn a_frozen_valkey_does_not_hold_up_the_end() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let valkey = sidecar.embedded_pid();
    kill_process(valkey, Signal::STOP).unwrap();
    let mut sessions = sidecar.sessions();
    let waiting = tokio::spawn(async move {
        let request = pannier::proto::v1::GetSessionRequest { session: "bot-1".into(), ..Default::default() };
        sessions.get_session(request).await
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begin = Instant::now();
    sidecar.sigterm();
    assert!(sidecar.wait_exit(Duration::from_secs(26)).await.success());
    assert!(begin.elapsed() < Duration::from_secs(26));
    assert!(waiting.await.unwrap().is_err());
    let _ = kill_process(valkey, Signal::KILL);
}

/// An open Watch hears of the end, and ends.
#[tokio::test]
async fn an_open_watch_is_told_and_ends() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let mut watches = Vec::new();
    for service in ["", "pannier.v1.SessionService", "no.such.Service"] {
        let request = HealthCheckRequest { service: service.into() };
        let mut watch = sidecar.health().watch(request).await.unwrap().into_inner();
        let expected =
            if service.starts_with("no.") { ServingStatus::ServiceUnknown } else { ServingStatus::Serving };
        assert_eq!(watch.message().await.unwrap().unwrap().status(), expected);
        watches.push(watch);
    }
    let begin = Instant::now();
    sidecar.sigterm();
    for mut watch in watches.drain(..2) {
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        assert!(watch.message().await.unwrap().is_none(), "the stream ends well");
    }
    assert!(sidecar.wait_exit(allowed(2 * SECOND)).await.success());
    assert!(begin.elapsed() < allowed(2 * SECOND));
}

/// grpc-rust#1940: in the drain delay new connections are served, while health already says no.
#[tokio::test]
async fn in_the_drain_delay_new_connections_are_served() {
    let mut sidecar = Sidecar::start(Options::default().arg("--drain-delay=2s")).await;
    let begin = Instant::now();
    sidecar.sigterm();
    sidecar.wait_status(ServingStatus::NotServing, SECOND).await;
    let info = sidecar.admin().server_info(pannier::proto::v1::ServerInfoRequest {}).await;
    assert!(info.is_ok(), "{info:?}");
    assert!(begin.elapsed() < 2 * SECOND);
    assert!(sidecar.wait_exit(allowed(4 * SECOND)).await.success());
    assert!(begin.elapsed() >= 2 * SECOND);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let mut sidecar = Sidecar::start(Options::default().arg("--drain-delay=15s")).await;
    sidecar.signal(Signal::INT);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(sidecar.is_running());
    let begin = Instant::now();
    sidecar.sigterm();
    let status = sidecar.wait_exit(allowed(SECOND)).await;
    assert_eq!(status.code(), Some(128 + 15));
    assert!(begin.elapsed() < allowed(SECOND));
}

#[tokio::test]
async fn a_hangup_reads_the_keyring_again() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let keyring = sidecar.keyring();
    assert!(pannier(&["keys", "add", "--keyring", path_str(&keyring)]).status.success());
    sidecar.signal(Signal::HUP);
    let ids = async |sidecar: &Sidecar| {
        sidecar
            .admin()
            .server_info(pannier::proto::v1::ServerInfoRequest {})
            .await
            .unwrap()
            .into_inner()
            .key_ids
    };
    for _ in 0..100 {
        if ids(&sidecar).await == [1, 2] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ids(&sidecar).await, [1, 2]);

    // A keyring that cannot be used changes nothing.
    fs::write(&keyring, "nonsense").unwrap();
    sidecar.signal(Signal::HUP);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(ids(&sidecar).await, [1, 2]);
    assert!(sidecar.logs().contains("the old one stays in use"));
    assert!(sidecar.stop().await.success());
}

/// linkerd2#2383: what a crash would write to disk holds keys.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_core_dump_is_ever_written() {
    let sidecar = Sidecar::start(Options::default()).await;
    let limits = fs::read_to_string(format!("/proc/{}/limits", sidecar.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}
