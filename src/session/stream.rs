//! The ordered pipeline of one Attach stream: requests in, one batch in flight, answers out, the lease kept.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::{sync::mpsc, time::Instant};
use tonic::Streaming;

use super::{
    Sessions,
    attach::draining,
    batch::{self, Batch, Item, Work},
    hints::Hint,
    intake::Intake,
    lease::{Lease, Settled},
    outbox::Outbox,
};
use crate::{
    error::{Error, Reason},
    proto::v1::{self, attach_response::Event},
    rpc::unreadable,
    telemetry,
};

/// Of a message that is.
pub const TOO_LARGE: (&str, &str) =
    ("message", "a message must be at most 4 MiB: send the value in fragments");

/// Requests of one stream that wait or are in flight, of any kind.
const IN_FLIGHT_MAX: usize = 1024;
/// Commits of one stream that wait or are in flight.
const COMMITS_MAX: usize = 64;
/// Pause before a batch is sent again.
const RESEND_PAUSE: Duration = Duration::from_millis(20);

type InFlight = std::pin::Pin<Box<dyn Future<Output = Batch> + Send>>;

/// What is known of an item in flight, to answer it when its time is up.
pub struct Flying {
    seq: u32,
    deadline: Instant,
    write: bool,
    answered: bool,
}

/// One stream while it lives. See [`super::attach`].
pub struct Stream {
    pub sessions: Arc<Sessions>,
    pub lease: Lease,
    pub hints: mpsc::Receiver<Hint>,
    pub intake: Intake,
    pub queue: VecDeque<Item>,
    pub flying: Vec<Flying>,
    pub outbox: Outbox,
    /// The next batch leaves no sooner.
    pub not_before: Instant,
    pub last_seq: u32,
    /// The lease is gone or was given back: nothing more is read or sent to Valkey.
    pub ended: bool,
}

impl Stream {
    /// Serves requests until the client, the lease or the sidecar ends it.
    pub async fn run(&mut self, mut requests: Streaming<v1::AttachRequest>) {
        let mut draining = self.sessions.draining.subscribe();
        let mut reading = true;
        let mut told_draining = false;
        let mut in_flight: Option<InFlight> = None;
        loop {
            if self.ended && in_flight.is_none() {
                break;
            }
            if (!reading || told_draining) && in_flight.is_none() && self.queue.is_empty() {
                break;
            }
            if in_flight.is_none() && !self.queue.is_empty() && Instant::now() >= self.not_before {
                in_flight = self.depart();
            }
            let wake_at = self.wake_at();
            let room = reading && !self.ended && self.outbox.has_room();
            tokio::select! {
                biased;
                batch = landing(&mut in_flight) => {
                    in_flight = None;
                    self.arrive(batch).await;
                }
                sent = self.outbox.flush(), if !self.outbox.is_empty() => {
                    // The client is gone: finish what was asked, tell nobody.
                    reading &= sent;
                }
                message = requests.message(), if room => match message {
                    Ok(Some(request)) => self.take_in(request, told_draining),
                    Ok(None) => reading = false,
                    Err(status) => {
                        reading = false;
                        self.outbox.end_with(unreadable(&status, TOO_LARGE));
                    }
                },
                Some(hint) = self.hints.recv(), if !self.ended => self.heed(hint),
                changed = draining.changed(), if !told_draining && !self.ended => {
                    if changed.is_err() || *draining.borrow() {
                        told_draining = true;
                        self.outbox.push(0, Event::Draining(v1::Draining {}));
                    }
                }
                () = tokio::time::sleep_until(wake_at) => self.tick(),
            }
        }
        self.outbox.drain().await;
    }

    fn wake_at(&self) -> Instant {
        let flying = self.flying.iter().filter(|one| !one.answered).map(|one| one.deadline);
        let queued = self.queue.iter().map(|item| item.deadline);
        let gathering = self.intake.deadline();
        let mut at = flying.chain(queued).chain(gathering).min().unwrap_or(self.lease.renew_at);
        let renews = || self.queue.iter().any(|item| matches!(item.work, Work::Renew));
        if !self.queue.is_empty() && self.flying.is_empty() && (self.outbox.has_room() || renews()) {
            at = at.min(self.not_before);
        }
        at.min(self.lease.renew_at)
    }

    /// Time has passed: answers what is overdue, and keeps the lease.
    fn tick(&mut self) {
        let now = Instant::now();
        for one in &mut self.flying {
            if !one.answered && one.deadline <= now {
                one.answered = true;
                if one.seq != 0 {
                    self.outbox.error(one.seq, &overdue(one.write));
                }
            }
        }
        let outbox = &mut self.outbox;
        self.queue.retain(|item| {
            let due = item.deadline <= now;
            if due && item.seq != 0 {
                outbox.error(item.seq, &overdue(item.sent && item.work.is_write()));
            }
            !due
        });
        if let Some(seq) = self.intake.expire(now) {
            self.outbox.error(
                seq,
                &Error::new(Reason::DeadlineExceeded, "the commit's parts did not all come within 30 s"),
            );
        }
        if self.lease.renew_at <= now {
            self.ask_lease(now);
        }
    }

    fn ask_lease(&mut self, now: Instant) {
        self.lease.renew_at = now + self.lease.ttl / 3;
        if !self.ended && !self.queue.iter().any(|item| matches!(item.work, Work::Renew)) {
            let deadline = now + self.lease.ttl / 3;
            self.queue.push_back(Item {
                arrived: now,
                seq: 0,
                deadline,
                work: Work::Renew,
                sent: false,
                permit: None,
            });
        }
    }

    fn heed(&mut self, hint: Hint) {
        if hint == Hint::Records {
            self.lease.records_changed = true;
        }
        self.ask_lease(Instant::now());
    }

    fn take_in(&mut self, request: v1::AttachRequest, draining_now: bool) {
        let seq = request.seq;
        let part = self.intake.is_gathering(seq);
        if seq == 0 || (seq <= self.last_seq && !part) {
            return self.outbox.error(seq, &Error::bad_field("seq", "must be at least 1 and rise"));
        }
        self.last_seq = self.last_seq.max(seq);
        if draining_now {
            return self.outbox.error(seq, &draining());
        }
        let item = match self.intake.take(&self.sessions, &self.lease, request) {
            Ok(Some(item)) => item,
            Ok(None) => return,
            Err(error) => return self.outbox.error(seq, &error),
        };
        let writes = self.queue.iter().filter(|item| item.work.is_write()).count()
            + self.flying.iter().filter(|one| one.write).count();
        if (item.work.is_write() && writes >= COMMITS_MAX)
            || self.queue.len() + self.flying.len() >= IN_FLIGHT_MAX
        {
            let error = Error::new(
                Reason::TooManyInFlight,
                "at most 64 commits and 1024 requests of a stream in flight",
            )
            .retry_after(Duration::from_millis(50));
            return self.outbox.error(seq, &error);
        }
        self.queue.push_back(item);
    }

    /// Sends what waits, as far as it may share a write. To a client that does not read, only the lease is kept.
    fn depart(&mut self) -> Option<InFlight> {
        let mut items: Vec<Item> = if self.outbox.has_room() {
            let count = batch::sharing(&self.queue, self.lease.largest);
            self.queue.drain(..count).collect()
        } else {
            let renew = self.queue.iter().position(|item| matches!(item.work, Work::Renew))?;
            self.queue.remove(renew).into_iter().collect()
        };
        let alone = items.first()?.work.is_alone();
        for item in &mut items {
            item.sent = true;
        }
        self.flying = items
            .iter()
            .map(|item| Flying {
                seq: item.seq,
                deadline: item.deadline,
                write: item.work.is_write(),
                answered: false,
            })
            .collect();
        if alone {
            return Some(self.lease.alone(&self.sessions, items));
        }
        Some(Box::pin(Arc::new(self.lease.sender(&self.sessions)).send(items)))
    }

    async fn arrive(&mut self, batch: Batch) {
        let flying = std::mem::take(&mut self.flying);
        let Batch { items, done, sent, attributes } = batch;
        if let Some(attributes) = attributes {
            self.lease.attributes_read(attributes);
        }
        let done = match done {
            Ok(done) => done,
            Err(error) => return self.resend_or_fail(items, &flying, &error.into()),
        };
        let mut items = items.into_iter().zip(flying);
        for one in done {
            let Some((item, flying)) = items.next() else { break };
            if let Some(again) = self.settle(&item, flying.answered, one, sent).await {
                if again == batch::Again::LoadScripts {
                    let deadline = Instant::now() + Duration::from_secs(5);
                    if let Err(error) = self.sessions.store.link.load_scripts(super::SCRIPTS, deadline).await
                    {
                        tracing::warn!(%error, "scripts could not be loaded again");
                    }
                }
                let rest = std::iter::once((item, flying)).chain(items);
                return self.put_back(rest.collect());
            }
            if let Some(request) = item.work.kind() {
                telemetry::session_answered(request, item.arrived);
            }
            if self.ended {
                let error = self.lease.lost_error();
                for (item, flying) in items {
                    if item.seq != 0 && !flying.answered {
                        self.outbox.error(item.seq, &error);
                    }
                }
                return self.fail_queue(&error);
            }
        }
    }

    /// The link failed under the whole batch: all of it is safe to send again while there is time.
    fn resend_or_fail(&mut self, items: Vec<Item>, flying: &[Flying], error: &Error) {
        let again = matches!(error.reason(), Reason::ValkeyUnreachable | Reason::Starting);
        let now = Instant::now();
        let mut rest = VecDeque::new();
        for (item, flying) in items.into_iter().zip(flying) {
            if flying.answered || (item.seq == 0 && !again) {
                continue;
            }
            if again && item.deadline > now {
                rest.push_back(item);
            } else if item.seq != 0 {
                let error = if item.work.is_write() { error.clone() } else { error.clone().outcome_known() };
                self.outbox.error(item.seq, &error);
            }
        }
        rest.append(&mut self.queue);
        self.queue = rest;
        self.not_before = now + RESEND_PAUSE;
    }

    fn put_back(&mut self, items: Vec<(Item, Flying)>) {
        let mut rest: VecDeque<Item> =
            items.into_iter().filter(|(_, flying)| !flying.answered).map(|(item, _)| item).collect();
        rest.append(&mut self.queue);
        self.queue = rest;
    }

    fn fail_queue(&mut self, error: &Error) {
        for item in self.queue.drain(..) {
            if item.seq != 0 {
                self.outbox.error(item.seq, error);
            }
        }
    }

    /// Answers one item. Gives a reason when it must be sent again, with all behind it.
    async fn settle(
        &mut self,
        item: &Item,
        answered: bool,
        done: batch::Done,
        sent: batch::Sent,
    ) -> Option<batch::Again> {
        let event = match self.lease.settle(&self.sessions, item, done, sent).await {
            Settled::Answer(event) => event,
            Settled::Again(again) => {
                if again == batch::Again::Wait {
                    self.not_before = Instant::now() + RESEND_PAUSE;
                }
                return Some(again);
            }
            Settled::Records(revision, records) => {
                if !answered {
                    self.outbox.records(item.seq, revision, records);
                }
                return None;
            }
            Settled::Page(step) => {
                if !answered {
                    self.outbox.page(item.seq, step);
                }
                return None;
            }
            Settled::Error(error) => {
                if !answered && item.seq != 0 {
                    self.outbox.error(item.seq, &error);
                }
                return None;
            }
            Settled::Nothing => return None,
            Settled::End(event, status) => {
                self.ended = true;
                if !answered
                    && item.seq != 0
                    && let Some(error) = &status
                {
                    self.outbox.error(item.seq, error);
                }
                self.outbox.push(if status.is_none() { item.seq } else { 0 }, event);
                self.outbox.end_with(status);
                return None;
            }
        };
        if let Event::Changed(_) | Event::Renewed(_) = event {
            self.outbox.push(0, event);
        } else if !answered {
            self.outbox.push(item.seq, event);
        }
        None
    }
}

fn overdue(unknown: bool) -> Error {
    let error = Error::new(Reason::DeadlineExceeded, "the request's time is up");
    if unknown { error.outcome_unknown() } else { error }
}

/// The end of the batch in flight; never, when there is none.
async fn landing(flight: &mut Option<InFlight>) -> Batch {
    match flight {
        Some(flight) => flight.await,
        None => std::future::pending().await,
    }
}
