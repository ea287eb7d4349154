//! Every metric there is: its kind, its labels and what it says. The help at `/metrics` and the table in the documentation come from
//! here, and the dashboard and the alerts are checked against it.

use std::fmt::Write as _;

/// What kind of number it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How many were how long: `_bucket`, `_sum`, `_count`.
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static str,
    /// One sentence.
    pub help: &'static str,
}

const fn counter(name: &'static str, labels: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help }
}

const fn histogram(name: &'static str, labels: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, labels, help }
}

/// All of them.
pub const METRICS: &[Metric] = &[
    gauge("pannier_build_info", "version", "Always 1; the label says which version runs."),
    gauge("pannier_ready", "", "1 while /readyz says yes."),
    gauge(
        "pannier_valkey_up",
        "",
        "1 while calls reach Valkey, or would wake it; without the delay that /readyz has.",
    ),
    gauge(
        "pannier_valkey_asleep",
        "",
        "1 while nobody uses Valkey and its connections were let go (--idle-disconnect).",
    ),
    histogram(
        "pannier_rpc_duration_seconds",
        "method, code",
        "Unary calls, and those in a pipe, from their arrival to the end of the answer.",
    ),
    gauge("pannier_rpc_in_flight", "", "Calls that are not over: unary ones, streams, and those in a pipe."),
    gauge("pannier_streams_open", "method", "Streams that are open."),
    counter("pannier_streams_total", "method, code", "Streams that have ended, by how."),
    counter(
        "pannier_errors_total",
        "reason",
        "Errors told to clients, also inside streams. TOO_LARGE: values over size. TOO_MANY_IN_FLIGHT, QUOTA: shed.",
    ),
    counter("pannier_denied_calls_total", "reason", "Calls refused for who makes them."),
    counter("pannier_panics_total", "", "Faults in Pannier that were caught. It should stay 0."),
    histogram(
        "pannier_valkey_duration_seconds",
        "lane",
        "Writes to Valkey until their last reply, each with up to hundreds of commands.",
    ),
    counter("pannier_valkey_reconnects_total", "reason", "Connections to Valkey that were lost, by why."),
    gauge(
        "pannier_preflight_level",
        "check",
        "What the last look at Valkey found: 0 as it should be, 1 unknown, 2 a risk, 3 must not be used so.",
    ),
    gauge("pannier_leases_held", "", "Sessions that are held over a stream of this sidecar."),
    histogram(
        "pannier_session_request_duration_seconds",
        "request",
        "Requests on session streams, from their arrival to the answer.",
    ),
    counter("pannier_session_commits_total", "outcome", "Commits on session streams."),
    counter(
        "pannier_session_pre_key_id_fell_total",
        "",
        "A bot wrote a lower pre-key id: was old state put back?",
    ),
    counter(
        "pannier_fenced_writes_total",
        "kind",
        "Writes of an owner that is not the owner any more. Nothing was written.",
    ),
    counter("pannier_decrypt_failures_total", "class", "What could not be opened."),
    gauge(
        "pannier_certificate_ends_seconds",
        "",
        "When the file of --tls-cert ends, since 1970; 0 without one.",
    ),
    gauge("pannier_primary_key_id", "", "The key that wraps new root keys."),
    gauge("pannier_owners", "key_id", "Owners whose root key is wrapped by this key, as last counted."),
    counter("pannier_claims_total", "outcome", "Claims decided."),
    counter(
        "pannier_cap_consumes_total",
        "outcome",
        "Sends asked for; `denied` and `never` may not be sent.",
    ),
    counter(
        "pannier_cap_failed_open_total",
        "",
        "Sends allowed because Valkey was away and their policies fail open.",
    ),
    counter("pannier_job_cap_denied_total", "", "Jobs put off because a cap has no room."),
    gauge("pannier_queues", "", "Queues known to this sidecar."),
    gauge(
        "pannier_jobs",
        "state",
        "Jobs of all queues together. Every sidecar on a database counts the same ones: do not add them up.",
    ),
    histogram("pannier_job_lateness_seconds", "", "From when a job was due to when a worker got it."),
    counter("pannier_job_leases_total", "attempt", "Jobs handed to workers, by which attempt it is."),
    counter("pannier_job_settles_total", "verdict", "What workers said of their jobs."),
    counter("pannier_jobs_mended_total", "", "Jobs found outside of their queue's lists and put back."),
    counter("process_cpu_seconds_total", "", "User and system time, whole seconds."),
    gauge("process_resident_memory_bytes", "", "Memory in RAM."),
    gauge("process_open_fds", "", "File descriptors in use."),
    gauge("process_max_fds", "", "How many there may be."),
    gauge("process_threads", "", "Threads."),
    gauge("process_start_time_seconds", "", "When the process began, since 1970."),
];

/// Gives every metric its help, and makes those without labels known.
pub fn describe() {
    for metric in METRICS {
        let bare = metric.labels.is_empty();
        match metric.kind {
            Kind::Counter => {
                metrics::describe_counter!(metric.name, metric.help);
                if bare {
                    metrics::counter!(metric.name).increment(0);
                }
            }
            Kind::Gauge => {
                metrics::describe_gauge!(metric.name, metric.help);
                if bare {
                    metrics::gauge!(metric.name).set(0.0);
                }
            }
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
    }
}

/// The table of the documentation.
pub fn table() -> String {
    let mut out = String::from("| metric | labels | what it says |\n| --- | --- | --- |\n");
    for metric in METRICS {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "| `{}` ({kind}) | {} | {} |", metric.name, metric.labels, metric.help);
    }
    out
}
