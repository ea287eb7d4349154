//! The link: what the capabilities hold of Valkey. A call waits for a usable connection inside its deadline.
//!
//! **Order.** Calls of one lane are written in the order in which their futures are first polled, also across a wait for a
//! reconnection: each takes its turn at the lane's gate (first come, first served), and hands it on only when its bytes
//! are queued. So a task that submits pipelines one after the other has them executed in that order while the connection
//! lives; what a break leaves unanswered is the caller's to send again.

use std::{fmt::Display, sync::Arc, time::Duration};

use bytes::Bytes;
use redis::{Pipeline, Value};
use tokio::{
    sync::{broadcast, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::crypto::{Keyring, OwnerTag, SharedKeyring, check_canary};

use super::{
    LinkConfig, LinkState, StartError, Target,
    error::{LinkError, ServerError},
    exchange::Inner,
    keys,
    lanes::one,
    op::{self, Lane, Op},
    preflight::{DurabilityLevel, Report, ServerFacts},
    reconnect::{Source, Supervisor},
    script::Script,
    store_identity::canary_field,
    target::Endpoint,
};

/// How soon a call is tried again that the server was not ready for.
const RETRY_AFTER: Duration = Duration::from_millis(20);

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
        let (source, label) = match &config.target {
            Target::Url(url) => {
                let endpoint = Endpoint::parse(url)?;
                let label = endpoint.to_string();
                (Source::Url(Box::new(endpoint)), label)
            }
            Target::Embedded(embedded) => {
                (Source::Child(Box::new(embedded.child())), "the embedded server".to_owned())
            }
        };
        let (pushes, messages) = mpsc::unbounded_channel();
        let inner = Arc::new(Inner::new(config, keyring, scripts, kinds, label));
        let supervisor = Supervisor { inner: Arc::clone(&inner), source, pushes, messages, shutdown };
        tokio::spawn(supervisor.run());
        Ok(Self { inner })
    }

    /// What happens to the link, for health.
    pub fn state(&self) -> watch::Receiver<LinkState> {
        self.inner.state()
    }

    /// Whether a call would be sent at once.
    pub fn is_ready(&self) -> bool {
        self.inner.current().is_some()
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
        let writes = ops.iter().any(Op::may_write);
        let (generation, replies) =
            self.inner.exchange(lane, &op::pack(ops), ops.len(), writes, deadline).await?;
        let replies: Vec<_> = replies.into_iter().map(op::reply).collect();
        if let Some(Err(error)) =
            replies.iter().find(|reply| reply.as_ref().is_err_and(ServerError::needs_reconnect))
        {
            generation.fail(error.to_string());
        }
        Ok(replies)
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
        let writes = op.may_write();
        let packed = op::pack(std::slice::from_ref(&op));
        let mut in_doubt = false;
        loop {
            let error = match self.inner.exchange(lane, &packed, 1, writes, deadline).await {
                Ok((generation, replies)) => {
                    match replies.into_iter().next().map_or(Ok(Value::Nil), op::reply) {
                        Ok(value) => return Ok(value),
                        Err(error) if error.needs_reconnect() => {
                            generation.fail(error.to_string());
                            continue;
                        }
                        Err(ServerError::NoScript) if op.script().is_some() => {
                            self.load(lane, op.script().into_iter(), deadline).await?;
                            continue;
                        }
                        Err(error @ (ServerError::TryAgain | ServerError::Busy)) => LinkError::Server(error),
                        Err(error) => return Err(error.into()),
                    }
                }
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

    /// Loads these scripts again, as after a SCRIPT FLUSH. Not all there are: those who wait need theirs at once.
    pub async fn load_scripts(
        &self,
        scripts: &[&'static Script],
        deadline: Instant,
    ) -> Result<(), LinkError> {
        self.load(Lane::Small, scripts.iter().copied(), deadline).await
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
        let (receiver, new) = self.inner.hub.join(channel);
        if new && let Some(generation) = self.inner.current() {
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

    /// How many replicas have everything that was written on `lane` so far; waits until `wanted` have, or the deadline is
    /// near. It holds up its lane meanwhile.
    pub async fn wait_replicas(&self, lane: Lane, wanted: u32, deadline: Instant) -> Result<u32, LinkError> {
        let patience = deadline.saturating_duration_since(Instant::now()).mul_f64(0.8);
        let mut wait = redis::cmd("WAIT");
        wait.arg(wanted).arg(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX).max(1));
        let replies = self.pipeline(lane, &[Op::Cmd(wait)], deadline).await?;
        match replies.into_iter().next() {
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

    async fn load(
        &self,
        lane: Lane,
        scripts: impl Iterator<Item = &'static Script>,
        deadline: Instant,
    ) -> Result<(), LinkError> {
        let mut loads = Pipeline::new();
        let mut count = 0;
        for script in scripts {
            loads.add_command(load_command(script));
            count += 1;
        }
        let (_, replies) = self.inner.exchange(lane, &loads, count, false, deadline).await?;
        for reply in replies {
            op::reply(reply)?;
        }
        Ok(())
    }
}

/// `SCRIPT LOAD` of one script.
pub(super) fn script_load(script: &Script) -> Pipeline {
    one(load_command(script))
}

fn load_command(script: &Script) -> redis::Cmd {
    let mut cmd = redis::cmd("SCRIPT");
    cmd.arg("LOAD").arg(script.source);
    cmd
}
