//! A look at a server and its database, with the checks of the start; nothing is written.

use redis::{Pipeline, Value, aio::MultiplexedConnection};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use crate::crypto::SharedKeyring;

use super::{
    LinkConfig, StartError, Target,
    keys::{BUCKETS, ENVIRONMENT, Names},
    lanes::{Generation, ask, describe, one},
    preflight::{self, Level, Report},
    reconnect::BOOTSTRAP_WITHIN,
    server_info::text,
    store_identity::{Refusal, Store},
    target::Endpoint,
};

/// Keys that are asked for their time to live, at most.
const SAMPLE: usize = 2_000;
/// Keys that are walked over to find them.
const WALKED: usize = 20_000;

/// Why a server could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unexamined {
    /// What is configured cannot be right: the URL, the user, the password.
    #[error("{0}")]
    Config(String),
    /// It does not answer, or cannot be used as it is now.
    #[error("{0}")]
    Unreachable(String),
}

impl From<StartError> for Unexamined {
    fn from(error: StartError) -> Self {
        let StartError::Config(why) = error;
        Self::Config(why)
    }
}

/// Examines the server that `config` names. An embedded one must be running. Without a keyring, all but what needs it.
///
/// # Errors
/// When it cannot be reached, or the configuration itself is wrong.
pub async fn examine(
    config: &LinkConfig,
    keyring: Option<&SharedKeyring>,
    kinds: &[&str],
) -> Result<Report, Unexamined> {
    let endpoint = match &config.target {
        Target::Url(url) => Endpoint::parse(url)?,
        Target::Embedded(embedded) => Endpoint::unix(embedded.socket())?,
    };
    let failed = |why: String| {
        let what = format!("{endpoint}: {why}");
        if why.contains("refused (WRONGPASS)") || why.starts_with("user or password refused") {
            Unexamined::Config(what)
        } else {
            Unexamined::Unreachable(what)
        }
    };
    let (pushes, _messages) = mpsc::unbounded_channel();
    let generation =
        Generation::connect(0, &endpoint, config.connect_within, &pushes).await.map_err(failed)?;
    let connection = generation.probe_lane();
    let look = async {
        let mut report = preflight::inspect(&connection, config.allowances()).await?;
        let names = Names::new(&config.env);
        let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let store = Store { connection: &connection, names: &names, kinds: &kinds };
        database(&store, config.init, &mut report).await?;
        if let Some(keyring) = keyring {
            keys(&store, keyring, &mut report).await?;
        }
        no_expiry(&connection, &names, &mut report).await?;
        Ok(report)
    };
    timeout(BOOTSTRAP_WITHIN, look).await.unwrap_or_else(|_| Err("no answer in time".into())).map_err(failed)
}

async fn database(store: &Store<'_>, init: bool, report: &mut Report) -> Result<(), String> {
    let mut read = redis::cmd("GET");
    read.arg(ENVIRONMENT);
    let there = match ask(store.connection.clone(), &one(read)).await? {
        Ok(value) => text(&value),
        Err(error) => {
            let todo = "allow the Valkey user the keys pannier:*";
            report.add(Level::Fail, "database", format!("it cannot be read: {error}"), todo);
            return Ok(());
        }
    };
    let ours = store.names.env();
    match there.as_deref().map(|there| there.split_once(' ').unwrap_or((there, ""))) {
        None if init => {
            report.add(Level::Ok, "database", "empty; --init takes it into use", "");
            return Ok(());
        }
        None => {
            let todo = "the first time: pannier serve --init, with the same flags; else it has lost its data: restore it from a backup";
            report.add(Level::Fail, "database", "empty", todo);
            return Ok(());
        }
        Some((env, _)) if env != ours => {
            let found = format!("it belongs to environment {env:?}, not {ours:?}");
            report.add(Level::Fail, "database", found, &format!("give --env {env}, or another database"));
            return Ok(());
        }
        Some(_) if init => {
            report.add(Level::Fail, "database", "it is in use already, and --init is given", "remove --init");
        }
        Some(_) => {}
    }
    let checked = async {
        let id = store.found().await?.ok_or_else(|| Refusal::Changed("it was emptied this moment".into()))?;
        store.check(&id, 0, BUCKETS).await.map(|()| id)
    };
    match checked.await {
        Ok(id) => {
            report.add(
                Level::Ok,
                "database",
                format!("environment {ours}, store {id}, every part of the index is there"),
                "",
            );
            report.facts.store_id = id;
        }
        Err(Refusal::Unreachable(why)) => return Err(why),
        Err(Refusal::Human(why)) => report.add(Level::Fail, "database", why, ""),
        Err(Refusal::Changed(why)) => report.add(Level::Fail, "database", why, "restore it from a backup"),
    }
    Ok(())
}

async fn keys(store: &Store<'_>, keyring: &SharedKeyring, report: &mut Report) -> Result<(), String> {
    match store.check_keys(&keyring.current(), false).await {
        Ok(()) if report.facts.store_id.is_empty() => {}
        Ok(()) => {
            report.add(Level::Ok, "keyring", "the one this database was written with (canaries open)", "");
        }
        Err(Refusal::Unreachable(why)) => return Err(why),
        Err(Refusal::Human(why) | Refusal::Changed(why)) => report.add(Level::Fail, "keyring", why, ""),
    }
    Ok(())
}

/// Credentials never expire: no key of a session, blob or namespace may have a time to live. Looks at as many as fit into a moment.
async fn no_expiry(
    connection: &MultiplexedConnection,
    names: &Names,
    report: &mut Report,
) -> Result<(), String> {
    let until = Instant::now() + BOOTSTRAP_WITHIN / 4;
    let (mut cursor, mut looked, mut walked, mut expiring) = ("0".to_owned(), 0, 0, 0);
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(format!("{}{{*}}:[bhkr]*", names.prefix())).arg("COUNT").arg(1000);
        let found = match ask(connection.clone(), &one(scan)).await? {
            Ok(Value::Array(mut reply)) if reply.len() == 2 => reply.pop().zip(reply.pop()),
            _ => None,
        };
        let Some((Value::Array(keys), next)) = found else {
            report.add(Level::Unknown, "expiry", "unknown: SCAN is forbidden", "");
            return Ok(());
        };
        let keys = keys
            .into_iter()
            .filter_map(|key| if let Value::BulkString(key) = key { Some(key) } else { None });
        // A queue's keys and those of conversations begin alike, and may end by themselves.
        let lasting: Vec<Vec<u8>> = keys.filter(|key| lasts(key)).take(SAMPLE - looked).collect();
        let mut ask_ttls = Pipeline::with_capacity(lasting.len());
        for key in &lasting {
            ask_ttls.cmd("PTTL").arg(key);
        }
        if !lasting.is_empty() {
            let ttls = connection.clone().send_packed_commands(&ask_ttls, 0, lasting.len()).await;
            let ttls = ttls.map_err(|error| describe(&error))?;
            expiring += ttls.iter().filter(|ttl| matches!(ttl, Value::Int(0..))).count();
        }
        looked += lasting.len();
        walked += 1000;
        cursor = text(&next).unwrap_or_default();
        if cursor.is_empty()
            || cursor == "0"
            || looked >= SAMPLE
            || walked >= WALKED
            || Instant::now() > until
        {
            break;
        }
    }
    if expiring > 0 {
        let found =
            format!("{expiring} of {looked} keys of sessions, blobs and namespaces have a time to live");
        report.add(Level::Fail, "expiry", found, "somebody else set it: PERSIST them, and find out who");
    } else {
        report.add(Level::Ok, "expiry", format!("none among {looked} keys that must not have one"), "");
    }
    Ok(())
}

/// Whether a key `…{tag}:suffix` must never expire.
fn lasts(key: &[u8]) -> bool {
    let suffix =
        key.iter().position(|byte| *byte == b'}').and_then(|at| key.get(at + 2..)).unwrap_or_default();
    // A cap's key may begin alike, and goes on in bytes.
    let records = |suffix: &[u8]| {
        let incarnation = suffix.strip_prefix(b"r:").unwrap_or_default();
        !incarnation.is_empty() && incarnation.iter().all(u8::is_ascii_digit)
    };
    matches!(suffix, b"h" | b"k" | b"b" | b"b:m") || records(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_must_not_expire_are_told_by_their_end() {
        for lasting in [
            "pannier:dev:{abc}:h",
            "pannier:dev:{abc}:r:1764",
            "pannier:dev:{a-_}:k",
            "pannier:x:{a}:b",
            "pannier:x:{a}:b:m",
        ] {
            assert!(lasts(lasting.as_bytes()), "{lasting}");
        }
        for passing in [
            "pannier:dev:{abc}:rdy",
            "pannier:dev:{abc}:b:7:1",
            "pannier:dev:{abc}:",
            "pannier:dev:meta",
            "",
            "pannier:dev:{a}:r:}x}:h",
            "pannier:dev:{a}:r:1x",
        ] {
            assert!(!lasts(passing.as_bytes()), "{passing}");
        }
    }
}
