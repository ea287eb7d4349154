//! A database while no sidecar uses it: every node that has a part of it, and nothing taken for granted. For what moves or renames
//! a database as a whole. A connection that breaks is not made again: what stands on this can be run again.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, Pipeline, Value};
use tokio::time::{Instant, sleep};

use super::{
    LinkConfig, Target, Unexamined,
    embedded::{Child, ChildError},
    error::ServerError,
    keys::{BUCKETS, Names},
    lanes::one,
    nodes::{self, Reply},
    op::Lane,
    report::Report,
    scan::{self, Scan},
    shard::Shard,
    store_identity::{MARKER_SCORE, marker},
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

/// A place in a walk over all keys; `None`: it is over.
#[derive(Debug)]
pub struct Walk(Option<Scan>);

impl Default for Walk {
    fn default() -> Self {
        Self(Some(Scan::default()))
    }
}

impl Depot {
    /// Connects to every primary of what `config` names, and looks at each. An embedded server is started if it does not run.
    ///
    /// # Errors
    /// When one cannot be reached, or the configuration itself is wrong.
    pub async fn open(config: &LinkConfig) -> Result<Self, Unexamined> {
        let (shards, child) = match &config.target {
            Target::Embedded(embedded) => {
                let mut child = embedded.child();
                match start(config, &mut child).await {
                    Ok(shard) => (Shards::single(shard), Some(child)),
                    Err(why) => {
                        child.stop().await;
                        return Err(why);
                    }
                }
            }
            Target::Url(_) => (nodes::reach(config).await?, None),
        };
        if !shards.is_whole() {
            return Err(Unexamined::Unreachable("some slots of the cluster are served by no node".into()));
        }
        let facts = nodes::report(&shards);
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
    pub async fn send(&self, commands: Vec<Cmd>) -> Result<Vec<Reply>, String> {
        nodes::send(&self.shards, commands, Some(Lane::Bulk), ANSWER_WITHIN).await
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
        let Some(from) = walk.0 else { return Ok(None) };
        let Some(shard) = self.shards.all.get(from.node()) else { return Ok(None) };
        let scan = one(scan::command(from.cursor(), pattern, STEP));
        let reply = self.exchange(shard, &scan).await?.pop().unwrap_or(Ok(Value::Nil));
        let (cursor, keys) = scan::page(reply.map_err(|error| explain(&error))?)
            .ok_or_else(|| format!("{}: SCAN gave no list", shard.label))?;
        walk.0 = from.next(cursor, self.shards.all.len());
        Ok(Some(keys))
    }

    async fn exchange(&self, shard: &Shard, pipeline: &Pipeline) -> Result<Vec<Reply>, String> {
        nodes::exchange(shard, pipeline, Some(Lane::Bulk), ANSWER_WITHIN).await
    }

    /// How many keys there are, about; others' too.
    ///
    /// # Errors
    /// When a node does not answer.
    pub async fn size(&self) -> Result<u64, String> {
        let mut size = 0;
        for shard in &self.shards.all {
            let size_of = one(redis::cmd("DBSIZE"));
            if let Some(Ok(Value::Int(keys))) = self.exchange(shard, &size_of).await?.pop() {
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

/// Starts a server of our own, and waits until it has read its data.
async fn start(config: &LinkConfig, child: &mut Child) -> Result<Arc<Shard>, Unexamined> {
    let until = Instant::now() + LOADED_WITHIN;
    loop {
        let why = match child.ensure().await {
            Ok(endpoint) => match nodes::connect(config, &[endpoint]).await {
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
