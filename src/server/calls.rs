//! What holds for every call, whichever service it is for: who may call, how many at once, the caller's deadline also over
//! a stream's body, a panic caught and counted, and a message over the limit named as what it is.

use std::{
    convert::Infallible,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tonic::{Code, Status, body::Body, service::Routes};
use tower::Service;

use super::peer::Peer;
use crate::error::{Error, Reason};

/// Calls in progress of the whole process, streams included. Beyond, a call is refused at once instead of queued.
const MAX_IN_FLIGHT: usize = 8192;

/// Calls of this service need the admin scope.
const ADMIN: &str = "/pannier.v1.AdminService/";

/// All services behind the checks, for one connection.
#[derive(Clone)]
pub struct Calls {
    routes: Routes,
    peer: Peer,
    process: Arc<AtomicUsize>,
    connection: Arc<AtomicUsize>,
}

impl Calls {
    /// For the first connection; others come from [`Calls::connection`].
    pub fn new(routes: Routes) -> Self {
        let peer = Peer { uid: u32::MAX, allowed: false, admin: false };
        Self { routes, peer, process: Arc::default(), connection: Arc::default() }
    }

    /// The same services for a new connection.
    pub fn connection(&self, peer: Peer) -> Self {
        Self { peer, connection: Arc::default(), ..self.clone() }
    }

    /// Calls in progress on this connection.
    pub fn in_flight(&self) -> usize {
        self.connection.load(Ordering::Relaxed)
    }

    fn admit(&self, path: &str) -> Result<InFlight, Error> {
        if !self.peer.allowed {
            return Err(Error::new(
                Reason::PermissionDenied,
                format!("user {} may not use this socket; --allow-uid lets it in", self.peer.uid),
            ));
        }
        if path.starts_with(ADMIN) && !self.peer.admin {
            return Err(Error::new(
                Reason::PermissionDenied,
                "admin calls are for the user that the sidecar runs as; call as that user",
            ));
        }
        let in_flight =
            InFlight { process: Arc::clone(&self.process), connection: Arc::clone(&self.connection) };
        in_flight.connection.fetch_add(1, Ordering::Relaxed);
        if in_flight.process.fetch_add(1, Ordering::Relaxed) >= MAX_IN_FLIGHT {
            return Err(Error::new(
                Reason::TooManyInFlight,
                format!("{MAX_IN_FLIGHT} calls are in progress; try again"),
            )
            .retry_after(Duration::from_millis(100)));
        }
        Ok(in_flight)
    }
}

impl<B> Service<Request<B>> for Calls
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<tonic::codegen::StdError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let in_flight = match self.admit(request.uri().path()) {
            Ok(in_flight) => in_flight,
            Err(error) => return Box::pin(async move { Ok(error.to_status().into_http()) }),
        };
        let deadline = match deadline(request.headers()) {
            Ok(timeout) => timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            Err(error) => return Box::pin(async move { Ok(error.to_status().into_http()) }),
        };
        let writes = may_write(request.uri().path());
        let call = AssertUnwindSafe(self.routes.call(request.map(Body::new))).catch_unwind();
        Box::pin(async move {
            let answer = match deadline {
                Some(deadline) => timeout_at(deadline, call).await.map_err(|_| timed_out(writes)),
                None => Ok(call.await),
            };
            let mut response = match answer {
                Err(status) => return Ok(status.into_http()),
                Ok(Err(_panic)) => return Ok(panicked().into_http()),
                Ok(Ok(Ok(response))) => response,
            };
            name_the_limit(response.headers_mut());
            Ok(response.map(|body| {
                Body::new(Guarded {
                    body,
                    deadline: deadline.map(|at| Box::pin(sleep_until(at))),
                    writes,
                    over: false,
                    _in_flight: in_flight,
                })
            }))
        })
    }
}

/// Counts a call until its response is over.
struct InFlight {
    process: Arc<AtomicUsize>,
    connection: Arc<AtomicUsize>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.process.fetch_sub(1, Ordering::Relaxed);
        self.connection.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A response's body under the same guards as the call.
struct Guarded {
    body: Body,
    deadline: Option<Pin<Box<Sleep>>>,
    writes: bool,
    over: bool,
    _in_flight: InFlight,
}

impl Guarded {
    fn end(&mut self, status: &Status) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.over = true;
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
        if self.over {
            return Poll::Ready(None);
        }
        if self.deadline.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready()) {
            let status = timed_out(self.writes);
            return self.end(&status);
        }
        let body = &mut self.body;
        match std::panic::catch_unwind(AssertUnwindSafe(|| Pin::new(body).poll_frame(cx))) {
            Err(_panic) => {
                let status = panicked();
                self.end(&status)
            }
            Ok(Poll::Ready(Some(Ok(mut frame)))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    name_the_limit(trailers);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Ok(other) => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn timed_out(writes: bool) -> Status {
    let error = Error::new(Reason::DeadlineExceeded, "the call's deadline has passed");
    if writes { error.outcome_unknown() } else { error }.to_status()
}

fn panicked() -> Status {
    metrics::counter!("pannier_panics_total").increment(1);
    Error::new(Reason::Internal, "a fault in Pannier; its log says where").outcome_unknown().to_status()
}

/// tonic refuses a message over the limit as OUT_OF_RANGE, which nothing here says otherwise, and one that does not decode as
/// INTERNAL, as if the fault were here.
fn name_the_limit(headers: &mut HeaderMap) {
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

/// Whether a call that was cut off may have changed something.
fn may_write(path: &str) -> bool {
    let method = path.rsplit('/').next().unwrap_or_default();
    !["Get", "List", "Stat", "Fetch", "Peek", "ServerInfo", "Check", "Watch"]
        .iter()
        .any(|reading| method.starts_with(reading))
}

/// The caller's `grpc-timeout`: at most 8 digits and a unit.
fn deadline(headers: &HeaderMap) -> Result<Option<Duration>, Error> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    let read = || {
        let text = value.to_str().ok()?;
        let unit = text.chars().last()?;
        let digits = text.strip_suffix(unit)?;
        if digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let number: u64 = digits.parse().ok()?;
        Some(match unit {
            'H' => Duration::from_secs(number * 3600),
            'M' => Duration::from_secs(number * 60),
            'S' => Duration::from_secs(number),
            'm' => Duration::from_millis(number),
            'u' => Duration::from_micros(number),
            'n' => Duration::from_nanos(number),
            _ => return None,
        })
    };
    read()
        .map(Some)
        .ok_or_else(|| Error::bad_field("grpc-timeout", "at most 8 digits and one of H M S m u n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_read_as_the_protocol_has_them() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().unwrap());
            deadline(&headers)
        };
        assert_eq!(read("50m").unwrap(), Some(Duration::from_millis(50)));
        assert_eq!(read("99999999H").unwrap(), Some(Duration::from_secs(99_999_999 * 3600)));
        for wrong in ["", "m", "123456789m", "5", "-5S", "5x", "+5S"] {
            assert_eq!(read(wrong).unwrap_err().wrong_field(), Some("grpc-timeout"), "{wrong}");
        }
    }

    #[test]
    fn only_a_cut_off_write_has_an_unknown_outcome() {
        assert!(may_write("/pannier.v1.SessionService/CommitRecords"));
        assert!(may_write("/pannier.v1.SessionService/Attach"));
        assert!(!may_write("/pannier.v1.SessionService/GetRecords"));
        let status = timed_out(true);
        assert_eq!(status.code(), Code::DeadlineExceeded);
    }

    #[tokio::test]
    async fn a_panic_in_a_handler_is_an_internal_error_and_the_next_call_works() {
        let router = axum_router_that_panics();
        let mut calls = Calls::new(router).connection(Peer { uid: 0, allowed: true, admin: true });
        for _ in 0..2 {
            let request = Request::builder().uri("/x.Y/Z").body(Body::empty()).unwrap();
            let response = calls.call(request).await.unwrap();
            let status = Status::from_header_map(response.headers()).unwrap();
            assert_eq!(status.code(), Code::Internal);
        }
        assert_eq!(calls.in_flight(), 0);
    }

    fn axum_router_that_panics() -> Routes {
        #[derive(Clone)]
        struct Panics;
        impl tonic::server::NamedService for Panics {
            const NAME: &'static str = "x.Y";
        }
        impl Service<Request<Body>> for Panics {
            type Response = Response<Body>;
            type Error = Infallible;
            type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;
            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }
            fn call(&mut self, _: Request<Body>) -> Self::Future {
                Box::pin(async { panic!("on purpose") })
            }
        }
        Routes::new(Panics)
    }
}
