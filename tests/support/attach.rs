//! A client of the Attach stream, as plain as it gets: one request, its replies; pushes are kept.

use std::{collections::VecDeque, time::Duration};

use pannier::proto::v1::{
    self, AttachRequest, AttachResponse, attach_request::Op, attach_response::Event,
    session_service_client::SessionServiceClient,
};
use prost::Message as _;
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

/// Longer than anything a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A refused request: its code and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub code: Code,
    pub reason: String,
    pub message: String,
    pub metadata: std::collections::BTreeMap<String, String>,
}

impl Refused {
    pub fn of(status: &v1::Status) -> Self {
        let mut refused = Self {
            code: Code::from(status.code),
            reason: String::new(),
            message: status.message.clone(),
            metadata: std::collections::BTreeMap::new(),
        };
        for detail in &status.details {
            if detail.type_url.ends_with("ErrorInfo") {
                let info = v1::ErrorInfo::decode(detail.value.as_slice()).unwrap();
                refused.reason = info.reason;
                refused.metadata = info.metadata.into_iter().collect();
            }
        }
        refused
    }

    pub fn of_status(status: &Status) -> Self {
        let inner = v1::Status::decode(status.details()).unwrap_or_default();
        let mut refused = Self::of(&inner);
        refused.code = status.code();
        refused.message = status.message().to_owned();
        refused
    }
}

pub struct Attach {
    requests: mpsc::Sender<AttachRequest>,
    replies: Streaming<AttachResponse>,
    pub opened: v1::Opened,
    pub preloaded: Vec<v1::Record>,
    /// Pushes seen so far.
    pub pushes: VecDeque<Event>,
    ahead: VecDeque<(u32, Event)>,
    seq: u32,
}

/// An Open with everything at its default.
pub fn open(session: &str, owner: &str) -> v1::Open {
    v1::Open { session: session.into(), owner: owner.into(), ..Default::default() }
}

/// A Put of bytes.
pub fn put(ty: &str, id: &str, value: impl Into<Vec<u8>>) -> v1::Put {
    let record = v1::Record {
        r#type: ty.into(),
        id: id.into(),
        kind: v1::ValueKind::Bytes.into(),
        value: value.into().into(),
        revision: 0,
    };
    v1::Put { record: Some(record), if_revision: None }
}

pub fn delete(ty: &str, id: &str) -> v1::RecordRef {
    v1::RecordRef { r#type: ty.into(), id: id.into() }
}

impl Attach {
    pub async fn open(channel: Channel, open: v1::Open) -> Result<Self, Refused> {
        let mut client = SessionServiceClient::new(channel)
            .max_decoding_message_size(8 << 20)
            .max_encoding_message_size(8 << 20);
        let (requests, receiver) = mpsc::channel(256);
        let first = AttachRequest { seq: 1, timeout_ms: 0, op: Some(Op::Open(open)) };
        requests.send(first).await.unwrap();
        let call = client.attach(ReceiverStream::new(receiver));
        let mut replies = timeout(PATIENCE, call)
            .await
            .expect("attach")
            .map_err(|status| Refused::of_status(&status))?
            .into_inner();
        let reply = timeout(PATIENCE, replies.message()).await.expect("an answer to open");
        let reply = reply.map_err(|status| Refused::of_status(&status))?.expect("opened");
        let Some(Event::Opened(opened)) = reply.event else { panic!("not opened: {reply:?}") };
        Ok(Self {
            requests,
            replies,
            opened,
            preloaded: Vec::new(),
            pushes: VecDeque::new(),
            ahead: VecDeque::new(),
            seq: 1,
        })
    }

    /// Sends without waiting; gives the seq.
    pub async fn send(&mut self, op: Op) -> u32 {
        self.send_with(0, op).await
    }

    pub async fn send_with(&mut self, timeout_ms: u32, op: Op) -> u32 {
        self.seq += 1;
        let request = AttachRequest { seq: self.seq, timeout_ms, op: Some(op) };
        self.requests.send(request).await.expect("the stream is open");
        self.seq
    }

    /// Another part under the same seq.
    pub async fn send_part(&mut self, op: Op) {
        let request = AttachRequest { seq: self.seq, timeout_ms: 0, op: Some(op) };
        self.requests.send(request).await.expect("the stream is open");
    }

    /// The next message, whatever it is; `None` when the stream has ended in peace.
    pub async fn next(&mut self) -> Result<Option<AttachResponse>, Refused> {
        timeout(PATIENCE, self.replies.message())
            .await
            .expect("a message in time")
            .map_err(|status| Refused::of_status(&status))
    }

    /// The next reply to `seq`; pushes and replies to others are kept.
    pub async fn reply(&mut self, seq: u32) -> Result<Event, Refused> {
        if let Some(at) = self.ahead.iter().position(|(other, _)| *other == seq) {
            return Self::unwrap(self.ahead.remove(at).unwrap().1);
        }
        loop {
            let message = self.next().await?.expect("the stream has ended");
            let event = message.event.expect("an event");
            match message.seq {
                0 => self.pushes.push_back(event),
                other if other == seq => return Self::unwrap(event),
                other => self.ahead.push_back((other, event)),
            }
        }
    }

    fn unwrap(event: Event) -> Result<Event, Refused> {
        match event {
            Event::Error(status) => Err(Refused::of(&status)),
            event => Ok(event),
        }
    }

    /// Waits for a push that fits.
    pub async fn push(&mut self, fits: impl Fn(&Event) -> bool) -> Event {
        loop {
            if let Some(at) = self.pushes.iter().position(&fits) {
                return self.pushes.remove(at).unwrap();
            }
            let message = self.next().await.expect("a push before the end").expect("a push before the end");
            match (message.seq, message.event.expect("an event")) {
                (0, event) => self.pushes.push_back(event),
                (seq, event) => self.ahead.push_back((seq, event)),
            }
        }
    }

    pub async fn commit(
        &mut self,
        op_seq: u64,
        puts: Vec<v1::Put>,
        deletes: Vec<v1::RecordRef>,
    ) -> Result<v1::Committed, Refused> {
        self.commit_as(v1::Commit { op_seq, puts, deletes, ..Default::default() }).await
    }

    pub async fn commit_as(&mut self, commit: v1::Commit) -> Result<v1::Committed, Refused> {
        let seq = self.send(Op::Commit(commit)).await;
        self.committed(seq).await
    }

    pub async fn committed(&mut self, seq: u32) -> Result<v1::Committed, Refused> {
        match self.reply(seq).await? {
            Event::Committed(committed) => Ok(committed),
            other => panic!("not committed: {other:?}"),
        }
    }

    /// The records found, fragments joined.
    pub async fn get(&mut self, ty: &str, ids: &[&str]) -> Result<Vec<v1::Record>, Refused> {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        let get = v1::Get { queries: vec![v1::Query { r#type: ty.into(), ids }] };
        let seq = self.send(Op::Get(get)).await;
        self.records(seq).await
    }

    pub async fn records(&mut self, seq: u32) -> Result<Vec<v1::Record>, Refused> {
        let mut all = Vec::new();
        let mut fragments = Vec::new();
        loop {
            let Event::Records(records) = self.reply(seq).await? else { panic!("not records") };
            all.extend(records.records);
            fragments.extend(records.fragments);
            if !records.more {
                all.extend(join(fragments));
                return Ok(all);
            }
        }
    }

    pub async fn value(&mut self, ty: &str, id: &str) -> Option<Vec<u8>> {
        let records = self.get(ty, &[id]).await.expect("get");
        records.into_iter().next().map(|record| record.value.to_vec())
    }

    pub async fn clear(&mut self, op_seq: u64) -> Result<v1::Cleared, Refused> {
        let seq = self.send(Op::Clear(v1::Clear { op_seq, ..Default::default() })).await;
        match self.reply(seq).await? {
            Event::Cleared(cleared) => Ok(cleared),
            other => panic!("not cleared: {other:?}"),
        }
    }

    /// Gives the lease back and waits for the end of the stream.
    pub async fn close(mut self) {
        let seq = self.send(Op::Close(v1::Close {})).await;
        match self.reply(seq).await.expect("closed") {
            Event::Closed(_) => {}
            other => panic!("not closed: {other:?}"),
        }
        assert_eq!(self.next().await, Ok(None));
    }
}

fn join(fragments: Vec<v1::Fragment>) -> Vec<v1::Record> {
    let mut records: Vec<v1::Record> = Vec::new();
    let mut value: Vec<u8> = Vec::new();
    for fragment in fragments {
        assert_eq!(fragment.offset, value.len() as u64, "fragments come in order");
        value.extend_from_slice(&fragment.data);
        if value.len() as u64 == fragment.total {
            records.push(v1::Record {
                r#type: fragment.r#type,
                id: fragment.id,
                kind: fragment.kind,
                value: std::mem::take(&mut value).into(),
                revision: fragment.revision,
            });
        }
    }
    assert!(value.is_empty(), "the last value is whole");
    records
}
