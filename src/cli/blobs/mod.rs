//! `pannier blobs`: looking at blobs, saving and fetching them, going back to an earlier one, through the running sidecar.

mod change;
mod fetch;
mod save;
mod view;

use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    Format,
    connect::Channel,
    context::Place,
    listing::{self, Page, warn_of},
    outcome::{Failed, Outcome, UNAVAILABLE},
    output::{self, json, table},
};
use crate::proto::v1::{self, blob_service_client::BlobServiceClient};

type Client = BlobServiceClient<Channel>;
/// What every subcommand works with.
type Context = super::context::Context<Client>;

/// A transfer that does not move for this long is given up: longer than what the sidecar waits.
const STALLED: Duration = Duration::from_secs(60);

/// Looks at blobs (session archives and the like), saves and fetches them, goes back to earlier ones.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier blobs list --json
  pannier blobs save RemoteAuth-bot-1 archive.zip
  pannier blobs fetch RemoteAuth-bot-1 archive.zip
  pannier blobs generations RemoteAuth-bot-1
  pannier blobs rollback RemoteAuth-bot-1 1790000000000000
  pannier blobs delete RemoteAuth-bot-1         an archive for 7 days; `restore` brings it back")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the blobs of the namespace.
    List {
        /// Those that `restore` can bring back instead.
        #[arg(long)]
        deleted: bool,
        #[command(flatten)]
        format: Format,
    },
    Save(save::Save),
    Fetch(fetch::Fetch),
    /// Lists all generations of a blob, newest first, and how its last save or fetch that failed did so.
    Generations {
        blob: String,
        #[command(flatten)]
        format: Format,
    },
    Rollback(change::Rollback),
    Delete(change::Delete),
    Restore(change::Restore),
}

pub async fn run(arguments: Arguments) -> Outcome {
    let context = arguments.place.context(|channel, most| {
        Client::new(channel).max_decoding_message_size(most).max_encoding_message_size(most)
    })?;
    match arguments.command {
        Command::List { deleted: false, format } => context.list(format).await,
        Command::List { deleted: true, format } => context.deleted(format).await,
        Command::Save(save) => save.run(context).await,
        Command::Fetch(fetch) => fetch.run(context).await,
        Command::Generations { blob, format } => context.generations(blob, format).await,
        Command::Rollback(rollback) => rollback.run(context).await,
        Command::Delete(delete) => delete.run(context).await,
        Command::Restore(restore) => restore.run(context).await,
    }
}

impl Context {
    /// A page of a listing.
    async fn page(&mut self, cursor: String, deleted: bool) -> Outcome<v1::ListBlobsResponse> {
        let request = v1::ListBlobsRequest { namespace: self.namespace.clone(), cursor, limit: 500, deleted };
        Ok(self.client.list_blobs(self.target.request(request)).await?.into_inner())
    }

    async fn list(mut self, format: Format) -> Outcome {
        let blobs = listing::all(async |cursor| {
            let page = self.page(cursor, false).await?;
            Ok(Page { items: page.blobs, corrupt: page.corrupt, cursor: page.cursor })
        });
        let mut blobs: Vec<_> = blobs.await?.into_iter().map(view::Blob::from).collect();
        blobs.sort_by(|a, b| a.blob.cmp(&b.blob));
        if format.json {
            return json(&blobs);
        }
        let header = ["blob", "size", "generation", "saved"];
        table(&header, blobs.iter().map(view::Blob::row).collect())
    }

    async fn deleted(mut self, format: Format) -> Outcome {
        let archives = listing::all(async |cursor| {
            let page = self.page(cursor, true).await?;
            Ok(Page { items: page.archives, corrupt: page.corrupt, cursor: page.cursor })
        });
        let mut archives: Vec<_> = archives.await?.into_iter().map(view::Archive::from).collect();
        archives.sort_by(|a, b| (&a.blob, a.incarnation).cmp(&(&b.blob, b.incarnation)));
        if format.json {
            return json(&archives);
        }
        let header = ["blob", "incarnation", "size", "generations", "deleted", "gone for good"];
        table(&header, archives.iter().map(view::Archive::row).collect())
    }

    async fn generations(mut self, blob: String, format: Format) -> Outcome {
        let request = v1::ListGenerationsRequest { namespace: self.namespace.clone(), blob: blob.clone() };
        let found = self.client.list_generations(self.target.request(request)).await?.into_inner();
        let request = v1::StatBlobRequest { namespace: self.namespace.clone(), blob };
        let stat = self.client.stat_blob(self.target.request(request)).await;
        warn_of(found.corrupt);
        let error = stat.ok().and_then(|stat| stat.into_inner().last_error).map(view::LastError::from);
        let generations: Vec<_> = found.generations.into_iter().map(view::Blob::from).collect();
        if format.json {
            return json(&view::Generations { generations, last_error: error });
        }
        let header = ["generation", "state", "size", "saved", "gone for good", "incarnation"];
        table(&header, generations.iter().map(view::Blob::generation_row).collect())?;
        if let Some(error) = error {
            output::note(&error.text());
        }
        Ok(())
    }
}

/// How far a transfer is, on a terminal.
fn progress(size: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr());
    let style = "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    match ProgressStyle::with_template(style) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// `work`, unless the bar does not move for a long while.
async fn unless_stalled<T>(bar: &ProgressBar, work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let watch = async {
        let mut last = None;
        while last != Some(bar.position()) {
            last = Some(bar.position());
            tokio::time::sleep(STALLED).await;
        }
    };
    tokio::select! {
        done = work => done,
        () = watch => Err(Failed::new(UNAVAILABLE, "nothing moved for a minute: given up")),
    }
}
