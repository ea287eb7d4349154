//! Between the domain and the wire.

use std::sync::Arc;

use super::{
    handle::Handle,
    header::Header,
    sealed::{self, Content, Part},
    store::{Leased, Made, Settle, soon},
};
use crate::{
    crypto::OpenError,
    error::Result,
    owner::namespace::open_error,
    proto::v1::{self, JobState},
    rpc::timestamp,
};

/// How long a job waits that only a newer sidecar can open, ms.
const NEWER: u64 = 60_000;

/// What became of a job.
pub fn enqueued(id: String, made: &Made) -> v1::Enqueued {
    v1::Enqueued {
        outcome: i32::from(made.outcome),
        id,
        number: made.number,
        state: i32::from(made.place),
        due_at: timestamp(made.due.max(1)),
        finished_at: timestamp(made.finished),
        replayed: made.replayed,
    }
}

/// Opens leased jobs. One that does not open is settled as failed for good: it would come back for ever.
pub async fn open_jobs(handle: &Arc<Handle>, leased: Vec<Leased>, lease_ms: u64) -> Result<Vec<v1::WorkJob>> {
    let queue = &handle.queue.name;
    if leased.is_empty() {
        return Ok(Vec::new());
    }
    let keys = handle.store.keys(&handle.queue, soon()).await?;
    let mut jobs = Vec::with_capacity(leased.len());
    for one in leased {
        let opened = sealed::open_content(&keys, queue, &one.payload);
        let progress = sealed::open_part(&keys, queue, one.number, Part::Progress, &one.progress);
        match opened {
            Ok(content) => jobs.push(work_job(
                queue.queue.clone(),
                &one,
                content,
                progress.unwrap_or_default(),
                lease_ms,
            )),
            // A newer sidecar may be able to.
            Err(OpenError::UnknownFormat) => {
                tracing::error!(queue = %queue.short(), number = one.number, "a job was written by a newer version");
                let (number, fence) = (one.number, one.header.fence);
                let settle = Settle {
                    number,
                    fence,
                    verdict: b'L',
                    wait: Some(NEWER),
                    sealed: Vec::new(),
                    holder: None,
                };
                let handle = Arc::clone(handle);
                tokio::spawn(async move { handle.batchers.settle(vec![settle], soon()).await });
            }
            Err(error) => {
                tracing::error!(queue = %queue.short(), number = one.number, "a job is damaged: it is dead");
                let text = open_error(error, "job").to_string();
                let settle = Settle {
                    number: one.number,
                    fence: one.header.fence,
                    verdict: b'F',
                    wait: None,
                    sealed: sealed::seal_part(&keys, queue, one.number, Part::Error, text.as_bytes()),
                    holder: None,
                };
                let handle = Arc::clone(handle);
                tokio::spawn(async move { handle.batchers.settle(vec![settle], soon()).await });
            }
        }
    }
    Ok(jobs)
}

fn work_job(queue: String, one: &Leased, content: Content, progress: Vec<u8>, lease_ms: u64) -> v1::WorkJob {
    let header = &one.header;
    // A lease's fence is the moment of its beginning in µs, or a little more.
    let leased = header.fence / 1000;
    v1::WorkJob {
        delivery: 0,
        queue,
        id: content.id,
        number: one.number,
        fence: header.fence,
        attempt: u32::from(header.attempts),
        max_attempts: u32::from(header.max_attempts),
        payload: content.payload,
        group: content.group,
        priority: u32::from(header.priority),
        due_at: timestamp(header.due.max(1)),
        leased_at: timestamp(leased),
        lease_until: timestamp(leased + lease_ms),
        created_at: timestamp(header.created),
        progress: progress.into(),
    }
}

/// A state without a look at where a pending job waits.
pub fn state(header: &Header, pending: JobState) -> JobState {
    match header.state {
        b'L' => JobState::Leased,
        b'D' => JobState::Done,
        b'X' => JobState::Dead,
        b'C' => JobState::Cancelled,
        _ => pending,
    }
}
