//! Who may do what over TCP: every RPC of the protos, with every kind of wrong token and the right one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use bytes::Bytes;
use pannier::proto::v1::{self, PipeRequest, PipeResponse, pipe_response::Answer};
use prost::Message as _;
use support::{
    Options, Sidecar,
    access::{Rpc, all_rpcs, call, is_refused, missing_scope, on_tcp, plain},
};
use tonic::{Code, Status, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

fn scope(rpc: &Rpc) -> String {
    rpc.service.trim_end_matches("Service").to_ascii_lowercase()
}

/// All scopes but those that let this RPC in.
fn all_but(rpc: &Rpc) -> &'static str {
    match rpc.service.as_str() {
        "SessionService" => "blob,dedup,conversation,cap,schedule,admin",
        "BlobService" => "session,dedup,conversation,cap,schedule,admin",
        "DedupService" => "session,blob,conversation,cap,schedule,admin",
        "ConversationService" => "session,blob,dedup,cap,schedule,admin",
        "CapService" => "session,blob,dedup,conversation,schedule,admin",
        "ScheduleService" => "session,blob,dedup,conversation,cap,admin",
        "PipeService" => "session,blob,admin",
        "AdminService" => "all",
        other => panic!("which scope does {other} need?"),
    }
}

/// The error of a pipe's only call, or of the pipe.
fn of_pipe(answer: Result<Bytes, Status>) -> Result<Bytes, Status> {
    let bytes = answer?;
    match PipeResponse::decode(bytes.clone()).unwrap().answer {
        Some(Answer::Error(error)) => {
            Err(Status::with_details(error.code.into(), error.message.clone(), error.encode_to_vec().into()))
        }
        _ => Ok(bytes),
    }
}

#[tokio::test]
async fn every_rpc_wants_a_valid_token_with_its_scope_and_namespace() {
    let (options, tokens) = on_tcp();
    let own = tokens.add("own", "namespace:own,all,admin");
    let other = tokens.add("other", "namespace:other,admin");
    let short = tokens.add_until("short", "all,admin", "2s");
    let rpcs = all_rpcs();
    let narrow: Vec<_> = ["Session", "Blob", "Dedup", "Conversation", "Cap", "Schedule", "Pipe", "Admin"]
        .iter()
        .map(|name| {
            let service = format!("{name}Service");
            let rpc = rpcs.iter().find(|rpc| rpc.service == service).unwrap();
            let without = tokens.add(&format!("not-{name}"), all_but(rpc));
            // The pipe has no scope of its own.
            let only = if rpc.is_pipe() { "dedup".into() } else { scope(rpc) };
            (service, without, tokens.add(&format!("only-{name}"), &only))
        })
        .collect();
    let trace = vec![("PANNIER_LOG_LEVEL".to_owned(), "trace".to_owned())];
    let sidecar = Sidecar::start(Options { envs: trace, ..options }).await;
    let channel = plain(&sidecar);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;

    for rpc in &rpcs {
        let path = &rpc.path;
        let asked = |token: Option<&str>, namespace: &str| {
            let (token, message) = (token.map(ToOwned::to_owned), rpc.request(namespace));
            let channel = channel.clone();
            async move {
                let answer = call(&channel, path, token.as_deref(), message).await;
                if rpc.is_pipe() { of_pipe(answer) } else { answer }
            }
        };
        let mangled = format!("{}x", &own[..own.len() - 1]);
        for (what, token) in [
            ("none", None),
            ("unknown", Some("pannier_x")),
            ("mangled", Some(mangled.as_str())),
            ("expired", Some(&short)),
        ] {
            let refused = asked(token, "own").await.unwrap_err();
            assert_eq!(refused.code(), Code::Unauthenticated, "{path} with {what}: {refused:?}");
            assert!(!refused.message().contains("pannier_"), "{path}: {refused:?}");
        }
        let (_, without, only) = narrow.iter().find(|(service, ..)| *service == rpc.service).unwrap();
        let refused = asked(Some(without), "own").await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{path}: {refused:?}");
        let lacks = if rpc.is_pipe() { "dedup".into() } else { scope(rpc) };
        assert_eq!(missing_scope(&refused), lacks, "{path}: {refused:?}");
        assert!(refused.message().contains(&lacks), "{path}: {refused:?}");
        if rpc.is_namespaced() {
            for namespace in ["own", "", "OTHER", "other "] {
                let refused = asked(Some(&other), namespace).await.unwrap_err();
                assert_eq!(refused.code(), Code::PermissionDenied, "{path} in `{namespace}`: {refused:?}");
                assert_eq!(missing_scope(&refused), "namespace", "{path}: {refused:?}");
            }
        }
        for right in [&own, only] {
            let answer = asked(Some(right), "own").await;
            assert!(!is_refused(&answer), "{path} with the right one: {answer:?}");
        }
    }
    // Nobody's secret, not even as a hash, and no namespace is in the log.
    let logs = sidecar.logs();
    let file = std::fs::read_to_string(&tokens.path).unwrap();
    for line in file.lines().filter(|line| line.starts_with("sha256")) {
        assert!(!logs.contains(line.split('"').nth(1).unwrap()));
    }
    for secret in [&own, &other, &short].into_iter().chain(narrow.iter().flat_map(|(_, a, b)| [a, b])) {
        assert!(!logs.contains(secret.as_str()) && !file.contains(secret.as_str()));
    }
    assert!(logs.contains("a call was refused"));
}

/// Each call of a pipe is judged by itself, and one that is refused ends nothing else.
#[tokio::test]
async fn calls_in_a_pipe_are_judged_one_by_one() {
    let (options, tokens) = on_tcp();
    let token = tokens.add("dedup", "namespace:own,dedup");
    let sidecar = Sidecar::start(options).await;
    let mut client = v1::pipe_service_client::PipeServiceClient::new(plain(&sidecar));
    let claim = |namespace: &str| {
        v1::pipe_request::Call::Claim(v1::ClaimRequest { namespace: namespace.into(), ..Default::default() })
    };
    let consume =
        v1::pipe_request::Call::Consume(v1::ConsumeRequest { namespace: "own".into(), ..Default::default() });
    let calls = [claim("own"), claim("other"), consume, claim("own")];
    let requests = calls
        .into_iter()
        .zip(1..)
        .map(|(call, seq)| PipeRequest { seq, timeout_ms: 0, call: Some(call) })
        .collect::<Vec<_>>();
    let mut request = tonic::Request::new(tokio_stream::iter(requests));
    request.metadata_mut().insert("authorization", format!("bearer {token}").parse().unwrap());
    let mut answers = client.pipe(request).await.unwrap().into_inner();
    let mut codes = [Code::Ok; 5];
    while let Some(answer) = answers.message().await.unwrap() {
        let Some(Answer::Error(error)) = answer.answer else { panic!("{answer:?}") };
        codes[answer.seq as usize] = error.code.into();
    }
    let (bad, denied) = (Code::InvalidArgument, Code::PermissionDenied);
    assert_eq!(codes[1..], [bad, denied, denied, bad], "own ones get as far as their fields");
}

/// A request may name its namespace twice, and the last counts: none of them may be another's.
#[tokio::test]
async fn a_namespace_cannot_be_smuggled_in() {
    let (options, tokens) = on_tcp();
    let token = tokens.add("own", "namespace:own");
    let sidecar = Sidecar::start(options).await;
    let channel = plain(&sidecar);
    let session = Bytes::from_static(b"\x12\x01s");
    let path = "/pannier.v1.SessionService/GetSession";
    for (smuggled, allowed) in [
        (&b"\x0a\x03own"[..], true),
        (b"\x0a\x03own\x0a\x05other", false),
        (b"\x0a\x05other\x0a\x03own", false),
        (b"\x0a\x03own\x0a\x00", false),
        // Wrong kinds, a length in too many bytes, a group around it: whatever a reader makes of it, it is not `other`.
        (b"\x8a\x80\x00\x05other", false),
        (b"\x0a\x85\x80\x00other", false),
    ] {
        let message = [smuggled, &session].concat();
        let answer = call(&channel, path, Some(&token), message.into()).await;
        assert_eq!(answer.is_ok(), allowed, "{smuggled:?}: {answer:?}");
        assert_eq!(is_refused(&answer), !allowed, "{smuggled:?}: {answer:?}");
    }
    for broken in [&b"\x0a\x7fx"[..], b"\x0a", b"\x08\x01", b"\x0b\x0a\x05other\x0c"] {
        let refused = call(&channel, path, Some(&token), broken.to_vec().into()).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{broken:?}: {refused:?}");
    }
    // Deep in a stream as well as at its beginning.
    let mut client = v1::session_service_client::SessionServiceClient::new(channel);
    let open = |namespace: &str| v1::AttachRequest {
        seq: 1,
        op: Some(v1::attach_request::Op::Open(v1::Open {
            namespace: namespace.into(),
            session: "s".into(),
            owner: "o".into(),
            ..Default::default()
        })),
        ..Default::default()
    };
    let (send, requests) = tokio::sync::mpsc::channel(4);
    let mut request = tonic::Request::new(tokio_stream::wrappers::ReceiverStream::new(requests));
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    send.send(open("own")).await.unwrap();
    let mut answers = client.attach(request).await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().is_some(), "Opened");
    send.send(open("other")).await.unwrap();
    let ended = loop {
        match answers.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended as if all was well"),
            Err(status) => break status,
        }
    };
    assert_eq!((ended.code(), missing_scope(&ended).as_str()), (Code::PermissionDenied, "namespace"));
}

async fn health(channel: &Channel, token: Option<&str>, method: &str) -> Result<Bytes, Status> {
    let path = format!("/grpc.health.v1.Health/{method}");
    call(channel, &path, token, HealthCheckRequest::default().encode_to_vec().into()).await
}

#[tokio::test]
async fn whether_it_is_ready_may_be_asked_by_anybody_and_nothing_else() {
    let (options, tokens) = on_tcp();
    let token = tokens.add("one", "dedup");
    let sidecar = Sidecar::start(options).await;
    let channel = plain(&sidecar);
    for token in [None, Some("wrong"), Some(token.as_str())] {
        let answer = HealthCheckResponse::decode(health(&channel, token, "Check").await.unwrap()).unwrap();
        assert_eq!(answer.status(), support::ServingStatus::Serving);
    }
    assert_eq!(health(&channel, None, "Watch").await.unwrap_err().code(), Code::Unauthenticated);
    assert!(health(&channel, Some(&token), "Watch").await.is_ok());
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let list = Bytes::from_static(b"\x3a\x00");
        let refused = call(&channel, &path, None, list.clone()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert!(!call(&channel, &path, Some(&token), list).await.unwrap().is_empty());
    }
    // What nobody serves is unknown to those who are known.
    let unknown = "/pannier.v1.SessionService/NoSuchThing";
    assert_eq!(call(&channel, unknown, None, Bytes::new()).await.unwrap_err().code(), Code::Unauthenticated);
    assert_eq!(
        call(&channel, unknown, Some(&token), Bytes::new()).await.unwrap_err().code(),
        Code::Unimplemented
    );
}

/// A large message is judged whole, and one that is too large is named as that.
#[tokio::test]
async fn large_messages_pass_the_check_and_too_large_ones_are_named() {
    let (options, tokens) = on_tcp();
    let token = tokens.add("own", "namespace:own");
    let sidecar = Sidecar::start(options).await;
    let channel = plain(&sidecar);
    let request = |size: usize| {
        let mut message = Vec::new();
        prost::encoding::string::encode(2, &"x".repeat(size), &mut message);
        message.extend_from_slice(b"\x0a\x03own");
        Bytes::from(message)
    };
    let path = "/pannier.v1.SessionService/GetSession";
    let long = call(&channel, path, Some(&token), request(4 << 20)).await.unwrap_err();
    assert!(long.message().starts_with("session:"), "the handler has seen it: {long:?}");
    let too_long = call(&channel, path, Some(&token), request(5 << 20)).await.unwrap_err();
    assert!(too_long.message().contains("at most 4 MiB"), "{too_long:?}");
}
