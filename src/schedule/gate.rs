//! What must allow a job before it is leased: the caps of its namespace. Kept behind a trait, so that a queue knows nothing of
//! how caps are counted.

use std::{pin::Pin, time::Duration};

use tokio::time::Instant;

use crate::{error::Result, proto::v1::CapGate};

/// Whose sends a policy counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// All of the namespace.
    Namespace,
    /// Those of one sender.
    Sender,
    /// Those to one recipient.
    Recipient,
    /// Those of one sender to one recipient.
    Pair,
}

/// What a cap says of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Counted, or counted before for the same attempt, or let through without Valkey (fail_open).
    Allowed,
    /// Waiting this long succeeds, if nobody else takes it.
    Denied {
        /// Which of the gate's policies.
        policy: String,
        /// What it counts together: other jobs of the same are denied too.
        counts: Counts,
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
        send_id: &'a str,
        deadline: Instant,
    ) -> Deciding<'a, Verdict>;

    /// Gives back what `send_id` took: its attempt will never be.
    fn refund<'a>(&'a self, namespace: &'a str, send_id: &'a str, deadline: Instant) -> Deciding<'a, ()>;

    /// How long until the `unit`-th further send of a policy could go; `None`: it cannot say.
    fn unit_after<'a>(
        &'a self,
        namespace: &'a str,
        gate: &'a CapGate,
        policy: &'a str,
        unit: u32,
        deadline: Instant,
    ) -> Deciding<'a, Option<Duration>>;
}
