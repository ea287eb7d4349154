//! A build without traces: asked for, they are refused.

use std::{fmt, time::Duration};

use http::HeaderMap;
use tonic::Code;

use super::call::Method;

pub(super) fn are_on() -> bool {
    false
}

/// Why there are no traces.
#[derive(Debug)]
pub struct TracesError;

impl fmt::Display for TracesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this build has no traces: build it with the feature `otlp`")
    }
}

/// Sends nothing.
pub struct Traces;

impl Traces {
    /// Whether this build can.
    pub const AVAILABLE: bool = false;

    /// Cannot begin.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: &str, _: f64, _: &str) -> Result<Self, TracesError> {
        Err(TracesError)
    }

    /// Nothing is left.
    #[allow(clippy::unused_async)] // as the other build has it
    pub async fn end(self) {}
}

/// Stands for the time that is not added up.
#[derive(Clone, Copy)]
pub enum LaneTime {}

pub(super) enum Span {}

impl Span {
    pub fn begin(_: &Method, _: &HeaderMap) -> Option<Self> {
        None
    }

    pub fn lane_time(&self) -> Option<LaneTime> {
        match *self {}
    }

    pub fn end(self, _: Code) {
        match self {}
    }
}

/// Runs a call.
pub async fn with_lane_time<T>(_: Option<LaneTime>, call: impl Future<Output = T>) -> T {
    call.await
}

/// Adds nothing.
pub fn lane_time(_: Duration) {}
