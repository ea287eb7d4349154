//! ScheduleService: queues and crons.

use pannier::proto::v1::{self, schedule_service_client::ScheduleServiceClient as Schedule};

use super::Probe;
use crate::{setup, state::Kind};

pub fn probes(ns: &str) -> Vec<Probe> {
    let mut all = Vec::new();
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
    let cron = setup::cron();
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
    all
}
