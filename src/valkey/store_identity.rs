//! *Which database is this?* A database carries an environment and an id of its own, at its top and in every index bucket,
//! so that one that was emptied, replaced or has lost a part is told apart from one in which nothing was stored yet. Never
//! does a lost database look like "no session", and never is one made anew while running.

use std::sync::Arc;

use redis::{Pipeline, Value, aio::MultiplexedConnection};
use tokio::time::Duration;

use super::{
    error::ServerError,
    exchange::Inner,
    keys::{BUCKETS, ENVIRONMENT, Names},
    lanes::describe,
    nodes,
    op::reply,
    script::hex,
    server_info::text,
    shard::Shard,
    topology::Shards,
};

/// The format of what is stored. A higher one is left alone.
const FORMAT: u32 = 1;
/// The score of a bucket's marker: lower than any owner's.
pub(super) const MARKER_SCORE: i64 = -2;

/// Why the database was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No answer: to be tried again.
    Unreachable(String),
    /// A human must decide. The text says what to do.
    Human(String),
    /// It is not the database it was.
    Changed(String),
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Unreachable(why)
    }
}

/// Who may take an empty database into use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Somebody else's server: only with `--init`.
    External { init: bool },
    /// Our own child: on its first start. `file` is what `<data-dir>/store-id` says.
    Embedded { file: Option<String>, init: bool },
    /// The database of this process: nothing else will do.
    Only(String),
}

/// What `pannier:environment` says.
struct Owner {
    env: String,
    store_id: String,
}

/// What one shard may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How the database is reached.
pub(super) enum Via<'a> {
    /// All of it, or the part of it that is looked at, behind one connection.
    One(&'a MultiplexedConnection),
    /// Each key at its shard, over whatever is connected.
    Shards(&'a Shards),
}

/// The database, or one shard's part of it.
pub(super) struct Store<'a> {
    via: Via<'a>,
    pub(super) names: &'a Names,
    kinds: &'a [String],
    /// Only what this shard serves is looked at.
    part: Option<(Arc<Shards>, &'a Shard)>,
}

impl<'a> Store<'a> {
    /// All of the database.
    pub fn new(via: Via<'a>, names: &'a Names, kinds: &'a [String]) -> Self {
        Self { via, names, kinds, part: None }
    }

    /// What is to be seen of it at one shard.
    pub fn at(inner: &'a Inner, shard: &'a Shard, connection: &'a MultiplexedConnection) -> Self {
        let shards = inner.shards();
        let part = shards.is_cluster().then_some((shards, shard));
        Self { via: Via::One(connection), names: &inner.names, kinds: &inner.kinds, part }
    }

    fn is_here(&self, key: &[u8]) -> bool {
        self.part
            .as_ref()
            .is_none_or(|(shards, shard)| shards.of_key(key).is_some_and(|found| found.id == shard.id))
    }
}

impl Store<'_> {
    /// Makes sure that this is the right database, takes an empty one into use if `rule` allows it, and gives its id.
    pub async fn accept(&self, rule: &Rule) -> Result<String, Refusal> {
        let found = self.owner().await?;
        let ours = self.names.env();
        if let Some(found) = found.as_ref().filter(|found| found.env != ours) {
            let env = &found.env;
            return Err(match rule {
                Rule::Only(_) => Refusal::Changed(format!("the database now belongs to environment {env:?}")),
                _ => Refusal::Human(format!(
                    "this database belongs to environment {env:?}, not {ours:?}: give --env {env}, or another database"
                )),
            });
        }
        let id = match (rule, found.map(|found| found.store_id)) {
            (Rule::Only(id), Some(found)) if *id == found => found,
            (Rule::Only(_), None) => return Err(Refusal::Changed("the database was emptied".into())),
            (Rule::Only(_), Some(_)) => return Err(Refusal::Changed("the database was replaced".into())),

            (Rule::External { init: false } | Rule::Embedded { file: None, init: false }, Some(found)) => {
                found
            }
            (Rule::External { init: true }, None) => return self.create().await,
            (Rule::External { init: false }, None) => {
                return Err(Refusal::Human(
                    "empty database: run once with --init, or it has lost its data".into(),
                ));
            }

            (Rule::Embedded { file: None, .. } | Rule::Embedded { init: true, .. }, None) => {
                return self.create().await;
            }
            (Rule::Embedded { file: Some(file), init }, Some(found)) if (*file == found) != *init => found,
            (Rule::Embedded { file: Some(_), init: false }, found) => {
                let what = if found.is_none() { "is empty" } else { "holds another database" };
                return Err(Refusal::Human(format!(
                    "the data directory {what}, but its store-id file names a database that was here before: restore the \
                     data from a backup, or begin anew with --init"
                )));
            }

            (Rule::External { init: true } | Rule::Embedded { init: true, .. }, Some(_)) => {
                return Err(Refusal::Human(
                    "--init was given, but this database is in use already: remove --init".into(),
                ));
            }
        };
        self.check(&id, 0, BUCKETS).await?;
        self.mark_new_kinds(&id).await?;
        Ok(id)
    }

    /// Whether this still is the database `id`: at its top, and in `count` buckets of each kind from `first` on. Of a part of
    /// it only what is there is looked at, and a slot that is on its way is left out.
    pub async fn check(&self, id: &str, first: u8, count: u8) -> Result<(), Refusal> {
        if self.is_here(ENVIRONMENT.as_bytes()) {
            self.check_top(id).await?;
        }
        let kinds = if self.is_here(self.names.meta().as_bytes()) {
            self.check_meta(id).await?
        } else {
            self.kinds.iter().map(String::as_str).collect()
        };
        let marker = marker(id);
        let mut pipeline = Pipeline::new();
        for kind in kinds {
            for bucket in (0..count).map(|step| (first + step) % BUCKETS) {
                let index = self.names.index(kind, bucket);
                if self.is_here(&index) {
                    pipeline.cmd("ZSCORE").arg(index).arg(&marker);
                }
            }
        }
        if self.send(&pipeline).await?.contains(&Value::Nil) {
            return Err(Refusal::Changed(
                "a part of the database is gone: an index has lost its marker".into(),
            ));
        }
        Ok(())
    }

    async fn check_top(&self, id: &str) -> Result<(), Refusal> {
        match self.owner().await? {
            Some(owner) if owner.env == self.names.env() && owner.store_id == id => Ok(()),
            Some(_) => Err(Refusal::Changed("the database was replaced".into())),
            None => Err(Refusal::Changed("the database was emptied".into())),
        }
    }

    /// The kinds that the database has markers of: one that an older version did not have carries none yet.
    async fn check_meta(&self, id: &str) -> Result<Vec<&str>, Refusal> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("HMGET").arg(self.names.meta()).arg("store_id").arg("format");
        for kind in self.kinds {
            pipeline.arg(kind_field(kind));
        }
        let meta = self.send(&pipeline).await?.into_iter().next().unwrap_or_default();
        let Value::Array(meta) = meta else { return Err(Refusal::Changed("its meta hash is gone".into())) };
        if meta.first().and_then(text).as_deref() != Some(id) {
            return Err(Refusal::Changed("its meta hash is gone or another's".into()));
        }
        let format = meta.get(1).and_then(text).and_then(|format| format.parse::<u32>().ok()).unwrap_or(0);
        if format > FORMAT {
            return Err(Refusal::Human(format!(
                "the database has format {format}, this version knows up to {FORMAT}: update Pannier"
            )));
        }
        let marked = self.kinds.iter().zip(&meta[2..]).filter(|(_, marked)| **marked != Value::Nil);
        Ok(marked.map(|(kind, _)| kind.as_str()).collect())
    }

    /// The id of the database that is there, if it is of our environment. Writes nothing.
    pub async fn found(&self) -> Result<Option<String>, Refusal> {
        Ok(self.owner().await?.filter(|owner| owner.env == self.names.env()).map(|owner| owner.store_id))
    }

    /// What is written at the top of the database, whosever it is.
    pub async fn environment(&self) -> Result<Option<String>, Refusal> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("GET").arg(ENVIRONMENT);
        Ok(self.send(&pipeline).await?.first().and_then(text))
    }

    /// The environment that is ours.
    pub fn env(&self) -> &str {
        self.names.env()
    }

    async fn owner(&self) -> Result<Option<Owner>, Refusal> {
        let Some(value) = self.environment().await? else { return Ok(None) };
        match value.split_once(' ') {
            Some((env, store_id)) if !store_id.is_empty() => {
                Ok(Some(Owner { env: env.to_owned(), store_id: store_id.to_owned() }))
            }
            // It has no space, so that every version refuses it.
            _ if value.starts_with("migrating/") => Err(Refusal::Human(
                "a migration into this database is not finished: run `pannier migrate` again, with the same source and target"
                    .into(),
            )),
            _ if value.starts_with("adopting/") => Err(Refusal::Human(
                "this database is being renamed: run `pannier adopt-branch` again, with the same --from and --to".into(),
            )),
            _ => Err(Refusal::Human(format!("the key {ENVIRONMENT} is not Pannier's: use another database"))),
        }
    }

    /// Takes an empty database into use. The environment's key comes last: until it is there nothing is in use, and a
    /// create that was cut off is simply done again.
    async fn create(&self) -> Result<String, Refusal> {
        let meta = self.names.meta();
        let mut pipeline = Pipeline::new();
        pipeline.cmd("HSETNX").arg(&meta).arg("store_id").arg(new_store_id()?);
        pipeline.cmd("HSETNX").arg(&meta).arg("format").arg(FORMAT);
        pipeline.cmd("HGET").arg(&meta).arg("store_id");
        let id = self.send(&pipeline).await?.get(2).and_then(text).unwrap_or_default();
        self.mark_new_kinds(&id).await?;
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SET").arg(ENVIRONMENT).arg(format!("{} {id}", self.names.env())).arg("NX");
        self.send(&pipeline).await?;
        // Another sidecar may have been quicker, with the same id (meta decides) or for another environment.
        match self.owner().await? {
            Some(owner) if owner.env == self.names.env() && owner.store_id == id => Ok(id),
            _ => Err(Refusal::Human(
                "this database was taken into use for another environment just now".into(),
            )),
        }
    }

    /// Writes the markers of kinds that the database does not know yet.
    async fn mark_new_kinds(&self, id: &str) -> Result<(), Refusal> {
        let meta = self.names.meta();
        for kind in self.kinds {
            let mut known = Pipeline::new();
            known.cmd("HEXISTS").arg(&meta).arg(kind_field(kind));
            if self.send(&known).await?.first() == Some(&Value::Int(1)) {
                continue;
            }
            let mut pipeline = Pipeline::new();
            for bucket in 0..BUCKETS {
                pipeline.cmd("ZADD").arg(self.names.index(kind, bucket)).arg(MARKER_SCORE).arg(marker(id));
            }
            self.send(&pipeline).await?;
            // Said when all are written: they may be at several nodes.
            let mut said = Pipeline::new();
            said.cmd("HSET").arg(&meta).arg(kind_field(kind)).arg(1);
            self.send(&said).await?;
        }
        Ok(())
    }

    pub(super) async fn send(&self, pipeline: &Pipeline) -> Result<Vec<Value>, Refusal> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        match self.via {
            Via::One(connection) => {
                let replies = connection
                    .clone()
                    .send_packed_commands(pipeline, 0, pipeline.len())
                    .await
                    .map_err(|error| describe(&error))?;
                let is_part = self.part.is_some();
                let replies = replies.into_iter().map(reply);
                // What left this shard meanwhile is looked at where it goes.
                let stayed = replies
                    .filter(|reply| !(is_part && reply.as_ref().is_err_and(ServerError::is_of_a_slot)));
                let replies: Vec<_> = stayed.map(|value| value.map_err(refused)).collect::<Result<_, _>>()?;
                if is_part && replies.is_empty() {
                    return Err(Refusal::Unreachable("its slots are moving".into()));
                }
                Ok(replies)
            }
            Via::Shards(shards) => {
                let replies = nodes::send(shards, pipeline.cmd_iter().cloned(), None, ANSWER_WITHIN).await?;
                replies.into_iter().map(|reply| reply.map_err(refused)).collect()
            }
        }
    }
}

/// The member by which an index bucket says whose it is.
pub(super) fn marker(store_id: &str) -> String {
    format!("store:{store_id}")
}

fn kind_field(kind: &str) -> String {
    format!("kind:{kind}")
}

fn refused(error: ServerError) -> Refusal {
    match error {
        ServerError::NoPermission => Refusal::Human(
            "the Valkey user may not use what Pannier needs (NOPERM): allow it the keys pannier:* and the commands named in the \
             documentation of the ACL"
                .into(),
        ),
        error => Refusal::Unreachable(error.to_string()),
    }
}

/// The id of a new database: 32 hex digits.
///
/// # Errors
/// The system gives no randomness.
pub fn new_store_id() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| "the system gives no randomness".to_owned())?;
    Ok(hex(&bytes))
}
