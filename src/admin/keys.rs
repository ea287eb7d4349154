//! The rotation of keys, in the words of the proto.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::{
    crypto::{KeyState, Keyring},
    error::{Error, Result},
    proto::v1,
    rotation::{Census, Progress, RATE_DEFAULT, RATE_MAX, Rotation, Sidecar},
    rpc::timestamp,
};

/// Words that wait for a slow client.
const AHEAD: usize = 8;

fn state(state: KeyState) -> i32 {
    match state {
        KeyState::Primary => v1::KeyState::Primary,
        KeyState::DecryptOnly => v1::KeyState::DecryptOnly,
        KeyState::Disabled => v1::KeyState::Disabled,
    }
    .into()
}

/// Each key of the keyring, and each that wraps something all the same.
pub fn status(keyring: &Keyring, census: &Census) -> v1::KeyStatusResponse {
    let known = keyring.ids();
    let ids: BTreeSet<u32> = known.iter().map(|(id, _)| *id).collect();
    let unknown = census.by_key.keys().filter(|id| !ids.contains(id)).map(|id| (*id, 0));
    let keys = known.iter().map(|(id, one)| (*id, state(*one))).chain(unknown).map(|(id, state)| {
        let wrapped = census.of(id);
        v1::KeyUse {
            id,
            state,
            owners: wrapped.all(),
            sessions: wrapped.sessions,
            archives: wrapped.archives,
            blobs: wrapped.blobs,
            namespaces: wrapped.namespaces,
        }
    });
    v1::KeyStatusResponse { keys: keys.collect(), damaged: census.damaged }
}

/// `own` is the id of the sidecar that answers.
pub fn sidecar(sidecar: Sidecar, own: &str) -> v1::SidecarInfo {
    v1::SidecarInfo {
        own: sidecar.id == own,
        id: sidecar.id,
        name: sidecar.name.unwrap_or_default(),
        version: sidecar.version,
        started_at: timestamp(sidecar.started_ms),
        seen_at: timestamp(sidecar.seen_ms),
        keys: sidecar.keys.into_iter().map(|(id, one)| v1::SidecarKey { id, state: state(one) }).collect(),
    }
}

/// Starts a rewrap, which ends when the client goes away.
pub fn rewrap(
    rotation: Arc<Rotation>,
    request: v1::RewrapRequest,
) -> Result<ReceiverStream<Result<v1::RewrapResponse, Status>>> {
    let rate = match request.owners_per_second {
        0 => RATE_DEFAULT,
        rate if rate <= RATE_MAX => rate,
        _ => return Err(Error::bad_field("owners_per_second", "must be at most 100000")),
    };
    let began = Instant::now();
    let (said, mut progress) = mpsc::channel(AHEAD);
    let (out, answers) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let telling = async {
            while let Some(progress) = progress.recv().await {
                if out.send(Ok(word(progress, began.elapsed()))).await.is_err() {
                    break;
                }
            }
            // Nobody listens: what still works on it is to see that.
            progress.close();
        };
        let working = async {
            let ended = rotation.rewrap(rate, &said).await;
            drop(said);
            ended
        };
        if let (Err(error), ()) = tokio::join!(working, telling) {
            let _ = out.send(Err(error.to_status())).await;
        }
    });
    Ok(ReceiverStream::new(answers))
}

fn word(progress: Progress, elapsed: Duration) -> v1::RewrapResponse {
    let failures = progress.failures.into_iter().map(|failure| v1::RewrapFailure {
        kind: failure.kind.to_owned(),
        namespace: failure.namespace,
        name: failure.name,
        reason: failure.error.reason().wire().0.to_owned(),
        message: failure.error.to_string(),
    });
    v1::RewrapResponse {
        key_id: progress.key_id,
        total: progress.total,
        looked_at: progress.looked_at,
        moved: progress.moved,
        skipped: progress.skipped,
        failed: progress.failed,
        failures: failures.collect(),
        done: progress.done,
        elapsed: elapsed.try_into().ok(),
    }
}
