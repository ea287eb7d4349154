//! The keyring's file, the socket's place, and what the system allows.

use std::{fs, os::unix::fs::MetadataExt as _};

use rustix::process::{Resource, getrlimit};

use crate::{
    config::{Config, Socket, Valkey},
    crypto::{KeyState, SharedKeyring},
    server::socket::{InPlace, look, look_at_directory},
    valkey::{Level, Report},
};

/// Each connection takes a descriptor, and so does each of ours.
const DESCRIPTORS: u64 = 4096;

pub fn descriptors(report: &mut Report) {
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < DESCRIPTORS => {
            let found = format!("at most {limit} file descriptors");
            report.add(
                Level::Warn,
                "descriptors",
                found,
                "raise the hard limit (ulimit -Hn, LimitNOFILE=) for thousands of clients",
            );
        }
        limit => {
            let found = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("at most {limit}"));
            report.add(Level::Ok, "descriptors", found, "");
        }
    }
}

pub fn keyring(config: &Config) -> (Option<SharedKeyring>, Report) {
    let mut report = Report::default();
    let path = &config.keyring;
    let shown = path.display();
    let keyring = match SharedKeyring::load(path) {
        Ok(keyring) => keyring,
        Err(error) if error.is_missing() => {
            match &config.valkey {
                // Data without it is seen with the data directory.
                Valkey::Embedded { .. } if !config.data_dir.join("store-id").exists() => {
                    report.add(
                        Level::Ok,
                        "file",
                        format!("there is no {shown} yet: the first start makes it"),
                        "",
                    );
                }
                Valkey::Embedded { .. } => {
                    let found = format!("{shown} is gone, and there is data that was sealed with it");
                    report.add(
                        Level::Fail,
                        "file",
                        found,
                        "restore keyring.toml from its backup; without it nothing can be read",
                    );
                }
                Valkey::Url { .. } => {
                    let todo = format!(
                        "the first time: pannier keys init --keyring {shown}; later restore it from its backup"
                    );
                    report.add(Level::Fail, "file", format!("there is no {shown}"), &todo);
                }
            }
            return (None, report);
        }
        Err(error) => {
            report.add(Level::Fail, "file", error.to_string(), "");
            return (None, report);
        }
    };
    let (mode, uid) = fs::metadata(path).map_or((0, 0), |found| (found.mode() & 0o777, found.uid()));
    report.add(Level::Ok, "file", format!("{shown}, mode {mode:04o}, of user {uid}"), "");
    let current = keyring.current();
    let of = |wanted: KeyState| {
        let ids = current.ids().into_iter().filter(|(_, state)| *state == wanted);
        ids.map(|(id, _)| id.to_string()).collect::<Vec<_>>().join(", ")
    };
    let others = [(KeyState::DecryptOnly, "decrypt only"), (KeyState::Disabled, "disabled")];
    let others = others.map(|(state, name)| (name, of(state))).into_iter().filter(|(_, ids)| !ids.is_empty());
    let mut found = vec![format!("primary {}", current.primary_id())];
    found.extend(others.map(|(name, ids)| format!("{name} {ids}")));
    report.add(Level::Ok, "keys", found.join("; "), "");
    if path.starts_with(&config.data_dir) && matches!(config.valkey, Valkey::Embedded { .. }) {
        let found = "it lies with the data that it opens; whether there is a backup of it elsewhere cannot be seen from here";
        report.add(Level::Ok, "backup", found, "");
    } else {
        report.add(
            Level::Ok,
            "backup",
            "whether there is one cannot be seen from here: without this file nothing can be read",
            "",
        );
    }
    (Some(keyring), report)
}

/// Also says whether a sidecar listens there.
pub async fn socket(socket: &Socket) -> (bool, Report) {
    let mut report = Report::default();
    let dir = socket.path.parent().unwrap_or(&socket.path).display();
    match look_at_directory(socket) {
        Ok(Some(found)) => {
            let found = format!("{dir}, mode {:04o}, of user {}", found.mode() & 0o7777, found.uid());
            report.add(Level::Ok, "directory", found, "");
        }
        Ok(None) => {
            report.add(Level::Ok, "directory", format!("there is no {dir} yet: the start makes it"), "");
        }
        Err(error) => report.add(Level::Fail, "directory", error.0, ""),
    }
    let shown = socket.path.display();
    let listening = match look(&socket.path).await {
        Ok(InPlace::Nothing) => {
            report.add(Level::Ok, "place", format!("{shown} is free"), "");
            false
        }
        Ok(InPlace::Dead) => {
            report.add(Level::Ok, "place", format!("{shown} is a dead socket: the start replaces it"), "");
            false
        }
        Ok(InPlace::Live) => {
            let found = format!("a sidecar listens on {shown}");
            report.add(Level::Ok, "place", found, "");
            true
        }
        Ok(InPlace::Other) => {
            let found = format!("{shown} is there and is not a socket");
            report.add(Level::Fail, "place", found, "name another path with --socket, or move the file away");
            false
        }
        Err(error) => {
            report.add(Level::Fail, "place", format!("{shown}: {error}"), "");
            false
        }
    };
    (listening, report)
}
