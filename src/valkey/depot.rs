//! A database while no sidecar uses it: every node that has a part of it, and nothing taken for granted. For what moves or renames
//! a database as a whole. A connection that breaks is not made again: what stands on this can be run again.

use std::{sync::Arc, time::Duration};

use futures_util::future::try_join_all;
use redis::{Cmd, Pipeline, Value};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    LinkConfig, Target, Unexamined,
    cluster::view_of,
    embedded::{Child, ChildError},
    error::ServerError,
    keys::{BUCKETS, Names},
    lanes::{Generation, ask, describe, one},
    op::{self, Lane},
    preflight::{self, Report},
    sentinel::Sentinels,
    server_info::text,
    shard::Shard,
    store_identity::{MARKER_SCORE, marker},
    target::{Endpoint, Topology},
    topology::Shards,
};

/// What one write with its replies may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// What a server of our own may take to load its data.
const LOADED_WITHIN: Duration = Duration::from_secs(300);
/// Keys that one step of a walk looks at, about.
const STEP: usize = 200;

/// Every node of a database.
pub struct Depot {
    shards: Shards,
    child: Option<Child>,
    facts: Report,
}

/// A place in a walk over all keys.
#[derive(Debug, Default)]
pub struct Walk {
    node: usize,
    cursor: String,
}

impl Depot {
    /// Connects to every primary of what `config` names, and looks at each. An embedded server is started if it does not run.
    ///
    /// # Errors
    /// When one cannot be reached, or the configuration itself is wrong.
    pub async fn open(config: &LinkConfig) -> Result<Self, Unexamined> {
        let mut child = None;
        let shards = match &config.target {
            Target::Embedded(embedded) => {
                let mut server = embedded.child();
                let shard = start(config, &mut server).await;
                child = Some(server);
                match shard {
                    Ok(shard) => Shards::single(shard),
                    Err(why) => {
                        if let Some(mut server) = child {
                            server.stop().await;
                        }
                        return Err(why);
                    }
                }
            }
            Target::Url(url) => match &url.topology {
                Topology::Standalone => Shards::single(connect(config, &[Endpoint::parse(url)?]).await?),
                Topology::Sentinel { primary, password } => {
                    let mut sentinels =
                        Sentinels::new(primary.clone(), &Endpoint::parse_all(url)?, password.as_ref())?;
                    let found = sentinels.primary().await;
                    let endpoint = found.map_err(|rejected| Unexamined::Unreachable(rejected.why()))?;
                    Shards::single(connect(config, &[endpoint]).await?)
                }
                Topology::Cluster => cluster(config, &Endpoint::parse_all(url)?).await?,
            },
        };
        let reports: Vec<_> = shards.all.iter().map(|shard| (shard.label.clone(), shard.report())).collect();
        let facts = Report::of_all(&reports, "");
        Ok(Self { shards, child, facts })
    }

    /// What was found at its nodes.
    pub fn report(&self) -> &Report {
        &self.facts
    }

    /// Whether nobody else can use it: it is a server of our own, whose data directory we have locked.
    pub fn is_private(&self) -> bool {
        self.child.is_some()
    }

    /// Sends commands, each to the node of its key, and gives their replies in order.
    ///
    /// # Errors
    /// When a node does not answer: what was sent may have been done.
    pub async fn send(&self, commands: Vec<Cmd>) -> Result<Vec<Result<Value, ServerError>>, String> {
        let count = commands.len();
        let mut parts: Vec<(&Arc<Shard>, Vec<usize>, Pipeline)> = Vec::new();
        for (at, command) in commands.into_iter().enumerate() {
            let shard = match op::key(&command) {
                Some(key) => self.shards.of_key(key),
                None => self.shards.all.first(),
            };
            let shard = shard.ok_or("no node serves a part of the cluster")?;
            let known = parts.iter().position(|(other, ..)| other.id == shard.id);
            let index = known.unwrap_or_else(|| {
                parts.push((shard, Vec::new(), Pipeline::new()));
                parts.len() - 1
            });
            parts[index].1.push(at);
            parts[index].2.add_command(command);
        }
        let sends = parts.into_iter().map(async |(shard, places, pipeline)| {
            let replies = exchange(shard, &pipeline).await?;
            Ok::<_, String>(places.into_iter().zip(replies).collect::<Vec<_>>())
        });
        let mut replies = vec![Ok(Value::Nil); count];
        for (at, reply) in try_join_all(sends).await?.into_iter().flatten() {
            replies[at] = reply;
        }
        Ok(replies)
    }

    /// One command.
    ///
    /// # Errors
    /// When its node does not answer, or refuses.
    pub async fn ask(&self, command: Cmd) -> Result<Value, String> {
        let mut replies = self.send(vec![command]).await?;
        replies.pop().unwrap_or(Ok(Value::Nil)).map_err(|error| explain(&error))
    }

    /// The next keys that match; `None`: that was all. A key that is there all the while is given at least once.
    ///
    /// # Errors
    /// When a node does not answer, or refuses.
    pub async fn walk(&self, walk: &mut Walk, pattern: &str) -> Result<Option<Vec<Vec<u8>>>, String> {
        let Some(shard) = self.shards.all.get(walk.node) else { return Ok(None) };
        let mut scan = redis::cmd("SCAN");
        let cursor = if walk.cursor.is_empty() { "0" } else { walk.cursor.as_str() };
        scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(STEP);
        let mut pipeline = Pipeline::new();
        pipeline.add_command(scan);
        let reply = exchange(shard, &pipeline).await?.pop().unwrap_or(Ok(Value::Nil));
        let (next, keys) = match reply.map_err(|error| explain(&error))? {
            Value::Array(mut parts) if parts.len() == 2 => (text(&parts[0]), parts.pop()),
            _ => return Err(format!("{}: SCAN gave no list", shard.label)),
        };
        walk.cursor = next.unwrap_or_default();
        if walk.cursor == "0" || walk.cursor.is_empty() {
            *walk = Walk { node: walk.node + 1, cursor: String::new() };
        }
        let Some(Value::Array(keys)) = keys else { return Ok(Some(Vec::new())) };
        let keys = keys.into_iter().filter_map(|key| match key {
            Value::BulkString(key) => Some(key),
            _ => None,
        });
        Ok(Some(keys.collect()))
    }

    /// How many keys there are, about; others' too.
    ///
    /// # Errors
    /// When a node does not answer.
    pub async fn size(&self) -> Result<u64, String> {
        let mut size = 0;
        for shard in &self.shards.all {
            let mut pipeline = Pipeline::new();
            pipeline.cmd("DBSIZE");
            if let Some(Ok(Value::Int(keys))) = exchange(shard, &pipeline).await?.pop() {
                size += u64::try_from(keys).unwrap_or(0);
            }
        }
        Ok(size)
    }

    /// Writes the id of a database into every index bucket of a kind, and takes another's out.
    ///
    /// # Errors
    /// When a node does not answer, or refuses.
    pub async fn mark(&self, env: &str, kind: &str, id: &str, instead_of: &str) -> Result<(), String> {
        let names = Names::new(env);
        let mut commands = Vec::new();
        for bucket in 0..BUCKETS {
            let mut add = redis::cmd("ZADD");
            add.arg(names.index(kind, bucket)).arg(MARKER_SCORE).arg(marker(id));
            let mut remove = redis::cmd("ZREM");
            remove.arg(names.index(kind, bucket)).arg(marker(instead_of));
            commands.extend([add, remove]);
        }
        self.send(commands)
            .await?
            .into_iter()
            .try_for_each(|reply| reply.map(|_| ()))
            .map_err(|error| explain(&error))
    }

    /// Has the data directory of an embedded server know which database it has. Elsewhere there is nothing to do.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn remember(&mut self, store_id: &str) -> Result<(), String> {
        match &mut self.child {
            Some(child) => child.remember(store_id, &self.facts.facts),
            None => Ok(()),
        }
    }

    /// Closes the connections, and ends an embedded server.
    pub async fn close(mut self) {
        if let Some(child) = &mut self.child {
            child.stop().await;
        }
    }
}

/// What a server refused, for a person who moves the database and may know its keys.
fn explain(error: &ServerError) -> String {
    match error {
        ServerError::Other { code, detail } => format!("Valkey answered {code} {detail}"),
        ServerError::NoPermission => {
            "the ACL of the Valkey user forbids a command that this needs".to_owned()
        }
        error => error.to_string(),
    }
}

async fn exchange(shard: &Shard, pipeline: &Pipeline) -> Result<Vec<Result<Value, ServerError>>, String> {
    let at = |why: &str| format!("{}: {why}", shard.label);
    let generation = shard.connected().ok_or_else(|| at("not connected"))?;
    let mut connection = generation.lane(Lane::Bulk);
    let call = connection.send_packed_commands(pipeline, 0, pipeline.len());
    let replies = timeout(ANSWER_WITHIN, call).await.map_err(|_| at("no answer"))?;
    let replies = replies.map_err(|error| at(&describe(&error)))?;
    Ok(replies.into_iter().map(op::reply).collect())
}

/// The first of the endpoints that can be connected to; they are names of one node.
async fn connect(config: &LinkConfig, endpoints: &[Endpoint]) -> Result<Arc<Shard>, Unexamined> {
    let (pushes, _messages) = mpsc::unbounded_channel();
    let mut failed = Unexamined::Unreachable("it has no address".to_owned());
    for (endpoint, id) in endpoints.iter().zip(0..) {
        let at = |why: String| {
            let why = format!("{endpoint}: {why}");
            if why.contains("user or password refused") {
                Unexamined::Config(why)
            } else {
                Unexamined::Unreachable(why)
            }
        };
        match Generation::connect(id, endpoint, config.connect_within, config.connections, &pushes).await {
            Ok(generation) => {
                let shard = Shard::new(id, endpoint.to_string(), CancellationToken::new());
                let look = preflight::inspect(&generation.probe_lane(), config.allowances()).await;
                shard.set_report(look.map_err(at)?);
                // While it reads its data from disk it tells of itself already, and serves nothing.
                let alive = ask(generation.probe_lane(), &one(redis::cmd("PING"))).await.map_err(at)?;
                if alive.is_err_and(|error| error == ServerError::Loading) {
                    return Err(at("it still reads its data (LOADING)".to_owned()));
                }
                shard.set_connected(&generation);
                return Ok(Arc::new(shard));
            }
            Err(why) => failed = at(why),
        }
    }
    Err(failed)
}

/// Starts a server of our own, and waits until it has read its data.
async fn start(config: &LinkConfig, child: &mut Child) -> Result<Arc<Shard>, Unexamined> {
    let until = Instant::now() + LOADED_WITHIN;
    loop {
        let why = match child.ensure().await {
            Ok(endpoint) => match connect(config, &[endpoint]).await {
                Ok(shard) => return Ok(shard),
                Err(why) => why.to_string(),
            },
            Err(ChildError::Human(why)) => return Err(Unexamined::Config(why)),
            Err(ChildError::Retry(why)) => why,
        };
        if Instant::now() > until {
            return Err(Unexamined::Unreachable(why));
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Every primary of a cluster whose slots are all served.
async fn cluster(config: &LinkConfig, seeds: &[Endpoint]) -> Result<Shards, Unexamined> {
    let (view, template) = view_of(seeds).await.map_err(Unexamined::Unreachable)?;
    let (mut nodes, mut ids) = (Vec::new(), 0..);
    let shards = Shards::of(&view, |node| {
        let id = ids.next().unwrap_or_default();
        let shard = Arc::new(Shard::new(id, node.place.to_string(), CancellationToken::new()));
        nodes.push((Arc::clone(&shard), node.clone()));
        shard
    });
    for (shard, node) in &nodes {
        let names = template.names_at(&node.place, node.hostname.as_deref());
        let endpoints: Vec<_> = names.iter().filter_map(|name| template.at(&node.place, name).ok()).collect();
        let found = connect(config, &endpoints).await?;
        shard.set_report(Report::clone(&found.report()));
        if let Some(generation) = found.connected() {
            shard.set_connected(&generation);
        }
    }
    if !shards.is_whole() {
        return Err(Unexamined::Unreachable("some slots of the cluster are served by no node".into()));
    }
    Ok(shards)
}
