//! A look at a data directory and what would run on it. Nothing is made, locked for longer than the look, or changed.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::{
    SLOW_FSYNC,
    data_dir::{self, DataDir},
    server_binary,
};
use crate::valkey::report::{Level, Report};

/// What is found of the data directory, and the socket of the server that runs on it, if one does.
pub async fn examine_embedded(
    data_dir: &Path,
    socket_dir: &Path,
    server: Option<&Path>,
) -> (Option<PathBuf>, Report) {
    let mut report = Report::default();
    let dir = match DataDir::existing(data_dir) {
        Ok(dir) => dir,
        Err(why) => {
            report.add(Level::Fail, "directory", why, "");
            return (None, report);
        }
    };
    let mut running = None;
    if let Some(dir) = &dir {
        directory(dir, &mut report);
        running = Some(dir.socket_path(socket_dir)).filter(|socket| socket.exists());
    } else {
        let found = format!("there is no {} yet: the first start makes it", data_dir.display());
        report.add(Level::Ok, "directory", found, "");
    }
    binary(dir.as_ref(), server, &mut report).await;
    if let Some(dir) = &dir {
        fsync(dir.path(), &mut report).await;
    }
    (running, report)
}

fn directory(dir: &DataDir, report: &mut Report) {
    let shown = dir.path().display();
    match fs::metadata(dir.path()) {
        Ok(found) if !found.is_dir() => {
            report.add(
                Level::Fail,
                "directory",
                format!("{shown} is not a directory"),
                "name another with --data-dir",
            );
        }
        Ok(found) if found.uid() != rustix::process::geteuid().as_raw() => {
            let what = format!("{shown} belongs to user {}", found.uid());
            report.add(Level::Fail, "directory", what, "run as that user, or name another with --data-dir");
        }
        Ok(found) if found.mode() & 0o077 != 0 => {
            let what = format!("others may enter {shown} (mode {:04o})", found.mode() & 0o7777);
            report.add(Level::Warn, "directory", what, &format!("chmod 700 {shown}"));
        }
        Ok(_) => report.add(Level::Ok, "directory", shown.to_string(), ""),
        Err(error) => report.add(Level::Fail, "directory", format!("{shown}: {error}"), ""),
    }
    match dir.store_id() {
        Ok(Some(id)) => report.add(Level::Ok, "database", format!("store {id}"), ""),
        Ok(None) if dir.holds_data() => {
            report.add(Level::Ok, "database", "there is data; its store-id is written at the next start", "");
        }
        Ok(None) => report.add(Level::Ok, "database", "none yet: the first start makes it", ""),
        Err(why) => report.add(Level::Fail, "database", why, ""),
    }
    // Held by a sidecar for as long as it lives. Shared and only for this moment: a start that comes now waits for it.
    let held = File::open(dir.path().join(data_dir::SIDECAR_LOCK))
        .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err());
    let user = if held { "a sidecar uses it" } else { "no sidecar uses it" };
    report.add(Level::Ok, "lock", user, "");
}

async fn binary(dir: Option<&DataDir>, server: Option<&Path>, report: &mut Report) {
    let before = match dir.map(DataDir::engine).transpose() {
        Ok(before) => before.flatten(),
        Err(why) => return report.add(Level::Fail, "server", why, ""),
    };
    match server_binary::find(server, before.as_ref()).await {
        Ok(found) => {
            let shown = format!("{} {} ({})", found.engine, found.version, found.path.display());
            match before.as_ref().map_or(Ok(()), |before| server_binary::check_compatible(before, &found)) {
                Ok(()) => report.add(Level::Ok, "server", shown, ""),
                Err(why) => report.add(Level::Fail, "server", why, ""),
            }
        }
        Err(why) => report.add(Level::Fail, "server", why, ""),
    }
}

async fn fsync(dir: &Path, report: &mut Report) {
    let dir = dir.to_path_buf();
    // In a file without a name: nothing is there to be seen, and nothing is left.
    match tokio::task::spawn_blocking(move || data_dir::fsync_cost(&dir)).await {
        Ok(Ok(cost)) if cost > SLOW_FSYNC => {
            let todo = "put --data-dir on a faster disk, or accept the loss of a second with --embedded-fsync everysec";
            report.add(
                Level::Warn,
                "fsync",
                format!("one takes {} ms, and every commit waits for one", cost.as_millis()),
                todo,
            );
        }
        Ok(Ok(cost)) => report.add(Level::Ok, "fsync", format!("one takes {} µs", cost.as_micros()), ""),
        Ok(Err(error)) => report.add(Level::Unknown, "fsync", format!("could not be measured: {error}"), ""),
        Err(_) => {}
    }
}
