//! A response's body under the guards of its call: the deadline, the token, the panic of a handler, and the end of what was refused
//! in the middle of a stream.

use std::{
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::{Code, Status, body::Body};

use super::{calls::InFlight, weighed::weigh};
use crate::{
    access::Denial,
    error::{Error, Reason},
    memory::Memory,
};

/// A response's body under the same guards as the call.
pub struct Guarded {
    body: Body,
    deadline: Option<Pin<Box<Sleep>>>,
    writes: bool,
    denial: Denial,
    revoked: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    over: bool,
    /// A frame that was looked at before it was asked for.
    ahead: Option<Frame<Bytes>>,
    memory: Memory,
    in_flight: InFlight,
}

/// What holds for one call.
pub struct Guards {
    pub deadline: Option<Instant>,
    /// Being cut off leaves it unknown what was done.
    pub writes: bool,
    /// Set when a request was refused on the way.
    pub denial: Denial,
    /// Fires when the stream is to end.
    pub revoked: Option<CancellationToken>,
    pub memory: Memory,
    pub in_flight: InFlight,
}

impl Guarded {
    /// The body of one call's response.
    pub fn new(body: Body, guards: Guards) -> Self {
        let Guards { deadline, writes, denial, revoked, memory, in_flight } = guards;
        let deadline = deadline.map(|at| Box::pin(sleep_until(at)));
        let revoked = revoked.map(|revoked| Box::pin(revoked.cancelled_owned()));
        Self { body, deadline, writes, denial, revoked, over: false, ahead: None, memory, in_flight }
    }

    /// Makes the first frame now, if that needs no waiting. hyper asks for it only when there is room for it on the line, and until
    /// then the reply of a client that does not read would take memory that nobody counts.
    pub async fn begin(&mut self) {
        let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut *self).poll_frame(cx))).await;
        if let Poll::Ready(Some(Ok(frame))) = first {
            self.ahead = Some(frame);
        }
    }

    fn end(&mut self, status: &Status) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.over = true;
        self.in_flight.observed.ends_with(status.code());
        // What was being made is dropped now, not when the client has read the end.
        self.body = Body::empty();
        let mut trailers = HeaderMap::new();
        Poll::Ready(Some(status.add_header(&mut trailers).map(|()| Frame::trailers(trailers))))
    }
}

impl HttpBody for Guarded {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(frame) = self.ahead.take() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if self.over {
            return Poll::Ready(None);
        }
        if self.deadline.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready()) {
            let status = timed_out(self.writes);
            return self.end(&status);
        }
        if self.revoked.as_mut().is_some_and(|revoked| revoked.as_mut().poll(cx).is_ready()) {
            return self.end(&revocation());
        }
        let body = &mut self.body;
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| Pin::new(body).poll_frame(cx)));
        // The handler saw its requests end; why, is said here.
        if let Some(denied) = self.denial.get().map(Error::to_status) {
            return self.end(&denied);
        }
        match polled {
            Err(_panic) => {
                let status = panicked();
                self.end(&status)
            }
            Ok(Poll::Ready(Some(Ok(mut frame)))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    name_the_limit(trailers);
                    self.in_flight.observed.ends_as(trailers);
                }
                let data = match frame.into_data() {
                    Ok(data) => data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                };
                // Only a read can be asked again at no cost.
                let must_go = self.in_flight.streams || self.writes;
                match weigh(&self.memory, data, must_go) {
                    Ok(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
                    Err(error) => self.end(&error.to_status()),
                }
            }
            Ok(other) => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_none() && (self.over || self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pub fn timed_out(writes: bool) -> Status {
    let error = Error::new(Reason::DeadlineExceeded, "the call's deadline has passed");
    if writes { error.outcome_unknown() } else { error }.to_status()
}

pub fn revocation() -> Status {
    Error::new(Reason::Unauthenticated, "the token was removed or changed, or has expired: this stream ends")
        .outcome_unknown()
        .to_status()
}

pub fn panicked() -> Status {
    metrics::counter!("pannier_panics_total").increment(1);
    Error::new(Reason::Internal, "a fault in Pannier; its log says where").outcome_unknown().to_status()
}

/// tonic refuses a message over the limit as OUT_OF_RANGE, which nothing here says otherwise, and one that does not decode as
/// INTERNAL, as if the fault were here.
pub fn name_the_limit(headers: &mut HeaderMap) {
    let Some(status) = Status::from_header_map(headers) else { return };
    let error = match status.code() {
        Code::OutOfRange => {
            Error::too_large("message", "at most 4 MiB; send larger values in fragments over Attach")
        }
        Code::Internal => match status.message().strip_prefix("failed to decode Protobuf message: ") {
            Some(why) => undecodable(why),
            None => return,
        },
        _ => return,
    };
    // On failure the old headers stay: still a refusal.
    let _ = error.to_status().add_header(headers);
}

/// Of what prost says: the way to the field as `Message.field: `, once for each level and the innermost first, then the reason.
fn undecodable(why: &str) -> Error {
    let mut fields: Vec<_> = why
        .split(": ")
        .map_while(|step| step.split_once('.').filter(|(_, field)| !field.contains(' ')))
        .map(|(_, field)| field)
        .collect();
    fields.reverse();
    if why.ends_with("not UTF-8 encoded") && !fields.is_empty() {
        return Error::bad_field(fields.join("."), "must be UTF-8");
    }
    Error::new(Reason::Protocol, "a message could not be decoded: it is not of this API")
}
