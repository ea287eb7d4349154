//! Replies on their way to the client. A client that does not read stops being read; nothing piles up beyond a bound.

use std::collections::VecDeque;

use prost::Message as _;
use tokio::{sync::mpsc, time::Duration};
use tonic::Status;

use super::{convert, pages::Step, records::Record};
use crate::{
    error::Error,
    proto::v1::{self, AttachResponse, attach_response::Event},
};

/// Bytes that may wait before requests are no longer read.
const BYTES: usize = 8 * 1024 * 1024;
/// How long the last replies may take.
const DRAIN: Duration = Duration::from_secs(5);

/// What waits to be sent.
pub struct Outbox {
    responses: mpsc::Sender<Result<AttachResponse, Status>>,
    waiting: VecDeque<(usize, AttachResponse)>,
    bytes: usize,
    status: Option<Status>,
    gone: bool,
}

impl Outbox {
    /// For one stream.
    pub fn new(responses: mpsc::Sender<Result<AttachResponse, Status>>) -> Self {
        Self { responses, waiting: VecDeque::new(), bytes: 0, status: None, gone: false }
    }

    /// Adds a reply, or a push (seq 0). Goes straight out when nothing waits.
    pub fn push(&mut self, seq: u32, event: Event) {
        let response = AttachResponse { seq, event: Some(event) };
        if self.gone {
            return;
        }
        let response = if self.waiting.is_empty() {
            match self.responses.try_send(Ok(response)) {
                Err(mpsc::error::TrySendError::Closed(_)) => {
                    self.gone = true;
                    return;
                }
                Err(mpsc::error::TrySendError::Full(Ok(response))) => response,
                Ok(()) | Err(mpsc::error::TrySendError::Full(Err(_))) => return,
            }
        } else {
            response
        };
        let size = response.encoded_len();
        self.bytes += size;
        self.waiting.push_back((size, response));
    }

    /// Adds the refusal of a request.
    pub fn error(&mut self, seq: u32, error: &Error) {
        self.push(seq, Event::Error(error.to_stream_status()));
    }

    /// Adds the records of a Get, in messages of about 1 MiB.
    pub fn records(&mut self, seq: u32, revision: u64, records: Vec<Record>) {
        let mut chunks = convert::chunks(records).into_iter().peekable();
        while let Some(chunk) = chunks.next() {
            let more = chunks.peek().is_some();
            let records = v1::Records { records: chunk.records, fragments: chunk.fragments, more, revision };
            self.push(seq, Event::Records(records));
        }
    }

    /// Adds a page of a walk.
    pub fn page(&mut self, seq: u32, step: Step) {
        let cursor = step.next.map(|next| next.encode()).unwrap_or_default();
        let mut chunks = convert::chunks(step.records).into_iter().peekable();
        while let Some(chunk) = chunks.next() {
            let more = chunks.peek().is_some();
            let page = v1::Page {
                records: chunk.records,
                fragments: chunk.fragments,
                more,
                cursor: if more { String::new() } else { cursor.clone() },
                corrupt: if more { 0 } else { step.corrupt },
            };
            self.push(seq, Event::Page(page));
        }
    }

    /// How the stream ends once everything is out; `None`: in peace.
    pub fn end_with(&mut self, error: Option<Error>) {
        self.status = error.map(|error| error.to_status());
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() || self.gone
    }

    /// Requests may still be read.
    pub fn has_room(&self) -> bool {
        self.bytes < BYTES
    }

    /// Sends one waiting reply. false: the client is gone.
    pub async fn flush(&mut self) -> bool {
        let Ok(permit) = self.responses.reserve().await else {
            self.gone = true;
            self.waiting.clear();
            return false;
        };
        if let Some((size, response)) = self.waiting.pop_front() {
            self.bytes -= size;
            permit.send(Ok(response));
        }
        true
    }

    /// Sends all that waits, and how the stream ended, in bounded time.
    pub async fn drain(&mut self) {
        let all = async {
            while !self.is_empty() {
                self.flush().await;
            }
            if let Some(status) = self.status.take() {
                let _ = self.responses.send(Err(status)).await;
            }
        };
        let _ = tokio::time::timeout(DRAIN, all).await;
    }
}
