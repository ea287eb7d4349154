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
    /// The wrong fields, of INVALID_ARGUMENT.
    pub fields: Vec<String>,
    /// It makes sense to try again.
    pub retry: bool,
}

impl Refused {
    pub fn of(status: &v1::Status) -> Self {
        let mut refused = Self {
            code: Code::from(status.code),
            reason: String::new(),
            message: status.message.clone(),
            metadata: std::collections::BTreeMap::new(),
            fields: Vec::new(),
            retry: false,
        };
        for detail in &status.details {
            if detail.type_url.ends_with("ErrorInfo") {
                let info = v1::ErrorInfo::decode(detail.value.as_slice()).unwrap();
                refused.reason = info.reason;
                refused.metadata = info.metadata.into_iter().collect();
            } else if detail.type_url.ends_with("BadRequest") {
                let bad = v1::BadRequest::decode(detail.value.as_slice()).unwrap();
                refused.fields = bad.field_violations.into_iter().map(|one| one.field).collect();
            } else if detail.type_url.ends_with("RetryInfo") {
                refused.retry = true;
            }
        }
        refused
    }

    pub fn of_status(status: &Status) -> Self {
        let inner = v1::Status::decode(status.details()).unwrap_or_default();
        let mut refused = Self::of(&inner);
        refused.code = status.code();
        status.message().clone_into(&mut refused.message);
        refused
    }

    /// The stream had ended in peace before the answer came.
    fn unanswered() -> Self {
        Self {
            reason: "UNANSWERED".into(),
            ..Self::of(&v1::Status { code: Code::Unavailable.into(), ..Default::default() })
        }
    }

    /// The code and reason.
    pub fn why(&self) -> (Code, &str) {
        (self.code, self.reason.as_str())
    }

    pub fn outcome_unknown(&self) -> bool {
        self.metadata.get("outcome_unknown").is_some_and(|value| value == "true")
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
    ended: Option<Result<(), Refused>>,
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
        Self::open_with(channel, open, 0).await
    }

    pub async fn open_with(channel: Channel, open: v1::Open, timeout_ms: u32) -> Result<Self, Refused> {
        let preloads = !open.preload_types.is_empty();
        let first = AttachRequest { seq: 1, timeout_ms, op: Some(Op::Open(open)) };
        let mut attach = Self::start(channel, first).await?;
        let reply = attach.next().await?.expect("opened");
        let Some(Event::Opened(opened)) = reply.event else { panic!("not opened: {reply:?}") };
        attach.opened = opened;
        if preloads {
            // What is preloaded comes before the answer to anything asked later.
            let marker = attach.send(Op::Get(v1::Get::default())).await;
            let mut fragments = Vec::new();
            loop {
                let reply = attach.next().await?.expect("the preloaded records");
                if reply.seq == 0 {
                    attach.pushes.extend(reply.event);
                    continue;
                }
                let Some(Event::Records(records)) = reply.event else { panic!("not records: {reply:?}") };
                if reply.seq == marker {
                    break;
                }
                attach.preloaded.extend(records.records);
                fragments.extend(records.fragments);
            }
            attach.preloaded.extend(join(fragments));
        }
        Ok(attach)
    }

    /// A stream with any first message.
    pub async fn start(channel: Channel, first: AttachRequest) -> Result<Self, Refused> {
        let mut client = SessionServiceClient::new(channel)
            .max_decoding_message_size(8 << 20)
            .max_encoding_message_size(8 << 20);
        let (requests, receiver) = mpsc::channel(256);
        requests.send(first).await.unwrap();
        let call = client.attach(ReceiverStream::new(receiver));
        let replies = timeout(PATIENCE, call)
            .await
            .expect("attach")
            .map_err(|status| Refused::of_status(&status))?
            .into_inner();
        Ok(Self {
            requests,
            replies,
            opened: v1::Opened::default(),
            preloaded: Vec::new(),
            pushes: VecDeque::new(),
            ahead: VecDeque::new(),
            seq: 1,
            ended: None,
        })
    }

    /// Sends without waiting; gives the seq.
    pub async fn send(&mut self, op: Op) -> u32 {
        self.send_with(0, op).await
    }

    pub async fn send_with(&mut self, timeout_ms: u32, op: Op) -> u32 {
        self.seq += 1;
        let request = AttachRequest { seq: self.seq, timeout_ms, op: Some(op) };
        // A stream that has ended says so when its replies are read.
        let _ = self.requests.send(request).await;
        self.seq
    }

    pub async fn send_raw(&mut self, request: AttachRequest) {
        self.seq = self.seq.max(request.seq);
        let _ = self.requests.send(request).await;
    }

    /// Another part under the same seq.
    pub async fn send_part(&mut self, op: Op) {
        let request = AttachRequest { seq: self.seq, timeout_ms: 0, op: Some(op) };
        let _ = self.requests.send(request).await;
    }

    /// The next message, whatever it is; `None` when the stream has ended in peace. Says the same again after the end.
    pub async fn next(&mut self) -> Result<Option<AttachResponse>, Refused> {
        if let Some(ended) = self.ended.clone() {
            return ended.map(|()| None);
        }
        let next = timeout(PATIENCE, self.replies.message()).await.expect("a message in time");
        let next = next.map_err(|status| Refused::of_status(&status));
        match &next {
            Ok(Some(_)) => {}
            Ok(None) => self.ended = Some(Ok(())),
            Err(refused) => self.ended = Some(Err(refused.clone())),
        }
        next
    }

    /// The next reply to `seq`; pushes and replies to others are kept.
    pub async fn reply(&mut self, seq: u32) -> Result<Event, Refused> {
        if let Some(at) = self.ahead.iter().position(|(other, _)| *other == seq) {
            return Self::unwrap(self.ahead.remove(at).unwrap().1);
        }
        loop {
            let message = self.next().await?.ok_or_else(Refused::unanswered)?;
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
        let seq = self.send(Op::Clear(v1::ClearSession { op_seq, ..Default::default() })).await;
        match self.reply(seq).await? {
            Event::Cleared(cleared) => Ok(cleared),
            other => panic!("not cleared: {other:?}"),
        }
    }

    /// Why the lease was lost; the stream ends with ABORTED FENCED after it.
    pub async fn lost(&mut self) -> v1::lease_lost::Reason {
        let Event::LeaseLost(lost) = self.push(|event| matches!(event, Event::LeaseLost(_))).await else {
            unreachable!()
        };
        let refused = self.end().await.unwrap_err();
        assert_eq!(refused.why(), (Code::Aborted, "FENCED"));
        lost.reason()
    }

    /// Reads to the end of the stream.
    pub async fn end(&mut self) -> Result<(), Refused> {
        while let Some(message) = self.next().await? {
            match (message.seq, message.event.expect("an event")) {
                (0, event) => self.pushes.push_back(event),
                (seq, event) => self.ahead.push_back((seq, event)),
            }
        }
        Ok(())
    }

    /// Sends one value in fragments, as a commit of several parts; gives its seq.
    pub async fn send_value(&mut self, op_seq: u64, ty: &str, id: &str, value: &[u8]) -> u32 {
        const PART: usize = 1 << 20;
        let mut seq = 0;
        for offset in (0..value.len()).step_by(PART) {
            let end = value.len().min(offset + PART);
            let fragment = v1::Fragment {
                r#type: ty.into(),
                id: id.into(),
                offset: offset as u64,
                total: value.len() as u64,
                data: value[offset..end].to_vec().into(),
                ..Default::default()
            };
            let more = end < value.len();
            let commit =
                Op::Commit(v1::Commit { op_seq, fragments: vec![fragment], more, ..Default::default() });
            if offset == 0 {
                seq = self.send(commit).await;
            } else {
                self.send_part(commit).await;
            }
        }
        seq
    }

    /// One page of a walk: its records, where it goes on, and how many could not be opened.
    pub async fn list(&mut self, list: v1::List) -> Result<(Vec<v1::Record>, String, u32), Refused> {
        let seq = self.send(Op::List(list)).await;
        let (mut all, mut fragments) = (Vec::new(), Vec::new());
        loop {
            let Event::Page(page) = self.reply(seq).await? else { panic!("not a page") };
            all.extend(page.records);
            fragments.extend(page.fragments);
            if !page.more {
                all.extend(join(fragments));
                return Ok((all, page.cursor, page.corrupt));
            }
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
