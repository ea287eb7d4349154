//! A queue in use: its batchers, the workers that want its jobs, and when it must be looked at by itself.

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::{batchers::Batchers, queue::Queue, runner, store::Store, timers::Timers, worker::Worker};
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
    /// It was said that there is a cron that only a newer sidecar can fire.
    pub passed_over: AtomicBool,
    workers: Mutex<Workers>,
}

#[derive(Default)]
struct Workers {
    list: Vec<Arc<Worker>>,
    running: bool,
    turn: usize,
}

impl Workers {
    fn in_turn(&mut self) -> Vec<Arc<Worker>> {
        self.turn = self.turn.wrapping_add(1);
        let (behind, first) = self.list.split_at(self.turn % self.list.len().max(1));
        first.iter().chain(behind).cloned().collect()
    }
}

impl Handle {
    pub fn new(store: &Arc<Store>, queue: Queue, timers: Timers, gate: Arc<dyn Gate>) -> Arc<Self> {
        let queue = Arc::new(queue);
        Arc::new_cyclic(|handle| Self {
            store: Arc::clone(store),
            batchers: Batchers::new(store, &queue, Weak::clone(handle)),
            queue,
            timers,
            gate,
            planned: AtomicU64::new(u64::MAX),
            mending: AtomicU64::new(0),
            mended: AtomicU64::new(0),
            passed_over: AtomicBool::new(false),
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

    /// The workers, beginning with another one each time.
    pub fn workers(&self) -> Vec<Arc<Worker>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).in_turn()
    }

    /// The same for the runner; `None` ends it.
    pub fn workers_of_runner(&self) -> Option<Vec<Arc<Worker>>> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.running = !workers.list.is_empty();
        workers.running.then(|| workers.in_turn())
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
