//! What the scripts of a queue answer.

use std::sync::Arc;

use redis::Value;

use super::{header::Header, worker::Worker};
use crate::{
    error::Result,
    owner::reply::{parse_number, unexpected},
    proto::v1,
};

/// What became of one job that was to be added.
pub struct Made {
    /// As `Enqueued.Outcome`.
    pub outcome: u8,
    /// As `JobState`.
    pub place: u8,
    pub number: u64,
    pub due: u64,
    pub finished: u64,
    pub replayed: bool,
}

/// A job that was leased, or might be.
pub struct Leased {
    pub number: u64,
    pub header: Header,
    pub payload: Vec<u8>,
    pub progress: Vec<u8>,
}

/// What a call of the lease script gave.
#[derive(Default)]
pub struct Leases {
    /// By the server, ms.
    pub now: u64,
    /// Where all that was asked for was found, nobody has looked at this and the next two.
    pub ready_left: u64,
    /// 0: none.
    pub first_due: u64,
    /// 0: none.
    pub first_lease_end: u64,
    /// Limiter or pause hold the next start until then; 0: they do not.
    pub not_before: u64,
    /// There may be more to lease at once, behind what has expired.
    pub again: bool,
    pub leased: Vec<Leased>,
    /// Jobs that a cap must allow first.
    pub gated: Vec<Leased>,
}

/// How a lease is settled.
pub struct Settle {
    pub number: u64,
    pub fence: u64,
    /// `A` done, `R` failed, `F` failed for good, `L` given back.
    pub verdict: u8,
    /// ms.
    pub wait: Option<u64>,
    /// Sealed result or error, or nothing.
    pub sealed: Vec<u8>,
    /// The stream that says so, if it is one.
    pub holder: Option<Arc<Worker>>,
}

impl Settle {
    /// What its stream is told.
    pub fn told(&self, queue: &str, outcome: i32) -> v1::WorkSettled {
        let lease = v1::LeaseRef { queue: queue.to_owned(), number: self.number, fence: self.fence };
        v1::WorkSettled { lease: Some(lease), outcome }
    }
}

/// What became of a settle.
#[derive(Clone, Copy)]
pub struct Settled {
    /// As `SettleOutcome`.
    pub outcome: i32,
    /// Its holder's client has been sent it, together with jobs.
    pub told: bool,
}

/// What a tick found.
#[derive(Default)]
pub struct Ticked {
    pub now: u64,
    pub first_due: u64,
    pub first_lease_end: u64,
    pub first_trim: u64,
    pub first_cron: u64,
    /// There is more to do at once.
    pub more: bool,
}

/// A script's answer.
pub type Answer = (String, std::vec::IntoIter<Value>);

/// Adds a reply of the lease script to what was found before; gives the buckets that it lacks.
pub fn read_leases(mut rest: std::vec::IntoIter<Value>, result: &mut Leases) -> Result<Vec<u64>> {
    let head = bytes(rest.next())?;
    if head.len() != 33 {
        return Err(unexpected());
    }
    let at =
        |from: usize, len: usize| head[from..from + len].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
    result.now = at(0, 6);
    result.ready_left = at(6, 6);
    result.first_due = at(12, 6);
    result.first_lease_end = at(18, 6);
    result.not_before = at(24, 6);
    result.again = head[30] > 0;
    let most_attempts = u16::from_be_bytes([head[31], head[32]]);
    let (mut needed, mut section) = (Vec::new(), 0);
    while let Some(value) = rest.next() {
        if matches!(&value, Value::BulkString(mark) if mark == b"|") {
            section += 1;
            if section == 2 {
                result.gated.clear();
            }
        } else if section == 0 {
            needed.push(number(Some(value))?);
        } else {
            let number = number(Some(value))?;
            let (header, payload, progress) = (bytes(rest.next())?, bytes(rest.next())?, bytes(rest.next())?);
            let mut header = Header::parse(&header).ok_or_else(unexpected)?;
            // What is written is written: the worker hears what holds, be it the queue's.
            if header.max_attempts == 0 {
                header.max_attempts = most_attempts;
            }
            let list = if section == 1 { &mut result.leased } else { &mut result.gated };
            list.push(Leased { number, header, payload, progress });
        }
    }
    Ok(needed)
}

/// What one item of a reply to an add says.
pub fn made(value: &Value) -> Result<Made> {
    let Value::BulkString(bytes) = value else { return Err(unexpected()) };
    let [outcome, place, rest @ ..] = bytes.as_slice() else { return Err(unexpected()) };
    if rest.len() != 19 {
        return Err(unexpected());
    }
    let number = |at: usize| rest[at..at + 6].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    Ok(Made {
        outcome: *outcome,
        place: *place,
        number: number(0),
        due: number(6),
        finished: number(12),
        replayed: rest[18] == 1,
    })
}

/// The status word of a reply, and the rest.
pub fn open(reply: Value) -> Result<Answer> {
    let Value::Array(values) = reply else { return Err(unexpected()) };
    let mut values = values.into_iter();
    match values.next() {
        Some(Value::BulkString(status)) => Ok((String::from_utf8(status).map_err(|_| unexpected())?, values)),
        _ => Err(unexpected()),
    }
}

/// A whole number in a reply.
pub fn number(value: Option<Value>) -> Result<u64> {
    match value {
        Some(Value::Int(number)) => u64::try_from(number).map_err(|_| unexpected()),
        Some(Value::BulkString(bytes)) => parse_number(&bytes).ok_or_else(unexpected),
        _ => Err(unexpected()),
    }
}

/// Bytes in a reply; none are nothing.
pub fn bytes(value: Option<Value>) -> Result<Vec<u8>> {
    match value {
        Some(Value::BulkString(bytes)) => Ok(bytes),
        Some(Value::Nil) => Ok(Vec::new()),
        _ => Err(unexpected()),
    }
}
