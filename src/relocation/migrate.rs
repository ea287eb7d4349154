//! Carries every key of an environment to another server as it is, with its time to live, and compares both sides.

use redis::{Value, cmd};

use super::{
    Contents, Fingerprint, Stopped, environment, is_of_running_sidecars, on, refuse_while_in_use,
    set_environment,
};
use crate::{
    crypto::Keyring,
    valkey::{Depot, ServerError, Walk},
};

/// Keys in one write: a record hash may hold megabytes.
const BATCH: usize = 16;

/// What is being done, and how many keys of how many it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Keys are carried over.
    Copying,
    /// Both sides are compared.
    Comparing,
}

/// What was done.
#[derive(Clone, Debug)]
pub struct Migrated {
    /// Whose it is.
    pub env: String,
    /// The database's own id, the same on both sides.
    pub store_id: String,
    /// Keys of both sides.
    pub keys: u64,
    /// Those that this run has carried.
    pub copied: u64,
    /// Those of them that were written anew, since the target does not read the source's format.
    pub rewritten: u64,
    /// Of all keys, their contents and their ends.
    pub digest: Fingerprint,
}

/// Carries `env` from `source` to `target`, which must be empty or hold the unfinished rest of the same migration.
///
/// # Errors
/// See [`Stopped`]. Run again it goes on where it was.
pub async fn migrate(
    source: &Depot,
    target: &Depot,
    keyring: &Keyring,
    env: &str,
    progress: &dyn Fn(Stage, u64, u64),
) -> Result<Migrated, Stopped> {
    let store_id = store_id(source, env).await?;
    refuse_while_in_use(source, keyring, env).await?;
    begin(target, env, &store_id).await?;
    let mut run = Run { source, target, copied: 0, rewritten: 0, env };
    let total = source.size().await?;

    let mut seen = 0;
    let mut walk = Walk::default();
    while let Some(keys) = source.walk(&mut walk, &run.pattern()).await? {
        seen += count(&keys);
        for keys in run.carried(keys).chunks(BATCH) {
            run.copy_missing(keys).await?;
        }
        progress(Stage::Copying, seen, total.max(seen));
    }

    let (mut compared, mut digest) = (0, Fingerprint::default());
    let mut walk = Walk::default();
    let mut keys_before = std::collections::HashSet::new();
    while let Some(keys) = source.walk(&mut walk, &run.pattern()).await? {
        let mut keys = run.carried(keys);
        // A walk may come by a key twice.
        keys.retain(|key| keys_before.insert(key.clone()));
        for keys in keys.chunks(BATCH) {
            for fingerprint in run.compare(keys).await? {
                digest.add(&fingerprint);
                compared += 1;
            }
        }
        progress(Stage::Comparing, count_of(keys_before.len()), total.max(compared));
    }
    let kept = run.drop_strangers(&keys_before).await?;
    if kept > compared {
        // Some have ended since they were compared; never are there more.
        return Err(Stopped::Broken(format!(
            "the target holds {kept} keys, the source {compared}: run it again"
        )));
    }
    // Whoever came meanwhile has changed what was compared.
    refuse_while_in_use(source, keyring, env).await?;
    set_environment(target, &format!("{env} {store_id}")).await?;
    let Run { copied, rewritten, .. } = run;
    Ok(Migrated { env: env.to_owned(), store_id, keys: compared, copied, rewritten, digest })
}

/// The id of the database that is carried.
async fn store_id(source: &Depot, env: &str) -> Result<String, Stopped> {
    let there = environment(source).await?;
    let refused = |why: String| Err(Stopped::Refused(why));
    match there.split_once(' ') {
        Some((found, id)) if found == env => Ok(id.to_owned()),
        Some((found, _)) => refused(format!(
            "the source belongs to environment {found:?}, not {env:?}: give --env {found}, or another source"
        )),
        None if there.is_empty() => refused("the source is empty: nothing to carry".into()),
        None => refused("the source is itself unfinished: finish what was begun on it first".into()),
    }
}

/// Takes the target, or takes it up again.
async fn begin(target: &Depot, env: &str, store_id: &str) -> Result<(), Stopped> {
    if let Some(failure) = target.report().failures().next() {
        return Err(Stopped::Refused(format!("the target cannot be used: {failure}")));
    }
    let mark = format!("migrating/{env}/{store_id}");
    let refused = |why: &str| Err(Stopped::Refused(why.to_owned()));
    let there = environment(target).await?;
    match there.split_once(' ') {
        _ if there == mark => return Ok(()),
        None if there.is_empty() => {}
        Some((_, id)) if id == store_id => {
            return refused(
                "the target holds this database already: it was migrated before, and may be in use since",
            );
        }
        Some((found, _)) => {
            return refused(&format!(
                "the target holds a database of environment {found:?}: give an empty one"
            ));
        }
        None => {
            return refused(
                "the target holds the unfinished rest of another migration: empty it, or finish that one",
            );
        }
    }
    let mut walk = Walk::default();
    while let Some(keys) = target.walk(&mut walk, "pannier:*").await? {
        if !keys.is_empty() {
            return refused("the target has keys of Pannier, but says of no environment: empty it first");
        }
    }
    let mut write = cmd("SET");
    write.arg(crate::valkey::ENVIRONMENT).arg(&mark).arg("NX");
    match target.ask(write).await? {
        Value::Nil => refused("somebody else took the target into use this moment"),
        _ => Ok(()),
    }
}

struct Run<'a> {
    source: &'a Depot,
    target: &'a Depot,
    env: &'a str,
    copied: u64,
    rewritten: u64,
}

impl Run<'_> {
    fn pattern(&self) -> String {
        format!("pannier:{}:*", self.env)
    }

    /// Without what belongs to running sidecars.
    fn carried(&self, mut keys: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let prefix = format!("pannier:{}:", self.env);
        keys.retain(|key| !is_of_running_sidecars(key.strip_prefix(prefix.as_bytes()).unwrap_or_default()));
        keys
    }

    /// Those that are on the target already are compared later.
    async fn copy_missing(&mut self, keys: &[Vec<u8>]) -> Result<(), String> {
        let there = self.target.send(keys.iter().map(|key| on("EXISTS", key)).collect()).await?;
        let missing = keys.iter().zip(there).filter(|(_, there)| !matches!(there, Ok(Value::Int(1))));
        let missing: Vec<_> = missing.map(|(key, _)| key.clone()).collect();
        self.copy(&missing).await
    }

    async fn copy(&mut self, keys: &[Vec<u8>]) -> Result<(), String> {
        let reads = keys.iter().flat_map(|key| [on("DUMP", key), on("PEXPIRETIME", key)]);
        let mut replies = self.source.send(reads.collect()).await?.into_iter();
        let (mut moved, mut writes) = (Vec::new(), Vec::new());
        for key in keys {
            let mut next = || replies.next().unwrap_or(Ok(Value::Nil)).map_err(|error| error.to_string());
            let (dump, expires) = (next()?, next()?);
            // One that has ended meanwhile needs no copy.
            let (Value::BulkString(dump), Value::Int(expires @ -1..)) = (dump, expires) else { continue };
            let mut restore = on("RESTORE", key);
            restore.arg(expires.max(0)).arg(dump).arg("REPLACE").arg("ABSTTL");
            writes.push(restore);
            moved.push(key.clone());
        }
        let mut foreign = Vec::new();
        for (key, reply) in moved.iter().zip(self.target.send(writes).await?) {
            match reply {
                Ok(_) => self.copied += 1,
                Err(ServerError::Other { detail, .. }) if is_of_another_format(&detail) => {
                    foreign.push(key.clone());
                }
                Err(error) => return Err(format!("the target: {error}")),
            }
        }
        self.rewrite(&foreign).await
    }

    /// Member by member, where the target is older than the source.
    async fn rewrite(&mut self, keys: &[Vec<u8>]) -> Result<(), String> {
        for (key, contents) in keys.iter().zip(Contents::read(self.source, keys).await?) {
            let Some(contents) = contents else { continue };
            for reply in self.target.send(contents.written(key)).await? {
                reply.map_err(|error| format!("the target: {error}"))?;
            }
            self.copied += 1;
            self.rewritten += 1;
        }
        Ok(())
    }

    /// Makes sure that both sides hold the same; what differs is copied once more. Gives what they hold.
    async fn compare(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Fingerprint>, Stopped> {
        let mut differing = self.look(keys).await?;
        if differing.1.is_empty() {
            return Ok(differing.0);
        }
        let again = differing.1;
        self.copy(&again).await?;
        let (same, still) = self.look(&again).await?;
        differing.0.extend(same);
        if still.is_empty() {
            return Ok(differing.0);
        }
        Err(Stopped::Broken(format!(
            "{} keys differ after they were copied twice: does somebody write to the source or the target?",
            still.len()
        )))
    }

    /// The fingerprints of what is the same on both sides, and the keys that are not.
    async fn look(&self, keys: &[Vec<u8>]) -> Result<(Vec<Fingerprint>, Vec<Vec<u8>>), String> {
        let (ours, theirs) =
            tokio::try_join!(Contents::read(self.source, keys), Contents::read(self.target, keys))?;
        let (mut same, mut differing) = (Vec::new(), Vec::new());
        for ((key, one), other) in keys.iter().zip(ours).zip(theirs) {
            match (one, other) {
                (Some(one), Some(other)) if one == other => same.push(one.fingerprint(key)),
                (None, None) => {}
                _ => differing.push(key.clone()),
            }
        }
        Ok((same, differing))
    }

    /// Takes away what an earlier run has carried and the source has no more; gives how many are left.
    async fn drop_strangers(&self, source: &std::collections::HashSet<Vec<u8>>) -> Result<u64, String> {
        let mut walk = Walk::default();
        let mut kept = std::collections::HashSet::new();
        while let Some(keys) = self.target.walk(&mut walk, &self.pattern()).await? {
            let (ours, strangers): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| source.contains(key));
            kept.extend(ours);
            for reply in self.target.send(strangers.iter().map(|key| on("UNLINK", key)).collect()).await? {
                reply.map_err(|error| format!("the target: {error}"))?;
            }
        }
        Ok(count_of(kept.len()))
    }
}

fn count(keys: &[Vec<u8>]) -> u64 {
    count_of(keys.len())
}

fn count_of(keys: usize) -> u64 {
    u64::try_from(keys).unwrap_or(u64::MAX)
}

/// `RESTORE` does not know the version of the dump, or a type or encoding in it.
fn is_of_another_format(detail: &str) -> bool {
    let detail = detail.to_ascii_lowercase();
    detail.contains("payload version") || detail.contains("bad data format")
}
