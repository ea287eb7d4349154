//! Queues in Valkey: every decision is a script's. A script says which buckets it lacks; it is called again with them.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use redis::Value;
use tokio::time::Instant;

use super::{
    batch::{Batched, Batcher, answered},
    header::Header,
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
        reply::{parse_number, unexpected},
    },
    valkey::{Lane, Link, Op, Script},
};

/// Rounds in which a script may name further buckets. Each one names all it knows of.
const ROUNDS: usize = 16;

/// What all queues of one sidecar share.
pub struct Store {
    pub link: Link,
    pub keyring: Arc<SharedKeyring>,
    pub namespaces: Arc<Namespaces>,
}

/// What became of one job that was to be added.
pub struct Made {
    /// As `Enqueued.Outcome`.
    pub outcome: u8,
    /// As `JobState`.
    pub place: u8,
    pub number: u64,
    pub due: u64,
    pub finished: u64,
    pub replayed: bool,
}

/// A job that was leased, or might be.
pub struct Leased {
    pub number: u64,
    pub header: Header,
    pub payload: Vec<u8>,
    pub progress: Vec<u8>,
}

/// What a call of the lease script gave.
#[derive(Default)]
pub struct Leases {
    /// By the server, ms.
    pub now: u64,
    pub ready_left: u64,
    /// 0: none.
    pub first_due: u64,
    /// 0: none.
    pub first_lease_end: u64,
    /// Limiter or pause hold the next start until then; 0: they do not.
    pub not_before: u64,
    pub leased: Vec<Leased>,
    /// Jobs that a cap must allow first.
    pub gated: Vec<Leased>,
}

/// How a lease is settled.
pub struct Settle {
    pub number: u64,
    pub fence: u64,
    /// `A` done, `R` failed, `F` failed for good, `L` given back.
    pub verdict: u8,
    /// ms.
    pub wait: Option<u64>,
    /// Sealed result or error, or nothing.
    pub sealed: Vec<u8>,
}

/// What a tick found.
#[derive(Default)]
pub struct Ticked {
    pub now: u64,
    pub first_due: u64,
    pub first_lease_end: u64,
    pub first_trim: u64,
    pub first_cron: u64,
    /// There is more to do at once.
    pub more: bool,
}

/// A script's answer.
pub type Answer = (String, std::vec::IntoIter<Value>);

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
            let (keys, packed) = queue.keys(&list);
            let mut all = Vec::with_capacity(args.len() + 1);
            all.push(packed);
            all.extend(args.iter().cloned());
            let reply = self.link.run(lane, Op::Script { script, keys, args: all }, deadline).await?;
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
            // Others serve its timers too. Whoever misses this finds it by the index.
            let channel = super::discover::channel(&self.link);
            let _ = self.link.publish(&channel, queue.name.tag().as_bytes(), deadline).await;
        }
        Ok(())
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
                (want - result.leased.len()).to_string().into_bytes(),
                lease_ms.to_string().into_bytes(),
                allowed_packed.clone(),
                gated_most.to_string().into_bytes(),
                request.unwrap_or_default().into(),
            ];
            let op = Op::Script { script: &scripts::LEASE, keys, args };
            let (status, rest) = open(self.link.run(Lane::Small, op, deadline).await?)?;
            if status == "NONE" {
                self.absent(queue, deadline).await?;
                return Ok(Leases::default());
            }
            let needed = read_leases(rest, &mut result)?;
            for one in &result.leased {
                queue.was_ready_in(one.number / IN_BUCKET);
            }
            if needed.is_empty()
                || result.leased.len() >= want
                || (request.is_some() && !result.leased.is_empty())
            {
                break;
            }
            buckets.extend(needed);
        }
        Ok(result)
    }

    /// Settles leases; outcomes as `SettleOutcome`.
    pub async fn settle(&self, queue: &Queue, items: &[Settle], deadline: Instant) -> Result<Vec<i32>> {
        let buckets = items.iter().map(|item| item.number / IN_BUCKET).collect();
        let mut args = Vec::with_capacity(2 * items.len());
        for item in items {
            let mut packed = Vec::with_capacity(22);
            packed.extend(&item.number.to_be_bytes()[2..]);
            packed.extend(&item.fence.to_be_bytes()[1..]);
            packed.push(item.verdict);
            packed.extend(&item.wait.map_or(0, |wait| wait + 1).to_be_bytes()[2..]);
            packed.extend(chance());
            args.push(packed);
            args.push(item.sealed.clone());
        }
        let (status, rest) = self.call(Lane::Small, &scripts::SETTLE, queue, buckets, args, deadline).await?;
        if status == "NONE" {
            self.absent(queue, deadline).await?;
            return Ok(vec![crate::proto::v1::SettleOutcome::NotFound as i32; items.len()]);
        }
        rest.map(|value| Ok(i32::try_from(number(Some(value))?).unwrap_or(0))).collect()
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

/// Adds what several calls bring in one script call.
pub struct Adding {
    pub store: Arc<Store>,
    pub queue: Arc<Queue>,
}

impl Batched for Adding {
    type Item = Item;
    type Done = Made;

    fn bytes(item: &Item) -> usize {
        item.payload.len() + 100
    }

    async fn run(self: &Arc<Self>, items: Vec<Item>, deadline: Instant) -> Result<Vec<Made>> {
        let made = self.store.enqueue(&self.queue, Vec::new(), &items, deadline).await?;
        self.queue.wake();
        made.ok_or_else(unexpected)
    }
}

/// Settles what several streams bring in one script call.
pub struct Settling {
    pub store: Arc<Store>,
    pub queue: Arc<Queue>,
}

impl Batched for Settling {
    type Item = Settle;
    type Done = i32;

    fn bytes(item: &Settle) -> usize {
        item.sealed.len() + 50
    }

    async fn run(self: &Arc<Self>, items: Vec<Settle>, deadline: Instant) -> Result<Vec<i32>> {
        let settled = self.store.settle(&self.queue, &items, deadline).await?;
        self.queue.wake();
        if settled.len() == items.len() { Ok(settled) } else { Err(unexpected()) }
    }
}

/// Two random bytes.
fn chance() -> [u8; 2] {
    let mut bytes = [0; 2];
    let _ = getrandom::fill(&mut bytes);
    bytes
}

fn read_leases(mut rest: std::vec::IntoIter<Value>, result: &mut Leases) -> Result<Vec<u64>> {
    let mut next = || number(rest.next());
    result.now = next()?;
    result.ready_left = next()?;
    result.first_due = next()?;
    result.first_lease_end = next()?;
    result.not_before = next()?;
    let (mut needed, mut section) = (Vec::new(), 0);
    while let Some(value) = rest.next() {
        if matches!(&value, Value::BulkString(mark) if mark == b"|") {
            section += 1;
            if section == 2 {
                result.gated.clear();
            }
        } else if section == 0 {
            needed.push(number(Some(value))?);
        } else {
            let number = number(Some(value))?;
            let (header, payload, progress) = (bytes(rest.next())?, bytes(rest.next())?, bytes(rest.next())?);
            let header = Header::parse(&header).ok_or_else(unexpected)?;
            let list = if section == 1 { &mut result.leased } else { &mut result.gated };
            list.push(Leased { number, header, payload, progress });
        }
    }
    Ok(needed)
}

fn made(value: &Value) -> Result<Made> {
    let Value::BulkString(bytes) = value else { return Err(unexpected()) };
    let [outcome, place, rest @ ..] = bytes.as_slice() else { return Err(unexpected()) };
    if rest.len() != 19 {
        return Err(unexpected());
    }
    let number = |at: usize| rest[at..at + 6].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    Ok(Made {
        outcome: *outcome,
        place: *place,
        number: number(0),
        due: number(6),
        finished: number(12),
        replayed: rest[18] == 1,
    })
}

/// The status word of a reply, and the rest.
pub fn open(reply: Value) -> Result<Answer> {
    let Value::Array(values) = reply else { return Err(unexpected()) };
    let mut values = values.into_iter();
    match values.next() {
        Some(Value::BulkString(status)) => Ok((String::from_utf8(status).map_err(|_| unexpected())?, values)),
        _ => Err(unexpected()),
    }
}

/// A whole number in a reply.
pub fn number(value: Option<Value>) -> Result<u64> {
    match value {
        Some(Value::Int(number)) => u64::try_from(number).map_err(|_| unexpected()),
        Some(Value::BulkString(bytes)) => parse_number(&bytes).ok_or_else(unexpected),
        _ => Err(unexpected()),
    }
}

/// Bytes in a reply; none are nothing.
pub fn bytes(value: Option<Value>) -> Result<Vec<u8>> {
    match value {
        Some(Value::BulkString(bytes)) => Ok(bytes),
        Some(Value::Nil) => Ok(Vec::new()),
        _ => Err(unexpected()),
    }
}

/// A deadline for what is done on nobody's behalf.
pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

/// The batchers of one queue.
pub struct Batchers {
    adding: (Arc<Batcher<Adding>>, Arc<Adding>),
    settling: (Arc<Batcher<Settling>>, Arc<Settling>),
}

impl Batchers {
    pub fn new(store: &Arc<Store>, queue: &Arc<Queue>) -> Self {
        let adding = Adding { store: Arc::clone(store), queue: Arc::clone(queue) };
        let settling = Settling { store: Arc::clone(store), queue: Arc::clone(queue) };
        Self { adding: (Arc::default(), Arc::new(adding)), settling: (Arc::default(), Arc::new(settling)) }
    }

    /// Adds up to 500 jobs.
    pub async fn add(&self, items: Vec<Item>, deadline: Instant) -> Result<Vec<Made>> {
        answered(self.adding.0.push(&self.adding.1, items, deadline)?, deadline).await
    }

    /// Settles up to 500 leases.
    pub async fn settle(&self, items: Vec<Settle>, deadline: Instant) -> Result<Vec<i32>> {
        answered(self.settling.0.push(&self.settling.1, items, deadline)?, deadline).await
    }
}
