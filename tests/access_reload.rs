//! Tokens that come and go while calls are made: rotation, removal, expiry, and files that are broken.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    time::{Duration, Instant},
};

use bytes::Bytes;
use pannier::proto::v1;
use rustix::process::Signal;
use support::{
    Sidecar,
    access::{call, on_tcp, plain},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, transport::Channel};

const GET: &str = "/pannier.v1.SessionService/GetSession";
/// Twice what the design gives the change of a file, and the margin of a busy machine.
const SOON: Duration = Duration::from_secs(3);

async fn get(channel: &Channel, token: &str) -> Code {
    let answer = call(channel, GET, Some(token), Bytes::from_static(b"\x12\x01s")).await;
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

async fn until(channel: &Channel, token: &str, code: Code) {
    let begin = Instant::now();
    while get(channel, token).await != code {
        assert!(begin.elapsed() < SOON, "not {code:?} within {SOON:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn logged(sidecar: &Sidecar, what: &str) {
    let begin = Instant::now();
    while !sidecar.logs().contains(what) {
        assert!(begin.elapsed() < SOON, "not in the log: {what}\n{}", sidecar.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// An Attach stream that holds a session.
async fn attached(channel: Channel, token: &str, session: &str) -> tonic::Streaming<v1::AttachResponse> {
    let open = v1::Open { session: session.into(), owner: "o".into(), ..Default::default() };
    let open =
        v1::AttachRequest { seq: 1, op: Some(v1::attach_request::Op::Open(open)), ..Default::default() };
    let (send, requests) = tokio::sync::mpsc::channel(4);
    send.send(open).await.unwrap();
    let mut request = Request::new(ReceiverStream::new(requests));
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let mut client = v1::session_service_client::SessionServiceClient::new(channel);
    let mut answers = client.attach(request).await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().is_some(), "Opened");
    // Its client goes on as long as the test does.
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(send);
    });
    answers
}

async fn end_of(mut answers: tonic::Streaming<v1::AttachResponse>) -> Code {
    let ended = async {
        loop {
            match answers.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Code::Ok,
                Err(status) => return status.code(),
            }
        }
    };
    tokio::time::timeout(SOON, ended).await.expect("the stream goes on")
}

/// Add, move the clients, remove: no call fails on the way, and afterwards the old token is nobody's.
#[tokio::test]
async fn a_rotation_under_traffic_fails_no_call() {
    let (options, tokens) = on_tcp();
    let first = tokens.add("first", "session");
    let sidecar = Sidecar::start(options).await;
    let channel = plain(&sidecar);
    let (sender, receiver) = tokio::sync::watch::channel(first.clone());
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let (channel, tokens) = (channel.clone(), receiver.clone());
            tokio::spawn(async move {
                let mut calls = 0;
                while !tokens.borrow().is_empty() {
                    let token = tokens.borrow().clone();
                    assert_eq!(get(&channel, &token).await, Code::Ok);
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let second = tokens.add("second", "session");
    until(&channel, &second, Code::Ok).await;
    assert_eq!(get(&channel, &first).await, Code::Ok, "both are valid");
    sender.send(second.clone()).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    for _ in 0..20 {
        sidecar.signal(Signal::HUP);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokens.remove("first");
    until(&channel, &first, Code::Unauthenticated).await;
    sender.send(String::new()).unwrap();
    let mut calls = 0;
    for caller in callers {
        calls += caller.await.unwrap();
    }
    assert!(calls > 100, "{calls} calls");
    assert_eq!(get(&channel, &second).await, Code::Ok);
}

/// A stream does not outlive its token; those of other tokens do not notice.
#[tokio::test]
async fn streams_end_with_their_token() {
    let (options, tokens) = on_tcp();
    let (gone, stays) = (tokens.add("gone", "session"), tokens.add("stays", "session"));
    let short = tokens.add_until("short", "session", "3s");
    let sidecar = Sidecar::start(options).await;
    let of_short = attached(plain(&sidecar), &short, "c").await;
    let of_gone = attached(plain(&sidecar), &gone, "a").await;
    let mut of_stays = attached(plain(&sidecar), &stays, "b").await;
    tokens.remove("gone");
    assert_eq!(end_of(of_gone).await, Code::Unauthenticated);
    assert_eq!(end_of(of_short).await, Code::Unauthenticated, "it has expired");
    assert_eq!(get(&plain(&sidecar), &short).await, Code::Unauthenticated);
    let more = tokio::time::timeout(Duration::from_millis(500), async {
        while let Some(message) = of_stays.message().await.unwrap() {
            drop(message);
        }
    });
    assert!(more.await.is_err(), "the other stream has ended too");

    // Fewer rights under the same token: the stream that was opened with more ends.
    let text = fs::read_to_string(&tokens.path).unwrap();
    fs::write(&tokens.path, text.replace("session", "schedule")).unwrap();
    assert_eq!(end_of(of_stays).await, Code::Unauthenticated);
    assert_eq!(get(&plain(&sidecar), &stays).await, Code::PermissionDenied);
}

#[tokio::test]
async fn a_broken_file_changes_nothing_and_is_named_in_the_log() {
    let (options, tokens) = on_tcp();
    let token = tokens.add("one", "session");
    let sidecar = Sidecar::start(options).await;
    let channel = plain(&sidecar);
    let stream = attached(channel.clone(), &token, "a").await;
    let good = fs::read_to_string(&tokens.path).unwrap();
    let canary = "pannier_CanaryCanaryCanaryCanaryCanaryCanary";
    let brokens =
        [String::new(), canary.to_owned(), good.replace("session", "sesion"), format!("{good}[[token]]\n")];
    let told = || sidecar.logs().matches("the token file was not taken").count();
    for broken in &brokens {
        let before = told();
        fs::write(&tokens.path, broken).unwrap();
        sidecar.signal(Signal::HUP);
        let begin = Instant::now();
        while told() == before {
            assert!(begin.elapsed() < SOON, "{broken:?}\n{}", sidecar.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(get(&channel, &token).await, Code::Ok, "{broken:?}");
    }
    fs::remove_file(&tokens.path).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(get(&channel, &token).await, Code::Ok, "a file that is gone");
    let logs = sidecar.logs();
    assert!(logs.contains("did you mean `session`?") && logs.contains("tokens.toml"), "{logs}");
    assert!(!logs.contains("Canary"), "the log repeats a token");
    fs::write(&tokens.path, &good).unwrap();
    logged(&sidecar, "the token file was read again").await;
    assert_eq!(get(&channel, &token).await, Code::Ok);
    drop(stream);
}

#[tokio::test]
async fn the_file_is_private_when_made_and_warned_of_when_it_is_not() {
    let (options, tokens) = on_tcp();
    tokens.add("one", "session");
    let mode = || fs::metadata(&tokens.path).unwrap().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&tokens.path, fs::Permissions::from_mode(0o644)).unwrap();
    let sidecar = Sidecar::start(options).await;
    logged(&sidecar, "others may read or change the token file: chmod 600").await;
    tokens.add("two", "session");
    assert_eq!(mode(), 0o640, "an edit closes it to others");
}
