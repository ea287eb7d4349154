//! `pannier queue` and `pannier crons`: what a person does with jobs, and what scripts read of it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::process::Output;

use pannier::proto::v1::NackVerdict;
use support::{
    Options, Sidecar, pannier, path_str,
    schedule::{Queue, grouped, job},
};

struct Cli<'a> {
    sidecar: &'a Sidecar,
}

impl Cli<'_> {
    async fn run(&self, args: &[&str]) -> Output {
        let socket = self.sidecar.socket.clone();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        tokio::task::spawn_blocking(move || {
            let mut all: Vec<&str> = args.iter().map(String::as_str).collect();
            all.extend(["--address", path_str(&socket)]);
            pannier(&all)
        })
        .await
        .unwrap()
    }

    async fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args).await;
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    async fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(&[args, &["--json"]].concat()).await).unwrap()
    }
}

#[tokio::test]
async fn jobs_are_added_looked_at_and_changed() {
    let sidecar = Sidecar::start(Options::default()).await;
    let (cli, queue) = (Cli { sidecar: &sidecar }, Queue::of(&sidecar, "reminders"));
    assert_eq!(cli.json(&["queue", "stats"]).await, serde_json::json!([]));
    let added =
        cli.ok(&["queue", "add", "reminders", "{\"to\":1}", "--id", "invoice-7", "--delay", "2h"]).await;
    assert!(added.starts_with("created: due 2"), "{added}");
    let again = cli.ok(&["queue", "add", "reminders", "--id", "invoice-7"]).await;
    assert!(again.starts_with("existing"), "{again}");
    let shown = cli.json(&["queue", "show", "reminders", "invoice-7"]).await;
    assert_eq!((shown["state"].as_str(), shown["payload"].as_str()), (Some("scheduled"), Some("{\"to\":1}")));
    assert!(cli.ok(&["queue", "show", "reminders", "invoice-7"]).await.contains("scheduled"));
    assert!(
        cli.ok(&["queue", "reschedule", "reminders", "invoice-7", "3h"]).await.starts_with("rescheduled")
    );
    assert!(cli.ok(&["queue", "promote", "reminders", "invoice-7"]).await.starts_with("rescheduled"));
    for n in 0..3 {
        queue.add(grouped(&format!("chat {n}"), "chat")).await;
    }
    let waiting = cli.json(&["queue", "list", "reminders", "waiting"]).await;
    let ids: Vec<_> = waiting.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["chat 1", "chat 2"]);
    let one = queue.take(1).await.pop().unwrap();
    queue.nack(&one, NackVerdict::Fail, None).await;
    let table = cli.ok(&["queue", "list", "reminders", "dead"]).await;
    assert!(table.contains("ID") && table.contains(&one.id), "{table}");
    assert_eq!(cli.ok(&["queue", "retry-dead", "reminders", "--all"]).await, "1 retried\n");
    assert_eq!(cli.ok(&["queue", "cancel", "reminders", "chat 2"]).await, "cancelled\n");
    assert_eq!(cli.run(&["queue", "cancel", "reminders", "none"]).await.status.code(), Some(1));
    let stats = cli.json(&["queue", "stats", "reminders"]).await;
    assert_eq!((stats[0]["ready"].as_u64(), stats[0]["waiting"].as_u64()), (Some(2), Some(1)));
    assert!(cli.ok(&["queue", "stats"]).await.contains("reminders"));
}

#[tokio::test]
async fn queues_are_paused_configured_and_purged() {
    let sidecar = Sidecar::start(Options::default()).await;
    let (cli, queue) = (Cli { sidecar: &sidecar }, Queue::of(&sidecar, "reminders"));
    for n in 0..3 {
        queue.add(job(&format!("job {n}"))).await;
    }
    assert!(cli.ok(&["queue", "pause", "reminders"]).await.contains("until it is resumed"));
    assert!(queue.take(1).await.is_empty());
    assert_eq!(cli.ok(&["queue", "resume", "reminders"]).await, "resumed\n");
    cli.ok(&["queue", "configure", "reminders", "--limit", "20/1s", "--concurrency", "5", "--attempts", "7"])
        .await;
    let settings = queue.info().await.settings.unwrap();
    assert_eq!((settings.limiter.unwrap().max, settings.concurrency), (20, Some(5)));
    assert_eq!(settings.retry.unwrap().max_attempts, 7);
    assert_eq!(cli.run(&["queue", "configure", "reminders"]).await.status.code(), Some(64));
    // Without a terminal nobody can be asked.
    assert_eq!(cli.run(&["queue", "purge", "reminders"]).await.status.code(), Some(64));
    assert_eq!(cli.ok(&["queue", "purge", "reminders", "--yes"]).await, "3 removed\n");
}

#[tokio::test]
async fn crons_are_set_listed_and_deleted() {
    let sidecar = Sidecar::start(Options::default()).await;
    let cli = Cli { sidecar: &sidecar };
    let set =
        cli.ok(&["crons", "set", "reminders", "daily", "0 9 * * *", "--time-zone", "America/Santiago"]).await;
    assert!(set.starts_with("created: next 2"), "{set}");
    assert!(cli.ok(&["crons", "set", "reminders", "poll", "--every", "5m"]).await.starts_with("created"));
    assert_eq!(cli.run(&["crons", "set", "reminders", "never", "0 0 30 2 *"]).await.status.code(), Some(64));
    let crons = cli.json(&["crons", "list", "reminders"]).await;
    assert_eq!((crons[0]["id"].as_str(), crons[1]["every_ms"].as_i64()), (Some("daily"), Some(300_000)));
    assert!(cli.ok(&["crons", "list", "reminders"]).await.contains("America/Santiago"));
    assert_eq!(cli.ok(&["crons", "delete", "reminders", "daily"]).await, "deleted\n");
    assert_eq!(cli.run(&["crons", "delete", "reminders", "daily"]).await.status.code(), Some(1));
}
