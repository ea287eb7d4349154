//! One Attach stream, a request at a time.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::{
    connect::Channel,
    outcome::{Failed, Outcome, PROTOCOL, UNAVAILABLE},
};
use crate::proto::v1::{
    self, AttachRequest, AttachResponse, attach_request::Op, attach_response::Event,
    session_service_client::SessionServiceClient,
};

/// The client of sessions.
pub type Client = SessionServiceClient<Channel>;

/// One message of a commit.
const PART_BYTES: usize = 2 << 20;
/// For a commit of 32 MiB to a store that is slow.
const COMMIT_MS: u32 = 60_000;

/// An open session.
pub struct Stream {
    requests: mpsc::Sender<AttachRequest>,
    responses: Streaming<AttachResponse>,
    seq: u32,
}

impl Stream {
    /// Takes the session's lease.
    pub async fn open(client: &mut Client, open: v1::Open) -> Outcome<(Self, v1::Opened)> {
        let (requests, waiting) = mpsc::channel(16);
        let first = AttachRequest { seq: 1, timeout_ms: 0, op: Some(Op::Open(open)) };
        requests.send(first).await.map_err(|_| broken())?;
        let responses = client.attach(ReceiverStream::new(waiting)).await?.into_inner();
        let mut stream = Self { requests, responses, seq: 1 };
        match stream.answer().await? {
            Event::Opened(opened) => Ok((stream, opened)),
            _ => Err(broken()),
        }
    }

    /// Sends parts of one request.
    pub async fn send(&mut self, op: Op) -> Outcome {
        let timeout_ms = if matches!(op, Op::Commit(_)) { COMMIT_MS } else { 0 };
        let request = AttachRequest { seq: self.seq, timeout_ms, op: Some(op) };
        self.requests.send(request).await.map_err(|_| broken())
    }

    /// Begins a new request.
    pub fn next_request(&mut self) {
        self.seq += 1;
    }

    /// The next answer to the current request; pushes are passed over.
    pub async fn answer(&mut self) -> Outcome<Event> {
        loop {
            let Some(response) = self.responses.message().await? else { return Err(broken()) };
            match response.event {
                Some(Event::Error(status)) => return Err(status_of(&status).into()),
                Some(Event::LeaseLost(_)) => {
                    return Err(Failed::new(UNAVAILABLE, "somebody else took the session meanwhile"));
                }
                Some(Event::Draining(_)) => {
                    return Err(Failed::new(UNAVAILABLE, "the sidecar is stopping: try again"));
                }
                Some(event) if response.seq == self.seq => return Ok(event),
                _ => {}
            }
        }
    }

    /// One commit, all or nothing, in parts that fit into messages. Fragments are those of [`v1::Fragment`].
    pub async fn commit(
        &mut self,
        op_seq: u64,
        puts: Vec<v1::Put>,
        fragments: Vec<v1::Fragment>,
        attributes: Option<v1::Attributes>,
    ) -> Outcome<v1::Committed> {
        self.next_request();
        let part = |more| v1::Commit { op_seq, more, ..v1::Commit::default() };
        let (mut commit, mut size) = (part(true), 0);
        // Of the first part alone the sidecar takes what is not an item.
        commit.attributes = attributes;
        for put in puts {
            size += put.record.as_ref().map_or(0, record_size);
            commit.puts.push(put);
            if size >= PART_BYTES {
                self.send(Op::Commit(std::mem::replace(&mut commit, part(true)))).await?;
                size = 0;
            }
        }
        for fragment in fragments {
            size += fragment.data.len();
            commit.fragments.push(fragment);
            if size >= PART_BYTES {
                self.send(Op::Commit(std::mem::replace(&mut commit, part(true)))).await?;
                size = 0;
            }
        }
        commit.more = false;
        self.send(Op::Commit(commit)).await?;
        match self.answer().await? {
            Event::Committed(committed) => Ok(committed),
            _ => Err(Failed::new(PROTOCOL, "the sidecar answered something else than a commit")),
        }
    }

    /// Releases the lease.
    pub async fn close(mut self) -> Outcome {
        self.next_request();
        self.send(Op::Close(v1::Close {})).await?;
        match self.answer().await? {
            Event::Closed(_) => Ok(()),
            _ => Err(broken()),
        }
    }
}

/// Bytes that a record counts in a commit.
pub fn record_size(record: &v1::Record) -> usize {
    record.value.len() + record.id.len() + record.r#type.len()
}

fn status_of(status: &v1::Status) -> Status {
    let details = prost::Message::encode_to_vec(status);
    Status::with_details(Code::from_i32(status.code), status.message.clone(), details.into())
}

fn broken() -> Failed {
    Failed::new(PROTOCOL, "the stream ended early")
}
