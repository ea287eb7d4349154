//! Dedup, conversations, caps and the pipe: requests in one line each.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use pannier::proto::v1::{
    self, cap_service_client::CapServiceClient, conversation_service_client::ConversationServiceClient,
    dedup_service_client::DedupServiceClient, pipe_request::Call, pipe_response::Answer,
    pipe_service_client::PipeServiceClient,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};

use super::{Sidecar, Valkey, attach::Refused};

static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// A new request id.
pub fn rid() -> String {
    format!("request-{:08}-{:08}", std::process::id(), REQUESTS.fetch_add(1, Ordering::Relaxed))
}

pub fn ms(ms: u64) -> Option<prost_types::Duration> {
    Some(Duration::from_millis(ms).try_into().unwrap())
}

/// Of a reply.
pub fn wait_ms(duration: Option<prost_types::Duration>) -> u64 {
    let duration = Duration::try_from(duration.expect("a duration")).unwrap();
    assert_eq!(duration.subsec_nanos() % 1_000_000, 0, "whole milliseconds");
    u64::try_from(duration.as_millis()).unwrap()
}

/// Of a reply; 0 is none.
pub fn at_ms(at: Option<prost_types::Timestamp>) -> u64 {
    at.map_or(0, |at| u64::try_from(at.seconds * 1000 + i64::from(at.nanos) / 1_000_000).unwrap())
}

pub fn claim(key: &str) -> v1::ClaimRequest {
    v1::ClaimRequest { key: key.into(), request_id: rid(), ..Default::default() }
}

pub fn complete(key: &str, fence: u64, result: &[u8]) -> v1::CompleteClaimRequest {
    let result = result.to_vec().into();
    v1::CompleteClaimRequest { key: key.into(), request_id: rid(), fence, result, ..Default::default() }
}

pub fn extend(key: &str, fence: u64, in_progress_ms: u64) -> v1::ExtendClaimRequest {
    let in_progress_ttl = ms(in_progress_ms);
    v1::ExtendClaimRequest {
        key: key.into(),
        request_id: rid(),
        fence,
        in_progress_ttl,
        ..Default::default()
    }
}

pub fn release(key: &str, fence: u64) -> v1::ReleaseClaimRequest {
    v1::ReleaseClaimRequest { key: key.into(), request_id: rid(), fence, ..Default::default() }
}

pub fn advance(id: &str) -> v1::AdvanceRequest {
    v1::AdvanceRequest { id: id.into(), request_id: rid(), ..Default::default() }
}

pub fn step(id: &str, step: &str) -> v1::AdvanceRequest {
    v1::AdvanceRequest { step: Some(step.into()), ..advance(id) }
}

pub fn get(id: &str) -> v1::GetConversationRequest {
    v1::GetConversationRequest { id: id.into(), ..Default::default() }
}

pub fn touch(id: &str) -> v1::TouchConversationRequest {
    v1::TouchConversationRequest { id: id.into(), request_id: rid(), ..Default::default() }
}

pub fn reset(id: &str) -> v1::ResetConversationRequest {
    v1::ResetConversationRequest { id: id.into(), request_id: rid(), ..Default::default() }
}

pub fn fields(fields: &[(&str, &str)]) -> std::collections::HashMap<String, bytes::Bytes> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec().into())).collect()
}

pub fn consume(send_id: &str, policies: &[&str]) -> v1::ConsumeRequest {
    v1::ConsumeRequest {
        send_id: send_id.into(),
        policies: policies.iter().map(|name| (*name).to_owned()).collect(),
        ..Default::default()
    }
}

impl Sidecar {
    pub fn dedup(&self) -> DedupServiceClient<Channel> {
        DedupServiceClient::new(self.channel())
    }

    pub fn conversations(&self) -> ConversationServiceClient<Channel> {
        ConversationServiceClient::new(self.channel())
    }

    pub fn caps(&self) -> CapServiceClient<Channel> {
        CapServiceClient::new(self.channel())
    }
}

/// The answer of a unary call, or why it was refused.
pub fn answered<T>(result: Result<tonic::Response<T>, tonic::Status>) -> Result<T, Refused> {
    result.map(tonic::Response::into_inner).map_err(|status| Refused::of_status(&status))
}

/// Refused as BAD_FIELD or TOO_LARGE naming `field`.
pub fn assert_names<T>(result: Result<tonic::Response<T>, tonic::Status>, field: &str) {
    let Err(refused) = answered(result) else { panic!("{field} was accepted") };
    assert_eq!(refused.code, tonic::Code::InvalidArgument, "{field}: {refused:?}");
    assert_eq!(refused.fields, [field], "{refused:?}");
}

/// Refused because Valkey is away, by the sidecar or by the call's deadline.
pub fn assert_unavailable(refused: &Refused) {
    assert!(
        matches!(
            refused.code,
            tonic::Code::Unavailable | tonic::Code::DeadlineExceeded | tonic::Code::Cancelled
        ),
        "{refused:?}"
    );
}

/// One pipe.
pub struct Pipe {
    requests: mpsc::Sender<v1::PipeRequest>,
    pub answers: Streaming<v1::PipeResponse>,
    seq: u32,
}

impl Pipe {
    pub async fn open(sidecar: &Sidecar) -> Self {
        let (requests, receiver) = mpsc::channel(2048);
        let mut client = PipeServiceClient::new(sidecar.channel());
        let answers = client.pipe(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { requests, answers, seq: 0 }
    }

    /// Sends a call; its seq.
    pub async fn send(&mut self, call: Call) -> u32 {
        self.send_within(call, 0).await
    }

    pub async fn send_within(&mut self, call: Call, timeout_ms: u32) -> u32 {
        self.seq += 1;
        let request = v1::PipeRequest { seq: self.seq, timeout_ms, call: Some(call) };
        self.requests.send(request).await.unwrap();
        self.seq
    }

    /// The next answer; `None`: the stream has ended.
    pub async fn next(&mut self) -> Option<(u32, Result<Answer, Refused>)> {
        let next = tokio::time::timeout(Duration::from_secs(20), self.answers.message()).await;
        let response = next.expect("an answer").unwrap()?;
        let answer = match response.answer.unwrap() {
            Answer::Error(status) => Err(Refused::of(&status)),
            answer => Ok(answer),
        };
        Some((response.seq, answer))
    }

    pub async fn call(&mut self, call: Call) -> Result<Answer, Refused> {
        let seq = self.send(call).await;
        let (answered, answer) = self.next().await.expect("an answer");
        assert_eq!(answered, seq);
        answer
    }

    /// Ends the client's side.
    pub fn end(self) -> Streaming<v1::PipeResponse> {
        self.answers
    }
}

/// Every key below the environment but the indexes', root keys and policies, with its TTL in ms (−1: none).
pub fn ttls(valkey: &Valkey) -> Vec<(Vec<u8>, i64)> {
    let mut connection = valkey.connection();
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("pannier:test:{*").query(&mut connection).unwrap();
    if keys.is_empty() {
        return Vec::new();
    }
    let mut pipe = redis::pipe();
    for key in &keys {
        pipe.cmd("PTTL").arg(key);
    }
    let ttls: Vec<i64> = pipe.query(&mut connection).unwrap();
    keys.into_iter().zip(ttls).filter(|(key, _)| !key.ends_with(b"}:k") && !key.ends_with(b"}:p")).collect()
}

/// Bytes that Valkey takes for a key.
pub fn memory(valkey: &Valkey, key: &[u8]) -> u64 {
    redis::cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).query(&mut valkey.connection()).unwrap()
}
