//! Traces as a collector gets them: a span a call, the caller's trace continued, nothing personal, and nobody held up.

#![cfg(feature = "otlp")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value::Value,
    trace::v1::Span,
};
use pannier::proto::v1;
use prost::Message as _;
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    small::{claim, rid},
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// Keeps all it is sent.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    async fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self::default();
        let service = TraceServiceServer::new(collector.clone());
        let serving = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, endpoint)
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.0.lock().unwrap();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let value = span.attributes.iter().find(|attribute| attribute.key == name)?.value.clone()?.value?;
    Some(match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        other => panic!("{name} is {other:?}"),
    })
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

#[tokio::test]
async fn each_call_is_a_span_that_continues_its_callers_trace_and_names_nobody() {
    let (collector, endpoint) = Collector::start().await;
    let valkey = Valkey::start(ValkeyOptions::default());
    let mut sidecar = Sidecar::start(Options::with(&valkey).arg("--otlp-endpoint").arg(endpoint)).await;
    let canary = "15557770042";
    let traced = |flags: &str| {
        let mut request = Request::new(v1::ClaimRequest { namespace: canary.into(), ..claim(canary) });
        let metadata = request.metadata_mut();
        metadata.insert("traceparent", format!("00-{TRACE}-{PARENT}-{flags}").parse().unwrap());
        metadata.insert("tracestate", format!("bot={canary}").parse().unwrap());
        metadata.insert("baggage", format!("user={canary}").parse().unwrap());
        request
    };
    sidecar.dedup().claim(traced("01")).await.unwrap();
    // The caller does not sample: neither do we.
    sidecar.dedup().claim(traced("00")).await.unwrap();
    sidecar.dedup().claim(v1::ClaimRequest { request_id: rid(), ..Default::default() }).await.unwrap_err();
    assert!(sidecar.stop().await.success(), "what is left is sent at the end");
    let spans = collector.spans();
    let claims: Vec<&Span> =
        spans.iter().filter(|span| span.name == "pannier.v1.DedupService/Claim").collect();
    assert_eq!(claims.len(), 2, "{spans:#?}");
    let (with_parent, alone): (Vec<&Span>, Vec<&Span>) =
        claims.into_iter().partition(|span| !span.parent_span_id.is_empty());
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    assert_eq!(
        (hex(&with_parent[0].trace_id), hex(&with_parent[0].parent_span_id)),
        (TRACE.into(), PARENT.into())
    );
    let told = |span: &Span, name: &str| attribute(span, name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(told(with_parent[0], "rpc.system"), "grpc");
    assert_eq!(told(with_parent[0], "rpc.service"), "pannier.v1.DedupService");
    assert_eq!(told(with_parent[0], "rpc.method"), "Claim");
    assert_eq!(told(with_parent[0], "rpc.grpc.status_code"), "0");
    let waited: f64 = told(with_parent[0], "pannier.valkey_seconds").parse().unwrap();
    let span = with_parent[0];
    let took = Duration::from_nanos(span.end_time_unix_nano - span.start_time_unix_nano).as_secs_f64();
    assert!(waited > 0.0 && waited <= took, "{waited} s of {took} s");
    assert_eq!(told(alone[0], "rpc.grpc.status_code"), "3");
    for span in &spans {
        assert!(span.attributes.len() == 5 && span.trace_state.is_empty(), "{span:?}");
        assert!(span.events.is_empty() && span.links.is_empty(), "{span:?}");
    }
    for request in collector.0.lock().unwrap().iter() {
        let bytes = request.encode_to_vec();
        assert!(!bytes.windows(canary.len()).any(|window| window == canary.as_bytes()), "{request:?}");
        let names: Vec<&str> = request.resource_spans[0]
            .resource
            .as_ref()
            .unwrap()
            .attributes
            .iter()
            .map(|one| one.key.as_str())
            .collect();
        assert_eq!(names.len(), 3, "{names:?}");
    }
}

#[tokio::test]
async fn a_collector_that_is_away_or_silent_holds_up_neither_a_call_nor_the_end() {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendonly", "no"));
    // It accepts and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    for endpoint in [endpoint, "http://127.0.0.1:1".to_owned()] {
        let options = Options { dir: None, ..Options::with(&valkey) }.arg("--otlp-endpoint").arg(&endpoint);
        let _: () = valkey.command(&["FLUSHALL"]);
        let mut sidecar = Sidecar::start(options).await;
        let begin = Instant::now();
        for n in 0..3000 {
            sidecar.dedup().claim(claim(&format!("{endpoint} {n}"))).await.unwrap();
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
        let stopping = Instant::now();
        assert!(sidecar.stop().await.success());
        assert!(stopping.elapsed() < Duration::from_secs(5), "{:?}", stopping.elapsed());
    }
}

#[tokio::test]
async fn without_the_flag_nothing_is_sent_and_a_wrong_one_is_refused() {
    let refused = |endpoint: &str| {
        let output = support::pannier(&["serve", "--check-config", "--otlp-endpoint", endpoint]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for endpoint in ["127.0.0.1:4317", "grpc://host:4317", "http://u:s3cret@host:4317"] {
        let (code, text) = refused(endpoint);
        assert!(code == Some(78) && text.contains("--otlp-endpoint") && !text.contains("s3cret"), "{text}");
    }
    let output = support::pannier(&["serve", "--check-config", "--otlp-ratio", "0.5"]);
    assert_eq!(output.status.code(), Some(78), "a ratio of nothing");
}
