//! `pannier queue` and `pannier crons`: looking at jobs and changing them, through the running sidecar.

mod change;
pub mod crons;
mod span;
mod view;

use clap::{Args, Subcommand, ValueEnum};

use super::{
    Format,
    connect::Channel,
    context::Place,
    listing::{self, Page},
    outcome::Outcome,
    output::{json, table},
};
use crate::proto::v1::{self, schedule_service_client::ScheduleServiceClient};

type Client = ScheduleServiceClient<Channel>;
/// What every subcommand works with.
type Context = super::context::Context<Client>;

/// Looks at queues and their jobs, and changes them.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier queue stats                            all queues of the namespace
  pannier queue list reminders dead --json
  pannier queue show reminders invoice-7
  pannier queue add reminders --id invoice-7 --delay 2h '{\"to\":\"…\"}'
  pannier queue retry-dead reminders --all
  pannier queue configure reminders --limit 20/1s --concurrency 5
  pannier queue purge reminders                  asks for the name")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    place: Place,
}

/// A list to look at.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Scheduled,
    Ready,
    Waiting,
    Leased,
    Done,
    Dead,
    Cancelled,
}

impl State {
    fn wire(self) -> v1::JobState {
        match self {
            Self::Scheduled => v1::JobState::Scheduled,
            Self::Ready => v1::JobState::Ready,
            Self::Waiting => v1::JobState::Waiting,
            Self::Leased => v1::JobState::Leased,
            Self::Done => v1::JobState::Done,
            Self::Dead => v1::JobState::Dead,
            Self::Cancelled => v1::JobState::Cancelled,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Counts jobs by state: of one queue, or of all.
    Stats {
        queue: Option<String>,
        #[command(flatten)]
        format: Format,
    },
    /// Lists jobs of one state.
    List {
        queue: String,
        #[arg(value_enum)]
        state: State,
        /// At most so many.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        #[command(flatten)]
        format: Format,
    },
    /// Shows one job, with its payload.
    Show {
        queue: String,
        id: String,
        #[command(flatten)]
        format: Format,
    },
    Add(change::Add),
    /// Takes a job back; a worker that has it is told.
    Cancel {
        queue: String,
        id: String,
    },
    Reschedule(change::Reschedule),
    /// Makes a scheduled job due now.
    Promote {
        queue: String,
        id: String,
    },
    RetryDead(change::RetryDead),
    Pause(change::Pause),
    /// Ends a pause.
    Resume {
        queue: String,
    },
    Configure(change::Configure),
    Purge(change::Purge),
}

fn context(place: Place) -> Outcome<Context> {
    place.context(|channel, most| {
        Client::new(channel).max_decoding_message_size(most).max_encoding_message_size(most)
    })
}

pub async fn run(arguments: Arguments) -> Outcome {
    let context = context(arguments.place)?;
    match arguments.command {
        Command::Stats { queue, format } => context.stats(queue, format).await,
        Command::List { queue, state, limit, format } => context.list(queue, state, limit, format).await,
        Command::Show { queue, id, format } => context.show(queue, id, format).await,
        Command::Add(add) => add.run(context).await,
        Command::Cancel { queue, id } => change::cancel(context, queue, id).await,
        Command::Reschedule(reschedule) => reschedule.run(context).await,
        Command::Promote { queue, id } => change::promote(context, queue, id).await,
        Command::RetryDead(retry) => retry.run(context).await,
        Command::Pause(pause) => pause.run(context).await,
        Command::Resume { queue } => change::resume(context, queue).await,
        Command::Configure(configure) => configure.run(context).await,
        Command::Purge(purge) => purge.run(context).await,
    }
}

impl Context {
    async fn queues(&mut self) -> Outcome<Vec<v1::Queue>> {
        let queues = listing::all(async |cursor| {
            let request = v1::ListQueuesRequest { namespace: self.namespace.clone(), cursor, limit: 100 };
            let page = self.client.list_queues(self.target.request(request)).await?.into_inner();
            Ok(Page { items: page.queues, corrupt: page.corrupt, cursor: page.cursor })
        });
        queues.await
    }

    async fn stats(mut self, queue: Option<String>, format: Format) -> Outcome {
        let queues = match queue {
            Some(queue) => {
                let request = v1::GetQueueRequest { namespace: self.namespace.clone(), queue };
                let found = self.client.get_queue(self.target.request(request)).await?.into_inner();
                found.queue.into_iter().collect()
            }
            None => self.queues().await?,
        };
        let mut queues: Vec<_> = queues.into_iter().map(view::Queue::from).collect();
        queues.sort_by(|a, b| a.queue.cmp(&b.queue));
        if format.json {
            return json(&queues);
        }
        table(&view::QUEUE_HEADER, queues.iter().map(view::Queue::row).collect())
    }

    async fn list(mut self, queue: String, state: State, limit: u32, format: Format) -> Outcome {
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let jobs = listing::at_most(wanted, async |cursor| {
            let request = v1::ListJobsRequest {
                namespace: self.namespace.clone(),
                queue: queue.clone(),
                state: state.wire().into(),
                cursor,
                limit: limit.min(500),
                with_payload: false,
            };
            let page = self.client.list_jobs(self.target.request(request)).await?.into_inner();
            Ok(Page { items: page.jobs, corrupt: page.corrupt, cursor: page.cursor })
        });
        let jobs: Vec<_> = jobs.await?.into_iter().map(view::Job::from).collect();
        if format.json {
            return json(&jobs);
        }
        table(&view::JOB_HEADER, jobs.iter().map(view::Job::row).collect())
    }

    async fn show(mut self, queue: String, id: String, format: Format) -> Outcome {
        let request = v1::GetJobRequest { namespace: self.namespace.clone(), queue, id };
        let found = self.client.get_job(self.target.request(request)).await?.into_inner();
        let job = view::Job::from(found.job.unwrap_or_default());
        if format.json {
            return json(&job);
        }
        table(&["field", "value"], job.fields())
    }
}
