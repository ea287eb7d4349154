//! One pipe: requests in, their calls polled together, answers out in whatever order they come.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use prost::Message as _;
use tokio::{sync::mpsc, time::Instant};
use tonic::{Code, Status, Streaming};

use super::rpc::{Handlers, Pipes};
use crate::{
    access::{Grant, Service},
    error::{Error, Reason, Result},
    memory::{COPIES, Held},
    proto::v1::{self, pipe_request::Call, pipe_response::Answer},
    rpc::{stream_deadline, unreadable},
    telemetry::Observation,
};

/// Calls of one pipe in flight.
const IN_FLIGHT_MAX: usize = 256;

type Responses = mpsc::Sender<std::result::Result<v1::PipeResponse, Status>>;

/// Serves one pipe until the client ends its side or goes away, or the sidecar stops.
pub async fn serve(
    pipes: &Pipes,
    grant: &Grant,
    mut requests: Streaming<v1::PipeRequest>,
    responses: Responses,
) {
    let mut draining = pipes.draining.subscribe();
    let mut calls = FuturesUnordered::new();
    let (mut reading, mut stopping) = (true, *draining.borrow());
    let mut unread: Option<Error> = None;
    loop {
        if calls.is_empty() && (!reading || stopping) {
            if let Some(error) = unread {
                let _ = responses.send(Err(error.to_status())).await;
            }
            return;
        }
        tokio::select! {
            biased;
            Some(response) = calls.next(), if !calls.is_empty() => {
                // The client is gone: what is in flight may happen or not, as when the line breaks.
                if responses.send(Ok(response)).await.is_err() {
                    return;
                }
            }
            message = requests.message(), if reading => match message {
                Ok(Some(request)) => {
                    let held = pipes.memory.holder();
                    let refused = if stopping {
                        Some(draining_error())
                    } else if calls.len() >= IN_FLIGHT_MAX {
                        Some(too_many())
                    } else {
                        held.add(request.encoded_len() * COPIES).err()
                    };
                    match refused {
                        None => calls.push(answer(pipes, grant, request, held)),
                        Some(error) => {
                            if responses.send(Ok(failed(request.seq, &error))).await.is_err() {
                                return;
                            }
                        }
                    }
                }
                Ok(None) => reading = false,
                Err(status) => {
                    reading = false;
                    unread = unreadable(&status, ("message", "a call must be at most 4 MiB"));
                }
            },
            changed = draining.changed(), if !stopping => {
                stopping = changed.is_err() || *draining.borrow();
            }
            () = responses.closed() => return,
        }
    }
}

fn too_many() -> Error {
    Error::new(Reason::TooManyInFlight, "at most 256 calls of a pipe in flight")
        .retry_after(Duration::from_millis(50))
}

fn draining_error() -> Error {
    Error::new(Reason::Draining, "the sidecar is stopping: connect again")
        .retry_after(Duration::from_millis(200))
}

fn failed(seq: u32, error: &Error) -> v1::PipeResponse {
    v1::PipeResponse { seq, answer: Some(Answer::Error(error.to_stream_status())) }
}

async fn answer(pipes: &Pipes, grant: &Grant, request: v1::PipeRequest, _held: Held) -> v1::PipeResponse {
    let _in_use = pipes.users.enter();
    let v1::PipeRequest { seq, timeout_ms, call: asked } = request;
    let mut observed = Observation::item(asked.as_ref().map_or("", path));
    let called = AssertUnwindSafe(async {
        let deadline = stream_deadline(timeout_ms)?;
        let asked = asked.ok_or_else(|| Error::bad_field("call", "is missing"))?;
        let (service, namespace) = place(&asked);
        grant.may_use(service)?;
        grant.may_enter(namespace)?;
        call(&pipes.handlers, asked, deadline).await
    });
    match called.catch_unwind().await {
        Ok(Ok(answer)) => {
            observed.ends_with(Code::Ok);
            v1::PipeResponse { seq, answer: Some(answer) }
        }
        Ok(Err(error)) => {
            observed.ends_with(error.reason().wire().1);
            failed(seq, &error)
        }
        Err(_panic) => {
            observed.ends_with(Code::Internal);
            metrics::counter!("pannier_panics_total").increment(1);
            failed(
                seq,
                &Error::new(Reason::Internal, "a fault in Pannier; its log says where").outcome_unknown(),
            )
        }
    }
}

/// The unary call that it stands for.
fn path(call: &Call) -> &'static str {
    match call {
        Call::Claim(_) => "/pannier.v1.DedupService/Claim",
        Call::ClaimBatch(_) => "/pannier.v1.DedupService/ClaimBatch",
        Call::CompleteClaim(_) => "/pannier.v1.DedupService/CompleteClaim",
        Call::ExtendClaim(_) => "/pannier.v1.DedupService/ExtendClaim",
        Call::ReleaseClaim(_) => "/pannier.v1.DedupService/ReleaseClaim",
        Call::GetConversation(_) => "/pannier.v1.ConversationService/GetConversation",
        Call::Advance(_) => "/pannier.v1.ConversationService/Advance",
        Call::TouchConversation(_) => "/pannier.v1.ConversationService/TouchConversation",
        Call::ResetConversation(_) => "/pannier.v1.ConversationService/ResetConversation",
        Call::Consume(_) => "/pannier.v1.CapService/Consume",
        Call::Confirm(_) => "/pannier.v1.CapService/Confirm",
        Call::Refund(_) => "/pannier.v1.CapService/Refund",
        Call::Peek(_) => "/pannier.v1.CapService/Peek",
        Call::NoteInbound(_) => "/pannier.v1.CapService/NoteInbound",
        Call::Enqueue(_) => "/pannier.v1.ScheduleService/Enqueue",
        Call::Ingest(_) => "/pannier.v1.ScheduleService/Ingest",
    }
}

/// Whose call it is, and in which namespace.
fn place(call: &Call) -> (Service, &str) {
    let (service, namespace) = match call {
        Call::Claim(request) => (Service::Dedup, &request.namespace),
        Call::ClaimBatch(request) => (Service::Dedup, &request.namespace),
        Call::CompleteClaim(request) => (Service::Dedup, &request.namespace),
        Call::ExtendClaim(request) => (Service::Dedup, &request.namespace),
        Call::ReleaseClaim(request) => (Service::Dedup, &request.namespace),
        Call::GetConversation(request) => (Service::Conversation, &request.namespace),
        Call::Advance(request) => (Service::Conversation, &request.namespace),
        Call::TouchConversation(request) => (Service::Conversation, &request.namespace),
        Call::ResetConversation(request) => (Service::Conversation, &request.namespace),
        Call::Consume(request) => (Service::Cap, &request.namespace),
        Call::Confirm(request) => (Service::Cap, &request.namespace),
        Call::Refund(request) => (Service::Cap, &request.namespace),
        Call::Peek(request) => (Service::Cap, &request.namespace),
        Call::NoteInbound(request) => (Service::Cap, &request.namespace),
        Call::Enqueue(request) => (Service::Schedule, &request.namespace),
        Call::Ingest(request) => (Service::Schedule, &request.namespace),
    };
    (service, namespace)
}

async fn call(handlers: &Handlers, call: Call, deadline: Instant) -> Result<Answer> {
    let (dedup, conversation, cap) = (&handlers.dedup, &handlers.conversation, &handlers.cap);
    // Boxed where the future is large and not the commonest: each call in flight takes the room of the largest.
    Ok(match call {
        Call::Claim(request) => Answer::Claim(dedup.claim(request, deadline).await?),
        Call::ClaimBatch(request) => {
            Answer::ClaimBatch(Box::pin(dedup.claim_batch(request, deadline)).await?)
        }
        Call::CompleteClaim(request) => {
            Answer::CompleteClaim(Box::pin(dedup.complete_claim(request, deadline)).await?)
        }
        Call::ExtendClaim(request) => {
            Answer::ExtendClaim(Box::pin(dedup.extend_claim(request, deadline)).await?)
        }
        Call::ReleaseClaim(request) => {
            Answer::ReleaseClaim(Box::pin(dedup.release_claim(request, deadline)).await?)
        }
        Call::GetConversation(request) => {
            Answer::GetConversation(Box::pin(conversation.get_conversation(request, deadline)).await?)
        }
        Call::Advance(request) => Answer::Advance(Box::pin(conversation.advance(request, deadline)).await?),
        Call::TouchConversation(request) => {
            Answer::TouchConversation(Box::pin(conversation.touch_conversation(request, deadline)).await?)
        }
        Call::ResetConversation(request) => {
            Answer::ResetConversation(Box::pin(conversation.reset_conversation(request, deadline)).await?)
        }
        Call::Consume(request) => Answer::Consume(Box::pin(cap.consume(request, deadline)).await?),
        Call::Confirm(request) => Answer::Confirm(Box::pin(cap.confirm(request, deadline)).await?),
        Call::Refund(request) => Answer::Refund(Box::pin(cap.refund(request, deadline)).await?),
        Call::Peek(request) => Answer::Peek(Box::pin(cap.peek(request, deadline)).await?),
        Call::NoteInbound(request) => {
            Answer::NoteInbound(Box::pin(cap.note_inbound(request, deadline)).await?)
        }
        Call::Enqueue(request) => {
            Answer::Enqueue(Box::pin(handlers.schedule.enqueue(request, deadline)).await?)
        }
        Call::Ingest(request) => Answer::Ingest(Box::pin(handlers.schedule.ingest(request, deadline)).await?),
    })
}
