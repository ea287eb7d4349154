//! The link over a bad network: small buffers, handshakes that stall, many that start together, calls that nobody waits for any more.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::time::Duration;

use futures_util::future::join_all;
use pannier::{proto::v1, valkey::LinkState};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
    bad_network,
    chaos::{Fault, Network},
    link::{TestLink, allowed, config, large_values_both_ways},
    unary::{Unary, commit},
};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

async fn behind_a_network(buffer: u32) -> (Valkey, Network) {
    let valkey = Valkey::start(ValkeyOptions { tcp: true, ..ValkeyOptions::default() });
    let network = Network::start(valkey.port, buffer).await;
    (valkey, network)
}

/// redis-rs#1955, #2070: both sides wait for the other to read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_large_writes_and_twenty_large_reads_pass_through_small_buffers() {
    let (_valkey, network) = behind_a_network(64 << 10).await;
    let link = TestLink::ready(config(network.url())).await;
    large_values_both_ways(&link.link, 40, 120 * SECOND).await;
    link.append("list", "a", 5 * SECOND).await.unwrap();
}

/// redis-rs#275, #404, #1190: packets that vanish. An error in time, and back by itself.
#[tokio::test]
async fn a_network_that_loses_everything_times_calls_out_and_is_back_when_it_carries_again() {
    let (valkey, network) = behind_a_network(0).await;
    let link = TestLink::ready(config(network.url())).await;
    for round in 0..3 {
        network.suffer(Fault::Silent);
        let begun = Instant::now();
        link.append("lost", "a", SECOND).await.unwrap_err();
        assert!(begun.elapsed() < allowed(SECOND), "{:?}", begun.elapsed());
        // Also those who come when it is known.
        link.wait_for(allowed(6 * SECOND), |state| matches!(state, LinkState::Down { .. })).await;
        network.suffer(Fault::None);
        let begun = Instant::now();
        link.append("list", "a", allowed(5 * SECOND)).await.unwrap();
        assert!(begun.elapsed() < allowed(5 * SECOND), "back after {:?}", begun.elapsed());
        assert_eq!(valkey.command::<i64>(&["LLEN", "list"]), round + 1);
    }
}

/// redis-rs#1442, #1490: it is accepted, and nothing more is said.
#[tokio::test]
async fn a_handshake_that_stalls_fails_in_its_time_and_is_begun_again() {
    let (_valkey, network) = behind_a_network(0).await;
    network.suffer(Fault::Silent);
    let link = TestLink::start(config(network.url()));
    let begun = Instant::now();
    while network.connections() < 2 {
        // 5 s an attempt, by --wake-timeout.
        assert!(begun.elapsed() < allowed(6 * SECOND), "the first attempt has no end");
        tokio::time::sleep(SECOND / 20).await;
    }
    let state = link.state();
    assert!(matches!(&*state.borrow(), LinkState::Starting { .. }), "{:?}", state.borrow());
    network.suffer(Fault::None);
    link.wait_ready(allowed(6 * SECOND)).await;
    link.append("list", "a", 5 * SECOND).await.unwrap();
}

/// valkey-glide#5177.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_five_that_start_together_all_get_there() {
    let (valkey, network) = behind_a_network(0).await;
    let keyring = support::link::keyring();
    let first = TestLink::with_keyring(config(network.url()), keyring.clone());
    first.wait_ready(10 * SECOND).await;
    let links: Vec<_> = (0..25)
        .map(|_| {
            let config = pannier::valkey::LinkConfig { init: false, ..config(network.url()) };
            TestLink::with_keyring(config, keyring.clone())
        })
        .collect();
    let appends = links.iter().map(|link| link.append("list", "a", 20 * SECOND));
    for reply in join_all(appends).await {
        reply.unwrap();
    }
    assert_eq!(valkey.command::<i64>(&["LLEN", "list"]), 25);
    // And again when the network was gone for all of them at once.
    network.suffer(Fault::Reset);
    tokio::time::sleep(SECOND / 2).await;
    network.suffer(Fault::None);
    let begun = Instant::now();
    for reply in join_all(links.iter().map(|link| link.append("list", "b", 20 * SECOND))).await {
        reply.unwrap();
    }
    assert!(begun.elapsed() < allowed(5 * SECOND), "{:?}", begun.elapsed());
}

/// Another continent: 200 ms there and back. What is done for each new connection must not add up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_valkey_that_is_far_away_is_connected_to_again() {
    let (_valkey, network, sidecar) = bad_network::start().await;
    network.suffer(Fault::Reset);
    tokio::time::sleep(SECOND / 5).await;
    network.suffer(Fault::Delay(SECOND / 10));
    let begun = Instant::now();
    let request = || {
        let mut request =
            tonic::Request::new(v1::GetSessionRequest { session: "x".into(), ..Default::default() });
        request.set_timeout(2 * SECOND);
        request
    };
    while let Err(status) = sidecar.sessions().get_session(request()).await {
        assert!(begun.elapsed() < allowed(8 * SECOND), "not back: {status:?}");
    }
    println!("back after {:?}", begun.elapsed());
}

/// redis-rs#1236: a blocking command that nobody waits for any more keeps its connection from the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_write_that_is_given_up_does_not_hold_up_the_next() {
    let primary = Valkey::start(ValkeyOptions { tcp: true, ..ValkeyOptions::default() });
    let replica = Valkey::start(ValkeyOptions::default());
    let _: String = replica.command(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    let begun = Instant::now();
    while !primary.command::<String>(&["INFO", "replication"]).contains("state=online") {
        assert!(begun.elapsed() < 20 * SECOND, "the replica does not follow");
        tokio::time::sleep(SECOND / 20).await;
    }
    let sidecar = Sidecar::start(Options::with(&primary)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", *b"x")], vec![]).await.unwrap();
    bot.close().await;
    let durable = |op_seq: u64| v1::CommitRecordsRequest {
        min_durability: v1::Durability::Replicas.into(),
        ..commit("bot", "w", op_seq, vec![put("session", "1.0", op_seq.to_string())])
    };
    replica.sigstop();
    // Each is given up while it waits for the replica.
    for op_seq in 1..=5 {
        let mut unary = Unary::of(&sidecar);
        let call = unary.commit(durable(op_seq));
        assert!(tokio::time::timeout(SECOND / 2, call).await.is_err(), "nothing was waited for");
    }
    let begun = Instant::now();
    Unary::of(&sidecar).commit(commit("bot", "other", 1, vec![put("session", "2.0", *b"v")])).await.unwrap();
    assert!(begun.elapsed() < allowed(SECOND / 10), "others wait: {:?}", begun.elapsed());
    replica.sigcont();
    let begun = Instant::now();
    let done = Unary::of(&sidecar).commit(durable(6)).await.unwrap();
    assert!(done.durability_met && done.durability() == v1::Durability::Replicas, "{done:?}");
    assert!(begun.elapsed() < allowed(2 * SECOND), "{:?}", begun.elapsed());
    assert_eq!(Unary::of(&sidecar).info("bot").await.revision, 1 + 5 + 1 + 1);
}
