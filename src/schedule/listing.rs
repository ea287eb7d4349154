//! Pages of jobs of one state.

use std::{collections::BTreeSet, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redis::{Value, cmd};
use tokio::time::Instant;

use super::{
    handle::Handle,
    header::Header,
    jobs::{self, Row},
    queue::IN_BUCKET,
    scripts,
    store::{bytes, number},
};
use crate::{
    error::{Error, Reason, Result},
    owner::reply::unexpected,
    proto::v1::{self, JobState},
    valkey::{Lane, Op},
};

/// Jobs of one page.
pub const LIMIT_MAX: u32 = 500;
const BYTES: usize = 1024 * 1024;

/// Behind which entry a page begins: score and member.
fn place(cursor: &str) -> Result<(u64, Vec<u8>)> {
    if cursor.is_empty() {
        return Ok((0, Vec::new()));
    }
    let malformed = || Error::bad_field("cursor", "is none that this call has given");
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| malformed())?;
    let (score, member) = bytes.split_first_chunk::<8>().ok_or_else(malformed)?;
    let score = u64::from_be_bytes(*score);
    if member.is_empty() || member.len() > 64 || score >= 1 << 53 {
        return Err(malformed());
    }
    Ok((score, member.to_vec()))
}

fn cursor(score: u64, member: &[u8]) -> String {
    let mut bytes = score.to_be_bytes().to_vec();
    bytes.extend(member);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn number_in(state: JobState, member: &[u8]) -> Option<u64> {
    let at = match state {
        JobState::Scheduled => 2,
        JobState::Ready => 6,
        JobState::Waiting => member.len().checked_sub(14)?,
        _ => 0,
    };
    Some(member.get(at..at + 6)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// One page.
pub async fn list(
    handle: &Arc<Handle>,
    state: JobState,
    from: &str,
    limit: usize,
    with_payload: bool,
    deadline: Instant,
) -> Result<v1::ListJobsResponse> {
    let (score, member) = place(from)?;
    let args = vec![
        (state as i32).to_string().into_bytes(),
        score.to_string().into_bytes(),
        member,
        limit.to_string().into_bytes(),
    ];
    let (status, mut rest) =
        handle.store.call(Lane::Bulk, &scripts::LIST, &handle.queue, BTreeSet::new(), args, deadline).await?;
    let mut page = v1::ListJobsResponse::default();
    if status == "NONE" {
        handle.store.absent(&handle.queue, deadline).await?;
        return Ok(page);
    }
    let _now = number(rest.next())?;
    let (mut entries, mut walked, mut last) = (Vec::new(), 0, None);
    while let Some(score) = rest.next() {
        let (score, member) = (number(Some(score))?, bytes(rest.next())?);
        walked += 1;
        let its = number_in(state, &member).ok_or_else(unexpected)?;
        last = Some((score, member.clone()));
        // The member of a group whose turn it is does not wait.
        if state != JobState::Waiting || score == 0 {
            entries.push((its, score, member));
        }
    }
    let numbers: Vec<u64> = entries.iter().map(|(number, ..)| *number).collect();
    let rows = read(handle, &numbers, state, deadline).await?;
    let mut size = 0;
    for ((_, score, member), row) in entries.into_iter().zip(rows) {
        let Some(mut row) = row else { continue };
        if state == JobState::Leased {
            row.lease_end = score;
        }
        // What has moved on meanwhile is another list's.
        let wanted = match state {
            JobState::Done | JobState::Cancelled => row.state == state,
            _ => row.state == state || row.header.state == b'P',
        };
        if !wanted {
            continue;
        }
        size += row.payload.len() + row.result.len();
        match jobs::open(handle, &row, with_payload, deadline).await {
            Ok(job) => page.jobs.push(job),
            Err(error) if error.reason() == Reason::CorruptRecord => page.corrupt += 1,
            Err(error) => return Err(error),
        }
        if with_payload && size >= BYTES {
            page.cursor = cursor(score, &member);
            return Ok(page);
        }
    }
    if walked >= limit
        && let Some((score, member)) = last
    {
        page.cursor = cursor(score, &member);
    }
    Ok(page)
}

/// What is stored of some jobs, in one write; those that are gone are `None`.
pub async fn read(
    handle: &Arc<Handle>,
    numbers: &[u64],
    state: JobState,
    deadline: Instant,
) -> Result<Vec<Option<Row>>> {
    let mut ops: Vec<_> = numbers
        .iter()
        .map(|number| {
            let at = number % IN_BUCKET;
            let mut read = cmd("HMGET");
            read.arg(handle.queue.bucket(number / IN_BUCKET));
            read.arg(at)
                .arg(format!("p{at}"))
                .arg(format!("r{at}"))
                .arg(format!("e{at}"))
                .arg(format!("g{at}"));
            Op::Cmd(read)
        })
        .collect();
    let mut most = cmd("HGET");
    most.arg(handle.queue.head()).arg("mx");
    ops.push(Op::Cmd(most));
    let mut replies = handle.store.link.read(Lane::Bulk, &ops, deadline).await?;
    let most = replies.pop().and_then(|most| number(Some(most)).ok()).unwrap_or(3);
    numbers
        .iter()
        .zip(replies)
        .map(|(number, reply)| {
            let Value::Array(values) = reply else { return Err(unexpected()) };
            let mut values = values.into_iter();
            let raw = bytes(values.next())?;
            let Some(header) = Header::parse(&raw) else { return Ok(None) };
            let own = u64::from(header.max_attempts);
            Ok(Some(Row {
                number: *number,
                state: super::convert::state(&header, state),
                lease_end: 0,
                max_attempts: u32::try_from(if own > 0 { own } else { most }).unwrap_or(0),
                header,
                payload: bytes(values.next())?,
                result: bytes(values.next())?,
                error: bytes(values.next())?,
                progress: bytes(values.next())?,
            }))
        })
        .collect()
}

/// The ids of some jobs; "" where one is gone.
pub async fn ids(handle: &Arc<Handle>, numbers: &[u64], deadline: Instant) -> Result<Vec<String>> {
    let ops: Vec<_> = numbers
        .iter()
        .map(|number| {
            let mut read = cmd("HGET");
            read.arg(handle.queue.bucket(number / IN_BUCKET)).arg(format!("p{}", number % IN_BUCKET));
            Op::Cmd(read)
        })
        .collect();
    let replies = handle.store.link.read(Lane::Bulk, &ops, deadline).await?;
    let keys = handle.store.keys(&handle.queue, deadline).await?;
    Ok(replies
        .into_iter()
        .map(|reply| {
            let Value::BulkString(sealed) = reply else { return String::new() };
            super::sealed::open_content(&keys, &handle.queue.name, &sealed)
                .map(|content| content.id)
                .unwrap_or_default()
        })
        .collect())
}
