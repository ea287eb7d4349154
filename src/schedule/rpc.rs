//! The door of the schedule capability: proto in, proto out.

use std::{sync::Arc, time::Duration};

use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{
    Schedules, crons,
    handle::Handle,
    jobs::{self, Dead},
    limits, listing, poll, settings, stopping, stream, watch,
};
use crate::{
    error::{Error, Result},
    owner::catalog::{self, Place},
    proto::v1::{
        self,
        schedule_service_server::{ScheduleService, ScheduleServiceServer},
    },
    rpc::{MESSAGE_MAX, OWNERS_DEFAULT, Reply, UNARY, answer, durability_out, page, timestamp},
};

/// The gRPC service.
pub fn service(schedules: Arc<Schedules>) -> ScheduleServiceServer<Handler> {
    ScheduleServiceServer::new(Handler::new(schedules))
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX)
}

/// Handles schedule calls, whichever way they come in. Clones are the same.
#[derive(Clone)]
pub struct Handler {
    schedules: Arc<Schedules>,
}

impl Handler {
    /// Of these queues.
    pub fn new(schedules: Arc<Schedules>) -> Self {
        Self { schedules }
    }

    pub(super) fn queue(&self, namespace: String, queue: &str) -> Result<Arc<Handle>> {
        limits::id("queue", queue)?;
        Ok(self.schedules.handle(&limits::namespace(namespace)?, queue))
    }

    pub(super) fn durability(&self) -> i32 {
        durability_out(self.schedules.store.link.durability()).into()
    }
}

#[tonic::async_trait]
impl ScheduleService for Handler {
    async fn enqueue(&self, request: Request<v1::EnqueueRequest>) -> Reply<v1::EnqueueResponse> {
        answer(request, UNARY, |request, deadline| Self::enqueue(self, request, deadline)).await
    }

    async fn enqueue_batch(
        &self,
        request: Request<v1::EnqueueBatchRequest>,
    ) -> Reply<v1::EnqueueBatchResponse> {
        answer(request, UNARY, |request, deadline| Self::enqueue_batch(self, request, deadline)).await
    }

    async fn ingest(&self, request: Request<v1::IngestRequest>) -> Reply<v1::IngestResponse> {
        answer(request, UNARY, |request, deadline| Self::ingest(self, request, deadline)).await
    }

    type WorkStream = ReceiverStream<Result<v1::WorkResponse, Status>>;

    async fn work(&self, request: Request<Streaming<v1::WorkRequest>>) -> Reply<Self::WorkStream> {
        if self.schedules.draining.is_cancelled() {
            return Err(stopping().to_status());
        }
        Ok(Response::new(stream::serve(Arc::clone(&self.schedules), request.into_inner())))
    }

    async fn lease_jobs(&self, request: Request<v1::LeaseJobsRequest>) -> Reply<v1::LeaseJobsResponse> {
        let wait = request.get_ref().wait;
        let wait = limits::wait("wait", wait.as_ref(), poll::WAIT_MAX).map_err(Status::from)?;
        answer(
            request,
            UNARY + Duration::from_millis(wait),
            async |request: v1::LeaseJobsRequest, deadline| {
                let handle = self.queue(request.namespace, &request.queue)?;
                limits::request_id("request_id", &request.request_id)?;
                let lease_ms = limits::lease("lease", request.lease)?;
                let max = match request.max {
                    0 => 1,
                    max @ 1..=100 => max as usize,
                    _ => return Err(Error::bad_field("max", "must be 1..100")),
                };
                let jobs =
                    poll::lease(&self.schedules, &handle, &request.request_id, max, lease_ms, wait, deadline)
                        .await?;
                Ok(v1::LeaseJobsResponse { jobs })
            },
        )
        .await
    }

    async fn ack_jobs(&self, request: Request<v1::AckJobsRequest>) -> Reply<v1::AckJobsResponse> {
        answer(request, UNARY, async |request: v1::AckJobsRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let outcomes = poll::ack(&handle, request.acks, deadline).await?;
            Ok(v1::AckJobsResponse { outcomes })
        })
        .await
    }

    async fn nack_jobs(&self, request: Request<v1::NackJobsRequest>) -> Reply<v1::NackJobsResponse> {
        answer(request, UNARY, async |request: v1::NackJobsRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let outcomes = poll::nack(&handle, request.nacks, deadline).await?;
            Ok(v1::NackJobsResponse { outcomes })
        })
        .await
    }

    async fn extend_jobs(&self, request: Request<v1::ExtendJobsRequest>) -> Reply<v1::ExtendJobsResponse> {
        answer(request, UNARY, async |request: v1::ExtendJobsRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let lease_ms = limits::lease("lease", request.lease)?;
            let outcomes = poll::extend(&handle, request.leases, lease_ms, deadline).await?;
            Ok(v1::ExtendJobsResponse { outcomes })
        })
        .await
    }
    async fn get_job(&self, request: Request<v1::GetJobRequest>) -> Reply<v1::GetJobResponse> {
        answer(request, UNARY, async |request: v1::GetJobRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let job = jobs::get(&handle, &request.id, deadline).await?;
            Ok(v1::GetJobResponse { job: Some(job) })
        })
        .await
    }

    async fn list_jobs(&self, request: Request<v1::ListJobsRequest>) -> Reply<v1::ListJobsResponse> {
        answer(request, UNARY, async |request: v1::ListJobsRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let limit = limit(request.limit)?;
            let state = state("state", request.state)?;
            listing::list(&handle, state, &request.cursor, limit, request.with_payload, deadline).await
        })
        .await
    }

    async fn cancel_job(&self, request: Request<v1::CancelJobRequest>) -> Reply<v1::CancelJobResponse> {
        answer(request, UNARY, async |request: v1::CancelJobRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let outcome = jobs::cancel(&handle, &request.id, deadline).await?.into();
            Ok(v1::CancelJobResponse { outcome })
        })
        .await
    }

    async fn reschedule_job(
        &self,
        request: Request<v1::RescheduleJobRequest>,
    ) -> Reply<v1::RescheduleJobResponse> {
        use v1::reschedule_job_request::When;
        answer(request, UNARY, async |request: v1::RescheduleJobRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let when = match &request.when {
                None => (0, 0),
                Some(When::Delay(delay)) => (1, limits::wait("delay", Some(delay), limits::LATEST)?),
                Some(When::DueAt(due)) => (2, limits::instant("due_at", due)?),
            };
            let job = jobs::reschedule(&handle, request.id, when, deadline).await?;
            Ok(v1::RescheduleJobResponse { job: Some(job) })
        })
        .await
    }

    async fn promote_job(&self, request: Request<v1::PromoteJobRequest>) -> Reply<v1::PromoteJobResponse> {
        answer(request, UNARY, async |request: v1::PromoteJobRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let job = jobs::reschedule(&handle, request.id, (3, 0), deadline).await?;
            Ok(v1::PromoteJobResponse { job: Some(job) })
        })
        .await
    }

    async fn retry_dead(&self, request: Request<v1::RetryDeadRequest>) -> Reply<v1::RetryDeadResponse> {
        answer(request, UNARY, async |request: v1::RetryDeadRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let which = (request.ids, request.all, request.since);
            let retried = jobs::dead(&handle, Dead::Retry, which, deadline).await?;
            Ok(v1::RetryDeadResponse { retried })
        })
        .await
    }

    async fn delete_dead(&self, request: Request<v1::DeleteDeadRequest>) -> Reply<v1::DeleteDeadResponse> {
        answer(request, UNARY, async |request: v1::DeleteDeadRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let which = (request.ids, request.all, request.since);
            let deleted = jobs::dead(&handle, Dead::Delete, which, deadline).await?;
            Ok(v1::DeleteDeadResponse { deleted })
        })
        .await
    }

    async fn configure_queue(
        &self,
        request: Request<v1::ConfigureQueueRequest>,
    ) -> Reply<v1::ConfigureQueueResponse> {
        answer(request, UNARY, async |request: v1::ConfigureQueueRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let given = request.settings.unwrap_or_default();
            let settings = settings::configure(&handle, given, deadline).await?;
            Ok(v1::ConfigureQueueResponse { settings: Some(settings) })
        })
        .await
    }

    async fn get_queue(&self, request: Request<v1::GetQueueRequest>) -> Reply<v1::GetQueueResponse> {
        answer(request, UNARY, async |request: v1::GetQueueRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let queue = settings::describe(&handle, deadline).await?;
            Ok(v1::GetQueueResponse { exists: queue.is_some(), queue })
        })
        .await
    }

    async fn list_queues(&self, request: Request<v1::ListQueuesRequest>) -> Reply<v1::ListQueuesResponse> {
        answer(request, UNARY, async |request: v1::ListQueuesRequest, deadline| {
            let namespace = limits::namespace(request.namespace)?;
            let limit = page(request.limit, OWNERS_DEFAULT)?;
            let place = Place::parse(&request.cursor)?;
            let store = &self.schedules.store;
            let from = (&store.link, &*store.keyring.current());
            let found: catalog::Owners<settings::Listing> =
                catalog::owners(from, &namespace, place, limit, |_| true, deadline).await?;
            let mut queues = Vec::with_capacity(found.found.len());
            for (name, _) in found.found {
                let handle = self.schedules.handle(&namespace, &name);
                queues.extend(settings::describe(&handle, deadline).await?);
            }
            Ok(v1::ListQueuesResponse { queues, cursor: found.cursor, corrupt: found.corrupt })
        })
        .await
    }

    async fn pause_queue(&self, request: Request<v1::PauseQueueRequest>) -> Reply<v1::PauseQueueResponse> {
        answer(request, UNARY, async |request: v1::PauseQueueRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let until = settings::pause(&handle, request.r#for, deadline).await?;
            Ok(v1::PauseQueueResponse { paused_until: timestamp(until) })
        })
        .await
    }

    async fn resume_queue(&self, request: Request<v1::ResumeQueueRequest>) -> Reply<v1::ResumeQueueResponse> {
        answer(request, UNARY, async |request: v1::ResumeQueueRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let resumed = settings::resume(&handle, deadline).await?;
            Ok(v1::ResumeQueueResponse { resumed })
        })
        .await
    }

    async fn purge_queue(&self, request: Request<v1::PurgeQueueRequest>) -> Reply<v1::PurgeQueueResponse> {
        // A purge of many jobs takes its time; each step has a deadline of its own.
        answer(request, PURGE, async |request: v1::PurgeQueueRequest, _| {
            let handle = self.queue(request.namespace, &request.queue)?;
            if request.confirm != request.queue {
                return Err(Error::bad_field("confirm", "must be the name of the queue"));
            }
            let mut states = Vec::new();
            for (n, one) in request.states.into_iter().enumerate() {
                states.push(state(&format!("states[{n}]"), one)?);
            }
            if states.is_empty() {
                states.extend([v1::JobState::Scheduled, v1::JobState::Ready, v1::JobState::Waiting]);
            }
            // Whoever waits in a group goes first: else it would move up meanwhile.
            states.sort_by_key(|state| *state != v1::JobState::Waiting);
            settings::purge(&handle, states, UNARY).await
        })
        .await
    }

    async fn upsert_cron(&self, request: Request<v1::UpsertCronRequest>) -> Reply<v1::UpsertCronResponse> {
        answer(request, UNARY, async |request: v1::UpsertCronRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let cron = request.cron.ok_or_else(|| Error::bad_field("cron", "must be given"))?;
            crons::upsert(&handle, cron, deadline).await
        })
        .await
    }

    async fn delete_cron(&self, request: Request<v1::DeleteCronRequest>) -> Reply<v1::DeleteCronResponse> {
        answer(request, UNARY, async |request: v1::DeleteCronRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let deleted = crons::delete(&handle, &request.id, deadline).await?;
            Ok(v1::DeleteCronResponse { deleted })
        })
        .await
    }

    async fn list_crons(&self, request: Request<v1::ListCronsRequest>) -> Reply<v1::ListCronsResponse> {
        answer(request, UNARY, async |request: v1::ListCronsRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            let limit = limit(request.limit)?;
            if request.occurrences > 20 {
                return Err(Error::bad_field("occurrences", "must be at most 20"));
            }
            let occurrences = request.occurrences.max(1) as usize;
            crons::list(&handle, &request.cursor, limit, occurrences, deadline).await
        })
        .await
    }

    type WatchQueueStream = ReceiverStream<Result<v1::WatchQueueResponse, Status>>;

    async fn watch_queue(&self, request: Request<v1::WatchQueueRequest>) -> Reply<Self::WatchQueueStream> {
        let request = request.into_inner();
        let handle = self.queue(request.namespace, &request.queue)?;
        Ok(Response::new(watch::serve(Arc::clone(&self.schedules), handle)))
    }
}

/// A purge when the caller does not say.
const PURGE: Duration = Duration::from_secs(60);

fn state(field: &str, value: i32) -> Result<v1::JobState> {
    match v1::JobState::try_from(value) {
        Ok(state) if state != v1::JobState::Unspecified => Ok(state),
        _ => Err(Error::bad_field(field, "is none of those there are")),
    }
}

fn limit(value: u32) -> Result<usize> {
    match value {
        0 => Ok(100),
        1..=listing::LIMIT_MAX => Ok(value as usize),
        _ => Err(Error::bad_field("limit", "must be at most 500")),
    }
}
