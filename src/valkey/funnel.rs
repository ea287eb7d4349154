//! Joins the script calls that come in at about the same time in one write, and reads their replies together: a call on its
//! own costs a system call on each side, and so does a hundred.
//!
//! Calls that are in the funnel together have no order among each other.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use redis::Value;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};

use super::{Lane, Link, LinkError, Op, ServerError};

/// Calls of one write.
const TOGETHER: usize = 256;
/// Writes on their way at once. More would make each smaller.
const WRITES: usize = 2;
/// Calls that wait; one more waits outside.
const WAITING: usize = 4096;

type Outcome = (Op<'static>, Result<Value, Trouble>);

enum Trouble {
    /// This call alone.
    Server(ServerError),
    /// The whole write; it may have been done in part.
    Link(LinkError),
}

struct Call {
    op: Op<'static>,
    deadline: Instant,
    answer: oneshot::Sender<Outcome>,
}

/// A handle; clones share the same writes.
#[derive(Clone)]
pub struct Funnel {
    link: Link,
    /// One for each shard: one that does not answer holds up its own calls only.
    shards: Arc<RwLock<HashMap<u64, mpsc::Sender<Call>>>>,
}

impl Funnel {
    /// A funnel into `link`. Its tasks end with the last handle.
    pub fn new(link: Link) -> Self {
        Self { link, shards: Arc::default() }
    }

    fn calls(&self, shard: u64) -> mpsc::Sender<Call> {
        let known = self.shards.read().unwrap_or_else(PoisonError::into_inner).get(&shard).cloned();
        known.unwrap_or_else(|| {
            let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
            shards.retain(|id, _| self.link.has_shard(*id));
            let calls = shards.entry(shard).or_insert_with(|| {
                let (calls, waiting) = mpsc::channel(WAITING);
                tokio::spawn(write(self.link.clone(), waiting));
                calls
            });
            calls.clone()
        })
    }

    /// As [`Link::run`] on the small lane: `op` must be safe to repeat.
    pub async fn run(&self, op: Op<'static>, deadline: Instant) -> Result<Value, LinkError> {
        // What must wait for a connection waits by itself: it has its own deadline.
        let Some(shard) = self.link.shard_of(&op) else {
            return self.link.run(Lane::Small, op, deadline).await;
        };
        let calls = self.calls(shard);
        let writes = op.may_write();
        let waited = crate::telemetry::Waited::begin();
        let (answer, answered) = oneshot::channel();
        let joined = timeout_at(deadline, async {
            if calls.send(Call { op, deadline, answer }).await.is_err() {
                return None;
            }
            answered.await.ok()
        });
        let (op, trouble) = match joined.await {
            Ok(Some((_, Ok(value)))) => return Ok(value),
            Ok(Some((op, Err(trouble)))) => (op, trouble),
            Ok(None) => {
                return Err(LinkError::Unreachable { outcome_unknown: writes, why: "stopping".into() });
            }
            Err(_) if self.link.is_ready() => return Err(LinkError::Timeout { outcome_unknown: writes }),
            Err(_) => {
                let why = "the connection was lost during the call".into();
                return Err(LinkError::Unreachable { outcome_unknown: writes, why });
            }
        };
        let in_doubt = match trouble {
            Trouble::Server(error) if !error.is_passing() => return Err(error.into()),
            Trouble::Server(_) => false,
            Trouble::Link(
                LinkError::Unreachable { outcome_unknown, .. } | LinkError::Timeout { outcome_unknown },
            ) => outcome_unknown && writes,
            Trouble::Link(error) => return Err(error),
        };
        drop(waited);
        self.link.run(Lane::Small, op, deadline).await.map_err(|error| match error {
            LinkError::Unreachable { outcome_unknown, why } => {
                LinkError::Unreachable { outcome_unknown: outcome_unknown || in_doubt, why }
            }
            LinkError::Timeout { outcome_unknown } => {
                LinkError::Timeout { outcome_unknown: outcome_unknown || in_doubt }
            }
            error => error,
        })
    }
}

async fn write(link: Link, mut waiting: mpsc::Receiver<Call>) {
    let link = Arc::new(link);
    let mut flying = FuturesUnordered::new();
    let mut open = true;
    while open || !flying.is_empty() {
        let mut calls = Vec::new();
        tokio::select! {
            biased;
            Some(()) = flying.next(), if !flying.is_empty() => continue,
            taken = waiting.recv_many(&mut calls, TOGETHER), if open && flying.len() < WRITES => {
                open = taken > 0;
            }
        }
        let now = Instant::now();
        // Whoever has given up has been told that nothing is known; what was not sent yet is better not sent.
        calls.retain(|call| call.deadline > now && !call.answer.is_closed());
        if !calls.is_empty() {
            flying.push(exchange(Arc::clone(&link), calls));
        }
    }
}

async fn exchange(link: Arc<Link>, calls: Vec<Call>) {
    let deadline = calls.iter().map(|call| call.deadline).max().unwrap_or_else(Instant::now);
    let (mut ops, mut answers) = (Vec::with_capacity(calls.len()), Vec::with_capacity(calls.len()));
    for call in calls {
        ops.push(call.op);
        answers.push(call.answer);
    }
    // Nobody waits when a receiver is gone.
    match link.pipeline(Lane::Small, &ops, deadline).await {
        Ok(replies) => {
            for ((op, answer), reply) in ops.into_iter().zip(answers).zip(replies) {
                let _ = answer.send((op, reply.map_err(Trouble::Server)));
            }
        }
        Err(error) => {
            for (op, answer) in ops.into_iter().zip(answers) {
                let _ = answer.send((op, Err(Trouble::Link(error.clone()))));
            }
        }
    }
}
