//! Readiness that does not flap, for those who act on it: a router that takes a pod out and puts it back at every reconnection does
//! more harm than the reconnection. gRPC health tells each change at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// Trouble shorter than this is not told. With the time that it takes to notice (4.5 s at most) it stays below 6 s.
pub const FALLS_AFTER: Duration = Duration::from_secs(1);
/// Health must last this long after trouble that was told.
pub const RISES_AFTER: Duration = Duration::from_secs(1);

/// What is told, and since when it has not been so.
#[derive(Debug, Default)]
struct Hysteresis {
    told: bool,
    risen: bool,
    differs_since: Option<Instant>,
}

impl Hysteresis {
    /// Takes in how it is now; gives when to look again, if nothing changes until then.
    fn observe(&mut self, healthy: bool, now: Instant) -> Option<Instant> {
        if healthy == self.told {
            self.differs_since = None;
            return None;
        }
        let since = *self.differs_since.get_or_insert(now);
        let wait = match (healthy, self.risen) {
            // The first time nothing has flapped yet.
            (true, false) => Duration::ZERO,
            (true, true) => RISES_AFTER,
            (false, _) => FALLS_AFTER,
        };
        if now < since + wait {
            return Some(since + wait);
        }
        self.told = healthy;
        self.risen |= healthy;
        self.differs_since = None;
        None
    }
}

/// What is told. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Steady(Arc<AtomicBool>);

impl Steady {
    /// Whether the sidecar counts as ready.
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Follows health for as long as it is polled.
    pub async fn follow(self, mut health: watch::Receiver<bool>) {
        let mut hysteresis = Hysteresis::default();
        loop {
            let healthy = *health.borrow_and_update();
            let again = hysteresis.observe(healthy, Instant::now());
            self.0.store(hysteresis.told, Ordering::Relaxed);
            let wait = async {
                match again {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = health.changed() => if changed.is_err() { return },
                () = wait => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_is_not_told_and_what_lasts_is() {
        let mut told = Hysteresis::default();
        let begin = Instant::now();
        let mut at = |ms: u64, healthy: bool| {
            let next = told.observe(healthy, begin + Duration::from_millis(ms));
            (told.told, next.map(|at| (at - begin).as_millis()))
        };
        assert_eq!(at(0, false), (false, None));
        assert_eq!(at(100, true), (true, None), "the first rise is told at once");
        assert_eq!(at(200, false), (true, Some(1200)));
        assert_eq!(at(1100, true), (true, None), "a short outage is not");
        assert_eq!(at(1150, false), (true, Some(2150)), "and the next one counts from its own start");
        assert_eq!(at(2150, false), (false, None));
        assert_eq!(at(2500, true), (false, Some(3500)));
        assert_eq!(at(3000, false), (false, None), "a short recovery is not told either");
        assert_eq!(at(3100, true), (false, Some(4100)));
        assert_eq!(at(4100, true), (true, None));
    }
}
