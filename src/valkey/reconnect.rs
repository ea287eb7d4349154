//! Keeps the link alive: one attempt at a time, each a new generation, with a short jittered backoff, so that the link is
//! back within a second of Valkey.

use std::{sync::Arc, time::Duration};

use redis::PushInfo;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    lanes::{Generation, ask},
    link::{Inner, Phase, script_load},
    target::Endpoint,
};

/// A connection that is not there after this long is given up. (A hibernating database may take 1 to 5 s.)
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Between two signs of life.
const PROBE_EVERY: Duration = Duration::from_secs(2);
/// What a sign of life may take.
const PROBE_WITHIN: Duration = Duration::from_millis(2500);
/// What loading scripts and checks on a new connection may take.
const BOOTSTRAP_WITHIN: Duration = Duration::from_secs(5);
const BACKOFF_FIRST: Duration = Duration::from_millis(20);
const BACKOFF_CAP: Duration = Duration::from_millis(500);

pub(super) async fn supervise(
    inner: Arc<Inner>,
    endpoint: Endpoint,
    pushes: mpsc::UnboundedSender<PushInfo>,
    shutdown: CancellationToken,
) {
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = forever(&inner, &endpoint, &pushes) => {}
    }
    inner.close();
}

async fn forever(inner: &Inner, endpoint: &Endpoint, pushes: &mpsc::UnboundedSender<PushInfo>) {
    let mut number = 0;
    let mut started = false;
    let mut backoff = BACKOFF_FIRST;
    let mut said = String::new();
    loop {
        number += 1;
        match attempt(inner, endpoint, number, pushes).await {
            Ok(generation) => {
                tracing::info!(valkey = %endpoint, generation = number, "connected to Valkey");
                inner.set_phase(Phase::Ready(Arc::clone(&generation)));
                started = true;
                backoff = BACKOFF_FIRST;
                said.clear();
                watch(&generation).await;
                let why = generation.why();
                tracing::warn!(valkey = %endpoint, %why, "lost Valkey; connecting again");
                inner.set_phase(Phase::Down(why));
            }
            Err(why) => {
                if why != said {
                    tracing::warn!(valkey = %endpoint, %why, "cannot reach Valkey; trying again");
                    said.clone_from(&why);
                }
                inner.set_phase(if started { Phase::Down(why) } else { Phase::Starting(why) });
                tokio::time::sleep(jittered(backoff)).await;
                backoff = (backoff * 2).min(BACKOFF_CAP);
            }
        }
    }
}

async fn attempt(
    inner: &Inner,
    endpoint: &Endpoint,
    number: u64,
    pushes: &mpsc::UnboundedSender<PushInfo>,
) -> Result<Arc<Generation>, String> {
    let generation = Generation::connect(number, endpoint, CONNECT_WITHIN, pushes).await?;
    let bootstrap = async {
        for script in inner.scripts {
            ask(generation.probe_lane(), &script_load(script)).await?.map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    timeout(BOOTSTRAP_WITHIN, bootstrap)
        .await
        .unwrap_or_else(|_| Err("no answer while checking the server".to_owned()))?;
    Ok(generation)
}

/// Returns when the generation is dead.
async fn watch(generation: &Generation) {
    let mut ticks = tokio::time::interval(PROBE_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let probing = async {
        loop {
            ticks.tick().await;
            generation.ping(PROBE_WITHIN).await;
        }
    };
    tokio::select! {
        () = generation.dead() => {}
        () = probing => {}
    }
}

/// Between half of `backoff` and all of it, so that many sidecars do not come at once.
fn jittered(backoff: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX);
    backoff.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
}
