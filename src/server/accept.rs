//! Our own accept loop. tonic's waits at shutdown for every connection, also for one that never says a word.

use std::{future::pending, io, sync::Arc, time::Duration};

use hyper::server::conn::http2;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixListener,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    calls::Calls,
    peer::{Entrance, PeerPolicy},
    tcp::{self, Tcp},
};

/// Connections at once, on the socket and over TCP each: strangers must not lock out those on the socket. A client needs one, or
/// one for each of its processes.
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

/// Room for connections.
struct Room(Arc<Semaphore>);

impl Room {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CONNECTIONS)))
    }

    fn take(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.0).try_acquire_owned().ok();
        if permit.is_none() {
            tracing::warn!(limit = MAX_CONNECTIONS, "too many connections: a new one was closed");
        }
        permit
    }
}

/// The next connection; None when there are to be no more.
async fn next<T, F: Future<Output = io::Result<T>>>(accept: impl Fn() -> F, steps: &Steps) -> Option<T> {
    loop {
        let accepted = tokio::select! {
            biased;
            () = steps.finish.cancelled() => return None,
            accepted = accept() => accepted,
        };
        match accepted {
            Ok(accepted) => return Some(accepted),
            Err(error) => {
                // Out of file descriptors, most likely; a tight loop would not free any.
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Accepts on the socket until `steps.finish`; the listener is closed then. Each connection is a task of `connections`.
pub async fn accept(
    listener: UnixListener,
    calls: Calls,
    policy: PeerPolicy,
    steps: Steps,
    connections: TaskTracker,
) {
    let room = Room::new();
    while let Some((stream, _)) = next(|| listener.accept(), &steps).await {
        let Some(permit) = room.take() else { continue };
        let entrance = policy.judge(&stream);
        if let Entrance::Closed(uid) = entrance {
            tracing::warn!(uid, "a user that may not use the socket has connected");
        }
        let (calls, steps) = (calls.connection(entrance), steps.clone());
        connections.spawn(async move {
            if let Err(error) = serve(stream, calls, steps, None).await {
                tracing::debug!(%error, "a connection broke");
            }
            drop(permit);
        });
    }
}

/// The same on a TCP port.
pub async fn accept_tcp(tcp: Tcp, calls: Calls, entrance: Entrance, steps: Steps, connections: TaskTracker) {
    let room = Room::new();
    while let Some(stream) = next(|| tcp.accept(), &steps).await {
        let Some(permit) = room.take() else { continue };
        let (calls, steps, certificates) =
            (calls.connection(entrance.clone()), steps.clone(), tcp.certificates());
        connections.spawn(async move {
            let greeted = tokio::select! {
                () = steps.finish.cancelled() => return,
                greeted = tcp::greet(stream, certificates) => greeted,
            };
            let served = match greeted {
                Ok(stream) => {
                    serve(stream, calls, steps, Some(STRANGER)).await.map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = served {
                tracing::debug!(error, "a TCP connection broke");
            }
            drop(permit);
        });
    }
}

/// How long somebody unknown may keep a TCP connection.
const STRANGER: Duration = Duration::from_secs(30);

/// Speaks HTTP/2. With `patience`: ends it when no call has shown by then that somebody known is there.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    calls: Calls,
    steps: Steps,
    patience: Option<Duration>,
) -> Result<(), hyper::Error> {
    // A peer over TCP may vanish without a word, and a stranger holds a place.
    let ping_every = Duration::from_secs(if patience.is_some() { 10 } else { 30 });
    let ping_within = Duration::from_secs(if patience.is_some() { 10 } else { 20 });
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .initial_stream_window_size(2 << 20)
        .initial_connection_window_size(16 << 20)
        .max_frame_size(256 << 10)
        .max_send_buf_size(1 << 20)
        .max_concurrent_streams(1024)
        // Whoever is refused before all of its request was read counts here, and a limit would sooner or later close the
        // connection of a busy client with every stream on it.
        .max_local_error_reset_streams(None)
        .max_header_list_size(64 << 10)
        .keep_alive_interval(ping_every)
        .keep_alive_timeout(ping_within);
    let service = TowerToHyperService::new(calls.clone());
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let unknown = async {
        match patience {
            Some(patience) => sleep(patience).await,
            None => pending().await,
        }
        if calls.is_known() {
            pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        over = connection.as_mut() => return over,
        () = steps.finish.cancelled() => {}
        () = unknown => tracing::debug!("a connection without any call by somebody known is ended"),
    }
    connection.as_mut().graceful_shutdown();
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
