//! Sessions in Valkey: reading the head, taking the lease, and the calls that one request is made of.
//!
//! Every decision is a script's; what is read here before only prepares it, and the script says AGAIN when it has changed.

use std::{sync::Arc, time::Duration};

use redis::{Value, cmd};
use tokio::time::Instant;

use super::{
    commit::{self, ATTRIBUTES_PART, Commit, OWNER_PART, Outcome, TYPE_PART, Terms},
    head::{Head, Incarnation},
    keys::{KeyCache, SessionKeys},
    name::{KIND, SessionName},
    records::{self, Record},
    reply::Reply,
    scripts,
};
use crate::{
    crypto::SharedKeyring,
    error::{Error, Reason, Result},
    valkey::{Lane, Link, LinkError, Op},
};

/// Tries before a call gives up on a session that keeps changing under it.
pub(super) const TRIES: usize = 8;
/// Most bytes that one Get reads, sealed.
const GET_BYTES: usize = 32 * 1024 * 1024;
/// Most fields that one step of a walk looks at.
const SCAN_FIELDS: u64 = 500;
/// About how many sealed bytes one step of a walk may read.
const SCAN_BYTES: u64 = 4 * 1024 * 1024;

/// The session records of one database.
pub struct Store {
    pub(super) link: Link,
    pub(super) keyring: Arc<SharedKeyring>,
    pub(super) keys: KeyCache,
}

/// What an Open asks for.
pub struct OpenTerms {
    pub owner: String,
    pub writer: [u8; 8],
    pub take_over: bool,
    pub lease_ttl: Duration,
    pub min_revision: u64,
    pub must_exist: bool,
    /// Fence and revision of a broken stream.
    pub resume: Option<(u64, u64)>,
}

/// What an Open gives.
pub struct Opened {
    pub fence: u64,
    pub revision: u64,
    pub created: bool,
    pub resumed: bool,
    pub last_op: u64,
    pub keys: Arc<SessionKeys>,
    /// As read just before.
    pub head: Head,
}

/// Another owner's live lease.
pub struct Held {
    pub owner: Option<String>,
    pub left: Duration,
    pub until_ms: u64,
}

impl Held {
    /// As an error for the one who was refused.
    pub fn error(&self) -> Error {
        let until = jiff::Timestamp::from_millisecond(i64::try_from(self.until_ms).unwrap_or(i64::MAX));
        let error = Error::new(
            Reason::SessionHeld,
            "another owner holds the session: wait for its lease to end, or take it over",
        )
        .retry_after(self.left);
        let error = until.map_or(error.clone(), |until| error.with("until", until));
        match &self.owner {
            Some(owner) => error.with("owner", owner),
            None => error,
        }
    }
}

impl Store {
    /// Reads the head and the server's clock (µs).
    pub async fn head(&self, name: &SessionName, deadline: Instant) -> Result<(Option<Head>, u64)> {
        let mut read = cmd("HGETALL");
        read.arg(name.head(&self.link));
        let ops = [Op::Cmd(read), Op::Cmd(cmd("TIME"))];
        let mut replies = self.link.pipeline(Lane::Small, &ops, deadline).await?.into_iter();
        let mut next = || replies.next().unwrap_or(Ok(Value::Nil)).map_err(LinkError::from);
        Ok((Head::parse(next()?)?, micros(&next()?)?))
    }

    /// The server's clock.
    pub async fn now_ms(&self, deadline: Instant) -> Result<u64> {
        Ok(micros(&self.link.run(Lane::Small, Op::Cmd(cmd("TIME")), deadline).await?)? / 1000)
    }

    /// The head of a session that must exist. Its absence is believed only once the database proves to be the right one.
    pub async fn existing(&self, name: &SessionName, deadline: Instant) -> Result<(Head, Arc<SessionKeys>)> {
        let (head, _) = self.head(name, deadline).await?;
        match head {
            Some(head) if head.live != 0 => {
                let keys = self.live_keys(name, &head)?;
                Ok((head, keys))
            }
            Some(_) => Err(not_found()),
            None => {
                self.link.confirm_absent(KIND, name.tag(), deadline).await?;
                Err(not_found())
            }
        }
    }

    /// The keys of the live incarnation, from the cache or unwrapped.
    pub fn live_keys(&self, name: &SessionName, head: &Head) -> Result<Arc<SessionKeys>> {
        if let Some(keys) = self.keys.get(name.tag(), head.live) {
            return Ok(keys);
        }
        let wrapped = head.live().map(|live| live.wrapped_key.as_slice()).unwrap_or_default();
        let keys = Arc::new(SessionKeys::unwrap(&self.keyring, name, head.live, wrapped)?);
        self.keys.put(name.tag(), Arc::clone(&keys));
        Ok(keys)
    }

    /// Takes the lease, making the session if there is none. The inner error: another owner holds it.
    pub async fn open(
        &self,
        name: &SessionName,
        terms: &OpenTerms,
        deadline: Instant,
    ) -> Result<std::result::Result<Opened, Held>> {
        for _ in 0..TRIES {
            let (head, now) = self.head(name, deadline).await?;
            let exists = head.as_ref().is_some_and(|head| head.live != 0);
            if head.is_none() {
                self.link.confirm_absent(KIND, name.tag(), deadline).await?;
            }
            if !exists && terms.must_exist {
                return Err(not_found());
            }
            let head = head.unwrap_or_default();
            let proposed = now.max(head.fence + 1);
            let (keys, wrapped) = if exists {
                (self.live_keys(name, &head)?, Vec::new())
            } else {
                let (keys, wrapped) = SessionKeys::generate(&self.keyring.current(), name, proposed);
                (Arc::new(keys), wrapped)
            };
            let creates = !exists && terms.min_revision <= head.revision && terms.resume.is_none();
            if creates {
                self.index_add(name, "-1", deadline).await?;
            }
            let op = self.open_op(name, terms, &keys, &head, proposed, wrapped);
            let mut reply = Reply::parse(self.link.run(Lane::Small, op, deadline).await?)?;
            match reply.status() {
                "OK" => {
                    let (fence, revision) = (reply.number()?, reply.number()?);
                    let _incarnation = reply.number()?;
                    let opened = Opened {
                        fence,
                        revision,
                        created: reply.number()? == 1,
                        resumed: reply.number()? == 1,
                        last_op: reply.number()?,
                        keys: Arc::clone(&keys),
                        head,
                    };
                    if opened.created {
                        self.keys.put(name.tag(), keys);
                        self.index_made(name, &opened.head, deadline).await?;
                    }
                    return Ok(Ok(opened));
                }
                "AGAIN" => {}
                "HELD" => {
                    let sealed = reply.bytes()?.unwrap_or_default();
                    let (until_ms, now_ms) = (reply.number()?, reply.number()?);
                    return Ok(Err(held(name, &keys, &sealed, until_ms, now_ms)));
                }
                "FENCED" => return Err(commit::fenced(reply.word()? == "DELETED")),
                "NOT_FOUND" => return Err(not_found()),
                "STALE" => return Err(commit::stale(reply.number()?)),
                "LOST" => return Err(self.lost(name, deadline).await),
                _ => return Err(reply.unexpected()),
            }
        }
        Err(busy())
    }

    fn open_op(
        &self,
        name: &SessionName,
        terms: &OpenTerms,
        keys: &SessionKeys,
        head: &Head,
        proposed: u64,
        wrapped: Vec<u8>,
    ) -> Op<'static> {
        let number = commit::decimal;
        let flag = |on: bool| if on { b"1".to_vec() } else { Vec::new() };
        let keyring = self.keyring.current();
        let (resume_fence, resume_revision) = match terms.resume {
            Some((fence, revision)) => (number(fence), number(revision)),
            None => (Vec::new(), Vec::new()),
        };
        let args = vec![
            number(head.live),
            number(proposed),
            name.owner(&keyring, &terms.owner).to_vec(),
            keys.seal_part(name, OWNER_PART, terms.owner.as_bytes()),
            flag(terms.take_over),
            number(millis(terms.lease_ttl)),
            flag(terms.must_exist),
            number(terms.min_revision),
            resume_fence,
            resume_revision,
            terms.writer.to_vec(),
            wrapped,
            keyring.index_name_key().seal_name(name.tag(), &name.namespace, &name.session),
        ];
        let keys = vec![name.head(&self.link), name.records(&self.link, keys.incarnation)];
        Op::Script { script: &scripts::OPEN, keys, args }
    }

    /// Lists the owner in the index before it exists; leaves an entry that is there alone.
    async fn index_add(&self, name: &SessionName, score: &str, deadline: Instant) -> Result<()> {
        let mut add = cmd("ZADD");
        add.arg(self.link.index_key(KIND, name.tag().bucket()))
            .arg("NX")
            .arg(score)
            .arg(name.tag().as_bytes());
        self.link.run(Lane::Small, Op::Cmd(add), deadline).await?;
        Ok(())
    }

    /// Says in the index that the owner exists, or when its earliest archive is due.
    pub(super) async fn index_settle(
        &self,
        name: &SessionName,
        head: &Head,
        deadline: Instant,
    ) -> Result<()> {
        self.index_set(name, earliest_due(head), deadline).await
    }

    /// The same for an owner that has just been made. A deletion since then has said itself when its archive is due: that
    /// is later, and stays.
    async fn index_made(&self, name: &SessionName, head: &Head, deadline: Instant) -> Result<()> {
        let mut add = cmd("ZADD");
        add.arg(self.link.index_key(KIND, name.tag().bucket())).arg("GT");
        add.arg(earliest_due(head)).arg(name.tag().as_bytes());
        self.link.run(Lane::Small, Op::Cmd(add), deadline).await?;
        Ok(())
    }

    /// Sets the owner's score in the index.
    pub(super) async fn index_set(&self, name: &SessionName, score: u64, deadline: Instant) -> Result<()> {
        let mut add = cmd("ZADD");
        add.arg(self.link.index_key(KIND, name.tag().bucket())).arg(score).arg(name.tag().as_bytes());
        self.link.run(Lane::Small, Op::Cmd(add), deadline).await?;
        Ok(())
    }

    /// One snapshot of the records named.
    pub fn get_op(&self, name: &SessionName, keys: &SessionKeys, ids: &[(String, String)]) -> Op<'static> {
        let mut args = vec![commit::decimal(keys.incarnation), commit::decimal(GET_BYTES as u64)];
        args.extend(ids.iter().map(|(ty, id)| keys.record.field(ty, id).as_bytes().to_vec()));
        let keys = vec![name.head(&self.link), name.records(&self.link, keys.incarnation)];
        Op::Script { script: &scripts::GET, keys, args }
    }

    /// What a walk does next. `records` and `bytes` are the session's totals: the larger the values, the shorter the step.
    pub fn list_op(
        &self,
        name: &SessionName,
        keys: &SessionKeys,
        cursor: u64,
        head: Option<&Head>,
    ) -> Op<'static> {
        let (records, bytes) = head
            .and_then(Head::live)
            .map(|live| live.counts.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)))
            .unwrap_or((0, 0));
        let mean = bytes.checked_div(records).unwrap_or(0).max(1);
        let fields = (SCAN_BYTES / mean).clamp(10, SCAN_FIELDS);
        let args = vec![commit::decimal(keys.incarnation), commit::decimal(cursor), commit::decimal(fields)];
        let keys = vec![name.head(&self.link), name.records(&self.link, keys.incarnation)];
        Op::Script { script: &scripts::LIST, keys, args }
    }

    /// Keeps the lease.
    pub fn renew_op(&self, name: &SessionName, incarnation: u64, fence: u64, ttl: Duration) -> Op<'static> {
        let args = vec![commit::decimal(incarnation), commit::decimal(fence), commit::decimal(millis(ttl))];
        Op::Script { script: &scripts::RENEW, keys: vec![name.head(&self.link)], args }
    }

    /// Gives the lease back.
    pub fn release_op(&self, name: &SessionName, fence: u64) -> Op<'static> {
        let args = vec![commit::decimal(fence), commit::decimal(0)];
        Op::Script { script: &scripts::RELEASE, keys: vec![name.head(&self.link)], args }
    }

    /// Reads records without a lease.
    pub async fn get(
        &self,
        name: &SessionName,
        ids: &[(String, String)],
        deadline: Instant,
    ) -> Result<(u64, u64, Vec<Record>)> {
        let mut reread = false;
        for _ in 0..TRIES {
            let (_, keys) = self.existing(name, deadline).await?;
            let reply = self.link.run(Lane::Small, self.get_op(name, &keys, ids), deadline).await?;
            match Snapshot::parse(reply)? {
                Snapshot::Values(revision, values) => match open_all(&keys, name, ids, &values) {
                    Ok(records) => return Ok((revision, keys.incarnation, records)),
                    // Perhaps what we hold of the session is old: read its key again, once.
                    Err(error) if error.reason() == Reason::CorruptRecord && !reread => {
                        reread = true;
                        self.keys.drop(name.tag());
                    }
                    Err(error) => return Err(error),
                },
                Snapshot::TooLarge => return Err(get_too_large()),
                Snapshot::Moved { .. } | Snapshot::Gone => {}
                Snapshot::Lost => return Err(self.lost(name, deadline).await),
            }
        }
        Err(busy())
    }

    /// One commit without a stream.
    pub async fn commit(
        &self,
        name: &SessionName,
        wanted: &Commit,
        fence: Option<u64>,
        deadline: Instant,
    ) -> Result<Outcome> {
        for _ in 0..TRIES {
            let (head, keys) = self.existing(name, deadline).await?;
            if wanted.incarnation.is_some_and(|one| one != keys.incarnation)
                && wanted.op_seq > head.last_op(wanted.writer)
            {
                return Ok(Outcome::Fenced { deleted: false });
            }
            let merged = wanted.attributes.clone().map(|newer| {
                let mut attributes = attributes(name, &keys, head.live()).unwrap_or_default();
                attributes.merge(newer);
                attributes
            });
            let terms = Terms { fence, lease_ttl_ms: 0, base: head.revision, acknowledged: 0 };
            let op = wanted.op(&self.link, name, &keys, &terms, merged.as_ref());
            match Outcome::parse(self.link.run(Lane::Small, op, deadline).await?)? {
                Outcome::Reseal { .. } => {}
                Outcome::Gone => {
                    self.link.confirm_absent(KIND, name.tag(), deadline).await?;
                    return Ok(Outcome::Fenced { deleted: true });
                }
                Outcome::Held { sealed_owner, until_ms, now_ms } => {
                    return Ok(Outcome::Refused(held(name, &keys, &sealed_owner, until_ms, now_ms).error()));
                }
                Outcome::Lost => return Err(self.lost(name, deadline).await),
                outcome => return Ok(outcome),
            }
        }
        Err(busy())
    }

    /// The attributes of the live incarnation that these keys are for.
    pub async fn attributes(
        &self,
        name: &SessionName,
        keys: &SessionKeys,
        deadline: Instant,
    ) -> std::result::Result<super::attributes::Attributes, LinkError> {
        let mut read = cmd("HGET");
        read.arg(name.head(&self.link)).arg("at");
        let sealed = match self.link.run(Lane::Small, Op::Cmd(read), deadline).await? {
            Value::BulkString(sealed) => keys.open_part(name, ATTRIBUTES_PART, &sealed),
            _ => None,
        };
        Ok(sealed.and_then(|bytes| super::attributes::Attributes::decode(&bytes)).unwrap_or_default())
    }

    /// What an absent sentinel means: another database, or records that are gone.
    pub async fn lost(&self, name: &SessionName, deadline: Instant) -> Error {
        match self.link.confirm_absent(KIND, name.tag(), deadline).await {
            Ok(()) => {
                tracing::error!(owner = %short(name), "the records of a session are gone from Valkey");
                commit::lost()
            }
            Err(error) => error.into(),
        }
    }
}

/// When the earliest archive is to go; 0 without archives.
fn earliest_due(head: &Head) -> u64 {
    let archives = head.archives().into_iter();
    archives.filter_map(|archive| head.incarnations.get(&archive)).map(|one| one.purge_ms).min().unwrap_or(0)
}

/// The values of a snapshot, sealed, in the order asked for.
pub enum Snapshot {
    Values(u64, Vec<Option<Vec<u8>>>),
    TooLarge,
    /// Another incarnation is live, or none.
    Moved {
        deleted: bool,
    },
    Gone,
    Lost,
}

impl Snapshot {
    /// Reads the script's answer.
    pub fn parse(value: Value) -> Result<Self> {
        let mut reply = Reply::parse(value)?;
        Ok(match reply.status() {
            "OK" => {
                let revision = reply.number()?;
                let mut values = Vec::with_capacity(reply.left());
                while reply.left() > 0 {
                    values.push(reply.bytes()?);
                }
                Self::Values(revision, values)
            }
            "TOO_LARGE" => Self::TooLarge,
            "MOVED" => Self::Moved { deleted: reply.number()? == 0 },
            "GONE" => Self::Gone,
            "LOST" => Self::Lost,
            _ => return Err(reply.unexpected()),
        })
    }
}

/// Opens what a snapshot gave; missing ones are left out, one that does not open fails them all.
pub fn open_all(
    keys: &SessionKeys,
    name: &SessionName,
    ids: &[(String, String)],
    values: &[Option<Vec<u8>>],
) -> Result<Vec<Record>> {
    let mut found = Vec::new();
    let mut size = 0;
    for ((ty, id), value) in ids.iter().zip(values) {
        if let Some(value) = value {
            let record = records::open(keys, name, ty, id, value)?;
            size += record.value.len();
            if size > GET_BYTES {
                return Err(get_too_large());
            }
            found.push(record);
        }
    }
    Ok(found)
}

/// The owner's name and time of a live lease.
pub fn held(name: &SessionName, keys: &SessionKeys, sealed_owner: &[u8], until_ms: u64, now_ms: u64) -> Held {
    let owner =
        keys.open_part(name, OWNER_PART, sealed_owner).and_then(|bytes| String::from_utf8(bytes).ok());
    Held { owner, left: Duration::from_millis(until_ms.saturating_sub(now_ms)), until_ms }
}

/// The attributes of an incarnation.
pub fn attributes(
    name: &SessionName,
    keys: &SessionKeys,
    incarnation: Option<&Incarnation>,
) -> Option<super::attributes::Attributes> {
    let sealed = &incarnation?.attributes;
    super::attributes::Attributes::decode(&keys.open_part(name, ATTRIBUTES_PART, sealed)?)
}

/// Records and bytes by type, sorted; a type whose name does not open is left out.
pub fn counts(
    name: &SessionName,
    keys: &SessionKeys,
    incarnation: Option<&Incarnation>,
) -> Vec<(String, u64, u64)> {
    let Some(incarnation) = incarnation else { return Vec::new() };
    let mut counts: Vec<_> = incarnation
        .counts
        .iter()
        .filter(|(_, (records, _))| *records > 0)
        .filter_map(|(code, (records, bytes))| {
            let known = records::type_of(code)?.type_name().map(str::to_owned);
            let ty = known.or_else(|| {
                let sealed = incarnation.type_names.get(code)?;
                String::from_utf8(keys.open_part(name, TYPE_PART, sealed)?).ok()
            })?;
            Some((ty, *records, *bytes))
        })
        .collect();
    counts.sort();
    counts
}

/// The start of an owner's tag: what logs may show.
pub fn short(name: &SessionName) -> String {
    name.tag().to_string().chars().take(8).collect()
}

pub(super) fn not_found() -> Error {
    Error::new(Reason::SessionNotFound, "there is no such session")
}

pub(super) fn busy() -> Error {
    Error::new(Reason::Busy, "the session keeps changing: try again").retry_after(Duration::from_millis(100))
}

pub(super) fn get_too_large() -> Error {
    Error::too_large(
        "get.queries",
        "the records asked for are more than 32 MiB together: ask for fewer at a time",
    )
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: &Value) -> Result<u64> {
    let malformed = || Error::new(Reason::Internal, "Valkey gave a time of an unknown shape");
    let Value::Array(parts) = time else { return Err(malformed()) };
    let part = |at: usize| match parts.get(at) {
        Some(Value::BulkString(bytes)) => super::reply::parse_number(bytes),
        Some(Value::Int(n)) => u64::try_from(*n).ok(),
        _ => None,
    };
    Ok(part(0).ok_or_else(malformed)? * 1_000_000 + part(1).ok_or_else(malformed)?)
}
