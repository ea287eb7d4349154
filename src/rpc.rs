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

/// Bytes of an id.
pub const ID_MAX: usize = 512;

/// An id of 1..512 bytes.
pub fn id(field: impl Into<String>, value: &str) -> Result<()> {
    match value.len() {
        1..=ID_MAX => Ok(()),
        0 => Err(Error::bad_field(field, "must not be empty (1..512 bytes)")),
        _ => Err(Error::bad_field(field, "must be at most 512 bytes")),
    }
}

/// 16..64 printable ASCII characters.
pub fn request_id(field: &str, value: &str) -> Result<()> {
    let printable = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if (16..=64).contains(&value.len()) && printable {
        return Ok(());
    }
    Err(Error::bad_field(field, "must be 16..64 printable ASCII characters, such as a UUID"))
}

/// The longest span that anything may be kept or counted.
pub const DAYS_400: Duration = Duration::from_secs(400 * 24 * 3600);

/// A span of whole milliseconds, from 1 ms to `most`; `None` when it is absent.
pub fn span_ms(field: &str, value: Option<prost_types::Duration>, most: Duration) -> Result<Option<u64>> {
    whole(field, value, most, 1_000_000, "milliseconds")
}

/// A span of whole microseconds, from 1 µs to `most`; `None` when it is absent.
pub fn span_us(field: &str, value: Option<prost_types::Duration>, most: Duration) -> Result<Option<u64>> {
    whole(field, value, most, 1_000, "microseconds")
}

fn whole(
    field: &str,
    value: Option<prost_types::Duration>,
    most: Duration,
    unit_ns: u128,
    units: &str,
) -> Result<Option<u64>> {
    let Some(value) = value else { return Ok(None) };
    let wrong = || Error::bad_field(field, format!("must be 1 to {} {units}", most.as_nanos() / unit_ns));
    // The sign of both parts must agree, and the smaller part must be below a second: else it is no Duration at all.
    if value.seconds < 0 || !(0..1_000_000_000).contains(&value.nanos) {
        return Err(wrong());
    }
    let nanos =
        u128::from(value.seconds.unsigned_abs()) * 1_000_000_000 + u128::from(value.nanos.unsigned_abs());
    if nanos % unit_ns != 0 {
        return Err(Error::bad_field(field, format!("must be whole {units}")));
    }
    if nanos == 0 || nanos > most.as_nanos() {
        return Err(wrong());
    }
    u64::try_from(nanos / unit_ns).map(Some).map_err(|_| wrong())
}

/// A span for a reply.
pub fn duration(ms: u64) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        nanos: i32::try_from(ms % 1000 * 1_000_000).unwrap_or(0),
    }
}

/// A page size; 0 means the default.
pub fn page(value: u32, default: u32) -> Result<usize> {
    match value {
        0 => Ok(default as usize),
        1..=PAGE_MAX => Ok(value as usize),
        _ => Err(Error::bad_field("limit", "must be at most 1000")),
    }
}

/// Whether it is no span at all: a second or more in nanos, or parts of different signs.
pub fn is_no_span(value: &prost_types::Duration) -> bool {
    value.nanos.unsigned_abs() >= 1_000_000_000
        || (value.seconds > 0 && value.nanos < 0)
        || (value.seconds < 0 && value.nanos > 0)
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
    if is_no_span(&value) || value.seconds < 0 || value.nanos < 0 || span < least || span > most {
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

/// What the end of a stream of requests tells its client: why a message of it could not be read, `too_large` if it was that.
/// `None`: the client is gone.
pub fn unreadable(status: &Status, too_large: (&str, &str)) -> Option<Error> {
    match status.code() {
        Code::OutOfRange => Some(Error::too_large(too_large.0, too_large.1)),
        // Of gRPC's own codes tonic gives these where bytes do not decode; a connection that broke has others.
        Code::Internal | Code::Unimplemented | Code::InvalidArgument => Some(Error::new(
            Reason::Protocol,
            "a message could not be decoded: it is not of this API, or a string in it is not UTF-8",
        )),
        _ => None,
    }
}

/// The deadline of a call that waits for nothing but Valkey, asked for inside a stream: 0 means the default.
pub fn stream_deadline(timeout_ms: u32) -> Result<Instant> {
    let asked = Duration::from_millis(u64::from(timeout_ms));
    if asked > TIMEOUT_MOST {
        return Err(Error::bad_field("timeout_ms", "must be at most 120000"));
    }
    Ok(Instant::now() + if timeout_ms == 0 { UNARY } else { asked })
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
