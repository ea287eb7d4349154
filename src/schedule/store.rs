//! Queues in Valkey: every decision is a script's. A script says which buckets it lacks; it is called again with them.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use redis::Value;
use tokio::time::Instant;

use super::{
    answers::{made, read_leases},
    queue::{IN_BUCKET, KIND, Queue},
    scripts,
    spec::Item,
};
use crate::{
    crypto::SharedKeyring,
    error::{Error, Reason, Result},
    owner::{
        index::Index,
        namespace::{NamespaceKeys, Namespaces},
        reply::unexpected,
    },
    proto::v1,
    telemetry,
    valkey::{Lane, Link, Op, Script, decimal},
};

pub use super::answers::{Answer, Leased, Leases, Made, Settle, Settled, Ticked, bytes, number, open};

/// Rounds in which a script may name further buckets. Each one names all it knows of.
const ROUNDS: usize = 16;

/// What all queues of one sidecar share.
pub struct Store {
    pub link: Link,
    pub keyring: Arc<SharedKeyring>,
    pub namespaces: Arc<Namespaces>,
}

impl Store {
    pub fn listing(&self) -> Index<'_> {
        Index { link: &self.link, kind: KIND }
    }

    pub async fn keys(&self, queue: &Queue, deadline: Instant) -> Result<Arc<NamespaceKeys>> {
        self.namespaces.keys(&queue.name.namespace, deadline).await
    }

    /// Calls a script until it lacks no bucket.
    pub async fn call(
        &self,
        lane: Lane,
        script: &'static Script,
        queue: &Queue,
        mut buckets: BTreeSet<u64>,
        args: Vec<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Answer> {
        for _ in 0..ROUNDS {
            let list: Vec<u64> = buckets.iter().copied().collect();
            let (own, packed) = queue.buckets(&list);
            let keys: Vec<&[u8]> = queue.fixed().iter().chain(&own).map(Vec::as_slice).collect();
            let mut all = Vec::with_capacity(args.len() + 1);
            all.push(&packed[..]);
            all.extend(args.iter().map(Vec::as_slice));
            let op = Op::ScriptRef { script, keys: &keys, args: &all };
            let reply = self.link.run(lane, op, deadline).await?;
            let (status, mut rest) = open(reply)?;
            if status != "NEED" {
                return Ok((status, rest));
            }
            queue.seen(number(rest.next())?);
            for bucket in rest {
                buckets.insert(number(Some(bucket))?);
            }
        }
        Err(Error::new(Reason::Busy, "the queue is busier than this call can follow; try again"))
    }

    /// The queue is not there: is that so?
    pub async fn absent(&self, queue: &Queue, deadline: Instant) -> Result<()> {
        self.link.confirm_absent(KIND, queue.name.tag(), deadline).await?;
        queue.known.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Adds jobs; the first of a queue makes it. `cron` fires one. `None`: the cron's slot is another by now.
    pub async fn enqueue(
        &self,
        queue: &Queue,
        cron: Vec<u8>,
        items: &[Item],
        deadline: Instant,
    ) -> Result<Option<Vec<Made>>> {
        loop {
            let known = queue.known.load(Ordering::Relaxed);
            let mut name = Vec::new();
            if !known {
                self.make(queue, deadline).await?;
                name = self.sealed_name(queue);
            }
            let mut args = vec![name, cron.clone()];
            for item in items {
                args.push(item.packed.clone());
                args.push(item.payload.clone());
            }
            let buckets = queue.next_buckets().into_iter().collect();
            let (status, mut rest) =
                self.call(Lane::Small, &scripts::ENQUEUE, queue, buckets, args, deadline).await?;
            match status.as_str() {
                "OK" => {}
                "NONE" => {
                    self.absent(queue, deadline).await?;
                    continue;
                }
                "MOVED" => return Ok(None),
                _ => return Err(unexpected()),
            }
            if !known {
                self.made(queue, deadline).await?;
            }
            let _now = number(rest.next())?;
            queue.seen(number(rest.next())?);
            let made: Vec<Made> = rest.map(|value| made(&value)).collect::<Result<_>>()?;
            if made.len() != items.len() && cron.is_empty() {
                return Err(unexpected());
            }
            return Ok(Some(made));
        }
    }

    /// The queue's name, as its head holds it.
    pub fn sealed_name(&self, queue: &Queue) -> Vec<u8> {
        let name = &queue.name;
        self.keyring.current().index_name_key().seal_name(name.tag(), &name.namespace, &name.queue)
    }

    /// The queue has been made.
    pub async fn made(&self, queue: &Queue, deadline: Instant) -> Result<()> {
        if !queue.known.load(Ordering::Relaxed) {
            self.listing().made(queue.name.tag(), 0, deadline).await?;
            queue.known.store(true, Ordering::Relaxed);
            self.tell(queue, deadline).await;
        }
        Ok(())
    }

    /// There is something new for timers in the queue: others serve them too. Whoever misses this finds it by the index.
    pub async fn tell(&self, queue: &Queue, deadline: Instant) {
        let channel = super::discover::channel(&self.link);
        let _ = self.link.publish(&channel, queue.name.tag().as_bytes(), deadline).await;
    }

    /// Before a queue is made: its absence is proven, and the index says that it is being made.
    pub async fn make(&self, queue: &Queue, deadline: Instant) -> Result<()> {
        if queue.known.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut read = redis::cmd("EXISTS");
        read.arg(queue.head());
        if self.link.run(Lane::Small, Op::Cmd(read), deadline).await? == Value::Int(0) {
            self.link.confirm_absent(KIND, queue.name.tag(), deadline).await?;
            self.listing().making(queue.name.tag(), deadline).await?;
        }
        Ok(())
    }

    /// Leases up to `want` jobs. `request` stands for the request of LeaseJobs.
    pub async fn lease(
        &self,
        queue: &Queue,
        want: usize,
        lease_ms: u64,
        (allowed, gated_most): (&[u64], usize),
        request: Option<&str>,
        deadline: Instant,
    ) -> Result<Leases> {
        let mut buckets: BTreeSet<u64> = queue.ready_buckets().into_iter().collect();
        buckets.extend(allowed.iter().map(|number| number / IN_BUCKET));
        let mut allowed_packed = Vec::with_capacity(6 * allowed.len());
        for number in allowed {
            allowed_packed.extend(&number.to_be_bytes()[2..]);
        }
        let mut result = Leases::default();
        for _ in 0..ROUNDS {
            let list: Vec<u64> = buckets.iter().copied().collect();
            let (mut keys, packed) = queue.keys(&list);
            if let Some(request) = request {
                keys[11] = queue.extra_key(&format!("q:{request}"));
            }
            let args = vec![
                packed,
                decimal((want - result.leased.len()) as u64),
                decimal(lease_ms),
                allowed_packed.clone(),
                decimal(gated_most as u64),
                request.unwrap_or_default().into(),
            ];
            let op = Op::Script { script: &scripts::LEASE, keys, args };
            let reply = match self.link.run(Lane::Small, op, deadline).await {
                // What an earlier round has leased must reach somebody.
                Err(_) if !result.leased.is_empty() => break,
                reply => reply?,
            };
            let (status, mut rest) = open(reply)?;
            if status == "NONE" {
                self.absent(queue, deadline).await?;
                return Ok(Leases::default());
            }
            let _outcomes = rest.next();
            let needed = read_leases(rest, &mut result)?;
            for one in &result.leased {
                queue.was_ready_in(one.number / IN_BUCKET);
            }
            if (needed.is_empty() && !result.again)
                || result.leased.len() >= want
                || (request.is_some() && !result.leased.is_empty())
            {
                break;
            }
            buckets.extend(needed);
        }
        given_out(&result);
        Ok(result)
    }

    /// Settles leases; outcomes as `SettleOutcome`.
    pub async fn settle(&self, queue: &Queue, items: &[Settle], deadline: Instant) -> Result<Vec<i32>> {
        let args = settle_args(0, 0, items);
        let buckets = items.iter().map(|item| item.number / IN_BUCKET).collect();
        let (status, mut rest) =
            self.call(Lane::Small, &scripts::SETTLE, queue, buckets, args, deadline).await?;
        told(items);
        if status == "NONE" {
            self.absent(queue, deadline).await?;
            return Ok(vec![v1::SettleOutcome::NotFound as i32; items.len()]);
        }
        outcomes(rest.next(), items.len())
    }

    /// Settles leases, and then leases up to `want` jobs that need no cap's leave, all in one call. There may be more to lease: what is
    /// looked at are the buckets that are known to have ready jobs.
    pub async fn turn(
        &self,
        queue: &Queue,
        items: &[Settle],
        (want, lease_ms): (usize, u64),
        deadline: Instant,
    ) -> Result<(Vec<i32>, Leases)> {
        let mut buckets: BTreeSet<u64> = queue.ready_buckets().into_iter().collect();
        buckets.extend(items.iter().map(|item| item.number / IN_BUCKET));
        let args = settle_args(want, lease_ms, items);
        let (status, mut rest) =
            self.call(Lane::Small, &scripts::TURN, queue, buckets, args, deadline).await?;
        told(items);
        if status == "NONE" {
            self.absent(queue, deadline).await?;
            let outcomes = vec![v1::SettleOutcome::NotFound as i32; items.len()];
            return Ok((outcomes, Leases::default()));
        }
        let outcomes = outcomes(rest.next(), items.len())?;
        let mut found = Leases::default();
        read_leases(rest, &mut found)?;
        given_out(&found);
        for one in &found.leased {
            queue.was_ready_in(one.number / IN_BUCKET);
        }
        Ok((outcomes, found))
    }

    /// Renews leases: 0 lost, 1 renewed, 2 renewed and to be cancelled.
    pub async fn renew(
        &self,
        queue: &Queue,
        leases: &[(u64, u64)],
        lease_ms: u64,
        deadline: Instant,
    ) -> Result<Vec<u64>> {
        let mut all = Vec::with_capacity(leases.len());
        for leases in leases.chunks(super::batch::TOGETHER) {
            let buckets = leases.iter().map(|(number, _)| number / IN_BUCKET).collect();
            let mut packed = Vec::with_capacity(13 * leases.len());
            for (number, fence) in leases {
                packed.extend(&number.to_be_bytes()[2..]);
                packed.extend(&fence.to_be_bytes()[1..]);
            }
            let args = vec![lease_ms.to_string().into_bytes(), packed];
            let (status, rest) =
                self.call(Lane::Small, &scripts::RENEW, queue, buckets, args, deadline).await?;
            if status == "NONE" {
                self.absent(queue, deadline).await?;
                all.extend(leases.iter().map(|_| 0));
                continue;
            }
            for value in rest {
                all.push(number(Some(value))?);
            }
        }
        Ok(all)
    }

    /// Does what is due by itself, a bounded part of it.
    pub async fn tick(&self, queue: &Queue, most: usize, deadline: Instant) -> Result<Option<Ticked>> {
        let mut buckets: BTreeSet<u64> = queue.ready_buckets().into_iter().collect();
        for _ in 0..ROUNDS {
            let list: Vec<u64> = buckets.iter().copied().collect();
            let (keys, packed) = queue.keys(&list);
            let chance = u16::from_be_bytes(chance());
            let mut args = vec![packed];
            for number in [most as u64, u64::from(chance), 3_600_000, 1_000, 14 * 86_400_000, 5_000] {
                args.push(number.to_string().into_bytes());
            }
            let op = Op::Script { script: &scripts::TICK, keys, args };
            let (status, mut rest) = open(self.link.run(Lane::Bulk, op, deadline).await?)?;
            if status == "NONE" {
                self.absent(queue, deadline).await?;
                return Ok(None);
            }
            let mut next = || number(rest.next());
            let ticked = Ticked {
                now: next()?,
                first_due: next()?,
                first_lease_end: next()?,
                first_trim: next()?,
                first_cron: next()?,
                more: next()? > 0,
            };
            let _done = next()?;
            let needed: Vec<u64> = rest.map(|value| number(Some(value))).collect::<Result<_>>()?;
            if needed.is_empty() {
                return Ok(Some(ticked));
            }
            // Those that were served are not needed again.
            buckets = needed.into_iter().collect();
        }
        Ok(Some(Ticked { more: true, ..Ticked::default() }))
    }
}

/// Counts what was leased.
fn given_out(leases: &Leases) {
    let late = |one: &Leased| leases.now.saturating_sub(one.header.due);
    telemetry::jobs_leased(leases.leased.iter().map(|one| (late(one), one.header.attempts)));
}

/// Counts what was settled.
fn told(items: &[Settle]) {
    for item in items {
        telemetry::settled(item.verdict);
    }
}

/// What the scripts get that settle: as those that lease, then two of each.
fn settle_args(want: usize, lease_ms: u64, items: &[Settle]) -> Vec<Vec<u8>> {
    let mut args = Vec::with_capacity(5 + 2 * items.len());
    args.push(decimal(want as u64));
    args.push(decimal(lease_ms));
    args.extend([Vec::new(), b"0".to_vec(), Vec::new()]);
    for item in items {
        let mut packed = Vec::with_capacity(22);
        packed.extend(&item.number.to_be_bytes()[2..]);
        packed.extend(&item.fence.to_be_bytes()[1..]);
        packed.push(item.verdict);
        packed.extend(&item.wait.map_or(0, |wait| wait + 1).to_be_bytes()[2..]);
        // Only what is tried again waits a random while.
        packed.extend(if item.verdict == b'R' { chance() } else { [0; 2] });
        args.push(packed);
        args.push(item.sealed.clone());
    }
    args
}

/// Outcomes as the scripts say them: a digit each.
fn outcomes(value: Option<Value>, count: usize) -> Result<Vec<i32>> {
    let digits = bytes(value)?;
    if digits.len() != count {
        return Err(unexpected());
    }
    Ok(digits.into_iter().map(|digit| i32::from(digit.wrapping_sub(b'0'))).collect())
}

/// Two random bytes.
fn chance() -> [u8; 2] {
    let mut bytes = [0; 2];
    let _ = getrandom::fill(&mut bytes);
    bytes
}

/// A deadline for what is done on nobody's behalf.
pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}
