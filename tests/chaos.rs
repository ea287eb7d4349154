//! A bad network between sidecar and Valkey, of every kind, under every unary RPC: each call is answered inside its deadline and says
//! what is known of it, nothing is half-done, the same call again has its effect once, and the link comes back by itself.
//!
//! What a call does is learned from the same calls over a whole network.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::similar_names,
    clippy::too_many_lines,
    clippy::needless_update,
    clippy::clone_on_copy
)]

#[path = "chaos/probes/mod.rs"]
mod probes;
#[path = "chaos/setup.rs"]
mod setup;
#[path = "chaos/state.rs"]
mod state;
mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use probes::Probe;
use state::Kind;
use support::{
    Sidecar,
    access::all_rpcs,
    attach::Refused,
    bad_network::start,
    chaos::{Fault, Network},
    link::allowed,
    wire::Wire,
};
use tonic::Code;

const DEADLINE_MS: u32 = 1500;
const DEADLINE: Duration = Duration::from_millis(DEADLINE_MS as u64);
/// For a machine that is busy with other things.
const MARGIN: Duration = Duration::from_secs(2);
const BACK_WITHIN: Duration = Duration::from_secs(5);

type States = BTreeMap<&'static str, String>;

async fn states(sidecar: &Sidecar, namespace: &str, probes: &[Probe]) -> States {
    let mut states = States::new();
    for probe in probes {
        if let Some(kind) = probe.writes {
            states.insert(probe.rpc, state::of(sidecar, namespace, probe.rpc, kind).await);
        }
    }
    states
}

async fn claims(sidecar: &Sidecar, namespace: &str, probes: &[Probe]) -> States {
    let mut states = States::new();
    for probe in probes.iter().filter(|probe| probe.writes == Some(Kind::Claim)) {
        states.insert(probe.rpc, state::claimed_again(sidecar, namespace, probe.rpc).await);
    }
    states
}

fn differences(found: &States, wanted: &States) -> Vec<String> {
    assert_eq!(found.len(), wanted.len());
    let pairs = found.iter().filter(|(rpc, state)| wanted[*rpc] != **state);
    pairs.map(|(rpc, state)| format!("{rpc}: {state}; wanted: {}", wanted[rpc])).collect()
}

fn assert_same(found: &States, wanted: &States, what: &str) {
    let differences = differences(found, wanted);
    assert!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
}

/// What the calls do when nothing is wrong.
struct Calm {
    before: States,
    after: States,
    claims: States,
    /// How each ends when it is sent again.
    again: BTreeMap<&'static str, Code>,
}

async fn calm(sidecar: &Sidecar) -> Calm {
    let facts = setup::prepare(sidecar, "calm").await;
    let probes = probes::all("calm", &facts);
    let wire = Wire::to(sidecar, 0).await;
    let before = states(sidecar, "calm", &probes).await;
    for probe in &probes {
        (probe.call)(wire.clone()).await.unwrap_or_else(|status| panic!("{}: {status:?}", probe.rpc));
    }
    let after = states(sidecar, "calm", &probes).await;
    let mut again = BTreeMap::new();
    for probe in &probes {
        let code = (probe.call)(wire.clone()).await.err().map_or(Code::Ok, |status| status.code());
        again.insert(probe.rpc, code);
    }
    assert_same(&states(sidecar, "calm", &probes).await, &after, "the same calls again");
    // Else nothing would be seen below.
    for probe in &probes {
        let shows = !matches!(probe.writes, None | Some(Kind::Claim | Kind::Untold));
        let unseen = ["TouchConversation", "ExtendJobs", "RescheduleJob", "Confirm"].contains(&probe.rpc);
        assert!(
            !shows || unseen || before[probe.rpc] != after[probe.rpc],
            "{} changes nothing: {:?}",
            probe.rpc,
            after[probe.rpc]
        );
    }
    let claims = claims(sidecar, "calm", &probes).await;
    Calm { before, after, claims, again }
}

/// One call under a fault.
struct Call {
    rpc: &'static str,
    refused: Option<Refused>,
}

fn check(fault: Fault, probe: &Probe, refused: Option<&Refused>, took: Duration) {
    let rpc = probe.rpc;
    assert!(took < DEADLINE + MARGIN, "{fault:?}: {rpc} took {took:?}");
    let Some(refused) = refused else { return };
    let known = [Code::Unavailable, Code::DeadlineExceeded, Code::Aborted];
    assert!(known.contains(&refused.code), "{fault:?}: {rpc}: {refused:?}");
    assert!(!refused.reason.is_empty(), "{fault:?}: {rpc} says no reason: {refused:?}");
    if probe.writes.is_none() {
        assert!(!refused.outcome_unknown(), "{fault:?}: {rpc} changes nothing: {refused:?}");
    }
}

async fn suffer(sidecar: &Sidecar, network: &Network, fault: Fault, calm: &Calm, round: usize) {
    let namespace = format!("round {round}");
    let facts = setup::prepare(sidecar, &namespace).await;
    let probes = probes::all(&namespace, &facts);
    assert_same(&states(sidecar, &namespace, &probes).await, &calm.before, "another beginning");
    let wire = Wire::to(sidecar, DEADLINE_MS).await;

    network.suffer(fault);
    let calls = join_all(probes.iter().map(async |probe| {
        let begun = Instant::now();
        let call = tokio::time::timeout(DEADLINE + MARGIN, (probe.call)(wire.clone())).await;
        let Ok(answer) = call else { panic!("{fault:?}: {} was not answered", probe.rpc) };
        let refused = answer.err().map(|status| Refused::of_status(&status));
        check(fault, probe, refused.as_ref(), begun.elapsed());
        Call { rpc: probe.rpc, refused }
    }));
    let calls = calls.await;
    network.suffer(Fault::None);

    // Back by itself; this is asked over and over, each time with little patience.
    let healed = Instant::now();
    let asking = wire.within(500);
    let reads = probes.iter().find(|probe| probe.rpc == "GetSession").unwrap();
    while (reads.call)(asking.clone()).await.is_err() {
        assert!(healed.elapsed() < allowed(BACK_WITHIN), "{fault:?}: not back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let back = healed.elapsed();

    let found = states(sidecar, &namespace, &probes).await;
    for call in &calls {
        let Some(state) = found.get(call.rpc) else { continue };
        let (before, after) = (&calm.before[call.rpc], &calm.after[call.rpc]);
        assert!(state == before || state == after, "{fault:?}: {} is half-done: {state}", call.rpc);
        match &call.refused {
            None => assert_eq!(state, after, "{fault:?}: {} was acknowledged", call.rpc),
            Some(refused) if before != after && state == after => {
                assert!(refused.outcome_unknown(), "{fault:?}: {} was done: {refused:?}", call.rpc);
            }
            Some(_) => {}
        }
    }
    // The same again: done once, whether it had been or not.
    let patient = wire.within(10_000);
    for (probe, call) in probes.iter().zip(&calls) {
        let code = (probe.call)(patient.clone()).await.err().map_or(Code::Ok, |status| status.code());
        let repeated = calm.again[probe.rpc];
        assert!(
            code == Code::Ok || code == repeated,
            "{fault:?}: {} again: {code:?}, {:?}",
            probe.rpc,
            call.refused
        );
    }
    let what = format!("{fault:?}: not done once");
    assert_same(&states(sidecar, &namespace, &probes).await, &calm.after, &what);
    assert_same(&claims(sidecar, &namespace, &probes).await, &calm.claims, &what);
    let failed: Vec<_> = calls.iter().filter_map(|call| call.refused.as_ref()).collect();
    let unknown = failed.iter().filter(|refused| refused.outcome_unknown()).count();
    println!(
        "{fault:?}: {} calls, {} refused, {unknown} in doubt, back after {back:?}",
        calls.len(),
        failed.len()
    );
    match fault {
        Fault::None | Fault::CloseOld => assert!(failed.is_empty(), "{fault:?} needs no failure: {failed:?}"),
        Fault::Silent | Fault::NoReplies => assert!(unknown > 0 && failed.len() > calls.len() / 2),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_unary_call_keeps_its_word_over_every_bad_network() {
    let (_valkey, network, sidecar) = start().await;
    let calm = calm(&sidecar).await;
    let faults = [
        Fault::None,
        Fault::Delay(Duration::from_millis(100)),
        Fault::Silent,
        Fault::HalfOpen,
        Fault::NoReplies,
        Fault::Reset,
        Fault::CutAfter(3000),
        Fault::CutAfter(200),
        Fault::Drip(100),
        Fault::CloseOld,
    ];
    for (round, fault) in faults.into_iter().enumerate() {
        suffer(&sidecar, &network, fault, &calm, round).await;
    }
}

/// A new RPC is not forgotten.
#[tokio::test]
async fn every_unary_rpc_of_the_protos_is_among_them() {
    let (_valkey, _network, sidecar) = start().await;
    let facts = setup::prepare(&sidecar, "names").await;
    let probed: BTreeSet<_> = probes::all("names", &facts).iter().map(|probe| probe.rpc.to_owned()).collect();
    let unary: BTreeSet<_> =
        all_rpcs().iter().filter(|rpc| !rpc.streams).map(|rpc| rpc.name().to_owned()).collect();
    assert_eq!(probed, unary);
}

/// Nor one that streams: somewhere a test puts it under the same faults.
#[test]
fn every_rpc_that_streams_has_a_test_of_its_own() {
    let tests = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap();
    let files = tests.map(|entry| entry.unwrap().path());
    let tests: String = files
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("chaos_"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let streams: Vec<_> = all_rpcs().into_iter().filter(|rpc| rpc.streams).collect();
    assert!(streams.len() >= 7, "{} streams", streams.len());
    for rpc in streams {
        let call = format!("faults_for(\"{}\")", rpc.name());
        assert!(tests.contains(&call), "no tests/chaos_*.rs goes through {call}");
    }
}
