//! Jobs with a cap gate, between their turn and their lease: those allowed are leased, those denied are due when the cap frees.
//!
//! A denial is one for all candidates that the policy counts together: they are moved in one go, each to when its own unit frees, so
//! that many jobs behind one cap cost a walk over them a window, and not one for each unit.

use std::{collections::HashMap, sync::Arc, time::Duration};

use redis::{Value, cmd};
use tokio::time::Instant;

use super::{
    gate::{Counts, Verdict},
    handle::Handle,
    header::Header,
    queue::IN_BUCKET,
    runner, scripts, sealed,
    store::{Leased, Leases, soon},
};
use crate::{
    error::{Error, Reason, Result},
    proto::v1::{CapGate, DeadReason},
    valkey::{Lane, Op},
};

/// Jobs of one subject that get one answer of when their units free.
const STRIDE: usize = 64;
/// Denials of one round that are asked for; the rest waits for the next.
const ASKED_MOST: usize = 64;
/// Where the caps cannot be asked: tried again after this and up to 4 s more.
const AWAY: Duration = Duration::from_secs(1);

struct Candidate {
    number: u64,
    attempts: u16,
    gate: CapGate,
}

/// What a policy counts together.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Subject {
    policy: String,
    sender: Option<String>,
    recipient: Option<String>,
}

impl Subject {
    fn of(policy: &str, counts: Counts, gate: &CapGate) -> Self {
        let sender = matches!(counts, Counts::Sender | Counts::Pair).then(|| gate.sender.clone());
        let recipient = matches!(counts, Counts::Recipient | Counts::Pair).then(|| gate.recipient.clone());
        Self { policy: policy.to_owned(), sender, recipient }
    }

    fn covers(&self, gate: &CapGate) -> bool {
        gate.policies.contains(&self.policy)
            && self.sender.as_ref().is_none_or(|sender| *sender == gate.sender)
            && self.recipient.as_ref().is_none_or(|recipient| *recipient == gate.recipient)
    }
}

/// What becomes of one that is not leased now.
enum Put {
    Later(Duration),
    Dead(DeadReason),
}

/// Stands for one attempt: the same for everybody who would lease it.
fn send_id(handle: &Handle, number: u64, attempts: u16) -> String {
    format!("job:{}:{number}:{}", handle.queue.name.tag(), attempts + 1)
}

/// Decides about the candidates that a lease call has found, and leases those allowed.
pub async fn decide(
    handle: &Arc<Handle>,
    found: Leases,
    want: usize,
    lease_ms: u64,
    request: Option<&str>,
) -> Result<Leases> {
    let leased: Vec<_> = found.leased.iter().map(|job| (job.number, job.header.fence)).collect();
    let decided = ask(handle, found, want, lease_ms, request).await;
    if decided.is_err() {
        // Nobody would work on them until their lease ends, and it would count.
        runner::give_back(handle, leased);
    }
    decided
}

async fn ask(
    handle: &Arc<Handle>,
    mut found: Leases,
    want: usize,
    lease_ms: u64,
    request: Option<&str>,
) -> Result<Leases> {
    let candidates = open(handle, std::mem::take(&mut found.gated)).await?;
    let room = want.saturating_sub(found.leased.len());
    let namespace = &handle.queue.name.namespace;
    let (mut allowed, mut put) = (Vec::new(), Vec::new());
    let mut denied: Vec<(Subject, CapGate, Vec<usize>)> = Vec::new();
    let mut first: HashMap<Subject, Duration> = HashMap::new();
    for (at, one) in candidates.iter().enumerate() {
        if let Some((_, _, behind)) = denied.iter_mut().find(|(subject, ..)| subject.covers(&one.gate)) {
            behind.push(at);
            continue;
        }
        if allowed.len() >= room || denied.len() >= ASKED_MOST {
            break;
        }
        if one.gate.policies.is_empty() {
            allowed.push(at);
            continue;
        }
        let id = send_id(handle, one.number, one.attempts);
        match handle.gate.consume(namespace, &one.gate, &id, soon()).await {
            Ok(Verdict::Allowed) => allowed.push(at),
            Ok(Verdict::Denied { policy, counts, retry_after }) => {
                let subject = Subject::of(&policy, counts, &one.gate);
                first.insert(subject.clone(), retry_after);
                denied.push((subject, one.gate.clone(), vec![at]));
            }
            Ok(Verdict::Never) => put.push((at, Put::Dead(DeadReason::CapNever))),
            Ok(Verdict::Unknown) => put.push((at, Put::Dead(DeadReason::CapConfig))),
            Err(error) => {
                // Whatever it is, it is this job's cap that cannot be asked: the others go on.
                if error.reason() != Reason::DeadlineExceeded && !is_away(&error) {
                    tracing::error!(queue = %handle.queue.name.short(), %error, "a job's cap could not be asked");
                }
                put.push((at, Put::Later(AWAY + jitter())));
            }
        }
    }
    for (subject, gate, behind) in denied {
        metrics::counter!("pannier_job_cap_denied_total").increment(behind.len() as u64);
        let mut due_in = first.get(&subject).copied().unwrap_or(AWAY);
        for (n, at) in behind.into_iter().enumerate() {
            if n > 0 && n % STRIDE == 0 {
                let unit = u32::try_from(n + 1).unwrap_or(u32::MAX);
                let later = handle.gate.unit_after(namespace, &gate, &subject.policy, unit, soon()).await;
                due_in = later.ok().flatten().unwrap_or(due_in).max(due_in);
            }
            put.push((at, Put::Later(due_in)));
        }
    }
    defer(handle, &candidates, put).await?;
    if allowed.is_empty() {
        return Ok(found);
    }
    lease(handle, found, (&candidates, &allowed), (room, lease_ms), request).await
}

fn is_away(error: &Error) -> bool {
    matches!(error.reason(), Reason::ValkeyUnreachable | Reason::Starting | Reason::Busy)
}

fn jitter() -> Duration {
    let mut bytes = [0; 2];
    let _ = getrandom::fill(&mut bytes);
    Duration::from_millis(u64::from(u16::from_be_bytes(bytes)) * 4_000 / 65_536)
}

async fn open(handle: &Arc<Handle>, gated: Vec<Leased>) -> Result<Vec<Candidate>> {
    let keys = handle.store.keys(&handle.queue, soon()).await?;
    let mut candidates = Vec::with_capacity(gated.len());
    for one in gated {
        // A damaged one is let through to its lease, where it ends.
        let gate = sealed::open_content(&keys, &handle.queue.name, &one.payload)
            .ok()
            .and_then(|content| content.cap);
        candidates.push(Candidate {
            number: one.number,
            attempts: one.header.attempts,
            gate: gate.unwrap_or_default(),
        });
    }
    Ok(candidates)
}

/// Moves those that are not leased now.
async fn defer(handle: &Arc<Handle>, candidates: &[Candidate], put: Vec<(usize, Put)>) -> Result<()> {
    if put.is_empty() {
        return Ok(());
    }
    let mut args = vec![Vec::new()];
    for (at, put) in put {
        let one = &candidates[at];
        let (kind, ms) = match put {
            Put::Later(wait) => {
                (b'D', u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
            }
            Put::Dead(reason) => (b'X', u64::try_from(reason as i32).unwrap_or(0)),
        };
        let mut packed = Vec::with_capacity(15);
        packed.extend(&one.number.to_be_bytes()[2..]);
        packed.extend(one.attempts.to_be_bytes());
        packed.push(kind);
        packed.extend(&ms.min((1 << 47) - 1).to_be_bytes()[2..]);
        args.push(packed);
    }
    handle.script(&scripts::DEFER, args, soon()).await?;
    handle.tick_in(1_000);
    Ok(())
}

/// Leases those allowed; what they took of the cap goes back if they can never be leased.
async fn lease(
    handle: &Arc<Handle>,
    mut found: Leases,
    (candidates, allowed): (&[Candidate], &[usize]),
    (room, lease_ms): (usize, u64),
    request: Option<&str>,
) -> Result<Leases> {
    let numbers: Vec<u64> = allowed.iter().map(|at| candidates[*at].number).collect();
    let mut second =
        handle.store.lease(&handle.queue, room, lease_ms, (&numbers, 20), request, soon()).await?;
    let left: Vec<&Candidate> = allowed
        .iter()
        .map(|at| &candidates[*at])
        .filter(|one| second.leased.iter().all(|leased| leased.number != one.number))
        .collect();
    if !left.is_empty() {
        refund(handle, &left).await?;
    }
    second.leased.splice(0..0, found.leased.drain(..));
    second.gated.clear();
    Ok(second)
}

async fn refund(handle: &Arc<Handle>, left: &[&Candidate]) -> Result<()> {
    let ops: Vec<_> = left
        .iter()
        .map(|one| {
            let mut read = cmd("HGET");
            read.arg(handle.queue.bucket(one.number / IN_BUCKET)).arg(one.number % IN_BUCKET);
            Op::Cmd(read)
        })
        .collect();
    let stored = handle.store.link.read(Lane::Small, &ops, soon()).await?;
    let until: Instant = soon();
    for (one, raw) in left.iter().zip(stored) {
        let header = match raw {
            Value::BulkString(raw) => Header::parse(&raw),
            _ => None,
        };
        let never = header.is_none_or(|header| matches!(header.state, b'D' | b'X' | b'C'));
        if never {
            let id = send_id(handle, one.number, one.attempts);
            handle.gate.refund(&handle.queue.name.namespace, &id, until).await?;
        }
    }
    Ok(())
}
