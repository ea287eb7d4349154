//! Rotating the keys that root keys are wrapped under: who runs with which keys, which owner is wrapped under which, and
//! wrapping anew. What is sealed under a root key is never touched, so calls go on meanwhile.
//!
//! A key is safe to take away once no live sidecar wraps under it and no root key is wrapped under it; both are asked of the
//! database, never assumed.

mod canaries;
mod census;
mod registry;
mod reload;
mod rewrap;
mod scripts;
mod walk;

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::{
    canaries::{note_disabled, note_used_again, prove},
    census::{Census, Wrapped, census},
    registry::{ALIVE, Sidecar, alive, registry_key, sidecars},
    rewrap::{Failure, Progress, RATE_DEFAULT, RATE_MAX},
    scripts::ALL as SCRIPTS,
};
use crate::{
    crypto::SharedKeyring,
    error::Result,
    valkey::{Link, LinkState},
};

/// Between two counts in the background; a rewrap and a look at the status count as well.
const COUNT_EVERY: Duration = Duration::from_secs(15 * 60);
/// The same after one that failed.
const COUNT_AGAIN: Duration = Duration::from_secs(5);
/// What a count in the background may take.
const COUNT_WITHIN: Duration = Duration::from_secs(120);

/// The rotation, as one sidecar takes part in it.
pub struct Rotation {
    link: Link,
    keyring: SharedKeyring,
    /// Another one with each start.
    id: String,
    started_ms: u64,
    stopping: CancellationToken,
}

impl Rotation {
    /// Takes part from now on, until `stopping`: says that this sidecar is there, follows the keyring's file (SIGHUP, and
    /// keys that only it has), and where `counting`, for the metrics, counts now and then.
    pub fn start(
        link: Link,
        keyring: SharedKeyring,
        counting: bool,
        stopping: CancellationToken,
    ) -> Arc<Self> {
        let mut id = [0; 16];
        // Without randomness nothing else works either.
        let _ = getrandom::fill(&mut id);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let rotation = Arc::new(Self {
            link,
            keyring,
            id: format!("{:032x}", u128::from_be_bytes(id)),
            started_ms: u64::try_from(now.as_millis()).unwrap_or(0),
            stopping,
        });
        let tasks = Arc::clone(&rotation);
        tokio::spawn(async move {
            let stopping = tasks.stopping.clone();
            tokio::select! {
                () = stopping.cancelled() => {}
                () = tasks.stay_registered() => {}
                () = tasks.follow_the_file() => {}
                () = tasks.count_now_and_then(), if counting => {}
            }
        });
        rotation
    }

    /// The keyring in use.
    pub fn keyring(&self) -> &SharedKeyring {
        &self.keyring
    }

    /// Counts, see [`census()`].
    ///
    /// # Errors
    /// When Valkey does not answer inside the deadline.
    pub async fn count(&self, deadline: Instant) -> Result<Census> {
        let counted = census(&self.link, deadline).await?;
        let owners: Vec<(u32, u64)> =
            counted.by_key.iter().map(|(id, wrapped)| (*id, wrapped.all())).collect();
        crate::telemetry::owners_per_key(&owners);
        Ok(counted)
    }

    async fn count_now_and_then(&self) {
        let mut state = self.link.state();
        loop {
            // A database that sleeps is not woken for it.
            let _ = state.wait_for(|state| matches!(state, LinkState::Ready { .. })).await;
            let pause = match self.count(Instant::now() + COUNT_WITHIN).await {
                Ok(_) => COUNT_EVERY,
                Err(error) => {
                    tracing::debug!(%error, "what each key wraps could not be counted");
                    COUNT_AGAIN
                }
            };
            tokio::time::sleep(pause).await;
        }
    }
}
