//! The door of the pipe.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::stream;
use crate::{
    access::Grant,
    cap, conversation, dedup,
    memory::Memory,
    proto::v1::{
        self,
        pipe_service_server::{PipeService, PipeServiceServer},
    },
    rpc::{MESSAGE_MAX, Reply},
    schedule,
    valkey::Users,
};

/// Answers of a stream that wait for the client to take them; then nothing more is read from it.
const ANSWERS: usize = 256;

/// The handlers behind a pipe. Clones are the same.
#[derive(Clone)]
pub struct Handlers {
    /// Claims.
    pub dedup: dedup::Handler,
    /// Chats.
    pub conversation: conversation::Handler,
    /// Sends.
    pub cap: cap::Handler,
    /// Jobs.
    pub schedule: schedule::Handler,
}

/// All pipes of one sidecar.
pub struct Pipes {
    pub(super) handlers: Handlers,
    pub(super) memory: Memory,
    pub(super) users: Users,
    pub(super) draining: watch::Sender<bool>,
    open: AtomicU32,
}

impl Pipes {
    /// With these handlers; what their calls carry counts against `memory`, and each of them uses the link.
    pub fn new(handlers: Handlers, memory: Memory, users: Users) -> Arc<Self> {
        Arc::new(Self {
            handlers,
            memory,
            users,
            draining: watch::Sender::new(false),
            open: AtomicU32::new(0),
        })
    }

    /// Lets every stream answer what it has and end. The caller bounds the wait.
    pub async fn drain(&self) {
        self.draining.send_replace(true);
        while self.open.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The gRPC service.
pub fn service(pipes: Arc<Pipes>) -> PipeServiceServer<Handler> {
    PipeServiceServer::new(Handler { pipes })
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX)
}

/// Handles pipes.
pub struct Handler {
    pipes: Arc<Pipes>,
}

#[tonic::async_trait]
impl PipeService for Handler {
    type PipeStream = ReceiverStream<std::result::Result<v1::PipeResponse, Status>>;

    async fn pipe(&self, request: Request<Streaming<v1::PipeRequest>>) -> Reply<Self::PipeStream> {
        let (sender, receiver) = mpsc::channel(ANSWERS);
        let pipes = Arc::clone(&self.pipes);
        // The server says who calls, for every pipe.
        let grant = request.extensions().get().cloned().unwrap_or(Grant::Nobody);
        pipes.open.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let open = Open(&pipes.open);
            stream::serve(&pipes, &grant, request.into_inner(), sender).await;
            drop(open);
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// Counts a stream for as long as it lives, also when it panics.
struct Open<'a>(&'a AtomicU32);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
