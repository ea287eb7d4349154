//! Calls to a cluster: each to the node that serves its slot. What a node does not serve any more is sent again to the one
//! that does; while a slot is on its way, to the node that has the key already.

use std::sync::Arc;

use futures_util::future::join_all;
use redis::Value;
use tokio::time::{Instant, timeout_at};

use super::{
    error::{LinkError, ServerError},
    exchange::Inner,
    op::{self, Lane, Op},
    script::{Script, load},
    shard::{Shard, Undone},
};

/// How often a call follows its slot before it is left to its caller to try again.
const REDIRECTS: u32 = 4;
/// What a new look at the cluster may take before a call goes on without it.
const LOOK_WITHIN: std::time::Duration = std::time::Duration::from_millis(1500);

/// Calls for one shard, by their place among all.
struct Group {
    shard: Arc<Shard>,
    calls: Vec<usize>,
    /// The shard is only taking their slot over.
    asking: bool,
}

type Reply = Result<Value, ServerError>;

impl Inner {
    /// Sends `ops` and gives their replies in order; each op for the same shard goes in one write, in order.
    pub async fn send(&self, lane: Lane, ops: &[Op<'_>], deadline: Instant) -> Result<Vec<Reply>, LinkError> {
        let _awake = if lane == Lane::Small { self.busy_poll.call() } else { None };
        if self.is_cluster() {
            return self.send_routed(lane, ops, deadline).await;
        }
        let writes = ops.iter().any(Op::may_write);
        let replies = self.exchange(lane, None, &op::pack(ops.iter()), writes, deadline).await?;
        Ok(replies.into_iter().map(op::reply).collect())
    }

    async fn send_routed(
        &self,
        lane: Lane,
        ops: &[Op<'_>],
        deadline: Instant,
    ) -> Result<Vec<Reply>, LinkError> {
        let mut replies: Vec<Reply> = vec![Err(ServerError::TryAgain); ops.len()];
        let mut todo: Vec<(usize, Option<Arc<Shard>>)> = (0..ops.len()).map(|at| (at, None)).collect();
        let mut written = false;
        for round in 0..=REDIRECTS {
            let groups = self.groups(ops, std::mem::take(&mut todo), deadline).await?;
            let looks = *self.looks.borrow();
            let done =
                join_all(groups.into_iter().map(|group| self.send_group(lane, ops, group, deadline))).await;
            let mut moved = false;
            let mut failed = None;
            for (group, answer) in done {
                let answers = match answer {
                    Ok(answers) => answers,
                    Err(Undone::Retired) => {
                        todo.extend(group.calls.into_iter().map(|at| (at, None)));
                        continue;
                    }
                    Err(Undone::Failed(error)) => {
                        failed = Some(error);
                        continue;
                    }
                };
                for (at, answer) in group.calls.into_iter().zip(answers) {
                    match answer {
                        Err(ServerError::Ask(place)) if round < REDIRECTS => {
                            todo.push((at, Some(self.guest(&place))));
                        }
                        Err(ServerError::Moved(_)) if round < REDIRECTS => {
                            moved = true;
                            todo.push((at, None));
                        }
                        Err(error) => {
                            moved |= error.is_of_a_slot();
                            let error = if error.is_of_a_slot() { ServerError::TryAgain } else { error };
                            replies[at] = Err(error);
                        }
                        Ok(value) => {
                            written |= ops[at].may_write();
                            replies[at] = Ok(value);
                        }
                    }
                }
            }
            if let Some(error) = failed {
                return Err(in_doubt(error, written));
            }
            if moved {
                self.look.notify_one();
            }
            if todo.is_empty() {
                break;
            }
            todo.sort_by_key(|(at, _)| *at);
            if moved {
                self.looked_since(looks, deadline).await;
            }
        }
        Ok(replies)
    }

    /// Loads a script again where it was not found: at the shard of `key`.
    pub async fn load(
        &self,
        lane: Lane,
        key: Option<&[u8]>,
        script: &'static Script,
        deadline: Instant,
    ) -> Result<(), LinkError> {
        let replies = self.exchange(lane, key, &load(&[script]), false, deadline).await?;
        replies.into_iter().map(op::reply).try_for_each(|reply| reply.map(|_| ()).map_err(LinkError::from))
    }

    /// Loads scripts again at every shard that can be reached.
    pub async fn load_everywhere(
        &self,
        scripts: &[&'static Script],
        deadline: Instant,
    ) -> Result<(), LinkError> {
        let loads = load(scripts);
        for shard in &self.shards().all {
            if shard.current().is_none() && self.is_cluster() {
                continue;
            }
            match shard.exchange(Lane::Small, &loads, loads.len(), false, deadline).await {
                Ok(replies) => {
                    for reply in replies {
                        op::reply(reply)?;
                    }
                }
                Err(Undone::Failed(error)) => return Err(error),
                Err(Undone::Retired) => {}
            }
        }
        Ok(())
    }

    /// The calls of each shard. One without a key goes with the first that has one, for the clock of its server.
    async fn groups(
        &self,
        ops: &[Op<'_>],
        calls: Vec<(usize, Option<Arc<Shard>>)>,
        deadline: Instant,
    ) -> Result<Vec<Group>, LinkError> {
        let first = ops.iter().find_map(Op::key);
        let mut groups: Vec<Group> = Vec::new();
        for (at, asked) in calls {
            let asking = asked.is_some();
            let shard = match asked {
                Some(shard) => shard,
                None => self.shard(ops[at].key().or(first), deadline).await?,
            };
            match groups.iter_mut().find(|group| group.shard.id == shard.id && group.asking == asking) {
                Some(group) => group.calls.push(at),
                None => groups.push(Group { shard, calls: vec![at], asking }),
            }
        }
        Ok(groups)
    }

    async fn send_group(
        &self,
        lane: Lane,
        ops: &[Op<'_>],
        group: Group,
        deadline: Instant,
    ) -> (Group, Result<Vec<Reply>, Undone>) {
        let writes = group.calls.iter().any(|at| ops[*at].may_write());
        let calls = group.calls.iter().map(|at| &ops[*at]);
        let pipeline = if group.asking { op::pack_asking(calls) } else { op::pack(calls) };
        let replies = group.shard.exchange(lane, &pipeline, pipeline.len(), writes, deadline).await;
        let step = if group.asking { 2 } else { 1 };
        let replies =
            replies.map(|replies| replies.into_iter().skip(step - 1).step_by(step).map(op::reply).collect());
        (group, replies)
    }

    /// Waits until the cluster was looked at once more, for a while.
    async fn looked_since(&self, looks: u64, deadline: Instant) {
        let mut looked = self.looks.subscribe();
        let until = deadline.min(Instant::now() + LOOK_WITHIN);
        let _ = timeout_at(until, looked.wait_for(|looked| *looked > looks)).await;
    }
}

fn in_doubt(error: LinkError, written: bool) -> LinkError {
    match error {
        LinkError::Unreachable { outcome_unknown, why } => {
            LinkError::Unreachable { outcome_unknown: outcome_unknown || written, why }
        }
        LinkError::Timeout { outcome_unknown } => {
            LinkError::Timeout { outcome_unknown: outcome_unknown || written }
        }
        error => error,
    }
}
