//! Queues as a whole: what can be set of them, and what is known of them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use redis::Value;
use tokio::time::Instant;

use super::{
    handle::Handle,
    limits, scripts,
    store::{bytes, number},
};
use crate::{
    error::{Error, Result},
    owner::{catalog::Listed, reply},
    proto::v1::{self, JobState},
    rpc::{DAYS_400, duration, span_ms, timestamp},
};

/// Jobs of one step of a purge.
const PURGE_STEP: u64 = 250;
const COUNT_MAX: u32 = 10_000_000;

/// The fields of a head.
pub type Head = HashMap<Vec<u8>, Vec<u8>>;

/// A queue as a listing finds it.
pub struct Listing(Head);

impl Listed for Listing {
    const KIND: &'static str = super::KIND;
    const KEY: &'static str = "h";

    fn parse(fields: Value) -> Result<Option<Self>> {
        let head: Head = reply::pairs(fields)?.into_iter().collect();
        Ok((!head.is_empty()).then_some(Self(head)))
    }

    fn sealed_name(&self) -> &[u8] {
        self.0.get(&b"nm"[..]).map(Vec::as_slice).unwrap_or_default()
    }
}

fn field(head: &Head, name: &str) -> Option<u64> {
    reply::parse_number(head.get(name.as_bytes())?)
}

fn small(head: &Head, name: &str) -> Option<u32> {
    u32::try_from(field(head, name)?).ok()
}

fn settings(head: &Head) -> v1::QueueSettings {
    v1::QueueSettings {
        limiter: small(head, "lm")
            .map(|max| v1::Limiter { max, duration: Some(duration(field(head, "ld").unwrap_or(1))) }),
        concurrency: Some(small(head, "cc").unwrap_or(0)),
        retention: Some(v1::Retention {
            done_age: Some(duration(field(head, "ra").unwrap_or(3_600_000))),
            done_count: Some(small(head, "rc").unwrap_or(1_000)),
            dead_age: Some(duration(field(head, "xa").unwrap_or(14 * 86_400_000))),
            dead_count: Some(small(head, "xc").unwrap_or(5_000)),
        }),
        retry: Some(v1::RetryPolicy {
            max_attempts: small(head, "mx").unwrap_or(3),
            base: Some(duration(field(head, "bs").unwrap_or(60_000))),
            jitter_percent: Some(small(head, "jt").unwrap_or(0)),
        }),
        skip_delayed: Some(field(head, "sd") == Some(1)),
    }
}

fn checked(settings: v1::QueueSettings) -> Result<Vec<(&'static str, String)>> {
    let mut fields = Vec::new();
    let mut set = |name, value: u64| fields.push((name, value.to_string()));
    let mut no_limiter = false;
    if let Some(limiter) = settings.limiter {
        match limiter.max {
            0 => no_limiter = true,
            max @ 1..=10_000 => {
                let at = "settings.limiter.duration";
                let per = span_ms(at, limiter.duration, limits::DAY)?
                    .ok_or_else(|| Error::bad_field(at, "must be 1 ms to 24 h"))?;
                set("lm", max.into());
                set("ld", per);
            }
            _ => return Err(Error::bad_field("settings.limiter.max", "must be at most 10000")),
        }
    }
    if let Some(concurrency) = settings.concurrency {
        if concurrency > 100_000 {
            return Err(Error::bad_field("settings.concurrency", "must be at most 100000"));
        }
        set("cc", concurrency.into());
    }
    if let Some(retention) = settings.retention {
        let most = u64::try_from(DAYS_400.as_millis()).unwrap_or(u64::MAX);
        for (name, at, age) in [
            ("ra", "settings.retention.done_age", &retention.done_age),
            ("xa", "settings.retention.dead_age", &retention.dead_age),
        ] {
            if age.is_some() {
                set(name, limits::wait(at, age.as_ref(), most)?);
            }
        }
        for (name, at, count) in [
            ("rc", "settings.retention.done_count", retention.done_count),
            ("xc", "settings.retention.dead_count", retention.dead_count),
        ] {
            if let Some(count) = count {
                if count > COUNT_MAX {
                    return Err(Error::bad_field(at, "must be at most 10000000"));
                }
                set(name, count.into());
            }
        }
    }
    if settings.retry.is_some() {
        let (attempts, base, jitter) = limits::retry("settings.retry", settings.retry.as_ref())?;
        if attempts > 0 {
            set("mx", attempts.into());
        }
        if base > 0 {
            set("bs", base.into());
        }
        if jitter < u8::MAX {
            set("jt", jitter.into());
        }
    }
    if let Some(skip) = settings.skip_delayed {
        set("sd", skip.into());
    }
    if no_limiter {
        fields.extend([("lm", String::new()), ("ld", String::new())]);
    }
    Ok(fields)
}

async fn write(handle: &Arc<Handle>, fields: Vec<(&str, String)>, deadline: Instant) -> Result<(bool, u64)> {
    handle.store.make(&handle.queue, deadline).await?;
    let mut args = vec![handle.store.sealed_name(&handle.queue)];
    for (name, value) in fields {
        args.push(name.into());
        args.push(value.into_bytes());
    }
    let (_, mut rest) = handle.script(&scripts::CONFIGURE, args, deadline).await?;
    handle.store.made(&handle.queue, deadline).await?;
    handle.queue.wake();
    Ok((number(rest.next())? == 1, number(rest.next())?))
}

/// Sets what is given; gives all of it.
pub async fn configure(
    handle: &Arc<Handle>,
    given: v1::QueueSettings,
    deadline: Instant,
) -> Result<v1::QueueSettings> {
    write(handle, checked(given)?, deadline).await?;
    handle.tick_in(0);
    let queue = describe(handle, deadline).await?;
    Ok(queue.and_then(|queue| queue.settings).unwrap_or_default())
}

/// Fields of a head, and their values, that pause a queue until it is resumed and have its crons rest as well.
pub const AT_REST: [(&str, &str); 2] = [("pz", "-1"), ("cz", "1")];

/// Stops leasing, for a while or until it is resumed; gives until when (0: until then).
pub async fn pause(
    handle: &Arc<Handle>,
    span: Option<prost_types::Duration>,
    deadline: Instant,
) -> Result<u64> {
    let ms = span_ms("for", span, DAYS_400)?;
    let value = ms.map_or_else(|| "-1".to_owned(), |ms| format!("+{ms}"));
    let (_, now) = write(handle, vec![("pz", value)], deadline).await?;
    Ok(ms.map_or(0, |ms| now + ms))
}

/// Goes on; says whether it was paused.
pub async fn resume(handle: &Arc<Handle>, deadline: Instant) -> Result<bool> {
    // The crons as well, if they were put to rest with it (`pannier adopt-branch`).
    let was_paused = write(handle, vec![("pz", String::new()), ("cz", String::new())], deadline).await?.0;
    handle.tick_in(0);
    Ok(was_paused)
}

/// All that is known; `None` when there is no such queue.
pub async fn describe(handle: &Arc<Handle>, deadline: Instant) -> Result<Option<v1::Queue>> {
    let (status, mut rest) = handle.script(&scripts::STATS, Vec::new(), deadline).await?;
    if status == "NONE" {
        return Ok(None);
    }
    let mut next = || number(rest.next());
    let now = next()?;
    let (scheduled, ready, in_groups, groups) = (next()?, next()?, next()?, next()?);
    let (leased, done, dead, crons) = (next()?, next()?, next()?, next()?);
    let (turn, next_due) = (next()?, next()?);
    let mut head = Head::new();
    while let Some(name) = rest.next() {
        head.insert(bytes(Some(name))?, bytes(rest.next())?);
    }
    let paused = head.get(&b"pz"[..]).map(|value| String::from_utf8_lossy(value).into_owned());
    let paused_until =
        paused.as_deref().and_then(|value| value.parse::<u64>().ok()).filter(|until| *until > now);
    let total = |name| field(&head, name).unwrap_or(0);
    Ok(Some(v1::Queue {
        queue: handle.queue.name.queue.clone(),
        counts: Some(v1::QueueCounts {
            scheduled,
            ready,
            waiting: in_groups.saturating_sub(groups),
            leased,
            done,
            dead,
            crons,
            groups,
        }),
        totals: Some(v1::QueueTotals {
            created: total("nc"),
            leased: total("nl"),
            done: total("nd"),
            dead: total("nx"),
            retried: total("nr"),
            released: total("nb"),
            leases_lost: total("ne"),
            cancelled: total("nk"),
        }),
        paused: paused.as_deref() == Some("-1") || paused_until.is_some(),
        paused_until: timestamp(paused_until.unwrap_or(0)),
        lateness: Some(duration(if turn > 0 { now.saturating_sub(turn) } else { 0 })),
        next_due_at: timestamp(next_due),
        settings: Some(settings(&head)),
    }))
}

/// Removes jobs, step by step; a caller that goes away stops it between two.
pub async fn purge(
    handle: &Arc<Handle>,
    which: Vec<JobState>,
    patience: Duration,
) -> Result<v1::PurgeQueueResponse> {
    let mut response = v1::PurgeQueueResponse::default();
    for state in which {
        let mut from = Vec::new();
        loop {
            let args =
                vec![(state as i32).to_string().into_bytes(), PURGE_STEP.to_string().into_bytes(), from];
            let (status, mut rest) = handle.script(&scripts::PURGE, args, Instant::now() + patience).await?;
            if status == "NONE" {
                return Ok(response);
            }
            response.removed += number(rest.next())?;
            response.cancel_requested += number(rest.next())?;
            from = bytes(rest.next())?;
            if from.is_empty() {
                break;
            }
            // Others get their turn.
            tokio::task::yield_now().await;
        }
    }
    handle.queue.wake();
    Ok(response)
}
