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
    exchange::Inner,
    keys::BUCKETS,
    lanes::{Generation, Pulse, ask_all},
    preflight,
    report::Report,
    script,
    shard::{Phase, Shard},
    source::{Rejected, Source},
    store_identity::{Refusal, Rule, Store},
    target::Endpoint,
    topology::Shards,
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

/// Keeps one server, or the primary that Sentinels name.
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
        let shard = inner.new_shard(inner.label.clone());
        inner.set_shards(Shards::single(Arc::clone(&shard)));
        let deliver = async {
            while let Some(push) = messages.recv().await {
                inner.hub.deliver(push);
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = keep(&inner, &shard, &mut source, &pushes) => {}
            () = deliver => {}
        }
        inner.down(&shard, "shutting down");
        if let Source::Child(child) = &mut source {
            child.stop().await;
        }
        inner.close();
    }
}

/// What was said last of what is wrong: the same is said again only after a while.
#[derive(Default)]
pub(super) struct Said(Option<(String, Instant)>);

impl Said {
    /// Whether `why` is to be said now; then it counts as said.
    pub fn is_news(&mut self, why: &str) -> bool {
        let is_news = self.0.as_ref().is_none_or(|(before, at)| before != why || at.elapsed() > SAY_AGAIN);
        if is_news {
            self.0 = Some((why.to_owned(), Instant::now()));
        }
        is_news
    }
}

/// Keeps one shard connected, until it is retired.
pub(super) async fn keep(
    inner: &Inner,
    shard: &Shard,
    source: &mut Source,
    pushes: &mpsc::UnboundedSender<PushInfo>,
) {
    tokio::select! {
        () = shard.retired.cancelled() => {}
        () = forever(inner, shard, source, pushes) => {}
    }
}

async fn forever(
    inner: &Inner,
    shard: &Shard,
    source: &mut Source,
    pushes: &mpsc::UnboundedSender<PushInfo>,
) {
    let mut backoff = BACKOFF_FIRST;
    let mut said = Said::default();
    loop {
        let rejected = match attempt(inner, shard, source, pushes).await {
            Ok((generation, endpoint)) => {
                backoff = BACKOFF_FIRST;
                said = Said::default();
                source.worked();
                tokio::select! {
                    () = serve(inner, shard, &generation) => {}
                    why = source.moved(&endpoint) => generation.fail(why),
                    () = disused(inner, shard, &generation) => {
                        tracing::info!(valkey = %endpoint, "nobody uses Valkey: disconnected until the next call");
                        generation.fail("nobody used it (--idle-disconnect)");
                        drop(generation);
                        inner.idle.wanted().await;
                        continue;
                    }
                }
                let why = generation.why();
                if !shard.retired.is_cancelled() {
                    tracing::warn!(valkey = %endpoint, %why, "lost Valkey; connecting again");
                }
                inner.down(shard, &why);
                continue;
            }
            Err(rejected) => rejected,
        };
        let (why, phase) = match rejected {
            Rejected::Human(why) if !inner.has_started() => {
                tracing::error!("{why}");
                inner.fail_start(StartError::Config(why));
                // The process is about to exit; nothing is to be tried meanwhile.
                return std::future::pending().await;
            }
            Rejected::Human(why) => (why.clone(), Phase::Unfit(why)),
            Rejected::Retry(why) => (why.clone(), Phase::Down(why)),
        };
        if source.is_starting() {
            tracing::debug!(valkey = %shard.label, %why, "Valkey does not answer yet");
        } else if said.is_news(&why) {
            tracing::warn!(valkey = %shard.label, %why, "cannot use Valkey; trying again");
        }
        inner.unusable(shard, phase);
        tokio::time::sleep(jittered(backoff)).await;
        backoff = (backoff * 2).min(BACKOFF_CAP);
    }
}

/// One try: connect, look at the server, load the scripts, make sure of the database.
async fn attempt(
    inner: &Inner,
    shard: &Shard,
    source: &mut Source,
    pushes: &mpsc::UnboundedSender<PushInfo>,
) -> Result<(Arc<Generation>, Endpoint), Rejected> {
    let endpoint = source.endpoint().await?;
    let config = &inner.config;
    let number = inner.next_generation();
    let generation =
        Generation::connect(number, &endpoint, config.connect_within, config.connections, pushes).await?;
    let given_up = generation.unless_kept();
    let report = timeout(BOOTSTRAP_WITHIN, bootstrap(inner, shard, source, &generation))
        .await
        .unwrap_or_else(|_| Err(Rejected::Retry("no answer while checking the server".into())))?;
    if generation.is_dead() {
        return Err(Rejected::Retry(generation.why()));
    }
    given_up.disarm();
    report.log();
    let facts = &report.facts;
    tracing::info!(
        valkey = %endpoint,
        generation = number,
        server = %format_args!("{} {}", facts.engine, facts.version),
        durability = ?facts.durability,
        "connected to Valkey"
    );
    Ok((generation, endpoint))
}

async fn bootstrap(
    inner: &Inner,
    shard: &Shard,
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
    let in_cluster = matches!(source, Source::Node { .. });
    match (report.facts.topology.as_str(), in_cluster) {
        ("cluster", false) => {
            return Err(Rejected::Human(format!(
                "{} is a node of a cluster: start with --cluster",
                shard.label
            )));
        }
        ("standalone", true) => {
            return Err(Rejected::Human(format!(
                "{} is no node of a cluster: start without --cluster",
                shard.label
            )));
        }
        _ => {}
    }
    // All at once: one after the other they would take longer than a Valkey that is far away is given.
    let loaded = ask_all(connection.clone(), &script::load(inner.scripts)).await?;
    for (script, loaded) in inner.scripts.iter().zip(loaded) {
        loaded.map_err(|error| Rejected::Retry(format!("loading script {}: {error}", script.name)))?;
    }
    report.facts.connections = inner.config.connections.to_one_node();
    report.facts.store_id = inner.store_id().unwrap_or_default().to_owned();
    let store = Store::at(inner, shard, &connection);
    let rule = match (inner.store_id(), &*source) {
        // A part of a cluster: its database is accepted as a whole, by the cluster's keeper.
        (None, Source::Node { .. }) => {
            inner.set_report(shard, report.clone());
            inner.connected(shard, generation);
            return Ok(report);
        }
        (Some(id), Source::Node { .. }) => {
            match store.check(id, 0, BUCKETS).await {
                Ok(()) => inner.set_report(shard, report.clone()),
                Err(Refusal::Unreachable(why)) => return Err(Rejected::Retry(why)),
                Err(Refusal::Human(why) | Refusal::Changed(why)) => changed(inner, &why),
            }
            if inner.home().is_some_and(|home| home.id == shard.id) {
                inner.hub.resume(generation).await?;
            }
            inner.connected(shard, generation);
            return Ok(report);
        }
        (Some(id), _) => Rule::Only(id.to_owned()),
        (None, Source::Child(child)) => {
            let file = child.store_id().map_err(Rejected::Human)?;
            Rule::Embedded { file, init: inner.config.init }
        }
        (None, _) => Rule::External { init: inner.config.init },
    };
    let accepted = async {
        if !inner.has_started()
            && let Some(why) = inner.config.lacks_durability(report.facts.durability)
        {
            return Err(Refusal::Human(why));
        }
        let id = store.accept(&rule).await?;
        store.accept_keys(&inner.keyring).await?;
        Ok(id)
    };
    match accepted.await {
        Ok(id) => {
            if let Source::Child(child) = source {
                child.remember(&id, &report.facts)?;
            }
            inner.hub.resume(generation).await?;
            report.facts.store_id.clone_from(&id);
            // Whoever waits for Ready asks for the facts next.
            inner.set_report(shard, report.clone());
            shard.set_connected(generation);
            inner.accept_store(id);
        }
        Err(Refusal::Unreachable(why)) => return Err(Rejected::Retry(why)),
        Err(Refusal::Human(why)) => return Err(Rejected::Human(why)),
        Err(Refusal::Changed(why)) => {
            // When the database is back, it is over these connections.
            inner.hub.resume(generation).await?;
            changed(inner, &why);
        }
    }
    Ok(report)
}

/// Ends once nobody has used the link for long; from then on calls wait for the next connection.
async fn disused(inner: &Inner, shard: &Shard, generation: &Arc<Generation>) {
    loop {
        inner.idle.expired().await;
        if inner.fall_asleep(shard, generation) {
            return;
        }
    }
}

/// Watches a connection until it is dead.
async fn serve(inner: &Inner, shard: &Shard, generation: &Arc<Generation>) {
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
            check_store(inner, shard, generation, bucket).await;
            if looked.elapsed() > LOOK_EVERY {
                looked = Instant::now();
                look_again(inner, shard, generation).await;
            }
            bucket = (bucket + BUCKETS_A_PROBE) % BUCKETS;
            if inner.home().is_some_and(|home| home.id == shard.id) {
                inner.hub.sweep(generation.probe_lane()).await;
            }
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
async fn look_again(inner: &Inner, shard: &Shard, generation: &Arc<Generation>) {
    let connection = generation.probe_lane();
    let look = preflight::inspect(&connection, inner.config.allowances());
    let Ok(Ok(mut report)) = timeout(PROBE_WITHIN, look).await else { return };
    let before = shard.report();
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
    inner.set_report(shard, report);
}

async fn check_store(inner: &Inner, shard: &Shard, generation: &Arc<Generation>, bucket: u8) {
    let Some(id) = inner.store_id() else { return };
    let connection = generation.probe_lane();
    let is_part = inner.is_cluster();
    // A database that was lost must be whole again before it counts as found; of a cluster its keeper looks at all.
    let was_changed = inner.is_store_changed();
    let (first, count) = match was_changed {
        true if is_part => return,
        true => (0, BUCKETS),
        false => (bucket, BUCKETS_A_PROBE),
    };
    match timeout(PROBE_WITHIN, Store::at(inner, shard, &connection).check(id, first, count)).await {
        // One that began before it was lost proves nothing.
        Ok(Ok(())) if was_changed => {
            tracing::warn!("the database is back");
            shard.set_connected(generation);
            inner.accept_again();
        }
        Ok(Err(Refusal::Changed(why) | Refusal::Human(why))) => changed(inner, &why),
        // The next sign of life tells.
        Ok(Ok(()) | Err(Refusal::Unreachable(_))) | Err(_) => {}
    }
}

pub(super) fn changed(inner: &Inner, why: &str) {
    if !inner.is_store_changed() {
        tracing::error!(
            "{why}. Nothing is served until the database is back: restore it from a backup, or stop and start with --init"
        );
        inner.store_changed();
    }
}

/// Between half of `backoff` and all of it, so that many sidecars do not come at once.
fn jittered(backoff: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX);
    backoff.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
}
