//! Jobs, queues and recurring jobs.

use pannier::proto::v1::{
    self, Enqueued, JobSpec, JobState, NackVerdict, cron, enqueued::Outcome, job_spec,
    reschedule_job_request::When, schedule_service_client::ScheduleServiceClient,
};
use serde_json::{Value, json};

use super::{
    Answer, World,
    terms::{Args, at, decode_present, ms, some, word},
};
use crate::support::{schedule::timestamp, small::rid, unary::answer};

#[allow(clippy::too_many_lines)] // a table of calls
pub async fn schedule(world: &World, call: &str, args: &mut Args) -> Answer {
    let namespace = world.namespace.clone();
    let mut client = ScheduleServiceClient::new(world.sidecar.channel());
    let queue = args.text("queue");
    match call {
        "enqueue" => {
            let job = Some(read_job(args));
            let request = v1::EnqueueRequest { namespace, queue, request_id: rid(), job };
            Ok(enqueued(&answer(client.enqueue(request).await)?.job.unwrap()))
        }
        "enqueue_batch" => {
            let jobs = args.list("jobs", read_job);
            let request = v1::EnqueueBatchRequest { namespace, queue, request_id: rid(), jobs };
            let jobs = answer(client.enqueue_batch(request).await)?.jobs;
            Ok(json!({ "jobs": jobs.iter().map(enqueued).collect::<Vec<_>>() }))
        }
        "ingest" => {
            let items = args.list("items", |item| {
                let dedup_key = item.text("dedup_key");
                v1::IngestItem { dedup_key, job: Some(read_job(item)) }
            });
            let answer = answer(client.ingest(v1::IngestRequest { namespace, queue, items }).await)?;
            Ok(json!({ "items": answer.items.iter().map(enqueued).collect::<Vec<_>>() }))
        }
        "get" => {
            let request = v1::GetJobRequest { namespace, queue, id: args.text("id") };
            match answer(client.get_job(request).await) {
                Ok(found) => Ok(job(&found.job.unwrap())),
                Err(refused) if refused.reason == "JOB_NOT_FOUND" => Ok(json!({ "exists": false })),
                Err(refused) => Err(refused),
            }
        }
        "list" => {
            let state = args.word("state", "JOB_STATE_", |name| Some(JobState::from_str_name(name)?.into()));
            let request = v1::ListJobsRequest { namespace, queue, state, ..Default::default() };
            let page = answer(client.list_jobs(request).await)?;
            assert_eq!(page.cursor, "", "more than a page");
            Ok(json!({ "ids": page.jobs.iter().map(|job| &job.id).collect::<Vec<_>>() }))
        }
        "get_queue" => {
            let found = answer(client.get_queue(v1::GetQueueRequest { namespace, queue }).await)?;
            Ok(if found.exists { queue_of(&found.queue.unwrap()) } else { json!({ "exists": false }) })
        }
        "cancel" => {
            let request = v1::CancelJobRequest { namespace, queue, id: args.text("id") };
            let answer = answer(client.cancel_job(request).await)?;
            Ok(json!({ "outcome": word(answer.outcome().as_str_name(), "OUTCOME_") }))
        }
        "reschedule" => {
            let delay = args.duration("delay").map(When::Delay);
            let due_at = args.number("due_at_ms").map(|at| When::DueAt(timestamp(at)));
            let request =
                v1::RescheduleJobRequest { namespace, queue, id: args.text("id"), when: delay.or(due_at) };
            rescheduled(answer(client.reschedule_job(request).await).map(|answer| answer.job))
        }
        "promote" => {
            let request = v1::PromoteJobRequest { namespace, queue, id: args.text("id") };
            rescheduled(answer(client.promote_job(request).await).map(|answer| answer.job))
        }
        "retry_dead" => {
            let (ids, all) = (args.texts("ids"), args.flag("all"));
            let request = v1::RetryDeadRequest { namespace, queue, ids, all, since: None };
            Ok(json!({ "count": answer(client.retry_dead(request).await)?.retried }))
        }
        "delete_dead" => {
            let (ids, all) = (args.texts("ids"), args.flag("all"));
            let request = v1::DeleteDeadRequest { namespace, queue, ids, all, since: None };
            Ok(json!({ "count": answer(client.delete_dead(request).await)?.deleted }))
        }
        "configure" => {
            let settings = Some(read_settings(args));
            let request = v1::ConfigureQueueRequest { namespace, queue, settings };
            Ok(settings_of(&answer(client.configure_queue(request).await)?.settings.unwrap()))
        }
        "pause" => {
            let request = v1::PauseQueueRequest { namespace, queue, r#for: args.duration("for") };
            Ok(
                json!({ "paused_until": at(answer(client.pause_queue(request).await)?.paused_until.as_ref()) }),
            )
        }
        "resume" => {
            let answer = answer(client.resume_queue(v1::ResumeQueueRequest { namespace, queue }).await)?;
            Ok(json!({ "resumed": answer.resumed }))
        }
        "purge" => {
            let prefixed = |state: &String| format!("JOB_STATE_{}", state.to_uppercase());
            let states = args.texts("states");
            let number = |state| JobState::from_str_name(&prefixed(state)).unwrap().into();
            let request = v1::PurgeQueueRequest {
                namespace,
                queue,
                confirm: args.text("confirm"),
                states: states.iter().map(number).collect(),
            };
            let answer = answer(client.purge_queue(request).await)?;
            Ok(json!({ "removed": answer.removed, "cancel_requested": answer.cancel_requested }))
        }
        "work" => work(namespace, queue, &mut client, args).await,
        "cron_upsert" => {
            let cron = Some(read_cron(args));
            let answer = answer(client.upsert_cron(v1::UpsertCronRequest { namespace, queue, cron }).await)?;
            let outcome = word(answer.outcome().as_str_name(), "OUTCOME_");
            Ok(json!({ "outcome": outcome, "next_at": at(answer.next_at.as_ref()) }))
        }
        "cron_delete" => {
            let request = v1::DeleteCronRequest { namespace, queue, id: args.text("id") };
            Ok(json!({ "deleted": answer(client.delete_cron(request).await)?.deleted }))
        }
        "cron_list" => {
            let occurrences = args.number("occurrences").unwrap_or(1);
            let request = v1::ListCronsRequest { namespace, queue, occurrences, ..Default::default() };
            let mut crons = answer(client.list_crons(request).await)?.crons;
            crons.sort_by_key(|one| one.cron.as_ref().unwrap().id.clone());
            Ok(json!({ "crons": crons.iter().map(cron_of).collect::<Vec<_>>() }))
        }
        _ => panic!("unknown call schedule.{call}"),
    }
}

/// Leases so many jobs, one after the other, and ends each so.
async fn work(
    namespace: String,
    queue: String,
    client: &mut ScheduleServiceClient<tonic::transport::Channel>,
    args: &mut Args,
) -> Answer {
    let (how, wanted) = (args.text("how"), args.number::<usize>("jobs").unwrap());
    let (result, error) = (args.value("result"), args.text("error"));
    let retry_after = args.duration("after");
    let mut ran = Vec::new();
    while ran.len() < wanted {
        let request = v1::LeaseJobsRequest {
            namespace: namespace.clone(),
            queue: queue.clone(),
            request_id: rid(),
            wait: Some(prost_types::Duration { seconds: 15, nanos: 0 }),
            ..Default::default()
        };
        let leased = answer(client.lease_jobs(request).await)?.jobs;
        let job = leased.into_iter().next().expect("a job in time");
        let (number, fence) = (job.number, job.fence);
        let outcomes = if how == "done" {
            let acks = vec![v1::ack_jobs_request::Ack { number, fence, result: result.clone().into() }];
            let request = v1::AckJobsRequest { namespace: namespace.clone(), queue: queue.clone(), acks };
            answer(client.ack_jobs(request).await)?.outcomes
        } else {
            let verdict =
                NackVerdict::from_str_name(&format!("NACK_VERDICT_{}", how.to_uppercase())).unwrap().into();
            let nack =
                v1::nack_jobs_request::Nack { number, fence, verdict, error: error.clone(), retry_after };
            let request =
                v1::NackJobsRequest { namespace: namespace.clone(), queue: queue.clone(), nacks: vec![nack] };
            answer(client.nack_jobs(request).await)?.outcomes
        };
        assert_eq!(outcomes, [i32::from(v1::SettleOutcome::Ok)]);
        ran.push(json!({
            "id": job.id, "payload": decode_present(&job.payload), "attempt": job.attempt,
            "max_attempts": job.max_attempts, "group": some(&job.group), "priority": job.priority,
        }));
    }
    Ok(json!({ "jobs": ran }))
}

fn read_job(args: &mut Args) -> JobSpec {
    let delay = args.duration("delay").map(job_spec::When::Delay);
    let due_at = args.number("due_at_ms").map(|at| job_spec::When::DueAt(timestamp(at)));
    JobSpec {
        id: args.text("id"),
        payload: args.value("payload").into(),
        priority: args.number("priority").unwrap_or_default(),
        group: args.text("group"),
        retry: args.part("retry", read_retry),
        cap: args.part("cap", |cap| v1::CapGate {
            policies: cap.texts("policies"),
            recipient: cap.text("recipient"),
            sender: cap.text("sender"),
            n: cap.number("n").unwrap_or_default(),
        }),
        unique_window: args.duration("unique_window"),
        on_conflict: args
            .word("on_conflict", "ON_CONFLICT_", |name| Some(v1::OnConflict::from_str_name(name)?.into())),
        hold_when_cancelled: args.flag("hold_when_cancelled"),
        when: delay.or(due_at),
        not_after: args.duration("deadline_in").map(job_spec::NotAfter::DeadlineIn),
    }
}

fn read_retry(args: &mut Args) -> v1::RetryPolicy {
    v1::RetryPolicy {
        max_attempts: args.number("max_attempts").unwrap_or_default(),
        base: args.duration("base"),
        jitter_percent: args.number("jitter_percent"),
    }
}

fn enqueued(job: &Enqueued) -> Value {
    json!({
        "outcome": word(job.outcome().as_str_name(), "OUTCOME_"), "id": job.id, "number": job.number,
        "state": word(job.state().as_str_name(), "JOB_STATE_"), "due_at": at(job.due_at.as_ref()),
        "finished_at": at(job.finished_at.as_ref()), "replayed": job.replayed,
    })
}

/// As clients tell it: that it is leased, or not there, is an outcome of its own.
fn rescheduled(answer: Result<Option<Enqueued>, crate::support::attach::Refused>) -> Answer {
    match answer {
        Ok(job) => {
            let job = job.unwrap();
            let leased = job.outcome() == Outcome::Existing;
            let mut made = enqueued(&job);
            if leased {
                made["outcome"] = json!("leased");
            }
            Ok(made)
        }
        Err(refused) if refused.reason == "JOB_NOT_FOUND" => Ok(json!({ "outcome": "not_found" })),
        Err(refused) => Err(refused),
    }
}

fn job(job: &v1::Job) -> Value {
    let dead_reason = match job.dead_reason() {
        v1::DeadReason::Unspecified => Value::Null,
        reason => word(reason.as_str_name(), "DEAD_REASON_"),
    };
    json!({
        "exists": true, "id": job.id, "number": job.number, "state": word(job.state().as_str_name(), "JOB_STATE_"),
        "priority": job.priority, "group": some(&job.group), "attempts": job.attempts, "max_attempts": job.max_attempts,
        "due_at": at(job.due_at.as_ref()), "finished_at": at(job.finished_at.as_ref()),
        "deadline": at(job.deadline.as_ref()), "dead_reason": dead_reason, "error": some(&job.error),
        "cancel_requested": job.cancel_requested, "payload": decode_present(&job.payload),
        "result": decode_present(&job.result),
    })
}

fn queue_of(queue: &v1::Queue) -> Value {
    let (counts, totals) = (queue.counts.unwrap_or_default(), queue.totals.unwrap_or_default());
    json!({
        "exists": true, "paused": queue.paused, "paused_until": at(queue.paused_until.as_ref()),
        "counts": {
            "scheduled": counts.scheduled, "ready": counts.ready, "waiting": counts.waiting, "leased": counts.leased,
            "done": counts.done, "dead": counts.dead, "crons": counts.crons, "groups": counts.groups,
        },
        "totals": { "created": totals.created, "leased": totals.leased, "done": totals.done, "dead": totals.dead },
    })
}

fn read_settings(args: &mut Args) -> v1::QueueSettings {
    v1::QueueSettings {
        limiter: args.part("limiter", |one| v1::Limiter {
            max: one.number("max").unwrap_or_default(),
            duration: one.duration("duration"),
        }),
        concurrency: args.number("concurrency"),
        retention: args.part("retention", |one| v1::Retention {
            done_age: one.duration("done_age"),
            done_count: one.number("done_count"),
            dead_age: one.duration("dead_age"),
            dead_count: one.number("dead_count"),
        }),
        retry: args.part("retry", read_retry),
        skip_delayed: args.take("skip_delayed").map(|value| value.as_bool().unwrap()),
    }
}

fn settings_of(settings: &v1::QueueSettings) -> Value {
    json!({
        "limiter": settings.limiter.as_ref()
            .map(|one| json!({ "max": one.max, "duration_ms": ms(one.duration.as_ref()) })),
        "concurrency": settings.concurrency,
        "retention": settings.retention.as_ref().map(|one| json!({
            "done_age_ms": ms(one.done_age.as_ref()), "done_count": one.done_count,
            "dead_age_ms": ms(one.dead_age.as_ref()), "dead_count": one.dead_count,
        })),
        "retry": settings.retry.as_ref().map(|one| json!({
            "max_attempts": one.max_attempts, "base_ms": ms(one.base.as_ref()), "jitter_percent": one.jitter_percent,
        })),
        "skip_delayed": settings.skip_delayed,
    })
}

fn read_cron(args: &mut Args) -> v1::Cron {
    let pattern = args.optional_text("pattern").map(cron::Rule::Pattern);
    v1::Cron {
        id: args.text("id"),
        time_zone: args.text("time_zone"),
        misfire: args.word("misfire", "MISFIRE_", |name| Some(v1::Misfire::from_str_name(name)?.into())),
        overlap: args.word("overlap", "OVERLAP_", |name| Some(v1::Overlap::from_str_name(name)?.into())),
        template: args.part("template", read_job),
        rule: pattern.or(args.duration("every").map(cron::Rule::Every)),
    }
}

fn cron_of(info: &v1::CronInfo) -> Value {
    let cron = info.cron.as_ref().unwrap();
    let template = cron.template.clone().unwrap_or_default();
    let (pattern, every) = match cron.rule.as_ref().unwrap() {
        cron::Rule::Pattern(pattern) => (json!(pattern), Value::Null),
        cron::Rule::Every(every) => (Value::Null, ms(Some(every))),
    };
    json!({
        "id": cron.id, "pattern": pattern, "every_ms": every, "time_zone": some(&cron.time_zone),
        "misfire": if cron.misfire == 0 { json!("fire_once") } else { word(cron.misfire().as_str_name(), "MISFIRE_") },
        "overlap": if cron.overlap == 0 { json!("skip") } else { word(cron.overlap().as_str_name(), "OVERLAP_") },
        "payload": decode_present(&template.payload), "group": some(&template.group), "priority": template.priority,
        "next_at": at(info.next_at.as_ref()), "last_at": at(info.last_at.as_ref()),
        "occurrences": info.occurrences.iter().map(|one| at(Some(one))).collect::<Vec<_>>(),
    })
}
