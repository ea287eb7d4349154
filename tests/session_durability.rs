//! What a reply says it is worth, it is worth.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{self, Durability};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
    link::allowed,
    unary::{self, Unary},
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn each_reply_says_how_durable_it_is_and_whether_that_is_what_was_asked_for() {
    let levels = [
        (("appendonly", "no"), Durability::Memory),
        (("appendfsync", "everysec"), Durability::Aof),
        (("appendfsync", "always"), Durability::Fsync),
    ];
    for ((name, value), reached) in levels {
        let valkey = Valkey::start(ValkeyOptions::default().set(name, value));
        let sidecar = Sidecar::start(Options::with(&valkey)).await;
        let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
        assert_eq!((bot.opened.durability(), bot.opened.durability_met), (reached, true));
        let asked = [Durability::Memory, Durability::Aof, Durability::Fsync, Durability::Replicas];
        for (n, asked) in (1..).zip(asked) {
            let commit = v1::Commit {
                op_seq: n,
                puts: vec![put("creds", "creds", n.to_string())],
                min_durability: asked.into(),
                ..Default::default()
            };
            let committed = bot.commit_as(commit).await.unwrap();
            let met = asked as i32 <= reached as i32;
            assert_eq!((committed.durability(), committed.durability_met), (reached, met), "{asked:?}");
            // Not met is no error: it is written.
            assert_eq!(bot.value("creds", "creds").await, Some(n.to_string().into_bytes()));
        }
        bot.close().await;
        let request = v1::CommitRecordsRequest {
            min_durability: Durability::Replicas.into(),
            ..unary::commit("bot", "admin", 1, vec![put("creds", "creds", "admin")])
        };
        let committed = Unary::of(&sidecar).commit(request).await.unwrap();
        assert_eq!((committed.durability(), committed.durability_met), (reached, false));
    }
}

/// A fence that a failover forgets could be given out twice: so an Open waits for one replica, but not for ever.
#[tokio::test]
async fn an_open_waits_for_a_replica_to_have_its_fence_and_says_when_none_has() {
    let primary = Valkey::start(ValkeyOptions { tcp: true, ..ValkeyOptions::default() });
    let replica = Valkey::start(ValkeyOptions::default());
    let _: String = replica.command(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    let until = Instant::now() + 20 * SECOND;
    while !replica.command::<String>(&["INFO", "replication"]).contains("master_link_status:up") {
        assert!(Instant::now() < until, "the replica does not follow");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let sidecar = Sidecar::start(Options::with(&primary)).await;
    let bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    assert!(bot.opened.durability_met, "the replica has it");
    let heads: Vec<String> = replica.command(&["KEYS", "pannier:test:{*}:h"]);
    let fence: u64 = replica.command(&["HGET", &heads[0], "f"]);
    assert_eq!(fence, bot.opened.fence);
    replica.sigstop();
    let begin = Instant::now();
    let bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let took = begin.elapsed();
    assert!(!bot.opened.durability_met, "it cannot have it");
    assert!(took > Duration::from_millis(500) && took < allowed(SECOND), "{took:?}");
    replica.sigcont();
}
