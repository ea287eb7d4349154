//! The link: what the capabilities hold of Valkey. A call waits for a usable connection inside its deadline.
//!
//! **Order.** Calls of one lane are written in the order in which their futures are first polled, also across a wait for a
//! reconnection: each takes its turn at the lane's gate (first come, first served), and hands it on only when its bytes
//! are queued. So a task that submits pipelines one after the other has them executed in that order while the connection
//! lives; what a break leaves unanswered is the caller's to send again.

use std::{fmt::Display, sync::Arc, time::Duration};

use bytes::Bytes;
use redis::Value;
use tokio::{
    sync::{broadcast, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::crypto::{Keyring, OwnerTag, SharedKeyring, check_canary};

use super::{
    LinkConfig, LinkState, StartError, Target,
    canaries::canary_field,
    cluster::Cluster,
    error::{LinkError, ServerError},
    exchange::Inner,
    idle::{InUse, Users},
    keys,
    lanes::one,
    op::{self, Lane, Op},
    reconnect::Supervisor,
    report::{DurabilityLevel, Report, ServerFacts},
    scan::Scan,
    script::Script,
    sentinel::Sentinels,
    source::Source,
    target::{Endpoint, Topology},
};

/// How soon a call is tried again that the server was not ready for.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// What the answer to a WAIT may take when its time is over.
const ANSWER_AFTER: Duration = Duration::from_millis(500);

/// A handle on Valkey; clones share everything.
#[derive(Clone)]
pub struct Link {
    inner: Arc<Inner>,
}

impl Link {
    /// Starts connecting in the background and returns at once. `kinds` are the kinds of owners that are indexed.
    ///
    /// # Errors
    /// What is wrong with the configuration itself. What turns out later, until the first preflight has passed, is
    /// given by [`Link::start_error`].
    pub fn start(
        config: LinkConfig,
        keyring: SharedKeyring,
        scripts: &'static [&'static Script],
        kinds: &[&str],
        shutdown: CancellationToken,
    ) -> Result<Self, StartError> {
        if !keys::valid_env(&config.env) {
            return Err(StartError::Config("env must match [a-z0-9-]{1,32}".into()));
        }
        let (pushes, messages) = mpsc::unbounded_channel();
        let (source, label) = match &config.target {
            Target::Embedded(embedded) => {
                (Source::Child(Box::new(embedded.child())), "the embedded server".to_owned())
            }
            Target::Url(url) => {
                let seeds = Endpoint::parse_all(url)?;
                let label = seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
                match &url.topology {
                    Topology::Standalone => (Source::Url(Box::new(Endpoint::parse(url)?)), label),
                    Topology::Sentinel { primary, password } => {
                        refuse_unix(&seeds, "--sentinel")?;
                        let sentinels = Sentinels::new(primary.clone(), &seeds, password.as_ref())?;
                        (Source::Sentinels(Box::new(sentinels)), format!("{primary} of Sentinel {label}"))
                    }
                    Topology::Cluster => {
                        refuse_unix(&seeds, "--cluster")?;
                        if seeds.iter().any(|seed| seed.database() != 0) {
                            return Err(StartError::Config("a cluster has only database 0".into()));
                        }
                        let inner = Inner::new(config, keyring, scripts, kinds, label).start();
                        let cluster =
                            Cluster { inner: Arc::clone(&inner), seeds, pushes, messages, shutdown };
                        tokio::spawn(cluster.run());
                        return Ok(Self { inner });
                    }
                }
            }
        };
        let inner = Inner::new(config, keyring, scripts, kinds, label).start();
        let supervisor = Supervisor { inner: Arc::clone(&inner), source, pushes, messages, shutdown };
        tokio::spawn(supervisor.run());
        Ok(Self { inner })
    }

    /// What happens to the link, for health.
    pub fn state(&self) -> watch::Receiver<LinkState> {
        self.inner.state()
    }

    /// Where those say so that use the link.
    pub fn users(&self) -> Users {
        Users::of(&self.inner.idle)
    }

    /// One user more; see [`Users::enter`].
    pub fn in_use(&self) -> Option<InUse> {
        self.users().enter()
    }

    /// After how long without a user the connections are let go.
    pub fn idle_disconnect(&self) -> Option<Duration> {
        self.inner.config.idle_disconnect
    }

    /// Whether a call would be sent at once.
    pub fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }

    /// The same for a key.
    pub(super) fn shard_of_key(&self, key: &[u8]) -> Option<u64> {
        self.inner.ready_shard(Some(key))
    }

    /// Whether the node of this key had replicas when that was last looked at.
    pub fn has_replicas(&self, key: &[u8]) -> bool {
        self.inner.shards().of_key(key).is_some_and(|shard| shard.report().facts.replicas > 0)
    }

    /// Whether this shard is still one.
    pub(super) fn has_shard(&self, id: u64) -> bool {
        self.inner.has_shard(id)
    }

    /// The shard that a call goes to, as a number, if it would be sent at once.
    pub(super) fn shard_of(&self, op: &Op<'_>) -> Option<u64> {
        self.inner.ready_shard(op.key())
    }

    /// Waits until the start fails for a reason that only a human can mend: the process must exit with its code.
    pub async fn start_error(&self) -> StartError {
        let mut failed = self.inner.failed();
        loop {
            if let Some(error) = failed.borrow_and_update().clone() {
                return error;
            }
            if failed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until, after the shutdown was asked for, nothing of the link runs any more.
    pub async fn closed(&self) {
        self.inner.closed().await;
    }

    /// The environment.
    pub fn env(&self) -> &str {
        self.inner.names.env()
    }

    /// `pannier:<env>:`, which all keys begin with.
    pub fn prefix(&self) -> &str {
        self.inner.names.prefix()
    }

    /// `pannier:<env>:meta`: what the database says of itself.
    pub fn meta_key(&self) -> String {
        self.inner.names.meta()
    }

    /// `pannier:<env>:{<tag>}:<suffix>`
    pub fn owner_key(&self, tag: &impl Display, suffix: &str) -> Vec<u8> {
        self.inner.names.owner(tag, suffix)
    }

    /// `pannier:<env>:idx:<kind>:{<bucket>}`
    pub fn index_key(&self, kind: &str, bucket: u8) -> Vec<u8> {
        self.inner.names.index(kind, bucket)
    }

    /// Sends `ops` in one write and gives their replies in order; an error of the server is that op's own.
    ///
    /// Waits for a usable connection before it sends, and never sends twice. For the order among calls see the module.
    ///
    /// # Errors
    /// `outcome_unknown` is set when something was sent that may have written.
    pub async fn pipeline(
        &self,
        lane: Lane,
        ops: &[Op<'_>],
        deadline: Instant,
    ) -> Result<Vec<Result<Value, ServerError>>, LinkError> {
        if ops.is_empty() {
            return Ok(Vec::new());
        }
        self.inner.send(lane, ops, deadline).await
    }

    /// Sends `ops`, which must only read, in one write, and gives what they read. They are sent again, inside the deadline,
    /// when the connection breaks or the server is not ready.
    pub async fn read(&self, lane: Lane, ops: &[Op<'_>], deadline: Instant) -> Result<Vec<Value>, LinkError> {
        loop {
            let error = match self.pipeline(lane, ops, deadline).await {
                Ok(replies) => match replies.into_iter().collect::<Result<_, _>>() {
                    Ok(values) => return Ok(values),
                    Err(error) if error.needs_reconnect() => continue,
                    Err(error @ (ServerError::TryAgain | ServerError::Busy)) => LinkError::Server(error),
                    Err(error) => return Err(error.into()),
                },
                Err(LinkError::Unreachable { .. })
                    if Instant::now() < deadline && !self.inner.is_closed() =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            if Instant::now() + RETRY_AFTER >= deadline {
                return Err(error);
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    /// Sends one op and sends it again, inside the deadline, when the connection breaks or the server is not ready. So `op`
    /// must be safe to repeat, as all our scripts are.
    pub async fn run(&self, lane: Lane, op: Op<'_>, deadline: Instant) -> Result<Value, LinkError> {
        let ops = std::slice::from_ref(&op);
        let mut in_doubt = false;
        loop {
            let error = match self.inner.send(lane, ops, deadline).await {
                Ok(replies) => match replies.into_iter().next().unwrap_or(Ok(Value::Nil)) {
                    Ok(value) => return Ok(value),
                    Err(error) if error.needs_reconnect() => continue,
                    Err(ServerError::NoScript) if let Some(script) = op.script() => {
                        self.inner.load(lane, op.key(), script, deadline).await?;
                        continue;
                    }
                    Err(error @ (ServerError::TryAgain | ServerError::Busy)) => LinkError::Server(error),
                    Err(error) => return Err(error.into()),
                },
                Err(LinkError::Unreachable { outcome_unknown, why }) => {
                    in_doubt |= outcome_unknown;
                    if Instant::now() < deadline && !self.inner.is_closed() {
                        continue;
                    }
                    return Err(LinkError::Unreachable { outcome_unknown: in_doubt, why });
                }
                Err(LinkError::Timeout { outcome_unknown }) => {
                    return Err(LinkError::Timeout { outcome_unknown: in_doubt || outcome_unknown });
                }
                Err(error) => return Err(error),
            };
            if Instant::now() + RETRY_AFTER >= deadline {
                return Err(error);
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    /// The next keys that match `pattern`, of all nodes, one after the other. `count` is about how many are looked at.
    ///
    /// # Errors
    /// As [`Link::read`].
    pub async fn scan(
        &self,
        from: Scan,
        pattern: &str,
        count: usize,
        deadline: Instant,
    ) -> Result<(Option<Scan>, Vec<Vec<u8>>), LinkError> {
        loop {
            match self.inner.scan(from, pattern, count, deadline).await {
                Err(LinkError::Unreachable { .. })
                    if Instant::now() < deadline && !self.inner.is_closed() => {}
                answer => return answer,
            }
        }
    }

    /// Loads these scripts again, as after a SCRIPT FLUSH. Not all there are: those who wait need theirs at once.
    pub async fn load_scripts(
        &self,
        scripts: &[&'static Script],
        deadline: Instant,
    ) -> Result<(), LinkError> {
        self.inner.load_everywhere(scripts, deadline).await
    }

    /// Makes sure that an owner that was not found is truly not there: the database is still ours and its index does not
    /// list the owner. Without this a lost database would look like one in which nothing was stored.
    ///
    /// # Errors
    /// [`LinkError::StoreChanged`] when it is not.
    pub async fn confirm_absent(
        &self,
        kind: &str,
        tag: &OwnerTag,
        deadline: Instant,
    ) -> Result<(), LinkError> {
        loop {
            match self.inner.confirm_absent(kind, tag, deadline).await {
                // It waits for the next connection itself.
                Err(LinkError::Unreachable { .. })
                    if Instant::now() < deadline && !self.inner.is_closed() => {}
                answer => return answer,
            }
        }
    }

    /// Whether key `id` of the keyring is the one this database was written with.
    pub async fn canary_opens(
        &self,
        keyring: &Keyring,
        id: u32,
        deadline: Instant,
    ) -> Result<bool, LinkError> {
        let mut read = redis::cmd("HGET");
        read.arg(self.inner.names.meta()).arg(canary_field(id));
        match self.run(Lane::Small, Op::Cmd(read), deadline).await? {
            Value::BulkString(canary) => Ok(check_canary(keyring, id, &canary)),
            _ => Ok(false),
        }
    }

    /// Messages on `channel`, from now on. Best effort, and over reconnections: what is sent meanwhile is lost.
    pub async fn subscribe(&self, channel: &[u8]) -> broadcast::Receiver<Bytes> {
        let (receiver, ask) = self.inner.hub.join(channel);
        if let Some(generation) = ask {
            // When this fails the connection is gone, and the next one subscribes to everything. One that is dead without a word
            // gives no answer at all.
            let mut probe = generation.probe_lane();
            tokio::select! {
                _ = probe.subscribe(channel) => {}
                () = generation.dead() => {}
            }
        }
        receiver
    }

    /// Sends `payload` to whoever listens on `channel` at this moment.
    pub async fn publish(&self, channel: &[u8], payload: &[u8], deadline: Instant) -> Result<(), LinkError> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(channel).arg(payload);
        let replies = self.pipeline(Lane::Small, &[Op::Cmd(publish)], deadline).await?;
        replies.into_iter().next().map_or(Ok(()), |reply| reply.map(|_| ()).map_err(LinkError::from))
    }

    /// How many replicas have everything that was written for `key` on `lane` so far; waits until `wanted` have, or for the
    /// deadline. It holds up its lane meanwhile.
    pub async fn wait_replicas(
        &self,
        lane: Lane,
        key: &[u8],
        wanted: u32,
        deadline: Instant,
    ) -> Result<u32, LinkError> {
        let patience = deadline.saturating_duration_since(Instant::now());
        let mut wait = redis::cmd("WAIT");
        wait.arg(wanted).arg(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX).max(1));
        let replies =
            self.inner.exchange(lane, Some(key), &one(wait), false, deadline + ANSWER_AFTER).await?;
        match replies.into_iter().next().map(op::reply) {
            Some(Ok(Value::Int(reached))) => Ok(u32::try_from(reached).unwrap_or(0)),
            Some(Err(error)) => Err(error.into()),
            _ => Ok(0),
        }
    }

    /// What an acknowledged write survives here, without waiting for replicas.
    pub fn durability(&self) -> DurabilityLevel {
        self.inner.report().facts.durability
    }

    /// What is known of the server, as of the last (re)connection.
    pub fn facts(&self) -> ServerFacts {
        self.inner.report().facts.clone()
    }

    /// What the last look at the server found.
    pub fn preflight(&self) -> Arc<Report> {
        self.inner.report()
    }
}

fn refuse_unix(seeds: &[Endpoint], flag: &str) -> Result<(), StartError> {
    if seeds.iter().any(Endpoint::is_unix) {
        return Err(StartError::Config(format!("{flag} needs a URL with hosts, not unix://")));
    }
    Ok(())
}
