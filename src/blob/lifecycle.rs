//! The ends of a blob and the ways back: delete, restore, shred, rollback.

use tokio::time::Instant;

use super::{
    ARCHIVES_MAX, KEEP, PART_TIME, READERS,
    name::BlobName,
    scripts,
    store::{Store, millis, not_found, not_kept, optional},
};
use crate::{
    error::{Error, Reason, Result},
    owner::reply::Reply,
    valkey::{Lane, Op, Script, decimal},
};

impl Store {
    /// Soft delete. Gives the incarnation that is an archive now and whether the oldest archive went; `None`: nothing (of
    /// that incarnation) was there.
    pub async fn delete(
        &self,
        name: &BlobName,
        incarnation: u64,
        fence: u64,
        deadline: Instant,
    ) -> Result<Option<(u64, bool)>> {
        let args = vec![
            optional(incarnation),
            optional(fence),
            decimal(millis(KEEP)),
            decimal(ARCHIVES_MAX),
            decimal(millis(READERS)),
        ];
        let Some(mut reply) = self.change(name, &scripts::DELETE, false, args, deadline).await? else {
            return Ok(None);
        };
        match reply.status() {
            "OK" => Ok(Some((reply.number()?, reply.number()? == 1))),
            "NONE" => Ok(None),
            _ => Err(self.refused(name, reply, deadline).await),
        }
    }

    /// Deletes for good: one incarnation, or all there is (0). Says whether anything was there.
    pub async fn shred(
        &self,
        name: &BlobName,
        incarnation: u64,
        fence: u64,
        deadline: Instant,
    ) -> Result<bool> {
        let args = vec![optional(incarnation), optional(fence)];
        let Some(reply) = self.change(name, &scripts::SHRED, true, args, deadline).await? else {
            return Ok(false);
        };
        match reply.status() {
            "OK" => Ok(true),
            "NONE" => Ok(false),
            _ => Err(self.refused(name, reply, deadline).await),
        }
    }

    /// Brings an archive back (0: the newest). Says whether the oldest archive was dropped to make room.
    pub async fn restore(
        &self,
        name: &BlobName,
        incarnation: u64,
        replace: bool,
        fence: u64,
        deadline: Instant,
    ) -> Result<bool> {
        let args = vec![
            optional(incarnation),
            if replace { b"1".to_vec() } else { Vec::new() },
            optional(fence),
            decimal(millis(KEEP)),
            decimal(ARCHIVES_MAX),
            decimal(millis(READERS)),
        ];
        let Some(mut reply) = self.change(name, &scripts::RESTORE, false, args, deadline).await? else {
            return Err(no_archive());
        };
        match reply.status() {
            "OK" => Ok(reply.number()? == 1),
            "NOT_FOUND" => Err(no_archive()),
            "WRONG_STATE" => Err(Error::new(
                Reason::WrongState,
                "a blob of this name is there: restore with `replace` to archive it, or delete it first",
            )),
            _ => Err(self.refused(name, reply, deadline).await),
        }
    }

    /// Makes a kept generation the current one.
    pub async fn rollback(
        &self,
        name: &BlobName,
        generation: u64,
        fence: u64,
        deadline: Instant,
    ) -> Result<()> {
        let args = vec![decimal(generation), optional(fence)];
        let Some(reply) = self.change(name, &scripts::ROLLBACK, false, args, deadline).await? else {
            return Err(not_found());
        };
        match reply.status() {
            "OK" => Ok(()),
            "NONE" => Err(not_found()),
            "GONE" => Err(not_kept()),
            _ => Err(self.refused(name, reply, deadline).await),
        }
    }

    /// Runs one of these scripts on a blob that is there. `None`: there is no index of that name.
    async fn change(
        &self,
        name: &BlobName,
        script: &'static Script,
        with_manifests: bool,
        args: Vec<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Option<Reply>> {
        let (index, now_ms) = self.index(name, deadline).await?;
        if index.is_none() {
            self.link.confirm_absent(super::KIND, name.tag(), deadline).await?;
            return Ok(None);
        }
        // What it leaves behind is looked after, also when we end here.
        self.listing().reset(name.tag(), now_ms + 2 * millis(PART_TIME), deadline).await?;
        let mut keys = vec![name.index(&self.link)];
        if with_manifests {
            keys.push(name.manifests(&self.link));
        }
        keys.push(name.session(&self.link));
        let op = Op::Script { script, keys, args };
        Ok(Some(Reply::parse(self.link.run(Lane::Small, op, deadline).await?)?))
    }
}

fn no_archive() -> Error {
    Error::new(Reason::ArchiveNotFound, "there is no such archive: `pannier blobs list --deleted` lists them")
}
