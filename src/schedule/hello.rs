//! The beginning of a Work stream: what Hello asks for, and which of the leases that it names still hold.

use std::{collections::HashMap, sync::Arc};

use tokio::time::Instant;

use super::{
    Schedules, limits,
    stream::{SETTLE_WITHIN, SETTLES_MAX},
    worker::{Out, Worker},
};
use crate::{
    error::{Error, Result},
    proto::v1,
    rpc::duration,
};

/// Queues of one stream.
const QUEUES_MAX: usize = 64;

/// Checks Hello, renews what it holds, and answers it.
pub async fn greet(schedules: &Arc<Schedules>, hello: v1::WorkHello, out: Out) -> Result<Arc<Worker>> {
    let namespace = limits::namespace(hello.namespace)?;
    if !hello.worker.is_empty() {
        limits::id("hello.worker", &hello.worker)?;
    }
    let lease_ms = limits::lease("hello.lease", hello.lease)?;
    if hello.queues.is_empty() || hello.queues.len() > QUEUES_MAX {
        return Err(Error::bad_field("hello.queues", "must be 1..64"));
    }
    let most = if hello.max_in_flight == 0 { limits::CREDIT_MAX } else { hello.max_in_flight };
    if most > limits::CREDIT_MAX {
        return Err(Error::bad_field("hello.max_in_flight", "must be at most 1000"));
    }
    let mut queues = Vec::new();
    for (n, queue) in hello.queues.iter().enumerate() {
        let field = format!("hello.queues[{n}]");
        limits::id(&field, queue)?;
        if hello.queues[..n].contains(queue) {
            return Err(Error::bad_field(field, "is given twice"));
        }
        queues.push(schedules.handle(&namespace, queue));
    }
    if hello.held.len() > SETTLES_MAX {
        return Err(Error::bad_field("hello.held", "must be at most 1000"));
    }
    let worker = Worker::new(lease_ms, queues, most as usize, out);
    let (mut held, mut lost) = (Vec::new(), Vec::new());
    for (place, leases) in by_queue(&worker, hello.held, &mut lost) {
        let handle = &worker.queues[place];
        let pairs: Vec<_> = leases.iter().map(|lease| (lease.number, lease.fence)).collect();
        let renewed =
            handle.store.renew(&handle.queue, &pairs, lease_ms, Instant::now() + SETTLE_WITHIN).await?;
        for (lease, renewed) in leases.into_iter().zip(renewed) {
            if renewed == 0 {
                lost.push(lease);
            } else {
                worker.adopt(place, lease.number, lease.fence);
                held.push(lease);
            }
        }
        handle.tick_in(lease_ms + 1);
    }
    let max_in_flight = most;
    let welcome = v1::WorkWelcome { lease: Some(duration(lease_ms)), max_in_flight, held };
    worker.send(v1::WorkResponse { welcome: Some(welcome), lease_lost: lost, ..Default::default() }).await;
    Ok(worker)
}

/// Leases by the place of their queue; those of queues that the stream has not named are lost to it.
fn by_queue(
    worker: &Worker,
    leases: Vec<v1::LeaseRef>,
    lost: &mut Vec<v1::LeaseRef>,
) -> HashMap<usize, Vec<v1::LeaseRef>> {
    let mut map: HashMap<usize, Vec<v1::LeaseRef>> = HashMap::new();
    for lease in leases {
        match worker.place(&lease.queue) {
            Some(place) => map.entry(place).or_default().push(lease),
            None => lost.push(lease),
        }
    }
    map
}
