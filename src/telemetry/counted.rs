//! What the capabilities and the link count. A function for each thing, so that names and labels stand in one place, and each with
//! handles of its own: a registry is asked once.

use std::{sync::LazyLock, time::Duration};

use metrics::{Histogram, gauge, histogram};
use tokio::time::Instant;

use super::{exporter::is_recording, family::Family, traces::lane_time};
use crate::{
    crypto::{OpenError, UnwrapError},
    error::Reason,
};

/// How late jobs are.
pub const LATENESS: &str = "pannier_job_lateness_seconds";

static ERRORS: Family<{ Reason::ALL.len() }> = Family::new("pannier_errors_total", "reason", reasons());
static DECRYPT: Family<3> =
    Family::new("pannier_decrypt_failures_total", "class", ["wrong_key", "corrupt", "newer_format"]);
static FENCED: Family<2> = Family::new("pannier_fenced_writes_total", "kind", ["session", "blob"]);
static COMMITS: Family<2> = Family::new("pannier_session_commits_total", "outcome", ["applied", "replayed"]);
static CLAIMS: Family<5> = Family::new(
    "pannier_claims_total",
    "outcome",
    ["new", "takeover", "in_progress", "duplicate", "mismatch"],
);
static CONSUMES: Family<5> = Family::new(
    "pannier_cap_consumes_total",
    "outcome",
    ["allowed", "denied", "never", "replayed", "mismatch"],
);
static LEASES: Family<4> = Family::new("pannier_job_leases_total", "attempt", ["1", "2", "3", "more"]);
static SETTLES: Family<4> =
    Family::new("pannier_job_settles_total", "verdict", ["done", "retry", "failed", "released"]);
static RECONNECTS: Family<{ WHY.len() }> =
    Family::new("pannier_valkey_reconnects_total", "reason", reconnect_reasons());
static LATE: LazyLock<Histogram> = LazyLock::new(|| histogram!(LATENESS));
static SMALL: LazyLock<Histogram> = LazyLock::new(|| exchange("small"));
static BULK: LazyLock<Histogram> = LazyLock::new(|| exchange("bulk"));
static REQUESTS: LazyLock<[Histogram; 4]> = LazyLock::new(|| {
    ["get", "list", "commit", "clear"]
        .map(|request| histogram!("pannier_session_request_duration_seconds", "request" => request))
});

fn exchange(lane: &'static str) -> Histogram {
    histogram!("pannier_valkey_duration_seconds", "lane" => lane)
}

const fn reasons() -> [&'static str; Reason::ALL.len()] {
    let mut names = [""; Reason::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Reason::ALL[at].wire().0;
        at += 1;
    }
    names
}

/// Makes all of them known, at zero.
pub fn register() {
    ERRORS.register();
    DECRYPT.register();
    FENCED.register();
    COMMITS.register();
    CLAIMS.register();
    CONSUMES.register();
    LEASES.register();
    SETTLES.register();
    RECONNECTS.register();
    LazyLock::force(&LATE);
    LazyLock::force(&SMALL);
    LazyLock::force(&BULK);
    LazyLock::force(&REQUESTS);
    for state in STATES {
        gauge!("pannier_jobs", "state" => state).set(0.0);
    }
}

/// A client was told of this error.
pub fn error(reason: Reason) {
    ERRORS.add(reason as usize, 1);
}

/// Why something could not be opened.
#[derive(Clone, Copy, Debug)]
pub enum DecryptFailure {
    /// The keyring lacks the key, or has another one under its id.
    WrongKey,
    /// It was altered, moved or cut short.
    Corrupt,
    /// A newer version wrote it.
    NewerFormat,
}

/// Something could not be opened.
pub fn decrypt_failed(class: DecryptFailure) {
    DECRYPT.add(class as usize, 1);
}

/// The same, by the error of the record.
pub fn could_not_open(error: &OpenError) {
    decrypt_failed(match error {
        OpenError::UnknownFormat => DecryptFailure::NewerFormat,
        OpenError::Malformed | OpenError::Corrupt => DecryptFailure::Corrupt,
    });
}

/// The same, by the error of the root key.
pub fn could_not_unwrap(error: &UnwrapError) {
    decrypt_failed(match error {
        UnwrapError::UnknownFormat => DecryptFailure::NewerFormat,
        UnwrapError::Corrupt | UnwrapError::Malformed => DecryptFailure::Corrupt,
        UnwrapError::UnknownKeyId(_) | UnwrapError::DisabledKeyId(_) | UnwrapError::Mismatch => {
            DecryptFailure::WrongKey
        }
    });
}

/// A write came from an owner that is not the owner any more: of a session, or else of a blob.
pub fn fenced(of_session: bool) {
    FENCED.add(usize::from(!of_session), 1);
}

/// A commit of a session was applied now, or had been before.
pub fn committed(replayed: bool) {
    COMMITS.add(usize::from(replayed), 1);
}

/// What a claim came to: its outcome as the protocol numbers it, from 1.
pub fn claim_decided(outcome: i32) {
    CLAIMS.add(place(outcome), 1);
}

/// What a send came to: its outcome as the protocol numbers it, from 1.
pub fn cap_consumed(outcome: i32) {
    CONSUMES.add(place(outcome), 1);
}

fn place(outcome: i32) -> usize {
    usize::try_from(outcome).ok().and_then(|number| number.checked_sub(1)).unwrap_or(usize::MAX)
}

/// A request on a session stream.
#[derive(Clone, Copy, Debug)]
pub enum SessionRequest {
    /// Reading records.
    Get,
    /// Walking over them.
    List,
    /// Writing.
    Commit,
    /// Emptying the session.
    Clear,
}

/// A request on a session stream was answered.
pub fn session_answered(request: SessionRequest, arrived: Instant) {
    if is_recording() {
        REQUESTS[request as usize].record(arrived.elapsed());
    }
}

/// Times one write to Valkey, until it is dropped.
pub struct Exchanged {
    bulk: bool,
    began: std::time::Instant,
}

impl Exchanged {
    /// Begins now.
    pub fn begin(bulk: bool) -> Self {
        Self { bulk, began: std::time::Instant::now() }
    }
}

impl Drop for Exchanged {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        lane_time(took);
        if is_recording() {
            if self.bulk { &BULK } else { &SMALL }.record(took);
        }
    }
}

/// Times what a call waits for a write that others share, until it is dropped.
pub struct Waited(std::time::Instant);

impl Waited {
    /// Begins now.
    pub fn begin() -> Self {
        Self(std::time::Instant::now())
    }
}

impl Drop for Waited {
    fn drop(&mut self) {
        lane_time(self.0.elapsed());
    }
}

/// What the link says when a connection is lost, and the reason that is counted. The first that fits.
const WHY: [(&str, &str); 9] = [
    ("no answer to PING", "silent"),
    ("was closed", "closed"),
    ("READONLY", "readonly"),
    ("MASTERDOWN", "masterdown"),
    ("LOADING", "loading"),
    ("role is", "not_primary"),
    ("refused (WRONGPASS)", "password"),
    ("os error", "io"),
    ("", "other"),
];

const fn reconnect_reasons() -> [&'static str; WHY.len()] {
    let mut names = [""; WHY.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = WHY[at].1;
        at += 1;
    }
    names
}

/// A connection to Valkey was lost for this reason.
pub fn reconnected(why: &str) {
    let at = WHY.iter().position(|(part, _)| why.contains(part));
    RECONNECTS.add(at.unwrap_or(WHY.len() - 1), 1);
}

/// Jobs went to a worker; each was due so many ms ago, and this is its so-many-th attempt.
pub fn jobs_leased(jobs: impl Iterator<Item = (u64, u16)>) {
    if is_recording() {
        for (late_ms, attempt) in jobs {
            LATE.record(Duration::from_millis(late_ms));
            LEASES.add(usize::from(attempt.clamp(1, 4)) - 1, 1);
        }
    }
}

/// A worker settled a job: `A` done, `R` to be tried again, `F` failed, `L` given back.
pub fn settled(verdict: u8) {
    if let Some(at) = b"ARFL".iter().position(|one| *one == verdict) {
        SETTLES.add(at, 1);
    }
}

const STATES: [&str; 5] = ["delayed", "ready", "grouped", "leased", "dead"];

/// Jobs of all queues together: delayed, ready, behind others of their group, leased, dead.
pub type Depth = [u64; 5];

/// Queues were counted.
#[allow(clippy::cast_precision_loss)] // jobs fit in memory
pub fn queue_depth(queues: usize, jobs: Depth) {
    gauge!("pannier_queues").set(queues as f64);
    for (state, count) in STATES.into_iter().zip(jobs) {
        gauge!("pannier_jobs", "state" => state).set(count as f64);
    }
}

/// Owners were counted, by the key that wraps their root keys. For whoever walks over them: nobody does so to be seen.
#[allow(clippy::cast_precision_loss)] // owners fit in memory
pub fn owners_per_key(owners: &[(u32, u64)]) {
    for (key, count) in owners {
        gauge!("pannier_owners", "key_id" => key.to_string()).set(*count as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_counts_under_its_own_name() {
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at, "{reason:?} is out of order");
            assert_eq!(reasons()[at], reason.wire().0);
        }
    }

    #[test]
    fn what_the_link_says_has_a_reason_of_its_own() {
        let reason = |why: &str| WHY.iter().find(|(part, _)| why.contains(part)).unwrap().1;
        assert_eq!(reason("the connection was closed"), "closed");
        assert_eq!(reason("no answer to PING within 2500 ms"), "silent");
        assert_eq!(reason("Valkey answered READONLY"), "readonly");
        assert_eq!(reason("the server's role is slave, not primary"), "not_primary");
        assert_eq!(reason("Connection refused (os error 111)"), "io");
        assert_eq!(reason("something new"), "other");
    }
}
