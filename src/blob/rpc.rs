//! The door of the blob capability: proto in, proto out.

use std::sync::Arc;

use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Streaming};

use super::{
    Blobs, CALL, convert,
    fetch::{Fetch, Message},
    incoming::{Incoming, protocol, receive},
    index::{BlobIndex, State},
    keys::BlobKeys,
    limits,
    manifest::Manifest,
    name::{BlobName, Digest},
    save::{About, Upload},
    store::{self, Store, readable},
    upload::{Begun, Flipped, UploadId},
};
use crate::{
    error::{Error, Reason, Result},
    owner::catalog::{self, Place},
    proto::v1::{
        self,
        blob_service_server::{BlobService, BlobServiceServer},
        delete_blob_request::Mode,
        save_blob_request::Part,
        save_blob_response::Outcome,
    },
    rpc::{MESSAGE_MAX, OWNERS_DEFAULT, Reply, UNARY, answer, durability_out},
};

/// Messages of a fetch that wait for the client, each up to 256 KiB.
const AHEAD: usize = 2;

/// The gRPC service.
pub fn service(blobs: Arc<Blobs>) -> BlobServiceServer<Handler> {
    BlobServiceServer::new(Handler { blobs })
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX)
}

/// Handles blob calls.
pub struct Handler {
    blobs: Arc<Blobs>,
}

impl Handler {
    fn store(&self) -> &Arc<Store> {
        &self.blobs.store
    }

    fn name(&self, field: &str, namespace: String, blob: String) -> Result<BlobName> {
        limits::blob(field, &blob)?;
        Ok(BlobName::new(&self.store().keyring.current(), limits::namespace(namespace)?, blob))
    }

    async fn save(&self, stream: Streaming<v1::SaveBlobRequest>) -> Result<v1::SaveBlobResponse> {
        let transfer = self.blobs.transfers.begin()?;
        let mut incoming = Incoming { stream, transfer: &transfer };
        let Part::Header(header) = incoming.next().await? else {
            return Err(protocol("the first message is no header"));
        };
        let name = self.name("header.blob", header.namespace, header.blob)?;
        limits::request_id("header.request_id", &header.request_id)?;
        limits::content_digest("header.content_digest", &header.content_digest)?;
        let about = About {
            labels: limits::labels("header.labels", header.labels)?,
            content_digest: header.content_digest.to_vec(),
            fence: header.fence,
        };
        let store = self.store();
        let keyring = store.keyring.current();
        let request = name.request(&keyring, &header.request_id);
        let digest = (!about.content_digest.is_empty())
            .then(|| name.digest(&keyring, &Digest::Given(&about.content_digest)));
        let begun = store.begin(&name, request, digest, about.fence, Instant::now() + CALL).await;
        match begun {
            Ok(Begun::Upload(generation, keys)) => {
                let id = UploadId { generation, request };
                let mut upload = Upload::new(Arc::clone(store), name.clone(), id, keys);
                match receive(&mut upload, incoming, &about).await {
                    Ok((Flipped::Saved { incarnation, saved_ms }, manifest)) => {
                        // What earlier tries have left, if a sidecar died.
                        store.collect_soon(&name);
                        let blob = convert::saved(&name, id.generation, incarnation, saved_ms, manifest);
                        Ok(self.saved(Outcome::Saved, blob, false))
                    }
                    Ok((Flipped::Unchanged(current), _)) => {
                        let blob = self.info(&name, current).await?;
                        Ok(self.saved(Outcome::Unchanged, blob, false))
                    }
                    Err(error) => {
                        upload.failed(&error);
                        Err(error)
                    }
                }
            }
            Ok(Begun::Replayed(generation)) => {
                let blob = self.info(&name, generation).await?;
                Ok(self.saved(Outcome::Saved, blob, true))
            }
            Ok(Begun::Unchanged(current)) => {
                let blob = self.info(&name, current).await?;
                Ok(self.saved(Outcome::Unchanged, blob, false))
            }
            Err(error) => {
                store.note_refusal(&name, &error);
                Err(error)
            }
        }
    }

    fn saved(&self, outcome: Outcome, blob: v1::BlobInfo, replayed: bool) -> v1::SaveBlobResponse {
        let durability = durability_out(self.store().link.durability()).into();
        v1::SaveBlobResponse { outcome: outcome.into(), blob: Some(blob), replayed, durability }
    }

    /// A generation as it is now.
    async fn info(&self, name: &BlobName, generation: u64) -> Result<v1::BlobInfo> {
        let deadline = Instant::now() + CALL;
        let store = self.store();
        let index = store.found(name, deadline).await?.unwrap_or_default();
        let Some(found) = index.generations.get(&generation) else { return Err(store::not_kept()) };
        let keys = store.keys(name, &index.wrapped_key, deadline).await?;
        let manifest = store.manifest(name, &keys, generation, deadline).await?;
        Ok(convert::info(name, &index, generation, found, manifest))
    }

    async fn fetch(
        &self,
        request: v1::FetchBlobRequest,
        deadline: Instant,
    ) -> Result<mpsc::Receiver<Message>> {
        let transfer = self.blobs.transfers.begin()?;
        let name = self.name("blob", request.namespace, request.blob)?;
        let store = Arc::clone(self.store());
        let index = store.found(&name, deadline).await?;
        let (generation, found) = readable(index.as_ref(), request.generation)?;
        let index = index.as_ref().map_or_else(BlobIndex::default, Clone::clone);
        let keys = store.keys(&name, &index.wrapped_key, deadline).await?;
        let manifest = match store.manifest(&name, &keys, generation, deadline).await {
            Err(error) if error.reason() == Reason::CorruptBlob => {
                store.spoiled(&name, &keys, generation, &error).await;
                return Err(error);
            }
            manifest => manifest?,
        };
        let info = convert::info(&name, &index, generation, found, manifest.clone());
        let (sender, receiver) = mpsc::channel(AHEAD);
        let fetch = Fetch { store, name, keys, generation, manifest, transfer };
        tokio::spawn(fetch.run(info, sender));
        Ok(receiver)
    }

    async fn stat(&self, request: v1::StatBlobRequest, deadline: Instant) -> Result<v1::StatBlobResponse> {
        let name = self.name("blob", request.namespace, request.blob)?;
        let store = self.store();
        let Some(index) = store.found(&name, deadline).await? else {
            return Ok(v1::StatBlobResponse::default());
        };
        let keys = store.keys(&name, &index.wrapped_key, deadline).await;
        let blob = match index.live() {
            None => None,
            Some((generation, found)) => {
                let keys = keys.as_ref().map_err(Clone::clone)?;
                let manifest = store.manifest(&name, keys, generation, deadline).await?;
                Some(convert::info(&name, &index, generation, found, manifest))
            }
        };
        let error = keys.ok().and_then(|keys| keys.open_error(&name, &index.sealed_error));
        let uploads = index.generations.values().filter(|found| found.state == State::Uploading).count();
        Ok(v1::StatBlobResponse {
            exists: blob.is_some(),
            blob,
            last_error: error.map(|(reason, message)| v1::BlobError {
                reason,
                message,
                at: crate::rpc::timestamp(index.error_ms),
            }),
            archives: convert::archives(&name, &index),
            uploads: u32::try_from(uploads).unwrap_or(u32::MAX),
        })
    }

    async fn list(&self, request: v1::ListBlobsRequest, deadline: Instant) -> Result<v1::ListBlobsResponse> {
        let namespace = limits::namespace(request.namespace)?;
        let limit = limits::page(request.limit, OWNERS_DEFAULT)?;
        let place = Place::parse(&request.cursor)?;
        let store = self.store();
        let keyring = store.keyring.current();
        let deleted = request.deleted;
        let wanted =
            |index: &BlobIndex| if deleted { !index.archives.is_empty() } else { index.current != 0 };
        let owners =
            catalog::owners((&store.link, &keyring), &namespace, place, limit, wanted, deadline).await?;
        let mut response = v1::ListBlobsResponse {
            blobs: Vec::new(),
            archives: Vec::new(),
            cursor: owners.cursor,
            corrupt: owners.corrupt,
        };
        let named = |blob| BlobName::new(&keyring, namespace.clone(), blob);
        let found: Vec<_> = owners.found.into_iter().map(|(blob, index)| (named(blob), index)).collect();
        if deleted {
            response.archives =
                found.iter().flat_map(|(name, index)| convert::archives(name, index)).collect();
            return Ok(response);
        }
        let asked = found.iter().map(|(name, index)| (name, index.current));
        let manifests = store.sealed_manifests(asked, deadline).await?;
        for ((name, index), sealed) in found.iter().zip(manifests) {
            let keys = BlobKeys::unwrap(&store.keyring, name, &index.wrapped_key).ok();
            let opened = keys.zip(index.live()).and_then(|(keys, (generation, found))| {
                let manifest = Manifest::open(&keys, name, generation, sealed.as_deref()).ok()?;
                Some(convert::info(name, index, generation, found, manifest))
            });
            match opened {
                Some(info) => response.blobs.push(info),
                None => response.corrupt += 1,
            }
        }
        Ok(response)
    }

    async fn generations(
        &self,
        request: v1::ListGenerationsRequest,
        deadline: Instant,
    ) -> Result<v1::ListGenerationsResponse> {
        let name = self.name("blob", request.namespace, request.blob)?;
        let store = self.store();
        let mut response = v1::ListGenerationsResponse::default();
        let Some(index) = store.found(&name, deadline).await? else { return Ok(response) };
        let shown: Vec<_> = index
            .generations
            .iter()
            .rev()
            .filter(|(_, found)| !matches!(found.state, State::Uploading | State::Garbage))
            .collect();
        if shown.is_empty() {
            return Ok(response);
        }
        let keys = store.keys(&name, &index.wrapped_key, deadline).await?;
        let asked = shown.iter().map(|(generation, _)| (&name, **generation));
        let manifests = store.sealed_manifests(asked, deadline).await?;
        for ((generation, found), sealed) in shown.into_iter().zip(manifests) {
            match Manifest::open(&keys, &name, *generation, sealed.as_deref()) {
                Ok(manifest) => {
                    response.generations.push(convert::info(&name, &index, *generation, found, manifest));
                }
                Err(_) => response.corrupt += 1,
            }
        }
        Ok(response)
    }

    async fn rollback(
        &self,
        request: v1::RollbackBlobRequest,
        deadline: Instant,
    ) -> Result<v1::RollbackBlobResponse> {
        let name = self.name("blob", request.namespace, request.blob)?;
        let generation = limits::generation("generation", request.generation)?;
        self.store().rollback(&name, generation, request.fence, deadline).await?;
        self.store().collect_soon(&name);
        Ok(v1::RollbackBlobResponse { blob: Some(self.info(&name, generation).await?) })
    }

    async fn delete(
        &self,
        request: v1::DeleteBlobRequest,
        deadline: Instant,
    ) -> Result<v1::DeleteBlobResponse> {
        let mode = Mode::try_from(request.mode).map_err(|_| Error::bad_field("mode", "is no known way"))?;
        let name = self.name("blob", request.namespace, request.blob)?;
        let store = self.store();
        let mut response = v1::DeleteBlobResponse::default();
        if mode == Mode::Shred {
            response.deleted = store.shred(&name, request.incarnation, request.fence, deadline).await?;
        } else if let Some((incarnation, dropped)) =
            store.delete(&name, request.incarnation, request.fence, deadline).await?
        {
            let index = store.index(&name, deadline).await?.0.unwrap_or_default();
            let archives = convert::archives(&name, &index);
            response = v1::DeleteBlobResponse {
                deleted: true,
                archive: archives.into_iter().find(|archive| archive.incarnation == incarnation),
                oldest_archive_dropped: dropped,
            };
        }
        store.collect_soon(&name);
        Ok(response)
    }

    async fn restore(
        &self,
        request: v1::RestoreBlobRequest,
        deadline: Instant,
    ) -> Result<v1::RestoreBlobResponse> {
        let name = self.name("blob", request.namespace, request.blob)?;
        let store = self.store();
        let oldest_archive_dropped =
            store.restore(&name, request.incarnation, request.replace, request.fence, deadline).await?;
        store.collect_soon(&name);
        let current = store.index(&name, deadline).await?.0.unwrap_or_default().current;
        let blob = Some(self.info(&name, current).await?);
        Ok(v1::RestoreBlobResponse { blob, oldest_archive_dropped })
    }
}

#[tonic::async_trait]
impl BlobService for Handler {
    async fn save_blob(
        &self,
        request: Request<Streaming<v1::SaveBlobRequest>>,
    ) -> Reply<v1::SaveBlobResponse> {
        Ok(Response::new(self.save(request.into_inner()).await?))
    }

    type FetchBlobStream = ReceiverStream<Message>;

    async fn fetch_blob(&self, request: Request<v1::FetchBlobRequest>) -> Reply<Self::FetchBlobStream> {
        let receiver = self.fetch(request.into_inner(), Instant::now() + UNARY).await?;
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn stat_blob(&self, request: Request<v1::StatBlobRequest>) -> Reply<v1::StatBlobResponse> {
        answer(request, UNARY, |request, deadline| self.stat(request, deadline)).await
    }

    async fn list_blobs(&self, request: Request<v1::ListBlobsRequest>) -> Reply<v1::ListBlobsResponse> {
        answer(request, UNARY, |request, deadline| self.list(request, deadline)).await
    }

    async fn list_generations(
        &self,
        request: Request<v1::ListGenerationsRequest>,
    ) -> Reply<v1::ListGenerationsResponse> {
        answer(request, UNARY, |request, deadline| self.generations(request, deadline)).await
    }

    async fn rollback_blob(
        &self,
        request: Request<v1::RollbackBlobRequest>,
    ) -> Reply<v1::RollbackBlobResponse> {
        answer(request, UNARY, |request, deadline| self.rollback(request, deadline)).await
    }

    async fn delete_blob(&self, request: Request<v1::DeleteBlobRequest>) -> Reply<v1::DeleteBlobResponse> {
        answer(request, UNARY, |request, deadline| self.delete(request, deadline)).await
    }

    async fn restore_blob(&self, request: Request<v1::RestoreBlobRequest>) -> Reply<v1::RestoreBlobResponse> {
        answer(request, UNARY, |request, deadline| self.restore(request, deadline)).await
    }
}
