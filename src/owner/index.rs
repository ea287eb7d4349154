//! The index of one kind: 64 buckets of owner tags. A score says what is known of the owner: −1 being made or unmade, 0 there,
//! else the instant (ms) from which the sweeper is to look at it. An owner that is listed (≥ 0) and not there is a lost
//! database, so it is listed only once it exists and marked before it goes.

use redis::{Cmd, Value, cmd};
use tokio::time::Instant;

use super::scripts;
use crate::{
    crypto::OwnerTag,
    error::Result,
    valkey::{Lane, Link, Op},
};

/// The score of an owner that is being made or unmade.
const UNSETTLED: &str = "-1";

/// One kind's index.
#[derive(Clone, Copy)]
pub struct Index<'a> {
    /// Where it is.
    pub link: &'a Link,
    /// Whose it is.
    pub kind: &'static str,
}

impl Index<'_> {
    /// Lists an owner that is about to be made; leaves an entry that is there alone.
    pub async fn making(&self, tag: &OwnerTag, deadline: Instant) -> Result<()> {
        let mut add = self.zadd(tag);
        add.arg("NX").arg(UNSETTLED).arg(tag.as_bytes());
        self.send(add, deadline).await
    }

    /// Says that the owner has been made (0), or from when on it is to be looked at; a later instant that is there stays.
    pub async fn made(&self, tag: &OwnerTag, due: u64, deadline: Instant) -> Result<()> {
        let mut add = self.zadd(tag);
        add.arg("GT").arg(due).arg(tag.as_bytes());
        self.send(add, deadline).await
    }

    /// Says that the owner exists (0), or from when on it is to be looked at.
    pub async fn set(&self, tag: &OwnerTag, due: u64, deadline: Instant) -> Result<()> {
        self.score(tag, &due.to_string(), "", deadline).await
    }

    /// The same of an owner that is listed; one that is not stays so.
    pub async fn reset(&self, tag: &OwnerTag, due: u64, deadline: Instant) -> Result<()> {
        self.score(tag, &due.to_string(), "listed", deadline).await
    }

    /// The same, unless somebody has said something else since `read` was read.
    pub async fn settle(&self, tag: &OwnerTag, read: &str, due: u64, deadline: Instant) -> Result<()> {
        self.score(tag, &due.to_string(), read, deadline).await
    }

    /// Says that the owner, if it is listed, is being unmade.
    pub async fn unmaking(&self, tag: &OwnerTag, deadline: Instant) -> Result<()> {
        self.score(tag, UNSETTLED, "listed", deadline).await
    }

    /// Takes the owner out, unless somebody is making it anew and has said so.
    pub async fn unlist(&self, tag: &OwnerTag, deadline: Instant) -> Result<()> {
        let args = vec![tag.as_bytes().to_vec()];
        let op = Op::Script { script: &scripts::UNLIST, keys: vec![self.bucket(tag)], args };
        self.link.run(Lane::Small, op, deadline).await?;
        Ok(())
    }

    /// The score as it is stored.
    pub async fn read(&self, tag: &OwnerTag, deadline: Instant) -> Result<Option<String>> {
        let mut read = cmd("ZSCORE");
        read.arg(self.bucket(tag)).arg(tag.as_bytes());
        Ok(match self.link.run(Lane::Small, Op::Cmd(read), deadline).await? {
            Value::Double(score) => Some(format!("{score:.0}")),
            Value::BulkString(score) => String::from_utf8(score).ok(),
            _ => None,
        })
    }

    /// By a script, which goes through in a full Valkey too: what makes room begins here.
    async fn score(&self, tag: &OwnerTag, score: &str, must: &str, deadline: Instant) -> Result<()> {
        let args = vec![tag.as_bytes().to_vec(), score.into(), must.into()];
        let op = Op::Script { script: &scripts::INDEX, keys: vec![self.bucket(tag)], args };
        self.link.run(Lane::Small, op, deadline).await?;
        Ok(())
    }

    fn bucket(&self, tag: &OwnerTag) -> Vec<u8> {
        self.link.index_key(self.kind, tag.bucket())
    }

    fn zadd(&self, tag: &OwnerTag) -> Cmd {
        let mut add = cmd("ZADD");
        add.arg(self.bucket(tag));
        add
    }

    async fn send(&self, command: Cmd, deadline: Instant) -> Result<()> {
        self.link.run(Lane::Small, Op::Cmd(command), deadline).await?;
        Ok(())
    }
}
