//! The link over a real Valkey that dies, freezes, fills up and forgets.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use futures_util::{StreamExt as _, stream::FuturesOrdered};
use pannier::valkey::{Lane, LinkConfig, LinkError, LinkState, Op, ServerError, Target, UrlTarget};
use redis::Value;
use support::link::{Proxy, TestLink, allowed, append, config, large_values_both_ways};
use support::{Valkey, ValkeyOptions};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn soon() -> Instant {
    Instant::now() + 10 * SECOND
}

#[tokio::test]
async fn pipelines_of_one_task_are_executed_in_the_order_of_their_submission() {
    let mut valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    // Also when they have to wait for a connection first.
    valkey.kill9();
    link.wait_for(allowed(SECOND), |state| matches!(state, LinkState::Down { .. })).await;
    let batches: Vec<_> = (0..600).map(|n| [append("list", &n.to_string()), append("list", "-")]).collect();
    let mut calls: FuturesOrdered<_> =
        batches.iter().map(|ops| link.pipeline(Lane::Small, ops, soon())).collect();
    assert!(futures_util::poll!(calls.next()).is_pending());
    valkey.spawn();
    let mut length = 0;
    while let Some(replies) = calls.next().await {
        for reply in replies.unwrap() {
            length += 1;
            assert_eq!(reply.unwrap(), Value::Int(length));
        }
    }
    let list: Vec<String> = valkey.command(&["LRANGE", "list", "0", "-1"]);
    let numbers: Vec<String> = list.into_iter().step_by(2).collect();
    assert_eq!(numbers, (0..600).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_error_of_the_server_belongs_to_the_op_that_met_it() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    let _: () = valkey.command(&["SET", "text", "x"]);
    let get = || {
        let mut get = redis::cmd("GET");
        get.arg("text");
        Op::Cmd(get)
    };
    let replies = link.pipeline(Lane::Small, &[get(), append("text", "y"), get()], soon()).await.unwrap();
    assert_eq!(replies[0], Ok(Value::BulkString(b"x".to_vec())));
    assert_eq!(replies[1].as_ref().unwrap_err().code(), "WRONGTYPE");
    assert_eq!(replies[2], Ok(Value::BulkString(b"x".to_vec())));
}

#[tokio::test]
async fn a_script_is_loaded_again_after_a_flush() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    let _: () = valkey.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(link.append("list", "a", 5 * SECOND).await, Ok(Value::Int(1)));
    let _: () = valkey.command(&["SCRIPT", "FLUSH"]);
    let replies = link.pipeline(Lane::Small, &[append("list", "b")], soon()).await.unwrap();
    assert_eq!(replies, [Err(ServerError::NoScript)]);
    link.load_scripts(support::link::SCRIPTS, soon()).await.unwrap();
    let replies = link.pipeline(Lane::Small, &[append("list", "b")], soon()).await.unwrap();
    assert_eq!(replies, [Ok(Value::Int(2))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_outlives_a_killed_valkey_inside_its_deadline() {
    let mut valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    valkey.kill9();
    let call = link.append("list", "a", 20 * SECOND);
    let back = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        tokio::task::block_in_place(|| valkey.spawn());
        Instant::now()
    };
    let (reply, back) = tokio::join!(call, back);
    reply.unwrap();
    assert!(back.elapsed() < allowed(SECOND), "back {:?} after Valkey", back.elapsed());
}

#[tokio::test]
async fn without_valkey_a_call_ends_at_its_deadline_and_nothing_is_in_doubt() {
    let mut valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    valkey.kill9();
    link.wait_for(allowed(SECOND), |state| matches!(state, LinkState::Down { .. })).await;
    let from = Instant::now();
    let error = link.append("list", "a", Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(error, LinkError::Unreachable { outcome_unknown: false, .. }), "{error:?}");
    assert!(from.elapsed() < allowed(Duration::from_millis(300)));
}

#[tokio::test]
async fn a_write_whose_connection_breaks_is_in_doubt_and_a_read_is_not() {
    let mut valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    valkey.sigstop();
    let write = [append("list", "a")];
    let read = [Op::Cmd(redis::cmd("LLEN").arg("list").take())];
    let kill = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        valkey.kill9();
    };
    let (write, read, ()) = tokio::join!(
        link.pipeline(Lane::Small, &write, soon()),
        link.pipeline(Lane::Small, &read, soon()),
        kill
    );
    assert!(matches!(write, Err(LinkError::Unreachable { outcome_unknown: true, .. })), "{write:?}");
    assert!(matches!(read, Err(LinkError::Unreachable { outcome_unknown: false, .. })), "{read:?}");
}

#[tokio::test]
async fn before_the_first_connection_calls_are_told_that_it_is_starting() {
    let valkey = Valkey::stopped(ValkeyOptions::default());
    let link = TestLink::start(config(valkey.url()));
    assert_eq!(link.append("list", "a", SECOND / 10).await, Err(LinkError::Starting));
    assert!(matches!(&*link.state().borrow(), LinkState::Starting { .. }));
}

#[tokio::test]
async fn a_frozen_valkey_times_calls_out_is_noticed_and_forgiven() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    valkey.sigstop();
    let from = Instant::now();
    let error = link.append("list", "a", Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error, LinkError::Timeout { outcome_unknown: true });
    assert!(from.elapsed() < allowed(Duration::from_millis(100)), "{:?}", from.elapsed());
    link.wait_for(allowed(6 * SECOND), |state| matches!(state, LinkState::Down { .. })).await;
    valkey.sigcont();
    link.append("list", "b", 10 * SECOND).await.unwrap();
}

#[tokio::test]
async fn a_half_open_connection_is_noticed_and_replaced() {
    let valkey = Valkey::start(ValkeyOptions { tcp: true, ..ValkeyOptions::default() });
    let proxy = Proxy::start(valkey.port).await;
    let link = TestLink::ready(config(format!("valkey://127.0.0.1:{}", proxy.port))).await;
    link.append("list", "a", 5 * SECOND).await.unwrap();
    proxy.go_silent();
    let from = Instant::now();
    // Sent into the void, then sent again over a new connection.
    link.append("list", "b", allowed(5 * SECOND)).await.unwrap();
    assert!(from.elapsed() < allowed(5 * SECOND));
    assert_eq!(valkey.command::<Vec<String>>(&["LRANGE", "list", "0", "-1"]), ["a", "b"]);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_costs_no_error() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    for _ in 0..5 {
        let _: i64 = valkey.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        link.append("list", "a", 5 * SECOND).await.unwrap();
    }
}

#[tokio::test]
async fn a_demoted_primary_is_left_and_the_call_succeeds_when_there_is_one_again() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    let _: () = valkey.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let call = link.append("list", "a", 20 * SECOND);
    let promote = async {
        link.wait_for(allowed(SECOND), |state| matches!(state, LinkState::Down { .. })).await;
        let _: () = valkey.command(&["REPLICAOF", "NO", "ONE"]);
    };
    let (reply, ()) = tokio::join!(call, promote);
    assert_eq!(reply, Ok(Value::Int(1)));
}

#[tokio::test]
async fn full_memory_refuses_writes_and_serves_reads_even_over_a_reconnection() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    link.append("list", "a", 5 * SECOND).await.unwrap();
    let _: () = valkey.command(&["CONFIG", "SET", "maxmemory", "1mb"]);
    assert_eq!(link.append("list", "b", 5 * SECOND).await, Err(LinkError::OutOfMemory));
    let _: i64 = valkey.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let mut length = redis::cmd("LLEN");
    length.arg("list");
    assert_eq!(link.run(Lane::Small, Op::Cmd(length), soon()).await, Ok(Value::Int(1)));
    let _: () = valkey.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(link.append("list", "b", 5 * SECOND).await, Ok(Value::Int(2)));
}

#[tokio::test]
async fn it_is_always_ready_soon_after_valkey_is() {
    let cycles = if std::env::var_os("PANNIER_SOAK").is_some() { 20 } else { 6 };
    let mut valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    for cycle in 1..=cycles {
        valkey.kill9();
        // Any moment of the backoff.
        tokio::time::sleep(Duration::from_millis(u64::from(getrandom::u32().unwrap() % 700))).await;
        valkey.spawn();
        let from = Instant::now();
        assert_eq!(link.append("list", "a", allowed(5 * SECOND)).await, Ok(Value::Int(cycle)));
        assert!(from.elapsed() < allowed(SECOND), "ready {:?} after Valkey", from.elapsed());
    }
}

#[tokio::test]
async fn large_values_both_ways_at_once_do_not_block_each_other() {
    let valkey = Valkey::start(ValkeyOptions { tcp: true, ..ValkeyOptions::default() });
    let proxy = Proxy::start(valkey.port).await;
    let link = TestLink::ready(config(format!("valkey://127.0.0.1:{}", proxy.port))).await;
    large_values_both_ways(&link.link, 16, 60 * SECOND).await;
}

#[tokio::test]
async fn a_message_reaches_its_subscriber_also_after_a_reconnection() {
    let mut valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    let mut messages = link.subscribe(b"pannier:test:wake").await;
    link.publish(b"pannier:test:wake", b"one", soon()).await.unwrap();
    assert_eq!(messages.recv().await.unwrap(), "one");
    valkey.restart();
    link.wait_for(allowed(SECOND), |state| matches!(state, LinkState::Ready { generation: 2.. })).await;
    link.publish(b"pannier:test:wake", b"two", soon()).await.unwrap();
    assert_eq!(messages.recv().await.unwrap(), "two");
}

#[tokio::test]
async fn after_the_shutdown_nothing_runs_and_calls_end_at_once() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    link.shutdown.cancel();
    link.closed().await;
    let from = Instant::now();
    let error = link.append("list", "a", 30 * SECOND).await.unwrap_err();
    assert!(matches!(error, LinkError::Unreachable { outcome_unknown: false, .. }), "{error:?}");
    assert!(from.elapsed() < allowed(SECOND / 10));
}

#[tokio::test]
async fn tls_checks_the_name_against_our_own_authority() {
    let mut valkey = Valkey::stopped(ValkeyOptions::default());
    support::valkey::certificates(valkey.dir.path());
    let port = support::valkey::free_port();
    for (name, value) in [
        ("tls-port", port.to_string().as_str()),
        ("tls-cert-file", "server.pem"),
        ("tls-key-file", "server.key"),
        ("tls-ca-cert-file", "ca.pem"),
        ("tls-auth-clients", "no"),
    ] {
        valkey.configure(name, value);
    }
    valkey.spawn();
    let ca = std::fs::read(valkey.dir.path().join("ca.pem")).unwrap();
    let target = |url: String, ca: Option<Vec<u8>>| LinkConfig {
        target: Target::Url(UrlTarget { ca, ..UrlTarget::new(url) }),
        ..config(String::new())
    };
    for scheme in ["rediss", "valkeys"] {
        let _: () = valkey.command(&["FLUSHALL"]);
        let link = TestLink::ready(target(format!("{scheme}://localhost:{port}"), Some(ca.clone()))).await;
        link.append("list", "a", 5 * SECOND).await.unwrap();
    }
    // By its address it is not the one that the certificate names; and nobody else's authority vouches for it.
    for (url, ca) in
        [(format!("rediss://127.0.0.1:{port}"), Some(ca)), (format!("rediss://localhost:{port}"), None)]
    {
        let link = TestLink::start(target(url, ca));
        let told =
            |state: &LinkState| matches!(state, LinkState::Starting { why } if why.contains("certificate"));
        link.wait_for(10 * SECOND, told).await;
    }
}

#[tokio::test]
async fn a_tls_server_is_told_the_host_that_is_wanted_and_no_address() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for (host, named) in [("localhost", true), ("127.0.0.1", false)] {
        let _link = TestLink::start(config(format!("rediss://{host}:{port}")));
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut hello = vec![0; 4096];
        let read = tokio::io::AsyncReadExt::read(&mut connection, &mut hello).await.unwrap();
        let found = hello[..read].windows(host.len()).any(|window| window == host.as_bytes());
        assert_eq!(found, named, "{host}");
    }
}
