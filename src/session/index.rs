//! The index of sessions: which owners exist, and when their earliest archive is due.

use tokio::time::Instant;

use super::{
    head::Head,
    name::{KIND, SessionName},
    store::Store,
};
use crate::{error::Result, owner::index::Index};

impl Store {
    fn index(&self) -> Index<'_> {
        Index { link: &self.link, kind: KIND }
    }

    /// Lists an owner that is about to be made.
    pub(super) async fn index_making(&self, name: &SessionName, deadline: Instant) -> Result<()> {
        self.index().making(name.tag(), deadline).await
    }

    /// Says that the owner has been made. A deletion since then has said itself when its archive is due: that is later, and
    /// stays.
    pub(super) async fn index_made(&self, name: &SessionName, head: &Head, deadline: Instant) -> Result<()> {
        self.index().made(name.tag(), earliest_due(head), deadline).await
    }

    /// Says that the owner exists, or when its earliest archive is due.
    pub(super) async fn index_settle(
        &self,
        name: &SessionName,
        head: &Head,
        deadline: Instant,
    ) -> Result<()> {
        self.index_set(name, earliest_due(head), deadline).await
    }

    /// Sets when its earliest archive is due (ms); 0 without archives.
    pub(super) async fn index_set(&self, name: &SessionName, due: u64, deadline: Instant) -> Result<()> {
        self.index().set(name.tag(), due, deadline).await
    }

    /// Says that the owner, if it is listed, is being unmade.
    pub(super) async fn index_unmaking(&self, name: &SessionName, deadline: Instant) -> Result<()> {
        self.index().unmaking(name.tag(), deadline).await
    }

    /// Takes the owner out unless somebody is making it anew and has said so.
    pub(super) async fn unlist(&self, name: &SessionName, deadline: Instant) -> Result<()> {
        self.index().unlist(name.tag(), deadline).await
    }
}

/// When the earliest archive is to go; 0 without archives.
fn earliest_due(head: &Head) -> u64 {
    let archives = head.archives().into_iter();
    archives.filter_map(|archive| head.incarnations.get(&archive)).map(|one| one.purge_ms).min().unwrap_or(0)
}
