//! A look at a server and its database, with the checks of the start; nothing is written.

use redis::{Pipeline, Value};
use tokio::time::{Instant, timeout};

use crate::crypto::SharedKeyring;

use super::{
    LinkConfig, StartError,
    canaries::{self, Mismatch, Standing},
    keys::{BUCKETS, Names},
    lanes::one,
    nodes,
    reconnect::BOOTSTRAP_WITHIN,
    report::{Level, Report},
    scan,
    shard::Shard,
    store_identity::{Refusal, Store, Via},
    topology::Shards,
};

/// Keys that are asked for their time to live, at most.
const SAMPLE: usize = 2_000;
/// Keys that are walked over to find them.
const WALKED: usize = 20_000;
/// The same in one step.
const WALKED_AT_ONCE: usize = 1000;

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

impl Unexamined {
    /// A user or password that is refused is wrong in the configuration; all else may pass.
    pub(super) fn because(why: String) -> Self {
        if why.contains("refused (WRONGPASS)") || why.contains("user or password refused") {
            Self::Config(why)
        } else {
            Self::Unreachable(why)
        }
    }
}

/// Examines what `config` names: one server, the primary that Sentinels name, or every primary of a cluster. An embedded one
/// must be running. Without a keyring, all but what needs it.
///
/// # Errors
/// When it cannot be reached, or the configuration itself is wrong.
pub async fn examine(
    config: &LinkConfig,
    keyring: Option<&SharedKeyring>,
    kinds: &[&str],
) -> Result<Report, Unexamined> {
    let names = Names::new(&config.env);
    let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let shards = nodes::reach(config).await?;
    let look = async {
        let mut report = nodes::report(&shards);
        if topology(&shards, &mut report) {
            let store = Store::new(Via::Shards(&shards), &names, &kinds);
            database(&store, config.init, &mut report).await?;
            if let Some(keyring) = keyring {
                keys(&store, keyring, &mut report).await?;
            }
        }
        expiry(&shards, &names, &mut report).await?;
        Ok(report)
    };
    let within = BOOTSTRAP_WITHIN * if shards.is_cluster() { 2 } else { 1 };
    let looked = timeout(within, look).await.unwrap_or_else(|_| Err("no answer in time".into()));
    looked.map_err(Unexamined::because)
}

/// Whether the database can be looked at as a whole.
fn topology(shards: &Shards, report: &mut Report) -> bool {
    if !shards.is_cluster() {
        if report.facts.topology == "cluster" {
            report.add(Level::Fail, "topology", "a node of a cluster", "give --cluster as well");
        }
        return true;
    }
    if shards.is_whole() {
        report.add(Level::Ok, "cluster", format!("{} primaries serve all slots", shards.all.len()), "");
    } else {
        let todo = "valkey-cli --cluster check HOST:PORT tells which";
        report.add(Level::Fail, "cluster", "some slots are served by no node", todo);
    }
    shards.is_whole()
}

async fn database(store: &Store<'_>, init: bool, report: &mut Report) -> Result<(), String> {
    let there = match store.environment().await {
        Ok(there) => there,
        Err(Refusal::Unreachable(why)) => return Err(why),
        Err(Refusal::Human(why) | Refusal::Changed(why)) => {
            let todo = "allow the Valkey user the keys pannier:*";
            report.add(Level::Fail, "database", format!("it cannot be read: {why}"), todo);
            return Ok(());
        }
    };
    let ours = store.env();
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
        Some((word, "")) if word.starts_with("migrating/") || word.starts_with("adopting/") => {
            let command = if word.starts_with('m') { "migrate" } else { "adopt-branch" };
            let todo = format!("run `pannier {command}` again, with the same arguments");
            report.add(Level::Fail, "database", format!("an unfinished `pannier {command}`"), &todo);
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
    let standing = match store.prove(&keyring.current(), false).await {
        // Nothing was written with any.
        Ok(Ok(_)) if report.facts.store_id.is_empty() => return Ok(()),
        Ok(Err(mismatch)) if !mismatch.is_of_age() => {
            report.add(Level::Fail, "keyring", mismatch.found(), mismatch.todo());
            return Ok(());
        }
        Ok(standing) => standing,
        Err(Refusal::Unreachable(why)) => return Err(why),
        Err(Refusal::Human(why) | Refusal::Changed(why)) => {
            report.add(Level::Fail, "keyring", why, "");
            return Ok(());
        }
    };
    report.add(Level::Ok, "keyring", "the one this database was written with (canaries open)", "");
    age(standing, report);
    Ok(())
}

/// Whether it is the keyring as it is now, or a copy from before a step of a rotation.
fn age(standing: Result<Standing, Mismatch>, report: &mut Report) {
    const CHECK: &str = "keyring age";
    match standing {
        Err(mismatch) => report.add(Level::Fail, CHECK, mismatch.found(), mismatch.todo()),
        Ok(Standing { lacking, .. }) if !lacking.is_empty() => {
            for id in lacking {
                report.add(Level::Warn, CHECK, canaries::lacks(id), canaries::LACKS_TODO);
            }
        }
        Ok(Standing { rewrapped: Some(id), .. }) => {
            report.add(
                Level::Ok,
                CHECK,
                format!("it has key {id}, which everything was last wrapped under"),
                "",
            );
        }
        Ok(_) => report.add(Level::Ok, CHECK, "nothing was wrapped anew yet", ""),
    }
}

/// Credentials never expire: no key of a session, blob or namespace may have a time to live. What is worst of all nodes is told.
async fn expiry(shards: &Shards, names: &Names, report: &mut Report) -> Result<(), String> {
    let mut found = Report::default();
    for shard in &shards.all {
        no_expiry(shard, names, &mut found).await?;
    }
    report.findings.extend(found.findings.into_iter().max_by_key(|finding| finding.level));
    Ok(())
}

/// Looks at as many keys as fit into a moment.
async fn no_expiry(shard: &Shard, names: &Names, report: &mut Report) -> Result<(), String> {
    let until = Instant::now() + BOOTSTRAP_WITHIN / 4;
    let pattern = format!("{}{{*}}:[bhkr]*", names.prefix());
    let send =
        |pipeline: Pipeline| async move { nodes::exchange(shard, &pipeline, None, BOOTSTRAP_WITHIN).await };
    let (mut cursor, mut looked, mut walked, mut expiring) = (0, 0, 0, 0);
    loop {
        let reply = send(one(scan::command(cursor, &pattern, WALKED_AT_ONCE))).await?.pop();
        let Some((next, keys)) = reply.and_then(Result::ok).and_then(scan::page) else {
            report.add(Level::Unknown, "expiry", "unknown: SCAN is forbidden", "");
            return Ok(());
        };
        // A queue's keys and those of conversations begin alike, and may end by themselves.
        let lasting: Vec<Vec<u8>> = keys.into_iter().filter(|key| lasts(key)).take(SAMPLE - looked).collect();
        let mut ask_ttls = Pipeline::with_capacity(lasting.len());
        for key in &lasting {
            ask_ttls.cmd("PTTL").arg(key);
        }
        if !lasting.is_empty() {
            let ttls = send(ask_ttls).await?;
            expiring += ttls.iter().filter(|ttl| matches!(ttl, Ok(Value::Int(0..)))).count();
        }
        looked += lasting.len();
        walked += WALKED_AT_ONCE;
        cursor = next;
        if cursor == 0 || looked >= SAMPLE || walked >= WALKED || Instant::now() > until {
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
