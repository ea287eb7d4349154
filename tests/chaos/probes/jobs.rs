//! ScheduleService: jobs.

use pannier::proto::v1::{self, schedule_service_client::ScheduleServiceClient as Schedule};

use super::Probe;
use crate::{
    setup::Facts,
    state::Kind,
    support::{
        schedule::{self, delayed, job},
        small::{ms, rid},
    },
};

pub fn probes(ns: &str, facts: &Facts) -> Vec<Probe> {
    let mut all = Vec::new();
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
            when: Some(v1::reschedule_job_request::When::Delay(schedule::ms(900_000)))
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
    all
}
