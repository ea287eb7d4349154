//! One write to Valkey for all that a stream has waiting: sealed on the way out, opened on the way back.
//!
//! A stream has one batch in flight, so its requests apply in the order sent whatever happens to a single one: when one
//! must be sent again, everything behind it is sent again too.

use std::sync::Arc;

use redis::Value;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::{
    commit::{Commit, Outcome, Terms},
    head::Head,
    keys::SessionKeys,
    lifecycle::Cleared,
    name::SessionName,
    pages::{Listed, Step, Walk},
    records::Record,
    reply::Reply,
    store::{Snapshot, Store, open_all},
};
use crate::{
    error::{Error, Result},
    valkey::{Lane, LinkError, Op, ServerError},
};

/// From this size on, sealing and opening leave the thread that serves the streams.
const BIG: usize = 256 * 1024;

/// One request of a stream.
pub struct Item {
    /// 0: the stream's own.
    pub seq: u32,
    pub deadline: Instant,
    pub work: Work,
    /// Sent at least once: a write may have happened.
    pub sent: bool,
    /// Memory it holds until it is done.
    pub permit: Option<OwnedSemaphorePermit>,
}

/// What is to be done.
pub enum Work {
    Get(Vec<(String, String)>),
    List(Walk),
    Commit(Box<Commit>, crate::proto::v1::Durability),
    Clear { writer: [u8; 8], op_seq: u64, incarnation: Option<u64> },
    Renew,
    Close,
}

impl Work {
    /// Changes records.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Commit(..) | Self::Clear { .. })
    }

    /// Cannot share a write with others.
    pub fn is_alone(&self) -> bool {
        matches!(self, Self::Clear { .. } | Self::Close)
    }
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
    pub head: Arc<Head>,
}

/// A batch that has been answered, or has failed as a whole.
pub struct Batch {
    pub items: Vec<Item>,
    pub done: Result<Vec<Done>, LinkError>,
    pub started: Instant,
}

impl Sender {
    /// Sends all items in one write and reads what came of each.
    pub async fn send(self: Arc<Self>, items: Vec<Item>) -> Batch {
        let started = Instant::now();
        let deadline = items.iter().map(|item| item.deadline).max().unwrap_or(started);
        let size: usize = items.iter().map(|item| item.work.size()).sum();
        let sender = Arc::clone(&self);
        let (items, ops) = off_thread(size >= BIG, move || {
            let ops = sender.ops(&items);
            (items, ops)
        })
        .await;
        let replies = match self.store.link.pipeline(Lane::Small, &ops, deadline).await {
            Ok(replies) => replies,
            Err(error) => return Batch { items, done: Err(error), started },
        };
        drop(ops);
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
        Batch { items, done: Ok(done), started }
    }

    fn ops(&self, items: &[Item]) -> Vec<Op<'static>> {
        let mut base = self.base;
        items
            .iter()
            .map(|item| match &item.work {
                Work::Get(ids) => self.store.get_op(&self.name, &self.keys, ids),
                Work::List(walk) => {
                    self.store.list_op(&self.name, &self.keys, walk.cursor.scan, Some(&self.head))
                }
                Work::Commit(commit, _) => {
                    let terms = Terms {
                        fence: Some(self.fence),
                        lease_ttl_ms: super::store::millis(self.lease_ttl),
                        base,
                        acknowledged: self.acknowledged,
                    };
                    base += 1;
                    commit.op(&self.store.link, &self.name, &self.keys, &terms)
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
                Listed::Moved => Done::Astray(Astray::Fenced { deleted: false }),
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
                    _ => return Err(reply.unexpected()),
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
            Snapshot::Moved => Done::Astray(Astray::Fenced { deleted: false }),
            Snapshot::Gone => Done::Astray(Astray::Gone),
            Snapshot::Lost => Done::Astray(Astray::Lost),
        })
    }
}

impl Work {
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
