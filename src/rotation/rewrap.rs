//! Wraps every root key under the primary key, one compare-and-set each. It may be broken off anywhere and begun again, also by
//! several at once: what is under the primary key is skipped, and a key that somebody else moved meanwhile is looked at again.

use std::time::Duration;

use futures_util::future::try_join_all;
use redis::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    Rotation,
    canaries::{note_rewrapped, prove},
    registry::sidecars,
    scripts,
    walk::{self, BATCH, KINDS, Kind, Owner},
};
use crate::{
    blob,
    crypto::{Context, Keyring, OwnerTag, rewrap},
    error::{Error, Reason, Result},
    owner::{
        catalog::{self, BUCKETS},
        keys::unwrap_error,
    },
    valkey::{Lane, Op},
};

/// Owners looked at in a second, where nobody says.
pub const RATE_DEFAULT: u32 = 1_000;
/// The most that can be asked for.
pub const RATE_MAX: u32 = 100_000;
/// Between two words on how far it is.
const SAY_EVERY: Duration = Duration::from_millis(250);
/// What one batch may take, a reconnection included.
const BATCH_WITHIN: Duration = Duration::from_secs(30);
/// How often a key that keeps changing is looked at.
const TRIES: u32 = 4;
/// Failures that are told one by one.
const FAILURES: u64 = 100;

/// How far it is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The key that everything comes under.
    pub key_id: u32,
    /// Owners listed at the beginning.
    pub total: u64,
    /// Owners looked at.
    pub looked_at: u64,
    /// Root keys wrapped anew.
    pub moved: u64,
    /// Root keys that were under the primary key already.
    pub skipped: u64,
    /// Root keys that stay as they are.
    pub failed: u64,
    /// Those since the last word.
    pub failures: Vec<Failure>,
    /// Every owner was looked at.
    pub done: bool,
}

/// A root key that does not unwrap.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Of the owner.
    pub kind: &'static str,
    /// Empty when it does not open.
    pub namespace: String,
    /// Empty when it does not open.
    pub name: String,
    /// Why.
    pub error: Error,
}

impl Rotation {
    /// Does it, at most `rate` owners a second, telling `out` how far it is; ends when nobody listens any more.
    ///
    /// # Errors
    /// Before anything is written: a live sidecar lacks the primary key, or the keyring is not the database's. Later: Valkey is
    /// away, another key has become the primary, or this sidecar stops. What was moved stays moved.
    pub async fn rewrap(&self, rate: u32, out: &mpsc::Sender<Progress>) -> Result<()> {
        let keyring = self.keyring.current();
        let within = Instant::now() + BATCH_WITHIN;
        if let Err(mismatch) = prove(&self.link, &keyring, within).await? {
            return Err(Error::new(Reason::KeyMismatch, mismatch.to_string()));
        }
        let key_id = keyring.primary_id();
        let alive = sidecars(&self.link, &keyring, within).await?;
        if let Some(lacks) = alive.iter().find(|sidecar| !sidecar.opens(key_id)) {
            return Err(Error::new(
                Reason::WrongState,
                format!(
                    "the sidecar {} cannot open what is wrapped under key {key_id}: copy the keyring to it and send it a SIGHUP \
                     first",
                    lacks.shown()
                ),
            ));
        }
        let total = walk::total(&self.link, within).await?;
        let mut run = Run {
            rotation: self,
            keyring: &keyring,
            progress: Progress { key_id, total, ..Progress::default() },
            out,
            said: Instant::now(),
        };
        tracing::info!(key_id, total, rate, "wrapping root keys anew");
        let ended = tokio::select! {
            ended = run.all(rate.clamp(1, RATE_MAX)) => ended,
            () = self.stopping.cancelled() => Err(Error::new(
                Reason::Draining,
                "this sidecar is stopping: send it again to another one; what was moved stays so",
            )),
        };
        let Progress { moved, skipped, failed, done, .. } = run.progress;
        tracing::info!(key_id, moved, skipped, failed, done, "wrapping root keys anew has ended");
        if done {
            // For the metrics; whoever listens has his answer.
            let _ = self.count(Instant::now() + BATCH_WITHIN).await;
        }
        ended
    }
}

struct Run<'a> {
    rotation: &'a Rotation,
    keyring: &'a Keyring,
    progress: Progress,
    out: &'a mpsc::Sender<Progress>,
    said: Instant,
}

/// What became of one root key.
enum Became {
    Moved,
    Skipped,
    Failed(Error),
    /// It is another one by now, or gone.
    Changed,
}

impl Run<'_> {
    async fn all(&mut self, rate: u32) -> Result<()> {
        // At a low rate fewer at once, so that they come evenly.
        let batch = usize::try_from(rate / 10).unwrap_or(BATCH).clamp(1, BATCH);
        for kind in KINDS {
            for bucket in 0..BUCKETS {
                let tags = catalog::bucket(&self.rotation.link, kind.name, bucket, soon()).await?;
                for tags in tags.chunks(batch) {
                    let next = Instant::now() + Duration::from_secs(tags.len() as u64) / rate;
                    self.batch(kind, tags).await?;
                    if !self.say(false).await {
                        return Ok(());
                    }
                    sleep_until(next).await;
                }
            }
        }
        if self.progress.failed == 0 {
            // From now on a keyring without this key is an old copy. A full Valkey takes no note; the next run makes it.
            if let Err(error) = note_rewrapped(&self.rotation.link, self.progress.key_id, soon()).await {
                tracing::warn!(%error, "that everything was wrapped anew could not be noted: old keyrings are not refused yet");
            }
        }
        self.progress.done = true;
        self.say(true).await;
        Ok(())
    }

    async fn batch(&mut self, kind: Kind, tags: &[OwnerTag]) -> Result<()> {
        if self.rotation.keyring.current().primary_id() != self.progress.key_id {
            return Err(Error::new(Reason::Busy, "another key has become the primary: send it again"));
        }
        let link = &self.rotation.link;
        let mut owners = walk::read(link, kind, tags, soon()).await?;
        self.progress.looked_at += tags.len() as u64;
        for attempt in 1..=TRIES {
            let became = try_join_all(owners.iter().map(async |owner| self.owner(kind, owner).await)).await?;
            let mut again = Vec::new();
            for (owner, became) in owners.iter().zip(became) {
                // Looked at once more as a whole. What goes on changing is being moved by others.
                let more = attempt < TRIES && became.iter().any(|one| matches!(one, Became::Changed));
                if more {
                    again.push(owner.tag);
                }
                for one in became {
                    match one {
                        Became::Moved => self.progress.moved += 1,
                        Became::Skipped | Became::Changed if !more => self.progress.skipped += 1,
                        Became::Failed(error) if !more => self.fail(kind, owner, error),
                        _ => {}
                    }
                }
            }
            if again.is_empty() {
                break;
            }
            owners = walk::read(link, kind, &again, soon()).await?;
        }
        Ok(())
    }

    async fn owner(&self, kind: Kind, owner: &Owner) -> Result<Vec<Became>> {
        let wrapped = owner.live.iter().chain(&owner.archived);
        let Some((namespace, name)) = self.name(owner) else {
            return Ok(wrapped
                .map(|_| Became::Failed(Error::new(corrupt(kind), "the owner's sealed name does not open")))
                .collect());
        };
        let context = Context::new(kind.name, &[namespace.as_bytes(), name.as_bytes()]);
        try_join_all(wrapped.map(async |wrapped| self.one(kind, owner, wrapped, &context).await)).await
    }

    async fn one(&self, kind: Kind, owner: &Owner, wrapped: &[u8], context: &Context) -> Result<Became> {
        let link = &self.rotation.link;
        let anew = match rewrap(self.keyring, wrapped, context) {
            Ok(Some(anew)) => anew,
            Ok(None) => return Ok(Became::Skipped),
            Err(error) => {
                let shared = &self.rotation.keyring;
                let what = (kind.name, corrupt(kind));
                let error = unwrap_error(link, shared, what, wrapped, error, soon()).await;
                return if is_of_valkey(&error) { Err(error) } else { Ok(Became::Failed(error)) };
            }
        };
        let op = Op::Script {
            script: &scripts::REWRAP,
            keys: vec![owner.key.clone()],
            args: vec![wrapped.to_vec(), anew.to_vec()],
        };
        match link.run(Lane::Bulk, op, soon()).await? {
            Value::Int(1) => Ok(Became::Moved),
            _ => Ok(Became::Changed),
        }
    }

    fn name(&self, owner: &Owner) -> Option<(String, String)> {
        self.keyring.index_name_key().open_name(&owner.tag, &owner.sealed_name)
    }

    fn fail(&mut self, kind: Kind, owner: &Owner, error: Error) {
        self.progress.failed += 1;
        let (reason, _) = error.reason().wire();
        tracing::warn!(kind = kind.name, owner = %&owner.tag.to_string()[..8], reason, "a root key stays as it is");
        if self.progress.failed <= FAILURES {
            let (namespace, name) = self.name(owner).unwrap_or_default();
            self.progress.failures.push(Failure { kind: kind.name, namespace, name, error });
        }
    }

    /// Tells how far it is, now and then or `now`; false when nobody listens any more.
    async fn say(&mut self, now: bool) -> bool {
        if !now && self.said.elapsed() < SAY_EVERY {
            return !self.out.is_closed();
        }
        self.said = Instant::now();
        let progress = self.progress.clone();
        self.progress.failures.clear();
        self.out.send(progress).await.is_ok()
    }
}

fn soon() -> Instant {
    Instant::now() + BATCH_WITHIN
}

fn corrupt(kind: Kind) -> Reason {
    if kind.name == blob::KIND { Reason::CorruptBlob } else { Reason::CorruptRecord }
}

/// Whether it says something of Valkey, and nothing of the key.
fn is_of_valkey(error: &Error) -> bool {
    !matches!(
        error.reason(),
        Reason::KeyMismatch | Reason::NewerFormat | Reason::CorruptRecord | Reason::CorruptBlob
    )
}
