//! Fetching into a file, which is there whole or not at all.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use clap::Args;
use indicatif::ProgressBar;
use sha2::{Digest as _, Sha256};

use super::{Context, progress, unless_stalled, view};
use crate::{
    cli::{
        Format,
        outcome::{Failed, NO, Outcome, PROTOCOL},
        output::{self, json, shown},
    },
    proto::v1::{self, fetch_blob_response::Part},
};

/// Fetches a blob into a file: written beside it, verified, flushed to disk, and only then given its name.
#[derive(Args, Debug)]
pub struct Fetch {
    blob: String,
    file: PathBuf,
    /// Which one; without it the current one.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    generation: u64,
    /// Replace a file that is there.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    format: Format,
}

impl Fetch {
    pub async fn run(self, mut context: Context) -> Outcome {
        if !self.force && self.file.symlink_metadata().is_ok() {
            let file = shown(&self.file.to_string_lossy());
            return Err(Failed::new(NO, format!("{file} is there already: --force replaces it")));
        }
        let bar = progress(None);
        let mut part = PartFile::create(&self.file).map_err(|error| self.cannot(&error))?;
        let fetched = unless_stalled(&bar, self.receive(&mut context, &mut part, &bar)).await;
        bar.finish_and_clear();
        let info = fetched?;
        part.finish(&self.file).map_err(|error| self.cannot(&error))?;
        let blob = view::Blob::from(info);
        if self.format.json {
            return json(&blob);
        }
        output::note(&format!(
            "{}: generation {}, {}",
            shown(&self.file.to_string_lossy()),
            blob.generation,
            output::bytes(blob.size)
        ));
        Ok(())
    }

    fn cannot(&self, error: &io::Error) -> Failed {
        Failed::new(NO, format!("{}: {error}", shown(&self.file.to_string_lossy())))
    }

    async fn receive(
        &self,
        context: &mut Context,
        part: &mut PartFile,
        bar: &ProgressBar,
    ) -> Outcome<v1::BlobInfo> {
        let request = v1::FetchBlobRequest {
            namespace: context.namespace.clone(),
            blob: self.blob.clone(),
            generation: self.generation,
        };
        let mut stream = context.client.fetch_blob(request).await?.into_inner();
        let (mut info, mut finish, mut size, mut hash) = (None, None, 0, Sha256::new());
        while let Some(message) = stream.message().await? {
            match message.part {
                Some(Part::Info(begun)) => {
                    bar.set_length(begun.size);
                    info = Some(begun);
                }
                Some(Part::Chunk(chunk)) => {
                    part.file.write_all(&chunk.data).map_err(|error| self.cannot(&error))?;
                    hash.update(&chunk.data);
                    size += chunk.data.len() as u64;
                    bar.inc(chunk.data.len() as u64);
                }
                Some(Part::Finish(end)) => finish = Some(end),
                None => {}
            }
        }
        match (info, finish) {
            (Some(info), Some(end))
                if end.size == size
                    && info.size == size
                    && end.sha256[..] == hash.finalize()[..]
                    && info.sha256 == end.sha256 =>
            {
                Ok(info)
            }
            _ => Err(Failed::new(PROTOCOL, "what arrived is not whole: nothing was written")),
        }
    }
}

/// The file under another name, removed unless it is finished.
struct PartFile {
    file: File,
    path: PathBuf,
    done: bool,
}

impl PartFile {
    fn create(target: &Path) -> io::Result<Self> {
        let mut name = target.as_os_str().to_owned();
        name.push(format!(".part-{}", std::process::id()));
        let path = PathBuf::from(name);
        // It holds what signs a bot in: for its user alone.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path, done: false })
    }

    fn finish(mut self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, target)?;
        self.done = true;
        let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty());
        File::open(dir.unwrap_or_else(|| Path::new(".")))?.sync_all()
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_file(&self.path);
        }
    }
}
