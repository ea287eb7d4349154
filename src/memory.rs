//! The one budget of memory for what calls carry, whichever service they are for. What does not fit is refused at once: a queue
//! of calls that wait for memory would be what fills it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::error::{Error, Reason, Result};

/// What a byte of a request takes on its way: as it came, sealed, and in a command to Valkey with the buffer that command is
/// written from.
pub const COPIES: usize = 4;
/// A budget of bytes. Clones are the same.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    limit: usize,
    used: AtomicUsize,
}

impl Memory {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Counts { limit, used: AtomicUsize::new(0) }))
    }

    /// A holder that has nothing yet.
    pub fn holder(&self) -> Held {
        Held { memory: self.clone(), bytes: AtomicUsize::new(0) }
    }

    /// Bytes that are held now.
    #[cfg(test)]
    fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }
}

/// What one holder has of a budget; given back on drop.
#[derive(Debug)]
pub struct Held {
    memory: Memory,
    bytes: AtomicUsize,
}

impl Held {
    /// Takes more, or nothing when it does not fit.
    pub fn add(&self, bytes: usize) -> Result<()> {
        let counts = &self.memory.0;
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= counts.limit);
        match counts.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => {
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(_) => Err(Error::new(
                Reason::Quota,
                "the calls in progress fill the sidecar's memory budget: try again (--memory-budget)",
            )
            .retry_after(Duration::from_millis(200))),
        }
    }

    /// Takes more of it, also beyond the budget: what cannot be refused any more still counts against what can.
    pub fn add_anyway(&self, bytes: usize) {
        self.memory.0.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.0.used.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_whole_and_what_is_given_back_can_be_taken_again() {
        let memory = Memory::new(100);
        let (first, second) = (memory.holder(), memory.holder());
        first.add(60).unwrap();
        let refused = second.add(41).unwrap_err();
        assert_eq!(refused.reason(), Reason::Quota);
        assert_eq!(memory.used(), 60);
        second.add(40).unwrap();
        first.add_anyway(50);
        assert!(second.add(0).is_err(), "beyond the budget nothing fits");
        drop(first);
        assert_eq!(memory.used(), 40);
        second.add(60).unwrap();
        assert!(second.add(usize::MAX).is_err());
        drop(second);
        assert_eq!(memory.used(), 0);
    }
}
