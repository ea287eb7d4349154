//! The calls that a save is made of: begin, parts, the flip that makes it visible, and giving it up.

use tokio::time::Instant;

use super::{
    GENERATIONS_MAX, KEEP_GENERATIONS, PART_TIME, READERS, UPLOADS_MAX,
    keys::BlobKeys,
    name::{BlobName, KIND},
    scripts,
    store::{Store, millis, optional},
};
use crate::{
    error::{Error, Reason, Result},
    owner::reply::{self, Reply},
    valkey::{Lane, Op, decimal},
};

/// What the beginning of a save gives.
pub enum Begun {
    /// An upload under this generation.
    Upload(u64, Box<BlobKeys>),
    /// An earlier try of the same request has made this generation.
    Replayed(u64),
    /// The current generation has this content.
    Unchanged(u64),
}

/// What the end of an upload gives.
pub enum Flipped {
    /// It is the current generation.
    Saved { incarnation: u64, saved_ms: u64 },
    /// The current generation has this content.
    Unchanged(u64),
}

/// Which upload of which blob.
#[derive(Clone, Copy)]
pub struct UploadId {
    pub generation: u64,
    /// HMAC of the request id.
    pub request: [u8; 16],
}

impl Store {
    /// Begins an upload.
    pub async fn begin(
        &self,
        name: &BlobName,
        request: [u8; 16],
        digest: Option<[u8; 16]>,
        fence: u64,
        deadline: Instant,
    ) -> Result<Begun> {
        let (index, now_ms) = self.index(name, deadline).await?;
        if index.is_none() {
            self.link.confirm_absent(KIND, name.tag(), deadline).await?;
            self.listing().making(name.tag(), deadline).await?;
        } else {
            self.look_soon(name, now_ms, deadline).await?;
        }
        let keyring = self.keyring.current();
        let args = vec![
            request.to_vec(),
            digest.map_or_else(Vec::new, |digest| digest.to_vec()),
            optional(fence),
            decimal(millis(PART_TIME)),
            BlobKeys::propose(&keyring, name),
            keyring.index_name_key().seal_name(name.tag(), &name.namespace, &name.blob),
            decimal(UPLOADS_MAX),
            decimal(GENERATIONS_MAX),
        ];
        let keys = vec![name.index(&self.link), name.session(&self.link)];
        let op = Op::Script { script: &scripts::BEGIN, keys, args };
        let mut reply = Reply::parse(self.link.run(Lane::Small, op, deadline).await?)?;
        match reply.status() {
            "OK" => {
                let generation = reply.number()?;
                let wrapped = reply.bytes()?.unwrap_or_default();
                // Once more: the sweeper may have been taking the last of it away.
                self.look_soon(name, now_ms, deadline).await?;
                let keys = self.keys(name, &wrapped, deadline).await?;
                Ok(Begun::Upload(generation, Box::new(keys)))
            }
            "REPLAYED" => Ok(Begun::Replayed(reply.number()?)),
            "UNCHANGED" => Ok(Begun::Unchanged(reply.number()?)),
            "FULL" => Err(Error::new(
                Reason::Quota,
                format!(
                    "{GENERATIONS_MAX} generations of this blob wait to be collected: save it less often, one that falls \
                     out stays for its readers"
                ),
            )
            .retry_after(READERS / 10)),
            _ => Err(self.refused(name, reply, deadline).await),
        }
    }

    /// Writes one part and counts it.
    pub async fn write_part(
        &self,
        name: &BlobName,
        upload: UploadId,
        number: u32,
        part: Vec<u8>,
        deadline: Instant,
    ) -> Result<()> {
        let args = vec![
            decimal(upload.generation),
            upload.request.to_vec(),
            decimal(u64::from(number)),
            part,
            decimal(millis(PART_TIME)),
        ];
        let keys = vec![name.index(&self.link), name.part(&self.link, upload.generation, number)];
        let op = Op::Script { script: &scripts::PART, keys, args };
        let reply = Reply::parse(self.link.run(Lane::Bulk, op, deadline).await?)?;
        match reply.status() {
            "OK" => Ok(()),
            "GONE" => Err(gone()),
            "LOST" => Err(lost()),
            _ => Err(reply::unexpected()),
        }
    }

    /// Makes an upload visible.
    #[allow(clippy::too_many_arguments)] // each is one the script checks
    pub async fn flip(
        &self,
        name: &BlobName,
        upload: UploadId,
        fence: u64,
        (parts, stored): (u32, u64),
        digest: [u8; 16],
        (size, sealed_manifest): (u64, Vec<u8>),
        deadline: Instant,
    ) -> Result<Flipped> {
        let args = vec![
            decimal(upload.generation),
            upload.request.to_vec(),
            optional(fence),
            decimal(u64::from(parts)),
            decimal(stored),
            decimal(size),
            digest.to_vec(),
            sealed_manifest,
            decimal(KEEP_GENERATIONS),
            decimal(self.limits.max_history),
            decimal(millis(READERS)),
        ];
        let keys = vec![name.index(&self.link), name.manifests(&self.link), name.session(&self.link)];
        let op = Op::Script { script: &scripts::FLIP, keys, args };
        let mut reply = Reply::parse(self.link.run(Lane::Bulk, op, deadline).await?)?;
        match reply.status() {
            "OK" => Ok(Flipped::Saved { incarnation: reply.number()?, saved_ms: reply.number()? }),
            "UNCHANGED" => Ok(Flipped::Unchanged(reply.number()?)),
            "GONE" => Err(gone()),
            "LATE" => Err(Error::new(
                Reason::GenerationGone,
                "a save that was begun later has ended already: this older content was not put over it",
            )),
            "LOST" => Err(lost()),
            _ => Err(self.refused(name, reply, deadline).await),
        }
    }

    /// Gives an upload up (`None`: none was begun) and notes why. It is collected by the caller or by the sweeper.
    pub async fn abort(
        &self,
        name: &BlobName,
        upload: Option<UploadId>,
        error: Vec<u8>,
        deadline: Instant,
    ) -> Result<()> {
        let args = vec![
            upload.map_or_else(Vec::new, |upload| decimal(upload.generation)),
            upload.map_or_else(Vec::new, |upload| upload.request.to_vec()),
            error,
        ];
        let op = Op::Script { script: &scripts::ABORT, keys: vec![name.index(&self.link)], args };
        self.link.run(Lane::Bulk, op, deadline).await?;
        Ok(())
    }
}

fn gone() -> Error {
    Error::new(
        Reason::GenerationGone,
        "the upload was ended: by a delete, rollback or restore, by a newer try of the same request, by too many others, or \
         because it paused too long. The blob is as it was",
    )
}

fn lost() -> Error {
    Error::new(
        Reason::GenerationGone,
        "Valkey has lost a part of the upload: save again. The blob is as it was",
    )
}
