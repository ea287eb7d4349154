//! Tokens, certificates and ports.

use std::{fs, net::SocketAddr, os::unix::fs::MetadataExt as _, path::Path};

use jiff::{Timestamp, Unit};
use tokio::net::{TcpListener, lookup_host};

use crate::{
    access::TokenFile,
    config::{Config, Place},
    server::tls,
    valkey::{Level, Report},
};

/// Days before its end from which on a certificate or token is worth a word.
const SOON: i64 = 21;

pub async fn look(config: &Config, listening: bool) -> Report {
    let mut report = Report::default();
    if let Some(path) = &config.access.token_file {
        tokens(path, &mut report);
    }
    if let Some(tls) = config.access.listen.as_ref().and_then(|listen| listen.tls.as_ref()) {
        certificate("certificate", &tls.cert, &mut report);
        if let Some(authority) = &tls.client_ca {
            certificate("client authority", authority, &mut report);
        }
        let key = tls.key.display();
        match fs::metadata(&tls.key).map(|found| found.mode() & 0o777) {
            Ok(mode) if mode & 0o007 != 0 => {
                let todo = format!("chmod 600 {key}");
                report.add(
                    Level::Warn,
                    "private key",
                    format!("others may read {key} (mode {mode:04o})"),
                    &todo,
                );
            }
            Ok(mode) => report.add(Level::Ok, "private key", format!("{key}, mode {mode:04o}"), ""),
            Err(error) => report.add(Level::Fail, "private key", format!("{key}: {error}"), ""),
        }
    }
    if let Some(listen) = &config.access.listen {
        let place = Place { host: listen.host.clone(), port: listen.port };
        port("port", "--listen", &place, listening, &mut report).await;
    }
    if let Some(place) = &config.observe.admin {
        port("admin port", "--admin", place, listening, &mut report).await;
    }
    report
}

fn days_until(at: Timestamp) -> i64 {
    at.since((Unit::Hour, Timestamp::now())).map_or(0, |span| span.get_hours().div_euclid(24).into())
}

fn tokens(path: &Path, report: &mut Report) {
    let shown = path.display();
    let file = match TokenFile::read(path) {
        Ok(file) => file,
        Err(error) => return report.add(Level::Fail, "tokens", error.0, ""),
    };
    if TokenFile::is_open_to_others(path) {
        let todo = format!("chmod 600 {shown}");
        report.add(Level::Warn, "token file", format!("others may read or change {shown}"), &todo);
    }
    let (mut valid, mut expired, mut soon) = (0, Vec::new(), Vec::new());
    for entry in &file.entries {
        match entry.expiry().ok().flatten().map(days_until) {
            Some(days) if days < 0 => expired.push(entry.name.as_str()),
            Some(days) if days < SOON => {
                soon.push(entry.name.as_str());
                valid += 1;
            }
            _ => valid += 1,
        }
    }
    let todo = "pannier tokens add NAME --scope … --token-file FILE makes another";
    if valid == 0 {
        report.add(
            Level::Warn,
            "tokens",
            format!("none in {shown} is valid: nobody can come in by one"),
            todo,
        );
    } else {
        report.add(Level::Ok, "tokens", format!("{valid} valid in {shown}"), "");
    }
    if !expired.is_empty() {
        report.add(
            Level::Warn,
            "tokens",
            format!("expired: {}", expired.join(", ")),
            "pannier tokens remove NAME",
        );
    }
    if !soon.is_empty() {
        report.add(Level::Warn, "tokens", format!("expire within {SOON} days: {}", soon.join(", ")), todo);
    }
}

fn certificate(check: &'static str, path: &Path, report: &mut Report) {
    let shown = path.display();
    let ends = match tls::expiry(path) {
        Ok(ends) => ends,
        Err(why) => return report.add(Level::Fail, check, format!("{shown}: {why}"), ""),
    };
    let (day, days) = (ends.strftime("%Y-%m-%d"), days_until(ends));
    let todo = "put a new one in its place and send the sidecar a SIGHUP";
    match days {
        ..0 => report.add(Level::Fail, check, format!("{shown} has expired on {day}"), todo),
        0..SOON => report.add(Level::Warn, check, format!("{shown} expires in {days} days, on {day}"), todo),
        _ => report.add(Level::Ok, check, format!("{shown}, valid until {day}"), ""),
    }
}

/// Whether the port can be had. Binding it for a moment tells; nobody is answered meanwhile.
async fn port(check: &'static str, flag: &str, place: &Place, listening: bool, report: &mut Report) {
    let shown = format!("{}:{}", place.host, place.port);
    let addresses: Vec<SocketAddr> = match lookup_host((place.host.as_str(), place.port)).await {
        Ok(found) => found.collect(),
        Err(error) => {
            return report.add(
                Level::Fail,
                check,
                format!("{shown}: {error}"),
                &format!("name an address with {flag}"),
            );
        }
    };
    match TcpListener::bind(&addresses[..]).await {
        Ok(_) => report.add(Level::Ok, check, format!("{shown} is free"), ""),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && listening => {
            report.add(Level::Ok, check, format!("{shown} is in use; a sidecar is running"), "");
        }
        Err(error) => {
            let todo = format!("end who uses it (ss -ltnp), or name another with {flag}");
            report.add(Level::Fail, check, format!("{shown}: {error}"), &todo);
        }
    }
}
