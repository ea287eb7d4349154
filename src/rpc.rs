//! What the doors of all capabilities share: bounds of names and pages, the deadline of a call, and types of the wire. Everything
//! outside a bound is INVALID_ARGUMENT naming the field, before anything is written.

use std::time::Duration;

use tokio::time::Instant;
use tonic::{Code, Request, Response, Status};

use crate::{
    error::{Error, Reason, Result},
    proto::v1,
    valkey::DurabilityLevel,
};

/// Bytes of a namespace.
pub const NAMESPACE_MAX: usize = 128;
/// Records of one page.
pub const PAGE_MAX: u32 = 1_000;
/// Largest message, and room for what frames 4 MiB.
pub const MESSAGE_MAX: usize = 4 * 1024 * 1024 + 64 * 1024;
/// Bytes of a unary reply.
pub const UNARY_BYTES: usize = 4 * 1024 * 1024 - 64 * 1024;
/// The default deadline of a unary call.
pub const UNARY: Duration = Duration::from_secs(5);
/// Owners of one page when the request does not say.
pub const OWNERS_DEFAULT: u32 = 100;
const TIMEOUT_MOST: Duration = Duration::from_secs(120);

/// What a handler gives to tonic.
pub type Reply<T> = std::result::Result<Response<T>, Status>;

/// "" means "default".
pub fn namespace(value: String) -> Result<String> {
    if value.is_empty() {
        return Ok("default".to_owned());
    }
    if value.len() > NAMESPACE_MAX {
        return Err(Error::bad_field("namespace", "must be at most 128 bytes"));
    }
    Ok(value)
}

/// A page size; 0 means the default.
pub fn page(value: u32, default: u32) -> Result<usize> {
    match value {
        0 => Ok(default as usize),
        1..=PAGE_MAX => Ok(value as usize),
        _ => Err(Error::bad_field("limit", "must be at most 1000")),
    }
}

/// A span between two bounds; absent means the default.
pub fn span(
    field: &str,
    value: Option<prost_types::Duration>,
    default: Duration,
    least: Duration,
    most: Duration,
) -> Result<Duration> {
    let Some(value) = value else { return Ok(default) };
    let span = Duration::try_from(value).unwrap_or(Duration::MAX);
    if value.seconds < 0 || value.nanos < 0 || span < least || span > most {
        return Err(Error::bad_field(field, format!("must be {least:?} to {most:?}")));
    }
    Ok(span)
}

/// An instant for a reply; 0 is none.
pub fn timestamp(ms: u64) -> Option<prost_types::Timestamp> {
    let seconds = i64::try_from(ms / 1000).ok()?;
    let nanos = i32::try_from(ms % 1000 * 1_000_000).ok()?;
    (ms > 0).then_some(prost_types::Timestamp { seconds, nanos })
}

/// The durability a reply is worth.
pub fn durability_out(level: DurabilityLevel) -> v1::Durability {
    match level {
        DurabilityLevel::Memory => v1::Durability::Memory,
        DurabilityLevel::Aof => v1::Durability::Aof,
        DurabilityLevel::Fsync => v1::Durability::Fsync,
    }
}

/// When a unary call must be answered: the client's own deadline, or the default.
fn deadline<T>(request: &Request<T>, default: Duration) -> Instant {
    let asked = request.metadata().get("grpc-timeout").and_then(|value| timeout(value.to_str().ok()?));
    Instant::now() + asked.unwrap_or(default).min(TIMEOUT_MOST)
}

fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let amount: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(amount.saturating_mul(3600)),
        "M" => Duration::from_secs(amount.saturating_mul(60)),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

/// What the end of a stream of requests tells its client: why a message of it could not be read. `None`: the client is gone.
pub fn unreadable(status: &Status) -> Option<Error> {
    match status.code() {
        Code::OutOfRange => {
            Some(Error::too_large("message", "a message must be at most 4 MiB: send the value in fragments"))
        }
        // Of gRPC's own codes tonic gives these where bytes do not decode; a connection that broke has others.
        Code::Internal | Code::Unimplemented | Code::InvalidArgument => Some(Error::new(
            Reason::Protocol,
            "a message could not be decoded: it is not of this API, or a string in it is not UTF-8",
        )),
        _ => None,
    }
}

/// Answers a unary call.
pub async fn answer<Q, A, F: Future<Output = Result<A>>>(
    request: Request<Q>,
    default: Duration,
    handle: impl FnOnce(Q, Instant) -> F,
) -> Reply<A> {
    let deadline = deadline(&request, default);
    Ok(Response::new(handle(request.into_inner(), deadline).await?))
}
