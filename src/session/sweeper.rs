//! Archives whose time has come are unlinked.

use tokio::time::Instant;

use super::{
    name::{KIND, SessionName},
    store::Store,
};
use crate::{
    crypto::OwnerTag,
    error::Result,
    owner::sweeper::{CALL, Sweep},
    valkey::Link,
};

impl Sweep for Store {
    const KIND: &'static str = KIND;

    fn link(&self) -> &Link {
        &self.link
    }

    async fn sweep(&self, tag: OwnerTag) -> Result<u64> {
        let (name, deadline) = (SessionName::of_tag(tag), Instant::now() + CALL);
        let (Some(head), now) = self.head(&name, deadline).await? else { return Ok(0) };
        let archives = head.archives();
        if archives.is_empty() {
            self.index_settle(&name, &head, deadline).await?;
            return Ok(0);
        }
        Ok(self.unlink(&name, &head, &archives, now, true, deadline).await?.unwrap_or(0))
    }

    async fn settle(&self, tag: OwnerTag) -> Result<()> {
        let (name, deadline) = (SessionName::of_tag(tag), Instant::now() + CALL);
        match self.head(&name, deadline).await?.0 {
            Some(head) => self.index_settle(&name, &head, deadline).await,
            None => self.unlist(&name, deadline).await,
        }
    }
}

impl Store {
    /// Takes away the head of a session of which nothing is left, and which only a blob had kept.
    pub async fn forget_empty(&self, tag: OwnerTag, deadline: Instant) -> Result<()> {
        let name = SessionName::of_tag(tag);
        let (head, now) = self.head(&name, deadline).await?;
        if let Some(head) = head.filter(|head| head.live == 0 && head.archive_list.is_empty()) {
            self.unlink(&name, &head, &[], now, true, deadline).await?;
        }
        Ok(())
    }
}
