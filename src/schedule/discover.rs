//! Finds the queues that other sidecars have made, so that every sidecar serves the timers of them all.

use std::{sync::Weak, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redis::{Value, cmd};

use super::{KIND, Schedules, store::soon};
use crate::{
    crypto::OwnerTag,
    error::Result,
    owner::catalog::{BUCKETS, tags},
    valkey::{Lane, Link, Op},
};

/// Between two walks over the index: what is new is told at once, but a message may be lost.
const EVERY: Duration = Duration::from_secs(300);
/// After a walk that failed.
const AGAIN: Duration = Duration::from_secs(5);

/// Walks until the sidecar ends.
pub async fn run(schedules: Weak<Schedules>) {
    loop {
        let Some(here) = schedules.upgrade() else { return };
        // Before the walk: what is made meanwhile is in one or the other.
        let channel = channel(&here.store.link);
        let mut news = here.store.link.subscribe(&channel).await;
        let wait = match walk(&here).await {
            Ok(()) => EVERY,
            Err(error) => {
                tracing::debug!(%error, "the queues could not be looked for");
                AGAIN
            }
        };
        drop(here);
        let until = tokio::time::Instant::now() + wait;
        loop {
            let told = tokio::time::timeout_at(until, news.recv()).await;
            let Some(here) = schedules.upgrade() else { return };
            match told {
                Ok(Ok(tag)) => {
                    let tag = <[u8; 16]>::try_from(&tag[..]).map(OwnerTag::from_bytes);
                    if let Ok(tag) = tag
                        && let Err(error) = meet(&here, &[tag]).await
                    {
                        tracing::debug!(%error, "a new queue could not be looked at");
                    }
                }
                _ => break,
            }
        }
    }
}

/// Where new queues are told of.
pub fn channel(link: &Link) -> Vec<u8> {
    format!("{}queues", link.prefix()).into_bytes()
}

async fn walk(schedules: &Schedules) -> Result<()> {
    let link = &schedules.store.link;
    for bucket in 0..BUCKETS {
        let mut read = cmd("ZRANGE");
        read.arg(link.index_key(KIND, bucket)).arg(0).arg(-1);
        let reply = link.run(Lane::Bulk, Op::Cmd(read), soon()).await?;
        meet(schedules, &tags(&reply)).await?;
    }
    Ok(())
}

/// Looks at queues of which the tags are known.
async fn meet(schedules: &Schedules, tags: &[OwnerTag]) -> Result<()> {
    let link = &schedules.store.link;
    for tags in tags.chunks(100) {
        let ops: Vec<_> = tags
            .iter()
            .map(|tag| {
                let mut read = cmd("HGET");
                read.arg(link.owner_key(tag, "h")).arg("nm");
                Op::Cmd(read)
            })
            .collect();
        let keyring = schedules.store.keyring.current();
        for (tag, name) in tags.iter().zip(link.read(Lane::Bulk, &ops, soon()).await?) {
            let Value::BulkString(sealed) = name else { continue };
            if let Some((namespace, queue)) = keyring.index_name_key().open_name(tag, &sealed) {
                schedules.handle(&namespace, &queue).tick_in(0);
            } else {
                let short = &URL_SAFE_NO_PAD.encode(tag.as_bytes())[..8];
                tracing::warn!(
                    queue = short,
                    "a queue's name could not be opened: its timers are not served"
                );
            }
        }
    }
    Ok(())
}
