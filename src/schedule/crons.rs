//! Recurring jobs. Where one stands is its next slot; whoever fires it moves that on and adds the job in one script, if the slot is
//! still the one that was meant.

use std::sync::{Arc, atomic::Ordering};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use prost::Message as _;
use redis::{Value, cmd};
use tokio::time::Instant;

use super::{
    every::Rule,
    handle::Handle,
    limits, scripts,
    spec::{self, Origin},
    store::{bytes, number, soon},
    timers::POLL_MS,
};
use crate::{
    crypto::{lp, take_lp},
    error::{Error, Reason, Result},
    owner::{
        namespace::{NamespaceKeys, open_error},
        reply::{parse_number, unexpected},
        request::blinded,
    },
    proto::v1::{self, upsert_cron_response::Outcome},
    rpc::timestamp,
    valkey::{Lane, Op},
};

/// Crons of one round.
const ROUND: usize = 50;
/// An occurrence that is later than this was missed, ms.
const MISSED: u64 = 60_000;
/// Slots, last slot, last number: in clear, in front of the sealed cron.
const CLEAR: usize = 18;
const TRIES: usize = 20;

/// What is stored of one.
struct Entry {
    slot: u64,
    last: u64,
    last_number: u64,
    sealed: Vec<u8>,
}

impl Entry {
    fn parse(raw: &[u8]) -> Option<Self> {
        let (clear, sealed) = raw.split_at_checked(CLEAR)?;
        let number = |at: usize| clear[at..at + 6].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Some(Self { slot: number(0), last: number(6), last_number: number(12), sealed: sealed.to_vec() })
    }

    /// Deleted, and kept for a minute.
    fn is_grave(&self) -> bool {
        self.sealed.is_empty()
    }
}

fn blinded_id(handle: &Handle, id: &str) -> [u8; 16] {
    blinded(&handle.store.keyring.current(), "cron-id", handle.queue.name.tag(), id)
}

fn seal(handle: &Handle, keys: &NamespaceKeys, cron: &v1::Cron) -> Vec<u8> {
    let mut plaintext = Vec::new();
    lp(&mut plaintext, cron.id.as_bytes());
    plaintext.extend(cron.encode_to_vec());
    keys.seal(&handle.queue.name.context(&[cron.id.as_bytes(), b"cron"]), &plaintext)
}

fn open(handle: &Handle, keys: &NamespaceKeys, sealed: &[u8]) -> Result<v1::Cron> {
    let queue = &handle.queue.name;
    let opened = keys
        .open_unnamed(sealed, |plaintext| Some(queue.context(&[take_lp(&mut &*plaintext)?, b"cron"])))
        .map_err(|error| open_error(error, "cron"))?;
    let mut rest = &opened.plaintext[..];
    take_lp(&mut rest).and_then(|_| v1::Cron::decode(rest).ok()).ok_or_else(|| {
        Error::new(Reason::NewerFormat, "a cron was written by a newer version: update pannier")
    })
}

struct Answer {
    moved: bool,
    now: u64,
    entry: Option<Entry>,
}

async fn call(handle: &Arc<Handle>, args: Vec<Vec<u8>>, deadline: Instant) -> Result<Answer> {
    let (status, mut rest) = handle.script(&scripts::CRON, args, deadline).await?;
    if status == "MOVED" {
        return Ok(Answer { moved: true, now: 0, entry: None });
    }
    let now = number(rest.next())?;
    Ok(Answer { moved: false, now, entry: Entry::parse(&bytes(rest.next())?) })
}

fn args(
    name: Vec<u8>,
    what: &str,
    id: [u8; 16],
    at: Option<u64>,
    next: u64,
    sealed: Vec<u8>,
) -> Vec<Vec<u8>> {
    let at = at.map(|at| at.to_string()).unwrap_or_default();
    vec![name, what.into(), id.to_vec(), at.into_bytes(), next.to_string().into_bytes(), sealed]
}

fn check(cron: &mut v1::Cron) -> Result<()> {
    limits::id("cron.id", &cron.id)?;
    let template = cron.template.get_or_insert_default();
    if template.when.is_some() {
        return Err(Error::bad_field("cron.template.delay", "must not be given here"));
    }
    // What an occurrence's id would be at its longest.
    let longest = format!("{}@9999-12-31T23:59:59.999Z", cron.id);
    if limits::id("cron.id", &longest).is_err() {
        return Err(Error::bad_field("cron.id", "must be at most 487 bytes: an instant is added to it"));
    }
    spec::check("cron.template", template.clone(), Origin::Cron(&longest))?;
    for (field, known) in [
        ("cron.misfire", v1::Misfire::try_from(cron.misfire).is_ok()),
        ("cron.overlap", v1::Overlap::try_from(cron.overlap).is_ok()),
    ] {
        if !known {
            return Err(Error::bad_field(field, "is none of those there are"));
        }
    }
    Ok(())
}

/// The id of an occurrence's job.
fn slot_id(cron: &str, slot: u64) -> String {
    let at = Timestamp::from_millisecond(i64::try_from(slot).unwrap_or(0)).unwrap_or_default();
    format!("{cron}@{at}")
}

/// Sets one.
pub async fn upsert(
    handle: &Arc<Handle>,
    mut cron: v1::Cron,
    deadline: Instant,
) -> Result<v1::UpsertCronResponse> {
    check(&mut cron)?;
    let id = blinded_id(handle, &cron.id);
    let keys = handle.store.keys(&handle.queue, deadline).await?;
    for _ in 0..TRIES {
        let read = call(handle, args(Vec::new(), "get", id, None, 0, Vec::new()), deadline).await?;
        let rule = Rule::of(&cron, read.now)?;
        let there = read.entry.as_ref().filter(|entry| !entry.is_grave());
        let old = there.map(|entry| open(handle, &keys, &entry.sealed)).transpose();
        let old = match old {
            Ok(old) => old,
            // A damaged one is replaced.
            Err(error) if error.reason() == Reason::CorruptRecord => None,
            Err(error) => return Err(error),
        };
        if let (Some(entry), Some(old)) = (there, &old)
            && *old == cron
        {
            return Ok(v1::UpsertCronResponse {
                outcome: Outcome::Unchanged.into(),
                next_at: timestamp(entry.slot),
            });
        }
        let next = first_slot(&rule, &cron, read.now, read.entry.as_ref(), old.as_ref());
        let at = read.entry.as_ref().map(|entry| entry.slot);
        handle.store.make(&handle.queue, deadline).await?;
        let name = handle.store.sealed_name(&handle.queue);
        let set = args(name, "set", id, at, next, seal(handle, &keys, &cron));
        if call(handle, set, deadline).await?.moved {
            continue;
        }
        handle.store.made(&handle.queue, deadline).await?;
        // Where nothing was to be done they look at a queue once in minutes.
        handle.store.tell(&handle.queue, deadline).await;
        handle.tick_in(next.saturating_sub(read.now).min(POLL_MS));
        let outcome = if there.is_some() { Outcome::Updated } else { Outcome::Created };
        return Ok(v1::UpsertCronResponse { outcome: outcome.into(), next_at: timestamp(next) });
    }
    Err(Error::new(Reason::Busy, "others change this cron all the time; try again"))
}

/// Where a cron that is set begins. A slot that has come and was not fired yet is not lost by setting the same rule again, or by
/// deleting and setting it.
fn first_slot(rule: &Rule, cron: &v1::Cron, now: u64, entry: Option<&Entry>, old: Option<&v1::Cron>) -> u64 {
    if let Some(entry) = entry {
        let same = old.is_none_or(|old| old.rule == cron.rule && old.time_zone == cron.time_zone);
        let fires_then = entry.slot > 0 && rule.next_after(entry.slot - 1) == Some(entry.slot);
        if same && fires_then && entry.slot + MISSED >= now {
            return entry.slot;
        }
    }
    rule.next_after(now).unwrap_or(0)
}

/// Ends one.
pub async fn delete(handle: &Arc<Handle>, id: &str, deadline: Instant) -> Result<bool> {
    limits::id("id", id)?;
    let id = blinded_id(handle, id);
    for _ in 0..TRIES {
        let read = call(handle, args(Vec::new(), "get", id, None, 0, Vec::new()), deadline).await?;
        let Some(entry) = read.entry.filter(|entry| !entry.is_grave()) else { return Ok(false) };
        let gone =
            call(handle, args(Vec::new(), "delete", id, Some(entry.slot), 0, Vec::new()), deadline).await?;
        if !gone.moved {
            return Ok(true);
        }
    }
    Err(Error::new(Reason::Busy, "others change this cron all the time; try again"))
}

/// A page of them.
pub async fn list(
    handle: &Arc<Handle>,
    cursor: &str,
    limit: usize,
    occurrences: usize,
    deadline: Instant,
) -> Result<v1::ListCronsResponse> {
    let from = URL_SAFE_NO_PAD
        .decode(cursor)
        .map_err(|_| Error::bad_field("cursor", "is none that this call has given"))?;
    // Crons are few: their names are walked in order, so that none is left out when another goes.
    let mut read = cmd("HKEYS");
    read.arg(handle.queue.key(12));
    let Value::Array(fields) = handle.store.link.run(Lane::Bulk, Op::Cmd(read), deadline).await? else {
        return Ok(v1::ListCronsResponse::default());
    };
    let mut ids: Vec<Vec<u8>> = fields
        .into_iter()
        .filter_map(|field| match field {
            Value::BulkString(id) => Some(id),
            _ => None,
        })
        .filter(|id| *id > from)
        .collect();
    ids.sort_unstable();
    let mut page = v1::ListCronsResponse::default();
    if ids.len() > limit {
        ids.truncate(limit);
        page.cursor = ids.last().map(|id| URL_SAFE_NO_PAD.encode(id)).unwrap_or_default();
    }
    if ids.is_empty() {
        return Ok(page);
    }
    let mut read = cmd("HMGET");
    read.arg(handle.queue.key(12));
    for id in &ids {
        read.arg(id);
    }
    let Value::Array(entries) = handle.store.link.run(Lane::Bulk, Op::Cmd(read), deadline).await? else {
        return Ok(page);
    };
    let keys = handle.store.keys(&handle.queue, deadline).await?;
    for entry in entries {
        let Value::BulkString(raw) = entry else { continue };
        let Some(entry) = Entry::parse(&raw).filter(|entry| !entry.is_grave()) else { continue };
        let Ok(cron) = open(handle, &keys, &entry.sealed) else {
            page.corrupt += 1;
            continue;
        };
        let mut slots = vec![entry.slot];
        if let Ok(rule) = Rule::of(&cron, 0) {
            while slots.len() < occurrences
                && let Some(next) = slots.last().and_then(|last| rule.next_after(*last))
            {
                slots.push(next);
            }
        }
        page.crons.push(v1::CronInfo {
            cron: Some(cron),
            next_at: timestamp(entry.slot),
            occurrences: slots.into_iter().filter_map(timestamp).collect(),
            last_at: timestamp(entry.last),
            last_number: entry.last_number,
        });
    }
    Ok(page)
}

/// Fires what is due; gives when the first of the rest is, as far as it can be fired here.
pub async fn fire(handle: &Arc<Handle>, now: u64) -> Result<Option<u64>> {
    let mut passed = 0;
    loop {
        let due = slots(handle, "-inf".to_owned(), now.to_string(), (passed, ROUND)).await?;
        let count = due.len();
        let skipped = fire_all(handle, due, now).await?;
        if skipped < count {
            return Ok(Some(now));
        }
        passed += skipped;
        if count < ROUND {
            break;
        }
    }
    // Those that were passed over stay at the front.
    let next = slots(handle, format!("({now}"), "+inf".to_owned(), (0, 1)).await?;
    Ok(next.into_iter().next().map(|(_, slot)| slot))
}

/// Crons and when they fire, of a range of instants.
async fn slots(
    handle: &Arc<Handle>,
    from: String,
    to: String,
    (offset, most): (usize, usize),
) -> Result<Vec<(Value, u64)>> {
    let mut range = cmd("ZRANGEBYSCORE");
    range.arg(handle.queue.key(13)).arg(from).arg(to).arg("WITHSCORES").arg("LIMIT").arg(offset).arg(most);
    let found = handle.store.link.run(Lane::Bulk, Op::Cmd(range), soon()).await?;
    scored(found).ok_or_else(unexpected)
}

/// Members and scores, whichever way the protocol version wraps them.
fn scored(found: Value) -> Option<Vec<(Value, u64)>> {
    let Value::Array(found) = found else { return Some(Vec::new()) };
    let score = |value: &Value| match value {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // an instant in ms
        Value::Double(score) => Some(*score as u64),
        Value::BulkString(text) => parse_number(text),
        _ => None,
    };
    let mut all = Vec::new();
    let mut found = found.into_iter();
    while let Some(first) = found.next() {
        if let Value::Array(pair) = first {
            let [member, at] = <[Value; 2]>::try_from(pair).ok()?;
            all.push((member, score(&at)?));
        } else {
            all.push((first, score(&found.next()?)?));
        }
    }
    Some(all)
}

/// Fires these; how many were passed over.
async fn fire_all(handle: &Arc<Handle>, due: Vec<(Value, u64)>, now: u64) -> Result<usize> {
    let mut passed = 0;
    for (member, _) in due {
        let Value::BulkString(member) = member else { continue };
        let Some((id, rest)) = member.split_first_chunk::<16>() else { continue };
        if !rest.is_empty() {
            call(handle, args(Vec::new(), "gone", *id, None, 0, Vec::new()), soon()).await?;
            continue;
        }
        if let Err(error) = fire_one(handle, *id, now).await {
            // It is this cron that cannot be fired here, such as one that a newer version has written: the others go on.
            if matches!(error.reason(), Reason::NewerFormat | Reason::BadField | Reason::TooLarge) {
                if !handle.passed_over.swap(true, Ordering::Relaxed) {
                    let queue = handle.queue.name.short();
                    tracing::error!(%queue, %error, "a cron cannot be fired by this version: another sidecar has to");
                }
                passed += 1;
                continue;
            }
            if error.reason() != Reason::CorruptRecord {
                return Err(error);
            }
            tracing::error!(queue = %handle.queue.name.short(), "a cron is damaged: it fires no more; set it again");
            let mut skip = cmd("ZREM");
            skip.arg(handle.queue.key(13)).arg(&id[..]);
            handle.store.link.run(Lane::Bulk, Op::Cmd(skip), soon()).await?;
        }
    }
    Ok(passed)
}

async fn fire_one(handle: &Arc<Handle>, id: [u8; 16], now: u64) -> Result<()> {
    let read = call(handle, args(Vec::new(), "get", id, None, 0, Vec::new()), soon()).await?;
    let Some(entry) = read.entry.filter(|entry| !entry.is_grave() && entry.slot <= now) else {
        return Ok(());
    };
    let keys = handle.store.keys(&handle.queue, soon()).await?;
    let cron = open(handle, &keys, &entry.sealed)?;
    let rule = Rule::of(&cron, 0)?;
    let missed = entry.slot + MISSED < now;
    let next = rule.next_after(if missed { now } else { entry.slot }).unwrap_or(0);
    let mut items = Vec::new();
    if !(missed && cron.misfire == v1::Misfire::Skip as i32) {
        let job_id = slot_id(&cron.id, entry.slot);
        let mut template = cron.template.unwrap_or_default();
        let due = i64::try_from(entry.slot / 1000).unwrap_or(0);
        let nanos = i32::try_from(entry.slot % 1000 * 1_000_000).unwrap_or(0);
        template.when = Some(v1::job_spec::When::DueAt(prost_types::Timestamp { seconds: due, nanos }));
        let checked = spec::check("template", template, Origin::Cron(&job_id))?;
        items.push(checked.seal(&handle.store.keyring.current(), &keys, &handle.queue.name));
    }
    let mut fired = id.to_vec();
    fired.extend(&entry.slot.to_be_bytes()[2..]);
    fired.extend(&next.to_be_bytes()[2..]);
    fired.push(u8::from(cron.overlap != v1::Overlap::Allow as i32));
    handle.store.enqueue(&handle.queue, fired, &items, soon()).await?;
    Ok(())
}
