//! Collects what has run out: archives, dropped generations, uploads that nobody ends. One sidecar at a time does it for each
//! kind, elected by a key that runs out; two at once would do no harm, since the scripts check the time themselves.

use std::{collections::HashSet, sync::Arc, time::Duration};

use redis::{Value, cmd};
use tokio::time::Instant;

use super::{
    catalog::{BUCKETS, tags},
    scripts,
};
use crate::{
    crypto::OwnerTag,
    error::Result,
    valkey::{Lane, Link, Op},
};

/// Between two rounds. In test builds short, so that a shifted clock shows its effect.
const EVERY: Duration =
    if cfg!(feature = "test-clock") { Duration::from_secs(1) } else { Duration::from_secs(60) };
/// Owners of one bucket in one round.
const OWNERS: u64 = 100;
/// What one owner may take.
pub const CALL: Duration = Duration::from_secs(5);

/// A kind of owner of which something runs out.
pub trait Sweep: Send + Sync + 'static {
    /// The kind whose index is walked.
    const KIND: &'static str;

    /// Where it is.
    fn link(&self) -> &Link;

    /// Does what is due, and says in the index when something will be. Gives how many things went.
    fn sweep(&self, tag: OwnerTag) -> impl Future<Output = Result<u64>> + Send;

    /// Lists or unlists an owner that was being made or unmade by somebody who is gone.
    fn settle(&self, tag: OwnerTag) -> impl Future<Output = Result<()>> + Send;
}

/// Sweeps until the task is dropped.
pub async fn run<S: Sweep>(owners: Arc<S>) {
    let mut unsettled = HashSet::new();
    loop {
        // Spread out, so that many sidecars do not ask at the same instant.
        let jitter = u64::from(rand_byte()) * 8;
        tokio::time::sleep(EVERY + Duration::from_millis(jitter)).await;
        match round(&*owners, &mut unsettled).await {
            Ok(0) => {}
            Ok(gone) => tracing::info!(kind = S::KIND, gone, "what had run out was collected"),
            Err(error) => tracing::debug!(kind = S::KIND, %error, "a sweep was cut short"),
        }
    }
}

fn rand_byte() -> u8 {
    let mut byte = [0];
    let _ = getrandom::fill(&mut byte);
    byte[0]
}

async fn round<S: Sweep>(owners: &S, unsettled: &mut HashSet<OwnerTag>) -> Result<u64> {
    let link = owners.link();
    let mut elect = cmd("SET");
    elect.arg(format!("{}sweeper:{}", link.prefix(), S::KIND)).arg("1").arg("NX").arg("PX");
    elect.arg(u64::try_from(EVERY.as_millis() / 2).unwrap_or(500));
    if link.run(Lane::Bulk, Op::Cmd(elect), Instant::now() + CALL).await? == Value::Nil {
        return Ok(0);
    }
    let (mut gone, mut still_unsettled) = (0, HashSet::new());
    for bucket in 0..BUCKETS {
        let op = Op::Script {
            script: &scripts::DUE,
            keys: vec![link.index_key(S::KIND, bucket)],
            args: vec![OWNERS.to_string().into_bytes()],
        };
        let reply = link.run(Lane::Bulk, op, Instant::now() + CALL).await?;
        let Value::Array(lists) = reply else { continue };
        for tag in lists.first().map(tags).unwrap_or_default() {
            gone += skip(S::KIND, &tag, owners.sweep(tag).await);
        }
        for tag in lists.get(1).map(tags).unwrap_or_default() {
            // Marked a whole round ago: whoever was making or unmaking it is gone.
            if unsettled.contains(&tag) {
                skip(S::KIND, &tag, owners.settle(tag).await);
            } else {
                still_unsettled.insert(tag);
            }
        }
    }
    *unsettled = still_unsettled;
    Ok(gone)
}

/// One owner that cannot be swept does not hold up the rest.
fn skip<T: Default>(kind: &str, tag: &OwnerTag, result: Result<T>) -> T {
    result.unwrap_or_else(|error| {
        tracing::debug!(kind, owner = %&tag.to_string()[..8], %error, "an owner could not be swept");
        T::default()
    })
}
