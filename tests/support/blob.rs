//! A client of the blob service that believes nothing: what it fetches is checked against the finish message.

use std::time::Duration;

use pannier::proto::v1::{
    self, blob_service_client::BlobServiceClient, fetch_blob_response, save_blob_request::Part,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};

use super::{Options, Sidecar, Valkey, ValkeyOptions, attach::Refused};

/// With a Valkey of the test's own, at any rate.
pub async fn start() -> (Valkey, Sidecar, Blobs) {
    start_with(Vec::new()).await
}

pub async fn start_with(args: Vec<String>) -> (Valkey, Sidecar, Blobs) {
    let valkey = Valkey::start(ValkeyOptions::default());
    let args = [vec!["--bulk-rate".to_owned(), "0".to_owned()], args].concat();
    let sidecar = Sidecar::start(Options { args, ..Options::with(&valkey) }).await;
    let blobs = sidecar.blobs();
    (valkey, sidecar, blobs)
}

/// The parts of all blobs in Valkey.
pub fn parts(valkey: &Valkey) -> Vec<String> {
    valkey.keys("*:b:*").into_iter().filter(|key| !key.ends_with(":b:m")).collect()
}

/// Refused with this code and for this reason.
pub fn is(refused: &Refused, code: tonic::Code, reason: &str) {
    assert_eq!((refused.code, refused.reason.as_str()), (code, reason), "{refused:?}");
}

/// Bytes of one chunk.
pub const CHUNK: usize = 256 * 1024;

/// `size` bytes that do not compress, the same for the same seed.
pub fn content(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(size + 8);
    while out.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(size);
    out
}

/// A request id that no other call uses.
pub fn request_id() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("request-{:08}-{:08}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A header with everything at its default.
pub fn header(blob: &str) -> v1::SaveBlobHeader {
    v1::SaveBlobHeader { blob: blob.into(), request_id: request_id(), ..Default::default() }
}

pub fn chunk(data: &[u8]) -> Part {
    Part::Chunk(v1::BlobChunk { data: data.to_vec().into() })
}

pub fn finish(content: &[u8]) -> Part {
    let sha256 = Sha256::digest(content).to_vec().into();
    Part::Finish(v1::SaveBlobFinish { size: content.len() as u64, sha256 })
}

/// A save that is sent by hand.
pub struct Saving {
    sender: mpsc::Sender<v1::SaveBlobRequest>,
    pub answer: tokio::task::JoinHandle<Result<v1::SaveBlobResponse, Refused>>,
}

impl Saving {
    /// Says whether anybody takes it still.
    pub async fn send(&self, part: Part) -> bool {
        self.sender.send(v1::SaveBlobRequest { part: Some(part) }).await.is_ok()
    }

    /// Ends the stream and waits for the answer.
    pub async fn end(self) -> Result<v1::SaveBlobResponse, Refused> {
        drop(self.sender);
        tokio::time::timeout(Duration::from_secs(60), self.answer).await.expect("an answer").unwrap()
    }
}

/// A fetch that is taken message by message.
pub struct Fetching {
    stream: Streaming<v1::FetchBlobResponse>,
    info: Option<v1::BlobInfo>,
    pub content: Vec<u8>,
    finish: Option<v1::FetchBlobFinish>,
}

impl Fetching {
    /// Takes one message; false at the end.
    pub async fn step(&mut self) -> Result<bool, Refused> {
        let message = self.stream.message().await.map_err(|status| Refused::of_status(&status))?;
        let Some(message) = message else { return Ok(false) };
        assert!(self.finish.is_none(), "the finish is last");
        match message.part.expect("a part") {
            fetch_blob_response::Part::Info(first) => self.info = Some(first),
            fetch_blob_response::Part::Chunk(chunk) => {
                assert!((1..=CHUNK).contains(&chunk.data.len()));
                self.content.extend_from_slice(&chunk.data);
            }
            fetch_blob_response::Part::Finish(finish) => self.finish = Some(finish),
        }
        Ok(true)
    }

    /// The rest of it. What ends without an error is whole.
    pub async fn end(mut self) -> Result<(v1::BlobInfo, Vec<u8>), Refused> {
        while self.step().await? {}
        let (info, end) = (self.info.expect("info first"), self.finish.expect("OK only after a finish"));
        assert_eq!(end.size, self.content.len() as u64);
        assert_eq!(info.size, end.size);
        assert_eq!(end.sha256[..], Sha256::digest(&self.content)[..]);
        assert_eq!(info.sha256, end.sha256);
        Ok((info, self.content))
    }
}

#[derive(Clone)]
pub struct Blobs {
    pub raw: BlobServiceClient<Channel>,
}

impl Blobs {
    pub fn new(channel: Channel) -> Self {
        let raw = BlobServiceClient::new(channel)
            .max_decoding_message_size(8 << 20)
            .max_encoding_message_size(8 << 20);
        Self { raw }
    }

    pub async fn begin(&self, header: v1::SaveBlobHeader) -> Saving {
        let (sender, receiver) = mpsc::channel(4);
        let mut client = self.raw.clone();
        let answer = tokio::spawn(async move {
            let answer = client.save_blob(ReceiverStream::new(receiver)).await;
            answer.map(tonic::Response::into_inner).map_err(|status| Refused::of_status(&status))
        });
        let saving = Saving { sender, answer };
        saving.send(Part::Header(header)).await;
        saving
    }

    pub async fn save_as(
        &self,
        header: v1::SaveBlobHeader,
        content: &[u8],
    ) -> Result<v1::SaveBlobResponse, Refused> {
        let saving = self.begin(header).await;
        for data in content.chunks(CHUNK) {
            if !saving.send(chunk(data)).await {
                break;
            }
        }
        saving.send(finish(content)).await;
        saving.end().await
    }

    pub async fn save(&self, blob: &str, content: &[u8]) -> Result<v1::BlobInfo, Refused> {
        Ok(self.save_as(header(blob), content).await?.blob.expect("info"))
    }

    pub async fn fetch_generation(
        &self,
        blob: &str,
        generation: u64,
    ) -> Result<(v1::BlobInfo, Vec<u8>), Refused> {
        self.fetch_as(v1::FetchBlobRequest { blob: blob.into(), generation, ..Default::default() }).await
    }

    pub async fn fetch_as(&self, request: v1::FetchBlobRequest) -> Result<(v1::BlobInfo, Vec<u8>), Refused> {
        self.begin_fetch(request).await?.end().await
    }

    pub async fn begin_fetch(&self, request: v1::FetchBlobRequest) -> Result<Fetching, Refused> {
        let answer = self.raw.clone().fetch_blob(request).await;
        let stream = answer.map_err(|status| Refused::of_status(&status))?.into_inner();
        Ok(Fetching { stream, info: None, content: Vec::new(), finish: None })
    }

    pub async fn fetch(&self, blob: &str) -> Result<Vec<u8>, Refused> {
        Ok(self.fetch_generation(blob, 0).await?.1)
    }

    pub async fn stat(&self, blob: &str) -> Result<v1::StatBlobResponse, Refused> {
        let request = v1::StatBlobRequest { blob: blob.into(), ..Default::default() };
        let answer = self.raw.clone().stat_blob(request).await;
        answer.map(tonic::Response::into_inner).map_err(|status| Refused::of_status(&status))
    }

    pub async fn generations(&self, blob: &str) -> Vec<v1::BlobInfo> {
        let request = v1::ListGenerationsRequest { blob: blob.into(), ..Default::default() };
        self.raw.clone().list_generations(request).await.unwrap().into_inner().generations
    }

    pub async fn rollback(&self, blob: &str, generation: u64, fence: u64) -> Result<v1::BlobInfo, Refused> {
        let request = v1::RollbackBlobRequest { blob: blob.into(), generation, fence, ..Default::default() };
        let answer = self.raw.clone().rollback_blob(request).await;
        answer
            .map(|answer| answer.into_inner().blob.expect("info"))
            .map_err(|status| Refused::of_status(&status))
    }

    pub async fn delete_as(&self, request: v1::DeleteBlobRequest) -> Result<v1::DeleteBlobResponse, Refused> {
        let answer = self.raw.clone().delete_blob(request).await;
        answer.map(tonic::Response::into_inner).map_err(|status| Refused::of_status(&status))
    }

    pub async fn delete(&self, blob: &str) -> Result<v1::DeleteBlobResponse, Refused> {
        self.delete_as(v1::DeleteBlobRequest { blob: blob.into(), ..Default::default() }).await
    }

    pub async fn shred(&self, blob: &str, incarnation: u64) -> Result<v1::DeleteBlobResponse, Refused> {
        let mode = v1::delete_blob_request::Mode::Shred.into();
        self.delete_as(v1::DeleteBlobRequest { blob: blob.into(), mode, incarnation, ..Default::default() })
            .await
    }

    pub async fn restore(
        &self,
        blob: &str,
        incarnation: u64,
        replace: bool,
    ) -> Result<v1::RestoreBlobResponse, Refused> {
        let request =
            v1::RestoreBlobRequest { blob: blob.into(), incarnation, replace, ..Default::default() };
        let answer = self.raw.clone().restore_blob(request).await;
        answer.map(tonic::Response::into_inner).map_err(|status| Refused::of_status(&status))
    }

    pub async fn list(&self, deleted: bool) -> v1::ListBlobsResponse {
        let request = v1::ListBlobsRequest { deleted, ..Default::default() };
        self.raw.clone().list_blobs(request).await.unwrap().into_inner()
    }
}
