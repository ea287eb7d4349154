//! The connections of one generation. They are made together, and when one breaks all are given up together: what is
//! behind them may be another server now.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, ErrorKind, Pipeline, PushInfo, PushKind, RedisError, Value,
    aio::MultiplexedConnection,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Connections, error::ServerError, op::Lane, target::Endpoint};

/// Calls that may wait for their turn to be written, per lane.
const QUEUE: usize = 256;
/// Bytes gathered into one write.
const WRITE_BUFFER: usize = 64 * 1024;

/// Why a generation ended, told to everyone who waits on it.
#[derive(Debug, Default)]
struct Death {
    token: CancellationToken,
    why: OnceLock<String>,
}

impl Death {
    fn fail(&self, why: impl Into<String>) {
        let _ = self.why.set(why.into());
        self.token.cancel();
    }
}

/// One set of connections to one primary.
pub(super) struct Generation {
    number: u64,
    small: MultiplexedConnection,
    bulk: MultiplexedConnection,
    probe: MultiplexedConnection,
    death: Arc<Death>,
}

impl Generation {
    /// Opens every lane. What subscriptions bring goes to `pushes`.
    pub async fn connect(
        number: u64,
        endpoint: &Endpoint,
        within: Duration,
        connections: Connections,
        pushes: &mpsc::UnboundedSender<PushInfo>,
    ) -> Result<Arc<Self>, String> {
        let death = Arc::new(Death::default());
        let open = |pushes: Option<mpsc::UnboundedSender<PushInfo>>| {
            let death = Arc::clone(&death);
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(None)
                .set_response_timeout(None)
                .set_pipeline_buffer_size(QUEUE)
                .set_write_backpressure_boundary(WRITE_BUFFER)
                .set_push_sender(move |push: PushInfo| -> Result<(), ()> {
                    if push.kind == PushKind::Disconnection {
                        death.fail("the connection was closed");
                    } else if let Some(pushes) = &pushes {
                        let _ = pushes.send(push);
                    }
                    Ok(())
                });
            endpoint.connect(config)
        };
        let all = async {
            match connections {
                Connections::Standard => tokio::try_join!(open(Some(pushes.clone())), open(None), open(None)),
                Connections::Minimal => {
                    let (probe, small) = tokio::try_join!(open(Some(pushes.clone())), open(None))?;
                    Ok((probe, small.clone(), small))
                }
            }
        };
        match timeout(within, all).await {
            Ok(Ok((probe, small, bulk))) => Ok(Arc::new(Self { number, small, bulk, probe, death })),
            Ok(Err(error)) => Err(describe(&error)),
            Err(_) => Err(format!("no connection within {} ms", within.as_millis())),
        }
    }

    /// Counts up with every reconnection.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn lane(&self, lane: Lane) -> MultiplexedConnection {
        match lane {
            Lane::Small => self.small.clone(),
            Lane::Bulk => self.bulk.clone(),
        }
    }

    /// The lane of probes and subscriptions.
    pub fn probe_lane(&self) -> MultiplexedConnection {
        self.probe.clone()
    }

    /// Gives all connections up. The first reason stays.
    pub fn fail(&self, why: impl Into<String>) {
        self.death.fail(why);
    }

    /// Gives all connections up when what is returned is dropped: nobody may go on waiting for those that came to nothing.
    pub fn unless_kept(&self) -> DropGuard {
        self.death.token.clone().drop_guard()
    }

    pub fn is_dead(&self) -> bool {
        self.death.token.is_cancelled()
    }

    /// Ends when the generation does.
    pub async fn dead(&self) {
        self.death.token.cancelled().await;
    }

    pub fn why(&self) -> String {
        self.death.why.get().cloned().unwrap_or_else(|| "the connection was closed".to_owned())
    }

    /// Asks for a sign of life on the small lane and that of the probes; a lane that gives none within `within` ends the
    /// generation. A lane can be half open while its neighbours work, so each is asked.
    pub async fn ping(&self, within: Duration) -> Pulse {
        let (pulse, _) =
            tokio::join!(self.ping_one(self.probe_lane(), within), self.ping_one(self.small.clone(), within));
        pulse
    }

    /// The same of the bulk lane, where a large transfer may be in the way.
    pub async fn ping_bulk(&self, within: Duration) {
        self.ping_one(self.bulk.clone(), within).await;
    }

    async fn ping_one(&self, connection: MultiplexedConnection, within: Duration) -> Pulse {
        match timeout(within, ask(connection, &one(redis::cmd("PING")))).await {
            // Busy with a long script: alive.
            Ok(Ok(Ok(_) | Err(ServerError::Busy | ServerError::NoPermission))) => {}
            // What forbids writes forbids PING too; reads go on.
            Ok(Ok(Err(ServerError::RefusesWrites { code }))) => return Pulse::RefusesWrites(code),
            Ok(Ok(Err(error))) => self.fail(error.to_string()),
            Ok(Err(why)) => self.fail(why),
            Err(_) => self.fail(format!("no answer to PING within {} ms", within.as_millis())),
        }
        Pulse::Usual
    }
}

/// What a sign of life told.
pub(super) enum Pulse {
    /// Alive, or dead: the generation knows.
    Usual,
    /// Alive, and takes no writes; why.
    RefusesWrites(&'static str),
}

/// A pipeline of one command.
pub(super) fn one(cmd: redis::Cmd) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.add_command(cmd);
    pipeline
}

/// Sends one command on a connection and waits for as long as it takes.
pub(super) async fn ask(
    connection: MultiplexedConnection,
    pipeline: &Pipeline,
) -> Result<Result<Value, ServerError>, String> {
    let replies = ask_all(connection, pipeline).await?;
    Ok(replies.into_iter().next().unwrap_or(Ok(Value::Nil)))
}

/// The same of several, in one write; their replies in order.
pub(super) async fn ask_all(
    mut connection: MultiplexedConnection,
    pipeline: &Pipeline,
) -> Result<Vec<Result<Value, ServerError>>, String> {
    let replies = connection.send_packed_commands(pipeline, 0, pipeline.len()).await;
    Ok(replies.map_err(|error| describe(&error))?.into_iter().map(super::op::reply).collect())
}

/// What is wrong, without anything that a server may repeat of what it was sent.
pub(super) fn describe(error: &RedisError) -> String {
    if let Ok(error) = redis::ServerError::try_from(error.clone()) {
        return match ServerError::from_reply(&error) {
            ServerError::WrongPassword => "user or password refused (WRONGPASS)".to_owned(),
            error => error.to_string(),
        };
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => "user or password refused".to_owned(),
        ErrorKind::RESP3NotSupported => {
            "the server does not speak RESP3: Valkey, or Redis 7.0 or later, is needed".to_owned()
        }
        ErrorKind::Io => error.to_string(),
        _ => error.category().to_owned(),
    }
}
