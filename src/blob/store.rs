//! Blobs in Valkey: what is read of them. Every decision is a script's.

use std::{sync::Arc, time::Duration};

use redis::{Value, cmd};
use tokio::time::Instant;

use super::{
    Limits, PART_TIME,
    body::PART,
    index::{BlobIndex, Generation},
    keys::BlobKeys,
    manifest::Manifest,
    name::{BlobName, KIND},
    pace::Pacer,
    scripts,
};
use crate::{
    crypto::SharedKeyring,
    error::{Error, Reason, Result},
    owner::{
        index::Index,
        keys::unwrap_error,
        reply::{self, Reply, micros},
    },
    session::Sessions,
    telemetry::{self, DecryptFailure},
    valkey::{Lane, Link, LinkError, Op, decimal},
};

/// The blobs of one database.
pub struct Store {
    pub(super) link: Link,
    pub(super) keyring: Arc<SharedKeyring>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) limits: Limits,
    pub(super) writes: Pacer,
    pub(super) reads: Pacer,
}

impl Store {
    /// The index of blobs.
    pub(super) fn listing(&self) -> Index<'_> {
        Index { link: &self.link, kind: KIND }
    }

    /// Reads the index and the server's clock (ms).
    pub async fn index(&self, name: &BlobName, deadline: Instant) -> Result<(Option<BlobIndex>, u64)> {
        let mut read = cmd("HGETALL");
        read.arg(name.index(&self.link));
        let ops = [Op::Cmd(read), Op::Cmd(cmd("TIME"))];
        let mut replies = self.link.read(Lane::Small, &ops, deadline).await?.into_iter();
        let mut next = || replies.next().unwrap_or_default();
        Ok((BlobIndex::parse(next())?, micros(&next())? / 1000))
    }

    /// The index, if there is one. Its absence is believed only once the database proves to be the right one.
    pub async fn found(&self, name: &BlobName, deadline: Instant) -> Result<Option<BlobIndex>> {
        let (index, _) = self.index(name, deadline).await?;
        if index.is_none() {
            self.link.confirm_absent(KIND, name.tag(), deadline).await?;
        }
        Ok(index)
    }

    /// Has the sweeper look at the owner soon, whatever becomes of what is done next.
    pub(super) async fn look_soon(&self, name: &BlobName, now_ms: u64, deadline: Instant) -> Result<()> {
        self.listing().set(name.tag(), now_ms + 2 * millis(PART_TIME), deadline).await
    }

    /// The keys of a blob, from their wrapping.
    pub async fn keys(&self, name: &BlobName, wrapped: &[u8], deadline: Instant) -> Result<BlobKeys> {
        match BlobKeys::unwrap(&self.keyring, name, wrapped) {
            Ok(keys) => Ok(keys),
            Err(error) => {
                let kind = (KIND, Reason::CorruptBlob);
                Err(unwrap_error(&self.link, &self.keyring, kind, wrapped, error, deadline).await)
            }
        }
    }

    /// The manifest of a generation.
    pub async fn manifest(
        &self,
        name: &BlobName,
        keys: &BlobKeys,
        generation: u64,
        deadline: Instant,
    ) -> Result<Manifest> {
        let mut read = cmd("HGET");
        read.arg(name.manifests(&self.link)).arg(generation);
        let sealed = match self.link.run(Lane::Small, Op::Cmd(read), deadline).await? {
            Value::BulkString(bytes) => Some(bytes),
            _ => None,
        };
        Manifest::open(keys, name, generation, sealed.as_deref())
    }

    /// The manifests of some generations, still sealed, in one write.
    pub async fn sealed_manifests(
        &self,
        asked: impl Iterator<Item = (&BlobName, u64)>,
        deadline: Instant,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let ops: Vec<_> = asked
            .map(|(name, generation)| {
                let mut read = cmd("HGET");
                read.arg(name.manifests(&self.link)).arg(generation);
                Op::Cmd(read)
            })
            .collect();
        let replies = self.link.read(Lane::Bulk, &ops, deadline).await?.into_iter();
        Ok(replies
            .map(|reply| match reply {
                Value::BulkString(bytes) => Some(bytes),
                _ => None,
            })
            .collect())
    }

    /// Notes in the background that a save was refused for want of room: what its blob is stays as it was.
    pub fn note_refusal(self: &Arc<Self>, name: &BlobName, error: &Error) {
        let worth = [Reason::ValkeyOutOfMemory, Reason::Quota];
        if !worth.contains(&error.reason()) {
            return;
        }
        let (store, name, error) = (Arc::clone(self), name.clone(), error.clone());
        tokio::spawn(async move {
            let until = Instant::now() + Duration::from_secs(5);
            let noted = async {
                let Some(index) = store.index(&name, until).await?.0 else { return Ok(()) };
                let keys = store.keys(&name, &index.wrapped_key, until).await?;
                let sealed = keys.seal_error(&name, &error);
                store.abort(&name, None, sealed, until).await
            };
            if let Err(error) = noted.await {
                tracing::debug!(owner = %name.short(), %error, "a refusal could not be noted");
            }
        });
    }

    /// Notes that a generation is damaged.
    pub async fn spoiled(&self, name: &BlobName, keys: &BlobKeys, generation: u64, error: &Error) {
        telemetry::decrypt_failed(DecryptFailure::Corrupt);
        tracing::error!(owner = %name.short(), generation, "a generation of a blob is damaged");
        let args = vec![decimal(generation), keys.seal_error(name, error)];
        let op = Op::Script { script: &scripts::SPOILED, keys: vec![name.index(&self.link)], args };
        if let Err(error) = self.link.run(Lane::Small, op, Instant::now() + Duration::from_secs(5)).await {
            tracing::debug!(%error, "that could not be noted");
        }
    }

    /// What a script's refusal means.
    pub(super) async fn refused(&self, name: &BlobName, mut reply: Reply, deadline: Instant) -> Error {
        match reply.status() {
            "HELD" => self.sessions.held(&name.namespace, &name.blob, deadline).await,
            "FENCED" => {
                telemetry::fenced(false);
                let deleted = reply.word().is_ok_and(|why| why == "DELETED");
                Error::new(
                    Reason::Fenced,
                    if deleted {
                        "the session of this name was deleted: nothing was changed"
                    } else {
                        "the session of this name has a newer owner: nothing was changed"
                    },
                )
            }
            _ => reply::unexpected(),
        }
    }

    /// The bytes of one part, when the rate allows it; `None` when it is not there.
    pub async fn read_part(
        &self,
        name: &BlobName,
        generation: u64,
        number: u32,
        patience: Duration,
    ) -> Result<Option<Vec<u8>>> {
        self.reads.take(PART).await;
        let mut read = cmd("GET");
        read.arg(name.part(&self.link, generation, number));
        match self.link.run(Lane::Bulk, Op::Cmd(read), Instant::now() + patience).await {
            Ok(Value::BulkString(bytes)) => Ok(Some(bytes)),
            Ok(_) => Ok(None),
            // Something that is no string was put there: as good as missing.
            Err(LinkError::Server(error)) if error.code() == "WRONGTYPE" => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The generation asked for, if it can be read: 0 is the current one.
pub fn readable(index: Option<&BlobIndex>, generation: u64) -> Result<(u64, &Generation)> {
    use super::index::State;
    let Some(index) = index else { return Err(not_found()) };
    if generation == 0 || generation == index.current {
        return index.live().ok_or_else(not_found);
    }
    match index.generations.get(&generation) {
        Some(found) if matches!(found.state, State::Kept | State::Dropped) => Ok((generation, found)),
        Some(found) if found.state == State::Archived => {
            Err(Error::new(Reason::GenerationGone, "the generation was deleted: restore its archive first"))
        }
        _ if index.current == 0 => Err(not_found()),
        _ => Err(not_kept()),
    }
}

/// 0 is nothing.
pub(super) fn optional(number: u64) -> Vec<u8> {
    if number == 0 { Vec::new() } else { decimal(number) }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn not_found() -> Error {
    Error::new(Reason::BlobNotFound, "there is no such blob")
}

pub(super) fn not_kept() -> Error {
    Error::new(
        Reason::GenerationGone,
        "there is no such generation (any more): `pannier blobs generations` lists those there are",
    )
}
