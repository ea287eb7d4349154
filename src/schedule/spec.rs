//! A job as a client wants it, checked, sealed and packed for the script that adds it.

use super::{
    header::{FLAG_CAP, FLAG_HOLD, FLAG_INGEST},
    limits,
    queue::QueueName,
    sealed::{self, Content},
};
use crate::{
    crypto::Keyring,
    error::{Error, Result},
    owner::{namespace::NamespaceKeys, request::blinded},
    proto::v1,
    rpc::DAYS_400,
};

/// How long an id stays taken beyond its job when nothing is said, ms.
const WINDOW: u64 = 7 * 24 * 3600 * 1000;
/// The same of a job that brings none: the request's id stands for it, and requests are sent again within seconds.
const WINDOW_OF_REQUEST: u64 = 60 * 1000;
/// The same of an ingested message, from when it was first seen: the Cloud API redelivers for up to 7 days.
const WINDOW_OF_INGEST: u64 = 8 * 24 * 3600 * 1000;
const POLICIES_MAX: usize = 8;
const UNITS_MAX: u32 = 1_000_000;

/// Where a job comes from, as far as its id is concerned.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    /// Enqueue: the request, which stands for an id that is not given.
    Request(&'a str),
    /// Ingest: the dedup key is the id.
    Ingest(&'a str),
    /// A cron's occurrence.
    Cron(&'a str),
}

/// One job, ready to be added.
pub struct Item {
    /// The client's id.
    pub id: String,
    /// What the script decides by.
    pub packed: Vec<u8>,
    /// The sealed content.
    pub payload: Vec<u8>,
}

/// A checked spec; sealing and packing it cannot fail any more.
pub struct Checked {
    id: String,
    request: Option<String>,
    content: Content,
    conflict: u8,
    flags: u8,
    priority: u16,
    retry: (u16, u32, u8),
    when: (u8, u64),
    window: u64,
    deadline: (u8, u64),
}

/// Checks a spec; `field` is its path in the request.
pub fn check(field: &str, spec: v1::JobSpec, origin: Origin<'_>) -> Result<Checked> {
    let at = |name: &str| format!("{field}.{name}");
    let (id, request, mut window, mut flags) = match origin {
        Origin::Request(request) if spec.id.is_empty() => {
            (request.to_owned(), Some(request.to_owned()), WINDOW_OF_REQUEST, 0)
        }
        Origin::Request(request) => (spec.id, Some(request.to_owned()), WINDOW, 0),
        Origin::Ingest(key) | Origin::Cron(key) => {
            if !spec.id.is_empty() {
                return Err(Error::bad_field(at("id"), "must not be given here"));
            }
            if spec.unique_window.is_some() {
                return Err(Error::bad_field(at("unique_window"), "must not be given here"));
            }
            if spec.on_conflict > v1::OnConflict::Keep as i32 {
                return Err(Error::bad_field(at("on_conflict"), "must not be given here"));
            }
            match origin {
                Origin::Ingest(_) => (key.to_owned(), None, WINDOW_OF_INGEST, FLAG_INGEST),
                _ => (key.to_owned(), None, WINDOW, 0),
            }
        }
    };
    limits::id(at("id"), &id)?;
    limits::bytes(at("payload"), spec.payload.len(), limits::PAYLOAD_MAX)?;
    if let Some(given) = &spec.unique_window {
        let most = u64::try_from(DAYS_400.as_millis()).unwrap_or(u64::MAX);
        window = limits::wait(&at("unique_window"), Some(given), most)?;
    }
    if spec.hold_when_cancelled {
        flags |= FLAG_HOLD;
    }
    let when = match &spec.when {
        None => (0, 0),
        Some(v1::job_spec::When::Delay(delay)) => {
            (1, limits::wait(&at("delay"), Some(delay), limits::LATEST)?)
        }
        Some(v1::job_spec::When::DueAt(due)) => (2, limits::instant(&at("due_at"), due)?),
    };
    let deadline = match &spec.not_after {
        None => (0, 0),
        Some(v1::job_spec::NotAfter::DeadlineIn(span)) => {
            (1, limits::wait(&at("deadline_in"), Some(span), limits::LATEST)?)
        }
        Some(v1::job_spec::NotAfter::Deadline(instant)) => (2, limits::instant(&at("deadline"), instant)?),
    };
    let conflict = match v1::OnConflict::try_from(spec.on_conflict) {
        Ok(v1::OnConflict::Unspecified | v1::OnConflict::Keep) => 1,
        Ok(v1::OnConflict::Replace) => 2,
        Ok(v1::OnConflict::Reschedule) => 3,
        Err(_) => return Err(Error::bad_field(at("on_conflict"), "is none of those there are")),
    };
    if !spec.group.is_empty() {
        limits::id(at("group"), &spec.group)?;
    }
    let cap = spec.cap.map(|gate| cap(&at("cap"), gate)).transpose()?;
    if cap.is_some() {
        flags |= FLAG_CAP;
    }
    Ok(Checked {
        priority: limits::priority(&at("priority"), spec.priority)?,
        retry: limits::retry(&at("retry"), spec.retry.as_ref())?,
        content: Content { id: id.clone(), group: spec.group, cap, payload: spec.payload },
        id,
        request,
        conflict,
        flags,
        when,
        window,
        deadline,
    })
}

fn cap(field: &str, mut gate: v1::CapGate) -> Result<v1::CapGate> {
    if gate.policies.is_empty() || gate.policies.len() > POLICIES_MAX {
        return Err(Error::bad_field(format!("{field}.policies"), "must be 1..8"));
    }
    for (n, policy) in gate.policies.iter().enumerate() {
        limits::id(format!("{field}.policies[{n}]"), policy)?;
        if gate.policies[..n].contains(policy) {
            return Err(Error::bad_field(format!("{field}.policies[{n}]"), "is there twice"));
        }
    }
    for (name, value) in [("recipient", &gate.recipient), ("sender", &gate.sender)] {
        if !value.is_empty() {
            limits::id(format!("{field}.{name}"), value)?;
        }
    }
    gate.n = gate.n.max(1);
    if gate.n > UNITS_MAX {
        return Err(Error::bad_field(format!("{field}.n"), "must be 1..1000000"));
    }
    Ok(gate)
}

impl Checked {
    /// Seals and packs it.
    pub fn seal(self, keyring: &Keyring, keys: &NamespaceKeys, queue: &QueueName) -> Item {
        let id = queue.blinded_id(keyring, &self.id);
        let mut request = [0; 8];
        if let Some(given) = &self.request {
            let text = format!("{given} {}", self.id);
            request.copy_from_slice(&blinded(keyring, "job-request", queue.tag(), &text)[..8]);
        }
        let mut packed = Vec::with_capacity(70);
        packed.extend([self.conflict, self.flags]);
        packed.extend(self.priority.to_be_bytes());
        packed.extend(self.retry.0.to_be_bytes());
        packed.extend(self.retry.1.to_be_bytes());
        packed.extend([self.retry.2, self.when.0]);
        packed.extend(&self.when.1.to_be_bytes()[2..]);
        packed.extend(&self.window.to_be_bytes()[3..]);
        packed.push(self.deadline.0);
        packed.extend(&self.deadline.1.to_be_bytes()[2..]);
        packed.extend(request);
        packed.extend(id);
        if !self.content.group.is_empty() {
            packed.extend(blinded(keyring, "job-group", queue.tag(), &self.content.group));
        }
        let payload = sealed::seal_content(keys, queue, &self.content);
        Item { id: self.id, packed, payload }
    }
}
