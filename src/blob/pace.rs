//! All uploads together, and all fetches together, are kept to a rate: unpaced, large values make everybody else's calls
//! wait.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// What may go ahead of its time, in bytes: so that a small blob does not wait at all.
const BURST: u64 = 1024 * 1024;

/// One way, for the whole process.
pub struct Pacer {
    /// Bytes a second; 0: no limit.
    rate: u64,
    /// When everything that was let through so far is paid for.
    paid: Mutex<Instant>,
}

impl Pacer {
    /// `rate` in bytes a second; 0 sets no limit.
    pub fn new(rate: u64) -> Self {
        Self { rate, paid: Mutex::new(Instant::now()) }
    }

    /// Waits until `bytes` more may go.
    pub async fn take(&self, bytes: usize) {
        if self.rate > 0 {
            sleep_until(self.reserve(bytes as u64, Instant::now())).await;
        }
    }

    /// When `bytes` may go, in the order of asking.
    fn reserve(&self, bytes: u64, now: Instant) -> Instant {
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        *paid = now.max(*paid) + self.time(bytes);
        // What is within the burst goes at once.
        (*paid).checked_sub(self.time(BURST)).unwrap_or(now).max(now)
    }

    fn time(&self, bytes: u64) -> Duration {
        Duration::from_nanos(
            u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(self.rate)).unwrap_or(u64::MAX),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keeps_to_the_rate_after_a_burst() {
        let pacer = Pacer::new(1024 * 1024);
        let begin = Instant::now() + Duration::from_secs(3600);
        assert_eq!(pacer.reserve(BURST, begin), begin, "the burst");
        let mut last = begin;
        for n in 1..=64_u64 {
            last = pacer.reserve(256 * 1024, begin);
            assert_eq!(last, begin + Duration::from_millis(250 * n));
        }
        let later = last + Duration::from_secs(60);
        assert_eq!(pacer.reserve(BURST, later), later, "an idle minute gives one burst again, not more");
        assert_eq!(pacer.reserve(BURST, later), later + Duration::from_secs(1));
    }
}
