//! What a running sidecar finds of itself and of its Valkey: the last look of the link, and what it holds in memory.

use crate::{
    crypto::Keyring,
    doctor::Diagnosis,
    proto::v1::{
        DoctorResponse,
        doctor_response::{Finding, finding},
    },
    valkey::{Level, LinkState, Report},
};

use super::rpc::About;

/// Looks.
pub fn examine(about: &About) -> DoctorResponse {
    let mut diagnosis = Diagnosis::default();
    let mut sidecar = Report::default();
    let version = format!("{}, up for {} s", env!("CARGO_PKG_VERSION"), about.started.elapsed().as_secs());
    sidecar.add(Level::Ok, "version", version, "");
    match &*about.link.state().borrow() {
        LinkState::Ready { .. } => sidecar.add(Level::Ok, "ready", "calls are served", ""),
        LinkState::Asleep => {
            sidecar.add(Level::Ok, "ready", "nobody uses Valkey; the next call wakes it", "");
        }
        LinkState::Starting { why } => {
            sidecar.add(Level::Fail, "connection", format!("starting: {why}"), "pannier doctor");
        }
        LinkState::Down { why } => {
            sidecar.add(Level::Fail, "connection", format!("Valkey is away: {why}"), "pannier doctor");
        }
        LinkState::Unfit { why } => {
            let todo = "put that right; it goes on by itself then";
            sidecar.add(Level::Fail, "ready", why.as_str(), todo);
        }
        LinkState::StoreChanged => sidecar.add(
            Level::Fail,
            "ready",
            "the database was emptied or replaced",
            "restore it from a backup, or stop and start with --init",
        ),
    }
    if let Some(after) = about.link.idle_disconnect() {
        let found = format!(
            "after {} s without a call, an attached session or a worker the connections to Valkey are let go; until the next call no \
             delayed job becomes due and no cron fires",
            after.as_secs_f64()
        );
        sidecar.add(Level::Ok, "idle-disconnect", found, "");
    }
    sidecar.add(Level::Ok, "sessions", format!("{} held over streams", about.sessions.attached()), "");
    diagnosis.add("sidecar", sidecar);

    let mut keyring = Report::default();
    let current = about.rotation.keyring().current();
    keyring.add(
        Level::Ok,
        "keys",
        format!("{} in use, primary {}", current.ids().len(), current.primary_id()),
        "",
    );
    if let Some(path) = about.rotation.keyring().path() {
        match Keyring::load(path) {
            Ok(file) if file.ids() == current.ids() => {
                keyring.add(Level::Ok, "file", format!("{}, as it is in use", path.display()), "");
            }
            Ok(_) => {
                let found = format!("{} has changed and is not in use yet", path.display());
                keyring.add(Level::Warn, "file", found, "send the sidecar a SIGHUP");
            }
            Err(error) => {
                keyring.add(Level::Warn, "file", error.to_string(), "restore it: the next start needs it");
            }
        }
    }
    diagnosis.add("keyring", keyring);
    diagnosis.add("valkey", about.link.preflight().as_ref().clone());
    told(&diagnosis)
}

fn told(diagnosis: &Diagnosis) -> DoctorResponse {
    let findings = diagnosis.sections.iter().flat_map(|section| {
        section.findings.iter().map(|finding| Finding {
            section: section.name.to_owned(),
            check: finding.check.to_owned(),
            level: match finding.level {
                Level::Ok => finding::Level::Ok,
                Level::Unknown => finding::Level::Unknown,
                Level::Warn => finding::Level::Warn,
                Level::Fail => finding::Level::Fail,
            }
            .into(),
            found: finding.found.clone(),
            next: finding.todo.clone().unwrap_or_default(),
        })
    });
    DoctorResponse { findings: findings.collect() }
}
