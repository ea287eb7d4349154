//! One Attach stream, a request at a time.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::Client;
use crate::{
    cli::outcome::{Failed, Outcome, PROTOCOL, UNAVAILABLE},
    proto::v1::{self, AttachRequest, AttachResponse, attach_request::Op, attach_response::Event},
};

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
        let request = AttachRequest { seq: self.seq, timeout_ms: 0, op: Some(op) };
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

fn status_of(status: &v1::Status) -> Status {
    let details = prost::Message::encode_to_vec(status);
    Status::with_details(Code::from_i32(status.code), status.message.clone(), details.into())
}

fn broken() -> Failed {
    Failed::new(PROTOCOL, "the stream ended early")
}
