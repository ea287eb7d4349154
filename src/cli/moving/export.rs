//! `pannier export baileys`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{
    bundle::{Item, Summary},
    context,
    manifest::Manifest,
    names, progress, snapshot,
    write::Destination,
};
use crate::cli::{
    Format,
    context::Place,
    outcome::Outcome,
    output::{self, bytes, json, shown},
};

/// Writes a session out.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier export baileys ./auth_info --session bot-1       for useMultiFileAuthState('./auth_info')
  pannier export baileys ./auth_info --session bot-1 --dry-run")]
pub struct Arguments {
    #[command(subcommand)]
    command: Export,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Subcommand)]
enum Export {
    Baileys(Baileys),
}

/// To a folder of `useMultiFileAuthState`, as of one revision.
///
/// The session is only read: a bot that holds it goes on. But stop it before the folder is used: two bots with the same keys
/// break each other. The folder holds the account's keys in the clear; it gets mode 0700, its files 0600.
#[derive(Args, Debug)]
struct Baileys {
    /// A new folder, or an empty one.
    dir: PathBuf,
    /// The session's name in Pannier.
    #[arg(long, short, value_name = "NAME")]
    session: String,
    /// Where the list of files and their SHA-256 goes, outside of the folder [default: `DIR.manifest.json`]
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Say what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: Format,
}

/// What an export says with `--json`.
#[derive(Serialize)]
struct Exported<'a> {
    namespace: &'a str,
    session: &'a str,
    dry_run: bool,
    revision: u64,
    folder: String,
    manifest: String,
    #[serde(flatten)]
    summary: &'a Summary,
}

impl Arguments {
    pub async fn run(self) -> Outcome {
        let mut context = context(self.place)?;
        let Export::Baileys(command) = self.command;
        let place = Destination::new(&command.dir, command.manifest)?;
        let bar = progress();
        let snapshot = snapshot::take(&mut context, &command.session, &bar).await;
        bar.finish_and_clear();
        let snapshot = snapshot?;
        let summary = Summary::of(&snapshot.items);
        let revision = snapshot.info.revision;
        if !command.dry_run {
            let manifest = Manifest::new(&context.namespace, &command.session, revision);
            let bar = progress();
            bar.set_length(snapshot.items.len() as u64);
            let written = place.write(&snapshot.items, manifest, || bar.inc(1));
            bar.finish_and_clear();
            written?;
        }
        if command.format.json {
            json(&Exported {
                namespace: &context.namespace,
                session: &command.session,
                dry_run: command.dry_run,
                revision,
                folder: place.dir.to_string_lossy().into_owned(),
                manifest: place.manifest.to_string_lossy().into_owned(),
                summary: &summary,
            })?;
        } else if command.dry_run {
            summary.print()?;
        }
        let what = format!(
            "{} records, {}, of revision {revision} of {}",
            summary.records,
            bytes(summary.bytes as u64),
            shown(&command.session)
        );
        let folder = shown(&place.dir.to_string_lossy());
        if command.dry_run {
            output::note(&format!("{what} would be written to {folder}; nothing was"));
            return Ok(());
        }
        output::note(&format!("{what} are in {folder}: the keys of the account, in the clear"));
        let is_plain = |item: &&Item| {
            names::of_file(&item.source).is_ok_and(|name| name == (item.ty.clone(), item.id.clone()))
        };
        let odd = snapshot.items.len() - snapshot.items.iter().filter(is_plain).count();
        if odd > 0 {
            output::note(&format!(
                "{odd} of its files tell only with the manifest which record they hold: keep it"
            ));
        }
        if let Some(lease) = snapshot.info.lease.filter(|lease| lease.live) {
            let owner = shown(&lease.owner);
            output::note(&format!(
                "{owner} still holds the session: stop that bot before the folder is used"
            ));
        }
        Ok(())
    }
}
