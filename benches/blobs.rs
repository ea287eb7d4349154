//! Numbers for people: how fast blobs go through, and what a session's reads feel of it. `make bench-blobs`, on a quiet machine.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::cast_precision_loss)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
    blob::content,
};

fn rate(bytes: usize, took: Duration) -> f64 {
    bytes as f64 / 1e6 / took.as_secs_f64()
}

#[tokio::test]
async fn throughput_against_a_file_copy() {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "everysec"));
    let sidecar = Sidecar::start(Options::with(&valkey).arg("--bulk-rate").arg("0")).await;
    let blobs = sidecar.blobs();
    eprintln!("{:>8} {:>12} {:>12} {:>12}", "MB", "save MB/s", "fetch MB/s", "copy MB/s");
    for mb in [1, 10, 100, 1000] {
        let content = content(mb, usize::try_from(mb).unwrap() * 1_000_000);
        let begin = Instant::now();
        blobs.save("bench", &content).await.unwrap();
        let save = begin.elapsed();
        let begin = Instant::now();
        assert_eq!(blobs.fetch("bench").await.unwrap().len(), content.len());
        let fetch = begin.elapsed();
        let (from, to) = (sidecar.dir.path().join("from"), sidecar.dir.path().join("to"));
        std::fs::write(&from, &content).unwrap();
        let begin = Instant::now();
        std::fs::copy(&from, &to).unwrap();
        std::fs::File::open(&to).unwrap().sync_all().unwrap();
        let copy = begin.elapsed();
        let of = |took| rate(content.len(), took);
        eprintln!("{mb:>8} {:>12.0} {:>12.0} {:>12.0}", of(save), of(fetch), of(copy));
        blobs.shred("bench", 0).await.unwrap();
    }
}

async fn reads(bot: &mut Attach, for_at_least: Duration) -> (Duration, Duration, usize) {
    let (begin, mut took) = (Instant::now(), Vec::new());
    while begin.elapsed() < for_at_least {
        let one = Instant::now();
        bot.get("session", &["1.0"]).await.unwrap();
        took.push(one.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    took.sort();
    (took[took.len() / 2], took[took.len() * 99 / 100], took.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn session_reads_beside_transfers() {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "everysec"));
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("session", "1.0", vec![7; 3000])], vec![]).await.unwrap();
    let show = |what: &str, (p50, p99, n): (Duration, Duration, usize)| {
        eprintln!("{what:>22}: p50 {p50:>9.1?}  p99 {p99:>9.1?}  of {n}");
    };
    let large = content(1, 200_000_000);
    let second = Duration::from_secs(4);
    show("quiet", reads(&mut bot, second).await);
    let blobs = sidecar.blobs();
    let saving = tokio::spawn({
        let (blobs, large) = (blobs.clone(), large.clone());
        async move { blobs.save("large", &large).await }
    });
    show("beside a save", reads(&mut bot, second).await);
    saving.await.unwrap().unwrap();
    let fetching = tokio::spawn(async move {
        let until = Instant::now() + second;
        while Instant::now() < until {
            blobs.fetch("large").await.unwrap();
        }
    });
    show("beside fetches", reads(&mut bot, second).await);
    fetching.await.unwrap();
    show("quiet again", reads(&mut bot, second).await);
}
