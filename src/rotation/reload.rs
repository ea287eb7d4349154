//! The keyring's file, read again at SIGHUP and when a key was met that only it can have. What it holds is taken only when it is a
//! keyring and the database proves its keys; else the old one stays in use, and one line says why.

use std::time::Duration;

use tokio::{
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use super::{Rotation, canaries::prove};

/// How long an answer of the database is waited for. Without one the file is taken: the next connection is not used before its
/// keys are proved.
const PROVE_WITHIN: Duration = Duration::from_secs(5);

/// Before a second look, where nobody has asked for it.
const AGAIN: Duration = Duration::from_secs(1);

impl Rotation {
    pub(super) async fn follow_the_file(&self) {
        let Ok(mut hangup) = signal(SignalKind::hangup()) else { return std::future::pending().await };
        let mut said = String::new();
        loop {
            let asked = tokio::select! {
                _ = hangup.recv() => true,
                () = self.keyring.wanted() => false,
            };
            // A database that sleeps is woken: what is taken is to be proved.
            let _in_use = self.link.in_use();
            let refusal = match self.keyring.read() {
                Ok(None) => {
                    if asked {
                        tracing::info!("the keyring was read again: nothing new");
                    }
                    continue;
                }
                Ok(Some(fresh)) => match prove(&self.link, &fresh, Instant::now() + PROVE_WITHIN).await {
                    Ok(Err(mismatch)) => mismatch.to_string(),
                    proved => {
                        let (primary, keys) = (fresh.primary_id(), fresh.ids().len());
                        let new_primary = self.keyring.take(fresh);
                        let proved = proved.is_ok();
                        tracing::info!(
                            new_primary,
                            primary,
                            keys,
                            proved,
                            "the keyring was read again: it has changed"
                        );
                        said.clear();
                        continue;
                    }
                },
                Err(error) => error.to_string(),
            };
            // Whoever sends a signal wants an answer; a key that many calls miss is worth one line in all.
            if asked || refusal != said {
                tracing::error!(error = refusal, "the keyring was not taken; the old one stays in use");
                said = refusal;
            }
            if !asked {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}
