//! What can be seen of a running sidecar: its log, its metrics, and traces of its calls.
//!
//! No label, attribute or help text ever holds what a client named: methods, codes, reasons and states are all from lists of our
//! own, so that the number of series is bounded and nothing personal leaves by this door.
//!
//! Counting is free until somebody asks for it: without `--admin` nothing is recorded, and with it each place holds its own
//! handle instead of looking one up by name.

mod call;
mod catalog;
mod counted;
mod exporter;
mod family;
pub mod log;
mod process;
#[cfg(feature = "otlp")]
mod traces;
#[cfg(not(feature = "otlp"))]
#[path = "no_traces.rs"]
mod traces;

pub use self::{
    call::Observation,
    catalog::{Kind, METRICS, Metric, table},
    counted::{
        DecryptFailure, Depth, Exchanged, SessionRequest, Waited, cap_consumed, claim_decided, committed,
        could_not_open, could_not_unwrap, decrypt_failed, error, fenced, jobs_leased, owners_per_key,
        queue_depth, reconnected, session_answered, settled,
    },
    exporter::{Exporter, is_recording},
    traces::{LaneTime, Traces, TracesError, lane_time, with_lane_time},
};
