//! Every node of a database, connected to once and looked at: for what uses a database for a while and then lets go of it. A
//! connection that breaks is not made again.

use std::{sync::Arc, time::Duration};

use futures_util::future::try_join_all;
use redis::{Cmd, Pipeline, Value};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    LinkConfig, Target, Unexamined,
    cluster::view_of,
    error::ServerError,
    lanes::{Generation, ask, describe, one},
    op::{self, Lane},
    preflight,
    reconnect::BOOTSTRAP_WITHIN,
    report::Report,
    sentinel::Sentinels,
    shard::Shard,
    target::{Endpoint, Topology},
    topology::Shards,
};

/// A node's answer to one command.
pub(super) type Reply = Result<Value, ServerError>;

/// Connects to every primary of what `config` names, and looks at each. An embedded server must be running. Of a cluster some
/// slots may be served by nobody.
///
/// # Errors
/// When one cannot be reached, or the configuration itself is wrong.
pub(super) async fn reach(config: &LinkConfig) -> Result<Shards, Unexamined> {
    let endpoint = match &config.target {
        Target::Embedded(embedded) => Endpoint::unix(embedded.socket())?,
        Target::Url(url) => match &url.topology {
            Topology::Standalone => Endpoint::parse(url)?,
            Topology::Sentinel { primary, password } => {
                let seeds = Endpoint::parse_all(url)?;
                let mut sentinels = Sentinels::new(primary.clone(), &seeds, password.as_ref())?;
                sentinels.primary().await.map_err(|rejected| Unexamined::because(rejected.why()))?
            }
            Topology::Cluster => return cluster(config, &Endpoint::parse_all(url)?).await,
        },
    };
    Ok(Shards::single(connect(config, &[endpoint]).await?))
}

/// What was found at all of them together.
pub(super) fn report(shards: &Shards) -> Report {
    let reports: Vec<_> = shards.all.iter().map(|shard| (shard.label.clone(), shard.report())).collect();
    Report::of_all(&reports, "")
}

/// The first of the endpoints that can be connected to; they are names of one node.
pub(super) async fn connect(config: &LinkConfig, endpoints: &[Endpoint]) -> Result<Arc<Shard>, Unexamined> {
    let (pushes, _messages) = mpsc::unbounded_channel();
    let mut failed = Unexamined::Unreachable("it has no address".to_owned());
    for (endpoint, id) in endpoints.iter().zip(0..) {
        let at = |why: String| Unexamined::because(format!("{endpoint}: {why}"));
        match Generation::connect(id, endpoint, config.connect_within, config.connections, &pushes).await {
            Ok(generation) => {
                let shard = Shard::new(id, endpoint.to_string(), CancellationToken::new());
                let looked = timeout(BOOTSTRAP_WITHIN, look(config, &generation)).await;
                shard.set_report(looked.unwrap_or_else(|_| Err("no answer in time".into())).map_err(at)?);
                shard.set_connected(&generation);
                return Ok(Arc::new(shard));
            }
            Err(why) => failed = at(why),
        }
    }
    Err(failed)
}

async fn look(config: &LinkConfig, generation: &Generation) -> Result<Report, String> {
    let report = preflight::inspect(&generation.probe_lane(), config.allowances()).await?;
    // While it reads its data from disk it tells of itself already, and serves nothing.
    if ask(generation.probe_lane(), &one(redis::cmd("PING"))).await? == Err(ServerError::Loading) {
        return Err("it still reads its data (LOADING)".to_owned());
    }
    Ok(report)
}

async fn cluster(config: &LinkConfig, seeds: &[Endpoint]) -> Result<Shards, Unexamined> {
    let (view, template) = view_of(seeds).await.map_err(Unexamined::because)?;
    let mut nodes = Vec::new();
    let shards = Shards::of(&view, |node| {
        // Each is its own: they are told apart before they are connected to.
        let id = u64::try_from(nodes.len()).unwrap_or(u64::MAX);
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
    Ok(shards)
}

/// Sends commands, each to the shard of its key, and gives their replies in order. A command without a key goes to the first.
///
/// # Errors
/// When a shard does not answer within `within`: what was sent may have been done.
pub(super) async fn send(
    shards: &Shards,
    commands: impl IntoIterator<Item = Cmd>,
    lane: Option<Lane>,
    within: Duration,
) -> Result<Vec<Reply>, String> {
    let mut parts: Vec<(&Arc<Shard>, Vec<usize>, Pipeline)> = Vec::new();
    let mut count = 0;
    for (at, command) in commands.into_iter().enumerate() {
        let shard = match op::key(&command) {
            Some(key) => shards.of_key(key),
            None => shards.all.first(),
        };
        let shard = shard.ok_or("no node serves a part of the cluster")?;
        let known = parts.iter().position(|(other, ..)| other.id == shard.id);
        let index = known.unwrap_or_else(|| {
            parts.push((shard, Vec::new(), Pipeline::new()));
            parts.len() - 1
        });
        parts[index].1.push(at);
        parts[index].2.add_command(command);
        count = at + 1;
    }
    let sends = parts.into_iter().map(async |(shard, places, pipeline)| {
        let replies = exchange(shard, &pipeline, lane, within).await?;
        Ok::<_, String>(places.into_iter().zip(replies).collect::<Vec<_>>())
    });
    let mut replies = vec![Ok(Value::Nil); count];
    for (at, reply) in try_join_all(sends).await?.into_iter().flatten() {
        replies[at] = reply;
    }
    Ok(replies)
}

/// One write to one shard, on a lane or on that of the probes, whether or not calls may use it.
pub(super) async fn exchange(
    shard: &Shard,
    pipeline: &Pipeline,
    lane: Option<Lane>,
    within: Duration,
) -> Result<Vec<Reply>, String> {
    let at = |why: &str| format!("{}: {why}", shard.label);
    let generation = shard.connected().ok_or_else(|| at("not connected"))?;
    let mut connection = match lane {
        Some(lane) => generation.lane(lane),
        None => generation.probe_lane(),
    };
    let call = connection.send_packed_commands(pipeline, 0, pipeline.len());
    let replies = timeout(within, call).await.map_err(|_| at("no answer"))?;
    let replies = replies.map_err(|error| at(&describe(&error)))?;
    Ok(replies.into_iter().map(op::reply).collect())
}
