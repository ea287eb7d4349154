//! One fetch: the next part is read while this one is proven and sent.

use std::sync::Arc;

use bytes::Bytes;
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};
use tonic::Status;

use super::{
    CALL, IDLE,
    body::{Layout, Unpacker},
    index::State,
    keys::BlobKeys,
    manifest::{Manifest, corrupt},
    name::BlobName,
    store::{Store, not_kept},
    transfers::Transfer,
};
use crate::{
    error::{Error, Reason, Result},
    proto::v1::{self, fetch_blob_response::Part},
};

/// What a fetch sends.
pub type Message = std::result::Result<v1::FetchBlobResponse, Status>;

/// A generation on its way out.
pub struct Fetch {
    pub store: Arc<Store>,
    pub name: BlobName,
    pub keys: BlobKeys,
    pub generation: u64,
    pub manifest: Manifest,
    pub transfer: Transfer,
}

impl Fetch {
    /// Sends it all; the last message is the finish, or the reason why there is none.
    pub async fn run(self, info: v1::BlobInfo, client: mpsc::Sender<Message>) {
        let sent = self.transfer.unless_cut(self.send(info, &client)).await;
        if let Err(error) = sent {
            if error.reason() == Reason::CorruptBlob {
                self.store.spoiled(&self.name, &self.keys, self.generation, &error).await;
            }
            // Nobody may be there to hear it.
            let _ = client.send(Err(error.to_status())).await;
        }
    }

    async fn send(&self, info: v1::BlobInfo, client: &mpsc::Sender<Message>) -> Result<()> {
        let layout = Layout::of(self.manifest.size);
        let mut unpacker = Unpacker::new(layout);
        give(client, Part::Info(info)).await?;
        let mut ahead = Some(self.read(0));
        for number in 0..layout.parts() {
            let reading = ahead.take().unwrap_or_else(|| self.read(number));
            let part =
                reading.await.unwrap_or_else(|_| Err(Error::new(Reason::Internal, "a part was not read")))?;
            if number + 1 < layout.parts() {
                ahead = Some(self.read(number + 1));
            }
            let Some(part) = part else { return Err(self.missing().await) };
            let plaintext = unpacker.open(&self.keys, &self.name, self.generation, &part)?;
            if !plaintext.is_empty() {
                give(client, Part::Chunk(v1::BlobChunk { data: plaintext.into() })).await?;
            }
        }
        if unpacker.finish() != self.manifest.sha256 {
            return Err(corrupt("the content is not what was saved"));
        }
        let sha256 = Bytes::copy_from_slice(&self.manifest.sha256);
        give(client, Part::Finish(v1::FetchBlobFinish { size: self.manifest.size, sha256 })).await
    }

    fn read(&self, number: u32) -> JoinHandle<Result<Option<Vec<u8>>>> {
        let (store, name, generation) = (Arc::clone(&self.store), self.name.clone(), self.generation);
        tokio::spawn(async move { store.read_part(&name, generation, number, CALL).await })
    }

    /// A part is not there: the generation was collected meanwhile, or it is damaged, or the database is another.
    async fn missing(&self) -> Error {
        let index = match self.store.found(&self.name, Instant::now() + CALL).await {
            Ok(index) => index.unwrap_or_default(),
            Err(error) => return error,
        };
        match index.generations.get(&self.generation) {
            Some(found) if found.state != State::Garbage => corrupt("a part is missing"),
            _ => not_kept(),
        }
    }
}

/// A client that takes nothing for a while is given up.
async fn give(client: &mpsc::Sender<Message>, part: Part) -> Result<()> {
    let message = Ok(v1::FetchBlobResponse { part: Some(part) });
    match tokio::time::timeout(IDLE, client.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Error::new(Reason::Cancelled, "the client went away")),
        Err(_) => Err(Error::new(Reason::DeadlineExceeded, "the client took nothing for 30 s")),
    }
}
