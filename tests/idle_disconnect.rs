//! `--idle-disconnect`: a database that hibernates while nobody is connected can do so while nobody uses the sidecar, and nobody who
//! does use it notices.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{pipe_request::Call, pipe_response::Answer};
use support::{
    Options, ServingStatus, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
    link::allowed,
    pannier,
    schedule::{Queue, delayed, job},
    small::{Pipe, answered, claim},
};

const IDLE: Duration = Duration::from_secs(1);
/// For it to be disconnected after that, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

async fn start() -> (Valkey, Sidecar) {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey).arg("--idle-disconnect").arg("1s")).await;
    (valkey, sidecar)
}

fn connections(valkey: &Valkey) -> usize {
    let clients: String = valkey.command(&["CLIENT", "LIST"]);
    clients.lines().filter(|line| line.contains("lib-name=pannier")).count()
}

async fn disconnected(valkey: &Valkey) {
    let begun = Instant::now();
    while connections(valkey) > 0 {
        assert!(begun.elapsed() < PATIENCE, "still connected");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Longer than nobody would stay connected.
async fn stays_connected(valkey: &Valkey, why: &str) {
    let begun = Instant::now();
    while begun.elapsed() < 3 * IDLE {
        assert!(connections(valkey) > 0, "disconnected, with {why}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_call_it_disconnects_and_the_next_call_is_served() {
    let (valkey, sidecar) = start().await;
    for round in 0..3 {
        disconnected(&valkey).await;
        assert_eq!(sidecar.serving("").await, Some(ServingStatus::Serving), "it would serve");
        assert_eq!(connections(&valkey), 0, "whoever asks for its health wakes nobody");
        let claimed = answered(sidecar.dedup().claim(claim(&format!("message-{round}"))).await).unwrap();
        assert!(claimed.fence > 0);
    }
    let logs = sidecar.logs();
    assert!(logs.contains("disconnected until the next call"), "{logs}");
    assert!(!logs.contains("lost Valkey") && !logs.contains("cannot use"), "nothing is wrong: {logs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_and_a_worker_keep_it_connected_and_an_idle_pipe_does_not() {
    let (valkey, sidecar) = start().await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    stays_connected(&valkey, "a session attached").await;
    bot.commit(1, vec![put("creds", "creds", *b"0")], vec![]).await.unwrap();
    bot.close().await;
    disconnected(&valkey).await;

    let queue = Queue::of(&sidecar, "reminders");
    let worker = queue.worker(30_000).await;
    stays_connected(&valkey, "a worker").await;
    drop(worker);
    disconnected(&valkey).await;

    let mut pipe = Pipe::open(&sidecar).await;
    pipe.call(Call::Claim(claim("one"))).await.unwrap();
    disconnected(&valkey).await;
    let Answer::Claim(claimed) = pipe.call(Call::Claim(claim("two"))).await.unwrap() else { panic!() };
    assert!(claimed.fence > 0);
}

/// At the very moment at which it would disconnect, a call is served like any other.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_at_the_moment_of_disconnecting_is_not_cut_off() {
    let (valkey, sidecar) = start().await;
    let mut dedup = sidecar.dedup();
    for n in 0..24 {
        // Around the second, on either side of it.
        tokio::time::sleep(Duration::from_millis(994) + Duration::from_micros(500 * n)).await;
        let calls = (0..8).map(|m| {
            let mut dedup = dedup.clone();
            async move { dedup.claim(claim(&format!("{n}-{m}"))).await }
        });
        for claimed in futures_util::future::join_all(calls).await {
            answered(claimed).unwrap_or_else(|refused| panic!("{n}: {refused:?}"));
        }
    }
    disconnected(&valkey).await;
    answered(dedup.claim(claim("last")).await).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_waits_for_the_next_call_and_is_not_lost() {
    let (valkey, sidecar) = start().await;
    let queue = Queue::of(&sidecar, "reminders");
    queue.add(delayed("later", 1500)).await;
    queue.add(job("now")).await;
    disconnected(&valkey).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(connections(&valkey), 0, "a timer of its own wakes nobody");
    let mut worker = queue.worker(30_000).await;
    worker.credit(2).await;
    let mut ids = vec![worker.job().await.id, worker.job().await.id];
    ids.sort();
    assert_eq!(ids, ["later", "now"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_gone_when_it_is_wanted_is_said_to_be_away() {
    let (mut valkey, mut sidecar) = start().await;
    answered(sidecar.dedup().claim(claim("one")).await).unwrap();
    disconnected(&valkey).await;
    valkey.kill9();
    tokio::time::sleep(IDLE).await;
    assert_eq!(sidecar.serving("").await, Some(ServingStatus::Serving), "nobody has asked yet");
    let mut request = tonic::Request::new(claim("two"));
    request.set_timeout(Duration::from_secs(1));
    let begun = Instant::now();
    let status = sidecar.dedup().claim(request).await.unwrap_err();
    // The last one is of this side's own clock.
    let known = [tonic::Code::Unavailable, tonic::Code::DeadlineExceeded, tonic::Code::Cancelled];
    assert!(known.contains(&status.code()), "{status:?}");
    assert!(begun.elapsed() < allowed(Duration::from_secs(1)), "{:?}", begun.elapsed());
    assert_eq!(sidecar.serving("").await, Some(ServingStatus::NotServing));
    valkey.restart();
    sidecar.wait_serving(PATIENCE).await;
    answered(sidecar.dedup().claim(claim("two")).await).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn it_stops_in_its_sleep_and_the_doctor_tells_of_it() {
    let (valkey, mut sidecar) = start().await;
    disconnected(&valkey).await;
    let told = answered(sidecar.admin().doctor(pannier::proto::v1::DoctorRequest::default()).await).unwrap();
    let found =
        |check: &str| told.findings.iter().find(|finding| finding.check == check).unwrap().found.clone();
    assert_eq!(found("ready"), "calls are served", "the question woke it");
    assert!(found("idle-disconnect").contains("no cron fires"), "{told:?}");
    disconnected(&valkey).await;
    assert!(sidecar.stop().await.success());
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let refused = |args: &[&str]| {
        let output = pannier(&[&["serve", "--check-config", "--env", "x"], args].concat());
        assert_eq!(output.status.code(), Some(78), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let url = "valkey://127.0.0.1:1";
    for (args, said) in [
        (vec!["--valkey-url", url, "--idle-disconnect", "10ms"], "from 1s to 24h"),
        (vec!["--valkey-url", url, "--idle-disconnect", "soon"], "not a duration"),
        (vec!["--valkey-url", url, "--cluster", "--idle-disconnect", "5m"], "not with --cluster"),
        (vec!["--idle-disconnect", "5m"], "--valkey-url"),
    ] {
        let stderr = refused(&args);
        assert!(stderr.contains("idle-disconnect") && stderr.contains(said), "{args:?}: {stderr}");
    }
}
