//! The door of dedup: proto in, proto out.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::time::Instant;
use tonic::Request;

use super::store::{ClaimKey, Claimed, Store, Terms};
use crate::{
    error::{Error, Result},
    owner::namespace::Namespaces,
    proto::v1::{
        self,
        claim_response::Outcome,
        dedup_service_server::{DedupService, DedupServiceServer},
    },
    rpc::{
        DAYS_400, MESSAGE_MAX, Reply, UNARY, answer, duration, id, namespace, request_id, span_ms, timestamp,
    },
    telemetry,
    valkey::Funnel,
};

/// Claims of one batch.
const BATCH_MAX: usize = 100;
/// Bytes of a batch's request id: `#99` goes behind it.
const BATCH_ID_MAX: usize = 60;
const FINGERPRINT_MAX: usize = 512;
const RESULT_MAX: usize = 4 * 1024;
const IN_PROGRESS_DEFAULT_MS: u64 = 30_000;
const IN_PROGRESS_MOST: Duration = Duration::from_secs(24 * 3600);
/// The Cloud API redelivers a webhook for up to 7 days.
const RETENTION_DEFAULT_MS: u64 = 8 * 24 * 3600 * 1000;

/// The gRPC service.
pub fn service(handler: Handler) -> DedupServiceServer<Handler> {
    DedupServiceServer::new(handler)
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX)
}

/// Handles dedup calls, whichever way they come in. Clones are the same.
#[derive(Clone)]
pub struct Handler {
    store: Arc<Store>,
}

impl Handler {
    /// Over the funnel's link.
    pub fn new(namespaces: Arc<Namespaces>, funnel: Funnel) -> Self {
        Self { store: Arc::new(Store { namespaces, funnel }) }
    }

    fn key(&self, namespace_: String, key: String) -> Result<ClaimKey> {
        id("key", &key)?;
        Ok(self.store.name(namespace(namespace_)?, key))
    }

    /// See the proto.
    pub async fn claim(&self, request: v1::ClaimRequest, deadline: Instant) -> Result<v1::ClaimResponse> {
        request_id("request_id", &request.request_id)?;
        fingerprint("fingerprint", &request.fingerprint)?;
        let key = self.key(request.namespace, request.key)?;
        let terms = Terms {
            request_id: &request.request_id,
            fingerprint: &request.fingerprint,
            in_progress_ms: in_progress(request.in_progress_ttl)?,
            retention_ms: retention(request.retention)?.unwrap_or(RETENTION_DEFAULT_MS),
            complete: request.complete,
        };
        self.store.claim(&key, &terms, deadline).await.map(claimed)
    }

    /// See the proto.
    pub async fn claim_batch(
        &self,
        request: v1::ClaimBatchRequest,
        deadline: Instant,
    ) -> Result<v1::ClaimBatchResponse> {
        request_id("request_id", &request.request_id)?;
        if request.request_id.len() > BATCH_ID_MAX {
            return Err(Error::bad_field("request_id", "must be at most 60 characters for a batch"));
        }
        match request.items.len() {
            1..=BATCH_MAX => {}
            0 => return Err(Error::bad_field("items", "must not be empty (1..100)")),
            _ => return Err(Error::too_large("items", "must be at most 100")),
        }
        let (in_progress_ms, retention_ms) = (
            in_progress(request.in_progress_ttl)?,
            retention(request.retention)?.unwrap_or(RETENTION_DEFAULT_MS),
        );
        let namespace = namespace(request.namespace)?;
        let mut claims = Vec::with_capacity(request.items.len());
        for (n, item) in request.items.into_iter().enumerate() {
            id(format!("items[{n}].key"), &item.key)?;
            fingerprint(format!("items[{n}].fingerprint"), &item.fingerprint)?;
            let key = self.store.name(namespace.clone(), item.key);
            claims.push((key, item.fingerprint, format!("{}#{n}", request.request_id)));
        }
        // First polled in their order, so that is how they go into the funnel.
        let answers = join_all(claims.iter().map(async |(key, fingerprint, request_id)| {
            let complete = request.complete;
            let terms = Terms { request_id, fingerprint, in_progress_ms, retention_ms, complete };
            self.store.claim(key, &terms, deadline).await.map(claimed)
        }));
        let items = answers.await.into_iter().collect::<Result<_>>()?;
        Ok(v1::ClaimBatchResponse { items })
    }

    /// See the proto.
    pub async fn complete_claim(
        &self,
        request: v1::CompleteClaimRequest,
        deadline: Instant,
    ) -> Result<v1::CompleteClaimResponse> {
        use v1::complete_claim_response::Outcome;
        request_id("request_id", &request.request_id)?;
        let of = (request.request_id.as_str(), fence(request.fence)?);
        if request.result.len() > RESULT_MAX {
            return Err(Error::too_large("result", "must be at most 4096 bytes"));
        }
        let retention_ms = retention(request.retention)?;
        let key = self.key(request.namespace, request.key)?;
        let until = self.store.complete(&key, of, &request.result, retention_ms, deadline).await?;
        let outcome = if until.is_some() { Outcome::Completed } else { Outcome::LeaseLost };
        Ok(v1::CompleteClaimResponse { outcome: outcome.into(), expires_at: until.and_then(timestamp) })
    }

    /// See the proto.
    pub async fn extend_claim(
        &self,
        request: v1::ExtendClaimRequest,
        deadline: Instant,
    ) -> Result<v1::ExtendClaimResponse> {
        use v1::extend_claim_response::Outcome;
        request_id("request_id", &request.request_id)?;
        let of = (request.request_id.as_str(), fence(request.fence)?);
        let in_progress_ms = in_progress(request.in_progress_ttl)?;
        let key = self.key(request.namespace, request.key)?;
        let until = self.store.extend(&key, of, in_progress_ms, deadline).await?;
        let outcome = if until.is_some() { Outcome::Extended } else { Outcome::LeaseLost };
        Ok(v1::ExtendClaimResponse { outcome: outcome.into(), expires_at: until.and_then(timestamp) })
    }

    /// See the proto.
    pub async fn release_claim(
        &self,
        request: v1::ReleaseClaimRequest,
        deadline: Instant,
    ) -> Result<v1::ReleaseClaimResponse> {
        use v1::release_claim_response::Outcome;
        request_id("request_id", &request.request_id)?;
        let of = (request.request_id.as_str(), fence(request.fence)?);
        let key = self.key(request.namespace, request.key)?;
        let released = self.store.release(&key, of, deadline).await?;
        let outcome = if released { Outcome::Released } else { Outcome::LeaseLost };
        Ok(v1::ReleaseClaimResponse { outcome: outcome.into() })
    }
}

fn fingerprint(field: impl Into<String>, value: &[u8]) -> Result<()> {
    if value.len() > FINGERPRINT_MAX {
        return Err(Error::bad_field(field, "must be at most 512 bytes"));
    }
    Ok(())
}

fn in_progress(value: Option<prost_types::Duration>) -> Result<u64> {
    Ok(span_ms("in_progress_ttl", value, IN_PROGRESS_MOST)?.unwrap_or(IN_PROGRESS_DEFAULT_MS))
}

fn retention(value: Option<prost_types::Duration>) -> Result<Option<u64>> {
    span_ms("retention", value, DAYS_400)
}

fn fence(value: u64) -> Result<u64> {
    if value == 0 {
        return Err(Error::bad_field("fence", "must be what Claim gave"));
    }
    Ok(value)
}

fn claimed(claimed: Claimed) -> v1::ClaimResponse {
    let mut response = v1::ClaimResponse::default();
    let outcome = match claimed {
        Claimed::New { fence, until_ms, takeover, replayed } => {
            (response.fence, response.expires_at, response.replayed) = (fence, timestamp(until_ms), replayed);
            if takeover { Outcome::Takeover } else { Outcome::New }
        }
        Claimed::InProgress { wait_ms } => {
            response.retry_after = Some(duration(wait_ms));
            Outcome::InProgress
        }
        Claimed::Duplicate { until_ms, result } => {
            (response.expires_at, response.result) = (timestamp(until_ms), result.into());
            Outcome::Duplicate
        }
        Claimed::Mismatch => Outcome::Mismatch,
    };
    telemetry::claim_decided(outcome.into());
    response.set_outcome(outcome);
    response
}

#[tonic::async_trait]
impl DedupService for Handler {
    async fn claim(&self, request: Request<v1::ClaimRequest>) -> Reply<v1::ClaimResponse> {
        answer(request, UNARY, |request, deadline| self.claim(request, deadline)).await
    }

    async fn claim_batch(&self, request: Request<v1::ClaimBatchRequest>) -> Reply<v1::ClaimBatchResponse> {
        answer(request, UNARY, |request, deadline| self.claim_batch(request, deadline)).await
    }

    async fn complete_claim(
        &self,
        request: Request<v1::CompleteClaimRequest>,
    ) -> Reply<v1::CompleteClaimResponse> {
        answer(request, UNARY, |request, deadline| self.complete_claim(request, deadline)).await
    }

    async fn extend_claim(&self, request: Request<v1::ExtendClaimRequest>) -> Reply<v1::ExtendClaimResponse> {
        answer(request, UNARY, |request, deadline| self.extend_claim(request, deadline)).await
    }

    async fn release_claim(
        &self,
        request: Request<v1::ReleaseClaimRequest>,
    ) -> Reply<v1::ReleaseClaimResponse> {
        answer(request, UNARY, |request, deadline| self.release_claim(request, deadline)).await
    }
}
