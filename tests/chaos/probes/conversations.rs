//! ConversationService.

use pannier::proto::v1::{self, conversation_service_client::ConversationServiceClient as Conversation};

use super::Probe;
use crate::{
    state::Kind,
    support::small::{ms, rid},
};

pub fn probes(ns: &str) -> Vec<Probe> {
    let mut all = Vec::new();
    let ns = || ns.to_owned();
    probe!(
        all,
        Conversation,
        get_conversation,
        "GetConversation",
        None,
        v1::GetConversationRequest { namespace: ns(), id: "chat".into() }
    );
    probe!(
        all,
        Conversation,
        list_conversations,
        "ListConversations",
        None,
        v1::ListConversationsRequest { namespace: ns(), ..Default::default() }
    );
    probe!(
        all,
        Conversation,
        advance,
        "Advance",
        Some(Kind::Chat),
        v1::AdvanceRequest {
            namespace: ns(),
            request_id: rid(),
            id: "Advance".into(),
            step: Some("next".into()),
            ..Default::default()
        }
    );
    probe!(
        all,
        Conversation,
        touch_conversation,
        "TouchConversation",
        Some(Kind::Chat),
        v1::TouchConversationRequest {
            namespace: ns(),
            request_id: rid(),
            id: "TouchConversation".into(),
            ttl: ms(600_000)
        }
    );
    probe!(
        all,
        Conversation,
        reset_conversation,
        "ResetConversation",
        Some(Kind::Chat),
        v1::ResetConversationRequest { namespace: ns(), request_id: rid(), id: "ResetConversation".into() }
    );
    all
}
