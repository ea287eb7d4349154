//! What a request may hold. Everything outside is INVALID_ARGUMENT naming the field, before anything is written.

use std::time::Duration;

use crate::{
    error::{Error, Result},
    proto::v1,
    rpc::{DAYS_400, span},
};

use crate::rpc::is_no_span;
pub use crate::rpc::{id, namespace, request_id};

/// Bytes of a payload.
pub const PAYLOAD_MAX: usize = 256 * 1024;
/// Bytes of a result.
pub const RESULT_MAX: usize = 64 * 1024;
/// Bytes of an error text.
pub const ERROR_MAX: usize = 4 * 1024;
/// Bytes of a progress report.
pub const PROGRESS_MAX: usize = 1024;
/// Jobs of one EnqueueBatch.
pub const BATCH_MAX: usize = 1_000;
/// Items of one Ingest.
pub const INGEST_MAX: usize = 100;
/// Credits and leases of one stream.
pub const CREDIT_MAX: u32 = 1_000;
/// The end of 9999, ms.
pub const LATEST: u64 = 253_402_300_799_999;
/// A lease when the request does not say.
pub const LEASE: Duration = Duration::from_secs(30);
/// The most that jobs may wait between two attempts.
pub const DAY: Duration = Duration::from_secs(24 * 3600);
const PRIORITY_MAX: u32 = 8191;
const ATTEMPTS_MAX: u32 = 1_000;

/// Milliseconds, rounded up; nothing and less than nothing are 0.
pub fn wait(field: &str, value: Option<&prost_types::Duration>, most: u64) -> Result<u64> {
    let Some(value) = value else { return Ok(0) };
    if is_no_span(value) {
        return Err(Error::bad_field(
            field,
            "is no span: nanos must be within a second, and of the sign of the seconds",
        ));
    }
    if value.seconds < 0 || value.nanos < 0 {
        return Ok(0);
    }
    let ms = u64::try_from(value.seconds)
        .ok()
        .and_then(|seconds| seconds.checked_mul(1000))
        .and_then(|ms| ms.checked_add(u64::from(value.nanos.unsigned_abs()).div_ceil(1_000_000)));
    match ms {
        Some(ms) if ms <= most => Ok(ms),
        _ => Err(Error::bad_field(field, format!("must be at most {most} ms"))),
    }
}

/// An instant in ms, rounded up; before 1970 is 0.
pub fn instant(field: &str, value: &prost_types::Timestamp) -> Result<u64> {
    if !(0..1_000_000_000).contains(&value.nanos) {
        return Err(Error::bad_field(field, "is no instant: nanos must be 0..999999999"));
    }
    if value.seconds < 0 {
        return Ok(0);
    }
    let ms = u64::try_from(value.seconds)
        .ok()
        .and_then(|seconds| seconds.checked_mul(1000))
        .map(|ms| ms + u64::from(value.nanos.unsigned_abs()).div_ceil(1_000_000));
    match ms {
        Some(ms) if ms <= LATEST => Ok(ms),
        _ => Err(Error::bad_field(field, "must not be later than the end of 9999")),
    }
}

/// A lease of 1 s..24 h.
pub fn lease(field: &str, value: Option<prost_types::Duration>) -> Result<u64> {
    let lease = span(field, value, LEASE, Duration::from_secs(1), DAY)?;
    Ok(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX))
}

/// How long to wait before another attempt.
pub fn retry_after(field: &str, value: Option<&prost_types::Duration>) -> Result<Option<u64>> {
    let most = u64::try_from(DAYS_400.as_millis()).unwrap_or(u64::MAX);
    value.map(|value| wait(field, Some(value), most)).transpose()
}

/// A priority.
pub fn priority(field: &str, value: u32) -> Result<u16> {
    match u16::try_from(value) {
        Ok(priority) if value <= PRIORITY_MAX => Ok(priority),
        _ => Err(Error::bad_field(field, "must be 0..8191")),
    }
}

/// Attempts (0: the queue's), base in ms (0: the queue's), jitter in percent (255: the queue's).
pub fn retry(field: &str, value: Option<&v1::RetryPolicy>) -> Result<(u16, u32, u8)> {
    let Some(value) = value else { return Ok((0, 0, u8::MAX)) };
    if value.max_attempts > ATTEMPTS_MAX {
        return Err(Error::bad_field(format!("{field}.max_attempts"), "must be 1..1000"));
    }
    let base = match &value.base {
        None => 0,
        Some(base) => {
            let name = format!("{field}.base");
            let ms = wait(&name, Some(base), u64::try_from(DAY.as_millis()).unwrap_or(u64::MAX))?;
            if ms == 0 {
                return Err(Error::bad_field(name, "must be 1 ms to 24 h"));
            }
            ms
        }
    };
    let jitter = match value.jitter_percent {
        None => u8::MAX,
        Some(percent @ 0..=100) => u8::try_from(percent).unwrap_or(u8::MAX),
        Some(_) => return Err(Error::bad_field(format!("{field}.jitter_percent"), "must be 0..100")),
    };
    let attempts = u16::try_from(value.max_attempts).unwrap_or(0);
    Ok((attempts, u32::try_from(base).unwrap_or(u32::MAX), jitter))
}

/// Something of at most `most` bytes.
pub fn bytes(field: impl Into<String>, len: usize, most: usize) -> Result<()> {
    if len <= most { Ok(()) } else { Err(Error::too_large(field, format!("must be at most {most} bytes"))) }
}
