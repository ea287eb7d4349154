//! What holds for every call, whichever service it is for: who may call, how many at once, the caller's deadline also over
//! a stream's body, a panic caught and counted, and a message over the limit named as what it is.

use std::{
    convert::Infallible,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, Request, Response};
use http_body::Body as HttpBody;
use tokio::time::{Instant, timeout_at};
use tonic::{body::Body, service::Routes};
use tower::Service;

use super::{
    guarded::{Guarded, Guards, name_the_limit, panicked, revocation, timed_out},
    peer::Entrance,
    weighed::{CALL, Weighed},
};
use crate::{
    access::{self, Checked, Denial, Grant, Need, Rule, rule},
    config::Limits,
    error::{Error, Reason},
    memory::{Held, Memory},
    telemetry::{Observation, with_lane_time},
    valkey::{InUse, Users},
};

/// Its calls are judged one by one, where they are answered.
const PIPE: &str = "/pannier.v1.PipeService/Pipe";

/// All services behind the checks, for one connection.
#[derive(Clone)]
pub struct Calls {
    routes: Routes,
    entrance: Entrance,
    limits: Limits,
    memory: Memory,
    users: Users,
    process: Arc<Progress>,
    connection: Arc<Connection>,
}

/// What is in progress in the whole process.
#[derive(Default)]
struct Progress {
    calls: AtomicUsize,
    streams: AtomicUsize,
}

/// What is known of one connection.
#[derive(Default)]
struct Connection {
    in_flight: AtomicUsize,
    /// A call was let in that needs somebody known.
    known: AtomicBool,
    /// The log has told of a refusal.
    refused: AtomicBool,
}

impl Calls {
    /// For the first connection; others come from [`Calls::connection`].
    pub fn new(routes: Routes, limits: Limits, memory: Memory, users: Users) -> Self {
        let entrance = Entrance::As(Grant::Nobody);
        Self { routes, entrance, limits, memory, users, process: Arc::default(), connection: Arc::default() }
    }

    /// The same services for a new connection.
    pub fn connection(&self, entrance: Entrance) -> Self {
        Self { entrance, connection: Arc::default(), ..self.clone() }
    }

    /// Calls in progress on this connection.
    pub fn in_flight(&self) -> usize {
        self.connection.in_flight.load(Ordering::Relaxed)
    }

    /// Whether a call has shown that somebody known is at the other end.
    pub fn is_known(&self) -> bool {
        self.connection.known.load(Ordering::Relaxed)
    }

    /// What the caller may do, if that includes this call. The one place where every call is judged.
    fn judge(&self, path: &str, headers: &HeaderMap) -> Result<(Grant, Option<&'static Rule>), Error> {
        let grant = match &self.entrance {
            Entrance::As(Grant::Own) => return Ok((Grant::Own, None)),
            Entrance::Closed(uid) => {
                return Err(Error::new(
                    Reason::PermissionDenied,
                    format!("user {uid} may not use this socket; --allow-uid lets it in"),
                ));
            }
            Entrance::As(grant) => grant.clone(),
            Entrance::ByToken(tokens) => match (tokens.grant(headers), rule(path)) {
                (_, Some(Rule { need: Need::Nothing, .. })) => return Ok((Grant::Nobody, None)),
                (grant, _) => grant?,
            },
        };
        let rule = rule(path);
        grant.may_call(rule)?;
        self.connection.known.store(true, Ordering::Relaxed);
        Ok((grant, rule))
    }

    /// One word for each connection: a client that is refused tries again and again.
    fn note_refusal(&self, error: &Error) {
        let (reason, _) = error.reason().wire();
        metrics::counter!("pannier_denied_calls_total", "reason" => reason).increment(1);
        if !self.connection.refused.swap(true, Ordering::Relaxed) {
            tracing::warn!(reason, %error, "a call was refused");
        }
    }

    /// Lets a call in if there is room for it. One that asks whether the sidecar is ready always is: an orchestrator that gets no
    /// answer would kill it for being busy.
    fn admit(&self, path: &str, streams: bool, observed: Observation) -> Result<InFlight, Error> {
        let (process, connection) = (Arc::clone(&self.process), Arc::clone(&self.connection));
        let held = Arc::new(self.memory.holder());
        let asks_health = access::rule(path).is_some_and(|rule| rule.need == Need::Nothing);
        // A pipe that carries nothing leaves the database asleep.
        let in_use = if asks_health || path == PIPE { None } else { self.users.enter() };
        let mut in_flight = InFlight { process, connection, streams, held, observed, _in_use: in_use };
        in_flight.connection.in_flight.fetch_add(1, Ordering::Relaxed);
        let before = in_flight.count().fetch_add(1, Ordering::Relaxed);
        let refused = match (streams, asks_health) {
            (_, true) => None,
            (true, _) if before >= self.limits.streams => {
                let most = self.limits.streams;
                Some(too_many(format!("{most} streams are open (--max-streams)"), Duration::from_secs(1)))
            }
            (false, _) if before >= self.limits.in_flight => {
                let most = self.limits.in_flight;
                let what = format!("{most} calls are in progress (--max-in-flight)");
                Some(too_many(what, Duration::from_millis(100)))
            }
            (true, _) => None,
            (false, _) => in_flight.held.add(CALL).err(),
        };
        let Some(error) = refused else { return Ok(in_flight) };
        in_flight.observed.ends_with(error.reason().wire().1);
        Err(error)
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

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let refused = |error: &Error| -> Self::Future {
            let status = error.to_status();
            Box::pin(async move { Ok(status.into_http()) })
        };
        let mut observed = Observation::begin(request.uri().path(), request.headers());
        let lane_time = observed.lane_time();
        let (grant, rule) = match self.judge(request.uri().path(), request.headers()) {
            Ok(judged) => judged,
            Err(error) => {
                self.note_refusal(&error);
                observed.ends_with(error.reason().wire().1);
                return refused(&error);
            }
        };
        let path = request.uri().path();
        let streams = access::rule(path).is_some_and(|rule| rule.streams);
        let mut in_flight = match self.admit(path, streams, observed) {
            Ok(in_flight) => in_flight,
            Err(error) => return refused(&error),
        };
        let deadline = match deadline(request.headers()) {
            Ok(timeout) => timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            Err(error) => {
                in_flight.observed.ends_with(error.reason().wire().1);
                return refused(&error);
            }
        };
        let writes = may_write(request.uri().path());
        let revoked = rule.filter(|rule| rule.streams).and_then(|_| grant.revoked().cloned());
        if request.uri().path() == PIPE {
            request.extensions_mut().insert(grant.clone());
        }
        let denial = Denial::default();
        let request = if streams {
            request.map(Body::new)
        } else {
            request
                .map(|body| Body::new(Weighed::new(body, Arc::clone(&in_flight.held), Arc::clone(&denial))))
        };
        let request = match rule {
            Some(rule) if grant.is_namespaced() && rule.need.has_namespace() => {
                request.map(|body| Body::new(Checked::new(body, rule, grant, Arc::clone(&denial))))
            }
            _ => request,
        };
        let memory = self.memory.clone();
        let call = with_lane_time(lane_time, self.routes.call(request));
        let call = AssertUnwindSafe(call).catch_unwind();
        Box::pin(async move {
            let over = revoked.clone();
            let call = async {
                match over {
                    None => Ok(call.await),
                    Some(over) => over.run_until_cancelled(call).await.ok_or_else(revocation),
                }
            };
            let answer = match deadline {
                Some(deadline) => timeout_at(deadline, call).await.unwrap_or_else(|_| Err(timed_out(writes))),
                None => call.await,
            };
            let ended = match (denial.get(), answer) {
                (Some(denied), _) => Err(denied.to_status()),
                (None, Err(status)) => Err(status),
                (None, Ok(Err(_panic))) => Err(panicked()),
                (None, Ok(Ok(Ok(response)))) => Ok(response),
            };
            let mut response = match ended {
                Ok(response) => response,
                Err(status) => {
                    in_flight.observed.ends_with(status.code());
                    return Ok(status.into_http());
                }
            };
            name_the_limit(response.headers_mut());
            in_flight.observed.ends_as(response.headers());
            let guards = Guards { deadline, writes, denial, revoked, memory, in_flight };
            let (head, body) = response.into_parts();
            let mut body = Guarded::new(body, guards);
            if !streams {
                body.begin().await;
            }
            Ok(Response::from_parts(head, Body::new(body)))
        })
    }
}

fn too_many(what: String, retry_after: Duration) -> Error {
    Error::new(Reason::TooManyInFlight, what + "; try again").retry_after(retry_after)
}

/// Counts a call until its response is over.
pub struct InFlight {
    process: Arc<Progress>,
    connection: Arc<Connection>,
    /// It is one of the streams.
    pub streams: bool,
    held: Arc<Held>,
    /// How it is seen from outside.
    pub observed: Observation,
    _in_use: Option<InUse>,
}

impl InFlight {
    /// Of its kind.
    fn count(&self) -> &AtomicUsize {
        if self.streams { &self.process.streams } else { &self.process.calls }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::Relaxed);
        self.connection.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a call that was cut off may have changed something.
fn may_write(path: &str) -> bool {
    let method = path.rsplit('/').next().unwrap_or_default();
    !["Get", "List", "Stat", "Fetch", "Peek", "ServerInfo", "KeyStatus", "Doctor", "Check", "Watch"]
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
    use tonic::{Code, Status};

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
        assert!(!may_write("/pannier.v1.AdminService/KeyStatus"));
        assert!(!may_write("/pannier.v1.AdminService/Doctor"));
        let status = timed_out(true);
        assert_eq!(status.code(), Code::DeadlineExceeded);
    }

    #[tokio::test]
    async fn a_panic_in_a_handler_is_an_internal_error_and_the_next_call_works() {
        let router = axum_router_that_panics();
        let mut calls = Calls::new(router, Limits::default(), Memory::new(1 << 20), Users::uncounted())
            .connection(Entrance::As(Grant::Own));
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
