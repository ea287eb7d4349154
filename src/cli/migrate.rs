//! `pannier migrate`: carries a database to another server, while no sidecar uses it.

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use tokio::time::Instant;

use super::{
    Format,
    outcome::{CONFIG, Failed, NO, Outcome, UNAVAILABLE},
    output,
};
use crate::{
    config::{Config, Flags, process_environment},
    relocation::{Migrated, Stage, Stopped, migrate},
    server::{depot, depot_without_keyring},
    valkey::install_crypto_provider,
};

/// Carries everything of an environment to another Valkey, as it is and with its times to live, and compares both sides.
///
/// Stop the sidecars first: refused while one runs, and while the source's embedded Valkey is in use. The source is found by the flags
/// of `serve` and is not changed. The target must be empty, or hold the unfinished rest of the same migration: after a break run the
/// same command again. What says that a target is a database is written last, so an unfinished one is never used. The keyring stays the
/// same: start the sidecar with the target's URL and the keyring of before. Exits with 1 when it must not be done, 69 when
/// Valkey does not answer or the two sides differ.
#[derive(Args, Debug)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  pannier stop && pannier migrate --to valkey://valkey.internal:6379 --env dev
  pannier migrate --env prod --valkey-url-file old --to-url-file new --to-cluster
  pannier migrate --env prod --valkey-url valkey://a --to valkey://s1:26379,s2:26379 --to-sentinel mymaster --json"
)]
pub struct Arguments {
    #[command(flatten)]
    flags: Flags,
    /// Where it goes: as --valkey-url. A password in it is refused; give it in --to-url-file or --to-password-file.
    #[arg(long, value_name = "URL", required_unless_present = "to_url_file")]
    to: Option<String>,
    /// A file that holds the target's URL, password and all.
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    to_url_file: Option<String>,
    /// A file that holds the password for the target.
    #[arg(long, value_name = "FILE")]
    to_password_file: Option<String>,
    /// The target's URL names nodes of a cluster, separated by commas.
    #[arg(long, conflicts_with = "to_sentinel")]
    to_cluster: bool,
    /// The target's URL names Sentinels, separated by commas, that watch the primary under this name.
    #[arg(long, value_name = "NAME")]
    to_sentinel: Option<String>,
    /// Authorities (PEM) that sign the target's certificate, instead of the built-in ones.
    #[arg(long, value_name = "FILE")]
    to_ca: Option<String>,
    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Told {
    environment: String,
    store_id: String,
    keys: u64,
    copied: u64,
    already_there: u64,
    rewritten: u64,
    digest: String,
    seconds: f64,
}

impl From<Stopped> for Failed {
    fn from(stopped: Stopped) -> Self {
        let code = if matches!(stopped, Stopped::Refused(_)) { NO } else { UNAVAILABLE };
        Self::new(code, stopped.to_string())
    }
}

pub async fn run(arguments: Arguments) -> Outcome {
    let began = Instant::now();
    let config = Config::from_process(&arguments.flags)?;
    let target = arguments.target(&config)?;
    install_crypto_provider();
    let target = depot_without_keyring(&target).await?;
    let (source, keyring) = depot(&config).await?;
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} keys, {eta} left") {
        bar.set_style(style);
    }
    let show = |stage, seen, total| {
        bar.set_message(if stage == Stage::Copying { "copying" } else { "comparing" });
        bar.set_length(total);
        bar.set_position(seen);
    };
    let keyring = keyring.current();
    let work = migrate(&source, &target, &keyring, &config.env, &show);
    // A server of our own is ended in any case; kill -9 leaves it to `pannier stop`.
    let ended = tokio::select! {
        ended = work => ended.map_err(Failed::from),
        _ = tokio::signal::ctrl_c() => Err(Failed::new(NO, "broken off; the same command goes on where it was")),
    };
    bar.finish_and_clear();
    source.close().await;
    target.close().await;
    say(ended?, began, arguments.format)
}

fn say(done: Migrated, began: Instant, format: Format) -> Outcome {
    let told = Told {
        environment: done.env,
        store_id: done.store_id,
        keys: done.keys,
        copied: done.copied,
        already_there: done.keys.saturating_sub(done.copied),
        rewritten: done.rewritten,
        digest: output::hex(done.digest.bytes()),
        seconds: began.elapsed().as_secs_f64(),
    };
    if format.json {
        return output::json(&told);
    }
    output::note(&format!(
        "{} keys of environment {} are on the target, the same on both sides (digest {}…); {} were carried by this run, {} \
         of them member by member, in {:.1} s. Start the sidecar with the new URL and the same keyring, and never again \
         with the old one",
        told.keys,
        told.environment,
        &told.digest[..16],
        told.copied,
        told.rewritten,
        told.seconds
    ));
    Ok(())
}

impl Arguments {
    /// The target as `serve` would take it: with the same checks.
    fn target(&self, source: &Config) -> Outcome<Config> {
        let keyring = source.keyring.display().to_string();
        let data_dir = source.data_dir.display().to_string();
        let socket = source.socket.path.display().to_string();
        let mut pairs = vec![
            ("env", source.env.as_str()),
            ("keyring", &keyring),
            ("data-dir", &data_dir),
            ("socket", &socket),
        ];
        let given = [
            ("valkey-url", &self.to),
            ("valkey-url-file", &self.to_url_file),
            ("valkey-password-file", &self.to_password_file),
            ("sentinel", &self.to_sentinel),
            ("valkey-ca", &self.to_ca),
        ];
        pairs.extend(given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))));
        if self.to_cluster {
            pairs.push(("cluster", "true"));
        }
        let environment = |name: &str| {
            // What is set for the source says nothing of the target.
            if name.starts_with("PANNIER_") { None } else { process_environment(name) }
        };
        Config::load(&Flags::from_pairs(pairs), &environment).map_err(|error| {
            let said =
                error.0.replace("PANNIER_VALKEY_URL or ", "").replace("--valkey-url-file", "--to-url-file");
            let said = said.replace("--valkey-url", "--to").replace("--valkey-", "--to-");
            Failed::new(
                CONFIG,
                said.replace("--cluster", "--to-cluster").replace("--sentinel", "--to-sentinel"),
            )
        })
    }
}
