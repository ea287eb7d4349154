//! A connection to a sidecar over which calls have a deadline that only the sidecar keeps: tonic's own client would be quicker.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http::{HeaderValue, Request, Response, Uri};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tonic::body::Body;

use super::Sidecar;

/// What clients are made with, instead of a channel.
#[derive(Clone)]
pub struct Wire {
    sender: SendRequest<Body>,
    timeout: Option<HeaderValue>,
}

impl Wire {
    /// Calls get this `grpc-timeout`, in ms; 0: none.
    pub async fn to(sidecar: &Sidecar, timeout_ms: u32) -> Self {
        let stream = tokio::net::UnixStream::connect(&sidecar.socket).await.unwrap();
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(4 << 20).initial_connection_window_size(16 << 20);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender, timeout: None }.within(timeout_ms)
    }

    /// The same connection with another deadline.
    #[must_use]
    pub fn within(&self, timeout_ms: u32) -> Self {
        let timeout = (timeout_ms > 0).then(|| format!("{timeout_ms}m").parse().unwrap());
        Self { sender: self.sender.clone(), timeout }
    }
}

impl tower::Service<Request<Body>> for Wire {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.sender.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let path = request.uri().path_and_query().unwrap().as_str();
        *request.uri_mut() = format!("http://localhost{path}").parse::<Uri>().unwrap();
        if let Some(timeout) = &self.timeout {
            request.headers_mut().insert("grpc-timeout", timeout.clone());
        }
        Box::pin(self.sender.send_request(request))
    }
}
