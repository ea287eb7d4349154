//! Unlinks archives whose time has come. One sidecar at a time does it, elected by a key that runs out; two at once would
//! do no harm, since the script checks the time itself.

use std::{collections::HashSet, sync::Arc, time::Duration};

use redis::{Value, cmd};
use tokio::time::Instant;

use super::{
    catalog::{BUCKETS, tags},
    name::{KIND, SessionName},
    scripts,
    store::Store,
};
use crate::{
    crypto::OwnerTag,
    error::Result,
    valkey::{Lane, Op},
};

/// Between two rounds. In test builds short, so that a shifted clock shows its effect.
const EVERY: Duration =
    if cfg!(feature = "test-clock") { Duration::from_secs(1) } else { Duration::from_secs(60) };
/// Owners of one bucket in one round.
const OWNERS: u64 = 100;
const CALL: Duration = Duration::from_secs(5);

/// Sweeps until the task is dropped.
pub async fn run(store: Arc<Store>) {
    let mut unsettled = HashSet::new();
    loop {
        // Spread out, so that many sidecars do not ask at the same instant.
        let jitter = u64::from(rand_byte()) * 8;
        tokio::time::sleep(EVERY + Duration::from_millis(jitter)).await;
        match round(&store, &mut unsettled).await {
            Ok(0) => {}
            Ok(unlinked) => tracing::info!(unlinked, "archives whose time had come are gone"),
            Err(error) => tracing::debug!(%error, "a sweep was cut short"),
        }
    }
}

fn rand_byte() -> u8 {
    let mut byte = [0];
    let _ = getrandom::fill(&mut byte);
    byte[0]
}

async fn round(store: &Store, unsettled: &mut HashSet<OwnerTag>) -> Result<u64> {
    let mut elect = cmd("SET");
    elect.arg(format!("{}sweeper:{KIND}", store.link.prefix())).arg("1").arg("NX").arg("PX");
    elect.arg(u64::try_from(EVERY.as_millis() / 2).unwrap_or(500));
    if store.link.run(Lane::Bulk, Op::Cmd(elect), Instant::now() + CALL).await? == Value::Nil {
        return Ok(0);
    }
    let (mut unlinked, mut still_unsettled) = (0, HashSet::new());
    for bucket in 0..BUCKETS {
        let op = Op::Script {
            script: &scripts::DUE,
            keys: vec![store.link.index_key(KIND, bucket)],
            args: vec![OWNERS.to_string().into_bytes()],
        };
        let reply = store.link.run(Lane::Bulk, op, Instant::now() + CALL).await?;
        let Value::Array(lists) = reply else { continue };
        for tag in lists.first().map(tags).unwrap_or_default() {
            unlinked += sweep(store, &SessionName::of_tag(tag)).await?;
        }
        for tag in lists.get(1).map(tags).unwrap_or_default() {
            // Marked a whole round ago: whoever was making or unmaking it is gone.
            if unsettled.contains(&tag) {
                settle(store, &SessionName::of_tag(tag)).await?;
            } else {
                still_unsettled.insert(tag);
            }
        }
    }
    *unsettled = still_unsettled;
    Ok(unlinked)
}

async fn sweep(store: &Store, name: &SessionName) -> Result<u64> {
    let deadline = Instant::now() + CALL;
    let (Some(head), now) = store.head(name, deadline).await? else { return Ok(0) };
    let archives = head.archives();
    if archives.is_empty() {
        store.index_settle(name, &head, deadline).await?;
        return Ok(0);
    }
    Ok(store.unlink(name, &head, &archives, now, true, deadline).await?.unwrap_or(0))
}

async fn settle(store: &Store, name: &SessionName) -> Result<()> {
    let deadline = Instant::now() + CALL;
    match store.head(name, deadline).await?.0 {
        Some(head) => store.index_settle(name, &head, deadline).await,
        None => store.unlist(name, deadline).await,
    }
}
