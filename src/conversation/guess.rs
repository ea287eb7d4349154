//! The state of the conversations that were read or written last, as it was then: what a change begins with, so that it needs no
//! read before it. Only a guess: the script writes nothing when another state is there, and gives that one. Sealed, as in Valkey.

use std::sync::Arc;

use quick_cache::{Weighter, sync::Cache};

use crate::crypto::OwnerTag;

/// Bytes of all guesses.
const BYTES_MAX: u64 = 8 << 20;
/// What one takes besides its state.
const OVERHEAD: usize = 128;
/// How many conversations that is about, of a few hundred bytes each.
const ABOUT: usize = 1 << 15;

/// A state as it was.
#[derive(Clone)]
pub struct Guess {
    pub version: u64,
    pub sealed: Arc<[u8]>,
}

#[derive(Clone)]
struct Weight;

impl Weighter<OwnerTag, Guess> for Weight {
    fn weight(&self, _: &OwnerTag, guess: &Guess) -> u64 {
        (guess.sealed.len() + OVERHEAD) as u64
    }
}

/// All of them; the least used go first.
pub struct Guesses(Cache<OwnerTag, Guess, Weight>);

impl Default for Guesses {
    fn default() -> Self {
        Self(Cache::with_weighter(ABOUT, BYTES_MAX, Weight))
    }
}

impl Guesses {
    pub fn of(&self, tag: &OwnerTag) -> Option<Guess> {
        self.0.get(tag)
    }

    /// Takes up what was read or written; version 0, idle, is what is guessed of a stranger.
    pub fn learn(&self, tag: OwnerTag, version: u64, sealed: &[u8]) {
        if version == 0 {
            self.0.remove(&tag);
        } else {
            self.0.insert(tag, Guess { version, sealed: sealed.into() });
        }
    }
}
