//! How many unary calls are in progress on each session, so that one bot does not take the room of all.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::name::SessionName;
use crate::{
    crypto::OwnerTag,
    error::{Error, Reason, Result},
};

/// Calls in progress by session. Clones are the same.
#[derive(Clone)]
pub struct Busy {
    most: usize,
    calls: Arc<Mutex<HashMap<OwnerTag, usize>>>,
}

impl Busy {
    /// At most so many of one session.
    pub fn new(most: usize) -> Self {
        Self { most, calls: Arc::default() }
    }

    /// Counts a call until what is given is dropped.
    pub fn enter(&self, name: &SessionName) -> Result<Entered> {
        let tag = *name.tag();
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let count = calls.entry(tag).or_default();
        if *count >= self.most {
            return Err(Error::new(
                Reason::TooManyInFlight,
                format!(
                    "{} calls on this session are in progress (--session-in-flight); try again",
                    self.most
                ),
            )
            .retry_after(Duration::from_millis(100)));
        }
        *count += 1;
        drop(calls);
        Ok(Entered { busy: self.clone(), tag })
    }
}

/// A call that is in progress.
pub struct Entered {
    busy: Busy,
    tag: OwnerTag,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut calls = self.busy.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = calls.entry(self.tag) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}
