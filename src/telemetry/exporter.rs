//! Metrics as Prometheus reads them. Installed only when somebody is to read them.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::{MissedTickBehavior, interval};

use super::{call, catalog, counted, process};

/// From a quarter of a millisecond, which is a cached read, to the longest wait that a call is given.
const LATENCY: &[f64] =
    &[0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Of jobs, which may have waited for a worker for hours.
const LATENESS: &[f64] =
    &[0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86_400.0];
/// What was observed waits in memory until it is summed up: at 50 000 calls a second less than 1 MB.
const SUM_UP_EVERY: Duration = Duration::from_secs(1);

static RECORDING: AtomicBool = AtomicBool::new(false);

/// Whether anything that is counted is kept.
pub fn is_recording() -> bool {
    RECORDING.load(Ordering::Relaxed)
}

/// What is read at `/metrics`.
#[derive(Clone)]
pub struct Exporter(PrometheusHandle);

impl Exporter {
    /// From now on everything that is counted is kept. To be called before anything is: a counter that was used earlier counts
    /// for nobody.
    ///
    /// # Errors
    /// Somebody else in this process keeps metrics already.
    pub fn install() -> Result<Self, String> {
        let lateness = Matcher::Full(counted::LATENESS.to_owned());
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), LATENCY)
            .and_then(|builder| builder.set_buckets_for_metric(lateness, LATENESS))
            .map_err(|error| error.to_string())?
            .build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
        RECORDING.store(true, Ordering::Relaxed);
        catalog::describe();
        counted::register();
        call::register();
        process::register();
        Ok(Self(handle))
    }

    /// Everything, as text. It takes milliseconds: not for a thread that serves calls.
    pub fn render(&self) -> String {
        process::sample();
        self.0.render()
    }

    /// Keeps memory bounded between two readings, for as long as it is polled.
    pub async fn upkeep(self) {
        let mut clock = interval(SUM_UP_EVERY);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            clock.tick().await;
            self.0.run_upkeep();
        }
    }
}
