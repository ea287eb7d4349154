//! Takes a stream's requests in: checks them, joins the parts of a commit, and gives each its deadline.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Sessions,
    batch::{Item, Work},
    convert,
    lease::Lease,
    limits,
    pages::{Cursor, Walk},
    parts::{Budget, Heading, Parts},
};
use crate::{
    error::{Error, Reason, Result},
    proto::v1::{self, attach_request::Op},
};

const TIMEOUT: Duration = Duration::from_secs(5);
const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT_MOST: Duration = Duration::from_secs(120);
/// How long the parts of a commit may take to come in.
const GATHER: Duration = Duration::from_secs(30);
const LIST_DEFAULT: u32 = 500;

/// What is on its way into a stream.
pub struct Intake {
    budget: Budget,
    writer: [u8; 8],
    gathering: Option<Gathering>,
    /// A commit that was refused before its last part: the rest of it is passed over.
    refused: Option<u32>,
}

struct Gathering {
    seq: u32,
    until: Instant,
    timeout: Duration,
    parts: Parts,
    heading: Heading,
    durability: v1::Durability,
}

impl Intake {
    /// For one stream; `writer` is the one its commits are by when they name none.
    pub fn new(budget: Budget, writer: [u8; 8]) -> Self {
        Self { budget, writer, gathering: None, refused: None }
    }

    /// Whether parts of this commit have come before.
    pub fn is_gathering(&self, seq: u32) -> bool {
        self.gathering.as_ref().is_some_and(|one| one.seq == seq) || self.refused == Some(seq)
    }

    /// When the commit that is coming in is given up.
    pub fn deadline(&self) -> Option<Instant> {
        self.gathering.as_ref().map(|one| one.until)
    }

    /// Gives up a commit whose parts took too long; its seq.
    pub fn expire(&mut self, now: Instant) -> Option<u32> {
        self.gathering.take_if(|one| one.until <= now).map(|one| {
            self.refused = Some(one.seq);
            one.seq
        })
    }

    /// The next item for the queue, if this request completes one.
    pub fn take(
        &mut self,
        sessions: &Sessions,
        lease: &Lease,
        request: v1::AttachRequest,
    ) -> Result<Option<Item>> {
        let v1::AttachRequest { seq, timeout_ms, op } = request;
        let item = |timeout: Duration, work| Item {
            arrived: Instant::now(),
            seq,
            deadline: Instant::now() + timeout,
            work,
            sent: false,
            permit: None,
        };
        match op {
            None => Err(Error::bad_field("op", "is missing")),
            Some(Op::Open(_)) => Err(Error::new(Reason::Protocol, "open comes once, as the first message")),
            Some(Op::Get(get)) => {
                let ids = limits::queries("get.queries", get.queries)?;
                Ok(Some(item(timeout(timeout_ms, TIMEOUT)?, Work::Get(ids))))
            }
            Some(Op::List(list)) => {
                if !list.r#type.is_empty() {
                    limits::record_type("list.type", &list.r#type)?;
                }
                let walk = Walk {
                    cursor: Cursor::parse(&list.cursor)?,
                    limit: limits::page(list.limit, LIST_DEFAULT)?,
                    ids_only: list.ids_only,
                    ty: list.r#type,
                };
                Ok(Some(item(timeout(timeout_ms, TIMEOUT)?, Work::List(walk))))
            }
            Some(Op::Commit(commit)) => self.commit(sessions, lease, seq, timeout_ms, commit),
            Some(Op::Clear(clear)) => {
                if clear.op_seq == 0 {
                    return Err(Error::bad_field("clear.op_seq", "must be at least 1"));
                }
                let writer = self.writer_of(sessions, lease, "clear.writer_id", &clear.writer_id)?;
                let incarnation = (clear.incarnation != 0).then_some(clear.incarnation);
                let work = Work::Clear { writer, op_seq: clear.op_seq, incarnation };
                Ok(Some(item(timeout(timeout_ms, COMMIT_TIMEOUT)?, work)))
            }
            Some(Op::Close(_)) => Ok(Some(item(timeout(timeout_ms, TIMEOUT)?, Work::Close))),
        }
    }

    fn commit(
        &mut self,
        sessions: &Sessions,
        lease: &Lease,
        seq: u32,
        timeout_ms: u32,
        commit: v1::Commit,
    ) -> Result<Option<Item>> {
        let more = commit.more;
        if self.refused == Some(seq) {
            self.refused.take_if(|_| !more);
            return Ok(None);
        }
        let joined = self.join(sessions, lease, seq, timeout_ms, commit);
        if joined.is_err() {
            // One that comes between the parts of another does not cost that one.
            self.gathering.take_if(|one| one.seq == seq);
            if more {
                self.refused = Some(seq);
            }
        }
        joined
    }

    fn join(
        &mut self,
        sessions: &Sessions,
        lease: &Lease,
        seq: u32,
        timeout_ms: u32,
        commit: v1::Commit,
    ) -> Result<Option<Item>> {
        let durability = v1::Durability::try_from(commit.min_durability)
            .map_err(|_| Error::bad_field("commit.min_durability", "is no known level"))?;
        let mut gathering = match self.gathering.take() {
            Some(gathering) if gathering.seq == seq => {
                if gathering.heading.op_seq != commit.op_seq {
                    return Err(Error::bad_field("commit.op_seq", "must be the same in all parts"));
                }
                gathering
            }
            Some(other) => {
                let unfinished = other.seq;
                self.gathering = Some(other);
                return Err(Error::new(
                    Reason::Protocol,
                    format!("the commit with seq {unfinished} must be finished first"),
                ));
            }
            None => {
                let writer = self.writer_of(sessions, lease, "commit.writer_id", &commit.writer_id)?;
                let heading = Heading {
                    writer,
                    op_seq: commit.op_seq,
                    expected_revision: commit.expected_revision,
                    incarnation: (commit.incarnation != 0).then_some(commit.incarnation),
                    attributes: convert::attributes("commit.attributes", commit.attributes)?,
                };
                let timeout = timeout(timeout_ms, COMMIT_TIMEOUT)?;
                let until = Instant::now() + GATHER;
                Gathering { seq, until, timeout, parts: Parts::new(), heading, durability }
            }
        };
        gathering.parts.add(&self.budget, "commit", commit.puts, commit.deletes, commit.fragments)?;
        if commit.more {
            self.gathering = Some(gathering);
            return Ok(None);
        }
        let (commit, permit) = gathering.parts.finish("commit", gathering.heading)?;
        let deadline = Instant::now() + gathering.timeout;
        let work = Work::Commit(Box::new(commit), gathering.durability);
        Ok(Some(Item { arrived: Instant::now(), seq, deadline, work, sent: false, permit }))
    }

    fn writer_of(&self, sessions: &Sessions, lease: &Lease, field: &str, writer: &str) -> Result<[u8; 8]> {
        if writer.is_empty() {
            return Ok(self.writer);
        }
        limits::id(field, writer)?;
        Ok(lease.name.writer(&sessions.store.keyring.current(), writer))
    }
}

/// A request's own time.
pub fn timeout(ms: u32, default: Duration) -> Result<Duration> {
    let timeout = if ms == 0 { default } else { Duration::from_millis(u64::from(ms)) };
    if timeout > TIMEOUT_MOST {
        return Err(Error::bad_field("timeout_ms", "must be at most 120000"));
    }
    Ok(timeout)
}
