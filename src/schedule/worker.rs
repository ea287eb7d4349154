//! One worker stream as the runners see it: its credit, its leases, and the way to its client.

use std::{
    collections::{HashMap, HashSet},
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prost::Message as _;
use tokio::sync::{Notify, mpsc};
use tonic::Status;

use super::{
    convert,
    handle::Handle,
    queue::Queue,
    runner,
    store::{Leased, Settle, Settled},
};
use crate::proto::v1;

/// Messages that wait for the client.
pub const AHEAD: usize = 2048;
/// Bytes of one message with jobs, about.
const MESSAGE: usize = 1024 * 1024;

/// A lease that a stream holds.
struct Held {
    fence: u64,
    delivery: u64,
}

#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
struct State {
    credit: usize,
    /// Credit that a runner is asking Valkey with.
    reserved: usize,
    /// Queues, a bit each by their place, that found no credit since all of it was reserved by another one's runner.
    refused: u64,
    leases: HashMap<(usize, u64), Held>,
    delivered: u64,
    received: u64,
    draining: bool,
    quiet: bool,
    closed: bool,
    stuck: bool,
}

/// What became of jobs that were to go to a stream; those that did not come back as number and fence.
pub enum Delivered {
    /// They are on their way.
    Sent,
    /// It takes none any more.
    Closed(Vec<(u64, u64)>),
    /// They could not be opened: the keys are not there.
    Unopened(Vec<(u64, u64)>),
}

/// What a message goes through.
pub type Out = mpsc::Sender<Result<v1::WorkResponse, Status>>;

/// Jobs in messages of a bounded size.
fn packed(jobs: Vec<v1::WorkJob>) -> Vec<v1::WorkResponse> {
    let (mut messages, mut bytes) = (Vec::<v1::WorkResponse>::new(), MESSAGE);
    for job in jobs {
        let size = job.encoded_len();
        if bytes + size > MESSAGE {
            messages.push(v1::WorkResponse::default());
            bytes = 0;
        }
        bytes += size;
        if let Some(message) = messages.last_mut() {
            message.jobs.push(job);
        }
    }
    messages
}

/// A worker stream.
pub struct Worker {
    /// ms.
    pub lease_ms: u64,
    /// Its queues, by their place in Hello.
    pub queues: Vec<Arc<Handle>>,
    max_in_flight: usize,
    pub out: Out,
    /// A lease has ended, or nothing is on its way any more.
    pub changed: Notify,
    state: Mutex<State>,
}

impl Worker {
    pub fn new(lease_ms: u64, queues: Vec<Arc<Handle>>, max_in_flight: usize, out: Out) -> Arc<Self> {
        Arc::new(Self {
            lease_ms,
            queues,
            max_in_flight,
            out,
            changed: Notify::new(),
            state: Mutex::default(),
        })
    }

    /// The place of a queue in Hello.
    pub fn place(&self, queue: &str) -> Option<usize> {
        self.queues.iter().position(|handle| handle.queue.name.queue == queue)
    }

    fn place_of(&self, queue: &Arc<Queue>) -> Option<usize> {
        self.queues.iter().position(|handle| Arc::ptr_eq(&handle.queue, queue))
    }

    /// More jobs are wanted. Beyond the bound it is cut. Nobody is woken.
    pub fn add_credit(&self, count: usize, most: usize) {
        let mut state = self.lock();
        if !state.draining {
            state.credit = (state.credit + count).min(most);
        }
    }

    /// There is credit for all queues but some, a bit each by their place.
    pub fn wake_but(&self, some: u64) {
        for (place, handle) in self.queues.iter().enumerate() {
            if some & (1 << place) == 0 {
                handle.queue.wake();
            }
        }
    }

    /// Takes up to `most` credits for a question to Valkey, in which its leases among `ending` end before.
    pub fn reserve(&self, queue: &Arc<Queue>, most: usize, ending: &[Settle]) -> usize {
        let mut state = self.lock();
        if state.closed || state.draining || state.stuck {
            return 0;
        }
        let held = (state.leases.len() + state.reserved).saturating_sub(self.ending(&state, queue, ending));
        let room = self.max_in_flight.saturating_sub(held);
        let got = state.credit.min(room).min(most);
        if got == 0 && most > 0 && state.reserved > 0 {
            state.refused |= self.place_of(queue).map_or(0, |place| 1 << place);
        }
        state.credit -= got;
        state.reserved += got;
        got
    }

    fn ending(&self, state: &State, queue: &Arc<Queue>, settles: &[Settle]) -> usize {
        let Some(place) = self.place_of(queue) else { return 0 };
        let mut ended = HashSet::new();
        for one in settles {
            let lease = state.leases.get(&(place, one.number));
            if one.verdict != b'P' && lease.is_some_and(|held| held.fence == one.fence) {
                ended.insert(one.number);
            }
        }
        ended.len()
    }

    /// Whether it waits for jobs.
    pub fn has_credit(&self) -> bool {
        let state = self.lock();
        state.credit > 0 && !state.closed && !state.draining && !state.stuck
    }

    /// What was reserved and found nothing.
    pub fn give_back(&self, count: usize) {
        let mut state = self.lock();
        state.reserved -= count;
        state.credit += count;
        let refused = std::mem::take(&mut state.refused);
        drop(state);
        self.wake_refused(refused);
        self.quiet_if_drained();
    }

    /// There is credit for those that found none. For nobody else: queues that find nothing would keep each other awake.
    fn wake_refused(&self, refused: u64) {
        for (place, handle) in self.queues.iter().enumerate() {
            if refused & (1 << place) != 0 {
                handle.queue.wake();
            }
        }
    }

    /// Sends jobs on; those of a stream that takes none any more come back. What is new of its settles goes with them.
    pub async fn deliver(
        &self,
        handle: &Arc<Handle>,
        reserved: usize,
        leased: Vec<Leased>,
        news: Option<(&[Settle], &mut [Settled])>,
    ) -> Delivered {
        let refs: Vec<(u64, u64)> = leased.iter().map(|job| (job.number, job.header.fence)).collect();
        let Some(place) = self.place_of(&handle.queue) else { return Delivered::Closed(refs) };
        let mut jobs = match convert::open_jobs(handle, leased, self.lease_ms).await {
            Ok(jobs) => jobs,
            Err(error) => {
                tracing::error!(queue = %handle.queue.name.short(), %error, "leased jobs could not be opened");
                self.give_back(reserved);
                return Delivered::Unopened(refs);
            }
        };
        {
            let mut state = self.lock();
            state.reserved -= reserved;
            state.credit += reserved - jobs.len();
            if reserved > jobs.len() {
                self.wake_refused(std::mem::take(&mut state.refused));
            }
            if state.closed || state.draining {
                drop(state);
                self.quiet_if_drained();
                return Delivered::Closed(jobs.iter().map(|job| (job.number, job.fence)).collect());
            }
            for job in &mut jobs {
                state.delivered += 1;
                job.delivery = state.delivered;
                let held = Held { fence: job.fence, delivery: job.delivery };
                state.leases.insert((place, job.number), held);
            }
        }
        // A client that reads nothing must not hold up the others of its queue.
        let mut messages = packed(jobs);
        if let (Some((settles, settled)), [first, ..]) = (news, messages.as_mut_slice()) {
            let queue = &handle.queue.name.queue;
            for (one, settled) in settles.iter().zip(settled) {
                // A report of how far it is has no answer.
                if one.verdict != b'P'
                    && one.holder.as_ref().is_some_and(|holder| Arc::as_ptr(holder) == ptr::from_ref(self))
                {
                    first.settled.push(one.told(queue, settled.outcome));
                    settled.told = true;
                }
            }
        }
        if let Ok(room) = self.out.try_reserve_many(messages.len()) {
            for (room, message) in room.zip(messages) {
                room.send(Ok(message));
            }
        } else {
            self.lock().stuck = true;
            self.changed.notify_one();
        }
        Delivered::Sent
    }

    /// Whether the client does not read: the stream is to end, and what it has not received goes back with it.
    pub fn is_stuck(&self) -> bool {
        self.lock().stuck
    }

    /// To the client. When it is gone nothing is lost: its leases go back.
    pub async fn send(&self, message: v1::WorkResponse) {
        let _ = self.out.send(Ok(message)).await;
    }

    /// All deliveries up to this one have arrived.
    pub fn received(&self, delivery: u64) {
        let mut state = self.lock();
        state.received = state.received.max(delivery.min(state.delivered));
    }

    /// A lease of an earlier stream goes on here.
    pub fn adopt(&self, place: usize, number: u64, fence: u64) {
        self.lock().leases.insert((place, number), Held { fence, delivery: 0 });
    }

    /// These leases are over.
    pub fn settled(&self, place: usize, leases: impl Iterator<Item = (u64, u64)>) {
        let mut state = self.lock();
        // Nobody could be given its credit for want of room.
        let full = state.leases.len() + state.reserved >= self.max_in_flight;
        for (number, fence) in leases {
            if state.leases.get(&(place, number)).is_some_and(|held| held.fence == fence) {
                state.leases.remove(&(place, number));
            }
        }
        let waits = full && state.credit > 0;
        drop(state);
        self.changed.notify_one();
        if waits {
            self.wake_but(0);
        }
    }

    /// The leases of each queue.
    pub fn leases(&self) -> Vec<(usize, Vec<(u64, u64)>)> {
        let state = self.lock();
        let mut by_queue: HashMap<usize, Vec<(u64, u64)>> = HashMap::new();
        for ((place, number), held) in &state.leases {
            by_queue.entry(*place).or_default().push((*number, held.fence));
        }
        by_queue.into_iter().collect()
    }

    /// Takes no more jobs; what has not arrived goes back.
    pub fn drain(&self) {
        let mut state = self.lock();
        state.draining = true;
        state.credit = 0;
        drop(state);
        self.release_unreceived();
        self.quiet_if_drained();
    }

    /// The sidecar stops: takes no more jobs. What is on its way to the client may still arrive and be settled.
    pub fn drain_keeping(&self) {
        let mut state = self.lock();
        state.draining = true;
        state.credit = 0;
        drop(state);
        self.quiet_if_drained();
    }

    /// Those of some leases that are still this stream's.
    pub fn still_held(&self, place: usize, leases: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let state = self.lock();
        let held = |(number, fence): &&(u64, u64)| {
            state.leases.get(&(place, *number)).is_some_and(|held| held.fence == *fence)
        };
        leases.iter().filter(held).copied().collect()
    }

    fn quiet_if_drained(&self) {
        let mut state = self.lock();
        if state.draining && state.reserved == 0 && !state.quiet {
            state.quiet = true;
            drop(state);
            self.changed.notify_one();
            // A full queue means that the client reads nothing: it will not miss it.
            let _ = self.out.try_send(Ok(v1::WorkResponse { quiet: true, ..Default::default() }));
        }
    }

    /// Whether the drain is over.
    pub fn is_done(&self) -> bool {
        let state = self.lock();
        state.quiet && state.leases.is_empty()
    }

    /// The stream is gone.
    pub fn close(self: &Arc<Self>) {
        self.lock().closed = true;
        for handle in &self.queues {
            handle.part(self);
        }
        self.release_unreceived();
    }

    fn release_unreceived(&self) {
        let mut back: HashMap<usize, Vec<(u64, u64)>> = HashMap::new();
        let mut state = self.lock();
        let received = state.received;
        state.leases.retain(|(place, number), held| {
            let keep = held.delivery <= received;
            if !keep {
                back.entry(*place).or_default().push((*number, held.fence));
            }
            keep
        });
        drop(state);
        for (place, leases) in back {
            runner::give_back(&self.queues[place], leases);
        }
    }

    /// Somebody asked to cancel a lease; if it is one of this stream's, the client is told.
    pub fn cancel_requested(&self, queue: &Arc<Queue>, number: u64, fence: u64) {
        let Some(place) = self.place_of(queue) else { return };
        let ours = self.lock().leases.get(&(place, number)).is_some_and(|held| held.fence == fence);
        if ours {
            let lease = v1::LeaseRef { queue: queue.name.queue.clone(), number, fence };
            let message = v1::WorkResponse { cancel_requested: vec![lease], ..Default::default() };
            let _ = self.out.try_send(Ok(message));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
