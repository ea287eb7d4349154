//! The embedded Valkey's data directory and its disk.

use std::path::{Path, PathBuf};

use crate::{
    config::{Config, Valkey},
    valkey::{Level, Report, examine_embedded},
};

/// Room on a disk below which it is worth a word, and below which nothing can be expected to work: bytes and a share in a hundred.
const LITTLE: (u64, u64) = (2 << 30, 10);
const NOTHING: u64 = 64 << 20;

/// Also gives the socket of the server, if one runs.
pub async fn look(config: &Config) -> (Option<PathBuf>, Report) {
    let Valkey::Embedded { server, .. } = &config.valkey else { return (None, Report::default()) };
    let socket_dir = config.socket.path.parent().unwrap_or_else(|| Path::new("/"));
    let (running, mut report) = examine_embedded(&config.data_dir, socket_dir, server.as_deref()).await;
    disk(&config.data_dir, &mut report);
    (running, report)
}

/// Of the directory, or of the nearest one above it that is there.
fn disk(dir: &Path, report: &mut Report) {
    let Some(there) = dir.ancestors().find(|dir| dir.exists()) else { return };
    let Ok(found) = rustix::fs::statvfs(there) else {
        return report.add(Level::Unknown, "disk", "its room could not be found out", "");
    };
    let (free, whole) = (found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize);
    let shown = format!("{} MiB of {} MiB free", free >> 20, whole >> 20);
    let todo = "make room: when the disk is full Valkey refuses writes";
    if free < NOTHING {
        report.add(Level::Fail, "disk", shown, todo);
    } else if free < LITTLE.0 && free / (whole / 100).max(1) < LITTLE.1 {
        report.add(Level::Warn, "disk", shown, todo);
    } else {
        report.add(Level::Ok, "disk", shown, "");
    }
}
