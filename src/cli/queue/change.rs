//! What changes jobs and queues.

use std::io::Read as _;

use clap::Args;
use prost_types::Duration;

use super::{Context, span};
use crate::{
    cli::{
        context::request_id,
        outcome::{Failed, NO, Outcome, USAGE},
        output::{confirm, data, instant},
    },
    proto::v1::{self, cancel_job_response, enqueued},
};

/// Adds a job.
#[derive(Args, Debug)]
pub struct Add {
    queue: String,
    /// The payload; `-` reads it from stdin.
    #[arg(default_value = "")]
    payload: String,
    /// Unique in the queue.
    #[arg(long, default_value = "")]
    id: String,
    /// Due after this, such as 20s or 2h; less than nothing is now.
    #[arg(long, value_parser = span::parse, allow_hyphen_values = true)]
    delay: Option<Duration>,
    /// 0..8191, a smaller one goes first.
    #[arg(long, default_value_t = 0)]
    priority: u32,
    /// Jobs of one group run in order.
    #[arg(long, default_value = "")]
    group: String,
    /// Attempts in all.
    #[arg(long)]
    attempts: Option<u32>,
}

fn outcome(job: Option<v1::Enqueued>) -> Outcome {
    let job = job.unwrap_or_default();
    let word = match job.outcome() {
        enqueued::Outcome::Created => "created",
        enqueued::Outcome::Existing => "existing",
        enqueued::Outcome::Replaced => "replaced",
        enqueued::Outcome::Rescheduled => "rescheduled",
        enqueued::Outcome::AlreadyFinished => "already finished",
        enqueued::Outcome::Unspecified => "unknown",
    };
    data(&format!("{word}: due {}", instant(job.due_at).unwrap_or_else(|| "-".to_owned())))
}

impl Add {
    pub async fn run(self, mut context: Context) -> Outcome {
        let payload = if self.payload == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes)?;
            bytes
        } else {
            self.payload.into_bytes()
        };
        let job = v1::JobSpec {
            id: self.id,
            payload: payload.into(),
            priority: self.priority,
            group: self.group,
            when: self.delay.map(v1::job_spec::When::Delay),
            retry: self.attempts.map(|max_attempts| v1::RetryPolicy { max_attempts, ..Default::default() }),
            ..Default::default()
        };
        let request = v1::EnqueueRequest {
            namespace: context.namespace,
            queue: self.queue,
            request_id: request_id()?,
            job: Some(job),
        };
        outcome(context.client.enqueue(context.target.request(request)).await?.into_inner().job)
    }
}

pub async fn cancel(mut context: Context, queue: String, id: String) -> Outcome {
    use cancel_job_response::Outcome as Cancelled;
    let request = v1::CancelJobRequest { namespace: context.namespace, queue, id };
    match context.client.cancel_job(context.target.request(request)).await?.into_inner().outcome() {
        Cancelled::Cancelled => data("cancelled"),
        Cancelled::CancelRequested => data("a worker has it and was told"),
        Cancelled::AlreadyFinished => Err(Failed::new(NO, "it has ended already")),
        Cancelled::NotFound | Cancelled::Unspecified => Err(Failed::new(NO, "there is no such job")),
    }
}

/// Gives a job another due time.
#[derive(Args, Debug)]
pub struct Reschedule {
    queue: String,
    id: String,
    /// From now, such as 20s or 2h; less than nothing is now.
    #[arg(value_parser = span::parse, allow_hyphen_values = true)]
    delay: Duration,
}

impl Reschedule {
    pub async fn run(self, mut context: Context) -> Outcome {
        let request = v1::RescheduleJobRequest {
            namespace: context.namespace,
            queue: self.queue,
            id: self.id,
            when: Some(v1::reschedule_job_request::When::Delay(self.delay)),
        };
        outcome(context.client.reschedule_job(context.target.request(request)).await?.into_inner().job)
    }
}

pub async fn promote(mut context: Context, queue: String, id: String) -> Outcome {
    let request = v1::PromoteJobRequest { namespace: context.namespace, queue, id };
    outcome(context.client.promote_job(context.target.request(request)).await?.into_inner().job)
}

/// Gives dead jobs a new life.
#[derive(Args, Debug)]
pub struct RetryDead {
    queue: String,
    /// Which; none with `--all`.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// All of them.
    #[arg(long)]
    all: bool,
    /// Remove them instead.
    #[arg(long)]
    delete: bool,
}

impl RetryDead {
    pub async fn run(self, mut context: Context) -> Outcome {
        let (namespace, queue, ids, all) = (context.namespace, self.queue, self.ids, self.all);
        if self.delete {
            let request = v1::DeleteDeadRequest { namespace, queue, ids, all, since: None };
            let done = context.client.delete_dead(context.target.request(request)).await?.into_inner();
            return data(&format!("{} deleted", done.deleted));
        }
        let request = v1::RetryDeadRequest { namespace, queue, ids, all, since: None };
        let done = context.client.retry_dead(context.target.request(request)).await?.into_inner();
        data(&format!("{} retried", done.retried))
    }
}

/// Stops giving out jobs, for a while or until `resume`.
#[derive(Args, Debug)]
pub struct Pause {
    queue: String,
    /// For so long.
    #[arg(long = "for", value_parser = span::parse)]
    span: Option<Duration>,
}

impl Pause {
    pub async fn run(self, mut context: Context) -> Outcome {
        let request =
            v1::PauseQueueRequest { namespace: context.namespace, queue: self.queue, r#for: self.span };
        let done = context.client.pause_queue(context.target.request(request)).await?.into_inner();
        match instant(done.paused_until) {
            Some(until) => data(&format!("paused until {until}")),
            None => data("paused until it is resumed"),
        }
    }
}

pub async fn resume(mut context: Context, queue: String) -> Outcome {
    let request = v1::ResumeQueueRequest { namespace: context.namespace, queue };
    let done = context.client.resume_queue(context.target.request(request)).await?.into_inner();
    data(if done.resumed { "resumed" } else { "it was not paused" })
}

/// Sets what is given of a queue's settings.
#[derive(Args, Debug)]
pub struct Configure {
    queue: String,
    /// At most so many starts in so long, such as 20/1s; 0/1s takes the limit away.
    #[arg(long, value_parser = span::parse_limit)]
    limit: Option<(u32, Duration)>,
    /// Leases at once; 0: no bound.
    #[arg(long)]
    concurrency: Option<u32>,
    /// Attempts of jobs that bring no number of their own.
    #[arg(long)]
    attempts: Option<u32>,
    /// The wait after the first failure.
    #[arg(long, value_parser = span::parse)]
    backoff: Option<Duration>,
    /// How long done jobs stay.
    #[arg(long, value_parser = span::parse)]
    keep_done: Option<Duration>,
    /// How long dead jobs stay.
    #[arg(long, value_parser = span::parse)]
    keep_dead: Option<Duration>,
    /// Whether a job of a group that is due later lets those behind it go.
    #[arg(long)]
    skip_delayed: Option<bool>,
}

impl Configure {
    pub async fn run(self, mut context: Context) -> Outcome {
        let retry = (self.attempts.is_some() || self.backoff.is_some()).then(|| v1::RetryPolicy {
            max_attempts: self.attempts.unwrap_or(0),
            base: self.backoff,
            jitter_percent: None,
        });
        let retention = (self.keep_done.is_some() || self.keep_dead.is_some()).then_some(v1::Retention {
            done_age: self.keep_done,
            dead_age: self.keep_dead,
            ..Default::default()
        });
        let settings = v1::QueueSettings {
            limiter: self.limit.map(|(max, per)| v1::Limiter { max, duration: Some(per) }),
            concurrency: self.concurrency,
            retention,
            retry,
            skip_delayed: self.skip_delayed,
        };
        if settings == v1::QueueSettings::default() {
            return Err(Failed::new(USAGE, "nothing to set: see --help"));
        }
        let request = v1::ConfigureQueueRequest {
            namespace: context.namespace,
            queue: self.queue,
            settings: Some(settings),
        };
        context.client.configure_queue(context.target.request(request)).await?;
        data("set")
    }
}

/// Removes all jobs that wait, are scheduled or ready.
#[derive(Args, Debug)]
pub struct Purge {
    queue: String,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl Purge {
    pub async fn run(self, mut context: Context) -> Outcome {
        let what = format!("All jobs of the queue {} that are not at work are lost", self.queue);
        confirm(self.yes, &what, &self.queue)?;
        let request = v1::PurgeQueueRequest {
            namespace: context.namespace,
            confirm: self.queue.clone(),
            queue: self.queue,
            states: Vec::new(),
        };
        let done = context.client.purge_queue(context.target.request(request)).await?.into_inner();
        data(&format!("{} removed", done.removed))
    }
}
