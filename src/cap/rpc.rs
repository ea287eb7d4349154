//! The door of caps: proto in, proto out.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tonic::Request;

use super::{
    file::Configured,
    names::{CapNames, Subject},
    policy::{self, Policy, Stored},
    settle::Settled,
    store::{Asked, Consumed, Store, Usage},
};
use crate::{
    error::{Error, Reason, Result},
    owner::namespace::Namespaces,
    proto::v1::{
        self,
        cap_service_server::{CapService, CapServiceServer},
        consume_request::Mode,
        consume_response::{Outcome, SendState},
    },
    rpc::{MESSAGE_MAX, Reply, UNARY, answer, duration, id, namespace, request_id, span_ms, timestamp},
    telemetry,
    valkey::Funnel,
};

/// Policies of one send.
const POLICIES_MAX: usize = 8;
const N_MAX: i32 = 1_000_000_000;
const UNIT_MAX: u32 = 1_000_000;
const RESERVE_MOST: Duration = Duration::from_secs(24 * 3600);
const RESERVE_DEFAULT_MS: u64 = 60_000;
/// How long a send that may go on without Valkey waits for it.
const OPEN_AFTER: Duration = Duration::from_secs(1);
/// What is left of a policy without a limit: the largest number that JSON carries.
const UNLIMITED: i64 = (1 << 53) - 1;
const UNIT_FARTHEST_MS: u64 = 400 * 24 * 3600 * 1000;

/// The gRPC service.
pub fn service(handler: Handler) -> CapServiceServer<Handler> {
    CapServiceServer::new(handler)
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX)
}

/// Handles cap calls, whichever way they come in. Clones are the same.
#[derive(Clone)]
pub struct Handler {
    store: Arc<Store>,
}

impl Handler {
    /// Over the funnel's link.
    pub fn new(namespaces: Arc<Namespaces>, funnel: Funnel) -> Self {
        Self { store: Arc::new(Store::new(namespaces, funnel)) }
    }

    fn names(&self, namespace_: String) -> Result<CapNames> {
        Ok(self.store.names(namespace(namespace_)?))
    }

    /// Keeps a policy of the configuration in mind before it can be set.
    pub(super) fn know(&self, one: &Configured) {
        let names = self.store.names(one.namespace.clone());
        let field = names.field(&self.store.policies.namespaces.keyring.current(), &one.policy.name);
        let (policy, from_config) = (one.policy.clone(), true);
        let stored = Stored { policy, revision: 0, definition: 0, updated_ms: 0, from_config, field };
        self.store.policies.copies.put(&one.namespace, Arc::new(stored));
    }

    /// Sets a policy of the configuration, unless somebody has changed it.
    pub(super) async fn set_configured(&self, one: &Configured, deadline: Instant) -> Result<()> {
        let names = self.store.names(one.namespace.clone());
        // Always another request: what it does depends only on what is there.
        let request = format!("configuration {:016x}", std::process::id()) + &rand_text();
        self.store.policies.set(&names, &one.policy, &request, true, deadline).await.map(|_| ())
    }

    /// See the proto.
    pub async fn consume(
        &self,
        request: v1::ConsumeRequest,
        deadline: Instant,
    ) -> Result<v1::ConsumeResponse> {
        id("send_id", &request.send_id)?;
        let mode = Mode::try_from(request.mode).map_err(|_| Error::bad_field("mode", "is no known mode"))?;
        let reserve_ttl = span_ms("reserve_ttl", request.reserve_ttl, RESERVE_MOST)?;
        let reserve_ms = (mode == Mode::Reserve).then(|| reserve_ttl.unwrap_or(RESERVE_DEFAULT_MS));
        if mode != Mode::Reserve && reserve_ttl.is_some() {
            return Err(Error::bad_field("reserve_ttl", "is for RESERVE only"));
        }
        let n = amount(request.n)?;
        check_policies(&request.policies)?;
        let subject = subject(&request.sender, &request.recipient)?;
        let names = self.names(request.namespace)?;
        let asked = Asked { policies: &request.policies, subject, n };
        let open = self.store.fails_open(&names.namespace, &request.policies);
        let until = if open { deadline.min(Instant::now() + OPEN_AFTER) } else { deadline };
        let consumed = match self.store.consume(&names, &asked, &request.send_id, reserve_ms, until).await {
            Err(error) if open && is_away(&error) => {
                metrics::counter!("pannier_cap_failed_open_total").increment(1);
                return Ok(v1::ConsumeResponse {
                    outcome: Outcome::Allowed.into(),
                    state: SendState::Committed.into(),
                    failed_open: true,
                    ..Default::default()
                });
            }
            consumed => consumed?,
        };
        Ok(consumed_out(consumed, &request.policies))
    }

    /// See the proto.
    pub async fn confirm(
        &self,
        request: v1::ConfirmRequest,
        deadline: Instant,
    ) -> Result<v1::ConfirmResponse> {
        use v1::confirm_response::Outcome;
        id("send_id", &request.send_id)?;
        request_id("request_id", &request.request_id)?;
        let names = self.names(request.namespace)?;
        let settled =
            self.store.settle(&names, &request.send_id, &request.request_id, true, deadline).await?;
        let outcome = match settled {
            Settled::Done => Outcome::Confirmed,
            Settled::Lapsed => Outcome::Lapsed,
            Settled::Unknown => Outcome::Unknown,
        };
        Ok(v1::ConfirmResponse { outcome: outcome.into() })
    }

    /// See the proto.
    pub async fn refund(&self, request: v1::RefundRequest, deadline: Instant) -> Result<v1::RefundResponse> {
        use v1::refund_response::Outcome;
        id("send_id", &request.send_id)?;
        request_id("request_id", &request.request_id)?;
        let names = self.names(request.namespace)?;
        let settled =
            self.store.settle(&names, &request.send_id, &request.request_id, false, deadline).await?;
        let outcome = match settled {
            Settled::Done => Outcome::Refunded,
            Settled::Lapsed => Outcome::Lapsed,
            Settled::Unknown => Outcome::Unknown,
        };
        Ok(v1::RefundResponse { outcome: outcome.into() })
    }

    /// See the proto.
    pub async fn peek(&self, request: v1::PeekRequest, deadline: Instant) -> Result<v1::PeekResponse> {
        let n = amount(request.n)?;
        check_policies(&request.policies)?;
        let subject = subject(&request.sender, &request.recipient)?;
        if request.unit > UNIT_MAX {
            return Err(Error::bad_field("unit", "must be at most 1000000"));
        }
        let names = self.names(request.namespace)?;
        let asked = Asked { policies: &request.policies, subject, n };
        let (peeked, open_until) = self.store.peek(&names, &asked, u64::from(request.unit), deadline).await?;
        let policies = peeked.into_iter().zip(&request.policies).map(|(one, name)| v1::CapPeek {
            usage: Some(usage_out(&one.usage, name)),
            never: one.never,
            retry_after: (!one.never).then(|| duration(one.wait_ms)),
            unit_after: one.unit_ms.filter(|ms| request.unit > 0 && *ms <= UNIT_FARTHEST_MS).map(duration),
        });
        Ok(v1::PeekResponse { policies: policies.collect(), service_window_until: timestamp(open_until) })
    }

    /// See the proto.
    pub async fn note_inbound(
        &self,
        request: v1::NoteInboundRequest,
        deadline: Instant,
    ) -> Result<v1::NoteInboundResponse> {
        request_id("request_id", &request.request_id)?;
        id("recipient", &request.recipient)?;
        let subject = subject(&request.sender, &request.recipient)?;
        let names = self.names(request.namespace)?;
        let until = self.store.note_inbound(&names, subject, &request.request_id, deadline).await?;
        Ok(v1::NoteInboundResponse { open_until: timestamp(until) })
    }

    async fn set_policy(
        &self,
        request: v1::SetPolicyRequest,
        deadline: Instant,
    ) -> Result<v1::SetPolicyResponse> {
        request_id("request_id", &request.request_id)?;
        let asked = request.policy.ok_or_else(|| Error::bad_field("policy", "is missing"))?;
        let policy = Policy::check(asked)?;
        let names = self.names(request.namespace)?;
        let changed = self.store.policies.set(&names, &policy, &request.request_id, false, deadline).await?;
        Ok(v1::SetPolicyResponse {
            policy: Some(changed.stored.to_wire()),
            created: changed.created,
            replayed: changed.replayed,
        })
    }

    async fn get_policy(
        &self,
        request: v1::GetPolicyRequest,
        deadline: Instant,
    ) -> Result<v1::GetPolicyResponse> {
        policy::name("name", &request.name)?;
        let names = self.names(request.namespace)?;
        match self.store.policies.read(&names, &request.name, deadline).await? {
            Some(stored) => Ok(v1::GetPolicyResponse { policy: Some(stored.to_wire()) }),
            None => Err(Error::new(Reason::PolicyNotFound, "there is no such policy")),
        }
    }

    async fn list_policies(
        &self,
        request: v1::ListPoliciesRequest,
        deadline: Instant,
    ) -> Result<v1::ListPoliciesResponse> {
        let names = self.names(request.namespace)?;
        let (policies, corrupt) = self.store.policies.list(&names, deadline).await?;
        let policies = policies.iter().map(|stored| stored.to_wire()).collect();
        Ok(v1::ListPoliciesResponse { policies, corrupt })
    }

    async fn delete_policy(
        &self,
        request: v1::DeletePolicyRequest,
        deadline: Instant,
    ) -> Result<v1::DeletePolicyResponse> {
        policy::name("name", &request.name)?;
        let names = self.names(request.namespace)?;
        let deleted = self.store.policies.delete(&names, &request.name, request.revision, deadline).await?;
        Ok(v1::DeletePolicyResponse { deleted })
    }
}

fn rand_text() -> String {
    let mut bytes = [0_u8; 8];
    let _ = getrandom::fill(&mut bytes);
    format!("{:016x}", u64::from_be_bytes(bytes))
}

fn is_away(error: &Error) -> bool {
    matches!(error.reason(), Reason::ValkeyUnreachable | Reason::Starting | Reason::DeadlineExceeded)
}

fn amount(n: Option<i32>) -> Result<u64> {
    match n {
        None => Ok(1),
        Some(n @ 1..=N_MAX) => Ok(u64::from(n.unsigned_abs())),
        Some(_) => Err(Error::bad_field("n", "must be 1..1000000000")),
    }
}

fn check_policies(policies: &[String]) -> Result<()> {
    if !(1..=POLICIES_MAX).contains(&policies.len()) {
        return Err(Error::bad_field("policies", "must be 1..8 names"));
    }
    for (n, name) in policies.iter().enumerate() {
        policy::name(format!("policies[{n}]"), name)?;
        if policies[..n].contains(name) {
            return Err(Error::bad_field(format!("policies[{n}]"), "is there twice"));
        }
    }
    Ok(())
}

/// Neither must be given; a policy may need them.
fn subject<'a>(sender: &'a str, recipient: &'a str) -> Result<Subject<'a>> {
    for (field, value) in [("sender", sender), ("recipient", recipient)] {
        if !value.is_empty() {
            id(field, value)?;
        }
    }
    Ok(Subject { sender, recipient })
}

fn usage_out(usage: &Usage, policy: &str) -> v1::CapUsage {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let remaining = if usage.limit == 0 { UNLIMITED } else { signed(usage.limit.saturating_sub(usage.used)) };
    v1::CapUsage {
        policy: policy.to_owned(),
        limit: signed(usage.limit),
        used: signed(usage.used),
        remaining,
        reset_at: timestamp(usage.reset_ms),
    }
}

fn consumed_out(consumed: Consumed, policies: &[String]) -> v1::ConsumeResponse {
    let named = |place: usize| policies.get(place).cloned().unwrap_or_default();
    let mut response = v1::ConsumeResponse::default();
    let outcome = match consumed {
        Consumed::Allowed { usage, reserved_until_ms, replayed } => {
            response.usage = usage.iter().zip(policies).map(|(usage, name)| usage_out(usage, name)).collect();
            let state = if reserved_until_ms.is_some() { SendState::Reserved } else { SendState::Committed };
            response.set_state(state);
            response.reserved_until = reserved_until_ms.and_then(timestamp);
            if replayed { Outcome::Replayed } else { Outcome::Allowed }
        }
        Consumed::Denied { policy, wait_ms } => {
            response.denied_by = named(policy);
            response.retry_after = Some(duration(wait_ms));
            Outcome::Denied
        }
        Consumed::Never { policy } => {
            response.denied_by = named(policy);
            Outcome::Never
        }
        Consumed::Mismatch => Outcome::Mismatch,
    };
    telemetry::cap_consumed(outcome.into());
    response.set_outcome(outcome);
    response
}

#[tonic::async_trait]
impl CapService for Handler {
    async fn consume(&self, request: Request<v1::ConsumeRequest>) -> Reply<v1::ConsumeResponse> {
        answer(request, UNARY, |request, deadline| self.consume(request, deadline)).await
    }

    async fn confirm(&self, request: Request<v1::ConfirmRequest>) -> Reply<v1::ConfirmResponse> {
        answer(request, UNARY, |request, deadline| self.confirm(request, deadline)).await
    }

    async fn refund(&self, request: Request<v1::RefundRequest>) -> Reply<v1::RefundResponse> {
        answer(request, UNARY, |request, deadline| self.refund(request, deadline)).await
    }

    async fn peek(&self, request: Request<v1::PeekRequest>) -> Reply<v1::PeekResponse> {
        answer(request, UNARY, |request, deadline| self.peek(request, deadline)).await
    }

    async fn note_inbound(&self, request: Request<v1::NoteInboundRequest>) -> Reply<v1::NoteInboundResponse> {
        answer(request, UNARY, |request, deadline| self.note_inbound(request, deadline)).await
    }

    async fn set_policy(&self, request: Request<v1::SetPolicyRequest>) -> Reply<v1::SetPolicyResponse> {
        answer(request, UNARY, |request, deadline| self.set_policy(request, deadline)).await
    }

    async fn get_policy(&self, request: Request<v1::GetPolicyRequest>) -> Reply<v1::GetPolicyResponse> {
        answer(request, UNARY, |request, deadline| self.get_policy(request, deadline)).await
    }

    async fn list_policies(
        &self,
        request: Request<v1::ListPoliciesRequest>,
    ) -> Reply<v1::ListPoliciesResponse> {
        answer(request, UNARY, |request, deadline| self.list_policies(request, deadline)).await
    }

    async fn delete_policy(
        &self,
        request: Request<v1::DeletePolicyRequest>,
    ) -> Reply<v1::DeletePolicyResponse> {
        answer(request, UNARY, |request, deadline| self.delete_policy(request, deadline)).await
    }
}
