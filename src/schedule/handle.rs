//! A queue in use: its batchers, the workers that want its jobs, and when it must be looked at by itself.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use super::{
    queue::Queue,
    runner,
    store::{Batchers, Store},
    timers::Timers,
    worker::Worker,
};
use crate::schedule::gate::Gate;

/// One queue of one sidecar.
pub struct Handle {
    pub store: Arc<Store>,
    pub queue: Arc<Queue>,
    pub batchers: Batchers,
    pub timers: Timers,
    pub gate: Arc<dyn Gate>,
    /// When the next tick is planned, in ms since the start of the process; what is behind a queue's entry in the timers.
    pub planned: AtomicU64,
    /// The next bucket to look over.
    pub mending: AtomicU64,
    /// When that was done last, in ms since the start of the process.
    pub mended: AtomicU64,
    workers: Mutex<Workers>,
}

#[derive(Default)]
struct Workers {
    list: Vec<Arc<Worker>>,
    running: bool,
}

impl Handle {
    pub fn new(store: &Arc<Store>, queue: Queue, timers: Timers, gate: Arc<dyn Gate>) -> Arc<Self> {
        let queue = Arc::new(queue);
        Arc::new(Self {
            store: Arc::clone(store),
            batchers: Batchers::new(store, &queue),
            queue,
            timers,
            gate,
            planned: AtomicU64::new(u64::MAX),
            mending: AtomicU64::new(0),
            mended: AtomicU64::new(0),
            workers: Mutex::default(),
        })
    }

    /// A worker wants jobs of this queue.
    pub fn join(self: &Arc<Self>, worker: &Arc<Worker>) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.list.push(Arc::clone(worker));
        if !std::mem::replace(&mut workers.running, true) {
            tokio::spawn(runner::run(Arc::clone(self)));
        }
        drop(workers);
        self.queue.wake();
    }

    /// It wants no more.
    pub fn part(&self, worker: &Arc<Worker>) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.list.retain(|one| !Arc::ptr_eq(one, worker));
        drop(workers);
        self.queue.wake();
    }

    /// The workers, beginning with another one each time; `None` ends the runner.
    pub fn workers(&self, turn: usize) -> Option<Vec<Arc<Worker>>> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if workers.list.is_empty() {
            workers.running = false;
            return None;
        }
        let mut list = workers.list.clone();
        let len = list.len();
        list.rotate_left(turn % len);
        Some(list)
    }

    /// Whether a tick is planned: it is a queue that exists.
    pub fn is_planned(&self) -> bool {
        self.planned.load(Ordering::Relaxed) != u64::MAX
    }

    /// Plans a tick in `ms` from now, unless one comes sooner.
    pub fn tick_in(self: &Arc<Self>, ms: u64) {
        let at = self.timers.now() + ms;
        if self.planned.fetch_min(at, Ordering::Relaxed) > at {
            self.timers.plan(self, at);
        }
    }
}
