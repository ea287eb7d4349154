//! The admin port: `/metrics`, `/livez`, `/readyz`, for those who watch. No secrets, no names; one request a connection, which has
//! little time.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Failure, observed::Observed};
use crate::config::{ConfigError, Place, is_loopback};

/// Connections at once; one more is closed.
const MAX_CONNECTIONS: usize = 32;
/// For the whole head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// For a connection, from its first byte to the last of the answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const MAX_HEAD: usize = 16 << 10;
const MAX_HEADERS: usize = 64;

/// The bound port.
pub struct AdminHttp {
    listener: TcpListener,
}

impl AdminHttp {
    /// Binds it.
    ///
    /// # Errors
    /// The address is taken, or not one of this machine.
    pub async fn bind(place: &Place) -> Result<Self, Failure> {
        let failed =
            |error: io::Error| ConfigError(format!("--admin {}:{}: {error}", place.host, place.port));
        let listener = TcpListener::bind((place.host.as_str(), place.port)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        if is_loopback(&place.host) && !address.ip().is_loopback() {
            return Err(failed(io::Error::other(format!(
                "the name stands for {}, not loopback",
                address.ip()
            )))
            .into());
        }
        tracing::info!(%address, "metrics, /livez and /readyz");
        Ok(Self { listener })
    }

    /// Answers until `stop`; then ends within a moment, whatever its clients do.
    pub async fn serve(self, observed: Arc<Observed>, stop: CancellationToken) {
        let (room, connections) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), TaskTracker::new());
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
                        tracing::debug!("too many connections to the admin port: a new one was closed");
                        continue;
                    };
                    let observed = Arc::clone(&observed);
                    connections.spawn(async move {
                        if let Err(error) = answer(stream, observed).await {
                            tracing::trace!(error, "a connection to the admin port broke");
                        }
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection to the admin port could not be accepted");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(self.listener);
        connections.close();
        let _ = timeout(Duration::from_millis(250), connections.wait()).await;
    }
}

async fn answer(stream: TcpStream, observed: Arc<Observed>) -> Result<(), String> {
    let service = service_fn(move |request| respond(request, Arc::clone(&observed)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(ANSWER_WITHIN, connection).await {
        Ok(served) => served.map_err(|error| error.to_string()),
        Err(_) => Err("it took too long".to_owned()),
    }
}

async fn respond(
    request: Request<Incoming>,
    observed: Arc<Observed>,
) -> Result<Response<String>, Infallible> {
    let only_reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let (status, kind, body) = match (only_reads, request.uri().path()) {
        (false, _) => (StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n".to_owned()),
        (_, "/livez") => (StatusCode::OK, TEXT, "alive\n".to_owned()),
        (_, "/readyz") => {
            let (ready, why) = observed.readiness();
            let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            (status, TEXT, why + "\n")
        }
        (_, "/metrics") => match tokio::task::spawn_blocking(move || observed.metrics()).await {
            Ok(metrics) => (StatusCode::OK, PROMETHEUS, metrics),
            Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, TEXT, "a fault in Pannier\n".to_owned()),
        },
        _ => (StatusCode::NOT_FOUND, TEXT, "/metrics, /livez or /readyz\n".to_owned()),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    Ok(response)
}

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
