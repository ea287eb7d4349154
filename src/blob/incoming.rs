//! The stream of a save: one header, chunks, one finish, each in time.

use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::{
    IDLE,
    manifest::Manifest,
    save::{About, Upload, client_gone},
    transfers::Transfer,
    upload::Flipped,
};
use crate::{
    error::{Error, Reason, Result},
    proto::v1::{self, save_blob_request::Part},
    rpc::unreadable,
};

/// A save's stream of requests.
pub struct Incoming<'a> {
    pub stream: Streaming<v1::SaveBlobRequest>,
    pub transfer: &'a Transfer,
}

impl Incoming<'_> {
    /// The next message; it must come in time.
    pub async fn next(&mut self) -> Result<Part> {
        let next = async {
            match timeout(IDLE, self.stream.message()).await {
                Ok(Ok(Some(v1::SaveBlobRequest { part: Some(part) }))) => Ok(part),
                Ok(Ok(Some(_))) => Err(protocol("a message without a part")),
                Ok(Ok(None)) => Err(protocol(
                    "the stream ended without `finish`, or the client went away: nothing was stored",
                )),
                Ok(Err(status)) => Err(broken(&status)),
                Err(_) => Err(Error::new(
                    Reason::DeadlineExceeded,
                    "no message for 30 s: the save was given up, the blob is as it was",
                )),
            }
        };
        self.transfer.unless_cut(next).await
    }
}

pub fn protocol(what: &str) -> Error {
    Error::new(Reason::Protocol, format!("{what} (a save is one header, chunks, one finish)"))
}

/// The stream of a client broke, or held a message that is none.
fn broken(status: &Status) -> Error {
    unreadable(status, ("chunk.data", "a chunk must be at most 256 KiB")).unwrap_or_else(client_gone)
}

/// The content, up to its end.
pub async fn receive(
    upload: &mut Upload,
    mut incoming: Incoming<'_>,
    about: &About,
) -> Result<(Flipped, Manifest)> {
    loop {
        match incoming.next().await? {
            Part::Chunk(chunk) => upload.write(&chunk.data).await?,
            Part::Finish(v1::SaveBlobFinish { size, sha256 }) => {
                return upload.finish(about, size, &sha256).await;
            }
            Part::Header(_) => return Err(protocol("a second header")),
        }
    }
}
