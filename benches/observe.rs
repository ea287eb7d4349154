//! What being watched costs: the same calls to a sidecar with `--admin`, to one with traces, and to one without either, in turns. Part of
//! `make bench-calls`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::pipe_request::Call;
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
    small::{Pipe, claim, get},
};

const ROUNDS: usize = 7;
const CALLS: u32 = 20_000;
const UNARY: u32 = 3_000;

fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

/// µs of the sidecar's CPU per call, and calls a second.
type Cost = (f64, f64);

async fn piped(sidecar: &Sidecar, round: usize) -> Cost {
    let mut pipe = Pipe::open(sidecar).await;
    let (before, begun) = (cpu(sidecar.pid()), Instant::now());
    for n in 0..64 {
        pipe.send(Call::Claim(claim(&format!("{round} {n}")))).await;
    }
    for n in 0..CALLS {
        pipe.next().await.unwrap().1.unwrap();
        if n + 64 < CALLS {
            pipe.send(Call::Claim(claim(&format!("{round} {}", n + 64)))).await;
        }
    }
    cost(sidecar, before, begun, CALLS)
}

async fn unary(sidecar: &Sidecar) -> Cost {
    let mut conversations = sidecar.conversations();
    let (before, begun) = (cpu(sidecar.pid()), Instant::now());
    for _ in 0..UNARY {
        conversations.get_conversation(get("chat")).await.unwrap();
    }
    cost(sidecar, before, begun, UNARY)
}

async fn commits(sidecar: &Sidecar, round: usize) -> Cost {
    let mut bot = Attach::open(sidecar.channel(), open(&format!("bot {round}"), "o")).await.unwrap();
    let (before, begun) = (cpu(sidecar.pid()), Instant::now());
    for n in 1..=UNARY {
        bot.commit(u64::from(n), vec![put("session", "a", "x".repeat(300))], vec![]).await.unwrap();
    }
    cost(sidecar, before, begun, UNARY)
}

fn cost(sidecar: &Sidecar, before: f64, begun: Instant, calls: u32) -> Cost {
    let took = begun.elapsed().as_secs_f64();
    ((cpu(sidecar.pid()) - before) * 1e6 / f64::from(calls), f64::from(calls) / took)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::test]
async fn being_watched_costs_little() {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendonly", "no"));
    let quiet = vec![("PANNIER_LOG_LEVEL".to_owned(), "info".to_owned())];
    let plain = Sidecar::start(Options { envs: quiet, ..Options::with(&valkey) }).await;
    let beside = |name: &str, args: &[&str]| Options {
        dir: Some(plain.dir.clone()),
        socket_name: Some(name.into()),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        ..plain.options.clone()
    };
    let watched = Sidecar::start(beside("w.sock", &["--admin", "127.0.0.1:0"])).await;
    // Nobody collects: what is measured is the making of spans.
    let traced = Sidecar::start(beside("t.sock", &["--otlp-endpoint", "http://127.0.0.1:1"])).await;
    let sidecars = [("plain", &plain), ("--admin", &watched), ("--otlp-endpoint", &traced)];
    for kind in
        ["claims in a pipe, 64 in flight", "unary reads, one at a time", "commits on a stream, one at a time"]
    {
        let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); sidecars.len()];
        for round in 0..ROUNDS {
            for (n, (name, sidecar)) in sidecars.iter().enumerate() {
                let round_id = round * 10 + n;
                let one = match kind.as_bytes()[1] {
                    b'l' => piped(sidecar, round_id).await,
                    b'n' => unary(sidecar).await,
                    _ => commits(sidecar, round_id).await,
                };
                if round > 0 {
                    costs[n].push(one);
                }
                assert!(one.1 > 0.0, "{name}");
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        }
        let medians: Vec<Cost> = costs
            .iter()
            .map(|of| {
                (median(of.iter().map(|one| one.0).collect()), median(of.iter().map(|one| one.1).collect()))
            })
            .collect();
        for ((name, _), (cpu, rate)) in sidecars.iter().zip(&medians) {
            println!(
                "{kind}: {name:<16} {cpu:>6.1} µs CPU a call ({:.2} x), {rate:>7.0}/s ({:.2} x)",
                cpu / medians[0].0,
                rate / medians[0].1
            );
        }
    }
}
