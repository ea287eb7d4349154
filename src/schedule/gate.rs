//! What must allow a job before it is leased: the caps of its namespace. Kept behind a trait, so that a queue knows nothing of
//! how caps are counted.

use std::{pin::Pin, time::Duration};

use tokio::time::Instant;

use crate::{error::Result, proto::v1::CapGate};

/// What a cap says of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Counted, or counted before for the same attempt.
    Allowed,
    /// Waiting this long succeeds, if nobody else takes it.
    Denied {
        /// Which policy, and whose count: equal ones are denied together.
        subject: String,
        /// How long.
        retry_after: Duration,
    },
    /// It asks for more than the policy ever gives.
    Never,
    /// There is no policy of this name.
    Unknown,
}

/// A future that the trait gives.
pub type Deciding<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// The caps of all namespaces.
pub trait Gate: Send + Sync {
    /// Counts one attempt, once for each `send_id`.
    fn consume<'a>(
        &'a self,
        namespace: &'a str,
        gate: &'a CapGate,
        send_id: &'a [u8],
        deadline: Instant,
    ) -> Deciding<'a, Verdict>;

    /// Gives back what `send_id` took: its attempt will never be.
    fn refund<'a>(
        &'a self,
        namespace: &'a str,
        gate: &'a CapGate,
        send_id: &'a [u8],
        deadline: Instant,
    ) -> Deciding<'a, ()>;

    /// When the k-th further unit is free, for k = 1..=count.
    fn frees<'a>(
        &'a self,
        namespace: &'a str,
        gate: &'a CapGate,
        from: usize,
        count: usize,
        deadline: Instant,
    ) -> Deciding<'a, Vec<Duration>>;
}

/// Knows no policy.
pub struct NoCaps;

impl Gate for NoCaps {
    fn consume<'a>(&'a self, _: &'a str, _: &'a CapGate, _: &'a [u8], _: Instant) -> Deciding<'a, Verdict> {
        Box::pin(async { Ok(Verdict::Unknown) })
    }

    fn refund<'a>(&'a self, _: &'a str, _: &'a CapGate, _: &'a [u8], _: Instant) -> Deciding<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn frees<'a>(
        &'a self,
        _: &'a str,
        _: &'a CapGate,
        _: usize,
        _: usize,
        _: Instant,
    ) -> Deciding<'a, Vec<Duration>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
