//! The same sidecar on a cluster: every capability, on keys of every node.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1;
use support::{
    Options, ServingStatus, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
    cluster::Cluster,
    drill::{Bots, assert_kept, revisions},
    everything::use_everything,
    link::allowed,
    small::answered,
    unary,
    valkey::other_server,
};
use tonic::Code;

fn options(cluster: &Cluster) -> Options {
    Options { valkey_url: Some(cluster.url()), ..Options::default() }.arg("--cluster")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_capability_works_on_keys_of_every_node() {
    let cluster = Cluster::start(3, 0);
    let sidecar = Sidecar::start(options(&cluster)).await;

    use_everything(&sidecar).await;
    for node in &cluster.nodes {
        assert!(!node.keys("pannier:test:*:h").is_empty(), "nothing is on this node");
    }
    let facts = answered(sidecar.admin().server_info(v1::ServerInfoRequest::default()).await).unwrap();
    assert_eq!((facts.topology.as_str(), facts.connections), ("cluster", 9));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_url_names_must_be_what_was_said() {
    let (cluster, alone) =
        (Cluster::start(1, 0), Valkey::start(ValkeyOptions { tcp: true, ..ValkeyOptions::default() }));
    for (options, why) in [
        (
            Options { valkey_url: Some(cluster.nodes[0].tcp_url()), ..Options::default() },
            "start with --cluster",
        ),
        (
            Options { valkey_url: Some(alone.tcp_url()), ..Options::default() }.arg("--cluster"),
            "start without --cluster",
        ),
        (Options { valkey_url: Some(alone.url()), ..Options::default() }.arg("--cluster"), "not unix://"),
        (
            Options { valkey_url: Some(format!("{}/2", cluster.nodes[0].tcp_url())), ..Options::default() }
                .arg("--cluster"),
            "database 0",
        ),
        (
            Options { valkey_url: Some(format!("{},127.0.0.1:1", alone.tcp_url())), ..Options::default() },
            "--cluster or --sentinel",
        ),
    ] {
        let mut sidecar = Sidecar::start(Options { no_wait: true, ..options }).await;
        let status = sidecar.wait_exit(Duration::from_secs(20)).await;
        assert_eq!(status.code(), Some(78), "{}", sidecar.logs());
        assert!(sidecar.logs().contains(why), "{why}: {}", sidecar.logs());
    }
}

/// Sessions whose keys are at a node, by node.
async fn sessions(
    cluster: &Cluster,
    sidecar: &Sidecar,
    count: usize,
) -> (Vec<String>, Vec<Vec<(String, u16)>>) {
    let (mut names, mut at) = (Vec::new(), vec![Vec::new(); cluster.nodes.len()]);
    let mut known: Vec<String> = Vec::new();
    for number in 0..count {
        let name = format!("bot-{number}");
        let mut attach = Attach::open(sidecar.channel(), open(&name, "setup")).await.unwrap();
        attach.commit(1, vec![put("setup", "self", *b"x")], Vec::new()).await.unwrap();
        attach.close().await;
        let keys = cluster.keys("pannier:test:{*}:h");
        let new: Vec<_> = keys.iter().filter(|key| !known.contains(key)).collect();
        assert_eq!(new.len(), 1, "{new:?}");
        let slot = cluster.slot_of(new[0]);
        let node = cluster.owner_of(0, slot).unwrap();
        at[node].push((name.clone(), slot));
        names.push(name);
        known = keys;
    }
    (names, at)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_primary_costs_seconds_and_nothing_that_a_replica_had() {
    let mut cluster = Cluster::start(3, 1);
    let mut sidecar = Sidecar::start(options(&cluster)).await;
    let pid = sidecar.pid();
    let (names, at) = sessions(&cluster, &sidecar, 9).await;
    let hit = at.iter().position(|sessions| !sessions.is_empty()).unwrap();
    let (_, slot) = at[hit][0];
    let before: Vec<u64> = revisions(&sidecar, &names).await;
    let bots = Bots::start(&sidecar, &names, v1::Durability::Replicas);
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.nodes[hit].kill9();
    cluster.wait_other(slot, hit);
    let there = Instant::now();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let logs = bots.stop().await;

    let mut unreplicated = 0;
    for (name, log) in names.iter().zip(&logs) {
        assert!(
            log.lost.iter().all(|(_, replicated)| !replicated),
            "{name} lost what a replica had: {:?}",
            log.lost
        );
        unreplicated += log.done.iter().filter(|(.., replicated)| !replicated).count();
        let resumed = log.resumed(there).unwrap_or(Duration::MAX);
        assert!(
            resumed <= allowed(Duration::from_secs(3)),
            "{name} went on after {resumed:?}: {:?}",
            log.failed
        );
        let is_hit = at[hit].iter().any(|(other, _)| other == name);
        println!(
            "{name}{}: {} writes, gap {:?}, resumed {resumed:?}, failed {:?}",
            if is_hit { " (hit)" } else { "" },
            log.done.len(),
            log.gap(),
            log.failed
        );
        if !is_hit {
            assert!(log.failed.is_empty(), "{name} is at another node: {:?}", log.failed);
        }
    }
    println!("{unreplicated} writes were not replicated in time");
    assert_kept(&sidecar, &names, &logs, &before).await;
    assert!(sidecar.is_running() && sidecar.pid() == pid);
    assert_eq!(sidecar.serving("").await, Some(ServingStatus::Serving));

    // The old primary comes back as a replica of the new one, and is nobody's primary.
    cluster.nodes[hit].spawn();
    cluster.wait_whole();
    let again = Bots::start(&sidecar, &names[..1], v1::Durability::Unspecified);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(again.stop().await[0].failed.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demoted_primary_is_left_for_the_new_one() {
    let cluster = Cluster::start(3, 1);
    let sidecar = Sidecar::start(options(&cluster)).await;
    let (names, at) = sessions(&cluster, &sidecar, 6).await;
    let hit = at.iter().position(|sessions| !sessions.is_empty()).unwrap();
    let before = revisions(&sidecar, &names).await;
    let bots = Bots::start(&sidecar, &names, v1::Durability::Unspecified);
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster.nodes[hit + 3].command::<()>(&["CLUSTER", "FAILOVER"]);
    cluster.wait_other(at[hit][0].1, hit);
    let there = Instant::now();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let logs = bots.stop().await;
    for (name, log) in names.iter().zip(&logs) {
        assert!(log.failed.is_empty() && log.lost.is_empty(), "{name}: {:?} {:?}", log.failed, log.lost);
        assert!(log.resumed(there).unwrap() <= allowed(Duration::from_secs(3)), "{name}");
    }
    assert_kept(&sidecar, &names, &logs, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_move_key_by_key_tear_nothing_and_hold_up_nobody_else() {
    let mut cluster = Cluster::start(3, 0);
    let sidecar = Sidecar::start(options(&cluster)).await;
    let (names, at) = sessions(&cluster, &sidecar, 9).await;
    let from = at.iter().position(|sessions| !sessions.is_empty()).unwrap();
    // A node that had no slot yet, and one that has some.
    let (new, old) = (cluster.add(), (from + 1) % 3);
    let before = revisions(&sidecar, &names).await;
    let bots = Bots::start(&sidecar, &names, v1::Durability::Unspecified);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let moving: Vec<u16> = at[from].iter().map(|(_, slot)| *slot).collect();
    let cluster = tokio::task::spawn_blocking(move || {
        for (number, slot) in moving.iter().enumerate() {
            let to = if number % 2 == 0 { new } else { old };
            cluster.move_slot(*slot, from, to, Duration::from_millis(300));
            cluster.move_slot(*slot, to, from, Duration::from_millis(100));
            cluster.move_slot(*slot, from, to, Duration::ZERO);
        }
        cluster
    })
    .await
    .unwrap();
    let there = Instant::now();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let logs = bots.stop().await;
    for (name, log) in names.iter().zip(&logs) {
        let moved = at[from].iter().any(|(other, _)| other == name);
        println!(
            "{name}{}: {} writes, gap {:?}, failed {:?}",
            if moved { " (moved)" } else { "" },
            log.done.len(),
            log.gap(),
            log.failed
        );
        assert!(log.lost.is_empty(), "{name} lost {:?}", log.lost);
        assert!(log.resumed(there).unwrap() <= allowed(Duration::from_secs(3)), "{name}");
        if !moved {
            assert!(log.failed.is_empty(), "{name} did not move: {:?}", log.failed);
        }
    }
    assert_kept(&sidecar, &names, &logs, &before).await;
    drop(cluster);
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_move_in_one_go_are_followed() {
    let Some(server) = other_server("wheel") else { return };
    let cluster =
        Cluster::start_with(3, 0, &ValkeyOptions { server: Some(server), ..ValkeyOptions::default() });
    let sidecar = Sidecar::start(options(&cluster)).await;
    let (names, at) = sessions(&cluster, &sidecar, 9).await;
    let from = at.iter().position(|sessions| !sessions.is_empty()).unwrap();
    let to = (from + 1) % 3;
    let before = revisions(&sidecar, &names).await;
    let bots = Bots::start(&sidecar, &names, v1::Durability::Unspecified);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let id: String = cluster.nodes[to].command(&["CLUSTER", "MYID"]);
    for (_, slot) in &at[from] {
        let range = slot.to_string();
        cluster.nodes[from].command::<()>(&[
            "CLUSTER",
            "MIGRATESLOTS",
            "SLOTSRANGE",
            &range,
            &range,
            "NODE",
            &id,
        ]);
        cluster.wait_other(*slot, from);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let logs = bots.stop().await;
    for (name, log) in names.iter().zip(&logs) {
        println!("{name}: {} writes, gap {:?}", log.done.len(), log.gap());
        assert!(log.failed.is_empty() && log.lost.is_empty(), "{name}: {:?} {:?}", log.failed, log.lost);
        assert!(log.gap() <= allowed(Duration::from_secs(3)), "{name} waited {:?}", log.gap());
    }
    assert_kept(&sidecar, &names, &logs, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_its_data_is_no_empty_session() {
    let cluster = Cluster::start(3, 0);
    let mut sidecar = Sidecar::start(options(&cluster)).await;
    let (names, at) = sessions(&cluster, &sidecar, 6).await;
    let hit = at.iter().position(|sessions| !sessions.is_empty()).unwrap();
    cluster.nodes[hit].command::<()>(&["FLUSHALL"]);
    let mut unary = unary::Unary::of(&sidecar);
    for (name, _) in &at[hit] {
        let refused = unary.get(name, "setup", &["self"]).await.unwrap_err();
        assert_eq!(refused.why(), (Code::Unavailable, "STORE_CHANGED"), "{name}");
    }
    sidecar.wait_status(ServingStatus::NotServing, Duration::from_secs(6)).await;
    assert_eq!(names.len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_looks_at_every_node() {
    let cluster = Cluster::start(3, 0);
    let sidecar = Sidecar::start(options(&cluster)).await;
    let doctor = |args: &[&str]| {
        let mut all = vec!["doctor", "--json", "--env", "test", "--keyring"];
        let (keyring, url) = (sidecar.keyring(), cluster.url());
        all.extend([support::path_str(&keyring), "--valkey-url", &url]);
        all.extend(args);
        let output = support::pannier(&all);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, told) = doctor(&["--cluster"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("3 primaries serve all slots") && told.contains("every part of the index"),
        "{told}"
    );
    cluster.nodes[1].command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let (code, told) = doctor(&["--cluster"]);
    assert_eq!(code, Some(78), "{told}");
    assert!(told.contains(&format!("at 127.0.0.1:{}", cluster.nodes[1].port)), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_certificates_for_a_name_may_call_themselves_by_their_addresses() {
    let dir = support::short_temp_dir();
    support::valkey::certificates(dir.path());
    let file = |name: &str| dir.path().join(name);
    let cluster = Cluster::start_tls(2, &file("ca.pem"), &file("server.pem"), &file("server.key"));
    let url = format!("valkeys://localhost:{}", cluster.nodes[0].port);
    let options = Options { valkey_url: Some(url), ..Options::default() }.arg("--cluster");
    let sidecar = Sidecar::start(options.arg("--valkey-ca").arg(support::path_str(&file("ca.pem")))).await;
    use_everything(&sidecar).await;
}
