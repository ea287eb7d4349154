//! Busy polling: for some microseconds after a call was sent or answered, the runtime looks at its sockets again instead of
//! sleeping. Where calls come one by one, what a call takes is mostly the waking of cores that have just gone to sleep.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

/// With more calls on their way than this, something to do is never far, and the core is better left to Valkey and the bot.
const FEW: usize = 2;

/// Keeps a runtime awake after its calls.
#[derive(Debug)]
pub(super) struct BusyPoll {
    within: Duration,
    born: Instant,
    /// Nanoseconds since `born`.
    until: AtomicU64,
    calls: AtomicUsize,
    wake: Notify,
}

/// A call on its way.
pub(super) struct Awake<'a>(&'a BusyPoll);

impl BusyPoll {
    /// Looks for this long; zero: never.
    pub fn new(within: Duration) -> Self {
        Self {
            within,
            born: Instant::now(),
            until: AtomicU64::new(0),
            calls: AtomicUsize::new(0),
            wake: Notify::new(),
        }
    }

    /// A call is sent. It ends with what this gives.
    pub fn call(&self) -> Option<Awake<'_>> {
        (!self.within.is_zero()).then(|| {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.extend();
            Awake(self)
        })
    }

    /// Does the looking; never ends.
    pub async fn run(&self) {
        loop {
            self.wake.notified().await;
            // What is yielded to is everything that is ready, and then one look at the sockets.
            while self.now() < self.until.load(Ordering::Relaxed) {
                tokio::task::yield_now().await;
            }
        }
    }

    fn extend(&self) {
        if self.calls.load(Ordering::Relaxed) > FEW {
            return;
        }
        let now = self.now();
        let until = now + nanos(self.within);
        if self.until.swap(until, Ordering::Relaxed) <= now {
            self.wake.notify_one();
        }
    }

    fn now(&self) -> u64 {
        nanos(self.born.elapsed())
    }
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.0.extend();
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_calls_at_once_keep_nobody_awake() {
        let poll = BusyPoll::new(Duration::from_millis(1));
        let until = || poll.until.load(Ordering::Relaxed);
        let first = poll.call();
        let after_one = until();
        let _second = poll.call();
        let after_two = until();
        assert!(0 < after_one && after_one < after_two);
        let third = poll.call();
        assert_eq!(until(), after_two);
        drop(third);
        assert_eq!(until(), after_two);
        drop(first);
        assert!(until() > after_two);
    }

    #[test]
    fn zero_is_off() {
        assert!(BusyPoll::new(Duration::ZERO).call().is_none());
    }

    /// What this thread computes in 300 ms after one call.
    async fn computes_after_a_call(within: Duration) -> Duration {
        let poll = BusyPoll::new(within);
        drop(poll.call());
        let thread = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let before = thread();
        let _ = tokio::time::timeout(Duration::from_millis(300), poll.run()).await;
        let took = thread() - before;
        Duration::from_secs(took.tv_sec.unsigned_abs()) + Duration::from_nanos(took.tv_nsec.unsigned_abs())
    }

    #[tokio::test]
    async fn it_looks_for_its_time_and_sleeps_then() {
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(1));
        let (short, long) = (computes_after_a_call(short).await, computes_after_a_call(long).await);
        assert!(short * 4 < long, "{short:?}, {long:?}");
    }
}
