//! `pannier crons`: recurring jobs.

use clap::{Args, Subcommand};
use prost_types::Duration;
use serde::Serialize;

use super::{Context, context, span, view::ms};
use crate::{
    cli::{
        Format,
        context::Place,
        listing::{self, Page},
        outcome::{Failed, NO, Outcome},
        output::{data, instant, json, or_dash, shown, table},
    },
    proto::v1::{self, upsert_cron_response},
};

/// Lists, sets and deletes recurring jobs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier crons list reminders
  pannier crons set reminders daily '0 9 * * *' --time-zone America/Santiago --payload '{\"kind\":\"digest\"}'
  pannier crons set reminders poll --every 5m
  pannier crons delete reminders daily")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the recurring jobs of a queue.
    List {
        queue: String,
        #[command(flatten)]
        format: Format,
    },
    Set(Set),
    /// Ends a recurring job; jobs that it made stay.
    Delete {
        queue: String,
        id: String,
    },
}

/// Sets a recurring job.
#[derive(Args, Debug)]
struct Set {
    queue: String,
    id: String,
    /// Five fields, or six with seconds in front.
    #[arg(required_unless_present = "every", conflicts_with = "every")]
    pattern: Option<String>,
    /// What each job carries.
    #[arg(long, default_value = "")]
    payload: String,
    /// At multiples of this since 1970, such as 5m.
    #[arg(long, value_parser = span::parse)]
    every: Option<Duration>,
    /// An IANA name; UTC when it is not given.
    #[arg(long, default_value = "")]
    time_zone: String,
}

#[derive(Serialize)]
struct Shown {
    id: String,
    pattern: Option<String>,
    every_ms: Option<i64>,
    time_zone: String,
    next_at: Option<String>,
    last_at: Option<String>,
}

impl From<v1::CronInfo> for Shown {
    fn from(info: v1::CronInfo) -> Self {
        let cron = info.cron.unwrap_or_default();
        let (pattern, every_ms) = match cron.rule {
            Some(v1::cron::Rule::Pattern(pattern)) => (Some(pattern), None),
            Some(v1::cron::Rule::Every(every)) => (None, Some(ms(Some(&every)))),
            None => (None, None),
        };
        let (next_at, last_at) = (instant(info.next_at), instant(info.last_at));
        Self { id: cron.id, pattern, every_ms, time_zone: cron.time_zone, next_at, last_at }
    }
}

impl Shown {
    fn row(&self) -> Vec<String> {
        let rule = match (&self.pattern, self.every_ms) {
            (Some(pattern), _) => shown(pattern),
            (None, every) => format!("every {} ms", every.unwrap_or(0)),
        };
        let zone = if self.time_zone.is_empty() { "UTC".to_owned() } else { shown(&self.time_zone) };
        vec![shown(&self.id), rule, zone, or_dash(self.next_at.as_ref()), or_dash(self.last_at.as_ref())]
    }
}

pub async fn run(arguments: Arguments) -> Outcome {
    let context = context(arguments.place)?;
    match arguments.command {
        Command::List { queue, format } => list(context, queue, format).await,
        Command::Set(set) => set.run(context).await,
        Command::Delete { queue, id } => delete(context, queue, id).await,
    }
}

async fn list(mut context: Context, queue: String, format: Format) -> Outcome {
    let crons = listing::all(async |cursor| {
        let request = v1::ListCronsRequest {
            namespace: context.namespace.clone(),
            queue: queue.clone(),
            cursor,
            limit: 500,
            occurrences: 1,
        };
        let page = context.client.list_crons(context.target.request(request)).await?.into_inner();
        Ok(Page { items: page.crons, corrupt: page.corrupt, cursor: page.cursor })
    });
    let mut crons: Vec<_> = crons.await?.into_iter().map(Shown::from).collect();
    crons.sort_by(|a, b| a.id.cmp(&b.id));
    if format.json {
        return json(&crons);
    }
    table(&["id", "fires", "time zone", "next", "last"], crons.iter().map(Shown::row).collect())
}

impl Set {
    async fn run(self, mut context: Context) -> Outcome {
        let rule = match (self.pattern, self.every) {
            (Some(pattern), _) => v1::cron::Rule::Pattern(pattern),
            (None, every) => v1::cron::Rule::Every(every.unwrap_or_default()),
        };
        let cron = v1::Cron {
            id: self.id,
            rule: Some(rule),
            time_zone: self.time_zone,
            template: Some(v1::JobSpec { payload: self.payload.into_bytes().into(), ..Default::default() }),
            ..Default::default()
        };
        let request =
            v1::UpsertCronRequest { namespace: context.namespace, queue: self.queue, cron: Some(cron) };
        let done = context.client.upsert_cron(context.target.request(request)).await?.into_inner();
        let word = match done.outcome() {
            upsert_cron_response::Outcome::Updated => "updated",
            upsert_cron_response::Outcome::Unchanged => "unchanged",
            _ => "created",
        };
        data(&format!("{word}: next {}", instant(done.next_at).unwrap_or_else(|| "-".to_owned())))
    }
}

async fn delete(mut context: Context, queue: String, id: String) -> Outcome {
    let request = v1::DeleteCronRequest { namespace: context.namespace, queue, id };
    let done = context.client.delete_cron(context.target.request(request)).await?.into_inner();
    if done.deleted { data("deleted") } else { Err(Failed::new(NO, "there is no such cron")) }
}
