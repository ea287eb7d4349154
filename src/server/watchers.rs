//! Those who watch: what they need is there before anything is counted, and they are answered until the very end.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{Failure, admin_http::AdminHttp, health::Readiness, observed::Observed, steady::Steady};
use crate::{
    config::{Config, ConfigError},
    crypto::SharedKeyring,
    session::Sessions,
    telemetry::{Exporter, Traces},
    valkey::Link,
};

/// Open connections do not hold up the end.
const END_WITHIN: Duration = Duration::from_millis(300);

/// Bound, and not answering yet.
pub struct Watchers {
    admin: Option<(Exporter, AdminHttp)>,
    traces: Option<Traces>,
}

impl Watchers {
    /// To be called before anything is counted.
    ///
    /// # Errors
    /// The admin port cannot be had, or traces cannot be sent.
    pub async fn prepare(config: &Config) -> Result<Self, Failure> {
        let admin = match &config.observe.admin {
            Some(place) => {
                let exporter = Exporter::install().map_err(|message| Failure { code: 70, message })?;
                Some((exporter, AdminHttp::bind(place).await?))
            }
            None => None,
        };
        let start = |otlp: &crate::config::Otlp| Traces::start(&otlp.endpoint, otlp.ratio, &config.env);
        let traces = config.observe.otlp.as_ref().map(start).transpose();
        let traces = traces.map_err(|error| ConfigError(format!("--otlp-endpoint: {error}")))?;
        Ok(Self { admin, traces })
    }

    /// Whether anybody sees what is counted.
    pub fn count(&self) -> bool {
        self.admin.is_some()
    }

    /// Answers from now on. What goes on besides are tasks of `reloading`.
    pub fn serve(
        self,
        config: &Config,
        (link, keyring, sessions): (&Link, &SharedKeyring, &Arc<Sessions>),
        readiness: &Readiness,
        reloading: &mut JoinSet<()>,
    ) -> Watching {
        let stop = CancellationToken::new();
        let admin = self.admin.map(|(exporter, admin)| {
            let steady = Steady::default();
            reloading.spawn(steady.clone().follow(readiness.changes()));
            reloading.spawn(exporter.clone().upkeep());
            let tls = config.access.listen.as_ref().and_then(|listen| listen.tls.as_ref());
            let certificate = tls.map(|tls| tls.cert.clone());
            let observed =
                Observed::new(exporter, link, keyring.clone(), sessions, readiness, steady, certificate);
            tokio::spawn(admin.serve(Arc::new(observed), stop.clone()))
        });
        Watching { admin, traces: self.traces, stop }
    }
}

/// Answering.
pub struct Watching {
    admin: Option<JoinHandle<()>>,
    traces: Option<Traces>,
    stop: CancellationToken,
}

impl Watching {
    /// Ends within a moment.
    pub async fn end(self) {
        self.stop.cancel();
        if let Some(admin) = self.admin {
            let _ = timeout(END_WITHIN, admin).await;
        }
        if let Some(traces) = self.traces {
            traces.end().await;
        }
    }
}
