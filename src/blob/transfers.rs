//! Saves and fetches in progress: so many at once, and told when the sidecar stops.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Reason, Result};

/// Each holds up to 8 MiB.
const MOST: usize = 64;
/// What a transfer gets to end by itself when the sidecar stops.
const GRACE: Duration = Duration::from_secs(5);

/// All transfers of a sidecar.
#[derive(Default)]
pub struct Transfers {
    running: Arc<AtomicUsize>,
    cut: CancellationToken,
}

/// One of them, for as long as it is held.
pub struct Transfer {
    running: Arc<AtomicUsize>,
    cut: CancellationToken,
}

impl Transfers {
    /// Begins one, if there is room.
    pub fn begin(&self) -> Result<Transfer> {
        if self.cut.is_cancelled() {
            return Err(draining());
        }
        let before = self.running.fetch_add(1, Ordering::Relaxed);
        let transfer = Transfer { running: Arc::clone(&self.running), cut: self.cut.clone() };
        if before >= MOST {
            return Err(Error::new(
                Reason::TooManyInFlight,
                format!("{MOST} blobs are being saved or fetched: wait for some to end"),
            )
            .retry_after(Duration::from_secs(1)));
        }
        Ok(transfer)
    }

    /// See [`super::Blobs::drain`].
    pub async fn drain(&self) {
        let until = Instant::now() + GRACE;
        while self.running.load(Ordering::Relaxed) > 0 {
            if Instant::now() >= until {
                self.cut.cancel();
            }
            sleep(Duration::from_millis(10)).await;
        }
        self.cut.cancel();
    }
}

impl Transfer {
    /// `work`, unless the sidecar stops before it is done.
    pub async fn unless_cut<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.cut.cancelled() => Err(draining()),
            done = work => done,
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }
}

fn draining() -> Error {
    Error::new(Reason::Draining, "the sidecar is stopping: try again with the next one")
        .retry_after(Duration::from_secs(1))
}
