//! How many small calls one sidecar answers: one pipe, a Valkey beside it. Not a test: `cargo test --release --test pipe_bench -- --ignored
//! --nocapture`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{self, pipe_request::Call};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    small::{Pipe, advance, claim, consume, fields, ms, rid},
};

const CALLS: u32 = 60_000;

/// Seconds of CPU that a process has used.
fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

#[tokio::test]
#[ignore = "a measurement"]
async fn calls_per_second() {
    let valkey = Valkey::start(ValkeyOptions::default().set("appendfsync", "everysec"));
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let policy = v1::CapPolicy {
        name: "p".into(),
        scope: v1::CapScope::Recipient.into(),
        algorithm: Some(v1::cap_policy::Algorithm::Gcra(v1::Gcra { period: ms(1), burst: 1000 })),
        ..Default::default()
    };
    let set = v1::SetPolicyRequest { request_id: rid(), policy: Some(policy), ..Default::default() };
    sidecar.caps().set_policy(set).await.unwrap();
    let claimed = |n: u32| Call::Claim(claim(&format!("wamid.{n}")));
    let advanced = |n: u32| {
        let set = fields(&[("name", "somebody"), ("order", "two of them")]);
        Call::Advance(v1::AdvanceRequest { set, ..advance(&format!("chat {}", n % 5000)) })
    };
    let consumed = |n: u32| {
        let recipient = format!("recipient {}", n % 5000);
        Call::Consume(v1::ConsumeRequest { recipient, ..consume(&format!("send {n}"), &["p"]) })
    };
    let calls: [(&str, &dyn Fn(u32) -> Call); 3] =
        [("claim", &claimed), ("advance", &advanced), ("consume", &consumed)];
    for (name, call) in calls {
        for in_flight in [1, 64, 250] {
            let count = if in_flight == 1 { CALLS / 20 } else { CALLS };
            let mut pipe = Pipe::open(&sidecar).await;
            let (ours, theirs) = (cpu(sidecar.pid()), cpu(valkey.pid()));
            let begun = Instant::now();
            for n in 0..in_flight {
                pipe.send(call(n * 1_000_000)).await;
            }
            for n in 0..count {
                pipe.next().await.unwrap().1.unwrap();
                if n + in_flight < count {
                    pipe.send(call(in_flight * 1_000_000 + n)).await;
                }
            }
            let took = begun.elapsed();
            let per = |cpu: f64| cpu * 1e6 / f64::from(count);
            println!(
                "{name:<8} {in_flight:>3} in flight: {:>7.0}/s, CPU per call: sidecar {:.1} µs, valkey {:.1} µs",
                f64::from(count) / took.as_secs_f64(),
                per(cpu(sidecar.pid()) - ours),
                per(cpu(valkey.pid()) - theirs)
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
