//! The gate of this sidecar's own caps.

use std::time::Duration;

use tokio::time::Instant;
use tonic::Request;

use super::gate::{Counts, Deciding, Gate, Verdict};
use crate::{
    cap::Handler,
    error::{Error, Reason, Result},
    proto::v1::{self, CapGate, CapScope, cap_service_server::CapService, consume_response::Outcome},
};

/// Where the answer says nothing of when.
const A_WHILE: Duration = Duration::from_secs(60);

impl Gate for Handler {
    fn consume<'a>(
        &'a self,
        namespace: &'a str,
        gate: &'a CapGate,
        send_id: &'a str,
        deadline: Instant,
    ) -> Deciding<'a, Verdict> {
        Box::pin(async move {
            let request = v1::ConsumeRequest {
                namespace: namespace.to_owned(),
                send_id: send_id.to_owned(),
                policies: gate.policies.clone(),
                recipient: gate.recipient.clone(),
                sender: gate.sender.clone(),
                n: i32::try_from(gate.n).ok(),
                ..Default::default()
            };
            let answer = match Handler::consume(self, request, deadline).await {
                Ok(answer) => answer,
                // What it asks for cannot be asked for: trying again would not help.
                Err(error) if matches!(error.reason(), Reason::PolicyNotFound | Reason::BadField) => {
                    return Ok(Verdict::Unknown);
                }
                Err(error) => return Err(error),
            };
            match answer.outcome() {
                // A mismatch: the same attempt with another gate, counted before the job was replaced.
                Outcome::Allowed | Outcome::Replayed | Outcome::Mismatch => Ok(Verdict::Allowed),
                Outcome::Never => Ok(Verdict::Never),
                Outcome::Denied => {
                    let retry_after =
                        answer.retry_after.and_then(|wait| wait.try_into().ok()).unwrap_or(A_WHILE);
                    let counts = self.counts(namespace, &answer.denied_by).await;
                    Ok(Verdict::Denied { policy: answer.denied_by, counts, retry_after })
                }
                Outcome::Unspecified => Err(Error::new(Reason::Internal, "a cap gave no answer")),
            }
        })
    }

    fn refund<'a>(&'a self, namespace: &'a str, send_id: &'a str, deadline: Instant) -> Deciding<'a, ()> {
        Box::pin(async move {
            let request = v1::RefundRequest {
                namespace: namespace.to_owned(),
                // Always the same for one attempt.
                request_id: format!("refund of a job {}", send_id.len()),
                send_id: send_id.to_owned(),
            };
            Handler::refund(self, request, deadline).await.map(|_| ())
        })
    }

    fn unit_after<'a>(
        &'a self,
        namespace: &'a str,
        gate: &'a CapGate,
        policy: &'a str,
        unit: u32,
        deadline: Instant,
    ) -> Deciding<'a, Option<Duration>> {
        Box::pin(async move {
            let request = v1::PeekRequest {
                namespace: namespace.to_owned(),
                policies: vec![policy.to_owned()],
                recipient: gate.recipient.clone(),
                sender: gate.sender.clone(),
                n: i32::try_from(gate.n).ok(),
                unit,
            };
            let peeked: Result<v1::PeekResponse> = Handler::peek(self, request, deadline).await;
            let unit = peeked?.policies.into_iter().next().and_then(|one| one.unit_after);
            Ok(unit.and_then(|wait| wait.try_into().ok()))
        })
    }
}

impl Handler {
    /// What a policy counts together; where that cannot be read, as little as may be.
    async fn counts(&self, namespace: &str, policy: &str) -> Counts {
        let request = v1::GetPolicyRequest { namespace: namespace.to_owned(), name: policy.to_owned() };
        let found = CapService::get_policy(self, Request::new(request)).await;
        match found.ok().and_then(|found| found.into_inner().policy).map(|policy| policy.scope()) {
            Some(CapScope::Namespace | CapScope::Unspecified) => Counts::Namespace,
            Some(CapScope::Sender) => Counts::Sender,
            Some(CapScope::Recipient) => Counts::Recipient,
            _ => Counts::Pair,
        }
    }
}
