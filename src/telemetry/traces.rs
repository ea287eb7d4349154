//! A span for each RPC, sent to a collector over OTLP. It says method, code and the time spent at Valkey, and continues the trace
//! that the caller names in `traceparent`.
//!
//! Made here and not out of log events, so that nothing can come into a span that is not named in this file.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::HeaderMap;
use opentelemetry::{
    Context, KeyValue,
    propagation::{Extractor, TextMapPropagator as _},
    trace::{Span as _, SpanKind, Status, Tracer as _, TracerProvider as _},
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{Sampler, SdkTracer, SdkTracerProvider, Span as SdkSpan},
};
use tonic::Code;

use super::call::{Method, code_name};

/// What the collector may take for one batch.
const EXPORT_WITHIN: Duration = Duration::from_secs(5);
/// What the last batch may take at the end.
const LAST_WITHIN: Duration = Duration::from_millis(1500);

static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Whether calls are traced.
pub(super) fn are_on() -> bool {
    TRACER.get().is_some()
}

/// Why there are no traces.
#[derive(Debug)]
pub struct TracesError(String);

impl fmt::Display for TracesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Sends spans until it is ended.
pub struct Traces(SdkTracerProvider);

impl Traces {
    /// Whether this build can.
    pub const AVAILABLE: bool = true;

    /// Begins. It connects when there is something to send, again and again; a collector that is away loses spans and holds up
    /// nobody. Must be called inside the runtime.
    ///
    /// # Errors
    /// The endpoint is no URL.
    pub fn start(endpoint: &str, ratio: f64, env: &str) -> Result<Self, TracesError> {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .with_timeout(EXPORT_WITHIN)
            .build()
            .map_err(|error| TracesError(error.to_string()))?;
        let resource = Resource::builder_empty().with_attributes([
            KeyValue::new("service.name", "pannier"),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("deployment.environment.name", env.to_owned()),
        ]);
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))))
            .with_resource(resource.build())
            .with_batch_exporter(exporter)
            .build();
        let _ = TRACER.set(provider.tracer("pannier"));
        Ok(Self(provider))
    }

    /// Sends what is left.
    pub async fn end(self) {
        let last = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(LAST_WITHIN));
        if !matches!(tokio::time::timeout(LAST_WITHIN, last).await, Ok(Ok(Ok(())))) {
            tracing::warn!("the last traces could not be sent");
        }
    }
}

/// Nanoseconds that one call has waited for Valkey.
pub type LaneTime = Arc<AtomicU64>;

/// One call's span.
pub(super) struct Span {
    span: SdkSpan,
    lane: LaneTime,
}

impl Span {
    /// None when this call is not one of those that are traced.
    pub fn begin(method: &Method, headers: &HeaderMap) -> Option<Self> {
        let tracer = TRACER.get()?;
        // Only the caller's ids and whether it samples: `tracestate` may hold anything.
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &Parent(headers));
        let builder = tracer.span_builder(method.path.clone()).with_kind(SpanKind::Server);
        let mut span = builder.start_with_context(tracer, &parent);
        if !span.is_recording() {
            return None;
        }
        span.set_attribute(KeyValue::new("rpc.system", "grpc"));
        let (service, name) = method.path.split_once('/').unwrap_or(("other", "other"));
        span.set_attribute(KeyValue::new("rpc.service", service.to_owned()));
        span.set_attribute(KeyValue::new("rpc.method", name.to_owned()));
        Some(Self { span, lane: LaneTime::default() })
    }

    #[allow(clippy::unnecessary_wraps)] // as the build without traces has it
    pub fn lane_time(&self) -> Option<LaneTime> {
        Some(Arc::clone(&self.lane))
    }

    pub fn end(mut self, code: Code) {
        self.span.set_attribute(KeyValue::new("rpc.grpc.status_code", code as i64));
        let waited = Duration::from_nanos(self.lane.load(Ordering::Relaxed));
        self.span.set_attribute(KeyValue::new("pannier.valkey_seconds", waited.as_secs_f64()));
        // What the caller did wrong is not an error of the server.
        if matches!(
            code,
            Code::Unknown
                | Code::DeadlineExceeded
                | Code::Unimplemented
                | Code::Internal
                | Code::Unavailable
                | Code::DataLoss
        ) {
            self.span.set_status(Status::error(code_name(code)));
        }
        self.span.end();
    }
}

struct Parent<'a>(&'a HeaderMap);

impl Extractor for Parent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == "traceparent").then(|| self.0.get(key)?.to_str().ok()).flatten()
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent"]
    }
}

tokio::task_local! {
    static LANE_TIME: LaneTime;
}

/// Runs a call so that what it waits for Valkey is added up.
pub async fn with_lane_time<T>(time: Option<LaneTime>, call: impl Future<Output = T>) -> T {
    match time {
        Some(time) => LANE_TIME.scope(time, call).await,
        None => call.await,
    }
}

/// Adds to what the present call has waited for Valkey.
pub fn lane_time(waited: Duration) {
    if are_on() {
        let nanos = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        let _ = LANE_TIME.try_with(|time| time.fetch_add(nanos, Ordering::Relaxed));
    }
}
