//! `pannier adopt-branch`: a copied database becomes one of another environment.

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;

use super::{
    Format,
    outcome::{Failed, NO, Outcome, USAGE},
    output,
};
use crate::{
    config::{Config, Flags},
    relocation::{Adopted, Adoption},
    server::depot,
    valkey::{install_crypto_provider, valid_env},
};

/// Makes a copy of a database one of another environment, so that it can be used beside the original.
///
/// The keys get the new environment's name and the database an id of its own. Sessions and blobs are dropped: two bots with the same
/// credentials log each other out. Every queue is paused, and its crons rest, until `pannier queue resume`. Claims, conversations, jobs
/// and caps stay. The keyring stays the same.
///
/// Never run it on the original: it asks for the name, and is refused while a sidecar runs (also for 90 s after a copy of a database in
/// use was made). While it is under way no sidecar takes the database; after a break run the same command again. The database is
/// found by the flags of `serve`, without --env.
#[derive(Args, Debug)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  pannier adopt-branch --from prod --to staging --valkey-url valkey://copy.internal:6379 --keyring keyring.toml
  pannier adopt-branch --from prod --to dev --data-dir ./copy-of-data --yes --json"
)]
pub struct Arguments {
    /// The environment that the copy is of.
    #[arg(long, value_name = "ENV")]
    from: String,
    /// The environment that it is to be of.
    #[arg(long, value_name = "ENV")]
    to: String,
    /// Keep sessions and blobs. Only where the original's bots never run again.
    #[arg(long)]
    keep_sessions: bool,
    /// Do not ask for the name.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    flags: Flags,
    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Told {
    from: String,
    to: String,
    store_id: String,
    renamed: u64,
    dropped: u64,
    queues_paused: u64,
}

pub async fn run(arguments: Arguments) -> Outcome {
    let Arguments { from, to, keep_sessions, yes, mut flags, format } = arguments;
    for (flag, env) in [("--from", &from), ("--to", &to)] {
        if !valid_env(env) {
            return Err(Failed::new(USAGE, format!("{flag} must match [a-z0-9-]{{1,32}}")));
        }
    }
    if from == to {
        return Err(Failed::new(USAGE, "--from and --to are the same"));
    }
    if flags.get("env").is_some_and(|env| env != from) {
        return Err(Failed::new(USAGE, "--env is what --from says: leave it out"));
    }
    flags.set("env", &from);
    let config = Config::from_process(&flags)?;
    output::confirm(
        yes,
        &format!(
            "This renames the database of {from:?} at {} for good; never run it on the original",
            place(&config)
        ),
        &from,
    )?;
    install_crypto_provider();
    let (mut depot, keyring) = depot(&config).await?;
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let show = |seen, total| {
        bar.set_length(total);
        bar.set_position(seen);
    };
    let adoption = Adoption { from, to, keep_sessions };
    let keyring = keyring.current();
    let ended = tokio::select! {
        ended = adoption.run(&mut depot, &keyring, &show) => ended.map_err(Failed::from),
        _ = tokio::signal::ctrl_c() => Err(Failed::new(NO, "broken off; the same command goes on where it was")),
    };
    bar.finish_and_clear();
    depot.close().await;
    say(adoption, ended?, format)
}

/// Where the database is, without a password.
fn place(config: &Config) -> String {
    let shown = |name| config.shown.iter().find(|shown| shown.name == name).map(|shown| shown.value.clone());
    match &config.valkey {
        crate::config::Valkey::Embedded { .. } => config.data_dir.display().to_string(),
        crate::config::Valkey::Url(_) => {
            shown("valkey-url").or_else(|| shown("valkey-url-file")).unwrap_or_default()
        }
    }
}

fn say(adoption: Adoption, done: Adopted, format: Format) -> Outcome {
    let told = Told {
        from: adoption.from,
        to: adoption.to,
        store_id: done.store_id,
        renamed: done.renamed,
        dropped: done.dropped,
        queues_paused: done.paused,
    };
    if format.json {
        return output::json(&told);
    }
    output::note(&format!(
        "the database is of environment {} now ({} keys renamed, {} of sessions and blobs dropped). {} queues are paused and \
         their crons rest: `pannier queue resume` each that is to run",
        told.to, told.renamed, told.dropped, told.queues_paused
    ));
    Ok(())
}
