//! Keeps the link alive: one attempt at a time, each a new generation, with a short jittered backoff, so that the link is
//! back within a second of Valkey. A connection is offered to calls only when the database behind it was checked.

use std::{sync::Arc, time::Duration};

use redis::PushInfo;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    StartError,
    embedded::{Child, ChildError},
    exchange::{Inner, Phase},
    keys::BUCKETS,
    lanes::{Generation, Pulse, ask},
    link::script_load,
    preflight::{self, Report},
    store_identity::{Refusal, Rule},
    target::Endpoint,
};

/// Between two signs of life.
const PROBE_EVERY: Duration = Duration::from_secs(2);
/// What a sign of life may take. With the interval it bounds how long a dead or half-open connection is trusted.
const PROBE_WITHIN: Duration = Duration::from_millis(2500);
/// The same on the bulk lane, where a large transfer may be in the way.
const PROBE_BULK_WITHIN: Duration = Duration::from_secs(15);
/// What the checks on a new connection may take.
pub(super) const BOOTSTRAP_WITHIN: Duration = Duration::from_secs(10);
/// Index buckets looked at with each sign of life; all are within a minute.
const BUCKETS_A_PROBE: u8 = 4;
/// Between two looks at the settings of a server that is in use.
const LOOK_EVERY: Duration = Duration::from_secs(15);
const BACKOFF_FIRST: Duration = Duration::from_millis(20);
const BACKOFF_CAP: Duration = Duration::from_millis(500);
/// A reason that stays is said again after this long.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Where the server comes from.
pub(super) enum Source {
    Url(Box<Endpoint>),
    Child(Box<Child>),
}

impl Source {
    /// Where to connect to, with the child running.
    async fn endpoint(&mut self) -> Result<Endpoint, ChildError> {
        match self {
            Self::Url(endpoint) => Ok((**endpoint).clone()),
            Self::Child(child) => child.ensure().await,
        }
    }

    /// Whether it cannot be expected to answer yet.
    fn is_starting(&self) -> bool {
        matches!(self, Self::Child(child) if child.is_starting())
    }
}

pub(super) struct Supervisor {
    pub inner: Arc<Inner>,
    pub source: Source,
    pub pushes: mpsc::UnboundedSender<PushInfo>,
    pub messages: mpsc::UnboundedReceiver<PushInfo>,
    pub shutdown: CancellationToken,
}

impl Supervisor {
    /// Runs until the shutdown, then stops the child.
    pub async fn run(self) {
        let Self { inner, mut source, pushes, mut messages, shutdown } = self;
        let deliver = async {
            while let Some(push) = messages.recv().await {
                inner.hub.deliver(push);
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = forever(&inner, &mut source, &pushes) => {}
            () = deliver => {}
        }
        inner.down("shutting down");
        if let Source::Child(child) = &mut source {
            child.stop().await;
        }
        inner.close();
    }
}

/// Why a connection was not taken.
enum Rejected {
    Retry(String),
    Human(String),
}

impl From<String> for Rejected {
    fn from(why: String) -> Self {
        Self::Retry(why)
    }
}

impl From<ChildError> for Rejected {
    fn from(error: ChildError) -> Self {
        match error {
            ChildError::Retry(why) => Self::Retry(why),
            ChildError::Human(why) => Self::Human(why),
        }
    }
}

async fn forever(inner: &Inner, source: &mut Source, pushes: &mpsc::UnboundedSender<PushInfo>) {
    let mut number = 0;
    let mut backoff = BACKOFF_FIRST;
    let mut said: Option<(String, Instant)> = None;
    loop {
        number += 1;
        let rejected = match attempt(inner, source, number, pushes).await {
            Ok((generation, endpoint)) => {
                backoff = BACKOFF_FIRST;
                said = None;
                serve(inner, &generation).await;
                let why = generation.why();
                tracing::warn!(valkey = %endpoint, %why, "lost Valkey; connecting again");
                inner.down(&why);
                continue;
            }
            Err(rejected) => rejected,
        };
        let why = match rejected {
            Rejected::Human(why) if !inner.has_started() => {
                tracing::error!("{why}");
                inner.fail_start(StartError::Config(why));
                // The process is about to exit; nothing is to be tried meanwhile.
                return std::future::pending().await;
            }
            Rejected::Human(why) | Rejected::Retry(why) => why,
        };
        if source.is_starting() {
            tracing::debug!(valkey = %inner.label, %why, "Valkey does not answer yet");
        } else if said.as_ref().is_none_or(|(before, at)| *before != why || at.elapsed() > SAY_AGAIN) {
            tracing::warn!(valkey = %inner.label, %why, "cannot use Valkey; trying again");
            said = Some((why.clone(), Instant::now()));
        }
        inner.down(&why);
        tokio::time::sleep(jittered(backoff)).await;
        backoff = (backoff * 2).min(BACKOFF_CAP);
    }
}

/// One try: connect, look at the server, load the scripts, make sure of the database.
async fn attempt(
    inner: &Inner,
    source: &mut Source,
    number: u64,
    pushes: &mpsc::UnboundedSender<PushInfo>,
) -> Result<(Arc<Generation>, Endpoint), Rejected> {
    let endpoint = source.endpoint().await?;
    let generation = Generation::connect(number, &endpoint, inner.config.connect_within, pushes).await?;
    let report = timeout(BOOTSTRAP_WITHIN, bootstrap(inner, source, &generation))
        .await
        .unwrap_or_else(|_| Err(Rejected::Retry("no answer while checking the server".into())))?;
    if generation.is_dead() {
        return Err(Rejected::Retry(generation.why()));
    }
    report.log();
    let facts = &report.facts;
    tracing::info!(
        valkey = %endpoint,
        generation = number,
        server = %format_args!("{} {}", facts.engine, facts.version),
        durability = ?facts.durability,
        "connected to Valkey"
    );
    inner.set_report(report);
    Ok((generation, endpoint))
}

async fn bootstrap(
    inner: &Inner,
    source: &mut Source,
    generation: &Arc<Generation>,
) -> Result<Report, Rejected> {
    let connection = generation.probe_lane();
    if let Source::Child(child) = source {
        child.correct_drift(&connection).await?;
    }
    let mut report = preflight::inspect(&connection, inner.config.allowances()).await?;
    if let Some(failure) = report.failures().next() {
        return Err(Rejected::Human(failure.to_string()));
    }
    for script in inner.scripts {
        ask(connection.clone(), &script_load(script))
            .await?
            .map_err(|error| Rejected::Retry(format!("loading script {}: {error}", script.name)))?;
    }
    let rule = match (inner.store_id(), &*source) {
        (Some(id), _) => Rule::Only(id.to_owned()),
        (None, Source::Url(_)) => Rule::External { init: inner.config.init },
        (None, Source::Child(child)) => {
            let file = child.store_id().map_err(Rejected::Human)?;
            Rule::Embedded { file, init: inner.config.init }
        }
    };
    let store = inner.store(&connection);
    let accepted = async {
        let id = store.accept(&rule).await?;
        store.check_keys(&inner.keyring.current(), true).await?;
        Ok(id)
    };
    match accepted.await {
        Ok(id) => {
            if let Source::Child(child) = source {
                child.remember(&id, &report.facts)?;
            }
            inner.hub.resume(connection.clone()).await?;
            report.facts.store_id.clone_from(&id);
            report.facts.connections = 3;
            inner.accept_store(id);
            // Whoever waits for Ready asks for the facts next.
            inner.set_report(report.clone());
            inner.set_phase(Phase::Ready(Arc::clone(generation)));
        }
        Err(Refusal::Unreachable(why)) => return Err(Rejected::Retry(why)),
        Err(Refusal::Human(why)) => return Err(Rejected::Human(why)),
        Err(Refusal::Changed(why)) => changed(inner, &why),
    }
    Ok(report)
}

/// Watches a connection until it is dead.
async fn serve(inner: &Inner, generation: &Arc<Generation>) {
    let probing = async {
        let mut ticks = interval(PROBE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut bucket = 0;
        let (mut refused, mut looked) = (None, Instant::now());
        loop {
            ticks.tick().await;
            if let Pulse::RefusesWrites(code) = generation.ping(PROBE_WITHIN).await
                && refused.is_none_or(|at: Instant| at.elapsed() > SAY_AGAIN)
            {
                tracing::error!(code, "Valkey refuses writes: look at its disk, its log and its replicas");
                refused = Some(Instant::now());
            }
            check_store(inner, generation, bucket).await;
            if looked.elapsed() > LOOK_EVERY {
                looked = Instant::now();
                look_again(inner, generation).await;
            }
            bucket = (bucket + BUCKETS_A_PROBE) % BUCKETS;
            inner.hub.sweep(generation.probe_lane()).await;
        }
    };
    let probing_bulk = async {
        loop {
            tokio::time::sleep(PROBE_EVERY).await;
            generation.ping_bulk(PROBE_BULK_WITHIN).await;
        }
    };
    tokio::select! {
        () = generation.dead() => {}
        () = probing => {}
        () = probing_bulk => {}
    }
}

/// What a server promises can be changed while it runs (CONFIG SET): replies must not go on to say what was true before.
async fn look_again(inner: &Inner, generation: &Arc<Generation>) {
    let connection = generation.probe_lane();
    let look = preflight::inspect(&connection, inner.config.allowances());
    let Ok(Ok(mut report)) = timeout(PROBE_WITHIN, look).await else { return };
    let before = inner.report();
    report.facts.store_id.clone_from(&before.facts.store_id);
    report.facts.connections = before.facts.connections;
    if report.facts.durability != before.facts.durability {
        tracing::warn!(
            before = ?before.facts.durability,
            now = ?report.facts.durability,
            "the durability of Valkey was changed while it runs; replies say the new one"
        );
    }
    for finding in report.failures().filter(|finding| !before.findings.contains(finding)) {
        tracing::error!(check = finding.check, "{finding}");
    }
    inner.set_report(report);
}

async fn check_store(inner: &Inner, generation: &Arc<Generation>, bucket: u8) {
    let Some(id) = inner.store_id() else { return };
    let connection = generation.probe_lane();
    // A database that was lost must be whole again before it counts as found.
    let (first, count) = if inner.is_store_changed() { (0, BUCKETS) } else { (bucket, BUCKETS_A_PROBE) };
    match timeout(PROBE_WITHIN, inner.store(&connection).check(id, first, count)).await {
        Ok(Ok(())) if inner.is_store_changed() => {
            tracing::warn!("the database is back");
            inner.set_phase(Phase::Ready(Arc::clone(generation)));
        }
        Ok(Err(Refusal::Changed(why) | Refusal::Human(why))) => changed(inner, &why),
        // The next sign of life tells.
        Ok(Ok(()) | Err(Refusal::Unreachable(_))) | Err(_) => {}
    }
}

fn changed(inner: &Inner, why: &str) {
    if !inner.is_store_changed() {
        tracing::error!(
            "{why}. Nothing is served until the database is back: restore it from a backup, or stop and start with --init"
        );
        inner.set_phase(Phase::StoreChanged);
    }
}

/// Between half of `backoff` and all of it, so that many sidecars do not come at once.
fn jittered(backoff: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX);
    backoff.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
}
