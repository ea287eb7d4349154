//! One upload: parts go out while the next one fills, and what is not finished is given up, whatever ends it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{task::JoinHandle, time::Instant};

use super::{
    CALL,
    body::Packer,
    keys::BlobKeys,
    limits::CHUNK_MAX,
    manifest::Manifest,
    name::{BlobName, Digest},
    store::Store,
    upload::{Flipped, UploadId},
};
use crate::error::{Error, Reason, Result};

/// What giving up may take; what it does not do is the sweeper's.
const GIVE_UP: Duration = Duration::from_secs(10);

/// A save between its header and its end.
pub struct Upload {
    store: Arc<Store>,
    name: BlobName,
    id: UploadId,
    keys: Arc<BlobKeys>,
    packer: Option<Packer>,
    parts: u32,
    stored: u64,
    /// The part on its way.
    writing: Option<JoinHandle<Result<()>>>,
    over: bool,
}

/// What the header says of the content.
#[derive(Default)]
pub struct About {
    pub content_digest: Vec<u8>,
    pub labels: BTreeMap<String, String>,
    pub fence: u64,
}

impl Upload {
    /// For a generation that was begun.
    pub fn new(store: Arc<Store>, name: BlobName, id: UploadId, keys: Box<BlobKeys>) -> Self {
        let packer = Some(Packer::new(&keys, &name, id.generation));
        let keys = Arc::from(keys);
        Self { store, name, id, keys, packer, parts: 0, stored: 0, writing: None, over: false }
    }

    /// Takes more of the content.
    pub async fn write(&mut self, data: &[u8]) -> Result<()> {
        if data.len() > CHUNK_MAX {
            return Err(Error::too_large("chunk.data", "a chunk must be at most 256 KiB"));
        }
        let Some(packer) = &mut self.packer else { return Ok(()) };
        let most = self.store.limits.max_blob;
        if packer.size() + data.len() as u64 > most {
            return Err(Error::too_large(
                "chunk",
                format!("a blob must be at most {most} bytes (--max-blob)"),
            )
            .with("limit", most));
        }
        for part in packer.push(data) {
            self.send(part).await?;
        }
        Ok(())
    }

    /// Sends a part when the one before has arrived and the rate allows it.
    async fn send(&mut self, part: Vec<u8>) -> Result<()> {
        self.store.writes.take(part.len()).await;
        self.arrived().await?;
        let (store, name, id, number) = (Arc::clone(&self.store), self.name.clone(), self.id, self.parts);
        self.parts += 1;
        self.stored += part.len() as u64;
        // A task of its own: it goes on while the next part is being received.
        self.writing = Some(tokio::spawn(async move {
            store.write_part(&name, id, number, part, Instant::now() + CALL).await
        }));
        Ok(())
    }

    async fn arrived(&mut self) -> Result<()> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        writing.await.unwrap_or_else(|_| Err(Error::new(Reason::Internal, "a part was not written")))
    }

    /// Checks what has arrived against what the client says, and makes it visible.
    pub async fn finish(&mut self, about: &About, size: u64, sha256: &[u8]) -> Result<(Flipped, Manifest)> {
        let Some(packer) = self.packer.take() else {
            return Err(Error::new(Reason::Protocol, "the save was finished already"));
        };
        let received = packer.size();
        if size != received {
            return Err(Error::bad_field(
                "finish.size",
                format!("is {size}, but {received} bytes arrived: nothing was stored"),
            ));
        }
        let (part, hash) = packer.finish();
        if sha256 != hash {
            return Err(Error::bad_field("finish.sha256", "is not that of what arrived: nothing was stored"));
        }
        self.send(part).await?;
        self.arrived().await?;
        let digest = if about.content_digest.is_empty() {
            Digest::Sha256(&hash)
        } else {
            Digest::Given(&about.content_digest)
        };
        let digest = self.name.digest(&self.store.keyring.current(), &digest);
        let manifest = Manifest {
            size,
            sha256: hash,
            content_digest: about.content_digest.clone(),
            labels: about.labels.clone(),
        };
        let sealed = manifest.seal(&self.keys, &self.name, self.id.generation);
        let counted = (self.parts, self.stored);
        let until = Instant::now() + CALL;
        let flip =
            self.store.flip(&self.name, self.id, about.fence, counted, digest, (size, sealed), until).await?;
        match flip {
            Flipped::Saved { .. } => self.over = true,
            Flipped::Unchanged(_) => self.give_up(None),
        }
        Ok((flip, manifest))
    }

    /// Gives the upload up because of `error`.
    pub fn failed(&mut self, error: &Error) {
        self.give_up(Some(error));
    }

    /// Has the parts collected, in the background. When Valkey is away that is left to the sweeper.
    fn give_up(&mut self, why: Option<&Error>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let why = why.map(|error| self.keys.seal_error(&self.name, error));
        let (store, name, id) = (Arc::clone(&self.store), self.name.clone(), self.id);
        tokio::spawn(async move {
            let until = Instant::now() + GIVE_UP;
            match store.abort(&name, Some(id), why.unwrap_or_default(), until).await {
                Ok(()) => store.collect_soon(&name),
                Err(error) => tracing::debug!(owner = %name.short(), %error, "left to the sweeper"),
            }
        });
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.failed(&client_gone());
    }
}

/// The client ended the call before it was over.
pub fn client_gone() -> Error {
    Error::new(Reason::Cancelled, "the client went away before the save was finished")
}
