//! `pannier serve`.

use std::{process, time::Duration};

use clap::Args;
use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, setrlimit, umask},
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{config::print, outcome::Outcome};
use crate::{
    config::{Config, Flags},
    server,
    telemetry::log,
    valkey::install_crypto_provider,
};

/// Runs the sidecar until SIGTERM or Ctrl-C.
///
/// Without a URL it keeps everything in an embedded Valkey under your data directory. It starts at once and is ready when
/// Valkey is; only what a person must put right (configuration, keys, the wrong database) makes it exit, with 78.
#[derive(Args, Debug)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  pannier serve
  pannier serve --valkey-url valkey://127.0.0.1:6379 --env dev --init        the first time with this database
  pannier serve --valkey-url-file /run/secrets/valkey --env prod --drain-delay 5s
  pannier serve --config /etc/pannier.toml --check-config"
)]
pub struct Arguments {
    #[command(flatten)]
    flags: Flags,
    /// Check the configuration, print each value and where it came from, and exit.
    #[arg(long)]
    check_config: bool,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let config = Config::from_process(&arguments.flags)?;
    if arguments.check_config {
        return print(&config, false);
    }
    harden();
    log::start(config.log);
    install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.worker_threads)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(until_stopped(config));
    // Nothing that still runs, a blocked thread for example, may hold up the exit.
    runtime.shutdown_timeout(Duration::from_millis(100));
    ended.map_err(Into::into)
}

/// Keys are in this process's memory: no core dumps, and what it makes is for its own user alone.
fn harden() {
    umask(Mode::from_raw_mode(0o077));
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

async fn until_stopped(config: Config) -> Result<(), server::Failure> {
    let stop = CancellationToken::new();
    let failed = |error: std::io::Error| server::Failure { code: 70, message: error.to_string() };
    let mut signals = Signals {
        terminate: signal(SignalKind::terminate()).map_err(failed)?,
        interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
    };
    let serving = server::run(config, stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => return ended,
        _ = signals.next() => stop.cancel(),
    }
    tokio::select! {
        ended = &mut serving => ended,
        number = signals.next() => {
            tracing::warn!("a second signal: ending at once");
            process::exit(128 + number);
        }
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
        }
    }
}
