//! Saving a file.

use std::{io::Read as _, path::PathBuf};

use bytes::Bytes;
use clap::Args;
use indicatif::ProgressBar;
use sha2::{Digest as _, Sha256};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_stream::wrappers::ReceiverStream;

use super::{Context, progress, unless_stalled, view};
use crate::{
    cli::{
        Format,
        context::request_id,
        outcome::{Failed, NO, Outcome, PROTOCOL, SOFTWARE},
        output::{self, json, shown},
    },
    proto::v1::{self, save_blob_request::Part, save_blob_response},
};

const CHUNK: usize = 256 * 1024;

/// Saves a file as the blob's next generation. It becomes visible whole or not at all.
#[derive(Args, Debug)]
pub struct Save {
    blob: String,
    file: PathBuf,
    /// The fence of the session of this name, for whoever holds it.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    fence: u64,
    #[command(flatten)]
    format: Format,
}

impl Save {
    pub async fn run(self, mut context: Context) -> Outcome {
        let cannot = |error: std::io::Error| {
            Failed::new(NO, format!("{}: {error}", shown(&self.file.to_string_lossy())))
        };
        let file = std::fs::File::open(&self.file).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        if !metadata.is_file() {
            return Err(Failed::new(NO, format!("{} is no file", shown(&self.file.to_string_lossy()))));
        }
        let request_id = request_id()
            .map_err(|error| Failed::new(SOFTWARE, format!("the system gives no randomness: {error}")))?;
        let bar = progress(Some(metadata.len()));
        let header = v1::SaveBlobHeader {
            namespace: context.namespace.clone(),
            blob: self.blob.clone(),
            request_id,
            fence: self.fence,
            ..v1::SaveBlobHeader::default()
        };
        let (sender, receiver) = mpsc::channel(4);
        let reading = send(file, header, sender, bar.clone());
        let saving =
            async { Ok(context.client.save_blob(ReceiverStream::new(receiver)).await?.into_inner()) };
        let saved = unless_stalled(&bar, saving).await;
        bar.finish_and_clear();
        let saved = match saved {
            Ok(saved) => saved,
            // What was wrong with the file says more than that the stream broke.
            Err(failed) => {
                reading.abort();
                return Err(match reading.await {
                    Ok(Err(error)) => cannot(error),
                    _ => failed,
                });
            }
        };
        let unchanged = saved.outcome() == save_blob_response::Outcome::Unchanged;
        let Some(blob) = saved.blob.map(view::Blob::from) else {
            return Err(Failed::new(PROTOCOL, "the sidecar answered without saying what it saved"));
        };
        if self.format.json {
            return json(&view::Saved { outcome: if unchanged { "unchanged" } else { "saved" }, blob });
        }
        let what = if unchanged { "has this content already" } else { "is saved" };
        output::note(&format!("{} {what}: generation {}", shown(&self.blob), blob.generation));
        Ok(())
    }
}

/// Sends the file in the background; reading it blocks, so it has a thread.
fn send(
    mut file: std::fs::File,
    header: v1::SaveBlobHeader,
    sender: mpsc::Sender<v1::SaveBlobRequest>,
    bar: ProgressBar,
) -> JoinHandle<std::io::Result<()>> {
    tokio::task::spawn_blocking(move || {
        let send = |part| sender.blocking_send(v1::SaveBlobRequest { part: Some(part) }).is_ok();
        let (mut hash, mut size) = (Sha256::new(), 0);
        let mut going = send(Part::Header(header));
        while going {
            let mut data = Vec::with_capacity(CHUNK);
            (&mut file).take(CHUNK as u64).read_to_end(&mut data)?;
            if data.is_empty() {
                let sha256 = Bytes::copy_from_slice(&hash.finalize());
                send(Part::Finish(v1::SaveBlobFinish { size, sha256 }));
                return Ok(());
            }
            hash.update(&data);
            size += data.len() as u64;
            bar.inc(data.len() as u64);
            // Nobody takes it any more: the answer is there.
            going = send(Part::Chunk(v1::BlobChunk { data: data.into() }));
        }
        Ok(())
    })
}
