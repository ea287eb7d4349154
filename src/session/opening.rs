//! How a stream gets its lease: checks the Open, waits for another owner if asked to, and gathers what Opened tells.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Sessions, commit, convert,
    hints::Hint,
    limits,
    name::SessionName,
    pages::{Cursor, Listed, Walk},
    records::Record,
    store,
    take::{OpenTerms, Opened},
};
use crate::{
    error::{Error, Result},
    proto::v1,
    valkey::Lane,
};

const LEASE_DEFAULT: Duration = Duration::from_secs(30);
const LEASE_LEAST: Duration = Duration::from_secs(3);
const LEASE_MOST: Duration = Duration::from_secs(600);
const WAIT_DEFAULT: Duration = Duration::from_secs(45);
const WAIT_MOST: Duration = Duration::from_secs(600);
/// How often a waiting Open asks, whatever hints come.
const WAIT_POLL: Duration = Duration::from_millis(500);
/// How long an Open waits for one replica to have its fence.
const REPLICATE: Duration = Duration::from_secs(1);
const PRELOAD_TYPES: usize = 16;
const PRELOAD_BYTES: usize = 32 * 1024 * 1024;

/// A checked Open.
pub struct Opening {
    pub name: SessionName,
    pub terms: OpenTerms,
    on_held: v1::OnHeld,
    wait: Duration,
    preload: Vec<String>,
}

impl Opening {
    /// Checks every field.
    pub fn check(sessions: &Sessions, open: v1::Open) -> Result<Self> {
        let keyring = sessions.store.keyring.current();
        limits::id("open.session", &open.session)?;
        limits::id("open.owner", &open.owner)?;
        let writer = if open.writer_id.is_empty() { &open.owner } else { &open.writer_id };
        limits::id("open.writer_id", writer)?;
        let on_held = v1::OnHeld::try_from(open.on_held)
            .map_err(|_| Error::bad_field("open.on_held", "is no known way"))?;
        let lease_ttl =
            limits::span("open.lease_ttl", open.lease_ttl, LEASE_DEFAULT, LEASE_LEAST, LEASE_MOST)?;
        let wait =
            limits::span("open.wait_timeout", open.wait_timeout, WAIT_DEFAULT, Duration::ZERO, WAIT_MOST)?;
        if open.preload_types.len() > PRELOAD_TYPES {
            return Err(Error::bad_field("open.preload_types", "must be at most 16"));
        }
        for (n, ty) in open.preload_types.iter().enumerate() {
            limits::record_type(format!("open.preload_types[{n}]"), ty)?;
        }
        let name = SessionName::new(&keyring, limits::namespace(open.namespace)?, open.session);
        let writer = name.writer(&keyring, writer);
        let terms = OpenTerms {
            writer,
            take_over: on_held == v1::OnHeld::TakeOver,
            lease_ttl,
            min_revision: open.min_revision,
            must_exist: open.must_exist,
            resume: open.resume.map(|resume| (resume.fence, resume.revision)),
            owner: open.owner,
        };
        Ok(Self { name, terms, on_held, wait, preload: open.preload_types })
    }

    /// How long it may wait for another owner, beside its own time.
    pub fn patience(&self) -> Duration {
        if self.on_held == v1::OnHeld::Wait { self.wait } else { Duration::ZERO }
    }

    /// Takes the lease.
    pub async fn take(&self, sessions: &Sessions, timeout: Duration) -> Result<Opened> {
        let until = Instant::now() + self.patience();
        let mut hints = sessions.hints.listen(&self.name);
        let opened = loop {
            let deadline = Instant::now() + timeout;
            let held = match sessions.store.open(&self.name, &self.terms, deadline).await {
                Ok(Ok(opened)) => break Ok(opened),
                Ok(Err(held)) => held,
                Err(error) => break Err(error),
            };
            let now = Instant::now();
            if now >= until {
                break Err(held.error());
            }
            let pause = WAIT_POLL.min(held.left + Duration::from_millis(1)).min(until - now);
            let _ = tokio::time::timeout(pause, hints.recv()).await;
        };
        drop(hints);
        sessions.hints.forget(&self.name);
        let opened = opened?;
        sessions.hints.publish(&sessions.store.link, &self.name, Hint::Lease).await;
        Ok(opened)
    }

    /// What the client is told, and the records it wanted with it.
    pub async fn tell(
        &self,
        sessions: &Sessions,
        opened: &Opened,
        replicated: bool,
        deadline: Instant,
    ) -> Result<(v1::Opened, Vec<Record>)> {
        let live = if opened.created { None } else { opened.head.live() };
        let (records, complete) = self.preload(sessions, opened, deadline).await?;
        let attributes = store::attributes(&self.name, &opened.keys, live);
        let told = v1::Opened {
            fence: opened.fence,
            revision: opened.revision,
            incarnation: opened.keys.incarnation,
            created: opened.created,
            resumed: opened.resumed,
            durability: convert::durability_out(sessions.store.link.durability()).into(),
            durability_met: replicated,
            counts: convert::counts_out(store::counts(&self.name, &opened.keys, live)),
            last_op_seq: opened.last_op,
            lease_ttl: prost_types::Duration::try_from(self.terms.lease_ttl).ok(),
            attributes: attributes.map(convert::attributes_out),
            preload_complete: complete,
        };
        Ok((told, records))
    }

    async fn preload(
        &self,
        sessions: &Sessions,
        opened: &Opened,
        deadline: Instant,
    ) -> Result<(Vec<Record>, bool)> {
        let (mut records, mut size, mut complete) = (Vec::new(), 0, true);
        if opened.created || self.preload.is_empty() {
            return Ok((records, true));
        }
        let mut walk =
            Walk { ty: String::new(), cursor: Cursor::default(), limit: usize::MAX, ids_only: false };
        loop {
            let store = &sessions.store;
            let op = store.list_op(&self.name, &opened.keys, &walk, Some(&opened.head));
            let step = match Listed::parse(store.link.run(Lane::Small, op, deadline).await?)? {
                Listed::Step { scan, mut fields } => {
                    let codes: Vec<_> =
                        self.preload.iter().map(|ty| opened.keys.record.type_code(ty)).collect();
                    fields.retain(|(field, _)| codes.iter().any(|code| field.starts_with(code.as_bytes())));
                    walk.page(&opened.keys, &self.name, scan, fields)
                }
                Listed::Moved { .. } | Listed::Gone => return Err(commit::fenced(false)),
                Listed::Lost => return Err(store.lost(&self.name, deadline).await),
            };
            // The client asks for what is left out, and is told then what is wrong with it.
            complete &= step.corrupt == 0;
            size += step.records.iter().map(|record| record.value.len()).sum::<usize>();
            if size > PRELOAD_BYTES {
                return Ok((records, false));
            }
            records.extend(step.records);
            match step.next {
                // A page is cut by size; the rest of the same step follows.
                Some(next) => walk.cursor = next,
                None => break,
            }
        }
        // A walk may meet a record twice.
        let mut seen = std::collections::HashSet::new();
        records.retain(|record| seen.insert((record.ty.clone(), record.id.clone())));
        Ok((records, complete))
    }
}

/// Whether the fence reached a replica, where there is one: a failover must not give it out again.
pub async fn replicate_fence(sessions: &Sessions, name: &SessionName) -> bool {
    let store = &sessions.store;
    let mark = store.mark(name);
    !store.link.has_replicas(&mark) || store.replicas.have(&mark, Instant::now() + REPLICATE).await
}
