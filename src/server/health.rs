//! grpc.health.v1, telling the truth: NOT_SERVING until Valkey is there, again when it is not, and at the end; then every
//! open Watch is told and ends, so that none holds up the exit.

use std::pin::Pin;

use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{Health, HealthServer},
};

/// Says whether calls would succeed.
#[derive(Clone, Debug)]
pub struct Readiness {
    serving: watch::Sender<bool>,
    stopping: CancellationToken,
    ended: CancellationToken,
}

impl Default for Readiness {
    fn default() -> Self {
        let (stopping, ended) = (CancellationToken::new(), CancellationToken::new());
        Self { serving: watch::Sender::new(false), stopping, ended }
    }
}

impl Readiness {
    /// Sets it; watchers hear of a change.
    pub fn set(&self, serving: bool) {
        self.serving.send_if_modified(|now| std::mem::replace(now, serving) != serving);
    }

    /// Whether calls would succeed now.
    pub fn is_serving(&self) -> bool {
        *self.serving.borrow()
    }

    /// Each change, from now on.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.serving.subscribe()
    }

    /// The end has begun: never again.
    pub fn stop(&self) {
        self.stopping.cancel();
        self.set(false);
    }

    /// Whether the end has begun.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Ends every Watch, after it was told the last state.
    pub fn end_watches(&self) {
        self.ended.cancel();
    }

    /// The health service; it knows "" and `services`.
    pub fn service(&self, services: &'static [&'static str]) -> HealthServer<impl Health + use<>> {
        HealthServer::new(HealthService { readiness: self.clone(), services })
    }
}

struct HealthService {
    readiness: Readiness,
    services: &'static [&'static str],
}

impl HealthService {
    fn knows(&self, service: &str) -> bool {
        service.is_empty() || self.services.contains(&service)
    }
}

fn answer(serving: bool) -> HealthCheckResponse {
    let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status.into() }
}

type Watching = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !self.knows(&request.get_ref().service) {
            return Err(Status::not_found("no such service here"));
        }
        Ok(Response::new(answer(self.readiness.is_serving())))
    }

    type WatchStream = Watching;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Watching>, Status> {
        let ended = self.readiness.ended.clone();
        if !self.knows(&request.get_ref().service) {
            // As the protocol has it: the service may come; ours do not, so the stream only waits for the end.
            let unknown = HealthCheckResponse { status: ServingStatus::ServiceUnknown.into() };
            let rest = stream::once(async move {
                ended.cancelled().await;
                Err(Status::unavailable("the sidecar is stopping"))
            });
            return Ok(Response::new(Box::pin(stream::iter([Ok(unknown)]).chain(rest))));
        }
        let mut states = self.readiness.serving.subscribe();
        states.mark_changed();
        let watching = stream::unfold((states, ended), |(mut states, ended)| async move {
            let serving = tokio::select! {
                biased;
                changed = states.changed() => {
                    changed.ok()?;
                    *states.borrow_and_update()
                }
                () = ended.cancelled() => return None,
            };
            Some((Ok(answer(serving)), (states, ended)))
        });
        Ok(Response::new(Box::pin(watching)))
    }
}
