//! Every unary RPC, each on an owner of its own that is named after it, in a namespace of the test's.

use std::{future::Future, pin::Pin};

use pannier::proto::v1::{
    self, admin_service_client::AdminServiceClient as Admin, blob_service_client::BlobServiceClient as Blob,
    cap_service_client::CapServiceClient as Cap,
    conversation_service_client::ConversationServiceClient as Conversation,
    dedup_service_client::DedupServiceClient as Dedup,
    schedule_service_client::ScheduleServiceClient as Schedule,
    session_service_client::SessionServiceClient as Session,
};
use tonic::Status;

use super::{
    setup::Facts,
    state::Kind,
    support::{
        attach::put,
        schedule::{delayed, job},
        small::{consume, ms, rid},
        wire::Wire,
    },
};

pub type Calling = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

/// One RPC with a request that can be sent again.
pub struct Probe {
    pub rpc: &'static str,
    /// What it changes; None: nothing.
    pub writes: Option<Kind>,
    pub call: Box<dyn Fn(Wire) -> Calling + Send + Sync>,
}

macro_rules! probe {
    ($all:ident, $client:ident, $method:ident, $rpc:literal, $writes:expr, $request:expr) => {{
        let request = $request;
        let call = move |wire: Wire| -> Calling {
            let request = request.clone();
            Box::pin(async move { $client::new(wire).$method(request).await.map(drop) })
        };
        $all.push(Probe { rpc: $rpc, writes: $writes, call: Box::new(call) });
    }};
}

/// All of them, after [`super::setup::prepare`].
pub fn all(namespace: &str, facts: &Facts) -> Vec<Probe> {
    let mut all = Vec::new();
    sessions_and_blobs(&mut all, namespace, facts);
    small(&mut all, namespace, facts);
    jobs(&mut all, namespace, facts);
    queues(&mut all, namespace);
    all
}

fn sessions_and_blobs(all: &mut Vec<Probe>, ns: &str, facts: &Facts) {
    let ns = || ns.to_owned();
    let query = || vec![v1::Query { r#type: "session".into(), ids: vec!["1.0".into()] }];
    let at = |session: &str| session.to_owned();
    probe!(
        all,
        Session,
        get_records,
        "GetRecords",
        None,
        v1::GetRecordsRequest {
            namespace: ns(),
            session: at("read"),
            queries: query(),
            ..Default::default()
        }
    );
    probe!(
        all,
        Session,
        list_records,
        "ListRecords",
        None,
        v1::ListRecordsRequest { namespace: ns(), session: at("read"), ..Default::default() }
    );
    probe!(
        all,
        Session,
        get_session,
        "GetSession",
        None,
        v1::GetSessionRequest { namespace: ns(), session: at("read") }
    );
    probe!(
        all,
        Session,
        list_sessions,
        "ListSessions",
        None,
        v1::ListSessionsRequest { namespace: ns(), ..Default::default() }
    );
    probe!(
        all,
        Session,
        list_deleted,
        "ListDeleted",
        None,
        v1::ListDeletedRequest { namespace: ns(), ..Default::default() }
    );
    let puts = vec![put("session", "1.0", *b"new"), put("session", "2.0", *b"new")];
    probe!(
        all,
        Session,
        commit_records,
        "CommitRecords",
        Some(Kind::Session),
        v1::CommitRecordsRequest {
            namespace: ns(),
            session: at("CommitRecords"),
            writer_id: "w".into(),
            op_seq: 1,
            puts: puts.clone(),
            ..Default::default()
        }
    );
    probe!(
        all,
        Session,
        delete_session,
        "DeleteSession",
        Some(Kind::Session),
        v1::DeleteSessionRequest { namespace: ns(), session: at("DeleteSession"), ..Default::default() }
    );
    probe!(
        all,
        Session,
        restore_session,
        "RestoreSession",
        Some(Kind::Session),
        v1::RestoreSessionRequest { namespace: ns(), session: at("RestoreSession"), ..Default::default() }
    );
    probe!(
        all,
        Session,
        break_lease,
        "BreakLease",
        Some(Kind::Session),
        v1::BreakLeaseRequest { namespace: ns(), session: at("BreakLease"), ..Default::default() }
    );

    probe!(all, Blob, stat_blob, "StatBlob", None, v1::StatBlobRequest { namespace: ns(), blob: at("blob") });
    probe!(
        all,
        Blob,
        list_blobs,
        "ListBlobs",
        None,
        v1::ListBlobsRequest { namespace: ns(), ..Default::default() }
    );
    probe!(
        all,
        Blob,
        list_generations,
        "ListGenerations",
        None,
        v1::ListGenerationsRequest { namespace: ns(), blob: at("blob") }
    );
    probe!(
        all,
        Blob,
        rollback_blob,
        "RollbackBlob",
        Some(Kind::Blob),
        v1::RollbackBlobRequest {
            namespace: ns(),
            blob: at("RollbackBlob"),
            generation: facts.fence("RollbackBlob"),
            ..Default::default()
        }
    );
    probe!(
        all,
        Blob,
        delete_blob,
        "DeleteBlob",
        Some(Kind::Blob),
        v1::DeleteBlobRequest { namespace: ns(), blob: at("DeleteBlob"), ..Default::default() }
    );
    probe!(
        all,
        Blob,
        restore_blob,
        "RestoreBlob",
        Some(Kind::Blob),
        v1::RestoreBlobRequest { namespace: ns(), blob: at("RestoreBlob"), ..Default::default() }
    );

    probe!(all, Admin, server_info, "ServerInfo", None, v1::ServerInfoRequest {});
    probe!(all, Admin, key_status, "KeyStatus", None, v1::KeyStatusRequest {});
    probe!(all, Admin, list_sidecars, "ListSidecars", None, v1::ListSidecarsRequest {});
    probe!(all, Admin, doctor, "Doctor", None, v1::DoctorRequest {});
}

fn small(all: &mut Vec<Probe>, ns: &str, facts: &Facts) {
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
    let policy = super::support::caps::policy("SetPolicy", super::support::caps::fixed(5, 600_000));
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
}

fn jobs(all: &mut Vec<Probe>, ns: &str, facts: &Facts) {
    let ns = || ns.to_owned();
    let queue = |name: &str| name.to_owned();
    let one = |name: &str| (ns(), queue(name), "one".to_owned());
    probe!(
        all,
        Schedule,
        enqueue,
        "Enqueue",
        Some(Kind::Queue),
        v1::EnqueueRequest {
            namespace: ns(),
            queue: queue("Enqueue"),
            request_id: rid(),
            job: Some(job("one"))
        }
    );
    probe!(
        all,
        Schedule,
        enqueue_batch,
        "EnqueueBatch",
        Some(Kind::Queue),
        v1::EnqueueBatchRequest {
            namespace: ns(),
            queue: queue("EnqueueBatch"),
            request_id: rid(),
            jobs: vec![job("one"), job("two"), delayed("three", 600_000)]
        }
    );
    let item = v1::IngestItem {
        dedup_key: "message".into(),
        job: Some(v1::JobSpec { id: String::new(), ..job("x") }),
    };
    probe!(
        all,
        Schedule,
        ingest,
        "Ingest",
        Some(Kind::Queue),
        v1::IngestRequest { namespace: ns(), queue: queue("Ingest"), items: vec![item.clone()] }
    );
    probe!(
        all,
        Schedule,
        lease_jobs,
        "LeaseJobs",
        Some(Kind::Queue),
        v1::LeaseJobsRequest {
            namespace: ns(),
            queue: queue("LeaseJobs"),
            request_id: rid(),
            max: 1,
            lease: ms(600_000),
            wait: None
        }
    );
    let lease = |name: &str| facts.lease(name);
    let ack = v1::ack_jobs_request::Ack {
        number: lease("AckJobs").number,
        fence: lease("AckJobs").fence,
        result: Vec::new().into(),
    };
    probe!(
        all,
        Schedule,
        ack_jobs,
        "AckJobs",
        Some(Kind::Queue),
        v1::AckJobsRequest { namespace: ns(), queue: queue("AckJobs"), acks: vec![ack.clone()] }
    );
    let nack = v1::nack_jobs_request::Nack {
        number: lease("NackJobs").number,
        fence: lease("NackJobs").fence,
        verdict: v1::NackVerdict::Fail.into(),
        ..Default::default()
    };
    probe!(
        all,
        Schedule,
        nack_jobs,
        "NackJobs",
        Some(Kind::Queue),
        v1::NackJobsRequest { namespace: ns(), queue: queue("NackJobs"), nacks: vec![nack.clone()] }
    );
    probe!(
        all,
        Schedule,
        extend_jobs,
        "ExtendJobs",
        Some(Kind::Queue),
        v1::ExtendJobsRequest {
            namespace: ns(),
            queue: queue("ExtendJobs"),
            leases: vec![lease("ExtendJobs")],
            lease: ms(600_000)
        }
    );
    let (namespace, queue_name, id) = one("GetJob");
    probe!(
        all,
        Schedule,
        get_job,
        "GetJob",
        None,
        v1::GetJobRequest { namespace: namespace.clone(), queue: queue_name.clone(), id: id.clone() }
    );
    probe!(
        all,
        Schedule,
        list_jobs,
        "ListJobs",
        None,
        v1::ListJobsRequest {
            namespace: ns(),
            queue: queue("GetJob"),
            state: v1::JobState::Ready.into(),
            ..Default::default()
        }
    );
    let (namespace, queue_name, id) = one("CancelJob");
    probe!(
        all,
        Schedule,
        cancel_job,
        "CancelJob",
        Some(Kind::Queue),
        v1::CancelJobRequest { namespace: namespace.clone(), queue: queue_name.clone(), id: id.clone() }
    );
    let (namespace, queue_name, id) = one("RescheduleJob");
    probe!(
        all,
        Schedule,
        reschedule_job,
        "RescheduleJob",
        Some(Kind::Queue),
        v1::RescheduleJobRequest {
            namespace: namespace.clone(),
            queue: queue_name.clone(),
            id: id.clone(),
            when: Some(v1::reschedule_job_request::When::Delay(super::support::schedule::ms(900_000)))
        }
    );
    let (namespace, queue_name, id) = one("PromoteJob");
    probe!(
        all,
        Schedule,
        promote_job,
        "PromoteJob",
        Some(Kind::Queue),
        v1::PromoteJobRequest { namespace: namespace.clone(), queue: queue_name.clone(), id: id.clone() }
    );
    probe!(
        all,
        Schedule,
        retry_dead,
        "RetryDead",
        Some(Kind::Queue),
        v1::RetryDeadRequest {
            namespace: ns(),
            queue: queue("RetryDead"),
            ids: vec!["one".into()],
            ..Default::default()
        }
    );
    probe!(
        all,
        Schedule,
        delete_dead,
        "DeleteDead",
        Some(Kind::Queue),
        v1::DeleteDeadRequest {
            namespace: ns(),
            queue: queue("DeleteDead"),
            ids: vec!["one".into()],
            ..Default::default()
        }
    );
}

fn queues(all: &mut Vec<Probe>, ns: &str) {
    let ns = || ns.to_owned();
    let queue = |name: &str| name.to_owned();
    let settings = v1::QueueSettings { concurrency: Some(3), ..Default::default() };
    probe!(
        all,
        Schedule,
        configure_queue,
        "ConfigureQueue",
        Some(Kind::Queue),
        v1::ConfigureQueueRequest {
            namespace: ns(),
            queue: queue("ConfigureQueue"),
            settings: Some(settings.clone())
        }
    );
    probe!(
        all,
        Schedule,
        get_queue,
        "GetQueue",
        None,
        v1::GetQueueRequest { namespace: ns(), queue: queue("GetJob") }
    );
    probe!(
        all,
        Schedule,
        list_queues,
        "ListQueues",
        None,
        v1::ListQueuesRequest { namespace: ns(), ..Default::default() }
    );
    probe!(
        all,
        Schedule,
        pause_queue,
        "PauseQueue",
        Some(Kind::Queue),
        v1::PauseQueueRequest { namespace: ns(), queue: queue("PauseQueue"), r#for: None }
    );
    probe!(
        all,
        Schedule,
        resume_queue,
        "ResumeQueue",
        Some(Kind::Queue),
        v1::ResumeQueueRequest { namespace: ns(), queue: queue("ResumeQueue") }
    );
    probe!(
        all,
        Schedule,
        purge_queue,
        "PurgeQueue",
        Some(Kind::Queue),
        v1::PurgeQueueRequest {
            namespace: ns(),
            queue: queue("PurgeQueue"),
            confirm: "PurgeQueue".into(),
            states: Vec::new()
        }
    );
    let cron = super::setup::cron();
    probe!(
        all,
        Schedule,
        upsert_cron,
        "UpsertCron",
        Some(Kind::Queue),
        v1::UpsertCronRequest { namespace: ns(), queue: queue("UpsertCron"), cron: Some(cron.clone()) }
    );
    probe!(
        all,
        Schedule,
        delete_cron,
        "DeleteCron",
        Some(Kind::Queue),
        v1::DeleteCronRequest { namespace: ns(), queue: queue("DeleteCron"), id: "c".into() }
    );
    probe!(
        all,
        Schedule,
        list_crons,
        "ListCrons",
        None,
        v1::ListCronsRequest { namespace: ns(), queue: queue("DeleteCron"), ..Default::default() }
    );
}
