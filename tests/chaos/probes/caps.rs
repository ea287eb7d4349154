//! CapService.

use pannier::proto::v1::{self, cap_service_client::CapServiceClient as Cap};

use super::Probe;
use crate::{
    state::Kind,
    support::{
        caps,
        small::{consume, rid},
    },
};

pub fn probes(ns: &str) -> Vec<Probe> {
    let mut all = Vec::new();
    let ns = || ns.to_owned();
    let send = |name: &str| v1::ConsumeRequest { namespace: ns(), ..consume(name, &[name]) };
    probe!(all, Cap, consume, "Consume", Some(Kind::Cap), send("Consume"));
    probe!(
        all,
        Cap,
        confirm,
        "Confirm",
        Some(Kind::Cap),
        v1::ConfirmRequest { namespace: ns(), request_id: rid(), send_id: "Confirm".into() }
    );
    probe!(
        all,
        Cap,
        refund,
        "Refund",
        Some(Kind::Cap),
        v1::RefundRequest { namespace: ns(), request_id: rid(), send_id: "Refund".into() }
    );
    probe!(
        all,
        Cap,
        peek,
        "Peek",
        None,
        v1::PeekRequest { namespace: ns(), policies: vec!["Peek".into()], ..Default::default() }
    );
    probe!(
        all,
        Cap,
        note_inbound,
        "NoteInbound",
        Some(Kind::Untold),
        v1::NoteInboundRequest {
            namespace: ns(),
            request_id: rid(),
            recipient: "r".into(),
            sender: "s".into()
        }
    );
    let policy = caps::policy("SetPolicy", caps::fixed(5, 600_000));
    probe!(
        all,
        Cap,
        set_policy,
        "SetPolicy",
        Some(Kind::Cap),
        v1::SetPolicyRequest { namespace: ns(), request_id: rid(), policy: Some(policy) }
    );
    probe!(
        all,
        Cap,
        get_policy,
        "GetPolicy",
        None,
        v1::GetPolicyRequest { namespace: ns(), name: "Peek".into() }
    );
    probe!(
        all,
        Cap,
        list_policies,
        "ListPolicies",
        None,
        v1::ListPoliciesRequest { namespace: ns(), ..Default::default() }
    );
    probe!(
        all,
        Cap,
        delete_policy,
        "DeletePolicy",
        Some(Kind::Cap),
        v1::DeletePolicyRequest { namespace: ns(), name: "DeletePolicy".into(), ..Default::default() }
    );
    all
}
