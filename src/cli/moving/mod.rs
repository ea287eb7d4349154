//! `pannier import` and `pannier export`: whole sessions of Baileys, in from a folder or from Redis, and out to a folder.

mod bundle;
mod export;
mod folder;
mod load;
mod manifest;
mod names;
mod redis;
mod snapshot;
mod value;
mod write;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget};

use super::{attach::Client, context::Place, outcome::Outcome};
use bundle::{Bundle, Skip};
use manifest::Manifest;

pub use export::Arguments as ExportArguments;

/// Takes a session of Baileys in, whole or not at all.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier import baileys ./auth_info --session bot-1 --dry-run    what would be written
  pannier import baileys ./auth_info --session bot-1              stop the bot first
  pannier import baileys ./auth --session bot-1 --manifest auth.manifest.json
  pannier import redis --url redis://127.0.0.1:6379 --layout hash --key bot-1:auth --session bot-1
  pannier import redis --url-file ./url --layout keys --prefix wa:bot-1: --session bot-1")]
pub struct ImportArguments {
    #[command(subcommand)]
    command: Import,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Subcommand)]
enum Import {
    Baileys(Baileys),
    Redis(redis::Arguments),
}

/// From a folder of `useMultiFileAuthState`.
///
/// Every file must be one that Baileys writes, and whole; all that are not are named, and nothing is written. Stop the bot
/// first: two bots with the same keys break each other.
#[derive(Args, Debug)]
struct Baileys {
    /// The folder.
    dir: PathBuf,
    /// Check the files against this manifest of an export, and take the records' names from it.
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    into: load::Into,
}

fn context(place: Place) -> Outcome<super::context::Context<Client>> {
    place.context(|channel, most| {
        Client::new(channel).max_decoding_message_size(most).max_encoding_message_size(most)
    })
}

/// Shown on a terminal only.
fn progress() -> ProgressBar {
    ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr())
}

pub async fn import(arguments: ImportArguments) -> Outcome {
    let context = context(arguments.place)?;
    let (bundle, into) = match arguments.command {
        Import::Baileys(from) => (from.read()?, from.into),
        Import::Redis(from) => {
            let place = from.place()?;
            let mut skip = Skip::new(from.into.skip.clone());
            let bar = progress();
            let gathered = from.read(&place, &mut skip, &bar).await;
            bar.finish_and_clear();
            (gathered?.judge(&place, &from.creds_source(&place), from.into.format)?, from.into)
        }
    };
    into.run(context, bundle).await
}

impl Baileys {
    fn read(&self) -> Outcome<Bundle> {
        let manifest = self.manifest.as_deref().map(Manifest::read).transpose()?;
        let mut skip = Skip::new(self.into.skip.clone());
        let bar = progress();
        let gathered = folder::read(&self.dir, &mut skip, manifest.as_ref(), |all| {
            bar.set_length(all as u64);
            bar.inc(1);
        });
        bar.finish_and_clear();
        gathered?.judge(&self.dir.to_string_lossy(), "creds.json", self.into.format)
    }
}

pub async fn export(arguments: ExportArguments) -> Outcome {
    arguments.run().await
}
