//! DedupService.

use pannier::proto::v1::{self, dedup_service_client::DedupServiceClient as Dedup};

use super::Probe;
use crate::{
    setup::Facts,
    state::Kind,
    support::small::{ms, rid},
};

pub fn probes(ns: &str, facts: &Facts) -> Vec<Probe> {
    let mut all = Vec::new();
    let ns = || ns.to_owned();
    let item = |key: &str| v1::ClaimItem { key: key.into(), ..Default::default() };
    probe!(
        all,
        Dedup,
        claim,
        "Claim",
        Some(Kind::Claim),
        v1::ClaimRequest { namespace: ns(), request_id: rid(), key: "Claim".into(), ..Default::default() }
    );
    probe!(
        all,
        Dedup,
        claim_batch,
        "ClaimBatch",
        Some(Kind::Claim),
        v1::ClaimBatchRequest {
            namespace: ns(),
            request_id: rid(),
            items: vec![item("ClaimBatch"), item("ClaimBatch 2")],
            ..Default::default()
        }
    );
    probe!(
        all,
        Dedup,
        complete_claim,
        "CompleteClaim",
        Some(Kind::Claim),
        v1::CompleteClaimRequest {
            namespace: ns(),
            request_id: rid(),
            key: "CompleteClaim".into(),
            fence: facts.fence("CompleteClaim"),
            ..Default::default()
        }
    );
    probe!(
        all,
        Dedup,
        extend_claim,
        "ExtendClaim",
        Some(Kind::Claim),
        v1::ExtendClaimRequest {
            namespace: ns(),
            request_id: rid(),
            key: "ExtendClaim".into(),
            fence: facts.fence("ExtendClaim"),
            in_progress_ttl: ms(600_000)
        }
    );
    probe!(
        all,
        Dedup,
        release_claim,
        "ReleaseClaim",
        Some(Kind::Claim),
        v1::ReleaseClaimRequest {
            namespace: ns(),
            request_id: rid(),
            key: "ReleaseClaim".into(),
            fence: facts.fence("ReleaseClaim")
        }
    );
    all
}
