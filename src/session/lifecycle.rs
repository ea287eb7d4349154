//! The ends of a session: clear, delete, restore, shred, and breaking its lease.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    commit::{self, OWNER_PART},
    head::Head,
    keys::SessionKeys,
    name::{KIND, SessionName},
    reply::{self, Reply},
    scripts,
    store::{Store, TRIES, busy, millis, not_found},
};
use crate::{
    error::{Error, Reason, Result},
    valkey::{Lane, Op, decimal},
};

/// How long an archive is kept.
pub const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);
/// Archives of one session.
const ARCHIVES_MAX: usize = 3;

/// What a soft delete left.
pub struct Archived {
    pub incarnation: u64,
    pub dropped_oldest: bool,
}

/// What a Clear gives.
pub struct Cleared {
    pub fence: u64,
    pub revision: u64,
    pub replayed: bool,
    pub dropped_oldest: bool,
    /// The new incarnation's, and the lease is still the caller's; `None`: it had happened before, and somebody else has taken
    /// the session since.
    pub keys: Option<Arc<SessionKeys>>,
    pub incarnation: u64,
}

/// What a holder clears.
pub struct ClearTerms<'a> {
    pub incarnation: u64,
    pub fence: u64,
    pub lease_ttl: Duration,
    pub writer: [u8; 8],
    pub op_seq: u64,
    pub owner: &'a str,
}

impl Store {
    /// The holder's own soft delete, keeping the lease under a new fence.
    pub async fn clear(
        &self,
        name: &SessionName,
        terms: &ClearTerms<'_>,
        deadline: Instant,
    ) -> Result<Cleared> {
        for _ in 0..TRIES {
            let (head, now) = self.head(name, deadline).await?;
            let Some(head) = head else {
                self.link.confirm_absent(KIND, name.tag(), deadline).await?;
                return Err(commit::fenced(true));
            };
            let proposed = now.max(head.fence + 1);
            let (keys, wrapped) = SessionKeys::generate(&self.keyring.current(), name, proposed);
            let dropped = oldest_to_drop(&head, None);
            if head.live == terms.incarnation && head.fence == terms.fence {
                self.index_set(name, earliest_purge(&head, dropped, now / 1000 + millis(KEEP)), deadline)
                    .await?;
            }
            let records = name.records(&self.link, terms.incarnation);
            let args = vec![
                decimal(terms.incarnation),
                decimal(terms.fence),
                decimal(proposed),
                decimal(millis(terms.lease_ttl)),
                terms.writer.to_vec(),
                decimal(terms.op_seq),
                head.archive_list.clone().into_bytes(),
                dropped.map_or_else(Vec::new, decimal),
                decimal(millis(KEEP)),
                wrapped,
                keys.seal_part(name, OWNER_PART, terms.owner.as_bytes()),
                name.owner(&self.keyring.current(), terms.owner).to_vec(),
            ];
            let script_keys = vec![
                name.head(&self.link),
                records.clone(),
                name.records(&self.link, proposed),
                dropped.map_or(records, |one| name.records(&self.link, one)),
            ];
            let op = Op::Script { script: &scripts::CLEAR, keys: script_keys, args };
            let mut reply = Reply::parse(self.link.run(Lane::Small, op, deadline).await?)?;
            match reply.status() {
                "OK" => {
                    let (fence, _, revision) = (reply.number()?, reply.number()?, reply.number()?);
                    let keys = Arc::new(keys);
                    self.keys.put(name.tag(), Arc::clone(&keys), self.keyring.current().primary_id());
                    return Ok(Cleared {
                        fence,
                        revision,
                        replayed: false,
                        dropped_oldest: dropped.is_some(),
                        incarnation: keys.incarnation,
                        keys: Some(keys),
                    });
                }
                // It happened, and its answer was lost.
                "REPLAYED" => {
                    let mine = reply.number()? == 1;
                    let (fence, incarnation, revision) = (reply.number()?, reply.number()?, reply.number()?);
                    let keys = match (mine, self.head(name, deadline).await?.0) {
                        (true, Some(head)) if head.live == incarnation && head.fence == fence => {
                            Some(self.live_keys(name, &head, deadline).await?)
                        }
                        _ => None,
                    };
                    return Ok(Cleared {
                        fence: if keys.is_some() { fence } else { terms.fence },
                        revision,
                        replayed: true,
                        dropped_oldest: false,
                        keys,
                        incarnation,
                    });
                }
                "AGAIN" => {}
                "OUT_OF_ORDER" => return Err(commit::out_of_order(reply.number()?)),
                "FENCED" => return Err(commit::fenced(reply.word()? == "DELETED")),
                "GONE" => {
                    self.link.confirm_absent(KIND, name.tag(), deadline).await?;
                    return Err(commit::fenced(true));
                }
                "LOST" => return Err(self.lost(name, deadline).await),
                _ => return Err(reply::unexpected()),
            }
        }
        Err(busy())
    }

    /// Soft delete by anybody. `None`: nothing (of that incarnation) was there.
    pub async fn delete(
        &self,
        name: &SessionName,
        incarnation: Option<u64>,
        deadline: Instant,
    ) -> Result<Option<Archived>> {
        for _ in 0..TRIES {
            let (head, now) = self.head(name, deadline).await?;
            let Some(head) = head else {
                self.link.confirm_absent(KIND, name.tag(), deadline).await?;
                return Ok(None);
            };
            if head.live == 0 || incarnation.is_some_and(|one| one != head.live) {
                return Ok(None);
            }
            let dropped = oldest_to_drop(&head, None);
            self.index_set(name, earliest_purge(&head, dropped, now / 1000 + millis(KEEP)), deadline).await?;
            let records = name.records(&self.link, head.live);
            let args = vec![
                decimal(head.live),
                decimal(now),
                head.archive_list.clone().into_bytes(),
                dropped.map_or_else(Vec::new, decimal),
                decimal(millis(KEEP)),
            ];
            let keys = vec![
                name.head(&self.link),
                records.clone(),
                dropped.map_or(records, |one| name.records(&self.link, one)),
            ];
            let op = Op::Script { script: &scripts::DELETE, keys, args };
            let reply = Reply::parse(self.link.run(Lane::Small, op, deadline).await?)?;
            match reply.status() {
                "OK" => {
                    self.keys.drop(name.tag());
                    return Ok(Some(Archived { incarnation: head.live, dropped_oldest: dropped.is_some() }));
                }
                "AGAIN" | "GONE" => {}
                _ => return Err(reply::unexpected()),
            }
        }
        Err(busy())
    }

    /// Brings an archive back (`None`: the newest). Says whether the oldest archive was dropped to make room.
    pub async fn restore(
        &self,
        name: &SessionName,
        incarnation: Option<u64>,
        replace: bool,
        deadline: Instant,
    ) -> Result<bool> {
        for _ in 0..TRIES {
            let (head, now) = self.head(name, deadline).await?;
            let Some(head) = head else {
                self.link.confirm_absent(KIND, name.tag(), deadline).await?;
                return Err(no_archive());
            };
            let archives = head.archives();
            // Sent again after a lost answer: it is live already.
            if incarnation.is_some_and(|one| one == head.live) {
                return Ok(false);
            }
            let wanted = incarnation.or_else(|| archives.last().copied());
            let Some(wanted) = wanted.filter(|one| archives.contains(one)) else { return Err(no_archive()) };
            let dropped = if head.live == 0 { None } else { oldest_to_drop(&head, Some(wanted)) };
            let records = name.records(&self.link, wanted);
            let args = vec![
                decimal(wanted),
                decimal(head.live),
                if replace { b"1".to_vec() } else { Vec::new() },
                decimal(now),
                head.archive_list.clone().into_bytes(),
                dropped.map_or_else(Vec::new, decimal),
                decimal(millis(KEEP)),
            ];
            let live = if head.live == 0 { records.clone() } else { name.records(&self.link, head.live) };
            let last = dropped.map_or_else(|| records.clone(), |one| name.records(&self.link, one));
            let keys = vec![name.head(&self.link), records, live, last];
            let op = Op::Script { script: &scripts::RESTORE, keys, args };
            let reply = Reply::parse(self.link.run(Lane::Small, op, deadline).await?)?;
            match reply.status() {
                "OK" => {
                    self.keys.drop(name.tag());
                    if let (Some(head), _) = self.head(name, deadline).await? {
                        self.index_settle(name, &head, deadline).await?;
                    }
                    return Ok(dropped.is_some());
                }
                "AGAIN" => {}
                "NOT_FOUND" => return Err(no_archive()),
                "WRONG_STATE" => {
                    return Err(Error::new(
                        Reason::WrongState,
                        "a live session has this name: restore with `replace` to archive it, or delete it first",
                    ));
                }
                "LOST" => return Err(self.lost(name, deadline).await),
                _ => return Err(reply::unexpected()),
            }
        }
        Err(busy())
    }

    /// Unlinks for good: one incarnation, or (`None`) all there is. Says whether anything was there.
    pub async fn shred(
        &self,
        name: &SessionName,
        incarnation: Option<u64>,
        deadline: Instant,
    ) -> Result<bool> {
        for _ in 0..TRIES {
            let (head, now) = self.head(name, deadline).await?;
            let Some(head) = head else {
                self.link.confirm_absent(KIND, name.tag(), deadline).await?;
                return Ok(false);
            };
            let mut there = head.archives();
            if head.live != 0 {
                there.push(head.live);
            }
            let targets: Vec<u64> =
                there.into_iter().filter(|one| incarnation.is_none_or(|i| i == *one)).collect();
            if targets.is_empty() {
                return Ok(false);
            }
            if let Some(unlinked) = self.unlink(name, &head, &targets, now, false, deadline).await? {
                self.keys.drop(name.tag());
                return Ok(unlinked > 0);
            }
        }
        Err(busy())
    }

    /// Unlinks incarnations and keeps the index true. `None`: the session changed meanwhile, look again.
    pub(super) async fn unlink(
        &self,
        name: &SessionName,
        head: &Head,
        targets: &[u64],
        now_us: u64,
        only_due: bool,
        deadline: Instant,
    ) -> Result<Option<u64>> {
        // An owner that is listed but has no head looks like a lost database: say first that it is going.
        self.index_unmaking(name, deadline).await?;
        let mut args = vec![
            decimal(head.live),
            head.archive_list.clone().into_bytes(),
            decimal(now_us),
            if only_due { b"1".to_vec() } else { Vec::new() },
        ];
        args.extend(targets.iter().map(|one| decimal(*one)));
        let mut keys = vec![name.head(&self.link), self.link.owner_key(name.tag(), "b")];
        keys.extend(targets.iter().map(|one| name.records(&self.link, *one)));
        let op = Op::Script { script: &scripts::SHRED, keys, args };
        let mut reply = Reply::parse(self.link.run(Lane::Small, op, deadline).await?)?;
        match reply.status() {
            "OK" => {
                let (unlinked, left, earliest) = (reply.number()?, reply.number()?, reply.number()?);
                if left == 1 {
                    self.index_set(name, earliest, deadline).await?;
                } else {
                    self.unlist(name, deadline).await?;
                }
                Ok(Some(unlinked))
            }
            "AGAIN" | "GONE" => {
                if let (Some(head), _) = self.head(name, deadline).await? {
                    self.index_settle(name, &head, deadline).await?;
                }
                Ok(None)
            }
            _ => Err(reply::unexpected()),
        }
    }

    /// Takes the lease from its holder, if its fence is `meant` (0: whatever it is). Gives whether one was live, and the fence now.
    pub async fn break_lease(
        &self,
        name: &SessionName,
        meant: u64,
        deadline: Instant,
    ) -> Result<(bool, u64)> {
        let (head, now) = self.head(name, deadline).await?;
        if head.is_none() {
            self.link.confirm_absent(KIND, name.tag(), deadline).await?;
            return Err(not_found());
        }
        let keys = vec![name.head(&self.link)];
        let op = Op::Script {
            script: &scripts::RELEASE,
            keys,
            args: vec![Vec::new(), decimal(now), decimal(meant)],
        };
        let mut reply = Reply::parse(self.link.run(Lane::Small, op, deadline).await?)?;
        match reply.status() {
            "OK" => Ok((reply.number()? == 1, reply.number()?)),
            "OTHER" => Ok((false, reply.number()?)),
            "NONE" | "GONE" => Err(not_found()),
            _ => Err(reply::unexpected()),
        }
    }
}

/// Which archive must go so that one more fits; never the one that is being restored.
fn oldest_to_drop(head: &Head, restoring: Option<u64>) -> Option<u64> {
    let archives: Vec<u64> = head.archives().into_iter().filter(|one| Some(*one) != restoring).collect();
    (archives.len() >= ARCHIVES_MAX).then(|| archives[0])
}

/// Written into the index before the archive is made, a trifle early: the sweeper looks at the head itself.
fn earliest_purge(head: &Head, dropped: Option<u64>, new_ms: u64) -> u64 {
    let kept = head.archives().into_iter().filter(|one| Some(*one) != dropped);
    kept.filter_map(|one| head.incarnations.get(&one)).map(|one| one.purge_ms).fold(new_ms, u64::min)
}

fn no_archive() -> Error {
    Error::new(Reason::ArchiveNotFound, "there is no such archive: `pannier sessions deleted` lists them")
}
