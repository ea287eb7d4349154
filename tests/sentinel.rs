//! The primary that Sentinels name, whichever that is at the moment.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1;
use support::{
    Options, ServingStatus, Sidecar, ValkeyOptions,
    attach::{Attach, open, put},
    drill::{Bots, assert_kept, revisions},
    link::allowed,
    sentinel::{NAME, Sentinels},
};

const THREE: Duration = Duration::from_secs(3);

fn options(sentinels: &Sentinels) -> Options {
    Options { valkey_url: Some(sentinels.url()), ..Options::default() }.arg("--sentinel").arg(NAME)
}

async fn sessions(sidecar: &Sidecar) -> Vec<String> {
    let names: Vec<String> = (0..4).map(|number| format!("bot-{number}")).collect();
    for name in &names {
        let mut attach = Attach::open(sidecar.channel(), open(name, "setup")).await.unwrap();
        attach.commit(1, vec![put("setup", "self", *b"x")], Vec::new()).await.unwrap();
        attach.close().await;
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_primary_is_replaced_and_what_a_replica_had_is_kept() {
    let mut sentinels = Sentinels::start();
    let mut sidecar = Sidecar::start(options(&sentinels)).await;
    let pid = sidecar.pid();
    let names = sessions(&sidecar).await;
    let before = revisions(&sidecar, &names).await;
    let bots = Bots::start(&sidecar, &names, v1::Durability::Replicas);
    tokio::time::sleep(Duration::from_secs(2)).await;
    sentinels.servers[0].kill9();
    let there = sentinels.wait_promoted();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let logs = bots.stop().await;
    for (name, log) in names.iter().zip(&logs) {
        let replicated = log.done.iter().filter(|(.., replicated)| *replicated).count();
        let resumed = log.resumed(there).unwrap_or(Duration::MAX);
        println!(
            "{name}: {} writes ({replicated} replicated), gap {:?}, resumed {resumed:?}, failed {:?}",
            log.done.len(),
            log.gap(),
            log.failed
        );
        assert!(replicated > 0, "{name}: nothing was replicated");
        assert!(
            log.lost.iter().all(|(_, replicated)| !replicated),
            "{name} lost what a replica had: {:?}",
            log.lost
        );
        assert!(resumed <= allowed(THREE), "{name} went on after {resumed:?}");
    }
    assert_kept(&sidecar, &names, &logs, &before).await;
    assert!(sidecar.is_running() && sidecar.pid() == pid);

    // The old one rejoins as a replica; nothing is written to it.
    sentinels.servers[0].spawn();
    let until = Instant::now() + Duration::from_secs(20);
    while sentinels.servers[0].is_primary() {
        assert!(Instant::now() < until, "the old primary was not made a replica");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let again = Bots::start(&sidecar, &names, v1::Durability::Unspecified);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(again.stop().await.iter().all(|log| log.lost.is_empty()));
    assert_eq!(sidecar.serving("").await, Some(ServingStatus::Serving));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_primary_is_left_for_the_one_that_the_sentinels_name() {
    let sentinels = Sentinels::start();
    let sidecar = Sidecar::start(options(&sentinels)).await;
    let names = sessions(&sidecar).await;
    let before = revisions(&sidecar, &names).await;
    let bots = Bots::start(&sidecar, &names, v1::Durability::Replicas);
    tokio::time::sleep(Duration::from_secs(1)).await;
    sentinels.servers[0].sigstop();
    let there = sentinels.wait_promoted();
    tokio::time::sleep(Duration::from_secs(5)).await;
    // It wakes up and still thinks that it is the primary, for a moment.
    sentinels.servers[0].sigcont();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let logs = bots.stop().await;
    for (name, log) in names.iter().zip(&logs) {
        println!(
            "{name}: {} writes, gap {:?}, resumed {:?}, failed {:?}",
            log.done.len(),
            log.gap(),
            log.resumed(there),
            log.failed
        );
        assert!(log.resumed(there).unwrap() <= allowed(THREE), "{name}: {:?}", log.resumed(there));
        assert!(log.lost.iter().all(|(_, replicated)| !replicated), "{name}: {:?}", log.lost);
    }
    assert_kept(&sidecar, &names, &logs, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_is_asked_for_under_load_fails_no_call() {
    let sentinels = Sentinels::start();
    let sidecar = Sidecar::start(options(&sentinels)).await;
    let names = sessions(&sidecar).await;
    let bots = Bots::start(&sidecar, &names, v1::Durability::Replicas);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut sentinel = redis::Client::open(format!("redis://127.0.0.1:{}", sentinels.ports[0]))
        .unwrap()
        .get_connection()
        .unwrap();
    redis::cmd("SENTINEL").arg("FAILOVER").arg(NAME).query::<()>(&mut sentinel).unwrap();
    let there = sentinels.wait_promoted();
    tokio::time::sleep(Duration::from_secs(4)).await;
    for (name, log) in names.iter().zip(bots.stop().await) {
        println!("{name}: {} writes, gap {:?}, lost {:?}", log.done.len(), log.gap(), log.lost);
        assert!(log.failed.is_empty(), "{name}: {:?}", log.failed);
        assert!(log.resumed(there).unwrap() <= allowed(THREE), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_with_a_password_of_their_own_of_which_one_is_dead() {
    let mut sentinels = Sentinels::start_with(&ValkeyOptions::default(), Some("s3cret-sentinel"));
    sentinels.kill_sentinel(0);
    let dir = support::short_temp_dir();
    let password = dir.path().join("password");
    std::fs::write(&password, "s3cret-sentinel\n").unwrap();
    let mut sidecar =
        Sidecar::start(options(&sentinels).arg("--sentinel-password-file").arg(support::path_str(&password)))
            .await;
    assert_eq!(sessions(&sidecar).await.len(), 4);
    assert!(!sidecar.logs().contains("s3cret"), "{}", sidecar.logs());
    sidecar.stop().await;

    // A name that they do not know, and no password: said, and tried again.
    let mut lost = Sidecar::start(Options { no_wait: true, ..options(&sentinels) }).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(lost.is_running() && lost.logs().contains("refused"), "{}", lost.logs());
}
