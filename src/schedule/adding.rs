//! Taking jobs in: one, many, and those of a webhook.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    batch, convert,
    handle::Handle,
    limits,
    rpc::Handler,
    spec::{self, Checked, Origin},
    timers::POLL_MS,
};
use crate::{
    error::{Error, Result},
    proto::v1,
};

impl Handler {
    /// See the proto.
    pub async fn enqueue(
        &self,
        request: v1::EnqueueRequest,
        deadline: Instant,
    ) -> Result<v1::EnqueueResponse> {
        let handle = self.queue(request.namespace, &request.queue)?;
        limits::request_id("request_id", &request.request_id)?;
        let job = request.job.ok_or_else(|| Error::bad_field("job", "must be given"))?;
        let checked = spec::check("job", job, Origin::Request(&request.request_id))?;
        let job = self.add(&handle, vec![checked], deadline).await?.pop();
        Ok(v1::EnqueueResponse { job, durability: self.durability() })
    }

    /// See the proto.
    pub async fn ingest(&self, request: v1::IngestRequest, deadline: Instant) -> Result<v1::IngestResponse> {
        let handle = self.queue(request.namespace, &request.queue)?;
        if request.items.is_empty() || request.items.len() > limits::INGEST_MAX {
            return Err(Error::bad_field("items", "must be 1..100"));
        }
        let check = |(n, item): (usize, v1::IngestItem)| {
            limits::id(format!("items[{n}].dedup_key"), &item.dedup_key)?;
            let job = item.job.unwrap_or_default();
            spec::check(&format!("items[{n}].job"), job, Origin::Ingest(&item.dedup_key))
        };
        let checked = request.items.into_iter().enumerate().map(check).collect::<Result<_>>()?;
        let items = self.add(&handle, checked, deadline).await?;
        Ok(v1::IngestResponse { items, durability: self.durability() })
    }

    /// See the proto.
    pub(super) async fn enqueue_batch(
        &self,
        request: v1::EnqueueBatchRequest,
        deadline: Instant,
    ) -> Result<v1::EnqueueBatchResponse> {
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
        }
        handle.tick_in(POLL_MS);
        Ok(all)
    }
}
