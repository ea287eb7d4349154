//! The door of the schedule capability: proto in, proto out.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{
    Schedules, batch, convert,
    handle::Handle,
    limits, poll,
    spec::{self, Checked, Origin},
    stream,
};
use crate::{
    error::{Error, Result},
    proto::v1::{
        self,
        schedule_service_server::{ScheduleService, ScheduleServiceServer},
    },
    rpc::{MESSAGE_MAX, Reply, UNARY, answer, durability_out},
};

/// The gRPC service.
pub fn service(schedules: Arc<Schedules>) -> ScheduleServiceServer<Handler> {
    ScheduleServiceServer::new(Handler { schedules })
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX)
}

/// Handles schedule calls.
pub struct Handler {
    schedules: Arc<Schedules>,
}

impl Handler {
    fn queue(&self, namespace: String, queue: &str) -> Result<Arc<Handle>> {
        limits::id("queue", queue)?;
        Ok(self.schedules.handle(&limits::namespace(namespace)?, queue))
    }

    fn durability(&self) -> i32 {
        durability_out(self.schedules.store.link.durability()).into()
    }

    /// Seals and adds checked jobs.
    async fn add(
        &self,
        handle: &Arc<Handle>,
        checked: Vec<Checked>,
        deadline: Instant,
    ) -> Result<Vec<v1::Enqueued>> {
        let keys = handle.store.keys(&handle.queue, deadline).await?;
        let keyring = handle.store.keyring.current();
        let mut all = Vec::with_capacity(checked.len());
        let mut rest = checked.into_iter().peekable();
        while rest.peek().is_some() {
            let items: Vec<_> = rest
                .by_ref()
                .take(batch::TOGETHER)
                .map(|checked| checked.seal(&keyring, &keys, &handle.queue.name))
                .collect();
            let ids: Vec<_> = items.iter().map(|item| item.id.clone()).collect();
            let made = handle.batchers.add(items, deadline).await?;
            all.extend(ids.into_iter().zip(&made).map(|(id, made)| convert::enqueued(id, made)));
            for one in &made {
                if one.place == v1::JobState::Scheduled as u8 {
                    handle.tick_in(60_000);
                }
            }
        }
        handle.tick_in(60_000);
        Ok(all)
    }
}

#[tonic::async_trait]
impl ScheduleService for Handler {
    async fn enqueue(&self, request: Request<v1::EnqueueRequest>) -> Reply<v1::EnqueueResponse> {
        answer(request, UNARY, async |request: v1::EnqueueRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            limits::request_id("request_id", &request.request_id)?;
            let job = request.job.ok_or_else(|| Error::bad_field("job", "must be given"))?;
            let checked = spec::check("job", job, Origin::Request(&request.request_id))?;
            let job = self.add(&handle, vec![checked], deadline).await?.pop();
            Ok(v1::EnqueueResponse { job, durability: self.durability() })
        })
        .await
    }

    async fn enqueue_batch(
        &self,
        request: Request<v1::EnqueueBatchRequest>,
    ) -> Reply<v1::EnqueueBatchResponse> {
        answer(request, UNARY, async |request: v1::EnqueueBatchRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            limits::request_id("request_id", &request.request_id)?;
            if request.jobs.is_empty() || request.jobs.len() > limits::BATCH_MAX {
                return Err(Error::bad_field("jobs", "must be 1..1000"));
            }
            let checked = request
                .jobs
                .into_iter()
                .enumerate()
                .map(|(n, job)| {
                    let id = format!("{}#{n}", request.request_id);
                    spec::check(&format!("jobs[{n}]"), job, Origin::Request(&id))
                })
                .collect::<Result<_>>()?;
            let jobs = self.add(&handle, checked, deadline).await?;
            Ok(v1::EnqueueBatchResponse { jobs, durability: self.durability() })
        })
        .await
    }

    async fn ingest(&self, request: Request<v1::IngestRequest>) -> Reply<v1::IngestResponse> {
        answer(request, UNARY, async |request: v1::IngestRequest, deadline| {
            let handle = self.queue(request.namespace, &request.queue)?;
            if request.items.is_empty() || request.items.len() > limits::INGEST_MAX {
                return Err(Error::bad_field("items", "must be 1..100"));
            }
            let checked = request
                .items
                .into_iter()
                .enumerate()
                .map(|(n, item)| {
                    limits::id(format!("items[{n}].dedup_key"), &item.dedup_key)?;
                    spec::check(
                        &format!("items[{n}].job"),
                        item.job.unwrap_or_default(),
                        Origin::Ingest(&item.dedup_key),
                    )
                })
                .collect::<Result<_>>()?;
            let items = self.add(&handle, checked, deadline).await?;
            Ok(v1::IngestResponse { items, durability: self.durability() })
        })
        .await
    }

    type WorkStream = ReceiverStream<Result<v1::WorkResponse, Status>>;

    async fn work(&self, request: Request<Streaming<v1::WorkRequest>>) -> Reply<Self::WorkStream> {
        if self.schedules.draining.is_cancelled() {
            return Err(self.schedules.stopping().to_status());
        }
        Ok(Response::new(stream::serve(Arc::clone(&self.schedules), request.into_inner())))
    }

    async fn lease_jobs(&self, request: Request<v1::LeaseJobsRequest>) -> Reply<v1::LeaseJobsResponse> {
        let wait = request.get_ref().wait;
        let wait = limits::wait("wait", wait.as_ref(), poll::WAIT_MAX).map_err(Status::from)?;
        answer(
            request,
            UNARY + std::time::Duration::from_millis(wait),
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
    // STUBS

    async fn get_job(&self, _: Request<v1::GetJobRequest>) -> Reply<v1::GetJobResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn list_jobs(&self, _: Request<v1::ListJobsRequest>) -> Reply<v1::ListJobsResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn cancel_job(&self, _: Request<v1::CancelJobRequest>) -> Reply<v1::CancelJobResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn reschedule_job(&self, _: Request<v1::RescheduleJobRequest>) -> Reply<v1::RescheduleJobResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn promote_job(&self, _: Request<v1::PromoteJobRequest>) -> Reply<v1::PromoteJobResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn retry_dead(&self, _: Request<v1::RetryDeadRequest>) -> Reply<v1::RetryDeadResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn delete_dead(&self, _: Request<v1::DeleteDeadRequest>) -> Reply<v1::DeleteDeadResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn configure_queue(
        &self,
        _: Request<v1::ConfigureQueueRequest>,
    ) -> Reply<v1::ConfigureQueueResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn get_queue(&self, _: Request<v1::GetQueueRequest>) -> Reply<v1::GetQueueResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn list_queues(&self, _: Request<v1::ListQueuesRequest>) -> Reply<v1::ListQueuesResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn pause_queue(&self, _: Request<v1::PauseQueueRequest>) -> Reply<v1::PauseQueueResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn resume_queue(&self, _: Request<v1::ResumeQueueRequest>) -> Reply<v1::ResumeQueueResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn purge_queue(&self, _: Request<v1::PurgeQueueRequest>) -> Reply<v1::PurgeQueueResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn upsert_cron(&self, _: Request<v1::UpsertCronRequest>) -> Reply<v1::UpsertCronResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn delete_cron(&self, _: Request<v1::DeleteCronRequest>) -> Reply<v1::DeleteCronResponse> {
        Err(Status::unimplemented("not yet"))
    }

    async fn list_crons(&self, _: Request<v1::ListCronsRequest>) -> Reply<v1::ListCronsResponse> {
        Err(Status::unimplemented("not yet"))
    }

    type WatchQueueStream = ReceiverStream<Result<v1::WatchQueueResponse, Status>>;

    async fn watch_queue(&self, _: Request<v1::WatchQueueRequest>) -> Reply<Self::WatchQueueStream> {
        Err(Status::unimplemented("not yet"))
    }
    // END STUBS
}
