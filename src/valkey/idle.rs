//! Whether anybody uses the link. A hosted database that hibernates can do so only while nobody is connected to it, so a link
//! that nobody uses lets its connections go, and connects again for whoever comes next.

use std::{
    future::pending,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

/// Who uses the link.
pub(super) struct Idle {
    /// Without anybody for this long the connections are let go; None: never.
    after: Option<Duration>,
    users: AtomicUsize,
    /// When the last one left.
    left_at: Mutex<Instant>,
    came: Notify,
}

impl Idle {
    pub fn new(after: Option<Duration>) -> Self {
        Self { after, users: AtomicUsize::new(0), left_at: Mutex::new(Instant::now()), came: Notify::new() }
    }

    pub fn is_used(&self) -> bool {
        self.users.load(Ordering::SeqCst) > 0
    }

    /// Ends once nobody has used the link for as long as was asked for.
    pub async fn expired(&self) {
        let Some(after) = self.after else { return pending().await };
        // From the connection on, else one that was long in coming would be let go at once.
        let connected = Instant::now();
        loop {
            let since = (*self.lock_left_at()).max(connected);
            let left = if self.is_used() { after } else { after.saturating_sub(since.elapsed()) };
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }

    /// Ends once somebody uses the link.
    pub async fn wanted(&self) {
        while !self.is_used() {
            self.came.notified().await;
        }
    }

    fn lock_left_at(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.left_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where users of a link say that they use it. What the sidecar does by itself does not count.
#[derive(Clone)]
pub struct Users(Arc<Idle>);

/// While it is there, the link has its connections, or gets them.
pub struct InUse(Arc<Idle>);

impl Users {
    /// Of a link that keeps its connections anyway.
    pub fn uncounted() -> Self {
        Self(Arc::new(Idle::new(None)))
    }

    pub(super) fn of(idle: &Arc<Idle>) -> Self {
        Self(Arc::clone(idle))
    }

    /// One more, until the value is dropped. None: the link keeps its connections anyway.
    pub fn enter(&self) -> Option<InUse> {
        self.0.after?;
        if self.0.users.fetch_add(1, Ordering::SeqCst) == 0 {
            self.0.came.notify_one();
        }
        Some(InUse(Arc::clone(&self.0)))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        *self.0.lock_left_at() = Instant::now();
        self.0.users.fetch_sub(1, Ordering::SeqCst);
    }
}
