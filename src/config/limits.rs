//! What may be in progress at once. Beyond, a call is refused at once: what waits in a queue takes memory and helps nobody.

use super::values;

/// Bounds of the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Unary calls.
    pub in_flight: usize,
    /// Streams.
    pub streams: usize,
    /// Unary calls on one session.
    pub session_in_flight: usize,
    /// Bytes that requests and replies take.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { in_flight: 4096, streams: 16_384, session_in_flight: 512, memory: 256 << 20 }
    }
}

pub(super) fn calls(text: &str) -> Result<usize, String> {
    let calls = text.parse::<usize>().map_err(|_| "a whole number".to_owned())?;
    (1..=1_000_000).contains(&calls).then_some(calls).ok_or_else(|| "1 to 1000000".to_owned())
}

pub(super) fn memory(text: &str) -> Result<u64, String> {
    // The largest message counts 16 MiB: less could hardly take it.
    Some(values::size(text)?)
        .filter(|bytes| *bytes >= 32 << 20)
        .ok_or_else(|| "at least 32MiB, twice what the largest message takes".to_owned())
}
