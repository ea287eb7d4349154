//! The running sidecar: nothing is bound before everything that can be checked is; health tells the truth; the end comes in
//! order and within a bound.

mod accept;
mod admin_http;
mod banner;
mod calls;
mod drain;
mod guarded;
mod health;
pub(crate) mod link;
mod listeners;
mod observed;
mod peer;
mod readiness;
pub(crate) mod socket;
mod steady;
mod tcp;
pub mod tls;
mod watchers;
mod weighed;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::service::Routes;

pub use link::{Visit, depot, depot_without_keyring, visit};

use self::{
    accept::Steps, calls::Calls, drain::Drain, health::Readiness, listeners::Listeners, watchers::Watchers,
};
use crate::{
    admin::{self, About},
    blob::{self, Blobs},
    cap,
    config::{Config, ConfigError},
    conversation, dedup,
    memory::Memory,
    owner::namespace::Namespaces,
    pipe::{self, Handlers, Pipes},
    proto::{
        FILE_DESCRIPTOR_SET,
        v1::{
            admin_service_server, blob_service_server, cap_service_server, conversation_service_server,
            dedup_service_server, pipe_service_server, schedule_service_server, session_service_server,
        },
    },
    rotation::Rotation,
    schedule::{self, Schedules},
    session::{self, Sessions},
    valkey::Funnel,
};

/// From the first signal to the exit, whatever happens.
pub const STOP_WITHIN: Duration = Duration::from_secs(25);

/// What health knows, beside "".
const SERVICES: &[&str] = &[
    session_service_server::SERVICE_NAME,
    blob_service_server::SERVICE_NAME,
    dedup_service_server::SERVICE_NAME,
    conversation_service_server::SERVICE_NAME,
    cap_service_server::SERVICE_NAME,
    pipe_service_server::SERVICE_NAME,
    schedule_service_server::SERVICE_NAME,
    admin_service_server::SERVICE_NAME,
];

/// Why the sidecar ended, other than by being asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code (sysexits).
    pub code: u8,
    /// What to do.
    pub message: String,
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self { code: 78, message: error.0 }
    }
}

/// Runs until `stop`, then ends in order within [`STOP_WITHIN`].
///
/// # Errors
/// Configuration, keys or the database need a person.
pub async fn run(config: Config, stop: CancellationToken) -> Result<(), Failure> {
    let started = Instant::now();
    if let Err(error) = accept::raise_descriptor_limit() {
        tracing::debug!(%error, "the limit of file descriptors stays as it is");
    }
    let watchers = Watchers::prepare(&config).await?;
    socket::prepare_directory(&config.socket)?;
    let prepared = link::prepare(&config).await?;
    let listeners = Listeners::bind(&config).await?;
    let file = listeners.file();
    let link_stop = CancellationToken::new();
    let (link, keyring) = match prepared.start(&config, link_stop.clone()) {
        Ok(started) => started,
        Err(failure) => {
            file.unlink();
            return Err(failure);
        }
    };
    let sessions = Sessions::new(
        link.clone(),
        Arc::new(keyring.clone()),
        session::Bounds {
            commit_buffer: usize::try_from(config.commit_buffer).unwrap_or(usize::MAX),
            in_flight: config.limits.session_in_flight,
        },
    );

    let blobs = Blobs::new(link.clone(), Arc::new(keyring.clone()), Arc::clone(&sessions), config.blobs);

    let namespaces = Arc::new(Namespaces::new(link.clone(), Arc::new(keyring.clone())));
    let funnel = Funnel::new(link.clone());
    let dedup = dedup::Handler::new(Arc::clone(&namespaces), funnel.clone());
    let conversation = conversation::Handler::new(Arc::clone(&namespaces), funnel.clone());
    let cap = cap::Handler::new(Arc::clone(&namespaces), funnel);
    tokio::spawn(cap.clone().configure(config.cap_policies.clone()));
    let gate = Arc::new(cap.clone());
    let schedules = Schedules::new(link.clone(), Arc::new(keyring.clone()), namespaces, gate);
    let memory = Memory::new(usize::try_from(config.limits.memory).unwrap_or(usize::MAX));
    let handlers = Handlers {
        dedup: dedup.clone(),
        conversation: conversation.clone(),
        cap: cap.clone(),
        schedule: schedule::Handler::new(Arc::clone(&schedules)),
    };
    let pipes = Pipes::new(handlers, memory.clone(), link.users());

    let readiness = Readiness::default();
    let rotation = Rotation::start(link.clone(), keyring.clone(), watchers.count(), stop.clone());
    let about = About {
        link: link.clone(),
        rotation: Arc::clone(&rotation),
        sessions: sessions.clone(),
        embedded: matches!(config.valkey, crate::config::Valkey::Embedded { .. }),
        started,
    };
    let mut routes = Routes::new(readiness.service(SERVICES))
        .add_service(admin::service(about))
        .add_service(session::service(Arc::clone(&sessions)))
        .add_service(blob::service(Arc::clone(&blobs)))
        .add_service(dedup::service(dedup))
        .add_service(conversation::service(conversation))
        .add_service(cap::service(cap))
        .add_service(pipe::service(Arc::clone(&pipes)))
        .add_service(schedule::service(Arc::clone(&schedules)));
    if config.reflection {
        routes = with_reflection(routes)?;
    }
    let steps = Steps::default();
    let connections = TaskTracker::new();
    let tcp_address = listeners.tcp_address();
    let mut reloading = JoinSet::new();
    let calls = Calls::new(routes.prepare(), config.limits, memory, link.users());
    let accepting = listeners.serve(&config, calls, &steps, &connections, &mut reloading);
    let following = tokio::spawn(readiness::follow(link.state(), readiness.clone(), started));
    let watching = watchers.serve(&config, (&link, &keyring, &sessions), &readiness, &mut reloading);
    banner::print(&config, tcp_address);

    let ended = tokio::select! {
        () = stop.cancelled() => Ok(()),
        error = link.start_error() => Err(Failure { code: error.exit_code(), message: error.to_string() }),
    };
    // A start that failed has nothing to wait for.
    let delay = if ended.is_ok() { config.drain_delay } else { Duration::ZERO };
    following.abort();
    reloading.abort_all();
    let drain = Drain {
        readiness,
        steps,
        connections,
        accepting,
        sessions,
        blobs,
        pipes,
        schedules,
        rotation,
        link,
        link_stop,
        file,
    };
    drain.run(delay).await;
    watching.end().await;
    ended
}

fn with_reflection(routes: Routes) -> Result<Routes, Failure> {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let broken = |error: tonic_reflection::server::Error| Failure { code: 70, message: error.to_string() };
    // Python's and older tools know v1alpha only.
    let (v1, v1alpha) = (builder().build_v1().map_err(broken)?, builder().build_v1alpha().map_err(broken)?);
    Ok(routes.add_service(v1).add_service(v1alpha))
}
