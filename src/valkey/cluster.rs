//! Keeps up with a cluster: which node serves which slot, a connection to each of them, and the database as a whole.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use redis::{AsyncConnectionConfig, PushInfo, aio::MultiplexedConnection};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    StartError,
    error::ServerError,
    exchange::Inner,
    keys::BUCKETS,
    lanes::{ask, describe, one},
    reconnect::{Said, changed, keep},
    shard::Shard,
    source::Source,
    store_identity::{Refusal, Rule, Store, Via},
    target::{Endpoint, Place},
    topology::{Node, Shards, View},
};

/// Between two looks while all is well.
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// The same while it is not.
const LOOK_SOON: Duration = Duration::from_millis(200);
/// No two looks are closer than this, however many calls ask for one.
const LOOKS_APART: Duration = Duration::from_millis(50);
/// What one node may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Between two looks for a database that was lost.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// What the checks of the whole database may take.
const CHECK_WITHIN: Duration = Duration::from_secs(10);
/// Nodes that are asked at most; those of a large cluster agree.
const ASKED: usize = 8;
/// A node that only takes slots over is forgotten after this long.
const GUEST_FOR: Duration = Duration::from_secs(120);

/// Keeps a cluster.
pub(super) struct Cluster {
    pub inner: Arc<Inner>,
    pub seeds: Vec<Endpoint>,
    pub pushes: mpsc::UnboundedSender<PushInfo>,
    pub messages: mpsc::UnboundedReceiver<PushInfo>,
    pub shutdown: CancellationToken,
}

impl Cluster {
    /// Runs until the shutdown.
    pub async fn run(self) {
        let Self { inner, seeds, pushes, mut messages, shutdown } = self;
        let (newcomers, mut met) = mpsc::unbounded_channel();
        inner.connects(newcomers);
        let deliver = async {
            while let Some(push) = messages.recv().await {
                inner.hub.deliver(push);
            }
        };
        let mut keeper = Keeper {
            inner: &inner,
            seeds,
            pushes,
            keepers: JoinSet::new(),
            guests: HashMap::new(),
            home: None,
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = keeper.run(&mut met) => {}
            () = deliver => {}
        }
        for shard in &inner.shards().all {
            inner.down(shard, "shutting down");
        }
        inner.close();
    }
}

struct Keeper<'a> {
    inner: &'a Arc<Inner>,
    seeds: Vec<Endpoint>,
    pushes: mpsc::UnboundedSender<PushInfo>,
    /// A task for each shard. They end with this.
    keepers: JoinSet<()>,
    /// Shards that serve no slot yet, and when they were met.
    guests: HashMap<u64, Instant>,
    /// Where the subscriptions are.
    home: Option<Arc<Shard>>,
}

impl Keeper<'_> {
    async fn run(&mut self, met: &mut mpsc::UnboundedReceiver<Arc<Shard>>) {
        let mut said = Said::default();
        loop {
            while let Ok(shard) = met.try_recv() {
                self.meet(shard);
            }
            match self.look().await {
                Ok(view) => {
                    self.apply(&view);
                    said = Said::default();
                    self.move_home().await;
                    if let Err(why) = self.check().await {
                        return self.give_up(why).await;
                    }
                }
                Err(Unseen { why, hopeless: true }) if !self.inner.has_started() => {
                    return self.give_up(why).await;
                }
                Err(Unseen { why, .. }) => {
                    if said.is_news(&why) {
                        tracing::warn!(valkey = %self.inner.label, %why, "no node tells what the cluster is like");
                    }
                    self.inner.astray(&why);
                }
            }
            self.inner.looks.send_modify(|looks| *looks += 1);
            while self.keepers.try_join_next().is_some() {}
            tokio::time::sleep(LOOKS_APART).await;
            let pause = match self.inner.is_store_changed() {
                true => CHECK_EVERY,
                false if self.is_well() => LOOK_EVERY,
                false => LOOK_SOON,
            };
            tokio::select! {
                () = self.inner.look.notified() => {}
                Some(shard) = met.recv() => self.meet(shard),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Only a human can go on. The process is about to exit; nothing is to be tried meanwhile.
    async fn give_up(&self, why: String) {
        tracing::error!("{why}");
        self.inner.fail_start(StartError::Config(why));
        std::future::pending::<()>().await;
    }

    fn is_well(&self) -> bool {
        let shards = self.inner.shards();
        self.inner.has_started()
            && !self.inner.is_store_changed()
            && shards.is_whole()
            && shards.all.iter().all(|shard| shard.current().is_some())
    }

    /// What those who answer say; if none does, what the first of the URL's nodes says.
    async fn look(&self) -> Result<View, Unseen> {
        let shards = self.inner.shards();
        let asked: Vec<_> =
            shards.all.iter().filter_map(|shard| Some((shard, shard.connected()?))).take(ASKED).collect();
        let answers = join_all(asked.into_iter().map(|(shard, generation)| async move {
            let host = Place::parse(&shard.label, "")?.host;
            let view = ask_connected(generation.probe_lane(), &host).await.ok()?;
            Some((shard.label.clone(), view))
        }));
        let views: Vec<_> = answers.await.into_iter().flatten().collect();
        if let Some(view) = View::of_all(&views) {
            return Ok(view);
        }
        ask_seeds(&self.seeds).await.map(|(view, _)| view)
    }

    /// Connects to who serves slots now, and lets go who does not.
    fn apply(&mut self, view: &View) {
        let now = Instant::now();
        self.guests.retain(|_, met| now.duration_since(*met) < GUEST_FOR);
        let (inner, guests) = (self.inner, &mut self.guests);
        let (mut made, mut gone) = (Vec::new(), Vec::new());
        inner.update_shards(|known| {
            let mut next = Shards::of(view, |node| {
                let label = node.place.to_string();
                known.at(&label).cloned().unwrap_or_else(|| {
                    let shard = inner.new_shard(label);
                    made.push((Arc::clone(&shard), node.clone()));
                    shard
                })
            });
            for shard in &known.all {
                if next.all.iter().any(|other| other.id == shard.id) {
                    guests.remove(&shard.id);
                } else if guests.contains_key(&shard.id) {
                    next = next.with_guest(Arc::clone(shard));
                } else {
                    gone.push(Arc::clone(shard));
                }
            }
            next
        });
        for shard in gone {
            tracing::info!(valkey = %shard.label, "it serves no slot of the cluster any more");
            shard.retire();
        }
        for (shard, node) in made {
            self.keep(shard, &node);
        }
    }

    /// A call was sent on to a node that serves no slot yet.
    fn meet(&mut self, shard: Arc<Shard>) {
        self.guests.insert(shard.id, Instant::now());
        let own = self.seeds.first().and_then(Endpoint::host).unwrap_or_default();
        if let Some(place) = Place::parse(&shard.label, &own) {
            self.keep(shard, &Node { place, hostname: None });
        }
    }

    fn keep(&mut self, shard: Arc<Shard>, node: &Node) {
        let Some(template) = self.seeds.first() else { return };
        let names = template.names_at(&node.place, node.hostname.as_deref());
        let endpoints = names.iter().filter_map(|name| template.at(&node.place, name).ok()).collect();
        let (inner, pushes) = (Arc::clone(self.inner), self.pushes.clone());
        self.keepers.spawn(async move {
            keep(&inner, &shard, &mut Source::Node { endpoints, turn: 0 }, &pushes).await;
        });
    }

    /// Subscriptions are at one node; when its slot goes to another they go along.
    async fn move_home(&mut self) {
        let home = self.inner.home();
        let Some(shard) = home.filter(|home| self.home.as_ref().is_none_or(|before| before.id != home.id))
        else {
            return;
        };
        // One that is not connected yet subscribes when it is.
        if let Some(generation) = shard.connected() {
            let _ = timeout(ANSWER_WITHIN, self.inner.hub.resume(&generation)).await;
        }
        if let Some(generation) = self.home.take().and_then(|before| before.connected()) {
            let _ = timeout(ANSWER_WITHIN, self.inner.hub.leave(generation.probe_lane())).await;
        }
        self.home = Some(shard);
    }

    /// Accepts the database once all of it can be seen, and again when it was lost. `Err`: a human must decide.
    async fn check(&self) -> Result<(), String> {
        let inner = self.inner;
        let shards = inner.shards();
        if inner.has_started() && !inner.is_store_changed() {
            return Ok(());
        }
        if !shards.is_whole() || shards.all.is_empty() {
            inner.astray("some slots of the cluster are served by no node");
            return Ok(());
        }
        if shards.all.iter().any(|shard| shard.connected().is_none()) {
            return Ok(());
        }
        let store = Store::new(Via::Shards(&shards), &inner.names, &inner.kinds);
        let look = async {
            let Some(id) = inner.store_id() else {
                if let Some(why) = inner.config.lacks_durability(inner.report().facts.durability) {
                    return Err(Refusal::Human(why));
                }
                let id = store.accept(&Rule::External { init: inner.config.init }).await?;
                store.accept_keys(&inner.keyring).await?;
                return Ok(id);
            };
            store.check(id, 0, BUCKETS).await.map(|()| id.to_owned())
        };
        match timeout(CHECK_WITHIN, look).await {
            Ok(Ok(id)) => {
                if inner.is_store_changed() {
                    tracing::warn!("the database is back");
                }
                inner.accept_store(id);
            }
            Ok(Err(Refusal::Human(why))) if !inner.has_started() => return Err(why),
            Ok(Err(Refusal::Changed(why))) if !inner.has_started() => return Err(why),
            Ok(Err(Refusal::Human(why) | Refusal::Changed(why))) => changed(inner, &why),
            Ok(Err(Refusal::Unreachable(why))) => inner.astray(&why),
            Err(_) => inner.astray("no answer while checking the database"),
        }
        Ok(())
    }
}

/// Why a node did not tell what the cluster is like.
struct Unseen {
    why: String,
    /// It never will: a human must change something.
    hopeless: bool,
}

impl From<String> for Unseen {
    fn from(why: String) -> Self {
        Self { why, hopeless: false }
    }
}

impl From<&str> for Unseen {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

/// What a cluster is like, and the node of its URL that told.
pub(super) async fn view_of(seeds: &[Endpoint]) -> Result<(View, Endpoint), String> {
    ask_seeds(seeds).await.map_err(|unseen| unseen.why)
}

async fn ask_seeds(seeds: &[Endpoint]) -> Result<(View, Endpoint), Unseen> {
    let mut whys = Vec::new();
    let mut hopeless = true;
    for seed in seeds {
        match timeout(ANSWER_WITHIN, ask_seed(seed)).await.unwrap_or_else(|_| Err("no answer".into())) {
            Ok(view) => return Ok((view, seed.clone())),
            Err(unseen) => {
                hopeless &= unseen.hopeless;
                whys.push(format!("{seed}: {}", unseen.why));
            }
        }
    }
    Err(Unseen { why: whys.join("; "), hopeless })
}

async fn ask_connected(connection: MultiplexedConnection, host: &str) -> Result<View, Unseen> {
    timeout(ANSWER_WITHIN, view(connection, host)).await.unwrap_or_else(|_| Err("no answer".into()))
}

async fn ask_seed(seed: &Endpoint) -> Result<View, Unseen> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let connection = seed.connect(config).await.map_err(|error| describe(&error))?;
    view(connection, &seed.host().unwrap_or_default()).await
}

async fn view(connection: MultiplexedConnection, host: &str) -> Result<View, Unseen> {
    let mut question = redis::cmd("CLUSTER");
    question.arg("SLOTS");
    let hopeless = |why: &str| Unseen { why: why.to_owned(), hopeless: true };
    let reply = ask(connection, &one(question)).await?.map_err(|error| match error {
        ServerError::NoPermission => hopeless("the ACL forbids CLUSTER SLOTS: allow +cluster|slots"),
        ServerError::Other { detail, .. } if detail.contains("cluster support disabled") => {
            hopeless("it is no node of a cluster: start without --cluster")
        }
        error => error.to_string().into(),
    })?;
    View::parse(&reply, host).ok_or_else(|| "it knows no node that serves slots".into())
}
