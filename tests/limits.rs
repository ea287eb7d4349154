//! What holds for every call: the size of messages, and the caller's deadline.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pannier::proto::v1;
use prost::Message as _;
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, Refused, open, put},
};
use tonic::{Code, Status};

const MIB: usize = 1 << 20;

async fn make_session(sidecar: &Sidecar) {
    let mut bot = Attach::open(sidecar.channel(), open("bot-1", "setup")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "x")], vec![]).await.unwrap();
    bot.close().await;
}

/// A commit whose message has exactly this size.
fn commit_of(size: usize, op_seq: u64) -> v1::CommitRecordsRequest {
    let mut request = v1::CommitRecordsRequest {
        session: "bot-1".into(),
        writer_id: "w".into(),
        op_seq,
        puts: (0..5).map(|n| put("session", &format!("{n}.0"), vec![n; size / 5 - 100])).collect(),
        ..Default::default()
    };
    let missing = size - request.encoded_len();
    let record = request.puts[0].record.as_mut().unwrap();
    record.value = vec![0; record.value.len() + missing].into();
    assert_eq!(request.encoded_len(), size);
    request
}

/// dapr#7981, #8537: 4 MiB exactly passes, both ways; more is named as what it is.
#[tokio::test]
async fn a_message_of_exactly_4_mib_passes_and_a_larger_one_is_named() {
    let sidecar = Sidecar::start(Options::default()).await;
    make_session(&sidecar).await;
    let mut sessions = sidecar.sessions();
    for (op_seq, size) in [(1, 4 * MIB - 1), (2, 4 * MIB)] {
        sessions.commit_records(commit_of(size, op_seq)).await.unwrap();
    }
    for size in [4 * MIB + 128 * 1024, 8 * MIB] {
        let refused = Refused::of_status(&sessions.commit_records(commit_of(size, 3)).await.unwrap_err());
        assert_eq!(
            (refused.code, refused.reason.as_str()),
            (Code::InvalidArgument, "TOO_LARGE"),
            "{refused:?}"
        );
        assert!(refused.message.contains("Attach"), "{refused:?}");
    }
    // Four of the five records of almost 840 KiB fit into a reply; all of them do not.
    let get = |count: u8| v1::GetRecordsRequest {
        session: "bot-1".into(),
        queries: vec![v1::Query {
            r#type: "session".into(),
            ids: (0..count).map(|n| format!("{n}.0")).collect(),
        }],
        ..Default::default()
    };
    assert_eq!(sessions.get_records(get(4)).await.unwrap().into_inner().records.len(), 4);
    let refused = Refused::of_status(&sessions.get_records(get(5)).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::InvalidArgument, "TOO_LARGE"));
}

/// grpc-rust#75, #606: the caller's deadline ends the call in time, as what it is, also over a stream.
#[tokio::test]
async fn a_deadline_is_kept_and_called_by_its_name() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    make_session(&sidecar).await;
    let mut sessions = sidecar.sessions();
    // Connected, so that what is measured is the call.
    sessions
        .get_session(v1::GetSessionRequest { session: "bot-1".into(), ..Default::default() })
        .await
        .unwrap();
    valkey.sigstop();

    let begin = Instant::now();
    let read = v1::GetSessionRequest { session: "bot-1".into(), ..Default::default() };
    let refused = raw_deadline(&sidecar, "pannier.v1.SessionService/GetSession", read, "50m").await;
    assert!(begin.elapsed() < Duration::from_millis(2100), "took {:?}", begin.elapsed());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"));
    assert!(!refused.metadata.contains_key("outcome_unknown"), "a read changes nothing");

    // Whether it is unknown what became of a write depends on how far it came; it is a deadline in any case.
    let refused =
        raw_deadline(&sidecar, "pannier.v1.SessionService/CommitRecords", commit_of(4000, 1), "50m").await;
    assert_eq!((refused.code, refused.reason.as_str()), (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"));
    valkey.sigcont();

    // A health watch has no end of its own.
    let begin = Instant::now();
    let watch = tonic_health::pb::HealthCheckRequest::default();
    let ended = raw_deadline(&sidecar, "grpc.health.v1.Health/Watch", watch, "300m").await;
    assert_eq!((ended.code, ended.reason.as_str()), (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"));
    assert!(begin.elapsed() >= Duration::from_millis(300) && begin.elapsed() < Duration::from_millis(2300));

    let wrong = v1::GetSessionRequest { session: "bot-1".into(), ..Default::default() };
    let refused = raw_deadline(&sidecar, "pannier.v1.SessionService/GetSession", wrong, "soon").await;
    assert_eq!((refused.code, refused.reason.as_str()), (Code::InvalidArgument, "BAD_FIELD"));
}

/// A unary call by hand: tonic's client would keep the deadline itself, and be quicker.
async fn raw_deadline(
    sidecar: &Sidecar,
    method: &str,
    message: impl prost::Message,
    timeout: &str,
) -> Refused {
    let stream = tokio::net::UnixStream::connect(&sidecar.socket).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
    frame.extend(message.encode_to_vec());
    let request = http::Request::post(format!("http://localhost/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", timeout)
        .body(http_body_util::Full::new(bytes::Bytes::from(frame)))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    if let Some(status) = Status::from_header_map(response.headers()) {
        return Refused::of_status(&status);
    }
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        if let Some(trailers) = frame.unwrap().trailers_ref() {
            return Refused::of_status(&Status::from_header_map(trailers).unwrap());
        }
    }
    panic!("no status");
}
