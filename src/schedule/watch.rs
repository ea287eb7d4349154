//! What happens in a queue, told as it happens. Scripts publish numbers only, and only while somebody watches; ids are read from the
//! jobs themselves. What may have been lost is said to be.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::{broadcast::error::RecvError, mpsc},
    time::{Instant, interval},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{Schedules, handle::Handle, listing, scripts, stopping, store::soon};
use crate::{
    error::Result,
    proto::v1::{self, watch_queue_response::Event},
    rpc::timestamp,
};

/// Events that wait for the client; beyond, it has fallen behind.
const AHEAD: usize = 1024;
/// Scripts publish events for so long after somebody last said that it watches, ms.
const WATCHED: u64 = 30_000;
const SAY: Duration = Duration::from_secs(10);

type Out = mpsc::Sender<Result<v1::WatchQueueResponse, Status>>;

/// Starts telling.
pub fn serve(
    schedules: Arc<Schedules>,
    handle: Arc<Handle>,
) -> ReceiverStream<Result<v1::WatchQueueResponse, Status>> {
    let (out, outgoing) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        if let Err(error) = run(&schedules, &handle, &out).await {
            let _ = out.send(Err(error.to_status())).await;
        }
    });
    ReceiverStream::new(outgoing)
}

fn bare(event: Event) -> v1::WatchQueueResponse {
    v1::WatchQueueResponse { event: event.into(), ..Default::default() }
}

async fn say(handle: &Arc<Handle>, deadline: Instant) -> Result<()> {
    // A queue that does not exist yet is made: what happens in it first is to be told too.
    handle.store.make(&handle.queue, deadline).await?;
    let name = handle.store.sealed_name(&handle.queue);
    let args = vec![name, b"wt".to_vec(), format!("+{WATCHED}").into_bytes()];
    handle.script(&scripts::CONFIGURE, args, deadline).await?;
    handle.store.made(&handle.queue, deadline).await
}

async fn run(schedules: &Schedules, handle: &Arc<Handle>, out: &Out) -> Result<()> {
    let link = &handle.store.link;
    let mut state = link.state();
    let mut messages = link.subscribe(&handle.queue.event_channel()).await;
    say(handle, soon()).await?;
    state.mark_unchanged();
    let _ = out.send(Ok(bare(Event::Watching))).await;
    let mut again = interval(SAY);
    again.reset();
    let mut behind = false;
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                Ok(message) => behind |= !tell(handle, &message, out).await?,
                // What waits is older than the resync: told as well, it would only make it fall behind again.
                Err(RecvError::Lagged(_)) => {
                    messages = messages.resubscribe();
                    behind = true;
                }
                Err(RecvError::Closed) => {
                    messages = link.subscribe(&handle.queue.event_channel()).await;
                    behind = true;
                }
            },
            _ = again.tick() => say(handle, soon()).await?,
            // A new connection: what was published while there was none is lost.
            _ = state.changed() => behind = true,
            () = schedules.draining.cancelled() => return Err(stopping()),
            () = out.closed() => return Ok(()),
        }
        if behind && out.try_send(Ok(bare(Event::Resync))).is_ok() {
            behind = false;
        }
    }
}

/// Hands one message on; false when the client has fallen behind.
async fn tell(handle: &Arc<Handle>, message: &Bytes, out: &Out) -> Result<bool> {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let Some((at, events)) = message.split_at_checked(6) else { return Ok(true) };
    let at = timestamp(number(at));
    let events: Vec<(u8, u64)> =
        events.chunks_exact(7).map(|event| (event[0], number(&event[1..]))).collect();
    if out.capacity() < events.len() {
        return Ok(false);
    }
    let numbers: Vec<u64> = events.iter().map(|(_, number)| *number).collect();
    let ids = listing::ids(handle, &numbers, soon()).await?;
    for ((event, number), id) in events.into_iter().zip(ids) {
        let told = v1::WatchQueueResponse { event: i32::from(event), number, id, at };
        if out.try_send(Ok(told)).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}
