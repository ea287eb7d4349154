//! What several calls bring at the same time goes into one script call.

use std::sync::{Arc, Weak};

use tokio::{sync::oneshot, time::Instant};

use super::{
    answers::{Made, Settle, Settled},
    batch::{Batched, Batcher, answered},
    handle::Handle,
    queue::Queue,
    runner,
    spec::Item,
    store::Store,
};
use crate::{error::Result, owner::reply::unexpected};

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

/// Settles what several streams bring in one script call, and leases what comes next.
pub struct Settling {
    handle: Weak<Handle>,
}

/// The answer that is due to a push.
pub type Answer<T> = oneshot::Receiver<Result<Vec<T>>>;

impl Batched for Settling {
    type Item = Settle;
    type Done = Settled;

    fn bytes(item: &Settle) -> usize {
        item.sealed.len() + 50
    }

    async fn run(self: &Arc<Self>, items: Vec<Settle>, deadline: Instant) -> Result<Vec<Settled>> {
        // Whoever pushes has the queue.
        let handle = self.handle.upgrade().ok_or_else(unexpected)?;
        runner::settle(&handle, &items, deadline).await
    }
}

/// The batchers of one queue.
pub struct Batchers {
    adding: (Arc<Batcher<Adding>>, Arc<Adding>),
    settling: (Arc<Batcher<Settling>>, Arc<Settling>),
}

impl Batchers {
    /// Of a queue that is being made.
    pub fn new(store: &Arc<Store>, queue: &Arc<Queue>, handle: Weak<Handle>) -> Self {
        let adding = Adding { store: Arc::clone(store), queue: Arc::clone(queue) };
        let settling = Settling { handle };
        Self { adding: (Arc::default(), Arc::new(adding)), settling: (Arc::default(), Arc::new(settling)) }
    }

    /// Adds up to 500 jobs.
    pub async fn add(&self, items: Vec<Item>, deadline: Instant) -> Result<Vec<Made>> {
        answered(self.adding.0.push(&self.adding.1, items, deadline)?, deadline).await
    }

    /// Settles up to [`super::batch::TOGETHER`] leases.
    pub async fn settle(&self, items: Vec<Settle>, deadline: Instant) -> Result<Vec<i32>> {
        let settled = answered(self.push_settles(items, deadline)?, deadline).await?;
        Ok(settled.into_iter().map(|one| one.outcome).collect())
    }

    /// The same, as soon as those before them are: the order is that of these calls.
    pub fn push_settles(&self, items: Vec<Settle>, deadline: Instant) -> Result<Answer<Settled>> {
        self.settling.0.push(&self.settling.1, items, deadline)
    }
}
