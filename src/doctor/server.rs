//! Valkey itself, by the checks of the start.

use std::path::PathBuf;

use super::CONNECTION;
use crate::{
    config::{Config, Valkey},
    crypto::SharedKeyring,
    server::link::{KINDS, level, link_config, url_target},
    valkey::{Level, Report, Target, Unexamined, UrlTarget, examine, install_crypto_provider},
};

pub async fn look(config: &Config, keyring: Option<&SharedKeyring>, embedded: Option<PathBuf>) -> Report {
    let mut report = Report::default();
    let target = match (&config.valkey, embedded) {
        (Valkey::Url(given), _) => url_target(given),
        (Valkey::Embedded { .. }, Some(socket)) => UrlTarget::new(format!("unix://{}", socket.display())),
        (Valkey::Embedded { .. }, None) => {
            let todo = "start it (pannier serve), and run doctor again";
            report.add(
                Level::Unknown,
                "server",
                "the embedded Valkey does not run: its database was not looked at",
                todo,
            );
            return report;
        }
    };
    install_crypto_provider();
    match examine(&link_config(config, Target::Url(target)), keyring, KINDS).await {
        Ok(mut found) => {
            durability(config, &mut found);
            found
        }
        Err(Unexamined::Config(why)) => {
            report.add(
                Level::Fail,
                "access",
                why,
                "give the right URL, user and password, and run doctor again",
            );
            report
        }
        Err(Unexamined::Unreachable(why)) => {
            let todo = "is it running, and does its port let this machine in? valkey-cli -u URL ping";
            report.add(Level::Fail, CONNECTION, why, todo);
            report
        }
    }
}

/// What "done" is worth, and whether that is what was asked for.
fn durability(config: &Config, found: &mut Report) {
    let given = found.facts.durability;
    let known = if found.facts.durability_known { "" } else { ", at least: its settings may not be read" };
    let told = format!("an acknowledged write is worth `{}`{known}", given.name());
    match config.durability.and_then(level) {
        Some(asked) if given < asked => {
            let what = format!("{told}, and --durability {} is asked for", asked.name());
            found.add(
                Level::Fail,
                "durability",
                what,
                "set appendonly and appendfsync on it, or ask for less",
            );
        }
        _ => found.add(Level::Ok, "durability", told, ""),
    }
}
