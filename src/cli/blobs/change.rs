//! Going back, deleting, restoring.

use clap::Args;

use super::{
    Context,
    view::{Archive, Blob},
};
use crate::{
    cli::{
        outcome::{Failed, NO, Outcome},
        output::{self, shown},
    },
    proto::v1::{self, delete_blob_request::Mode},
};

/// Makes a kept generation the current one; `generations` lists them. A save in progress is ended.
#[derive(Args, Debug)]
pub struct Rollback {
    blob: String,
    generation: u64,
    /// The fence of the session of this name, for whoever holds it.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    fence: u64,
}

/// Deletes a blob: an archive for 7 days, or with --shred at once and for good.
#[derive(Args, Debug)]
pub struct Delete {
    blob: String,
    /// Destroy the key and unlink everything at once, with every archive.
    #[arg(long)]
    shred: bool,
    /// Only this incarnation; with --shred it may be an archive's.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    incarnation: u64,
    /// The fence of the session of this name, for whoever holds it.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    fence: u64,
    /// Do not ask for the name.
    #[arg(long)]
    yes: bool,
}

/// Brings an archive back, with all its generations.
#[derive(Args, Debug)]
pub struct Restore {
    blob: String,
    /// Which one; without it the newest.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    incarnation: u64,
    /// Turn the blob of that name into an archive instead of refusing.
    #[arg(long)]
    replace: bool,
    /// The fence of the session of this name, for whoever holds it.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    fence: u64,
}

impl Rollback {
    pub async fn run(self, mut context: Context) -> Outcome {
        let request = v1::RollbackBlobRequest {
            namespace: context.namespace.clone(),
            blob: self.blob.clone(),
            generation: self.generation,
            fence: self.fence,
        };
        context.client.rollback_blob(context.target.request(request)).await?;
        output::note(&format!("{} is at generation {} again", shown(&self.blob), self.generation));
        Ok(())
    }
}

impl Delete {
    pub async fn run(self, mut context: Context) -> Outcome {
        let what = if self.shred {
            "This destroys the blob for good, with all its generations and archives"
        } else {
            "This deletes the blob; `pannier blobs restore` brings it back within 7 days"
        };
        output::confirm(self.yes, what, &self.blob)?;
        let mode = if self.shred { Mode::Shred } else { Mode::Soft };
        let request = v1::DeleteBlobRequest {
            namespace: context.namespace.clone(),
            blob: self.blob.clone(),
            mode: mode.into(),
            incarnation: self.incarnation,
            fence: self.fence,
        };
        let answer = context.client.delete_blob(context.target.request(request)).await?.into_inner();
        if !answer.deleted {
            return Err(Failed::new(NO, "there was nothing to delete"));
        }
        match answer.archive.map(Archive::from) {
            Some(archive) => output::note(&format!(
                "{} is an archive now (incarnation {}, {} generations) until {}",
                shown(&self.blob),
                archive.incarnation,
                archive.generations,
                archive.purge_at.as_deref().unwrap_or("its purge")
            )),
            None => output::note(&format!("{} is gone for good", shown(&self.blob))),
        }
        output::note_of_oldest(answer.oldest_archive_dropped);
        Ok(())
    }
}

impl Restore {
    pub async fn run(self, mut context: Context) -> Outcome {
        let request = v1::RestoreBlobRequest {
            namespace: context.namespace.clone(),
            blob: self.blob.clone(),
            incarnation: self.incarnation,
            replace: self.replace,
            fence: self.fence,
        };
        let answer = context.client.restore_blob(context.target.request(request)).await?.into_inner();
        if let Some(blob) = answer.blob.map(Blob::from) {
            output::note(&format!(
                "{} is back: generation {}, {}",
                shown(&self.blob),
                blob.generation,
                output::bytes(blob.size)
            ));
        }
        output::note_of_oldest(answer.oldest_archive_dropped);
        Ok(())
    }
}
