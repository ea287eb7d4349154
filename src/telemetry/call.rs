//! One RPC as it is seen from outside: which, how long, how it ended. Looked up once when it begins; its end costs an atomic or two.

use std::{
    collections::HashMap,
    sync::{LazyLock, OnceLock},
    time::Instant,
};

use http::HeaderMap;
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::Code;

use super::{
    exporter::is_recording,
    traces::{self, Span},
};
use crate::proto::FILE_DESCRIPTOR_SET;

/// gRPC's codes.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// As the protocol spells it.
pub fn code_name(code: Code) -> &'static str {
    CODES.get(code as usize).copied().unwrap_or("UNKNOWN")
}

/// What is kept of one method.
pub(super) struct Method {
    /// `SessionService/GetSession`.
    pub name: String,
    /// `pannier.v1.SessionService/GetSession`: for traces.
    #[cfg_attr(not(feature = "otlp"), allow(dead_code))]
    pub path: String,
    streams: bool,
    durations: [OnceLock<Histogram>; CODES.len()],
    ended: [OnceLock<Counter>; CODES.len()],
    open: OnceLock<Gauge>,
}

impl Method {
    fn new(package: &str, service: &str, method: &str, streams: bool) -> Self {
        let name = format!("{service}/{method}");
        Self {
            path: format!("{package}{name}"),
            name,
            streams,
            durations: [const { OnceLock::new() }; CODES.len()],
            ended: [const { OnceLock::new() }; CODES.len()],
            open: OnceLock::new(),
        }
    }

    fn began(&'static self) {
        IN_FLIGHT.increment(1);
        if self.streams {
            self.open().increment(1);
        }
    }

    fn ended(&'static self, code: Code, began: Instant) {
        IN_FLIGHT.decrement(1);
        let at = (code as usize).min(CODES.len() - 1);
        if !self.streams {
            self.duration(at).record(began.elapsed());
            return;
        }
        self.open().decrement(1);
        self.ended[at]
            .get_or_init(|| counter!("pannier_streams_total", "method" => &*self.name, "code" => CODES[at]))
            .increment(1);
    }

    fn duration(&'static self, at: usize) -> &'static Histogram {
        self.durations[at].get_or_init(
            || histogram!("pannier_rpc_duration_seconds", "method" => &*self.name, "code" => CODES[at]),
        )
    }

    fn open(&'static self) -> &'static Gauge {
        self.open.get_or_init(|| gauge!("pannier_streams_open", "method" => &*self.name))
    }
}

static IN_FLIGHT: LazyLock<Gauge> = LazyLock::new(|| gauge!("pannier_rpc_in_flight"));

/// Whatever has no name of ours: a caller chooses the path, and must not make series by it.
static OTHER: LazyLock<Method> = LazyLock::new(|| Method::new("", "other", "other", false));

static METHODS: LazyLock<HashMap<String, Method>> = LazyLock::new(|| {
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap_or_default().file;
    let mut methods = HashMap::new();
    for file in files.iter().filter(|file| file.package() == "pannier.v1") {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                let streams = method.client_streaming() || method.server_streaming();
                methods.insert(path, Method::new("pannier.v1.", service.name(), method.name(), streams));
            }
        }
    }
    for (method, streams) in [("Check", false), ("Watch", true)] {
        methods.insert(
            format!("/grpc.health.v1.Health/{method}"),
            Method::new("grpc.health.v1.", "Health", method, streams),
        );
    }
    for version in ["v1", "v1alpha"] {
        let (package, method) = (format!("grpc.reflection.{version}."), "ServerReflectionInfo");
        let one = Method::new(&package, "ServerReflection", method, true);
        methods.insert(format!("/{}", one.path), one);
    }
    methods
});

/// Makes known what is known beforehand: what is not there cannot be seen to rise.
pub fn register() {
    for method in METHODS.values() {
        if method.streams {
            method.open().set(0.0);
        }
    }
    // Of those that are not streams only the one that a probe calls: each is twenty series.
    find("/grpc.health.v1.Health/Check").duration(0);
}

/// A call, until it is dropped. One that nobody says how it ended was given up by its client.
pub struct Observation {
    method: Option<&'static Method>,
    began: Instant,
    code: Code,
    span: Option<Span>,
}

impl Observation {
    /// Begins with the arrival of a call for `path`; `headers` may name the trace that it belongs to.
    pub fn begin(path: &str, headers: &HeaderMap) -> Self {
        let mut one = Self::item(path);
        if traces::are_on() {
            let method = one.method.unwrap_or_else(|| find(path));
            one.span = Span::begin(method, headers);
        }
        one
    }

    /// A call inside a stream.
    pub fn item(path: &str) -> Self {
        let method = is_recording().then(|| find(path));
        if let Some(method) = method {
            method.began();
        }
        Self { method, began: Instant::now(), code: Code::Cancelled, span: None }
    }

    /// How it ends. The last word counts.
    pub fn ends_with(&mut self, code: Code) {
        self.code = code;
    }

    /// The same, if these headers or trailers say.
    pub fn ends_as(&mut self, headers: &HeaderMap) {
        if let Some(status) = headers.get("grpc-status") {
            self.code = Code::from_bytes(status.as_bytes());
        }
    }

    /// What the call's own time at Valkey is added to, when it is traced.
    pub fn lane_time(&self) -> Option<traces::LaneTime> {
        self.span.as_ref().and_then(Span::lane_time)
    }
}

fn find(path: &str) -> &'static Method {
    METHODS.get(path).unwrap_or(&OTHER)
}

impl Drop for Observation {
    fn drop(&mut self) {
        if let Some(method) = self.method {
            method.ended(self.code, self.began);
        }
        if let Some(span) = self.span.take() {
            span.end(self.code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_a_caller_made_up_is_other() {
        assert_eq!(find("/pannier.v1.SessionService/GetSession").name, "SessionService/GetSession");
        for made_up in ["/pannier.v1.SessionService/15551234567", "/x/y", "", "/grpc.health.v1.Health/bot-1"]
        {
            assert_eq!(find(made_up).name, "other/other", "{made_up}");
        }
        assert!(METHODS.len() > 50, "{} methods: the descriptors were not read", METHODS.len());
    }

    #[test]
    fn codes_are_named_as_the_protocol_names_them() {
        assert_eq!(code_name(Code::Ok), "OK");
        assert_eq!(code_name(Code::Unauthenticated), "UNAUTHENTICATED");
        assert_eq!(code_name(Code::DataLoss), "DATA_LOSS");
    }
}
