//! Random lives of the jobs of a queue, step by step beside a model of it, under a clock that stands still until the test moves
//! it: every answer must be the model's. Needs `--features test-clock`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

#[path = "schedule_model/model.rs"]
mod model;
mod support;

use std::time::{Duration, Instant};

use model::{BASE, Model, Spec};
use pannier::proto::v1::{self, JobState, NackVerdict, OnConflict};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    blob::request_id,
    random::Random,
    schedule::{Queue, ms, now_ms, retry},
};

struct Run {
    random: Random,
    model: Model,
    valkey: Valkey,
    queues: [Queue; 2],
    /// Leases that were given, some of them long over.
    leases: Vec<v1::WorkJob>,
}

impl Run {
    fn set_clock(&self) {
        let _: () = self.valkey.command(&["SET", "pannier:test-clock", &format!("={}", self.model.now)]);
    }

    fn queue(&mut self) -> Queue {
        self.random.of(&self.queues)
    }

    fn id(&mut self) -> String {
        format!("job {}", self.random.below(14))
    }

    async fn add(&mut self) {
        let id = self.id();
        // Most ids belong to a group for good.
        let number: u64 = id[4..].parse().unwrap();
        let group = [None, Some("chat a"), Some("chat b")][usize::try_from(number % 3).unwrap()];
        let spec = Spec {
            group: group.map(str::to_owned),
            priority: self.random.of(&[0, 0, 1, 5]),
            delay: self.random.of(&[0, 0, 0, 500, 5_000]),
            window: self.random.of(&[0, 3_000, 3_000, 600_000]),
            deadline_in: self.random.of(&[0, 0, 0, 2_000]),
            max: self.random.of(&[1, 2, 4]),
            conflict: self.random.of(&[
                OnConflict::Keep,
                OnConflict::Keep,
                OnConflict::Replace,
                OnConflict::Reschedule,
            ]),
            id,
        };
        let job = v1::JobSpec {
            id: spec.id.clone(),
            payload: format!("payload of {}", spec.id).into_bytes().into(),
            priority: spec.priority,
            group: spec.group.clone().unwrap_or_default(),
            retry: retry(spec.max, BASE),
            unique_window: Some(ms(spec.window)),
            when: Some(v1::job_spec::When::Delay(ms(spec.delay))),
            not_after: (spec.deadline_in > 0)
                .then(|| v1::job_spec::NotAfter::DeadlineIn(ms(spec.deadline_in))),
            on_conflict: spec.conflict.into(),
            ..Default::default()
        };
        let request = request_id();
        let expected = self.model.add(&spec);
        let got = self.queue().add_as(job.clone(), &request).await.unwrap();
        assert_eq!((got.outcome(), got.number), expected, "{spec:?}");
        let its = self.model.by_id(&spec.id).unwrap();
        assert_eq!(got.state(), self.model.place(its), "{spec:?}");
        assert_eq!(support::schedule::at_ms(got.due_at.as_ref()), its.due);
        // The same request again changes nothing and answers the same.
        if self.random.below(4) == 0 {
            let again = self.queue().add_as(job, &request).await.unwrap();
            assert_eq!((again.outcome(), again.number), expected, "{spec:?}");
        }
    }

    async fn lease(&mut self) {
        let want = self.random.of(&[1, 2, 5]);
        let length = self.random.of(&[1_000, 4_000]);
        let (queue, request) = (self.queue(), request_id());
        let got = queue.lease(&request, want, length, 0).await;
        let expected = self.model.lease(want as usize, length);
        assert_eq!(got.iter().map(|job| job.number).collect::<Vec<_>>(), expected);
        for job in got {
            let its = self.model.job(job.number);
            assert!(job.fence > its.fence, "a fence came twice");
            its.fence = job.fence;
            assert_eq!((job.attempt, &job.id), (its.attempts, &its.id));
            assert_eq!(&job.payload[..], format!("payload of {}", job.id).as_bytes());
            self.leases.push(job);
        }
    }

    async fn settle(&mut self) {
        if self.leases.is_empty() {
            return;
        }
        let job = self.random.of(&self.leases.clone());
        let verdict = self.random.of(&[
            NackVerdict::Unspecified,
            NackVerdict::Unspecified,
            NackVerdict::Retry,
            NackVerdict::Fail,
            NackVerdict::Release,
        ]);
        let after = self.random.of(&[None, None, Some(0), Some(700)]);
        let queue = self.queue();
        let got = match verdict {
            NackVerdict::Unspecified => queue.ack(&job).await,
            verdict => queue.nack(&job, verdict, after).await,
        };
        assert_eq!(got, self.model.settle(job.number, job.fence, verdict, after), "{verdict:?} {job:?}");
    }

    async fn extend(&mut self) {
        if self.leases.is_empty() {
            return;
        }
        let job = self.random.of(&self.leases.clone());
        let request = v1::ExtendJobsRequest {
            namespace: String::new(),
            queue: self.queues[0].name.clone(),
            leases: vec![support::schedule::lease_of(&job)],
            lease: Some(ms(3_000)),
        };
        let got = self.queue().client.extend_jobs(request).await.unwrap().into_inner();
        let held = got.outcomes[0] != v1::extend_jobs_response::Outcome::LeaseLost as i32;
        assert_eq!(held, self.model.extend(job.number, job.fence, 3_000));
    }

    async fn change(&mut self) {
        let (queue, id) = (self.queue(), self.id());
        match self.random.below(4) {
            0 | 1 => assert_eq!(queue.cancel(&id).await, self.model.cancel(&id), "{id}"),
            2 => {
                let delay = self.random.of(&[0, 800, 3_000]);
                let got = queue.reschedule(&id, delay).await;
                let expected = self.model.reschedule(&id, delay);
                assert_eq!(got.as_ref().ok().map(v1::Enqueued::outcome), expected, "{id} {got:?}");
            }
            _ => {
                let request = v1::RetryDeadRequest {
                    namespace: String::new(),
                    queue: queue.name.clone(),
                    ids: vec![id.clone()],
                    ..Default::default()
                };
                let got = queue.client.clone().retry_dead(request).await.unwrap().into_inner().retried;
                assert_eq!(got == 1, self.model.retry_dead(&id), "{id}");
            }
        }
    }

    async fn pause(&mut self) {
        let mut client = self.queue().client;
        let (namespace, queue) = (String::new(), self.queues[0].name.clone());
        if self.model.paused {
            let request = v1::ResumeQueueRequest { namespace, queue };
            assert!(client.resume_queue(request).await.unwrap().into_inner().resumed);
        } else {
            client.pause_queue(v1::PauseQueueRequest { namespace, queue, r#for: None }).await.unwrap();
        }
        self.model.paused = !self.model.paused;
    }

    async fn advance(&mut self) {
        let by = i64::try_from(self.random.below(2_500)).unwrap() + 1;
        self.model.advance(by);
        self.set_clock();
        let until = Instant::now() + Duration::from_secs(10);
        while self.queues[0].info().await.totals.unwrap_or_default().leases_lost != self.model.leases_lost {
            assert!(Instant::now() < until, "lost leases do not come back");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn compare(&mut self) {
        let counts = self.queues[1].counts().await;
        let model = &self.model;
        let pending = |place| model.count(place);
        assert_eq!(
            (counts.scheduled + counts.ready, counts.waiting, counts.leased, counts.done, counts.dead),
            (
                pending(JobState::Scheduled) + pending(JobState::Ready),
                pending(JobState::Waiting),
                pending(JobState::Leased),
                pending(JobState::Done) + pending(JobState::Cancelled),
                pending(JobState::Dead),
            )
        );
        let id = self.id();
        let got = self.queue().get(&id).await.ok().map(|job| (job.number, job.state(), job.attempts));
        let expected = self.model.by_id(&id).map(|job| (job.number, self.model.place(job), job.attempts));
        assert_eq!(got, expected, "{id}");
    }
}

async fn run(seed: u64, steps: u32) {
    eprintln!("seed {seed}");
    let valkey = Valkey::start(ValkeyOptions::default().set("appendonly", "no").set("appendfsync", "no"));
    let first = Sidecar::start(Options::with(&valkey)).await;
    let second = first.beside("second.sock").await;
    let queues = [Queue::of(&first, "a queue"), Queue::of(&second, "a queue")];
    let model = Model { now: now_ms(), ..Model::default() };
    let mut run = Run { random: Random(seed), model, valkey, queues, leases: Vec::new() };
    run.set_clock();
    for step in 0..steps {
        if std::env::var_os("PANNIER_STEPS").is_some() {
            eprintln!("step {step}");
        }
        match run.random.below(20) {
            0..=5 => run.add().await,
            6..=9 => run.lease().await,
            10..=13 => run.settle().await,
            14 => run.extend().await,
            15 | 16 => run.change().await,
            17 => {
                if run.model.paused || run.random.below(4) == 0 {
                    run.pause().await;
                }
            }
            _ => run.advance().await,
        }
        run.compare().await;
    }
}

#[tokio::test]
async fn every_answer_is_the_models() {
    let soak = std::env::var_os("PANNIER_SOAK").is_some();
    let seeds = if soak { 40 } else { 4 };
    let from = std::env::var("PANNIER_SEED").ok().and_then(|seed| seed.parse().ok());
    let begin = from.unwrap_or_else(|| u64::try_from(now_ms()).unwrap());
    for seed in begin..begin + if from.is_some() { 1 } else { seeds } {
        run(seed, 500).await;
    }
}

#[tokio::test]
async fn seeds_that_have_failed_once() {
    for seed in [1, 2, 1_795_975_543_433] {
        run(seed, 500).await;
    }
}
