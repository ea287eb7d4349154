//! What several calls bring at the same time goes into one script call.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    answers::{Made, Settle},
    batch::{Batched, Batcher, answered},
    queue::Queue,
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
