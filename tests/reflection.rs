//! Reflection over the socket, as grpcurl (v1) and older or Python tools (v1alpha) ask for it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use support::{Options, Sidecar};
use tokio_stream::StreamExt as _;

const WANTED: [&str; 9] = [
    "grpc.health.v1.Health",
    "pannier.v1.AdminService",
    "pannier.v1.SessionService",
    "pannier.v1.BlobService",
    "pannier.v1.DedupService",
    "pannier.v1.ConversationService",
    "pannier.v1.CapService",
    "pannier.v1.PipeService",
    "grpc.reflection.v1.ServerReflection",
];

macro_rules! list_services {
    ($version:ident, $sidecar:expr) => {{
        use tonic_reflection::pb::$version::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
        };
        let ask = |message| ServerReflectionRequest { host: String::new(), message_request: Some(message) };
        let requests = tokio_stream::iter([
            ask(MessageRequest::ListServices(String::new())),
            ask(MessageRequest::FileContainingSymbol("pannier.v1.SessionService".into())),
        ]);
        let mut answers = ServerReflectionClient::new($sidecar.channel())
            .server_reflection_info(requests)
            .await
            .unwrap()
            .into_inner();
        let list = answers.next().await.unwrap().unwrap().message_response;
        let Some(MessageResponse::ListServicesResponse(list)) = list else { panic!("{list:?}") };
        let file = answers.next().await.unwrap().unwrap().message_response;
        let Some(MessageResponse::FileDescriptorResponse(file)) = file else { panic!("{file:?}") };
        assert!(!file.file_descriptor_proto.is_empty());
        list.service.into_iter().map(|service| service.name).collect::<Vec<_>>()
    }};
}

#[tokio::test]
async fn both_versions_show_every_service_and_can_be_turned_off() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let v1 = list_services!(v1, sidecar);
    let v1alpha = list_services!(v1alpha, sidecar);
    for service in &WANTED[..8] {
        assert!(v1.iter().any(|name| name == service), "v1 lacks {service}: {v1:?}");
        assert!(v1alpha.iter().any(|name| name == service), "v1alpha lacks {service}: {v1alpha:?}");
    }
    sidecar.stop().await;

    sidecar.options.args.push("--reflection=off".into());
    sidecar.restart().await;
    let mut client =
        tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient::new(sidecar.channel());
    let refused = client.server_reflection_info(tokio_stream::empty()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unimplemented);
}
