//! AdminService. Who may call it is judged by the server, before a call comes here.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::keys;
use crate::{
    cap,
    proto::v1::{
        DoctorRequest, DoctorResponse, Durability, KeyStatusRequest, KeyStatusResponse, ListSidecarsRequest,
        ListSidecarsResponse, RewrapRequest, RewrapResponse, ServerInfoRequest, ServerInfoResponse,
        admin_service_server::{AdminService, AdminServiceServer},
    },
    rotation::{Rotation, sidecars},
    rpc::{Reply, UNARY, answer},
    session::Sessions,
    valkey::{DurabilityLevel, Link, LinkState},
};

/// What a database that sleeps may take to wake before it is told of without.
const WAKE: Duration = Duration::from_secs(10);

/// What there is to tell about.
pub struct About {
    /// Valkey.
    pub link: Link,
    /// Keys, and who has them.
    pub rotation: Arc<Rotation>,
    /// Streams.
    pub sessions: Arc<Sessions>,
    /// Valkey is our child.
    pub embedded: bool,
    /// When this process began.
    pub started: Instant,
}

/// The service.
pub fn service(about: About) -> AdminServiceServer<impl AdminService> {
    AdminServiceServer::new(Handler(about))
}

struct Handler(About);

#[tonic::async_trait]
impl AdminService for Handler {
    async fn doctor(&self, _: Request<DoctorRequest>) -> Result<Response<DoctorResponse>, Status> {
        // This call wakes a Valkey that nobody used: what is told is to be of now.
        let mut state = self.0.link.state();
        let _ = timeout(WAKE, state.wait_for(|state| *state != LinkState::Asleep)).await;
        Ok(Response::new(super::doctor::examine(&self.0)))
    }

    async fn server_info(
        &self,
        _: Request<ServerInfoRequest>,
    ) -> Result<Response<ServerInfoResponse>, Status> {
        let about = &self.0;
        let facts = about.link.facts();
        let keyring = about.rotation.keyring().current();
        let topology = if about.embedded { "embedded".to_owned() } else { facts.topology };
        Ok(Response::new(ServerInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine: facts.engine,
            engine_version: facts.version,
            topology,
            env: about.link.env().to_owned(),
            durability: durability(facts.durability).into(),
            primary_key_id: keyring.primary_id(),
            key_ids: keyring.ids().into_iter().map(|(id, _)| id).collect(),
            connections: facts.connections,
            uptime: about.started.elapsed().try_into().ok(),
            attached_sessions: about.sessions.attached(),
            tzdb: cap::TZDB.unwrap_or_default().to_owned(),
            store_id: facts.store_id,
        }))
    }

    async fn key_status(&self, request: Request<KeyStatusRequest>) -> Reply<KeyStatusResponse> {
        let rotation = &self.0.rotation;
        answer(request, UNARY, async |_, deadline| {
            let census = rotation.count(deadline).await?;
            Ok(keys::status(&rotation.keyring().current(), &census))
        })
        .await
    }

    async fn list_sidecars(&self, request: Request<ListSidecarsRequest>) -> Reply<ListSidecarsResponse> {
        let Self(about) = self;
        answer(request, UNARY, async |_, deadline| {
            let keyring = about.rotation.keyring().current();
            let alive = sidecars(&about.link, &keyring, deadline).await?.into_iter();
            let sidecars = alive.map(|one| keys::sidecar(one, about.rotation.id())).collect();
            Ok(ListSidecarsResponse { sidecars })
        })
        .await
    }

    type RewrapStream = ReceiverStream<Result<RewrapResponse, Status>>;

    async fn rewrap(&self, request: Request<RewrapRequest>) -> Reply<Self::RewrapStream> {
        Ok(Response::new(keys::rewrap(Arc::clone(&self.0.rotation), request.into_inner())?))
    }
}

fn durability(level: DurabilityLevel) -> Durability {
    match level {
        DurabilityLevel::Memory => Durability::Memory,
        DurabilityLevel::Aof => Durability::Aof,
        DurabilityLevel::Fsync => Durability::Fsync,
    }
}
