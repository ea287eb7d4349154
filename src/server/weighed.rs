//! A request's body whose bytes count against the memory budget as they come, until the call is over; and a response's bytes, until
//! they have gone out to the client.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;

use crate::{
    access::Denial,
    error::Result,
    memory::{COPIES, Held, Memory},
};

/// What a call takes beside its messages: its task, and what it remembers while it waits for Valkey.
pub const CALL: usize = 8 << 10;
/// Replies below this are not followed: more is spent on following them than they take.
const SMALL: usize = 16 << 10;

/// A request's body that is weighed.
pub struct Weighed<B> {
    body: Pin<Box<B>>,
    held: Arc<Held>,
    refusal: Denial,
    over: bool,
}

impl<B> Weighed<B> {
    /// What comes is taken from `held`; when it does not fit, why is left in `refusal`.
    pub fn new(body: B, held: Arc<Held>, refusal: Denial) -> Self {
        Self { body: Box::pin(body), held, refusal, over: false }
    }
}

impl<B> HttpBody for Weighed<B>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<tonic::codegen::StdError>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Status>>> {
        if self.over {
            return Poll::Ready(None);
        }
        match ready!(self.body.as_mut().poll_frame(cx)) {
            None => Poll::Ready(None),
            Some(Err(error)) => Poll::Ready(Some(Err(Status::from_error(error.into())))),
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let Err(error) = self.held.add(bytes * COPIES) else { return Poll::Ready(Some(Ok(frame))) };
                self.over = true;
                let status = error.to_status();
                let _ = self.refusal.set(error);
                Poll::Ready(Some(Err(status)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes of a reply that count until the connection has let go of them. What must go out is not refused, but makes
/// others be.
pub fn weigh(memory: &Memory, bytes: Bytes, must_go: bool) -> Result<Bytes> {
    if bytes.len() < SMALL {
        return Ok(bytes);
    }
    let held = memory.holder();
    if must_go {
        held.add_anyway(bytes.len());
    } else {
        held.add(bytes.len())?;
    }
    Ok(Bytes::from_owner(Followed { bytes, _held: held }))
}

struct Followed {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for Followed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
