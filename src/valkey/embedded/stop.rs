//! Ending a server, also one that nobody watches any more.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::{Instant, sleep, timeout};

use super::data_dir::DataDir;
use crate::valkey::target::Endpoint;

/// What a server may take to end after SHUTDOWN.
pub(super) const STOP_WITHIN: Duration = Duration::from_secs(10);

/// What `pannier stop` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// No server runs on this data directory.
    Nothing,
    /// A server without a sidecar was ended.
    Ended,
    /// A sidecar uses it: it must be stopped itself. Says which.
    InUse(String),
}

/// The socket of the server that runs on this data directory, if one does.
///
/// # Errors
/// When the directory cannot be read.
pub fn running_embedded(data_dir: &Path) -> Result<Option<PathBuf>, String> {
    let Some(dir) = DataDir::existing(data_dir)? else { return Ok(None) };
    // The server holds its lock for as long as it lives.
    Ok(if dir.server_lock()?.is_some() { None } else { dir.run().map(|run| run.socket) })
}

/// Ends a server that a killed sidecar left behind.
///
/// # Errors
/// When the directory cannot be read, or the server does not end.
pub async fn stop_orphan(data_dir: &Path) -> Result<Stopped, String> {
    let Some(dir) = DataDir::existing(data_dir)? else { return Ok(Stopped::Nothing) };
    let dir = match dir.lock() {
        Ok(dir) => dir,
        Err(who) => return Ok(Stopped::InUse(who)),
    };
    if dir.server_lock()?.is_some() {
        return Ok(Stopped::Nothing);
    }
    let run = dir.run().ok_or("a valkey-server runs, but valkey.run does not say which: end it by hand")?;
    shut_down(&run.socket).await;
    if !ended(&dir, Instant::now() + STOP_WITHIN).await {
        kill(run.pid, Signal::KILL);
        if !ended(&dir, Instant::now() + Duration::from_secs(2)).await {
            return Err(format!("the valkey-server with pid {} does not end", run.pid));
        }
    }
    clean_up(&dir, &run.socket);
    Ok(Stopped::Ended)
}

pub(super) async fn shut_down(socket: &Path) {
    let Ok(endpoint) = Endpoint::unix(socket) else { return };
    let asked = async {
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let mut connection = endpoint.connect(config).await.ok()?;
        // There is no reply to a SHUTDOWN that works.
        let _ = connection.send_packed_command(&redis::cmd("SHUTDOWN")).await;
        Some(())
    };
    let _ = timeout(STOP_WITHIN / 2, asked).await;
}

/// Waits until no server holds the directory.
pub(super) async fn ended(dir: &DataDir, until: Instant) -> bool {
    loop {
        if matches!(dir.server_lock(), Ok(Some(_))) {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

pub(super) fn clean_up(dir: &DataDir, socket: &Path) {
    dir.forget_run();
    let _ = fs::remove_file(socket);
}

/// The server leads a process group of its own, with its forks. Only called while its lock shows that one of them lives.
pub(super) fn kill(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process_group(pid, signal);
    }
}
