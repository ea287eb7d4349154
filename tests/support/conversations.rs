//! Conversations in one line each.

use std::time::Duration;

use pannier::proto::v1::{AdvanceRequest, ConversationState, advance_response::Outcome};

use super::{Sidecar, small::get};

pub async fn go(sidecar: &Sidecar, request: AdvanceRequest) -> (Outcome, ConversationState) {
    let answer = sidecar.conversations().advance(request).await.unwrap().into_inner();
    (answer.outcome(), answer.state.unwrap())
}

pub async fn read(sidecar: &Sidecar, id: &str) -> ConversationState {
    sidecar.conversations().get_conversation(get(id)).await.unwrap().into_inner().state.unwrap()
}

/// The state of one that nobody has advanced.
pub fn idle() -> ConversationState {
    ConversationState { step: "idle".into(), ..Default::default() }
}

pub async fn sleep(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
