//! The lease a stream holds: under which fence and keys its requests run, what has been acknowledged on it, and what an
//! answer of Valkey means for it.

use std::{collections::HashMap, pin::Pin, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Sessions,
    attributes::Attributes,
    batch::{Again, Astray, Batch, Done, Item, Sender, Sent, Work},
    commit::{self, Outcome},
    convert,
    head::{Head, Incarnation},
    hints::Hint,
    keys::SessionKeys,
    lifecycle::{ClearTerms, Cleared},
    name::{KIND, SessionName},
    opening::Opening,
    pages::Step,
    records::Record,
    store,
    take::Opened,
};
use crate::{
    error::{Error, Reason},
    proto::v1::{self, attach_response::Event},
    telemetry,
    valkey::Lane,
};

/// A lease that is held.
pub struct Lease {
    pub name: SessionName,
    pub ttl: Duration,
    pub writer: [u8; 8],
    pub renew_at: Instant,
    /// Somebody else has changed records; the next renewal tells by how much.
    pub records_changed: bool,
    /// Bytes of the largest record known of: how much one write may ask for follows from it.
    pub largest: usize,
    owner: String,
    keys: Arc<SessionKeys>,
    fence: u64,
    /// The session's revision as last seen.
    base: u64,
    /// The highest revision and op_seqs acknowledged: a store behind them is an old copy.
    acknowledged: u64,
    acknowledged_ops: HashMap<[u8; 8], u64>,
    attributes: Attributes,
    /// Somebody else has written, perhaps attributes too.
    attributes_stale: bool,
    head: Arc<Head>,
    deleted: bool,
}

/// What an item's answer means for the stream.
pub enum Settled {
    Answer(Event),
    Records(u64, Vec<Record>),
    Page(Step),
    Error(Error),
    Again(Again),
    /// The stream ends with this event, and this error if it was not in peace.
    End(Event, Option<Error>),
    Nothing,
}

impl Lease {
    /// What an Open took.
    pub fn new(_sessions: &Sessions, opening: Opening, opened: Opened) -> Self {
        let Opening { name, terms, .. } = opening;
        let live = if opened.created { None } else { opened.head.live() };
        let attributes = store::attributes(&name, &opened.keys, live).unwrap_or_default();
        let resumed = terms.resume.map_or(0, |(_, revision)| revision);
        Self {
            ttl: terms.lease_ttl,
            writer: terms.writer,
            renew_at: Instant::now() + terms.lease_ttl / 3,
            records_changed: false,
            largest: mean(live),
            owner: terms.owner,
            keys: opened.keys,
            fence: opened.fence,
            base: opened.revision,
            acknowledged: terms.min_revision.max(resumed),
            acknowledged_ops: HashMap::new(),
            attributes,
            attributes_stale: false,
            head: Arc::new(Head { writers: Vec::new(), ..opened.head }),
            deleted: false,
            name,
        }
    }

    /// For the next batch.
    pub fn sender(&self, sessions: &Sessions) -> Sender {
        Sender {
            store: Arc::clone(&sessions.store),
            name: self.name.clone(),
            keys: Arc::clone(&self.keys),
            fence: self.fence,
            lease_ttl: self.ttl,
            base: self.base,
            acknowledged: self.acknowledged,
            attributes: self.attributes.clone(),
            attributes_stale: self.attributes_stale,
            head: Arc::clone(&self.head),
        }
    }

    /// Attributes as they stand after a commit; a falling pre-key counter is reported.
    fn merge_attributes(&mut self, newer: Attributes) {
        if let (Some(before), Some(after)) = (self.attributes.next_pre_key_id, newer.next_pre_key_id)
            && after < before
        {
            tracing::warn!(owner = %store::short(&self.name), before, after, "next_pre_key_id fell: was old state put back?");
            metrics::counter!("pannier_session_pre_key_id_fell_total").increment(1);
        }
        self.attributes.merge(newer);
    }

    fn note_sizes(&mut self, sizes: impl Iterator<Item = usize>) {
        self.largest = sizes.fold(self.largest, usize::max);
    }

    /// Takes in attributes that were read again.
    pub fn attributes_read(&mut self, attributes: Attributes) {
        self.attributes = attributes;
        self.attributes_stale = false;
    }

    /// Runs what cannot share a write: a Clear or a Close.
    pub fn alone(
        &self,
        sessions: &Arc<Sessions>,
        items: Vec<Item>,
    ) -> Pin<Box<dyn Future<Output = Batch> + Send>> {
        let store = Arc::clone(&sessions.store);
        let (name, keys, fence, ttl, owner) =
            (self.name.clone(), Arc::clone(&self.keys), self.fence, self.ttl, self.owner.clone());
        Box::pin(async move {
            let sent = Sent { at: Instant::now(), replicated: false };
            let mut done = Vec::new();
            for item in &items {
                done.push(match &item.work {
                    Work::Clear { writer, op_seq, incarnation } => {
                        let terms = ClearTerms {
                            incarnation: incarnation.unwrap_or(keys.incarnation),
                            fence,
                            lease_ttl: ttl,
                            writer: *writer,
                            op_seq: *op_seq,
                            owner: &owner,
                        };
                        match store.clear(&name, &terms, item.deadline).await {
                            Ok(cleared) => Done::Cleared(cleared),
                            Err(error)
                                if error.reason() == Reason::Fenced
                                    && terms.incarnation == keys.incarnation =>
                            {
                                let deleted = error.metadata("cause") == Some("DELETED");
                                Done::Astray(Astray::Fenced { deleted })
                            }
                            Err(error) => Done::Failed(error),
                        }
                    }
                    _ => {
                        match store.link.run(Lane::Small, store.release_op(&name, fence), item.deadline).await
                        {
                            Ok(_) => Done::Closed,
                            Err(error) => Done::Failed(error.into()),
                        }
                    }
                });
            }
            Batch { items, done: Ok(done), sent, attributes: None }
        })
    }

    /// Why the stream's requests are refused from now on.
    pub fn lost_error(&self) -> Error {
        commit::fenced(self.deleted)
    }

    /// Takes the answer to one item in.
    pub async fn settle(&mut self, sessions: &Sessions, item: &Item, done: Done, sent: Sent) -> Settled {
        match done {
            Done::Got(revision, records) => {
                self.note_sizes(records.iter().map(|record| record.value.len()));
                Settled::Records(revision, records)
            }
            Done::Listed(step) => {
                self.note_sizes(step.records.iter().map(|record| record.value.len()));
                Settled::Page(step)
            }
            Done::Committed(outcome) => self.settle_commit(sessions, item, outcome, sent.replicated),
            Done::Renewed { revision } => self.renewed(revision, sent.at),
            Done::Cleared(cleared) => self.cleared(sessions, item, cleared).await,
            Done::Closed => {
                sessions.hints.publish(&sessions.store.link, &self.name, Hint::Lease).await;
                Settled::End(Event::Closed(v1::Closed {}), None)
            }
            Done::Again(again) => Settled::Again(again),
            Done::Failed(error) => Settled::Error(error),
            Done::Astray(Astray::Fenced { deleted }) => self.fenced(item, deleted),
            Done::Astray(Astray::Gone) => {
                let deadline = Instant::now() + Duration::from_secs(2);
                match sessions.store.link.confirm_absent(KIND, self.name.tag(), deadline).await {
                    Ok(()) => self.fenced(item, true),
                    Err(error) => Settled::Error(error.into()),
                }
            }
            Done::Astray(Astray::Lost) => {
                Settled::Error(sessions.store.lost(&self.name, Instant::now() + Duration::from_secs(2)).await)
            }
        }
    }

    fn settle_commit(
        &mut self,
        sessions: &Sessions,
        item: &Item,
        outcome: Outcome,
        replicated: bool,
    ) -> Settled {
        let Work::Commit(wanted, durability) = &item.work else { return Settled::Nothing };
        let acknowledged_op = self.acknowledged_ops.get(&wanted.writer).copied().unwrap_or(0);
        let (base_revision, revision, replayed) = match outcome {
            Outcome::Applied { base, revision } => {
                if let Some(newer) = wanted.attributes.clone() {
                    self.merge_attributes(newer);
                }
                (base, revision, false)
            }
            Outcome::Replayed { revision } => {
                self.attributes_stale = true;
                (0, revision, true)
            }
            Outcome::Reseal { revision } => {
                self.base = revision;
                self.attributes_stale = true;
                return Settled::Again(Again::Now);
            }
            Outcome::OutOfOrder { last, revision } => {
                // A writer other than the holder's own may be unknown to the head because eight others came after it.
                let forgotten = last == 0 && wanted.writer != self.writer;
                let stale = revision < self.acknowledged || (last < acknowledged_op && !forgotten);
                return Settled::Error(if stale {
                    commit::stale(revision)
                } else {
                    commit::out_of_order(last)
                });
            }
            Outcome::Refused(error) => return Settled::Error(error),
            Outcome::Fenced { .. } | Outcome::Gone | Outcome::Held { .. } | Outcome::Lost => {
                return Settled::Error(Error::new(Reason::Internal, "a commit had an impossible outcome"));
            }
        };
        if revision < self.acknowledged {
            return Settled::Error(commit::stale(revision));
        }
        self.note_sizes(wanted.puts.iter().map(|put| put.value.len()));
        self.base = revision;
        self.acknowledged = revision;
        self.acknowledged_ops.insert(wanted.writer, acknowledged_op.max(wanted.op_seq));
        telemetry::committed(replayed);
        let level = match convert::durability_out(sessions.store.link.durability()) {
            _ if replicated => v1::Durability::Replicas,
            level => level,
        };
        Settled::Answer(Event::Committed(v1::Committed {
            base_revision,
            revision,
            replayed,
            durability: level.into(),
            durability_met: level >= *durability,
        }))
    }

    fn renewed(&mut self, revision: u64, started: Instant) -> Settled {
        let changed = std::mem::take(&mut self.records_changed) && revision != self.base;
        if changed {
            self.base = revision;
            self.attributes_stale = true;
            return Settled::Answer(Event::Changed(v1::Changed { revision }));
        }
        let left = self.ttl.saturating_sub(started.elapsed());
        Settled::Answer(Event::Renewed(v1::Renewed {
            lease_left: prost_types::Duration::try_from(left).ok(),
        }))
    }

    async fn cleared(&mut self, sessions: &Sessions, item: &Item, cleared: Cleared) -> Settled {
        let Work::Clear { writer, op_seq, .. } = &item.work else { return Settled::Nothing };
        if cleared.revision < self.acknowledged {
            return Settled::Error(commit::stale(cleared.revision));
        }
        self.base = cleared.revision;
        self.acknowledged = cleared.revision;
        let last = self.acknowledged_ops.entry(*writer).or_default();
        *last = (*last).max(*op_seq);
        // Without keys the lease is another's by now: the fence stays the old one, and what comes next is refused.
        if let Some(keys) = cleared.keys {
            self.fence = cleared.fence;
            self.keys = keys;
            self.attributes = Attributes::default();
            self.attributes_stale = cleared.replayed;
            self.head = Arc::new(Head::default());
        }
        sessions.hints.publish(&sessions.store.link, &self.name, Hint::Lease).await;
        Settled::Answer(Event::Cleared(v1::Cleared {
            fence: self.fence,
            incarnation: cleared.incarnation,
            revision: cleared.revision,
            replayed: cleared.replayed,
            oldest_archive_dropped: cleared.dropped_oldest,
        }))
    }

    /// A fence that failed ends the stream, unless the request had meant another life of the session.
    fn fenced(&mut self, item: &Item, deleted: bool) -> Settled {
        let meant = match &item.work {
            Work::Commit(commit, _) => commit.incarnation,
            Work::Clear { incarnation, .. } => *incarnation,
            _ => None,
        };
        if meant.is_some_and(|meant| meant != self.keys.incarnation) {
            return Settled::Error(commit::fenced(true));
        }
        self.deleted = deleted;
        telemetry::fenced(true);
        tracing::info!(owner = %store::short(&self.name), deleted, "a lease was lost");
        let reason =
            if deleted { v1::lease_lost::Reason::Deleted } else { v1::lease_lost::Reason::TakenOver };
        let lost = Event::LeaseLost(v1::LeaseLost { reason: reason.into() });
        Settled::End(lost, Some(commit::fenced(deleted)))
    }
}

/// Bytes of a record in the mean.
fn mean(live: Option<&Incarnation>) -> usize {
    let sums = live.map(|live| live.counts.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)));
    sums.and_then(|(records, bytes)| bytes.checked_div(records))
        .map_or(0, |mean| usize::try_from(mean).unwrap_or(0))
}
