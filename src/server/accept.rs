//! Our own accept loop. tonic's waits at shutdown for every connection, also for one that never says a word.

use std::{io, sync::Arc, time::Duration};

use hyper::server::conn::http2;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{calls::Calls, peer::PeerPolicy};

/// Connections at once. A client needs one, or one for each of its processes.
const MAX_CONNECTIONS: usize = 1024;

/// After the end of its calls a connection gets this long to read the last bytes.
const LINGER: Duration = Duration::from_millis(300);

/// The steps of a shutdown, in this order.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// No new connections, and no new calls on those there are (GOAWAY).
    pub finish: CancellationToken,
    /// Whatever is left is cut off.
    pub cut: CancellationToken,
}

/// Accepts until `steps.finish`; the listener is closed then. Each connection is a task of `connections`.
pub async fn accept(
    listener: UnixListener,
    calls: Calls,
    policy: PeerPolicy,
    steps: Steps,
    connections: TaskTracker,
) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            biased;
            () = steps.finish.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely; a tight loop would not free any.
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            tracing::warn!(limit = MAX_CONNECTIONS, "too many connections: a new one was closed");
            continue;
        };
        let peer = policy.judge(&stream);
        if !peer.allowed {
            tracing::warn!(uid = peer.uid, "a user that may not use the socket has connected");
        }
        let (calls, steps) = (calls.connection(peer), steps.clone());
        connections.spawn(async move {
            if let Err(error) = serve(stream, calls, steps).await {
                tracing::debug!(%error, "a connection broke");
            }
            drop(permit);
        });
    }
}

async fn serve(stream: UnixStream, calls: Calls, steps: Steps) -> Result<(), hyper::Error> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .initial_stream_window_size(2 << 20)
        .initial_connection_window_size(16 << 20)
        .max_frame_size(256 << 10)
        .max_send_buf_size(1 << 20)
        .max_concurrent_streams(1024)
        .max_header_list_size(64 << 10)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    let service = TowerToHyperService::new(calls.clone());
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        biased;
        over = connection.as_mut() => return over,
        () = steps.finish.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    // A peer that has not sent its preface, or does not read, would keep the connection for ever.
    loop {
        tokio::select! {
            biased;
            over = connection.as_mut() => return over,
            () = steps.cut.cancelled() => return Ok(()),
            () = sleep(LINGER) => if calls.in_flight() == 0 { return Ok(()) },
        }
    }
}

/// Raises the limit of file descriptors to what is allowed: each connection takes one.
pub fn raise_descriptor_limit() -> io::Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}
