//! `pannier stop`: asks the process behind the socket to end, as SIGTERM does, and waits for it.

use std::time::Duration;

use clap::Args;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::{
    net::UnixStream,
    time::{Instant, sleep},
};

use super::{
    connect::Target,
    outcome::{CONFIG, Failed, Outcome, UNAVAILABLE},
    output,
};
use crate::{
    config::{default_data_dir, process_environment},
    valkey::{Stopped, stop_orphan},
};

/// What a stop may take; a little above the sidecar's own bound.
const WITHIN: Duration = Duration::from_secs(27);

/// Stops the sidecar that listens on the socket. Where there is none: the embedded Valkey that a killed one left behind.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Where a Valkey without a sidecar is looked for [env: `PANNIER_DATA_DIR`; default: the user's data directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<std::path::PathBuf>,
}

pub async fn run(arguments: Arguments) -> Outcome {
    match arguments.target.socket() {
        Ok(socket) => {
            // The kernel says who called listen(): no pid file that could name a stranger.
            let peer = UnixStream::connect(&socket).await?.peer_cred()?;
            let pid = peer.pid().and_then(Pid::from_raw).ok_or_else(|| {
                Failed::new(UNAVAILABLE, "the sidecar runs in another pid namespace: stop its container")
            })?;
            end(pid).await
        }
        Err(failed) if !failed.is_unavailable() => Err(failed),
        Err(nobody) => {
            let dir = arguments
                .data_dir
                .or_else(|| process_environment("PANNIER_DATA_DIR").map(Into::into))
                .or_else(|| default_data_dir(&process_environment));
            let Some(dir) = dir else { return Err(nobody) };
            match stop_orphan(&dir).await.map_err(|why| Failed::new(UNAVAILABLE, why))? {
                Stopped::Ended => {
                    output::note("no sidecar was running; the Valkey it had left behind was stopped");
                }
                Stopped::Nothing => output::note("nothing was running"),
                Stopped::InUse(who) => return Err(Failed::new(CONFIG, who)),
            }
            Ok(())
        }
    }
}

async fn end(pid: Pid) -> Outcome {
    let refused = |error: rustix::io::Errno| {
        Failed::new(UNAVAILABLE, format!("process {}: {}", pid.as_raw_nonzero(), std::io::Error::from(error)))
    };
    kill_process(pid, Signal::TERM).map_err(refused)?;
    let until = Instant::now() + WITHIN;
    while test_kill_process(pid).is_ok() && !is_zombie(pid) {
        if Instant::now() > until {
            return Err(Failed::new(UNAVAILABLE, format!("process {} has not ended", pid.as_raw_nonzero())));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Ended, but its parent has not looked yet.
fn is_zombie(pid: Pid) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
        .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}
