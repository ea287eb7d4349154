//! The Attach stream: the lease, and the ordered pipeline under it.
//!
//! One task a stream. It reads requests, keeps one batch in flight, renews the lease, and answers every request within its
//! own time, whatever Valkey does.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::{sync::mpsc, time::Instant};
use tonic::{Status, Streaming};

use super::{
    Sessions,
    intake::Intake,
    lease::Lease,
    opening::{Opening, replicate_fence},
    outbox::Outbox,
    stream::Stream,
};
use crate::{
    error::{Error, Reason, Result},
    proto::v1::{self, attach_request::Op, attach_response::Event},
};

/// How long a stream may take to say what it wants.
const FIRST_MESSAGE: Duration = Duration::from_secs(10);
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

type Responses = mpsc::Sender<Result<v1::AttachResponse, Status>>;

/// Serves one stream to its end.
pub async fn serve(
    sessions: Arc<Sessions>,
    mut requests: Streaming<v1::AttachRequest>,
    responses: Responses,
) {
    let first = tokio::time::timeout(FIRST_MESSAGE, requests.message()).await;
    let (seq, timeout_ms, open) = match first {
        Ok(Ok(Some(v1::AttachRequest { seq, timeout_ms, op: Some(Op::Open(open)) }))) => {
            (seq, timeout_ms, open)
        }
        Ok(Ok(Some(_))) => {
            return end(&responses, &Error::bad_field("op", "the first message must be open")).await;
        }
        Ok(Ok(None) | Err(_)) => return,
        Err(_) => return end(&responses, &Error::new(Reason::Protocol, "no open came within 10 s")).await,
    };
    if *sessions.draining.borrow() {
        return end(&responses, &draining()).await;
    }
    let opening = match Opening::check(&sessions, open) {
        Ok(opening) => opening,
        Err(error) => return end(&responses, &error).await,
    };
    let timeout = match super::intake::timeout(timeout_ms, OPEN_TIMEOUT) {
        Ok(timeout) => timeout,
        Err(error) => return end(&responses, &error).await,
    };
    // A client that gives up waiting must not get the lease behind its back.
    let taken = tokio::select! {
        taken = opening.take(&sessions, timeout) => taken,
        () = responses.closed() => return,
    };
    let opened = match taken {
        Ok(opened) => opened,
        Err(error) => return end(&responses, &error).await,
    };
    let replicated = replicate_fence(&sessions, &opening.name).await;
    let told = opening.tell(&sessions, &opened, replicated, Instant::now() + timeout).await;
    let (told, preloaded) = match told {
        Ok(told) => told,
        Err(error) => return end(&responses, &error).await,
    };
    let mut outbox = Outbox::new(responses);
    outbox.push(seq, Event::Opened(told));
    if !preloaded.is_empty() {
        outbox.records(seq, opened.revision, preloaded);
    }
    let lease = Lease::new(&sessions, opening, opened);
    let mut stream = Stream {
        hints: sessions.hints.listen(&lease.name),
        intake: Intake::new(sessions.budget.clone(), lease.writer),
        sessions: Arc::clone(&sessions),
        lease,
        queue: VecDeque::new(),
        flying: Vec::new(),
        outbox,
        not_before: Instant::now(),
        last_seq: seq,
        ended: false,
    };
    sessions.attached.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    stream.run(requests).await;
    sessions.attached.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    drop(stream.hints);
    sessions.hints.forget(&stream.lease.name);
}

async fn end(responses: &Responses, error: &Error) {
    let _ = responses.send(Err(error.to_status())).await;
}

pub(super) fn draining() -> Error {
    Error::new(Reason::Draining, "the sidecar is stopping: attach again with resume")
        .retry_after(Duration::from_millis(200))
}
