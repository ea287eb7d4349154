//! Sessions in Valkey: reading the head, taking the lease, and the calls that one request is made of.
//!
//! Every decision is a script's; what is read here before only prepares it, and the script says AGAIN when it has changed.

use std::{sync::Arc, time::Duration};

use redis::{Value, cmd};
use tokio::time::Instant;

use super::{
    commit::{self, ATTRIBUTES_PART, Commit, Outcome, TYPE_PART, Terms},
    head::{Head, Incarnation},
    keys::{KeyCache, SessionKeys},
    name::{KIND, SessionName},
    pages::Walk,
    records::{self, Record},
    reply::{self, Reply, micros},
    scripts,
    take::{Held, held},
};
use crate::{
    crypto::SharedKeyring,
    error::{Error, Reason, Result},
    owner::keys::unwrap_error,
    valkey::{Lane, Link, LinkError, Op, Replicas},
};

/// Tries before a call gives up on a session that keeps changing under it.
pub(super) const TRIES: usize = 8;
/// Most bytes that one Get reads, sealed.
const GET_BYTES: usize = 32 * 1024 * 1024;
/// Most fields that one step of a walk looks at.
const SCAN_FIELDS: u64 = 500;
/// About how many sealed bytes one step of a walk may give.
const SCAN_BYTES: u64 = 1024 * 1024;

/// The session records of one database.
pub struct Store {
    pub(super) link: Link,
    pub(super) replicas: Replicas,
    pub(super) keyring: Arc<SharedKeyring>,
    pub(super) keys: KeyCache,
}

impl Store {
    /// Reads the head and the server's clock (µs).
    pub async fn head(&self, name: &SessionName, deadline: Instant) -> Result<(Option<Head>, u64)> {
        let mut read = cmd("HGETALL");
        read.arg(name.head(&self.link));
        let ops = [Op::Cmd(read), Op::Cmd(cmd("TIME"))];
        let mut replies = self.link.read(Lane::Small, &ops, deadline).await?.into_iter();
        let mut next = || replies.next().unwrap_or_default();
        Ok((Head::parse(next())?, micros(&next())?))
    }

    /// A key of this session's slot that may be written at any time and ends by itself.
    pub fn mark(&self, name: &SessionName) -> Vec<u8> {
        self.link.owner_key(name.tag(), "w")
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
                let keys = self.live_keys(name, &head, deadline).await?;
                Ok((head, keys))
            }
            Some(_) => Err(not_found()),
            None => {
                self.link.confirm_absent(KIND, name.tag(), deadline).await?;
                Err(not_found())
            }
        }
    }

    /// Who holds a session.
    pub async fn holder(&self, name: &SessionName, deadline: Instant) -> Result<Held> {
        let (head, now_us) = self.head(name, deadline).await?;
        let head = head.unwrap_or_default();
        // Without its key the holder stays unnamed.
        let wrapped = head.live().map(|live| live.wrapped_key.as_slice()).unwrap_or_default();
        let (until_ms, now) = (head.lease_expiry_ms, now_us / 1000);
        let unwrapped = SessionKeys::unwrap(&self.keyring, name, head.live, wrapped);
        Ok(if let Ok(unwrapped) = unwrapped {
            held(name, &unwrapped, &head.sealed_owner, until_ms, now)
        } else {
            Held { owner: None, left: Duration::from_millis(until_ms.saturating_sub(now)), until_ms }
        })
    }

    /// The keys of the live incarnation, from the cache or unwrapped.
    pub async fn live_keys(
        &self,
        name: &SessionName,
        head: &Head,
        deadline: Instant,
    ) -> Result<Arc<SessionKeys>> {
        let primary = self.keyring.current().primary_id();
        if let Some(keys) = self.keys.get(name.tag(), head.live, primary) {
            return Ok(keys);
        }
        let wrapped = head.live().map(|live| live.wrapped_key.as_slice()).unwrap_or_default();
        let keys = match SessionKeys::unwrap(&self.keyring, name, head.live, wrapped) {
            Ok(keys) => Arc::new(keys),
            Err(error) => {
                let kind = (KIND, Reason::CorruptRecord);
                return Err(unwrap_error(&self.link, &self.keyring, kind, wrapped, error, deadline).await);
            }
        };
        self.keys.put(name.tag(), Arc::clone(&keys), primary);
        Ok(keys)
    }

    /// One snapshot of the records named.
    pub fn get_op(&self, name: &SessionName, keys: &SessionKeys, ids: &[(String, String)]) -> Op<'static> {
        let mut args =
            vec![crate::valkey::decimal(keys.incarnation), crate::valkey::decimal(GET_BYTES as u64)];
        args.extend(ids.iter().map(|(ty, id)| keys.record.field(ty, id).as_bytes().to_vec()));
        let keys = vec![name.head(&self.link), name.records(&self.link, keys.incarnation)];
        Op::Script { script: &scripts::GET, keys, args }
    }

    /// What a walk does next. The larger the session's values, the fewer it looks at at once.
    pub fn list_op(
        &self,
        name: &SessionName,
        keys: &SessionKeys,
        walk: &Walk,
        head: Option<&Head>,
    ) -> Op<'static> {
        let (records, bytes) = head.and_then(Head::live).map_or((0, 0), |live| {
            live.counts.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        });
        let mean = bytes.checked_div(records).unwrap_or(0).max(1);
        let code = (!walk.ty.is_empty()).then(|| keys.record.type_code(&walk.ty).as_bytes().to_vec());
        let args = vec![
            crate::valkey::decimal(keys.incarnation),
            crate::valkey::decimal(walk.cursor.scan),
            crate::valkey::decimal((SCAN_BYTES / mean).clamp(1, SCAN_FIELDS)),
            crate::valkey::decimal(SCAN_FIELDS),
            crate::valkey::decimal((walk.limit as u64).min(2 * SCAN_FIELDS)),
            crate::valkey::decimal(SCAN_BYTES),
            code.unwrap_or_default(),
        ];
        let keys = vec![name.head(&self.link), name.records(&self.link, keys.incarnation)];
        Op::Script { script: &scripts::LIST, keys, args }
    }

    /// Keeps the lease.
    pub fn renew_op(&self, name: &SessionName, incarnation: u64, fence: u64, ttl: Duration) -> Op<'static> {
        let args = vec![
            crate::valkey::decimal(incarnation),
            crate::valkey::decimal(fence),
            crate::valkey::decimal(millis(ttl)),
        ];
        Op::Script { script: &scripts::RENEW, keys: vec![name.head(&self.link)], args }
    }

    /// Gives the lease back.
    pub fn release_op(&self, name: &SessionName, fence: u64) -> Op<'static> {
        let args = vec![crate::valkey::decimal(fence), crate::valkey::decimal(0)];
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
        for tried in 0..TRIES {
            // A stream that commits without a pause is let through, or it would win every time.
            if tried > 1 {
                let pause = Duration::from_millis(1 << tried);
                if Instant::now() + pause >= deadline {
                    break;
                }
                tokio::time::sleep(pause).await;
            }
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
            _ => return Err(reply::unexpected()),
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
