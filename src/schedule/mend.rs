//! Looks over the jobs of a queue, a bucket at a time, for such as are in no list: they would be stuck for ever and keep their id.
//! No script leaves one behind; a damaged or partly restored database may.

use std::sync::{Arc, atomic::Ordering};

use super::{
    handle::Handle,
    scripts,
    store::{bytes, number, soon},
};
use crate::{
    error::Result,
    valkey::{Lane, Op},
};

/// Headers of one step.
const MOST: u64 = 200;
/// Buckets of one step, should the first ones be empty.
const BUCKETS: u64 = 16;

/// One step.
pub async fn step(handle: &Arc<Handle>) -> Result<()> {
    let from = handle.mending.load(Ordering::Relaxed);
    let mut cursor = b"0".to_vec();
    loop {
        let list: Vec<u64> = (from..from + BUCKETS).collect();
        let (keys, packed) = handle.queue.keys(&list);
        let args = vec![packed, cursor, MOST.to_string().into_bytes()];
        let op = Op::Script { script: &scripts::MEND, keys, args };
        let reply = handle.store.link.run(Lane::Bulk, op, soon()).await?;
        let (status, mut rest) = super::store::open(reply)?;
        if status == "NONE" {
            return Ok(());
        }
        let mended = number(rest.next())?;
        cursor = bytes(rest.next())?;
        let (looked, highest) = (number(rest.next())?, number(rest.next())?);
        if mended > 0 {
            metrics::counter!("pannier_jobs_mended_total").increment(mended);
            tracing::warn!(queue = %handle.queue.name.short(), mended, "jobs were in no list and have been put back");
            handle.queue.wake();
        }
        // A bucket that takes several steps is looked at in one go only if it was the first.
        if cursor == b"0" || looked > 1 {
            let next = from + looked;
            handle.mending.store(if next > highest { 0 } else { next }, Ordering::Relaxed);
            return Ok(());
        }
    }
}
