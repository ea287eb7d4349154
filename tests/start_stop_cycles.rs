//! Started and stopped time and again: nothing is left behind, in the process, on the disk or among the processes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::case_sensitive_file_extension_comparisons,
    clippy::manual_is_multiple_of
)]

mod support;

use std::{
    fs,
    time::{Duration, Instant},
};

use pannier::proto::v1;
use support::{
    Options, Sidecar,
    attach::{Attach, open, put},
    is_alive,
    process::{descriptors, resident},
    unary::{Unary, commit},
};
use tonic_health::pb::HealthCheckRequest;

fn rounds() -> usize {
    if std::env::var_os("PANNIER_SOAK").is_some() { 200 } else { 20 }
}

/// The names of sockets in the sidecar's directory.
fn sockets(sidecar: &Sidecar) -> Vec<String> {
    let entries = fs::read_dir(sidecar.dir.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".sock")).collect()
}

/// Processes whose parent this is.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .flat_map(|task| {
            let list = fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
            list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cycles_leave_no_descriptor_socket_or_child() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let mut first = None;
    let begun = Instant::now();
    for round in 1..=rounds() {
        let valkey = sidecar.embedded_pid();
        assert_eq!(
            children(sidecar.pid()),
            [u32::try_from(valkey.as_raw_nonzero().get()).unwrap()],
            "round {round}"
        );
        let mut unary = Unary::of(&sidecar);
        if round == 1 {
            let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
            bot.commit(1, vec![put("creds", "creds", *b"x")], vec![]).await.unwrap();
            bot.close().await;
        }
        let puts = vec![put("session", "1.0", round.to_string())];
        unary.commit(commit("bot", "w", round as u64, puts)).await.unwrap();
        // The same moment of each life: the client's one connection, and what is always there.
        let now = descriptors(sidecar.pid());
        let first = *first.get_or_insert(now);
        assert!(now <= first + 3, "round {round}: {now} descriptors, {first} in the first");
        drop(unary);
        assert!(sidecar.stop().await.success(), "round {round}");
        assert!(!is_alive(valkey), "round {round}: its Valkey lives on");
        assert_eq!(sockets(&sidecar), [""; 0], "round {round}");
        sidecar.spawn();
        sidecar.wait_serving(Duration::from_secs(30)).await;
    }
    println!("{} cycles in {:.1?}, {} descriptors", rounds(), begun.elapsed(), first.unwrap());
    assert_eq!(Unary::of(&sidecar).info("bot").await.revision, 1 + rounds() as u64);
    assert!(sidecar.stop().await.success());
}

/// The same in one life: whoever connects, attaches, watches, breaks off or is refused leaves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_come_and_go_leave_no_descriptor_and_no_memory() {
    let (_valkey, sidecar) = support::start().await;
    let round = async |n: usize| {
        let mut bot = Attach::open(sidecar.channel(), open(&format!("bot-{}", n % 5), "me")).await.unwrap();
        let op_seq = bot.opened.last_op_seq + 1;
        bot.commit(op_seq, vec![put("creds", "creds", *b"x")], vec![]).await.unwrap();
        let watch = sidecar.health().watch(HealthCheckRequest::default()).await.unwrap();
        let _silent = std::os::unix::net::UnixStream::connect(&sidecar.socket).unwrap();
        let refused = sidecar.sessions().get_session(v1::GetSessionRequest::default()).await;
        assert!(refused.is_err());
        if n % 2 == 0 {
            bot.close().await;
        }
        drop(watch);
    };
    for n in 0..20 {
        round(n).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (fds, memory) = (descriptors(sidecar.pid()), resident(sidecar.pid()));
    for n in 0..rounds() * 5 {
        round(n).await;
    }
    let begun = Instant::now();
    while descriptors(sidecar.pid()) > fds + 2 {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{} descriptors, {fds} before",
            descriptors(sidecar.pid())
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let grown = resident(sidecar.pid()).saturating_sub(memory);
    println!("{} clients: {} KiB more than after 20", rounds() * 5, grown >> 10);
    assert!(grown < 16 << 20, "{grown} bytes more");
}
