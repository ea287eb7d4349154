//! Single jobs: reading one, cancelling it, giving it another due time; and what is done to dead ones.

use std::{collections::BTreeSet, sync::Arc};

use tokio::time::Instant;

use super::{
    convert,
    handle::Handle,
    header::Header,
    limits, scripts,
    sealed::{self, Part},
    store::{Answer, Made, bytes, number},
};
use crate::{
    error::{Error, Reason, Result},
    owner::{namespace::open_error, reply::unexpected},
    proto::v1::{self, JobState, cancel_job_response::Outcome as Cancelled},
    rpc::timestamp,
    valkey::{Lane, Script},
};

/// Dead jobs of one step.
const DEAD_STEP: usize = 100;
/// Ids of one call.
pub const IDS_MAX: usize = 500;

fn not_found() -> Error {
    Error::new(Reason::JobNotFound, "there is no such job (any more)")
}

/// A stored job, not opened.
pub struct Row {
    pub number: u64,
    pub state: JobState,
    pub header: Header,
    pub lease_end: u64,
    pub max_attempts: u32,
    pub payload: Vec<u8>,
    pub result: Vec<u8>,
    pub error: Vec<u8>,
    pub progress: Vec<u8>,
}

/// Opens a row.
pub async fn open(handle: &Arc<Handle>, row: &Row, with_payload: bool, deadline: Instant) -> Result<v1::Job> {
    let queue = &handle.queue.name;
    let keys = handle.store.keys(&handle.queue, deadline).await?;
    let damaged = |error| open_error(error, "job");
    let content = sealed::open_content(&keys, queue, &row.payload).map_err(damaged)?;
    let part =
        |part, sealed: &[u8]| sealed::open_part(&keys, queue, row.number, part, sealed).map_err(damaged);
    let header = &row.header;
    Ok(v1::Job {
        queue: queue.queue.clone(),
        id: content.id,
        number: row.number,
        state: row.state.into(),
        priority: u32::from(header.priority),
        group: content.group,
        attempts: u32::from(header.attempts),
        max_attempts: row.max_attempts,
        due_at: timestamp(header.due.max(1)),
        created_at: timestamp(header.created),
        lease_until: timestamp(row.lease_end),
        finished_at: timestamp(header.finished),
        deadline: timestamp(header.deadline),
        dead_reason: header.dead_reason().into(),
        error: String::from_utf8_lossy(&part(Part::Error, &row.error)?).into_owned(),
        progress: part(Part::Progress, &row.progress)?.into(),
        cancel_requested: header.cancel_requested(),
        payload: if with_payload { content.payload } else { bytes::Bytes::new() },
        result: if with_payload { part(Part::Result, &row.result)?.into() } else { bytes::Bytes::new() },
        cap: content.cap,
        fence: header.fence,
    })
}

impl Handle {
    pub fn blinded(&self, id: &str) -> Vec<u8> {
        self.queue.name.blinded_id(&self.store.keyring.current(), id).to_vec()
    }

    pub async fn script(
        &self,
        script: &'static Script,
        args: Vec<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Answer> {
        let answer =
            self.store.call(Lane::Small, script, &self.queue, BTreeSet::new(), args, deadline).await?;
        if answer.0 == "NONE" {
            self.store.absent(&self.queue, deadline).await?;
        }
        Ok(answer)
    }
}

/// Reads one.
pub async fn get(handle: &Arc<Handle>, id: &str, deadline: Instant) -> Result<v1::Job> {
    limits::id("id", id)?;
    let (status, mut rest) = handle.script(&scripts::FIND, vec![handle.blinded(id)], deadline).await?;
    if status != "OK" {
        return Err(not_found());
    }
    let _now = number(rest.next())?;
    let row = Row {
        number: number(rest.next())?,
        state: JobState::try_from(i32::try_from(number(rest.next())?).unwrap_or(0)).unwrap_or_default(),
        header: Header::parse(&bytes(rest.next())?).ok_or_else(unexpected)?,
        lease_end: number(rest.next())?,
        max_attempts: u32::try_from(number(rest.next())?).unwrap_or(0),
        payload: bytes(rest.next())?,
        result: bytes(rest.next())?,
        error: bytes(rest.next())?,
        progress: bytes(rest.next())?,
    };
    open(handle, &row, true, deadline).await
}

/// Takes one back.
pub async fn cancel(handle: &Arc<Handle>, id: &str, deadline: Instant) -> Result<Cancelled> {
    limits::id("id", id)?;
    let args = vec![b"cancel".to_vec(), handle.blinded(id), b"0".to_vec(), b"0".to_vec()];
    let (status, mut rest) = handle.script(&scripts::CHANGE, args, deadline).await?;
    if status == "NONE" {
        return Ok(Cancelled::NotFound);
    }
    handle.queue.wake();
    Cancelled::try_from(i32::try_from(number(rest.next())?).unwrap_or(0)).map_err(|_| unexpected())
}

/// Gives one another due time: (0, _) now, (1, ms) from now, (2, ms) an instant, (3, _) now, unless it is
/// due already.
pub async fn reschedule(
    handle: &Arc<Handle>,
    id: String,
    (kind, ms): (u8, u64),
    deadline: Instant,
) -> Result<v1::Enqueued> {
    limits::id("id", &id)?;
    let args = vec![
        b"due".to_vec(),
        handle.blinded(&id),
        kind.to_string().into_bytes(),
        ms.to_string().into_bytes(),
    ];
    let (status, mut rest) = handle.script(&scripts::CHANGE, args, deadline).await?;
    if status == "NONE" {
        return Err(not_found());
    }
    handle.queue.wake();
    let outcome = u8::try_from(number(rest.next())?).unwrap_or(0);
    if outcome == 6 {
        return Err(not_found());
    }
    let made = Made {
        outcome,
        place: u8::try_from(number(rest.next())?).unwrap_or(0),
        number: number(rest.next())?,
        due: number(rest.next())?,
        finished: number(rest.next())?,
        replayed: false,
    };
    Ok(convert::enqueued(id, &made))
}

/// What is done to dead jobs.
#[derive(Clone, Copy)]
pub enum Dead {
    Retry,
    Delete,
}

/// Does it, by ids or to all that died since an instant; gives how many.
pub async fn dead(
    handle: &Arc<Handle>,
    what: Dead,
    (ids, all, since): (Vec<String>, bool, Option<prost_types::Timestamp>),
    deadline: Instant,
) -> Result<u64> {
    if all != ids.is_empty() || ids.len() > IDS_MAX {
        return Err(Error::bad_field("ids", "must be 1..500, or none with `all`"));
    }
    let since = since.map(|since| limits::instant("since", &since)).transpose()?.unwrap_or(0);
    if since > 0 && !all {
        return Err(Error::bad_field("since", "goes with `all` only"));
    }
    let mut blinded = Vec::with_capacity(ids.len());
    for (n, id) in ids.iter().enumerate() {
        limits::id(format!("ids[{n}]"), id)?;
        blinded.push(handle.blinded(id));
    }
    let mut steps = blinded.chunks(DEAD_STEP);
    let word: &[u8] = match what {
        Dead::Retry => b"retry",
        Dead::Delete => b"delete",
    };
    let (mut changed, mut left_out, mut until) = (0, 0, Vec::new());
    loop {
        let step = steps.next().map(<[_]>::concat).unwrap_or_default();
        if !all && step.is_empty() {
            handle.queue.wake();
            return Ok(changed);
        }
        let args = vec![
            word.to_vec(),
            since.to_string().into_bytes(),
            left_out.to_string().into_bytes(),
            DEAD_STEP.to_string().into_bytes(),
            step,
            until,
        ];
        let (status, mut rest) = handle.script(&scripts::DEAD, args, deadline).await?;
        if status == "NONE" {
            return Ok(0);
        }
        let (did, kept) = (number(rest.next())?, number(rest.next())?);
        changed += did;
        left_out += kept;
        until = bytes(rest.next())?;
        if all && did + kept == 0 {
            handle.queue.wake();
            return Ok(changed);
        }
    }
}
