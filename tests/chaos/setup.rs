//! What the calls need to find: made while the network is whole.

use std::collections::HashMap;

use pannier::proto::v1;

use super::support::{
    Sidecar,
    attach::{Attach, open, put},
    blob::{chunk, finish, header},
    caps,
    schedule::{delayed, job},
    small::{consume, ms, rid},
};

/// What only the setup knows.
#[derive(Default)]
pub struct Facts {
    /// Of claims, and generations of blobs.
    fences: HashMap<&'static str, u64>,
    leases: HashMap<&'static str, v1::LeaseRef>,
}

impl Facts {
    pub fn fence(&self, claim: &str) -> u64 {
        self.fences[claim]
    }

    pub fn lease(&self, queue: &str) -> v1::LeaseRef {
        self.leases[queue].clone()
    }
}

pub fn cron() -> v1::Cron {
    v1::Cron {
        id: "c".into(),
        rule: Some(v1::cron::Rule::Every(super::support::schedule::ms(86_400_000))),
        template: Some(v1::JobSpec { id: String::new(), ..job("x") }),
        ..Default::default()
    }
}

/// Makes all owners of a namespace.
pub async fn prepare(sidecar: &Sidecar, namespace: &str) -> Facts {
    let mut facts = Facts::default();
    sessions(sidecar, namespace).await;
    blobs(sidecar, namespace, &mut facts).await;
    small(sidecar, namespace, &mut facts).await;
    queues(sidecar, namespace, &mut facts).await;
    facts
}

async fn sessions(sidecar: &Sidecar, namespace: &str) {
    for name in ["read", "CommitRecords", "DeleteSession", "RestoreSession", "BreakLease"] {
        let first = v1::Open { namespace: namespace.into(), ..open(name, "me") };
        let mut bot = Attach::open(sidecar.channel(), first).await.unwrap();
        bot.commit(1, vec![put("creds", "creds", *b"v"), put("session", "1.0", *b"v")], vec![])
            .await
            .unwrap();
        if name != "BreakLease" {
            bot.close().await;
        }
    }
    let (namespace, session) = (namespace.to_owned(), "RestoreSession".to_owned());
    let delete = v1::DeleteSessionRequest { namespace, session, ..Default::default() };
    sidecar.sessions().delete_session(delete).await.unwrap();
}

async fn blobs(sidecar: &Sidecar, namespace: &str, facts: &mut Facts) {
    let blobs = sidecar.blobs();
    for name in ["blob", "RollbackBlob", "DeleteBlob", "RestoreBlob"] {
        for content in [&b"first"[..], &b"the second"[..]] {
            let header = v1::SaveBlobHeader { namespace: namespace.into(), ..header(name) };
            let saving = blobs.begin(header).await;
            saving.send(chunk(content)).await;
            saving.send(finish(content)).await;
            let saved = saving.end().await.unwrap().blob.unwrap();
            // The first one's, to go back to.
            facts.fences.entry(name).or_insert(saved.generation);
        }
    }
    let (namespace, blob) = (namespace.to_owned(), "RestoreBlob".to_owned());
    blobs.delete_as(v1::DeleteBlobRequest { namespace, blob, ..Default::default() }).await.unwrap();
}

async fn small(sidecar: &Sidecar, namespace: &str, facts: &mut Facts) {
    let ns = || namespace.to_owned();
    for key in ["CompleteClaim", "ExtendClaim", "ReleaseClaim"] {
        let in_progress_ttl = ms(600_000);
        let claim = v1::ClaimRequest {
            namespace: ns(),
            request_id: rid(),
            key: key.into(),
            in_progress_ttl,
            ..Default::default()
        };
        facts.fences.insert(key, sidecar.dedup().claim(claim).await.unwrap().into_inner().fence);
    }
    for id in ["chat", "TouchConversation", "ResetConversation"] {
        let step = Some("asked".to_owned());
        let advance = v1::AdvanceRequest {
            namespace: ns(),
            request_id: rid(),
            id: id.into(),
            step,
            ..Default::default()
        };
        sidecar.conversations().advance(advance).await.unwrap();
    }
    for name in ["Consume", "Confirm", "Refund", "Peek", "DeletePolicy"] {
        let policy = Some(caps::policy(name, caps::fixed(5, 86_400_000)));
        let set = v1::SetPolicyRequest { namespace: ns(), request_id: rid(), policy };
        sidecar.caps().set_policy(set).await.unwrap();
    }
    for name in ["Confirm", "Refund"] {
        let send = caps::reserve(consume(name, &[name]), 600_000);
        sidecar.caps().consume(v1::ConsumeRequest { namespace: ns(), ..send }).await.unwrap();
    }
}

async fn queues(sidecar: &Sidecar, namespace: &str, facts: &mut Facts) {
    let ns = || namespace.to_owned();
    let mut client = v1::schedule_service_client::ScheduleServiceClient::new(sidecar.channel());
    let ready = [
        "LeaseJobs",
        "AckJobs",
        "NackJobs",
        "ExtendJobs",
        "GetJob",
        "CancelJob",
        "RetryDead",
        "DeleteDead",
        "PurgeQueue",
    ];
    let later = ["RescheduleJob", "PromoteJob"];
    for queue in ready.into_iter().chain(later) {
        let job = if later.contains(&queue) { delayed("one", 600_000) } else { job("one") };
        let add =
            v1::EnqueueRequest { namespace: ns(), queue: queue.into(), request_id: rid(), job: Some(job) };
        client.enqueue(add).await.unwrap();
    }
    for queue in ["AckJobs", "NackJobs", "ExtendJobs", "RetryDead", "DeleteDead"] {
        let lease = v1::LeaseJobsRequest {
            namespace: ns(),
            queue: queue.into(),
            request_id: rid(),
            max: 1,
            lease: ms(600_000),
            wait: None,
        };
        let job = client.lease_jobs(lease).await.unwrap().into_inner().jobs.remove(0);
        let lease = v1::LeaseRef { queue: queue.into(), number: job.number, fence: job.fence };
        facts.leases.insert(queue, lease);
        if queue.ends_with("Dead") {
            let nack = v1::nack_jobs_request::Nack {
                number: job.number,
                fence: job.fence,
                verdict: v1::NackVerdict::Fail.into(),
                ..Default::default()
            };
            client
                .nack_jobs(v1::NackJobsRequest { namespace: ns(), queue: queue.into(), nacks: vec![nack] })
                .await
                .unwrap();
        }
    }
    client
        .pause_queue(v1::PauseQueueRequest { namespace: ns(), queue: "ResumeQueue".into(), r#for: None })
        .await
        .unwrap();
    client
        .upsert_cron(v1::UpsertCronRequest {
            namespace: ns(),
            queue: "DeleteCron".into(),
            cron: Some(cron()),
        })
        .await
        .unwrap();
}
