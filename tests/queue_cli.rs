//! `pannier queue` and `pannier crons`: what a person does with jobs, and what scripts read of it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use pannier::proto::v1::NackVerdict;
use support::{
    Options, Sidecar,
    cli::Cli,
    schedule::{Queue, grouped, job},
};

#[tokio::test]
async fn jobs_are_added_looked_at_and_changed() {
    let sidecar = Sidecar::start(Options::default()).await;
    let (cli, queue) = (Cli::of(&sidecar, &[]), Queue::of(&sidecar, "reminders"));
    assert_eq!(cli.json(&["queue", "stats"]), serde_json::json!([]));
    let added = cli.data(&["queue", "add", "reminders", "{\"to\":1}", "--id", "invoice-7", "--delay", "2h"]);
    assert!(added.starts_with("created: due 2"), "{added}");
    // Less than nothing is now.
    let due = cli.data(&["queue", "add", "other", "--id", "late", "--delay", "-5s"]);
    assert!(due.starts_with("created"), "{due}");
    assert_eq!(cli.json(&["queue", "show", "other", "late"])["state"].as_str(), Some("ready"));
    assert!(cli.data(&["queue", "reschedule", "other", "late", "-1h"]).starts_with("rescheduled"));
    cli.data(&["queue", "purge", "other", "--yes"]);
    let again = cli.data(&["queue", "add", "reminders", "--id", "invoice-7"]);
    assert!(again.starts_with("existing"), "{again}");
    let shown = cli.json(&["queue", "show", "reminders", "invoice-7"]);
    assert_eq!((shown["state"].as_str(), shown["payload"].as_str()), (Some("scheduled"), Some("{\"to\":1}")));
    assert!(cli.data(&["queue", "show", "reminders", "invoice-7"]).contains("scheduled"));
    assert!(cli.data(&["queue", "reschedule", "reminders", "invoice-7", "3h"]).starts_with("rescheduled"));
    assert!(cli.data(&["queue", "promote", "reminders", "invoice-7"]).starts_with("rescheduled"));
    for n in 0..3 {
        queue.add(grouped(&format!("chat {n}"), "chat")).await;
    }
    let waiting = cli.json(&["queue", "list", "reminders", "waiting"]);
    let ids: Vec<_> = waiting.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["chat 1", "chat 2"]);
    let one = queue.take(1).await.pop().unwrap();
    queue.nack(&one, NackVerdict::Fail, None).await;
    let table = cli.data(&["queue", "list", "reminders", "dead"]);
    assert!(table.contains("ID") && table.contains(&one.id), "{table}");
    assert_eq!(cli.data(&["queue", "retry-dead", "reminders", "--all"]), "1 retried\n");
    assert_eq!(cli.data(&["queue", "cancel", "reminders", "chat 2"]), "cancelled\n");
    assert_eq!(cli.run(&["queue", "cancel", "reminders", "none"]).status.code(), Some(1));
    let stats = cli.json(&["queue", "stats", "reminders"]);
    assert_eq!((stats[0]["ready"].as_u64(), stats[0]["waiting"].as_u64()), (Some(2), Some(1)));
    assert!(cli.data(&["queue", "stats"]).contains("reminders"));
}

#[tokio::test]
async fn queues_are_paused_configured_and_purged() {
    let sidecar = Sidecar::start(Options::default()).await;
    let (cli, queue) = (Cli::of(&sidecar, &[]), Queue::of(&sidecar, "reminders"));
    for n in 0..3 {
        queue.add(job(&format!("job {n}"))).await;
    }
    assert!(cli.data(&["queue", "pause", "reminders"]).contains("until it is resumed"));
    assert!(queue.take(1).await.is_empty());
    assert_eq!(cli.data(&["queue", "resume", "reminders"]), "resumed\n");
    cli.data(&[
        "queue",
        "configure",
        "reminders",
        "--limit",
        "20/1s",
        "--concurrency",
        "5",
        "--attempts",
        "7",
    ]);
    let settings = queue.info().await.settings.unwrap();
    assert_eq!((settings.limiter.unwrap().max, settings.concurrency), (20, Some(5)));
    assert_eq!(settings.retry.unwrap().max_attempts, 7);
    assert_eq!(cli.run(&["queue", "configure", "reminders"]).status.code(), Some(64));
    // Without a terminal nobody can be asked.
    assert_eq!(cli.run(&["queue", "purge", "reminders"]).status.code(), Some(64));
    assert_eq!(cli.data(&["queue", "purge", "reminders", "--yes"]), "3 removed\n");
}

#[tokio::test]
async fn crons_are_set_listed_and_deleted() {
    let sidecar = Sidecar::start(Options::default()).await;
    let cli = Cli::of(&sidecar, &[]);
    let set =
        cli.data(&["crons", "set", "reminders", "daily", "0 9 * * *", "--time-zone", "America/Santiago"]);
    assert!(set.starts_with("created: next 2"), "{set}");
    assert!(cli.data(&["crons", "set", "reminders", "poll", "--every", "5m"]).starts_with("created"));
    assert_eq!(cli.run(&["crons", "set", "reminders", "never", "0 0 30 2 *"]).status.code(), Some(64));
    let crons = cli.json(&["crons", "list", "reminders"]);
    assert_eq!((crons[0]["id"].as_str(), crons[1]["every_ms"].as_i64()), (Some("daily"), Some(300_000)));
    assert!(cli.data(&["crons", "list", "reminders"]).contains("America/Santiago"));
    assert_eq!(cli.data(&["crons", "delete", "reminders", "daily"]), "deleted\n");
    assert_eq!(cli.run(&["crons", "delete", "reminders", "daily"]).status.code(), Some(1));
}
