//! Health follows the link: it falls when Valkey is gone and comes back by itself. A link that sleeps is healthy: the next call wakes it.

use std::time::Instant;

use tokio::sync::watch;

use super::health::Readiness;
use crate::{telemetry, valkey::LinkState};

/// Follows the link for as long as it lives.
pub async fn follow(mut link: watch::Receiver<LinkState>, readiness: Readiness, started: Instant) {
    let mut was_ready = false;
    let mut connection = None;
    loop {
        let state = link.borrow_and_update().clone();
        readiness.set(matches!(state, LinkState::Ready { .. } | LinkState::Asleep));
        // A change that was too quick to be seen leaves its number.
        match (&state, connection) {
            (LinkState::Ready { generation }, Some(before)) if *generation != before => {
                telemetry::reconnected("");
            }
            (LinkState::Down { why } | LinkState::Unfit { why }, Some(_)) => telemetry::reconnected(why),
            _ => {}
        }
        connection = if let LinkState::Ready { generation } = state { Some(generation) } else { None };
        match state {
            LinkState::Ready { generation: _ } if !was_ready => {
                was_ready = true;
                tracing::info!(after_ms = %started.elapsed().as_millis(), "ready");
            }
            LinkState::Ready { generation } => tracing::info!(generation, "ready again"),
            LinkState::Starting { why } => tracing::info!(why, "not ready yet"),
            // Said where it happens.
            LinkState::Asleep => {}
            LinkState::Down { why } => tracing::warn!(why, "not ready: Valkey is away"),
            LinkState::Unfit { why } => tracing::error!(why, "not ready: Valkey must not be used as it is"),
            LinkState::StoreChanged => tracing::error!(
                "not ready: the database was emptied or replaced. Put the right one back, or take the new one into use by \
                 a restart with --init"
            ),
        }
        if link.changed().await.is_err() {
            readiness.set(false);
            return;
        }
    }
}
