//! The link: what the capabilities hold of Valkey. A call waits for a usable connection inside its deadline.
//!
//! **Order.** Calls of one lane are written in the order in which their futures are first polled, also across a wait for a
//! reconnection: each takes its turn at the lane's gate (first come, first served), and hands it on only when its bytes
//! are queued. So a task that submits pipelines one after the other has them executed in that order while the connection
//! lives; what a break leaves unanswered is the caller's to send again.

use std::{fmt::Display, future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use redis::{Pipeline, Value};
use tokio::{
    sync::{Mutex, mpsc, watch},
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    LinkConfig, LinkState, StartError, Target,
    error::{LinkError, ServerError},
    keys::{self, Names},
    lanes::{Generation, describe, one},
    op::{self, Lane, Op},
    reconnect,
    script::Script,
    target::Endpoint,
};

/// How soon a call is tried again that the server was not ready for.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// Where the link is.
#[derive(Clone)]
pub(super) enum Phase {
    Starting(String),
    Ready(Arc<Generation>),
    Down(String),
    StoreChanged,
}

pub(super) struct Inner {
    pub names: Names,
    pub config: LinkConfig,
    pub scripts: &'static [&'static Script],
    phase: watch::Sender<Phase>,
    state: watch::Sender<LinkState>,
    failed: watch::Sender<Option<StartError>>,
    closed: CancellationToken,
    small: Mutex<()>,
    bulk: Mutex<()>,
}

/// A handle on Valkey; clones share everything.
#[derive(Clone)]
pub struct Link {
    inner: Arc<Inner>,
}

impl Link {
    /// Starts connecting in the background and returns at once.
    ///
    /// # Errors
    /// What is wrong with the configuration itself. What turns out later, until the first preflight has passed, is
    /// given by [`Link::start_error`].
    pub fn start(
        config: LinkConfig,
        scripts: &'static [&'static Script],
        shutdown: CancellationToken,
    ) -> Result<Self, StartError> {
        if !keys::valid_env(&config.env) {
            return Err(StartError::Config("env must match [a-z0-9-]{1,32}".into()));
        }
        let Target::Url(url) = &config.target;
        let endpoint = Endpoint::parse(url)?;
        let why = format!("connecting to {endpoint}");
        let (pushes, _pushed) = mpsc::unbounded_channel();
        let inner = Arc::new(Inner {
            names: Names::new(&config.env),
            config,
            scripts,
            phase: watch::Sender::new(Phase::Starting(why.clone())),
            state: watch::Sender::new(LinkState::Starting { why }),
            failed: watch::Sender::new(None),
            closed: CancellationToken::new(),
            small: Mutex::new(()),
            bulk: Mutex::new(()),
        });
        tokio::spawn(reconnect::supervise(Arc::clone(&inner), endpoint, pushes, shutdown));
        Ok(Self { inner })
    }

    /// What happens to the link, for health.
    pub fn state(&self) -> watch::Receiver<LinkState> {
        self.inner.state.subscribe()
    }

    /// Waits until the start fails for a reason that only a human can mend: the process must exit with its code.
    pub async fn start_error(&self) -> StartError {
        let mut failed = self.inner.failed.subscribe();
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
        self.inner.closed.cancelled().await;
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
                    if Instant::now() < deadline {
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

    /// Loads every script again, as after a SCRIPT FLUSH.
    pub async fn load_scripts(&self, deadline: Instant) -> Result<(), LinkError> {
        self.load(Lane::Small, self.inner.scripts.iter().copied(), deadline).await
    }

    async fn load(
        &self,
        lane: Lane,
        scripts: impl Iterator<Item = &'static Script>,
        deadline: Instant,
    ) -> Result<(), LinkError> {
        for script in scripts {
            let load = script_load(script);
            let (_, replies) = self.inner.exchange(lane, &load, 1, false, deadline).await?;
            replies.into_iter().next().map_or(Ok(Value::Nil), op::reply)?;
        }
        Ok(())
    }
}

/// `SCRIPT LOAD` of one script.
pub(super) fn script_load(script: &Script) -> Pipeline {
    let mut cmd = redis::cmd("SCRIPT");
    cmd.arg("LOAD").arg(script.source);
    one(cmd)
}

impl Inner {
    pub fn set_phase(&self, phase: Phase) {
        self.state.send_replace(match &phase {
            Phase::Starting(why) => LinkState::Starting { why: why.clone() },
            Phase::Ready(generation) => LinkState::Ready { generation: generation.number() },
            Phase::Down(why) => LinkState::Down { why: why.clone() },
            Phase::StoreChanged => LinkState::StoreChanged,
        });
        self.phase.send_replace(phase);
    }

    pub fn fail_start(&self, error: StartError) {
        self.failed.send_replace(Some(error));
    }

    pub fn close(&self) {
        self.set_phase(Phase::Down("shutting down".into()));
        self.closed.cancel();
    }

    /// One write of `count` commands and their replies.
    async fn exchange(
        &self,
        lane: Lane,
        pipeline: &Pipeline,
        count: usize,
        writes: bool,
        deadline: Instant,
    ) -> Result<(Arc<Generation>, Vec<Value>), LinkError> {
        let gate = match lane {
            Lane::Small => &self.small,
            Lane::Bulk => &self.bulk,
        };
        let Ok(turn) = timeout_at(deadline, gate.lock()).await else { return Err(self.not_ready()) };
        let generation = self.ready(deadline).await?;
        let mut connection = generation.lane(lane);
        let mut call = pin!(connection.send_packed_commands(pipeline, 0, count));
        // The first poll puts the bytes into the connection's own queue, or in line for it.
        let first = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
        drop(turn);
        let replies = match first {
            Poll::Ready(replies) => replies,
            Poll::Pending => tokio::select! {
                biased;
                replies = &mut call => replies,
                () = generation.dead() => {
                    return Err(LinkError::Unreachable { outcome_unknown: writes, why: generation.why() });
                }
                () = sleep_until(deadline) => return Err(LinkError::Timeout { outcome_unknown: writes }),
            },
        };
        match replies {
            Ok(replies) => Ok((generation, replies)),
            Err(error) => {
                let why = describe(&error);
                generation.fail(why.as_str());
                Err(LinkError::Unreachable { outcome_unknown: writes, why })
            }
        }
    }

    /// A generation that can be used, waited for until `deadline`.
    async fn ready(&self, deadline: Instant) -> Result<Arc<Generation>, LinkError> {
        let mut phase = self.phase.subscribe();
        loop {
            match &*phase.borrow_and_update() {
                Phase::Ready(generation) if !generation.is_dead() => return Ok(Arc::clone(generation)),
                Phase::StoreChanged => return Err(LinkError::StoreChanged),
                _ => {}
            }
            if self.closed.is_cancelled()
                || !matches!(timeout_at(deadline, phase.changed()).await, Ok(Ok(())))
            {
                return Err(self.not_ready());
            }
        }
    }

    fn not_ready(&self) -> LinkError {
        let why = match &*self.phase.borrow() {
            Phase::Starting(_) => return LinkError::Starting,
            Phase::StoreChanged => return LinkError::StoreChanged,
            Phase::Down(why) => why.clone(),
            Phase::Ready(generation) if generation.is_dead() => generation.why(),
            Phase::Ready(_) => "too many calls wait for their turn".to_owned(),
        };
        LinkError::Unreachable { outcome_unknown: false, why }
    }
}
