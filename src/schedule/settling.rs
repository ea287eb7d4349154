//! What a worker says of its jobs, on its way from the wire to the queue: checked, sealed, and handed over in the order in which it came.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    batch::answered,
    batchers::Answer,
    handle::Handle,
    limits,
    sealed::{self, Part},
    store::{Settle, Settled, soon},
    stream::SETTLE_WITHIN,
    worker::Worker,
};
use crate::{
    error::{Error, Result},
    proto::v1,
};

/// What a stream is told of an item that was refused.
pub fn refusal(lease: Option<v1::LeaseRef>, error: &Error) -> v1::WorkError {
    v1::WorkError { lease, reason: error.reason().wire().0.to_owned(), message: error.to_string() }
}

/// The place of a settle's queue, if all is well with it.
pub fn check(worker: &Worker, settle: &v1::WorkSettle) -> Result<usize> {
    let lease = settle.lease.as_ref().ok_or_else(|| Error::bad_field("settles.lease", "must be given"))?;
    let place = worker
        .place(&lease.queue)
        .ok_or_else(|| Error::bad_field("settles.lease.queue", "is none of this stream's"))?;
    limits::bytes("settles.result", settle.result.len(), limits::RESULT_MAX)?;
    limits::bytes("settles.error", settle.error.len(), limits::ERROR_MAX)?;
    limits::retry_after("settles.retry_after", settle.retry_after.as_ref())?;
    v1::NackVerdict::try_from(settle.nack)
        .map_err(|_| Error::bad_field("settles.nack", "is none of those there are"))?;
    if lease.number >= 1 << 48 || lease.fence >= 1 << 53 {
        return Err(Error::bad_field("settles.lease", "is no lease"));
    }
    Ok(place)
}

/// The settle of the wire, for the script.
pub async fn packed(
    handle: &Arc<Handle>,
    (number, fence): (u64, u64),
    verdict: v1::NackVerdict,
    (result, error): (&[u8], &str),
    retry_after: Option<u64>,
) -> Result<Settle> {
    let queue = &handle.queue.name;
    let (verdict, part, value) = match verdict {
        v1::NackVerdict::Unspecified => (b'A', Part::Result, result),
        v1::NackVerdict::Retry => (b'R', Part::Error, error.as_bytes()),
        v1::NackVerdict::Fail => (b'F', Part::Error, error.as_bytes()),
        v1::NackVerdict::Release => (b'L', Part::Error, error.as_bytes()),
    };
    let sealed = if value.is_empty() {
        Vec::new()
    } else {
        let keys = handle.store.keys(&handle.queue, soon()).await?;
        sealed::seal_part(&keys, queue, number, part, value)
    };
    Ok(Settle { number, fence, verdict, wait: retry_after, sealed, holder: None })
}

/// Settles of one queue that were handed over.
pub struct Pushed {
    place: usize,
    leases: Vec<(u64, u64)>,
    answer: Answer<Settled>,
}

/// Seals settles and hands them over together. What cannot be is told in the response.
pub async fn push(
    worker: &Arc<Worker>,
    place: usize,
    settles: &[v1::WorkSettle],
    response: &mut v1::WorkResponse,
) -> Option<Pushed> {
    let handle = &worker.queues[place];
    let mut items = Vec::with_capacity(settles.len());
    for settle in settles {
        let lease = settle.lease.clone().unwrap_or_default();
        let verdict = v1::NackVerdict::try_from(settle.nack).unwrap_or_default();
        let wait = limits::retry_after("", settle.retry_after.as_ref()).unwrap_or_default();
        let of = (&settle.result[..], settle.error.as_str());
        match packed(handle, (lease.number, lease.fence), verdict, of, wait).await {
            Ok(item) => items.push(Settle { holder: Some(Arc::clone(worker)), ..item }),
            Err(error) => response.errors.push(refusal(settle.lease.clone(), &error)),
        }
    }
    if items.is_empty() {
        return None;
    }
    let leases: Vec<_> = items.iter().map(|item| (item.number, item.fence)).collect();
    match handle.batchers.push_settles(items, Instant::now() + SETTLE_WITHIN) {
        Ok(answer) => Some(Pushed { place, leases, answer }),
        Err(error) => {
            refuse(response, &handle.queue.name.queue, leases, &error);
            None
        }
    }
}

fn refuse(response: &mut v1::WorkResponse, queue: &str, leases: Vec<(u64, u64)>, error: &Error) {
    for (number, fence) in leases {
        let lease = v1::LeaseRef { queue: queue.to_owned(), number, fence };
        response.errors.push(refusal(Some(lease), error));
    }
}

impl Pushed {
    /// Waits for what became of them.
    pub async fn done(self, worker: &Worker, response: &mut v1::WorkResponse) {
        let handle = &worker.queues[self.place];
        let queue = &handle.queue.name.queue;
        match answered(self.answer, Instant::now() + SETTLE_WITHIN).await {
            Ok(outcomes) => {
                worker.settled(self.place, self.leases.iter().copied());
                for ((number, fence), settled) in self.leases.into_iter().zip(outcomes) {
                    if !settled.told {
                        let lease = Some(v1::LeaseRef { queue: queue.clone(), number, fence });
                        response.settled.push(v1::WorkSettled { lease, outcome: settled.outcome });
                    }
                }
                handle.tick_in(1_000);
            }
            Err(error) => refuse(response, queue, self.leases, &error),
        }
    }
}

/// Seals how far a job is, and hands it over.
pub async fn note_progress(worker: &Worker, progress: &v1::WorkProgress) -> Result<Answer<Settled>> {
    limits::bytes("progress.progress", progress.progress.len(), limits::PROGRESS_MAX)?;
    let lease = progress.lease.as_ref().ok_or_else(|| Error::bad_field("progress.lease", "must be given"))?;
    let place = worker
        .place(&lease.queue)
        .ok_or_else(|| Error::bad_field("progress.lease.queue", "is none of this stream's"))?;
    if lease.number >= 1 << 48 || lease.fence >= 1 << 53 {
        return Err(Error::bad_field("progress.lease", "is no lease"));
    }
    let handle = &worker.queues[place];
    let keys = handle.store.keys(&handle.queue, soon()).await?;
    let sealed =
        sealed::seal_part(&keys, &handle.queue.name, lease.number, Part::Progress, &progress.progress);
    let (number, fence) = (lease.number, lease.fence);
    let settle = Settle { number, fence, verdict: b'P', wait: None, sealed, holder: None };
    handle.batchers.push_settles(vec![settle], Instant::now() + SETTLE_WITHIN)
}
