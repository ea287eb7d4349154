//! A look at a server and its database, with the checks of the start; nothing is written.

use redis::{Value, aio::MultiplexedConnection};
use tokio::{sync::mpsc, time::timeout};

use crate::crypto::SharedKeyring;

use super::{
    LinkConfig, StartError, Target,
    keys::{BUCKETS, Names},
    lanes::{Generation, ask, one},
    preflight::{self, Level, Report},
    reconnect::BOOTSTRAP_WITHIN,
    store_identity::{Refusal, Store, Via},
    target::Endpoint,
};

/// Keys that are asked for their time to live, at most.
const SAMPLE: usize = 20;

/// Examines the server that `config` names. An embedded one must be running.
///
/// # Errors
/// When it cannot be reached, or the configuration itself is wrong.
pub async fn examine(
    config: &LinkConfig,
    keyring: &SharedKeyring,
    kinds: &[&str],
) -> Result<Report, StartError> {
    let endpoint = match &config.target {
        Target::Url(url) => Endpoint::parse(url)?,
        Target::Embedded(embedded) => Endpoint::unix(embedded.socket())?,
    };
    let unreachable = |why: String| StartError::Config(format!("{endpoint}: {why}"));
    let (pushes, _messages) = mpsc::unbounded_channel();
    let generation = Generation::connect(0, &endpoint, config.connect_within, config.connections, &pushes)
        .await
        .map_err(unreachable)?;
    let connection = generation.probe_lane();
    let look = async {
        let mut report = preflight::inspect(&connection, config.allowances()).await?;
        let names = Names::new(&config.env);
        let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let store = Store::new(Via::One(&connection), &names, &kinds);
        database(&store, keyring, &mut report).await?;
        no_expiry(&connection, &names, &mut report).await?;
        Ok(report)
    };
    timeout(BOOTSTRAP_WITHIN, look)
        .await
        .unwrap_or_else(|_| Err("no answer in time".into()))
        .map_err(unreachable)
}

async fn database(store: &Store<'_>, keyring: &SharedKeyring, report: &mut Report) -> Result<(), String> {
    let checked = async {
        let Some(id) = store.found().await? else {
            return Err(Refusal::Human(
                "empty, or another environment's: see --env; an empty one is taken into use with --init"
                    .into(),
            ));
        };
        store.check(&id, 0, BUCKETS).await.map(|()| id)
    };
    match checked.await {
        Ok(id) => {
            report.add(Level::Ok, "database", format!("store {id}"), "");
            report.facts.store_id = id;
        }
        Err(Refusal::Unreachable(why)) => return Err(why),
        Err(Refusal::Human(why)) => {
            report.add(Level::Fail, "database", why, "");
            return Ok(());
        }
        Err(Refusal::Changed(why)) => {
            report.add(Level::Fail, "database", why, "restore it from a backup");
            return Ok(());
        }
    }
    match store.check_keys(&keyring.current(), false).await {
        Ok(()) => report.add(Level::Ok, "keyring", "the one this database was written with", ""),
        Err(Refusal::Unreachable(why)) => return Err(why),
        Err(Refusal::Human(why) | Refusal::Changed(why)) => report.add(Level::Fail, "keyring", why, ""),
    }
    Ok(())
}

/// Credentials never expire: a sample of the sessions' keys must have no time to live.
async fn no_expiry(
    connection: &MultiplexedConnection,
    names: &Names,
    report: &mut Report,
) -> Result<(), String> {
    let mut scan = redis::cmd("SCAN");
    scan.arg(0).arg("MATCH").arg(format!("{}{{*}}:[hrb]*", names.prefix())).arg("COUNT").arg(1000);
    let found = match ask(connection.clone(), &one(scan)).await? {
        Ok(Value::Array(mut reply)) if reply.len() == 2 => reply.pop(),
        _ => None,
    };
    let Some(Value::Array(found)) = found else {
        report.add(Level::Unknown, "expiry", "unknown: SCAN is forbidden", "");
        return Ok(());
    };
    let mut expiring = 0;
    for key in found.iter().take(SAMPLE) {
        let Value::BulkString(key) = key else { continue };
        let mut ttl = redis::cmd("PTTL");
        ttl.arg(key);
        if let Ok(Value::Int(0..)) = ask(connection.clone(), &one(ttl)).await? {
            expiring += 1;
        }
    }
    if expiring > 0 {
        let found = format!("{expiring} keys of sessions or blobs have a time to live");
        report.add(Level::Fail, "expiry", found, "somebody else set it: PERSIST them, and find out who");
    } else {
        report.add(Level::Ok, "expiry", format!("none among {} keys looked at", found.len().min(SAMPLE)), "");
    }
    Ok(())
}
