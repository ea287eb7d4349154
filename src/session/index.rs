//! The index of sessions: which owners exist, and when their earliest archive is due. An owner is listed before it is made and
//! taken out after it is gone, so that a listed one that is missing means a lost database.

use redis::cmd;
use tokio::time::Instant;

use super::{
    commit::decimal,
    head::Head,
    name::{KIND, SessionName},
    scripts,
    store::Store,
};
use crate::{
    error::Result,
    valkey::{Lane, Op},
};

/// The score of an owner that is being made or unmade.
const UNSETTLED: &str = "-1";

impl Store {
    /// Lists an owner that is about to be made; leaves an entry that is there alone.
    pub(super) async fn index_making(&self, name: &SessionName, deadline: Instant) -> Result<()> {
        let mut add = cmd("ZADD");
        add.arg(self.index(name)).arg("NX").arg(UNSETTLED).arg(name.tag().as_bytes());
        self.link.run(Lane::Small, Op::Cmd(add), deadline).await?;
        Ok(())
    }

    /// Says that the owner has been made. A deletion since then has said itself when its archive is due: that is later, and
    /// stays.
    pub(super) async fn index_made(&self, name: &SessionName, head: &Head, deadline: Instant) -> Result<()> {
        let mut add = cmd("ZADD");
        add.arg(self.index(name)).arg("GT").arg(earliest_due(head)).arg(name.tag().as_bytes());
        self.link.run(Lane::Small, Op::Cmd(add), deadline).await?;
        Ok(())
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
        self.index_score(name, decimal(due), false, deadline).await
    }

    /// Says that the owner, if it is listed, is being unmade.
    pub(super) async fn index_unmaking(&self, name: &SessionName, deadline: Instant) -> Result<()> {
        self.index_score(name, UNSETTLED.into(), true, deadline).await
    }

    /// Takes the owner out unless somebody is making it anew and has said so.
    pub(super) async fn unlist(&self, name: &SessionName, deadline: Instant) -> Result<()> {
        let args = vec![name.tag().as_bytes().to_vec()];
        let op = Op::Script { script: &scripts::UNLIST, keys: vec![self.index(name)], args };
        self.link.run(Lane::Small, op, deadline).await?;
        Ok(())
    }

    /// By a script, which goes through in a full Valkey too: what makes room begins here.
    async fn index_score(
        &self,
        name: &SessionName,
        score: Vec<u8>,
        only_listed: bool,
        deadline: Instant,
    ) -> Result<()> {
        let only_listed = if only_listed { b"1".to_vec() } else { Vec::new() };
        let args = vec![name.tag().as_bytes().to_vec(), score, only_listed];
        let op = Op::Script { script: &scripts::INDEX, keys: vec![self.index(name)], args };
        self.link.run(Lane::Small, op, deadline).await?;
        Ok(())
    }

    fn index(&self, name: &SessionName) -> Vec<u8> {
        self.link.index_key(KIND, name.tag().bucket())
    }
}

/// When the earliest archive is to go; 0 without archives.
fn earliest_due(head: &Head) -> u64 {
    let archives = head.archives().into_iter();
    archives.filter_map(|archive| head.incarnations.get(&archive)).map(|one| one.purge_ms).min().unwrap_or(0)
}
