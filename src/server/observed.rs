//! What the admin port tells of the sidecar as a whole: numbers that are read off when somebody asks, and whether it is ready.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use metrics::gauge;
use tokio::sync::watch;

use super::{health::Readiness, steady::Steady, tls};
use crate::{
    crypto::SharedKeyring,
    session::Sessions,
    telemetry::Exporter,
    valkey::{Level, Link, LinkState},
};

/// What there is to look at.
pub struct Observed {
    exporter: Exporter,
    link: Link,
    state: watch::Receiver<LinkState>,
    keyring: SharedKeyring,
    sessions: Arc<Sessions>,
    readiness: Readiness,
    steady: Steady,
    /// Of the TCP port.
    certificate: Option<PathBuf>,
    /// What was looked at so far, and what was found.
    checks: Mutex<BTreeMap<&'static str, Level>>,
}

impl Observed {
    pub fn new(
        exporter: Exporter,
        link: &Link,
        keyring: SharedKeyring,
        sessions: &Arc<Sessions>,
        readiness: &Readiness,
        steady: Steady,
        certificate: Option<PathBuf>,
    ) -> Self {
        let (link, state, sessions) = (link.clone(), link.state(), Arc::clone(sessions));
        let (readiness, checks) = (readiness.clone(), Mutex::default());
        Self { exporter, link, state, keyring, sessions, readiness, steady, certificate, checks }
    }

    /// Whether the sidecar is ready, and why it is not.
    pub fn readiness(&self) -> (bool, String) {
        if self.readiness.is_stopping() {
            return (false, "not ready: stopping".to_owned());
        }
        if self.steady.is_ready() {
            return (true, "ready".to_owned());
        }
        let why = match &*self.state.borrow() {
            LinkState::Ready { .. } | LinkState::Asleep => {
                "Valkey was away and is back since a moment".to_owned()
            }
            LinkState::Starting { why } => format!("starting: {why}"),
            LinkState::Down { why } => format!("Valkey is away: {why}"),
            LinkState::Unfit { why } => why.clone(),
            LinkState::StoreChanged => {
                "the database was emptied or replaced: restore it, or stop and start with --init".to_owned()
            }
        };
        (false, format!("not ready: {why}"))
    }

    /// All metrics.
    pub fn metrics(&self) -> String {
        let truth = |yes: bool| if yes { 1.0 } else { 0.0 };
        gauge!("pannier_ready").set(truth(self.readiness().0));
        let asleep = *self.state.borrow() == LinkState::Asleep;
        gauge!("pannier_valkey_up").set(truth(asleep || self.link.is_ready()));
        gauge!("pannier_valkey_asleep").set(truth(asleep));
        gauge!("pannier_leases_held").set(self.sessions.attached());
        gauge!("pannier_primary_key_id").set(self.keyring.current().primary_id());
        if let Some(Ok(ends)) = self.certificate.as_deref().map(tls::expiry) {
            gauge!("pannier_certificate_ends_seconds").set(ends.as_duration().as_secs_f64());
        }
        self.note_findings();
        self.exporter.render()
    }

    /// A check that finds nothing to say any more is as it should be.
    fn note_findings(&self) {
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        checks.values_mut().for_each(|level| *level = Level::Ok);
        for finding in &self.link.preflight().findings {
            let level = checks.entry(finding.check).or_insert(Level::Ok);
            *level = (*level).max(finding.level);
        }
        for (check, level) in checks.iter() {
            let level = match level {
                Level::Ok => 0.0,
                Level::Unknown => 1.0,
                Level::Warn => 2.0,
                Level::Fail => 3.0,
            };
            gauge!("pannier_preflight_level", "check" => *check).set(level);
        }
    }
}
