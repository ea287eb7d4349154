//! What nobody needs any more goes: parts of uploads that were given up, generations without readers, archives whose time has
//! come, and at last the index of a blob of which nothing is left.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    ERROR_KEEP,
    index::{BlobIndex, State},
    name::{BlobName, KIND},
    scripts,
    store::Store,
};
use crate::{
    crypto::OwnerTag,
    error::Result,
    owner::{
        reply::Reply,
        sweeper::{CALL, Sweep},
    },
    valkey::{Lane, Link, Op, decimal},
};

/// Parts unlinked by one script: 25 MiB, whose memory Valkey gives back in the background.
const SLICE: u32 = 100;
/// The longest that one blob is collected without a break.
const COLLECT: Duration = Duration::from_secs(60);

impl Store {
    /// Collects in the background, so that the caller gets its answer.
    pub fn collect_soon(self: &Arc<Self>, name: &BlobName) {
        let (store, name) = (Arc::clone(self), name.clone());
        tokio::spawn(async move {
            if let Err(error) = store.collect(&name).await {
                tracing::debug!(owner = %name.short(), %error, "left to the sweeper");
            }
        });
    }

    /// Collects what is marked as garbage. Gives how many generations went.
    pub async fn collect(&self, name: &BlobName) -> Result<u64> {
        let until = Instant::now() + COLLECT;
        let Some(index) = self.index(name, Instant::now() + CALL).await?.0 else { return Ok(0) };
        let mut collected = 0;
        for (generation, found) in index.generations {
            if found.state == State::Garbage
                && self.collect_generation(name, generation, found.parts, until).await?
            {
                collected += 1;
            }
        }
        Ok(collected)
    }

    async fn collect_generation(
        &self,
        name: &BlobName,
        generation: u64,
        mut parts: u32,
        until: Instant,
    ) -> Result<bool> {
        while Instant::now() < until {
            let mut keys = vec![name.index(&self.link), name.manifests(&self.link)];
            keys.extend((parts.saturating_sub(SLICE)..parts).map(|n| name.part(&self.link, generation, n)));
            let args = vec![decimal(generation), decimal(u64::from(parts))];
            let op = Op::Script { script: &scripts::COLLECT, keys, args };
            let mut reply = Reply::parse(self.link.run(Lane::Bulk, op, Instant::now() + CALL).await?)?;
            match reply.status() {
                "OK" => match u32::try_from(reply.number()?).unwrap_or(0) {
                    0 => return Ok(true),
                    left => parts = left,
                },
                // Another sidecar is at it.
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    async fn age(&self, name: &BlobName, deadline: Instant) -> Result<()> {
        let args = vec![decimal(ERROR_KEEP)];
        let op = Op::Script { script: &scripts::AGE, keys: vec![name.index(&self.link)], args };
        self.link.run(Lane::Bulk, op, deadline).await?;
        Ok(())
    }

    /// Takes away an index that holds nothing, and the head of a session of which nothing else is left.
    async fn remove(&self, name: &BlobName, deadline: Instant) -> Result<()> {
        let listing = self.listing();
        listing.unmaking(name.tag(), deadline).await?;
        let keys = vec![name.index(&self.link), name.manifests(&self.link)];
        let op = Op::Script { script: &scripts::REMOVE, keys, args: Vec::new() };
        let reply = Reply::parse(self.link.run(Lane::Bulk, op, deadline).await?)?;
        if reply.status() == "OK" {
            listing.unlist(name.tag(), deadline).await?;
            return self.sessions.forget_empty(*name.tag(), deadline).await;
        }
        let (_, now_ms) = self.index(name, deadline).await?;
        self.look_soon(name, now_ms, deadline).await
    }
}

impl Sweep for Store {
    const KIND: &'static str = KIND;

    fn link(&self) -> &Link {
        &self.link
    }

    async fn sweep(&self, tag: OwnerTag) -> Result<u64> {
        let name = BlobName::of_tag(tag);
        let deadline = || Instant::now() + CALL;
        // Read before the look, so that what happens during it is not forgotten.
        let Some(score) = self.listing().read(&tag, deadline()).await? else { return Ok(0) };
        self.age(&name, deadline()).await?;
        let collected = self.collect(&name).await?;
        match self.index(&name, deadline()).await?.0 {
            // Listed and not there: that is for `confirm_absent` to find.
            None => {}
            Some(index) if index.is_empty() => self.remove(&name, deadline()).await?,
            Some(index) => {
                let due = index.due_ms().unwrap_or(0);
                self.listing().settle(&tag, &score, due, deadline()).await?;
            }
        }
        Ok(collected)
    }

    async fn settle(&self, tag: OwnerTag) -> Result<()> {
        let (name, deadline) = (BlobName::of_tag(tag), Instant::now() + CALL);
        let due = |index: BlobIndex| index.due_ms().unwrap_or(1);
        match self.index(&name, deadline).await?.0.map(due) {
            Some(due) => self.listing().set(&tag, due, deadline).await,
            None => self.listing().unlist(&tag, deadline).await,
        }
    }
}
