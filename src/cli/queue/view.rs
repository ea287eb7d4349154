//! Queues and jobs as JSON and as rows. Instants are RFC 3339 in UTC, payloads text where they are text.

use serde::Serialize;

use crate::{
    cli::output::{hex, instant, or_dash, shown},
    proto::v1,
};

pub const QUEUE_HEADER: [&str; 10] =
    ["queue", "ready", "scheduled", "waiting", "leased", "done", "dead", "crons", "late", "paused"];
pub const JOB_HEADER: [&str; 6] = ["id", "state", "due", "attempts", "priority", "group"];

/// A queue.
#[allow(clippy::struct_field_names)] // the names on the wire
#[derive(Serialize)]
pub struct Queue {
    pub queue: String,
    ready: u64,
    scheduled: u64,
    waiting: u64,
    leased: u64,
    done: u64,
    dead: u64,
    crons: u64,
    groups: u64,
    paused: bool,
    paused_until: Option<String>,
    lateness_ms: i64,
    next_due_at: Option<String>,
    total_created: u64,
    total_done: u64,
    total_dead: u64,
    total_retried: u64,
    total_leases_lost: u64,
    limiter_max: Option<u32>,
    limiter_ms: Option<i64>,
    concurrency: u32,
}

/// Whole milliseconds; none is 0.
pub fn ms(span: Option<&prost_types::Duration>) -> i64 {
    span.map_or(0, |span| span.seconds * 1000 + i64::from(span.nanos) / 1_000_000)
}

impl From<v1::Queue> for Queue {
    fn from(queue: v1::Queue) -> Self {
        let (counts, totals) = (queue.counts.unwrap_or_default(), queue.totals.unwrap_or_default());
        let settings = queue.settings.unwrap_or_default();
        Self {
            queue: queue.queue,
            ready: counts.ready,
            scheduled: counts.scheduled,
            waiting: counts.waiting,
            leased: counts.leased,
            done: counts.done,
            dead: counts.dead,
            crons: counts.crons,
            groups: counts.groups,
            paused: queue.paused,
            paused_until: instant(queue.paused_until),
            lateness_ms: ms(queue.lateness.as_ref()),
            next_due_at: instant(queue.next_due_at),
            total_created: totals.created,
            total_done: totals.done,
            total_dead: totals.dead,
            total_retried: totals.retried,
            total_leases_lost: totals.leases_lost,
            limiter_max: settings.limiter.as_ref().map(|limiter| limiter.max),
            limiter_ms: settings.limiter.as_ref().map(|limiter| ms(limiter.duration.as_ref())),
            concurrency: settings.concurrency.unwrap_or(0),
        }
    }
}

impl Queue {
    pub fn row(&self) -> Vec<String> {
        let paused = match (self.paused, &self.paused_until) {
            (false, _) => "-".to_owned(),
            (true, None) => "yes".to_owned(),
            (true, until) => format!("until {}", or_dash(until.as_ref())),
        };
        let mut row = vec![shown(&self.queue)];
        let counts =
            [self.ready, self.scheduled, self.waiting, self.leased, self.done, self.dead, self.crons];
        row.extend(counts.iter().map(u64::to_string));
        row.push(format!("{} ms", self.lateness_ms));
        row.push(paused);
        row
    }
}

/// A job.
#[derive(Serialize)]
pub struct Job {
    queue: String,
    id: String,
    number: u64,
    state: &'static str,
    priority: u32,
    group: String,
    attempts: u32,
    max_attempts: u32,
    due_at: Option<String>,
    created_at: Option<String>,
    lease_until: Option<String>,
    finished_at: Option<String>,
    deadline: Option<String>,
    dead_reason: &'static str,
    error: String,
    cancel_requested: bool,
    payload: String,
    result: String,
    progress: String,
}

fn state(state: v1::JobState) -> &'static str {
    match state {
        v1::JobState::Scheduled => "scheduled",
        v1::JobState::Ready => "ready",
        v1::JobState::Waiting => "waiting",
        v1::JobState::Leased => "leased",
        v1::JobState::Done => "done",
        v1::JobState::Dead => "dead",
        v1::JobState::Cancelled => "cancelled",
        v1::JobState::Unspecified => "-",
    }
}

fn reason(reason: v1::DeadReason) -> &'static str {
    match reason {
        v1::DeadReason::Unspecified => "",
        v1::DeadReason::Attempts => "attempts",
        v1::DeadReason::Failed => "failed",
        v1::DeadReason::Expired => "expired",
        v1::DeadReason::CapNever => "cap never",
        v1::DeadReason::CapConfig => "cap config",
    }
}

/// Text as it is, other bytes as hex.
fn content(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| format!("0x{}", hex(bytes)))
}

impl From<v1::Job> for Job {
    fn from(job: v1::Job) -> Self {
        Self {
            state: state(job.state()),
            dead_reason: reason(job.dead_reason()),
            payload: content(&job.payload),
            result: content(&job.result),
            progress: content(&job.progress),
            queue: job.queue,
            id: job.id,
            number: job.number,
            priority: job.priority,
            group: job.group,
            attempts: job.attempts,
            max_attempts: job.max_attempts,
            due_at: instant(job.due_at),
            created_at: instant(job.created_at),
            lease_until: instant(job.lease_until),
            finished_at: instant(job.finished_at),
            deadline: instant(job.deadline),
            error: job.error,
            cancel_requested: job.cancel_requested,
        }
    }
}

impl Job {
    pub fn row(&self) -> Vec<String> {
        vec![
            shown(&self.id),
            self.state.to_owned(),
            or_dash(self.due_at.as_ref()),
            format!("{}/{}", self.attempts, self.max_attempts),
            self.priority.to_string(),
            shown(&self.group),
        ]
    }

    /// Everything, a row each; what is not there is left out.
    pub fn fields(&self) -> Vec<Vec<String>> {
        let some = |text: &Option<String>| text.clone().unwrap_or_default();
        let all = [
            ("id", shown(&self.id)),
            ("number", self.number.to_string()),
            ("state", self.state.to_owned()),
            ("priority", self.priority.to_string()),
            ("group", shown(&self.group)),
            ("attempts", format!("{} of {}", self.attempts, self.max_attempts)),
            ("due", some(&self.due_at)),
            ("created", some(&self.created_at)),
            ("lease until", some(&self.lease_until)),
            ("finished", some(&self.finished_at)),
            ("deadline", some(&self.deadline)),
            ("dead", self.dead_reason.to_owned()),
            ("error", shown(&self.error)),
            ("cancel requested", if self.cancel_requested { "yes".to_owned() } else { String::new() }),
            ("progress", shown(&self.progress)),
            ("payload", shown(&self.payload)),
            ("result", shown(&self.result)),
        ];
        all.into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| vec![name.to_owned(), value])
            .collect()
    }
}
