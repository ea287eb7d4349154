//! One Work stream, from Hello to its end.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, sleep_until},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::{
    Schedules,
    batch::{TOGETHER, answered},
    hello, limits,
    settling::{check, note_progress, push, refusal},
    stopping,
    worker::{AHEAD, Out, Worker},
};
use crate::{
    error::{Error, Reason, Result},
    proto::v1,
    rpc::unreadable,
};

/// Settles of one message, and leases that Hello names.
pub const SETTLES_MAX: usize = 1_000;
const PROGRESS_MAX: usize = 100;
/// Messages of one stream that are being worked on.
const AT_ONCE: usize = 64;
const TOO_LARGE: (&str, &str) = ("message", "a message must be at most 4 MiB");
/// A settle is tried this long, and a renewal at Hello.
pub const SETTLE_WITHIN: Duration = Duration::from_secs(30);
/// A stream whose sidecar stops gets this long to settle.
const DRAIN: Duration = Duration::from_secs(6);

/// Starts serving a stream.
pub fn serve(
    schedules: Arc<Schedules>,
    incoming: Streaming<v1::WorkRequest>,
) -> ReceiverStream<Result<v1::WorkResponse, Status>> {
    let (out, outgoing) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let last = out.clone();
        if let Err(error) = run(schedules, incoming, out).await {
            let _ = last.send(Err(error.to_status())).await;
        }
    });
    ReceiverStream::new(outgoing)
}

fn protocol(message: &str) -> Error {
    Error::new(Reason::Protocol, message)
}

async fn run(schedules: Arc<Schedules>, mut incoming: Streaming<v1::WorkRequest>, out: Out) -> Result<()> {
    let first = tokio::time::timeout(limits::LEASE, incoming.message()).await;
    let mut message = match first {
        Ok(Ok(Some(message))) => message,
        Ok(Ok(None)) => return Ok(()),
        Ok(Err(status)) => return unreadable(&status, TOO_LARGE).map_or(Ok(()), Err),
        Err(_) => return Err(Error::new(Reason::DeadlineExceeded, "no Hello came")),
    };
    let hello = message.hello.take().ok_or_else(|| protocol("the first message is no hello"))?;
    let worker = hello::greet(&schedules, hello, out).await?;
    let stream = Stream { worker: Arc::clone(&worker), room: Arc::new(Semaphore::new(AT_ONCE)) };
    for handle in &worker.queues {
        handle.join(&worker);
    }
    let ended = stream.serve(&schedules, message, incoming).await;
    worker.close();
    ended
}

struct Stream {
    worker: Arc<Worker>,
    room: Arc<Semaphore>,
}

impl Stream {
    async fn serve(
        &self,
        schedules: &Schedules,
        first: v1::WorkRequest,
        mut incoming: Streaming<v1::WorkRequest>,
    ) -> Result<()> {
        let lease = Duration::from_millis(self.worker.lease_ms);
        let mut silent_until = Instant::now() + lease;
        let mut leave_at: Option<Instant> = None;
        self.take(first).await?;
        loop {
            tokio::select! {
                message = incoming.message() => {
                    let message = match message {
                        Ok(Some(message)) => message,
                        // The client has ended its side, is gone, or has sent what cannot be read.
                        ended => {
                            self.finish_work().await;
                            let unread = ended.err().and_then(|status| unreadable(&status, TOO_LARGE));
                            return unread.map_or(Ok(()), Err);
                        }
                    };
                    silent_until = Instant::now() + lease;
                    self.take(message).await?;
                }
                () = sleep_until(silent_until) => {
                    return Err(Error::new(Reason::DeadlineExceeded, "nothing came from the worker for one lease"));
                }
                () = schedules.draining.cancelled(), if leave_at.is_none() => {
                    leave_at = Some(Instant::now() + DRAIN);
                    self.worker.send(v1::WorkResponse { draining: true, ..Default::default() }).await;
                    self.worker.drain_keeping();
                }
                () = sleep_until(leave_at.unwrap_or_else(Instant::now)), if leave_at.is_some() => {
                    self.finish_work().await;
                    return Err(stopping());
                }
                () = self.worker.changed.notified() => {}
                () = self.worker.out.closed() => return Ok(()),
            }
            if self.worker.is_stuck() {
                return Err(Error::new(
                    Reason::TooManyInFlight,
                    "the worker does not read what it is sent; connect again",
                ));
            }
            if self.worker.is_done() {
                self.finish_work().await;
                return if leave_at.is_some() { Err(stopping()) } else { Ok(()) };
            }
        }
    }

    /// Waits for what is being settled, a while.
    async fn finish_work(&self) {
        let all = u32::try_from(AT_ONCE).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(Duration::from_secs(2), self.room.acquire_many(all)).await;
    }

    /// Takes one message.
    async fn take(&self, message: v1::WorkRequest) -> Result<()> {
        if message.hello.is_some() {
            return Err(protocol("hello came twice"));
        }
        if message.settles.len() > SETTLES_MAX {
            return Err(Error::bad_field("settles", "must be at most 1000"));
        }
        if message.progress.len() > PROGRESS_MAX {
            return Err(Error::bad_field("progress", "must be at most 100"));
        }
        if message.credit > limits::CREDIT_MAX {
            return Err(Error::bad_field("credit", "must be at most 1000"));
        }
        if message.received > 0 {
            self.worker.received(message.received);
        }
        // Before the settles: what they free is leased again in the same call.
        if message.credit > 0 {
            self.worker.add_credit(message.credit as usize, limits::CREDIT_MAX as usize);
        }
        // Before the settles too: how far a job was belongs to what ends it.
        if !message.progress.is_empty() {
            self.progress(message.progress).await;
        }
        let served = if message.settles.is_empty() { 0 } else { self.settle(message.settles).await };
        if message.credit > 0 {
            self.worker.wake_but(served);
        }
        if message.heartbeat {
            self.heartbeat().await;
        }
        if message.draining {
            self.worker.drain();
        }
        Ok(())
    }

    /// Hands settles over in the order in which they came, and answers when they are done. Gives the queues that have some, a bit each by
    /// their place.
    async fn settle(&self, settles: Vec<v1::WorkSettle>) -> u64 {
        let Ok(permit) = Arc::clone(&self.room).acquire_owned().await else { return 0 };
        let worker = Arc::clone(&self.worker);
        let mut response = v1::WorkResponse::default();
        let mut by_place: HashMap<usize, Vec<v1::WorkSettle>> = HashMap::new();
        for settle in settles {
            match check(&worker, &settle) {
                Ok(place) => by_place.entry(place).or_default().push(settle),
                Err(error) => response.errors.push(refusal(settle.lease, &error)),
            }
        }
        let (mut pushed, mut served) = (Vec::new(), 0);
        for (place, settles) in by_place {
            for chunk in settles.chunks(TOGETHER) {
                if let Some(settling) = push(&worker, place, chunk, &mut response).await {
                    pushed.push(settling);
                    served |= 1 << place;
                }
            }
        }
        tokio::spawn(async move {
            for settling in pushed {
                settling.done(&worker, &mut response).await;
            }
            if response != v1::WorkResponse::default() {
                worker.send(response).await;
            }
            drop(permit);
        });
        served
    }

    async fn heartbeat(&self) {
        let Ok(permit) = Arc::clone(&self.room).acquire_owned().await else { return };
        let worker = Arc::clone(&self.worker);
        tokio::spawn(async move {
            let mut response = v1::WorkResponse { renewed: 1, ..Default::default() };
            for (place, leases) in worker.leases() {
                let handle = &worker.queues[place];
                let queue = &handle.queue.name.queue;
                let until = Instant::now() + Duration::from_millis(worker.lease_ms);
                let renewed = handle.store.renew(&handle.queue, &leases, worker.lease_ms, until).await;
                let renewed = match renewed {
                    Ok(renewed) => renewed,
                    Err(error) => {
                        response.renewed = 0;
                        response.errors.push(refusal(None, &error));
                        continue;
                    }
                };
                let mut gone = Vec::new();
                for ((number, fence), renewed) in leases.into_iter().zip(renewed) {
                    let lease = v1::LeaseRef { queue: queue.clone(), number, fence };
                    match renewed {
                        0 => {
                            gone.push((number, fence));
                            response.lease_lost.push(lease);
                        }
                        2 => response.cancel_requested.push(lease),
                        _ => {}
                    }
                }
                // One that was settled meanwhile is not lost.
                let left = worker.still_held(place, &gone);
                response
                    .lease_lost
                    .retain(|lease| lease.queue != *queue || left.contains(&(lease.number, lease.fence)));
                worker.settled(place, gone.into_iter());
                handle.tick_in(worker.lease_ms + 1);
            }
            worker.send(response).await;
            drop(permit);
        });
    }

    /// As with settles: one that is said before its job's end is there before it.
    async fn progress(&self, progress: Vec<v1::WorkProgress>) {
        let Ok(permit) = Arc::clone(&self.room).acquire_owned().await else { return };
        let worker = Arc::clone(&self.worker);
        let mut response = v1::WorkResponse::default();
        let mut pushed = Vec::new();
        for one in progress {
            match note_progress(&worker, &one).await {
                Ok(answer) => pushed.push((one.lease, answer)),
                Err(error) => response.errors.push(refusal(one.lease, &error)),
            }
        }
        tokio::spawn(async move {
            for (lease, answer) in pushed {
                if let Err(error) = answered(answer, Instant::now() + SETTLE_WITHIN).await {
                    response.errors.push(refusal(lease, &error));
                }
            }
            if !response.errors.is_empty() {
                worker.send(response).await;
            }
            drop(permit);
        });
    }
}
