//! For clients that cannot stream: the same leases, one call at a time.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, sleep_until};

use super::{Schedules, convert, handle::Handle, limits, settling};
use crate::{
    error::{Error, Result},
    owner::request::blinded,
    proto::v1::{self, extend_jobs_response::Outcome},
};

/// The longest wait for a first job, ms.
pub const WAIT_MAX: u64 = 60_000;
/// Between two looks while nothing is said.
const POLL: Duration =
    if cfg!(feature = "test-clock") { Duration::from_millis(50) } else { Duration::from_secs(1) };
const ITEMS_MAX: usize = 100;

/// Leases jobs; waits for the first.
pub async fn lease(
    schedules: &Schedules,
    handle: &Arc<Handle>,
    request_id: &str,
    max: usize,
    lease_ms: u64,
    wait: u64,
    deadline: Instant,
) -> Result<Vec<v1::WorkJob>> {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let until = Instant::now() + Duration::from_millis(wait);
    let keyring = handle.store.keyring.current();
    let mark = blinded(&keyring, "job-lease", handle.queue.name.tag(), request_id);
    let mark = URL_SAFE_NO_PAD.encode(mark);
    let mut pulse = handle.queue.pulse();
    let mut wakes = handle.store.link.subscribe(&handle.queue.wake_channel()).await;
    loop {
        pulse.mark_unchanged();
        let mut found =
            handle.store.lease(&handle.queue, max, lease_ms, (&[], max + 20), Some(&mark), deadline).await?;
        let asked = !found.gated.is_empty() && found.leased.is_empty();
        if asked {
            found = super::gated::decide(handle, found, max, lease_ms, Some(&mark)).await?;
        }
        if found.first_lease_end > 0 {
            handle.tick_in(found.first_lease_end.saturating_sub(found.now) + 1);
        }
        if !found.leased.is_empty() {
            handle.tick_in(lease_ms + 1);
            return convert::open_jobs(handle, found.leased, lease_ms).await;
        }
        // Those whose cap denies have made way: who is behind them has not been looked at.
        let more = found.again || (asked && found.not_before <= found.now);
        if more && Instant::now() < deadline && !schedules.draining.is_cancelled() {
            sleep(Duration::from_millis(1)).await;
            continue;
        }
        if Instant::now() >= until || schedules.draining.is_cancelled() {
            return Ok(Vec::new());
        }
        let mut next = (Instant::now() + POLL).min(until);
        for at in [found.first_due, found.not_before] {
            if at > found.now {
                next = next.min(Instant::now() + Duration::from_millis(at - found.now));
            }
        }
        tokio::select! {
            () = sleep_until(next) => {}
            _ = pulse.changed() => {}
            _ = wakes.recv() => {}
            () = schedules.draining.cancelled() => {}
        }
    }
}

fn bounds(field: &str, count: usize) -> Result<()> {
    if (1..=ITEMS_MAX).contains(&count) { Ok(()) } else { Err(Error::bad_field(field, "must be 1..100")) }
}

fn lease_of(field: &str, number: u64, fence: u64) -> Result<(u64, u64)> {
    if number == 0 || number >= 1 << 48 || fence >= 1 << 53 {
        return Err(Error::bad_field(field, "is no lease"));
    }
    Ok((number, fence))
}

/// Settles as done.
pub async fn ack(
    handle: &Arc<Handle>,
    acks: Vec<v1::ack_jobs_request::Ack>,
    deadline: Instant,
) -> Result<Vec<i32>> {
    bounds("acks", acks.len())?;
    let mut items = Vec::with_capacity(acks.len());
    for (n, ack) in acks.iter().enumerate() {
        let lease = lease_of(&format!("acks[{n}]"), ack.number, ack.fence)?;
        limits::bytes(format!("acks[{n}].result"), ack.result.len(), limits::RESULT_MAX)?;
        items.push(
            settling::packed(handle, lease, v1::NackVerdict::Unspecified, (&ack.result, ""), None).await?,
        );
    }
    handle.tick_in(1_000);
    handle.batchers.settle(items, deadline).await
}

/// Settles otherwise.
pub async fn nack(
    handle: &Arc<Handle>,
    nacks: Vec<v1::nack_jobs_request::Nack>,
    deadline: Instant,
) -> Result<Vec<i32>> {
    bounds("nacks", nacks.len())?;
    let mut items = Vec::with_capacity(nacks.len());
    for (n, nack) in nacks.iter().enumerate() {
        let lease = lease_of(&format!("nacks[{n}]"), nack.number, nack.fence)?;
        limits::bytes(format!("nacks[{n}].error"), nack.error.len(), limits::ERROR_MAX)?;
        let verdict = match v1::NackVerdict::try_from(nack.verdict) {
            Ok(verdict) if verdict != v1::NackVerdict::Unspecified => verdict,
            _ => {
                return Err(Error::bad_field(
                    format!("nacks[{n}].verdict"),
                    "must be RETRY, FAIL or RELEASE",
                ));
            }
        };
        let wait = limits::retry_after(&format!("nacks[{n}].retry_after"), nack.retry_after.as_ref())?;
        items.push(settling::packed(handle, lease, verdict, (&[], &nack.error), wait).await?);
    }
    handle.tick_in(1_000);
    handle.batchers.settle(items, deadline).await
}

/// Renews.
pub async fn extend(
    handle: &Arc<Handle>,
    leases: Vec<v1::LeaseRef>,
    lease_ms: u64,
    deadline: Instant,
) -> Result<Vec<i32>> {
    bounds("leases", leases.len())?;
    let leases = leases
        .iter()
        .enumerate()
        .map(|(n, lease)| lease_of(&format!("leases[{n}]"), lease.number, lease.fence))
        .collect::<Result<Vec<_>>>()?;
    let renewed = handle.store.renew(&handle.queue, &leases, lease_ms, deadline).await?;
    Ok(renewed
        .into_iter()
        .map(|renewed| match renewed {
            0 => Outcome::LeaseLost as i32,
            2 => Outcome::CancelRequested as i32,
            _ => Outcome::Extended as i32,
        })
        .collect())
}
