//! Dedup, conversations and caps beside plain models of them, through thousands of random operations, with the clock standing still
//! where the test puts it. Needs the feature `test-clock`. A run prints its seed; PANNIER_SEED repeats it.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "models/cap_model.rs"]
mod cap_model;
#[path = "models/caps.rs"]
mod caps;
#[path = "models/caps_in_time.rs"]
mod caps_in_time;
#[path = "models/conversations.rs"]
mod conversations;
#[path = "models/dedup.rs"]
mod dedup;
mod support;

use support::{Options, Sidecar, Valkey, ValkeyOptions};

/// The first instant of every test, ms: a Friday.
pub const BEGIN: u64 = 1_800_000_000_000;

/// A sidecar and a clock that stands still.
pub struct World {
    pub valkey: Valkey,
    pub sidecar: Sidecar,
    pub now: u64,
    random: u64,
}

impl World {
    pub async fn begin() -> Self {
        // What is tested is decided in memory; fsync would only take time.
        let valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "no"));
        let sidecar = Sidecar::start(Options::with(&valkey)).await;
        let given: Option<u64> = std::env::var("PANNIER_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given
            .unwrap_or_else(|| std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos().into());
        println!("PANNIER_SEED={seed}");
        let mut world = Self { valkey, sidecar, now: 0, random: seed | 1 };
        world.set(BEGIN);
        world
    }

    pub fn set(&mut self, now: u64) {
        self.now = now;
        let _: String = self.valkey.command(&["SET", "pannier:test-clock", &format!("={now}")]);
    }

    pub fn advance(&mut self, ms: u64) {
        self.set(self.now + ms);
    }

    /// 0..below
    pub fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let at = self.random(from.len() as u64);
        from[usize::try_from(at).unwrap()].clone()
    }

    /// Every key but root keys and policies has its TTL.
    pub fn assert_ttls(&self) {
        for (key, ttl) in support::small::ttls(&self.valkey) {
            assert!(ttl > 0, "{} has no TTL", String::from_utf8_lossy(&key));
        }
    }
}

/// Operations of one model.
pub fn operations() -> u64 {
    if std::env::var_os("PANNIER_SOAK").is_some() { 40_000 } else { 4_000 }
}
