//! The Attach stream: the lease, and the ordered pipeline under it.
//!
//! One task a stream. It reads requests, keeps one batch in flight, renews the lease, and answers every request within its
//! own time, whatever Valkey does.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};
use tonic::{Status, Streaming};

use super::{
    Sessions,
    intake::Intake,
    lease::Lease,
    opening::{Opening, replicate_fence},
    outbox::Outbox,
    records::Record,
    stream::{Stream, TOO_LARGE},
    take::Opened,
};
use crate::{
    error::{Error, Reason, Result},
    proto::v1::{self, attach_request::Op, attach_response::Event},
    rpc::unreadable,
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
    let counted = Counted::one_more(&sessions.opening);
    let mut stopping = sessions.draining.subscribe();
    let begun = tokio::select! {
        biased;
        _ = stopping.wait_for(|draining| *draining) => Err(draining()),
        // A client that gives up waiting must not get the lease behind its back.
        () = responses.closed() => return,
        begun = begin(&sessions, &mut requests) => begun,
    };
    let begun = match begun {
        Ok(Some(begun)) => begun,
        Ok(None) => return,
        Err(error) => {
            let _ = responses.send(Err(error.to_status())).await;
            return;
        }
    };
    let mut outbox = Outbox::new(responses);
    outbox.push(begun.seq, Event::Opened(begun.told));
    if !begun.preloaded.is_empty() {
        outbox.records(begun.seq, begun.opened.revision, begun.preloaded);
    }
    let lease = Lease::new(&sessions, begun.opening, begun.opened);
    let mut stream = Stream {
        hints: sessions.hints.listen(&lease.name),
        intake: Intake::new(sessions.budget.clone(), lease.writer),
        sessions: Arc::clone(&sessions),
        lease,
        queue: VecDeque::new(),
        flying: Vec::new(),
        outbox,
        not_before: Instant::now(),
        last_seq: begun.seq,
        ended: false,
    };
    let attached = Counted::one_more(&sessions.attached);
    drop(counted);
    stream.run(requests).await;
    drop(attached);
    drop(stream.hints);
    sessions.hints.forget(&stream.lease.name);
}

/// A lease that was taken, and what its client is told first.
struct Begun {
    seq: u32,
    opening: Opening,
    opened: Opened,
    told: v1::Opened,
    preloaded: Vec<Record>,
}

/// Reads the first message and takes the lease that it asks for. `None`: the client left before it said anything.
async fn begin(sessions: &Sessions, requests: &mut Streaming<v1::AttachRequest>) -> Result<Option<Begun>> {
    let first = tokio::time::timeout(FIRST_MESSAGE, requests.message()).await;
    let (seq, timeout_ms, open) = match first {
        Ok(Ok(Some(v1::AttachRequest { seq, timeout_ms, op: Some(Op::Open(open)) }))) => {
            (seq, timeout_ms, open)
        }
        Ok(Ok(Some(_))) => return Err(Error::bad_field("op", "the first message must be open")),
        Ok(Ok(None)) => return Ok(None),
        Ok(Err(status)) => return unreadable(&status, TOO_LARGE).map_or(Ok(None), Err),
        Err(_) => return Err(Error::new(Reason::Protocol, "no open came within 10 s")),
    };
    let opening = Opening::check(sessions, open)?;
    let timeout = super::intake::timeout(timeout_ms, OPEN_TIMEOUT)?;
    let opened = opening.take(sessions, timeout).await?;
    let replicated = replicate_fence(sessions, &opening.name).await;
    let (told, preloaded) = opening.tell(sessions, &opened, replicated, Instant::now() + timeout).await?;
    Ok(Some(Begun { seq, opening, opened, told, preloaded }))
}

/// Counts one in for as long as it lives.
struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    fn one_more(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) fn draining() -> Error {
    Error::new(Reason::Draining, "the sidecar is stopping: attach again with resume")
        .retry_after(Duration::from_millis(200))
}
