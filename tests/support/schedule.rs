//! A client of the schedule service and a worker that is driven by hand.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use pannier::proto::v1::{
    self, SettleOutcome, enqueued::Outcome, schedule_service_client::ScheduleServiceClient,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, transport::Channel};

use super::{Options, Sidecar, Valkey, ValkeyOptions, attach::Refused, blob::request_id, unary::answer};

/// What a test waits at most for something that must come.
pub const SOON: Duration = Duration::from_secs(10);

/// A queue of a sidecar with a Valkey of the test's own, which writes no file.
pub async fn start() -> (Valkey, Sidecar, Queue) {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendonly", "no"));
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let queue = Queue::of(&sidecar, "reminders");
    (valkey, sidecar, queue)
}

/// Ids that are taken by jobs that are not there. There must be none, whatever was killed: such an id would be taken for ever.
pub fn taken_by_nobody(valkey: &Valkey) -> Vec<String> {
    let mut found = Vec::new();
    for key in valkey.keys("pannier:*:u") {
        let prefix = key.strip_suffix('u').unwrap();
        let taken: HashMap<Vec<u8>, Vec<u8>> = valkey.command(&["HGETALL", &key]);
        for number in taken.into_values().filter(|entry| entry.first() != Some(&b'T')) {
            let number: u64 = String::from_utf8(number).unwrap().parse().unwrap();
            let (bucket, field) = (format!("{prefix}j:{}", number / 1000), (number % 1000).to_string());
            if valkey.command::<i64>(&["HEXISTS", &bucket, &field]) == 0 {
                found.push(format!("{key}: {number}"));
            }
        }
    }
    found
}

pub fn ms(ms: i64) -> prost_types::Duration {
    prost_types::Duration {
        seconds: ms.div_euclid(1000),
        nanos: i32::try_from(ms.rem_euclid(1000) * 1_000_000).unwrap(),
    }
}

/// Of a timestamp, in ms since 1970.
pub fn at_ms(at: Option<&prost_types::Timestamp>) -> i64 {
    at.map_or(0, |at| at.seconds * 1000 + i64::from(at.nanos) / 1_000_000)
}

pub fn timestamp(ms: i64) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: ms / 1000, nanos: i32::try_from(ms % 1000 * 1_000_000).unwrap() }
}

pub fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// A job with everything at its default.
pub fn job(id: &str) -> v1::JobSpec {
    v1::JobSpec {
        id: id.into(),
        payload: format!("payload of {id}").into_bytes().into(),
        ..Default::default()
    }
}

/// One that is due later.
pub fn delayed(id: &str, by: i64) -> v1::JobSpec {
    v1::JobSpec { when: Some(v1::job_spec::When::Delay(ms(by))), ..job(id) }
}

/// One of a group.
pub fn grouped(id: &str, group: &str) -> v1::JobSpec {
    v1::JobSpec { group: group.into(), ..job(id) }
}

#[allow(clippy::unnecessary_wraps)] // as the field wants it
pub fn retry(max_attempts: u32, base: i64) -> Option<v1::RetryPolicy> {
    Some(v1::RetryPolicy { max_attempts, base: Some(ms(base)), jitter_percent: None })
}

/// One queue of one sidecar.
#[derive(Clone)]
pub struct Queue {
    pub client: ScheduleServiceClient<Channel>,
    pub name: String,
}

impl Queue {
    pub fn of(sidecar: &Sidecar, name: &str) -> Self {
        let client = ScheduleServiceClient::new(sidecar.channel())
            .max_decoding_message_size(8 << 20)
            .max_encoding_message_size(8 << 20);
        Self { client, name: name.into() }
    }

    pub async fn try_add(&self, job: v1::JobSpec) -> Result<v1::Enqueued, Refused> {
        self.add_as(job, &request_id()).await
    }

    pub async fn add_as(&self, job: v1::JobSpec, request_id: &str) -> Result<v1::Enqueued, Refused> {
        let request = v1::EnqueueRequest {
            namespace: String::new(),
            queue: self.name.clone(),
            request_id: request_id.into(),
            job: Some(job),
        };
        Ok(answer(self.client.clone().enqueue(request).await)?.job.unwrap())
    }

    pub async fn add(&self, job: v1::JobSpec) -> v1::Enqueued {
        self.try_add(job).await.unwrap()
    }

    pub async fn outcome(&self, job: v1::JobSpec) -> Outcome {
        self.add(job).await.outcome()
    }

    pub async fn batch(&self, jobs: Vec<v1::JobSpec>) -> Result<Vec<v1::Enqueued>, Refused> {
        let request = v1::EnqueueBatchRequest {
            namespace: String::new(),
            queue: self.name.clone(),
            request_id: request_id(),
            jobs,
        };
        Ok(answer(self.client.clone().enqueue_batch(request).await)?.jobs)
    }

    pub async fn ingest(&self, keys: &[&str]) -> Result<Vec<v1::Enqueued>, Refused> {
        let item = |key: &&str| v1::IngestItem {
            dedup_key: (*key).into(),
            job: Some(v1::JobSpec { id: String::new(), ..job(key) }),
        };
        let items = keys.iter().map(item).collect();
        let request = v1::IngestRequest { namespace: String::new(), queue: self.name.clone(), items };
        Ok(answer(self.client.clone().ingest(request).await)?.items)
    }

    pub async fn get(&self, id: &str) -> Result<v1::Job, Refused> {
        let request = v1::GetJobRequest { namespace: String::new(), queue: self.name.clone(), id: id.into() };
        Ok(answer(self.client.clone().get_job(request).await)?.job.unwrap())
    }

    pub async fn info(&self) -> v1::Queue {
        let request = v1::GetQueueRequest { namespace: String::new(), queue: self.name.clone() };
        answer(self.client.clone().get_queue(request).await).unwrap().queue.unwrap_or_default()
    }

    pub async fn counts(&self) -> v1::QueueCounts {
        self.info().await.counts.unwrap_or_default()
    }

    pub async fn configure(&self, settings: v1::QueueSettings) -> v1::QueueSettings {
        let request = v1::ConfigureQueueRequest {
            namespace: String::new(),
            queue: self.name.clone(),
            settings: Some(settings),
        };
        answer(self.client.clone().configure_queue(request).await).unwrap().settings.unwrap()
    }

    pub async fn cancel(&self, id: &str) -> v1::cancel_job_response::Outcome {
        let request =
            v1::CancelJobRequest { namespace: String::new(), queue: self.name.clone(), id: id.into() };
        answer(self.client.clone().cancel_job(request).await).unwrap().outcome()
    }

    pub async fn reschedule(&self, id: &str, by: i64) -> Result<v1::Enqueued, Refused> {
        let request = v1::RescheduleJobRequest {
            namespace: String::new(),
            queue: self.name.clone(),
            id: id.into(),
            when: Some(v1::reschedule_job_request::When::Delay(ms(by))),
        };
        Ok(answer(self.client.clone().reschedule_job(request).await)?.job.unwrap())
    }

    pub async fn lease(&self, request_id: &str, max: u32, lease: i64, wait: i64) -> Vec<v1::WorkJob> {
        let request = v1::LeaseJobsRequest {
            namespace: String::new(),
            queue: self.name.clone(),
            request_id: request_id.into(),
            max,
            lease: Some(ms(lease)),
            wait: Some(ms(wait)),
        };
        answer(self.client.clone().lease_jobs(request).await).unwrap().jobs
    }

    /// Leases what there is now.
    pub async fn take(&self, max: u32) -> Vec<v1::WorkJob> {
        self.lease(&request_id(), max, 30_000, 0).await
    }

    pub async fn ack(&self, job: &v1::WorkJob) -> SettleOutcome {
        let ack = v1::ack_jobs_request::Ack {
            number: job.number,
            fence: job.fence,
            result: b"result".to_vec().into(),
        };
        let request =
            v1::AckJobsRequest { namespace: String::new(), queue: self.name.clone(), acks: vec![ack] };
        answer(self.client.clone().ack_jobs(request).await).unwrap().outcomes().next().unwrap()
    }

    pub async fn nack(
        &self,
        job: &v1::WorkJob,
        verdict: v1::NackVerdict,
        retry_after: Option<i64>,
    ) -> SettleOutcome {
        let nack = v1::nack_jobs_request::Nack {
            number: job.number,
            fence: job.fence,
            verdict: verdict.into(),
            error: "it failed".into(),
            retry_after: retry_after.map(ms),
        };
        let request =
            v1::NackJobsRequest { namespace: String::new(), queue: self.name.clone(), nacks: vec![nack] };
        answer(self.client.clone().nack_jobs(request).await).unwrap().outcomes().next().unwrap()
    }

    /// Opens a worker stream.
    pub async fn worker(&self, lease: i64) -> Worker {
        self.try_worker(self.hello(lease)).await.unwrap()
    }

    pub fn hello(&self, lease: i64) -> v1::WorkHello {
        v1::WorkHello {
            worker: "a worker".into(),
            queues: vec![self.name.clone()],
            lease: Some(ms(lease)),
            ..Default::default()
        }
    }

    pub async fn try_worker(&self, hello: v1::WorkHello) -> Result<Worker, Status> {
        let (sender, receiver) = mpsc::channel(64);
        let first = v1::WorkRequest { hello: Some(hello), ..Default::default() };
        sender.send(first).await.unwrap();
        let incoming = self.client.clone().work(ReceiverStream::new(receiver)).await?.into_inner();
        let mut worker = Worker {
            sender,
            incoming,
            jobs: VecDeque::new(),
            outcomes: HashMap::new(),
            lost: Vec::new(),
            cancel: Vec::new(),
            errors: Vec::new(),
            welcome: None,
            quiet: false,
            draining: false,
            renewed: 0,
        };
        while worker.welcome.is_none() {
            worker.step(SOON).await?;
        }
        Ok(worker)
    }
}

/// A worker stream.
pub struct Worker {
    pub sender: mpsc::Sender<v1::WorkRequest>,
    incoming: Streaming<v1::WorkResponse>,
    pub jobs: VecDeque<v1::WorkJob>,
    pub outcomes: HashMap<(u64, u64), SettleOutcome>,
    pub lost: Vec<v1::LeaseRef>,
    pub cancel: Vec<v1::LeaseRef>,
    pub errors: Vec<v1::WorkError>,
    pub welcome: Option<v1::WorkWelcome>,
    pub quiet: bool,
    pub draining: bool,
    pub renewed: u64,
}

pub fn lease_of(job: &v1::WorkJob) -> v1::LeaseRef {
    v1::LeaseRef { queue: job.queue.clone(), number: job.number, fence: job.fence }
}

impl Worker {
    pub async fn send(&self, request: v1::WorkRequest) {
        let _ = self.sender.send(request).await;
    }

    pub async fn credit(&self, credit: u32) {
        self.send(v1::WorkRequest { credit, ..Default::default() }).await;
    }

    pub async fn received(&self, received: u64) {
        self.send(v1::WorkRequest { received, ..Default::default() }).await;
    }

    pub async fn heartbeat(&self) {
        self.send(v1::WorkRequest { heartbeat: true, ..Default::default() }).await;
    }

    /// Takes one message; false when none came in time.
    pub async fn step(&mut self, within: Duration) -> Result<bool, Status> {
        let Ok(message) = timeout(within, self.incoming.message()).await else { return Ok(false) };
        let Some(message) = message? else { return Err(Status::ok("the stream has ended")) };
        self.jobs.extend(message.jobs);
        for settled in message.settled {
            let outcome = settled.outcome();
            let lease = settled.lease.unwrap();
            self.outcomes.insert((lease.number, lease.fence), outcome);
        }
        self.lost.extend(message.lease_lost);
        self.cancel.extend(message.cancel_requested);
        self.errors.extend(message.errors);
        self.quiet |= message.quiet;
        self.draining |= message.draining;
        self.renewed += message.renewed;
        if message.welcome.is_some() {
            self.welcome = message.welcome;
        }
        Ok(true)
    }

    /// The next job, acknowledged as received.
    pub async fn job(&mut self) -> v1::WorkJob {
        self.job_within(SOON).await.expect("no job came")
    }

    pub async fn job_within(&mut self, within: Duration) -> Option<v1::WorkJob> {
        let until = tokio::time::Instant::now() + within;
        while self.jobs.is_empty() {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() || !self.step(left).await.unwrap() {
                return None;
            }
        }
        let job = self.jobs.pop_front()?;
        self.received(job.delivery).await;
        Some(job)
    }

    pub async fn settle(
        &mut self,
        job: &v1::WorkJob,
        nack: v1::NackVerdict,
        retry_after: Option<i64>,
    ) -> SettleOutcome {
        let settle = v1::WorkSettle {
            lease: Some(lease_of(job)),
            nack: nack.into(),
            result: b"result".to_vec().into(),
            error: "it failed".into(),
            retry_after: retry_after.map(ms),
        };
        self.outcomes.remove(&(job.number, job.fence));
        self.send(v1::WorkRequest { settles: vec![settle], ..Default::default() }).await;
        loop {
            if let Some(outcome) = self.outcomes.get(&(job.number, job.fence)) {
                return *outcome;
            }
            assert!(self.step(SOON).await.unwrap(), "no outcome came");
            assert!(self.errors.is_empty(), "{:?}", self.errors);
        }
    }

    pub async fn ack(&mut self, job: &v1::WorkJob) -> SettleOutcome {
        self.settle(job, v1::NackVerdict::Unspecified, None).await
    }

    /// Steps until `done`, or panics.
    pub async fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let until = tokio::time::Instant::now() + SOON;
        while !done(self) {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            assert!(!left.is_zero(), "{what}");
            self.step(left).await.unwrap();
        }
    }
}
