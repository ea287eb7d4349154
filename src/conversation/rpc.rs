//! The door of conversations: proto in, proto out.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use tokio::time::Instant;
use tonic::Request;

use super::{
    state::{Content, IDLE},
    store::{Advanced, Change, Name, Refusal, State, Store},
};
use crate::{
    error::{Error, Result},
    owner::namespace::Namespaces,
    proto::v1::{
        self,
        advance_request::Expected,
        advance_response::Outcome,
        conversation_service_server::{ConversationService, ConversationServiceServer},
    },
    rpc::{
        DAYS_400, MESSAGE_MAX, OWNERS_DEFAULT, Reply, UNARY, answer, id, namespace, page, request_id,
        span_ms, timestamp,
    },
    valkey::Funnel,
};

const STEP_MAX: usize = 128;
const STEPS_MAX: usize = 32;
const FIELD_MAX: usize = 128;
const FIELDS_MAX: usize = 1_000;
/// Bytes of all fields, names and values.
const BYTES_MAX: usize = 256 * 1024;
const TTL_DEFAULT_MS: u64 = 30 * 60 * 1000;

/// The gRPC service.
pub fn service(handler: Handler) -> ConversationServiceServer<Handler> {
    ConversationServiceServer::new(handler)
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX)
}

/// Handles conversation calls, whichever way they come in. Clones are the same.
#[derive(Clone)]
pub struct Handler {
    store: Arc<Store>,
}

impl Handler {
    /// Over the funnel's link.
    pub fn new(namespaces: Arc<Namespaces>, funnel: Funnel) -> Self {
        Self { store: Arc::new(Store::new(namespaces, funnel)) }
    }

    fn name(&self, namespace_: String, id_: String) -> Result<Name> {
        id("id", &id_)?;
        Ok(self.store.name(namespace(namespace_)?, id_))
    }

    /// See the proto.
    pub async fn get_conversation(
        &self,
        request: v1::GetConversationRequest,
        deadline: Instant,
    ) -> Result<v1::GetConversationResponse> {
        let name = self.name(request.namespace, request.id)?;
        let state = self.store.get(&name, deadline).await?;
        Ok(v1::GetConversationResponse { state: Some(state_out(state)) })
    }

    /// See the proto.
    pub async fn advance(
        &self,
        request: v1::AdvanceRequest,
        deadline: Instant,
    ) -> Result<v1::AdvanceResponse> {
        request_id("request_id", &request.request_id)?;
        check(&request)?;
        let ttl_ms = ttl(request.ttl)?;
        let max_age_ms = span_ms("max_age", request.max_age, DAYS_400)?;
        let name = self.name(request.namespace, request.id)?;
        let (step, set, unset) = (request.step, request.set, request.unset);
        let (replace, expected) = (request.replace, request.expected);
        let apply = |now: &State| {
            if !holds(expected.as_ref(), now) {
                return Err(Refusal::Conflict);
            }
            merge(now, step.as_ref(), &set, &unset, replace).map_err(Refusal::Failed)
        };
        let change = Change { ttl_ms, max_age_ms, apply };
        let (outcome, state, replayed) =
            match self.store.advance(&name, &request.request_id, change, deadline).await? {
                Advanced::Written { state, replayed } => (Outcome::Advanced, state, replayed),
                Advanced::Conflict(state) => (Outcome::Conflict, state, false),
                Advanced::Ceiling { state, replayed } => (Outcome::Ceiling, state, replayed),
            };
        Ok(v1::AdvanceResponse { outcome: outcome.into(), state: Some(state_out(state)), replayed })
    }

    /// See the proto.
    pub async fn touch_conversation(
        &self,
        request: v1::TouchConversationRequest,
        deadline: Instant,
    ) -> Result<v1::TouchConversationResponse> {
        request_id("request_id", &request.request_id)?;
        let ttl_ms = ttl(request.ttl)?;
        let name = self.name(request.namespace, request.id)?;
        let (state, replayed) = self.store.touch(&name, &request.request_id, ttl_ms, deadline).await?;
        Ok(v1::TouchConversationResponse { state: Some(state_out(state)), replayed })
    }

    /// See the proto.
    pub async fn reset_conversation(
        &self,
        request: v1::ResetConversationRequest,
        deadline: Instant,
    ) -> Result<v1::ResetConversationResponse> {
        request_id("request_id", &request.request_id)?;
        let name = self.name(request.namespace, request.id)?;
        let (existed, replayed) = self.store.reset(&name, &request.request_id, deadline).await?;
        Ok(v1::ResetConversationResponse { existed, replayed })
    }

    async fn list_conversations(
        &self,
        request: v1::ListConversationsRequest,
        deadline: Instant,
    ) -> Result<v1::ListConversationsResponse> {
        let namespace = namespace(request.namespace)?;
        let limit = page(request.limit, OWNERS_DEFAULT)?;
        let page = self.store.list(&namespace, &request.cursor, limit, deadline).await?;
        let conversations = page.found.into_iter().map(|(id, state)| summary(id, &state)).collect();
        Ok(v1::ListConversationsResponse { conversations, cursor: page.cursor })
    }
}

fn ttl(value: Option<prost_types::Duration>) -> Result<u64> {
    Ok(span_ms("ttl", value, DAYS_400)?.unwrap_or(TTL_DEFAULT_MS))
}

fn step(field: impl Into<String>, value: &str) -> Result<()> {
    if (1..=STEP_MAX).contains(&value.len()) {
        return Ok(());
    }
    Err(Error::bad_field(field, "must be 1..128 bytes"))
}

/// What needs no look at the conversation.
fn check(request: &v1::AdvanceRequest) -> Result<()> {
    if let Some(value) = &request.step {
        step("step", value)?;
    }
    let named = |field: &str, name: &str| {
        if (1..=FIELD_MAX).contains(&name.len()) {
            return Ok(());
        }
        Err(Error::bad_field(field, "names must be 1..128 bytes"))
    };
    for name in request.set.keys() {
        named("set", name)?;
    }
    if request.unset.len() > FIELDS_MAX {
        return Err(Error::too_large("unset", "must be at most 1000"));
    }
    for name in &request.unset {
        named("unset", name)?;
        if request.set.contains_key(name) {
            return Err(Error::bad_field("unset", "names a field that is also set"));
        }
    }
    if let Some(Expected::ExpectedSteps(steps)) = &request.expected {
        if !(1..=STEPS_MAX).contains(&steps.steps.len()) {
            return Err(Error::bad_field("expected_steps", "must be 1..32 steps"));
        }
        for (n, value) in steps.steps.iter().enumerate() {
            step(format!("expected_steps.steps[{n}]"), value)?;
        }
    }
    Ok(())
}

fn holds(expected: Option<&Expected>, now: &State) -> bool {
    match expected {
        None => true,
        Some(Expected::ExpectedVersion(version)) => *version == now.version,
        Some(Expected::ExpectedSteps(steps)) => steps.steps.contains(&now.content.step),
    }
}

fn merge(
    now: &State,
    step: Option<&String>,
    set: &HashMap<String, bytes::Bytes>,
    unset: &[String],
    replace: bool,
) -> Result<Content> {
    let mut next = Content {
        step: step.cloned().unwrap_or_else(|| now.content.step.clone()),
        fields: if replace { std::collections::BTreeMap::new() } else { now.content.fields.clone() },
    };
    let unset: HashSet<&String> = unset.iter().collect();
    next.fields.retain(|name, _| !unset.contains(name));
    next.fields.extend(set.iter().map(|(name, value)| (name.clone(), value.to_vec())));
    if next.fields.len() > FIELDS_MAX {
        return Err(Error::too_large("set", "a conversation has at most 1000 fields"));
    }
    if next.size() > BYTES_MAX {
        return Err(Error::too_large("set", "the fields of a conversation are at most 256 KiB together"));
    }
    Ok(next)
}

fn state_out(state: State) -> v1::ConversationState {
    if state.version == 0 {
        return v1::ConversationState { step: IDLE.to_owned(), ..Default::default() };
    }
    let fields = state.content.fields.into_iter().map(|(name, value)| (name, value.into()));
    v1::ConversationState {
        exists: true,
        step: state.content.step,
        fields: fields.collect(),
        version: state.version,
        started_at: timestamp(state.started_ms),
        updated_at: timestamp(state.updated_ms),
        expires_at: timestamp(state.expires_ms),
        ends_at: timestamp(state.ceiling_ms),
    }
}

fn summary(id: String, state: &State) -> v1::ConversationSummary {
    v1::ConversationSummary {
        id,
        step: state.content.step.clone(),
        version: state.version,
        started_at: timestamp(state.started_ms),
        updated_at: timestamp(state.updated_ms),
        expires_at: timestamp(state.expires_ms),
        ends_at: timestamp(state.ceiling_ms),
        fields: u32::try_from(state.content.fields.len()).unwrap_or(u32::MAX),
        bytes: state.content.size() as u64,
    }
}

#[tonic::async_trait]
impl ConversationService for Handler {
    async fn get_conversation(
        &self,
        request: Request<v1::GetConversationRequest>,
    ) -> Reply<v1::GetConversationResponse> {
        answer(request, UNARY, |request, deadline| self.get_conversation(request, deadline)).await
    }

    async fn advance(&self, request: Request<v1::AdvanceRequest>) -> Reply<v1::AdvanceResponse> {
        answer(request, UNARY, |request, deadline| self.advance(request, deadline)).await
    }

    async fn touch_conversation(
        &self,
        request: Request<v1::TouchConversationRequest>,
    ) -> Reply<v1::TouchConversationResponse> {
        answer(request, UNARY, |request, deadline| self.touch_conversation(request, deadline)).await
    }

    async fn reset_conversation(
        &self,
        request: Request<v1::ResetConversationRequest>,
    ) -> Reply<v1::ResetConversationResponse> {
        answer(request, UNARY, |request, deadline| self.reset_conversation(request, deadline)).await
    }

    async fn list_conversations(
        &self,
        request: Request<v1::ListConversationsRequest>,
    ) -> Reply<v1::ListConversationsResponse> {
        answer(request, UNARY, |request, deadline| self.list_conversations(request, deadline)).await
    }
}
