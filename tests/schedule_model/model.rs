//! What a queue must do, said in the plainest way: a list of jobs that is searched for every answer.

use std::collections::BTreeMap;

use pannier::proto::v1::{
    JobState, NackVerdict, OnConflict, SettleOutcome, cancel_job_response::Outcome as Cancelled,
    enqueued::Outcome,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Pending,
    Leased,
    Done,
    Dead,
    Cancelled,
}

#[derive(Clone, Debug)]
pub struct Job {
    pub number: u64,
    pub id: String,
    pub group: Option<String>,
    pub state: State,
    pub priority: u32,
    pub due: i64,
    pub finished: i64,
    pub window: i64,
    pub deadline: i64,
    pub attempts: u32,
    pub max: u32,
    pub fence: u64,
    pub lease_end: i64,
    /// The current fence was settled by its worker.
    pub settled: bool,
    pub lost_before: bool,
    pub cancel: bool,
}

/// A job to be.
#[derive(Clone, Debug)]
pub struct Spec {
    pub id: String,
    pub group: Option<String>,
    pub priority: u32,
    pub delay: i64,
    pub window: i64,
    pub deadline_in: i64,
    pub max: u32,
    pub conflict: OnConflict,
}

pub const BASE: i64 = 1_000;

#[derive(Default)]
pub struct Model {
    pub now: i64,
    pub jobs: Vec<Job>,
    /// Which job an id stands for: the last one made of it.
    pub ids: BTreeMap<String, u64>,
    pub turns: BTreeMap<String, u64>,
    pub paused: bool,
    pub leases_lost: u64,
}

impl Model {
    pub fn job(&mut self, number: u64) -> &mut Job {
        &mut self.jobs[usize::try_from(number).unwrap() - 1]
    }

    pub fn by_id(&self, id: &str) -> Option<&Job> {
        Some(&self.jobs[usize::try_from(*self.ids.get(id)?).unwrap() - 1])
    }

    fn its_turn(&self, job: &Job) -> bool {
        job.group.as_ref().is_none_or(|group| self.turns.get(group) == Some(&job.number))
    }

    pub fn place(&self, job: &Job) -> JobState {
        match job.state {
            State::Leased => JobState::Leased,
            State::Done => JobState::Done,
            State::Dead => JobState::Dead,
            State::Cancelled => JobState::Cancelled,
            State::Pending if !self.its_turn(job) => JobState::Waiting,
            State::Pending if job.due <= self.now => JobState::Ready,
            State::Pending => JobState::Scheduled,
        }
    }

    fn enter(&mut self, number: u64) {
        if let Some(group) = self.job(number).group.clone() {
            self.turns.entry(group).or_insert(number);
        }
    }

    fn end(&mut self, number: u64, state: State) {
        let now = self.now;
        let job = self.job(number);
        job.state = state;
        job.finished = now;
        job.cancel = false;
        let Some(group) = job.group.clone() else { return };
        if self.turns.get(&group) != Some(&number) {
            return;
        }
        let next = self
            .jobs
            .iter()
            .filter(|job| job.group.as_ref() == Some(&group))
            .filter(|job| matches!(job.state, State::Pending | State::Leased))
            .map(|job| job.number)
            .min();
        match next {
            Some(next) => self.turns.insert(group, next),
            None => self.turns.remove(&group),
        };
    }

    fn taken_until(job: &Job) -> i64 {
        if job.state == State::Cancelled || job.window == 0 {
            0
        } else {
            job.due.max(job.finished) + job.window
        }
    }

    fn create(&mut self, spec: &Spec) -> (Outcome, u64) {
        let number = self.jobs.len() as u64 + 1;
        self.jobs.push(Job {
            number,
            id: spec.id.clone(),
            group: spec.group.clone(),
            state: State::Pending,
            priority: spec.priority,
            due: self.now + spec.delay,
            finished: 0,
            window: spec.window,
            deadline: if spec.deadline_in > 0 { self.now + spec.deadline_in } else { 0 },
            attempts: 0,
            max: spec.max,
            fence: 0,
            lease_end: 0,
            settled: false,
            lost_before: false,
            cancel: false,
        });
        self.ids.insert(spec.id.clone(), number);
        self.enter(number);
        (Outcome::Created, number)
    }

    pub fn add(&mut self, spec: &Spec) -> (Outcome, u64) {
        let Some(job) = self.by_id(&spec.id).cloned() else { return self.create(spec) };
        let number = job.number;
        match job.state {
            State::Done | State::Dead | State::Cancelled if Self::taken_until(&job) <= self.now => {
                return self.create(spec);
            }
            State::Done | State::Cancelled => return (Outcome::AlreadyFinished, number),
            State::Dead if spec.conflict != OnConflict::Replace => return (Outcome::AlreadyFinished, number),
            State::Leased => return (Outcome::Existing, number),
            State::Pending if spec.conflict == OnConflict::Keep => return (Outcome::Existing, number),
            _ => {}
        }
        let now = self.now;
        let job = self.job(number);
        job.due = now + spec.delay;
        let outcome = if spec.conflict == OnConflict::Replace {
            job.priority = spec.priority;
            job.window = spec.window;
            job.deadline = if spec.deadline_in > 0 { now + spec.deadline_in } else { 0 };
            job.max = spec.max;
            job.state = State::Pending;
            job.attempts = 0;
            job.finished = 0;
            job.settled = false;
            job.lost_before = false;
            Outcome::Replaced
        } else {
            Outcome::Rescheduled
        };
        self.enter(number);
        (outcome, number)
    }

    /// Numbers in the order in which they must come.
    /// Where all that is found has expired, what was behind it is looked at: a call never comes back with nothing while there is a job.
    pub fn lease(&mut self, want: usize, length: i64) -> Vec<u64> {
        if self.paused {
            return Vec::new();
        }
        loop {
            let (leased, expired) = self.look(want, length);
            if !leased.is_empty() || expired == 0 {
                return leased;
            }
        }
    }

    fn look(&mut self, want: usize, length: i64) -> (Vec<u64>, usize) {
        let mut ready: Vec<_> = self
            .jobs
            .iter()
            .filter(|job| self.place(job) == JobState::Ready)
            .map(|job| (job.priority, job.due, job.number))
            .collect();
        ready.sort_unstable();
        ready.truncate(want + want + 20);
        let (mut leased, mut expired) = (Vec::new(), 0);
        for (_, _, number) in ready {
            if leased.len() == want {
                break;
            }
            let now = self.now;
            let job = self.job(number);
            if job.deadline > 0 && job.deadline < now {
                self.end(number, State::Dead);
                expired += 1;
                continue;
            }
            job.state = State::Leased;
            job.attempts += 1;
            job.lease_end = now + length;
            job.settled = false;
            leased.push(number);
        }
        (leased, expired)
    }

    fn wait(failed: u32) -> i64 {
        BASE << (failed.max(1) - 1)
    }

    pub fn settle(
        &mut self,
        number: u64,
        fence: u64,
        verdict: NackVerdict,
        after: Option<i64>,
    ) -> SettleOutcome {
        let now = self.now;
        let job = self.job(number);
        if job.fence != fence {
            return SettleOutcome::LeaseLost;
        }
        if job.state != State::Leased {
            return if job.settled { SettleOutcome::AlreadyDone } else { SettleOutcome::LeaseLost };
        }
        job.settled = true;
        job.lost_before = false;
        if verdict == NackVerdict::Unspecified {
            self.end(number, State::Done);
            return SettleOutcome::Ok;
        }
        if verdict == NackVerdict::Release {
            job.attempts -= 1;
        }
        if job.cancel {
            self.end(number, State::Cancelled);
        } else if verdict == NackVerdict::Fail || (verdict == NackVerdict::Retry && job.attempts >= job.max) {
            self.end(number, State::Dead);
        } else {
            job.state = State::Pending;
            match (after, verdict) {
                (Some(after), _) => job.due = now + after,
                (None, NackVerdict::Retry) => job.due = now + Self::wait(job.attempts),
                (None, _) => {}
            }
        }
        SettleOutcome::Ok
    }

    pub fn extend(&mut self, number: u64, fence: u64, length: i64) -> bool {
        let now = self.now;
        let job = self.job(number);
        let held = job.fence == fence && job.state == State::Leased;
        if held {
            job.lease_end = job.lease_end.max(now + length);
        }
        held
    }

    pub fn cancel(&mut self, id: &str) -> Cancelled {
        let Some(job) = self.by_id(id).cloned() else { return Cancelled::NotFound };
        match job.state {
            State::Pending => {
                self.end(job.number, State::Cancelled);
                Cancelled::Cancelled
            }
            State::Leased => {
                self.job(job.number).cancel = true;
                Cancelled::CancelRequested
            }
            State::Cancelled => Cancelled::Cancelled,
            State::Done | State::Dead => Cancelled::AlreadyFinished,
        }
    }

    pub fn reschedule(&mut self, id: &str, delay: i64) -> Option<Outcome> {
        let job = self.by_id(id).cloned()?;
        Some(match job.state {
            State::Pending => {
                let now = self.now;
                self.job(job.number).due = now + delay;
                Outcome::Rescheduled
            }
            State::Leased => Outcome::Existing,
            _ => Outcome::AlreadyFinished,
        })
    }

    pub fn retry_dead(&mut self, id: &str) -> bool {
        let Some(job) = self.by_id(id).cloned() else { return false };
        if job.state != State::Dead {
            return false;
        }
        let now = self.now;
        let job = self.job(job.number);
        job.state = State::Pending;
        job.attempts = 0;
        job.due = now;
        job.finished = 0;
        job.settled = false;
        job.lost_before = false;
        let number = job.number;
        self.enter(number);
        true
    }

    /// Time passes; leases that it ends come back, in the order of their ends.
    pub fn advance(&mut self, by: i64) {
        self.now += by;
        let mut ended: Vec<_> = self
            .jobs
            .iter()
            .filter(|job| job.state == State::Leased && job.lease_end <= self.now)
            .map(|job| (job.lease_end, job.number))
            .collect();
        ended.sort_unstable();
        for (_, number) in ended {
            self.leases_lost += 1;
            let now = self.now;
            let job = self.job(number);
            job.settled = false;
            if job.cancel {
                self.end(number, State::Cancelled);
            } else if job.attempts >= job.max {
                self.end(number, State::Dead);
            } else {
                job.state = State::Pending;
                if job.lost_before {
                    job.due = now + Self::wait(job.attempts.saturating_sub(1));
                }
                job.lost_before = true;
            }
        }
    }

    pub fn count(&self, place: JobState) -> u64 {
        self.jobs.iter().filter(|job| self.place(job) == place).count() as u64
    }
}
