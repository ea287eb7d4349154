//! One write to Valkey for all that a stream has waiting: sealed on the way out, opened on the way back.
//!
//! A stream has one batch in flight, so its requests apply in the order sent whatever happens to a single one: when one
//! must be sent again, everything behind it is sent again too.

use std::{collections::VecDeque, sync::Arc};

use redis::Value;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::{
    attributes::Attributes,
    commit::{Commit, Outcome, Terms},
    head::Head,
    keys::SessionKeys,
    lifecycle::Cleared,
    name::SessionName,
    pages::{Listed, Step, Walk},
    records::Record,
    reply::{self, Reply},
    store::{Snapshot, Store, open_all},
};
use crate::{
    error::{Error, Result},
    proto::v1::Durability,
    telemetry::SessionRequest,
    valkey::{Lane, LinkError, Op, ServerError},
};

/// From this size on, sealing and opening leave the thread that serves the streams.
const BIG: usize = 256 * 1024;
/// About how many bytes one write may carry; one commit may be as large.
const BATCH_BYTES: usize = 32 * 1024 * 1024;
/// About how many bytes one write may ask for, beyond one request.
const BATCH_READS: usize = 16 * 1024 * 1024;
/// Records that one write may ask for, whatever their size.
const BATCH_IDS: usize = 256;
/// Steps of walks in one write.
const BATCH_LISTS: usize = 4;

/// One request of a stream.
pub struct Item {
    pub arrived: Instant,
    /// 0: the stream's own.
    pub seq: u32,
    pub deadline: Instant,
    pub work: Work,
    /// Sent at least once: a write may have happened.
    pub sent: bool,
    /// Memory it holds until it is done.
    #[expect(dead_code, reason = "held, not read")]
    pub permit: Option<OwnedSemaphorePermit>,
}

/// What is to be done.
pub enum Work {
    Get(Vec<(String, String)>),
    List(Walk),
    Commit(Box<Commit>, Durability),
    Clear { writer: [u8; 8], op_seq: u64, incarnation: Option<u64> },
    Renew,
    Close,
}

impl Work {
    /// Changes records.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Commit(..) | Self::Clear { .. })
    }

    /// What it counts as; nothing for what no client has asked for or waits for.
    pub fn kind(&self) -> Option<SessionRequest> {
        match self {
            Self::Get(_) => Some(SessionRequest::Get),
            Self::List(_) => Some(SessionRequest::List),
            Self::Commit(..) => Some(SessionRequest::Commit),
            Self::Clear { .. } => Some(SessionRequest::Clear),
            Self::Renew | Self::Close => None,
        }
    }

    /// Cannot share a write with others.
    pub fn is_alone(&self) -> bool {
        matches!(self, Self::Clear { .. } | Self::Close)
    }
}

/// How many items from the front may share one write, when the session's records are up to `largest` bytes. The commits of
/// one write are by one writer: its op_seqs keep a commit from passing one in front of it that must be sealed again.
pub fn sharing(queue: &VecDeque<Item>, largest: usize) -> usize {
    let ids_max = (BATCH_READS / largest.max(1)).clamp(4, BATCH_IDS);
    let (mut ids, mut lists, mut bytes, mut writer) = (0, 0, 0, None);
    let fits = |(at, item): &(usize, &Item)| {
        match &item.work {
            Work::Get(named) => ids += named.len(),
            Work::List(_) => lists += 1,
            Work::Commit(commit, _) => {
                bytes += commit.size();
                if *writer.get_or_insert(commit.writer) != commit.writer {
                    return false;
                }
            }
            Work::Renew => {}
            Work::Clear { .. } | Work::Close => return *at == 0,
        }
        *at == 0 || (ids <= ids_max && lists <= BATCH_LISTS && bytes <= BATCH_BYTES)
    };
    let count = queue.iter().enumerate().take_while(fits).count();
    if queue.front().is_some_and(|item| item.work.is_alone()) { 1 } else { count }
}

/// What came of an item.
pub enum Done {
    Got(u64, Vec<Record>),
    Listed(Step),
    Committed(Outcome),
    Renewed {
        revision: u64,
    },
    Cleared(Cleared),
    Closed,
    /// Not done, and neither is anything behind it: send it again.
    Again(Again),
    /// The head or the records are not what the stream was opened on.
    Astray(Astray),
    Failed(Error),
}

/// Why an item must be sent again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Again {
    Now,
    LoadScripts,
    Wait,
}

/// What does not fit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Astray {
    Fenced { deleted: bool },
    Gone,
    Lost,
}

/// The stream's side of a batch.
pub struct Sender {
    pub store: Arc<Store>,
    pub name: SessionName,
    pub keys: Arc<SessionKeys>,
    pub fence: u64,
    pub lease_ttl: std::time::Duration,
    pub base: u64,
    pub acknowledged: u64,
    pub attributes: Attributes,
    /// They must be read again before they are written.
    pub attributes_stale: bool,
    pub head: Arc<Head>,
}

/// A batch that has been answered, or has failed as a whole.
pub struct Batch {
    pub items: Vec<Item>,
    pub done: Result<Vec<Done>, LinkError>,
    pub sent: Sent,
    /// The attributes, where they were read again.
    pub attributes: Option<Attributes>,
}

/// What is true of all of a batch.
#[derive(Clone, Copy)]
pub struct Sent {
    pub at: Instant,
    /// A replica has it. Only known where a commit asks for it.
    pub replicated: bool,
}

impl Sender {
    /// Sends all items in one write and reads what came of each.
    pub async fn send(self: Arc<Self>, items: Vec<Item>) -> Batch {
        let mut sent = Sent { at: Instant::now(), replicated: false };
        let deadline = items.iter().map(|item| item.deadline).max().unwrap_or(sent.at);
        let size: usize = items.iter().map(|item| item.work.size()).sum();
        let attributes = match self.read_attributes(&items, deadline).await {
            Ok(attributes) => attributes,
            Err(error) => return Batch { items, done: Err(error), sent, attributes: None },
        };
        let sender = Arc::clone(&self);
        let before = attributes.clone().unwrap_or_else(|| self.attributes.clone());
        let (items, ops) = off_thread(size >= BIG, move || {
            let ops = sender.ops(&items, before);
            (items, ops)
        })
        .await;
        let replies = match self.store.link.pipeline(Lane::Small, &ops, deadline).await {
            Ok(replies) => replies,
            Err(error) => return Batch { items, done: Err(error), sent, attributes },
        };
        drop(ops);
        sent.replicated = items.iter().any(|item| item.work.wants_replicas())
            && self.store.replicas.have(&self.store.mark(&self.name), deadline).await;
        let size: usize = replies.iter().map(reply_size).sum();
        let (items, done) = off_thread(size >= BIG, move || {
            let mut done = Vec::with_capacity(items.len());
            for (item, reply) in items.iter().zip(replies) {
                let one = self.read(&item.work, reply);
                let stop = matches!(one, Done::Again(_) | Done::Committed(Outcome::Reseal { .. }));
                done.push(one);
                if stop {
                    break;
                }
            }
            (items, done)
        })
        .await;
        Batch { items, done: Ok(done), sent, attributes }
    }

    /// The attributes as they stand, if somebody else may have written them and they are about to be written.
    async fn read_attributes(
        &self,
        items: &[Item],
        deadline: Instant,
    ) -> Result<Option<Attributes>, LinkError> {
        let written =
            |item: &Item| matches!(&item.work, Work::Commit(commit, _) if commit.attributes.is_some());
        if !self.attributes_stale || !items.iter().any(written) {
            return Ok(None);
        }
        self.store.attributes(&self.name, &self.keys, deadline).await.map(Some)
    }

    /// Each commit is made for the state after those in front of it: when one of them is refused, so is this one.
    fn ops(&self, items: &[Item], mut attributes: Attributes) -> Vec<Op<'static>> {
        let mut base = self.base;
        items
            .iter()
            .map(|item| match &item.work {
                Work::Get(ids) => self.store.get_op(&self.name, &self.keys, ids),
                Work::List(walk) => self.store.list_op(&self.name, &self.keys, walk, Some(&self.head)),
                Work::Commit(commit, _) => {
                    let terms = Terms {
                        fence: Some(self.fence),
                        lease_ttl_ms: super::store::millis(self.lease_ttl),
                        base,
                        acknowledged: self.acknowledged,
                    };
                    base += 1;
                    let merged = commit.attributes.clone().map(|newer| {
                        attributes.merge(newer);
                        &attributes
                    });
                    commit.op(&self.store.link, &self.name, &self.keys, &terms, merged)
                }
                Work::Renew | Work::Clear { .. } | Work::Close => {
                    self.store.renew_op(&self.name, self.keys.incarnation, self.fence, self.lease_ttl)
                }
            })
            .collect()
    }

    fn read(&self, work: &Work, reply: Result<Value, ServerError>) -> Done {
        let value = match reply {
            Ok(value) => value,
            Err(ServerError::NoScript) => return Done::Again(Again::LoadScripts),
            Err(
                ServerError::ReadOnly
                | ServerError::Loading
                | ServerError::MasterDown
                | ServerError::TryAgain
                | ServerError::Busy,
            ) => return Done::Again(Again::Wait),
            Err(error) => return Done::Failed(LinkError::from(error).into()),
        };
        let done = match work {
            Work::Get(ids) => self.read_get(ids, value),
            Work::List(walk) => Listed::parse(value).map(|listed| match listed {
                Listed::Step { scan, fields } => {
                    Done::Listed(walk.page(&self.keys, &self.name, scan, fields))
                }
                Listed::Moved { deleted } => Done::Astray(Astray::Fenced { deleted }),
                Listed::Gone => Done::Astray(Astray::Gone),
                Listed::Lost => Done::Astray(Astray::Lost),
            }),
            Work::Commit(..) => Outcome::parse(value).map(|outcome| match outcome {
                Outcome::Fenced { deleted } => Done::Astray(Astray::Fenced { deleted }),
                Outcome::Gone => Done::Astray(Astray::Gone),
                Outcome::Lost => Done::Astray(Astray::Lost),
                outcome => Done::Committed(outcome),
            }),
            Work::Renew | Work::Clear { .. } | Work::Close => Reply::parse(value).and_then(|mut reply| {
                Ok(match reply.status() {
                    "OK" => {
                        let _now = reply.number()?;
                        Done::Renewed { revision: reply.number()? }
                    }
                    "FENCED" => Done::Astray(Astray::Fenced { deleted: reply.word()? == "DELETED" }),
                    "GONE" => Done::Astray(Astray::Gone),
                    _ => return Err(reply::unexpected()),
                })
            }),
        };
        done.unwrap_or_else(Done::Failed)
    }

    fn read_get(&self, ids: &[(String, String)], value: Value) -> Result<Done> {
        Ok(match Snapshot::parse(value)? {
            Snapshot::Values(revision, values) => {
                Done::Got(revision, open_all(&self.keys, &self.name, ids, &values)?)
            }
            Snapshot::TooLarge => Done::Failed(super::store::get_too_large()),
            Snapshot::Moved { deleted } => Done::Astray(Astray::Fenced { deleted }),
            Snapshot::Gone => Done::Astray(Astray::Gone),
            Snapshot::Lost => Done::Astray(Astray::Lost),
        })
    }
}

impl Work {
    fn wants_replicas(&self) -> bool {
        matches!(self, Self::Commit(_, Durability::Replicas))
    }

    fn size(&self) -> usize {
        match self {
            Self::Commit(commit, _) => commit.size(),
            _ => 0,
        }
    }
}

fn reply_size(reply: &Result<Value, ServerError>) -> usize {
    match reply {
        Ok(Value::Array(values)) => values
            .iter()
            .map(|value| if let Value::BulkString(bytes) = value { bytes.len() } else { 0 })
            .sum(),
        _ => 0,
    }
}

async fn off_thread<T: Send + 'static>(big: bool, work: impl FnOnce() -> T + Send + 'static) -> T {
    if !big {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
