//! Joins what several callers want of one queue at about the same time in one script call, in the order in which they came:
//! while one call is on its way the next ones gather.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{sync::oneshot, time::Instant};

use crate::error::{Error, Reason, Result};

/// Things of one script call: so few that it takes about 2 ms of the time of Valkey.
pub const TOGETHER: usize = 250;
/// Bytes of one script call, about.
const BYTES: usize = 4 * 1024 * 1024;
/// Parcels that wait; beyond, a caller is refused.
const WAITING: usize = 8192;

/// What several callers may do in one call.
pub trait Batched: Send + Sync + 'static {
    /// One thing.
    type Item: Send;
    /// What became of one.
    type Done: Send;

    /// Bytes of one, about.
    fn bytes(item: &Self::Item) -> usize;

    /// Does them all; one answer for each, in order.
    fn run(
        self: &Arc<Self>,
        items: Vec<Self::Item>,
        deadline: Instant,
    ) -> impl Future<Output = Result<Vec<Self::Done>>> + Send;
}

struct Parcel<B: Batched> {
    items: Vec<B::Item>,
    deadline: Instant,
    answer: oneshot::Sender<Result<Vec<B::Done>>>,
}

struct Waiting<B: Batched> {
    parcels: VecDeque<Parcel<B>>,
    running: bool,
}

/// Parcels on their way to one queue.
pub struct Batcher<B: Batched> {
    waiting: Mutex<Waiting<B>>,
}

impl<B: Batched> Default for Batcher<B> {
    fn default() -> Self {
        Self { waiting: Mutex::new(Waiting { parcels: VecDeque::new(), running: false }) }
    }
}

impl<B: Batched> Batcher<B> {
    /// Hands over up to [`TOGETHER`] items, which stay together and in order. What was handed over is done even if nobody
    /// waits for the answer any more.
    pub fn push(
        self: &Arc<Self>,
        target: &Arc<B>,
        items: Vec<B::Item>,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<Result<Vec<B::Done>>>> {
        let (answer, answered) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.parcels.len() >= WAITING {
            return Err(Error::new(Reason::TooManyInFlight, "too many calls wait for one queue; try again")
                .retry_after(std::time::Duration::from_millis(100)));
        }
        waiting.parcels.push_back(Parcel { items, deadline, answer });
        if !std::mem::replace(&mut waiting.running, true) {
            tokio::spawn(Arc::clone(self).drain(Arc::clone(target)));
        }
        Ok(answered)
    }

    async fn drain(self: Arc<Self>, target: Arc<B>) {
        while let Some(parcels) = self.take() {
            let mut items = Vec::new();
            let mut rest = Vec::with_capacity(parcels.len());
            let mut deadline = Instant::now();
            for parcel in parcels {
                rest.push((parcel.items.len(), parcel.answer));
                items.extend(parcel.items);
                deadline = deadline.max(parcel.deadline);
            }
            match target.run(items, deadline).await {
                Ok(done) => {
                    let mut done = done.into_iter();
                    for (count, answer) in rest {
                        let _ = answer.send(Ok(done.by_ref().take(count).collect()));
                    }
                }
                Err(error) => {
                    for (_, answer) in rest {
                        let _ = answer.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// The parcels of the next call; `None` ends the task.
    fn take(&self) -> Option<Vec<Parcel<B>>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut parcels, mut count, mut bytes) = (Vec::new(), 0, 0);
        while let Some(parcel) = waiting.parcels.front() {
            count += parcel.items.len();
            bytes += parcel.items.iter().map(B::bytes).sum::<usize>();
            if !parcels.is_empty() && (count > TOGETHER || bytes > BYTES) {
                break;
            }
            parcels.extend(waiting.parcels.pop_front());
        }
        waiting.running = !parcels.is_empty();
        waiting.running.then_some(parcels)
    }
}

/// Waits for an answer until the caller's own deadline.
pub async fn answered<T>(answer: oneshot::Receiver<Result<T>>, deadline: Instant) -> Result<T> {
    match tokio::time::timeout_at(deadline, answer).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Error::new(Reason::Internal, "a batch was dropped").outcome_unknown()),
        Err(_) => {
            Err(Error::new(Reason::DeadlineExceeded, "Valkey did not answer in time").outcome_unknown())
        }
    }
}
