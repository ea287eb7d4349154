//! How much may be sent: exact under concurrency, counted once, all or nothing, and nothing of it in clear.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use pannier::proto::v1::{
    self, CapPolicy, CapPreset, CapScope, ConsumeRequest, ConsumeResponse,
    cap_policy::Algorithm,
    confirm_response::Outcome as Confirmed,
    consume_request::Mode,
    consume_response::{Outcome, SendState},
    refund_response::Outcome as Refunded,
};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    leak::Watch,
    small::{answered, assert_names, at_ms, consume, memory, ms, rid, ttls, wait_ms},
};

const DAY: u64 = 24 * 3600 * 1000;

async fn start() -> (Valkey, Sidecar) {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    (valkey, sidecar)
}

fn fixed(limit: i32, window: u64) -> Algorithm {
    Algorithm::Fixed(v1::FixedWindow { limit, window: ms(window), time_zone: String::new() })
}

fn daily(limit: i32) -> Algorithm {
    Algorithm::Fixed(v1::FixedWindow { limit, window: None, time_zone: "America/Mexico_City".into() })
}

fn rolling(limit: i32, window: u64) -> Algorithm {
    Algorithm::Rolling(v1::RollingWindow { limit, window: ms(window) })
}

fn gcra(burst: i32, period: u64) -> Algorithm {
    Algorithm::Gcra(v1::Gcra { period: ms(period), burst })
}

fn unique(limit: i32, window: u64) -> Algorithm {
    Algorithm::Unique(v1::UniqueRecipients { limit, window: ms(window), unlimited: false })
}

fn policy(name: &str, algorithm: Algorithm) -> CapPolicy {
    CapPolicy { name: name.into(), algorithm: Some(algorithm), ..Default::default() }
}

fn set(policy: CapPolicy) -> v1::SetPolicyRequest {
    v1::SetPolicyRequest { request_id: rid(), policy: Some(policy), ..Default::default() }
}

async fn make(sidecar: &Sidecar, policy: CapPolicy) -> CapPolicy {
    sidecar.caps().set_policy(set(policy)).await.unwrap().into_inner().policy.unwrap()
}

async fn ask(sidecar: &Sidecar, request: ConsumeRequest) -> ConsumeResponse {
    sidecar.caps().consume(request).await.unwrap().into_inner()
}

async fn peek(sidecar: &Sidecar, policies: &[&str]) -> v1::PeekResponse {
    let policies = policies.iter().map(|name| (*name).to_owned()).collect();
    let request =
        v1::PeekRequest { policies, recipient: "someone".into(), sender: "me".into(), ..Default::default() };
    sidecar.caps().peek(request).await.unwrap().into_inner()
}

async fn used(sidecar: &Sidecar, policy: &str) -> i64 {
    peek(sidecar, &[policy]).await.policies[0].usage.as_ref().unwrap().used
}

fn confirm(send_id: &str) -> v1::ConfirmRequest {
    v1::ConfirmRequest { send_id: send_id.into(), request_id: rid(), ..Default::default() }
}

fn refund(send_id: &str) -> v1::RefundRequest {
    v1::RefundRequest { send_id: send_id.into(), request_id: rid(), ..Default::default() }
}

fn to(request: ConsumeRequest, recipient: &str) -> ConsumeRequest {
    ConsumeRequest { recipient: recipient.into(), ..request }
}

fn reserve(request: ConsumeRequest, ttl: u64) -> ConsumeRequest {
    ConsumeRequest { mode: Mode::Reserve.into(), reserve_ttl: ms(ttl), ..request }
}

/// node-rate-limiter-flexible#202: a counter of 499 on a limit of 100.
#[tokio::test]
async fn of_500_sends_at_once_a_cap_of_100_lets_exactly_100_through() {
    let (_valkey, sidecar) = start().await;
    let algorithms = [
        ("fixed", fixed(100, 400 * DAY)),
        ("rolling", rolling(100, DAY)),
        ("gcra", gcra(100, DAY)),
        ("unique", unique(100, DAY)),
    ];
    for (name, algorithm) in algorithms {
        make(&sidecar, policy(name, algorithm)).await;
        let sends = (0..500).map(|n| {
            let request = to(consume(&format!("{name} {n}"), &[name]), &format!("recipient {n}"));
            ask(&sidecar, request)
        });
        let answers = join_all(sends).await;
        let allowed = answers.iter().filter(|answer| answer.outcome() == Outcome::Allowed).count();
        let denied = answers.iter().filter(|answer| answer.outcome() == Outcome::Denied);
        assert!(denied.clone().all(|answer| answer.denied_by == name && wait_ms(answer.retry_after) >= 1));
        assert_eq!((allowed, denied.count()), (100, 400), "{name}");
        assert_eq!(used(&sidecar, name).await, 100, "{name}");
    }
}

/// node-rate-limiter-flexible#286: what is denied uses nothing up.
#[tokio::test]
async fn denials_cost_nothing() {
    let (_valkey, sidecar) = start().await;
    make(&sidecar, policy("p", rolling(3, 700))).await;
    for round in 0..2 {
        for n in 0..3 {
            assert_eq!(
                ask(&sidecar, consume(&format!("{round} {n}"), &["p"])).await.outcome(),
                Outcome::Allowed
            );
        }
        let mut wait = 0;
        for n in 0..10 {
            let denied = ask(&sidecar, consume(&format!("denied {round} {n}"), &["p"])).await;
            assert_eq!(denied.outcome(), Outcome::Denied);
            wait = wait_ms(denied.retry_after);
        }
        assert!((1..=700).contains(&wait));
        tokio::time::sleep(Duration::from_millis(720)).await;
    }
    assert_eq!(ask(&sidecar, consume("last", &["p"])).await.outcome(), Outcome::Allowed);
}

/// node-rate-limiter-flexible#150: several limits were neither atomic nor one call.
#[tokio::test]
async fn several_policies_are_counted_all_or_none() {
    let (_valkey, sidecar) = start().await;
    make(&sidecar, policy("a", fixed(5, 400 * DAY))).await;
    make(&sidecar, policy("b", rolling(1, DAY))).await;
    let first = ask(&sidecar, consume("1", &["a", "b"])).await;
    assert_eq!(first.outcome(), Outcome::Allowed);
    let usage: Vec<_> =
        first.usage.iter().map(|one| (one.policy.as_str(), one.limit, one.used, one.remaining)).collect();
    assert_eq!(usage, [("a", 5, 1, 4), ("b", 1, 1, 0)]);
    let second = ask(&sidecar, consume("2", &["a", "b"])).await;
    assert_eq!((second.outcome(), second.denied_by.as_str()), (Outcome::Denied, "b"));
    assert_eq!((used(&sidecar, "a").await, used(&sidecar, "b").await), (1, 1));
    let never = ask(&sidecar, ConsumeRequest { n: Some(2), ..consume("3", &["a", "b"]) }).await;
    assert_eq!((never.outcome(), never.denied_by.as_str()), (Outcome::Never, "b"));
    assert_eq!(used(&sidecar, "a").await, 1);
}

/// upstash/ratelimit#39 (a limit of 1 never let anything through), redis/redis#14826 and #15113 (off by one when n is all there is).
#[tokio::test]
async fn the_whole_limit_can_be_used_at_once_and_one_more_never() {
    let (_valkey, sidecar) = start().await;
    for (name, algorithm) in
        [("fixed", fixed(7, 400 * DAY)), ("rolling", rolling(7, DAY)), ("gcra", gcra(7, DAY))]
    {
        make(&sidecar, policy(name, algorithm)).await;
        let with =
            |send: &str, n| ConsumeRequest { n: Some(n), ..consume(&format!("{name} {send}"), &[name]) };
        let never = ask(&sidecar, with("never", 8)).await;
        assert_eq!(
            (never.outcome(), never.denied_by.as_str(), never.retry_after),
            (Outcome::Never, name, None)
        );
        assert_eq!(ask(&sidecar, with("all", 7)).await.outcome(), Outcome::Allowed, "{name}");
        let denied = ask(&sidecar, with("one", 1)).await;
        assert_eq!(denied.outcome(), Outcome::Denied, "{name}");
        assert!(wait_ms(denied.retry_after) >= 1);
        make(
            &sidecar,
            policy(
                name,
                match name {
                    "fixed" => fixed(1, 60_000),
                    "rolling" => rolling(1, 60_000),
                    _ => gcra(1, 60_000),
                },
            ),
        )
        .await;
        assert_eq!(ask(&sidecar, with("of one", 1)).await.outcome(), Outcome::Allowed, "{name}");
    }
}

#[tokio::test]
async fn a_send_counts_once_however_often_it_is_tried() {
    let (valkey, sidecar) = start().await;
    make(&sidecar, policy("p", fixed(100, 400 * DAY))).await;
    let sends = (0..50).map(|_| ask(&sidecar, to(consume("send-1", &["p"]), "x")));
    let answers = join_all(sends).await;
    let count = |outcome| answers.iter().filter(|answer| answer.outcome() == outcome).count();
    assert_eq!((count(Outcome::Allowed), count(Outcome::Replayed)), (1, 49));
    assert_eq!(used(&sidecar, "p").await, 1);
    let first = answers.iter().find(|answer| answer.outcome() == Outcome::Allowed).unwrap();
    ask(&sidecar, to(consume("send-2", &["p"]), "x")).await;
    let again = ask(&sidecar, to(consume("send-1", &["p"]), "x")).await;
    assert_eq!((&again.usage, again.state()), (&first.usage, SendState::Committed), "the first answer");
    // The same id for something else.
    make(&sidecar, policy("q", fixed(100, 400 * DAY))).await;
    let one = || to(consume("send-1", &["p"]), "x");
    for other in [
        ConsumeRequest { n: Some(2), ..one() },
        to(one(), "y"),
        ConsumeRequest { sender: "s".into(), ..one() },
        to(consume("send-1", &["q"]), "x"),
        to(consume("send-1", &["p", "q"]), "x"),
        reserve(one(), 1000),
    ] {
        assert_eq!(ask(&sidecar, other).await.outcome(), Outcome::Mismatch);
    }
    assert_eq!((used(&sidecar, "p").await, used(&sidecar, "q").await), (2, 0));
    // It is remembered for 48 h at least.
    let sends: Vec<_> = ttls(&valkey).into_iter().filter(|(key, _)| kind(key) == b's').collect();
    assert_eq!(sends.len(), 2);
    let hours = sends.iter().map(|(_, ttl)| ttl / 3_600_000).max().unwrap();
    assert!((191..=192).contains(&hours), "the window is longer, but 8 days are the most: {hours}");
}

/// Which kind of key it is: the byte behind the tag.
fn kind(key: &[u8]) -> u8 {
    let tag = key.iter().position(|byte| *byte == b'}').unwrap();
    key[tag + 2]
}

/// INCR + EXPIRE: a denied send counts, each try counts, and each pushes the end away.
#[tokio::test]
async fn denials_do_not_push_the_end_of_a_window_away() {
    let (valkey, sidecar) = start().await;
    make(&sidecar, policy("p", fixed(1, 400 * DAY))).await;
    ask(&sidecar, consume("1", &["p"])).await;
    let state = |valkey: &Valkey| {
        let (key, ttl) = ttls(valkey).into_iter().find(|(key, _)| kind(key) == b'c').unwrap();
        let value: Vec<u8> = redis::cmd("GET").arg(key).query(&mut valkey.connection()).unwrap();
        (value, ttl)
    };
    let (value, ttl) = state(&valkey);
    tokio::time::sleep(Duration::from_millis(300)).await;
    for n in 0..20 {
        assert_eq!(ask(&sidecar, consume(&format!("denied {n}"), &["p"])).await.outcome(), Outcome::Denied);
    }
    let (same, less) = state(&valkey);
    assert_eq!(same, value);
    assert!(less <= ttl - 300, "{less} {ttl}");
    assert_eq!(ttls(&valkey).len(), 2, "a counter and the send that was allowed");
}

/// upstash/ratelimit#98, #111.
#[tokio::test]
async fn peeking_changes_nothing() {
    let (valkey, sidecar) = start().await;
    let names = ["f", "r", "g", "u"];
    for (name, algorithm) in names.iter().zip([fixed(3, DAY), rolling(3, DAY), gcra(3, DAY), unique(3, DAY)])
    {
        make(&sidecar, policy(name, algorithm)).await;
    }
    ask(&sidecar, to(consume("1", &names), "x")).await;
    ask(&sidecar, reserve(to(consume("2", &names), "y"), 1)).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let dump = || {
        let mut keys: Vec<Vec<u8>> = ttls(&valkey).into_iter().map(|(key, _)| key).collect();
        keys.sort();
        let dumps = keys.into_iter().map(|key| {
            let dump: Vec<u8> = redis::cmd("DUMP").arg(&key).query(&mut valkey.connection()).unwrap();
            (key, dump)
        });
        dumps.collect::<Vec<_>>()
    };
    let before = dump();
    for _ in 0..100 {
        let peeked = peek(&sidecar, &names).await;
        let used: Vec<_> = peeked.policies.iter().map(|one| one.usage.as_ref().unwrap().used).collect();
        assert_eq!(used, [1, 1, 1, 1], "what has lapsed does not count");
    }
    assert!(dump() == before);
}

/// node-rate-limiter-flexible#333, #47: a counter below zero.
#[tokio::test]
async fn a_refund_gives_back_what_the_send_took_once() {
    let (_valkey, sidecar) = start().await;
    let names = ["f", "r", "g", "u"];
    for (name, algorithm) in
        names.iter().zip([fixed(9, 400 * DAY), rolling(9, DAY), gcra(9, DAY), unique(9, DAY)])
    {
        make(&sidecar, policy(name, algorithm)).await;
    }
    let all = async || {
        let peeked = peek(&sidecar, &names).await;
        peeked.policies.iter().map(|one| one.usage.as_ref().unwrap().used).collect::<Vec<_>>()
    };
    ask(&sidecar, ConsumeRequest { n: Some(2), ..to(consume("keep", &names), "x") }).await;
    ask(&sidecar, ConsumeRequest { n: Some(3), ..to(consume("back", &names), "y") }).await;
    assert_eq!(all().await, [5, 5, 5, 2]);
    let request = refund("back");
    for _ in 0..3 {
        assert_eq!(
            sidecar.caps().refund(request.clone()).await.unwrap().into_inner().outcome(),
            Refunded::Refunded
        );
        assert_eq!(all().await, [2, 2, 2, 1]);
    }
    assert_eq!(
        sidecar.caps().refund(refund("back")).await.unwrap().into_inner().outcome(),
        Refunded::Refunded
    );
    assert_eq!(all().await, [2, 2, 2, 1], "another refund of the same send");
    // The id is free, and the first refund sent once more does not touch what it is used for now.
    let anew = ask(&sidecar, ConsumeRequest { n: Some(1), ..to(consume("back", &names), "z") }).await;
    assert_eq!(anew.outcome(), Outcome::Allowed);
    sidecar.caps().refund(request).await.unwrap();
    assert_eq!(all().await, [3, 3, 3, 2]);
    assert_eq!(
        sidecar.caps().refund(refund("none")).await.unwrap().into_inner().outcome(),
        Refunded::Unknown
    );
}

#[tokio::test]
async fn a_reservation_is_confirmed_refunded_or_lapses() {
    let (valkey, sidecar) = start().await;
    let names = ["f", "r", "g", "u"];
    for (name, algorithm) in
        names.iter().zip([fixed(1, 400 * DAY), rolling(1, DAY), gcra(1, DAY), unique(1, DAY)])
    {
        make(&sidecar, policy(name, algorithm)).await;
    }
    let all = async || {
        let peeked = peek(&sidecar, &names).await;
        peeked.policies.iter().map(|one| one.usage.as_ref().unwrap().used).collect::<Vec<_>>()
    };
    let send = |id: &str, ttl| reserve(to(consume(id, &names), id), ttl);
    let first = ask(&sidecar, send("lapses", 400)).await;
    assert_eq!((first.outcome(), first.state()), (Outcome::Allowed, SendState::Reserved));
    let denied = ask(&sidecar, send("waits", 400)).await;
    assert_eq!(denied.outcome(), Outcome::Denied);
    assert!(wait_ms(denied.retry_after) <= 400, "until the reservation lapses: {denied:?}");
    tokio::time::sleep(Duration::from_millis(wait_ms(denied.retry_after))).await;
    let late = sidecar.caps().confirm(confirm("lapses")).await.unwrap().into_inner();
    assert_eq!(late.outcome(), Confirmed::Lapsed);
    assert_eq!(
        sidecar.caps().refund(refund("lapses")).await.unwrap().into_inner().outcome(),
        Refunded::Lapsed
    );
    assert_eq!(all().await, [0, 0, 0, 0]);
    assert_eq!(ask(&sidecar, send("lapses", 60_000)).await.outcome(), Outcome::Allowed, "the id is free");
    assert_eq!(
        sidecar.caps().refund(refund("lapses")).await.unwrap().into_inner().outcome(),
        Refunded::Refunded
    );
    assert_eq!(all().await, [0, 0, 0, 0]);
    assert_eq!(ask(&sidecar, send("sent", 300)).await.outcome(), Outcome::Allowed);
    let again = ask(&sidecar, send("sent", 300)).await;
    assert_eq!((again.outcome(), again.state()), (Outcome::Replayed, SendState::Reserved));
    for _ in 0..2 {
        let done = sidecar.caps().confirm(confirm("sent")).await.unwrap().into_inner();
        assert_eq!(done.outcome(), Confirmed::Confirmed);
    }
    tokio::time::sleep(Duration::from_millis(350)).await;
    assert_eq!(all().await, [1, 1, 1, 1], "a confirmed one does not lapse");
    let again = ask(&sidecar, send("sent", 300)).await;
    assert_eq!((again.outcome(), again.state()), (Outcome::Replayed, SendState::Committed));
    assert_eq!(
        sidecar.caps().confirm(confirm("none")).await.unwrap().into_inner().outcome(),
        Confirmed::Unknown
    );
    assert!(ttls(&valkey).iter().all(|(_, ttl)| *ttl > 0));
    sidecar.caps().refund(refund("sent")).await.unwrap();
    assert_eq!(all().await, [0, 0, 0, 0], "also a confirmed one can be given back");
}

#[tokio::test]
async fn each_scope_counts_apart() {
    let (_valkey, sidecar) = start().await;
    let scoped =
        |name: &str, scope: CapScope| CapPolicy { scope: scope.into(), ..policy(name, fixed(1, 400 * DAY)) };
    make(&sidecar, scoped("all", CapScope::Namespace)).await;
    make(&sidecar, scoped("sender", CapScope::Sender)).await;
    make(&sidecar, scoped("recipient", CapScope::Recipient)).await;
    make(&sidecar, scoped("pair", CapScope::Pair)).await;
    let mut n = 0;
    let mut go = async |name: &str, sender: &str, recipient: &str| {
        n += 1;
        let request =
            ConsumeRequest { sender: sender.into(), ..to(consume(&n.to_string(), &[name]), recipient) };
        ask(&sidecar, request).await.outcome() == Outcome::Allowed
    };
    assert!(go("all", "a", "x").await && !go("all", "b", "y").await);
    assert!(go("sender", "a", "x").await && !go("sender", "a", "y").await && go("sender", "b", "x").await);
    assert!(
        go("recipient", "a", "x").await
            && !go("recipient", "b", "x").await
            && go("recipient", "a", "y").await
    );
    assert!(
        go("pair", "a", "x").await
            && !go("pair", "a", "x").await
            && go("pair", "a", "y").await
            && go("pair", "b", "x").await
    );
    assert!(go("pair", "ax", "y").await && go("pair", "a", "xy").await, "names do not run into each other");
    let elsewhere = ConsumeRequest { namespace: "other".into(), ..consume("1", &["all"]) };
    let refused = answered(sidecar.caps().consume(elsewhere).await).unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (tonic::Code::NotFound, "POLICY_NOT_FOUND"));
    assert_names(sidecar.caps().consume(consume("2", &["recipient"])).await, "recipient");
    assert_names(sidecar.caps().consume(to(consume("2", &["pair"]), "x")).await, "sender");
}

#[tokio::test]
async fn unique_counts_recipients_and_answers_are_free() {
    let (_valkey, sidecar) = start().await;
    make(&sidecar, policy("tier", unique(2, DAY))).await;
    let mut n = 0;
    let mut go = async |recipient: &str| {
        n += 1;
        ask(&sidecar, to(consume(&n.to_string(), &["tier"]), recipient)).await
    };
    assert_eq!(go("a").await.usage[0].used, 1);
    assert_eq!(go("a").await.usage[0].used, 1, "once each");
    assert_eq!(go("b").await.usage[0].remaining, 0);
    assert_eq!(go("c").await.outcome(), Outcome::Denied);
    assert_eq!(go("a").await.outcome(), Outcome::Allowed, "known already");
    let note = v1::NoteInboundRequest { request_id: rid(), recipient: "c".into(), ..Default::default() };
    let noted = sidecar.caps().note_inbound(note.clone()).await.unwrap().into_inner();
    let again = sidecar.caps().note_inbound(note).await.unwrap().into_inner();
    assert_eq!(again, noted, "the same call twice");
    let answer = go("c").await;
    assert_eq!((answer.outcome(), answer.usage[0].used), (Outcome::Allowed, 2), "an answer within 24 h");
    assert_eq!(go("d").await.outcome(), Outcome::Denied);
    // A higher tier goes on with those that were counted.
    make(&sidecar, policy("tier", unique(3, DAY))).await;
    let raised = go("d").await;
    assert_eq!((raised.outcome(), raised.usage[0].used), (Outcome::Allowed, 3));
    make(
        &sidecar,
        CapPolicy {
            algorithm: Some(Algorithm::Preset(CapPreset::MetaTierUnlimited.into())),
            ..policy("tier", unique(1, 1))
        },
    )
    .await;
    let unlimited = go("e").await;
    assert_eq!((unlimited.usage[0].limit, unlimited.usage[0].used), (0, 4));
    make(&sidecar, policy("tier", unique(2, DAY))).await;
    let denied = go("f").await;
    assert_eq!(denied.outcome(), Outcome::Denied);
    assert!(wait_ms(denied.retry_after) > DAY - 60_000);
}

#[tokio::test]
async fn a_policy_that_is_changed_holds_at_once_for_every_sidecar() {
    let (valkey, sidecar) = start().await;
    let second = Sidecar::start(Options {
        dir: Some(sidecar.dir.clone()),
        socket_name: Some("second.sock".into()),
        ..Options::with(&valkey)
    })
    .await;
    let made = make(&sidecar, policy("p", fixed(1, 400 * DAY))).await;
    assert_eq!(ask(&second, consume("1", &["p"])).await.outcome(), Outcome::Allowed);
    assert_eq!(ask(&second, consume("2", &["p"])).await.outcome(), Outcome::Denied);
    let raised = make(&sidecar, policy("p", fixed(2, 400 * DAY))).await;
    assert!(raised.revision > made.revision);
    let after = ask(&second, consume("2", &["p"])).await;
    assert_eq!((after.outcome(), after.usage[0].used), (Outcome::Allowed, 2), "with what was counted");
    let other = make(&sidecar, policy("p", rolling(2, DAY))).await;
    let anew = ask(&second, consume("3", &["p"])).await;
    assert_eq!((anew.outcome(), anew.usage[0].used), (Outcome::Allowed, 1), "another rule begins anew");
    let same = sidecar.caps().set_policy(set(policy("p", rolling(2, DAY)))).await.unwrap().into_inner();
    assert_eq!((same.policy.unwrap().revision, same.created), (other.revision, false), "nothing to change");
    let delete = |revision| v1::DeletePolicyRequest { name: "p".into(), revision, ..Default::default() };
    assert!(!sidecar.caps().delete_policy(delete(made.revision)).await.unwrap().into_inner().deleted);
    assert!(sidecar.caps().delete_policy(delete(0)).await.unwrap().into_inner().deleted);
    assert!(!sidecar.caps().delete_policy(delete(0)).await.unwrap().into_inner().deleted);
    let refused = answered(second.caps().consume(consume("4", &["p"])).await).unwrap_err();
    assert_eq!(refused.reason, "POLICY_NOT_FOUND");
    make(&sidecar, policy("p", rolling(2, DAY))).await;
    let anew = ask(&second, consume("5", &["p"])).await;
    assert_eq!(anew.usage[0].used, 1, "a policy made anew does not see the old one's counters");
}

#[tokio::test]
async fn policies_are_set_read_and_listed_and_setting_twice_is_once() {
    let (_valkey, sidecar) = start().await;
    let request =
        set(CapPolicy { fail_open: true, scope: CapScope::Recipient.into(), ..policy("día", daily(5)) });
    let first = sidecar.caps().set_policy(request.clone()).await.unwrap().into_inner();
    assert!(first.created && !first.replayed);
    make(&sidecar, policy("día", daily(9))).await;
    let again = sidecar.caps().set_policy(request).await.unwrap().into_inner();
    assert!(again.replayed);
    assert_eq!(again.policy.unwrap().algorithm.unwrap(), daily(9), "as it is now");
    let preset = |name: &str, preset: CapPreset| CapPolicy {
        algorithm: Some(Algorithm::Preset(preset.into())),
        ..policy(name, daily(1))
    };
    let pair = make(&sidecar, preset("pair", CapPreset::MetaPair)).await;
    assert_eq!((pair.scope(), pair.algorithm.unwrap()), (CapScope::Pair, gcra(45, 6000)));
    let throughput = make(&sidecar, preset("mps", CapPreset::MetaThroughput)).await;
    assert_eq!((throughput.scope(), throughput.algorithm.unwrap()), (CapScope::Sender, rolling(80, 1000)));
    for (tier, limit) in [
        (CapPreset::MetaTier250, 250),
        (CapPreset::MetaTier2k, 2_000),
        (CapPreset::MetaTier10k, 10_000),
        (CapPreset::MetaTier100k, 100_000),
    ] {
        let made = make(&sidecar, preset("tier", tier)).await;
        assert_eq!((made.scope(), made.algorithm.unwrap()), (CapScope::Namespace, unique(limit, DAY)));
    }
    let list = sidecar.caps().list_policies(v1::ListPoliciesRequest::default()).await.unwrap().into_inner();
    let names: Vec<_> = list.policies.iter().map(|policy| policy.name.as_str()).collect();
    assert_eq!((names, list.corrupt), (vec!["día", "mps", "pair", "tier"], 0));
    let get = |name: &str| v1::GetPolicyRequest { name: name.into(), ..Default::default() };
    let got = sidecar.caps().get_policy(get("día")).await.unwrap().into_inner().policy.unwrap();
    assert!(
        got.algorithm == Some(daily(9))
            && got.scope() == CapScope::Namespace
            && !got.fail_open
            && !got.from_config
    );
    let refused = answered(sidecar.caps().get_policy(get("none")).await).unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (tonic::Code::NotFound, "POLICY_NOT_FOUND"));
    let info = sidecar.admin().server_info(v1::ServerInfoRequest {}).await.unwrap().into_inner();
    assert!(info.tzdb.starts_with("20"), "{}", info.tzdb);
}

/// node-rate-limiter-flexible#99, #86 (0 ⇒ a key that never expires), #231; taskforcesh/bullmq#1565 (a float); upstash/ratelimit 2.2.0.
#[tokio::test]
async fn wrong_input_is_refused_by_its_name_and_writes_nothing() {
    let (valkey, sidecar) = start().await;
    let span = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
    let zone =
        |zone: &str| Algorithm::Fixed(v1::FixedWindow { limit: 1, window: None, time_zone: zone.into() });
    let long = "x".repeat(513);
    let bad: Vec<(&str, CapPolicy)> = vec![
        ("policy.name", policy("", daily(1))),
        ("policy.name", policy(&"x".repeat(129), daily(1))),
        ("policy.algorithm", CapPolicy { algorithm: None, ..policy("p", daily(1)) }),
        ("policy.scope", CapPolicy { scope: 9, ..policy("p", daily(1)) }),
        ("policy.scope", CapPolicy { scope: CapScope::Recipient.into(), ..policy("p", unique(1, 1)) }),
        ("policy.fixed.limit", policy("p", daily(0))),
        ("policy.fixed.limit", policy("p", daily(-1))),
        ("policy.fixed.limit", policy("p", daily(1_000_000_001))),
        ("policy.fixed.window", policy("p", fixed(1, 0))),
        ("policy.fixed.window", policy("p", fixed(1, 400 * DAY + 1))),
        (
            "policy.fixed.window",
            policy(
                "p",
                Algorithm::Fixed(v1::FixedWindow {
                    limit: 1,
                    window: span(1, 500_000),
                    ..Default::default()
                }),
            ),
        ),
        (
            "policy.fixed.window",
            policy(
                "p",
                Algorithm::Fixed(v1::FixedWindow { limit: 1, window: span(-1, 0), ..Default::default() }),
            ),
        ),
        (
            "policy.fixed.window",
            policy(
                "p",
                Algorithm::Fixed(v1::FixedWindow {
                    limit: 1,
                    window: span(i64::MAX, 0),
                    ..Default::default()
                }),
            ),
        ),
        ("policy.fixed.time_zone", policy("p", zone("Mars/Olympus"))),
        (
            "policy.fixed.time_zone",
            policy(
                "p",
                Algorithm::Fixed(v1::FixedWindow { limit: 1, window: ms(1), time_zone: "UTC".into() }),
            ),
        ),
        ("policy.rolling.limit", policy("p", rolling(129, 1))),
        ("policy.rolling.limit", policy("p", rolling(0, 1))),
        (
            "policy.rolling.window",
            policy("p", Algorithm::Rolling(v1::RollingWindow { limit: 1, window: None })),
        ),
        ("policy.rolling.window", policy("p", rolling(1, 0))),
        ("policy.gcra.period", policy("p", gcra(1, 0))),
        ("policy.gcra.period", policy("p", Algorithm::Gcra(v1::Gcra { period: span(0, 1), burst: 1 }))),
        ("policy.gcra.burst", policy("p", gcra(0, 1))),
        ("policy.gcra.burst", policy("p", gcra(401, DAY))),
        ("policy.unique.limit", policy("p", unique(0, 1))),
        (
            "policy.unique.limit",
            policy("p", Algorithm::Unique(v1::UniqueRecipients { limit: 1, window: None, unlimited: true })),
        ),
        ("policy.unique.window", policy("p", unique(1, 0))),
        ("policy.preset", policy("p", Algorithm::Preset(0))),
        ("policy.preset", policy("p", Algorithm::Preset(99))),
    ];
    for (field, wrong) in bad {
        assert_names(sidecar.caps().set_policy(set(wrong)).await, field);
    }
    assert_names(
        sidecar.caps().set_policy(v1::SetPolicyRequest { request_id: rid(), ..Default::default() }).await,
        "policy",
    );
    assert_names(
        sidecar
            .caps()
            .set_policy(v1::SetPolicyRequest { request_id: "x".into(), ..set(policy("p", daily(1))) })
            .await,
        "request_id",
    );
    assert_names(sidecar.caps().get_policy(v1::GetPolicyRequest::default()).await, "name");
    assert_names(sidecar.caps().delete_policy(v1::DeletePolicyRequest::default()).await, "name");
    make(&sidecar, policy("p", daily(1))).await;
    let one = || consume("send", &["p"]);
    let bad: Vec<(&str, ConsumeRequest)> = vec![
        ("send_id", consume("", &["p"])),
        ("send_id", consume(&long, &["p"])),
        ("policies", consume("send", &[])),
        ("policies", consume("send", &["a", "b", "c", "d", "e", "f", "g", "h", "i"])),
        ("policies[1]", consume("send", &["p", "p"])),
        ("policies[0]", consume("send", &[""])),
        ("recipient", to(one(), &long)),
        ("sender", ConsumeRequest { sender: long.clone(), ..one() }),
        ("n", ConsumeRequest { n: Some(0), ..one() }),
        ("n", ConsumeRequest { n: Some(-1), ..one() }),
        ("n", ConsumeRequest { n: Some(1_000_000_001), ..one() }),
        ("mode", ConsumeRequest { mode: 7, ..one() }),
        ("reserve_ttl", reserve(one(), 0)),
        ("reserve_ttl", reserve(one(), DAY + 1)),
        ("reserve_ttl", ConsumeRequest { reserve_ttl: ms(5), ..one() }),
        ("namespace", ConsumeRequest { namespace: "x".repeat(129), ..one() }),
    ];
    for (field, wrong) in bad {
        assert_names(sidecar.caps().consume(wrong).await, field);
    }
    assert_names(
        sidecar.caps().confirm(v1::ConfirmRequest { request_id: String::new(), ..confirm("s") }).await,
        "request_id",
    );
    assert_names(sidecar.caps().confirm(confirm("")).await, "send_id");
    assert_names(sidecar.caps().refund(refund(&long)).await, "send_id");
    let peek = |unit, n| v1::PeekRequest { policies: vec!["p".into()], unit, n, ..Default::default() };
    assert_names(sidecar.caps().peek(peek(1_000_001, None)).await, "unit");
    assert_names(sidecar.caps().peek(peek(1, Some(0))).await, "n");
    let note = v1::NoteInboundRequest { request_id: rid(), ..Default::default() };
    assert_names(sidecar.caps().note_inbound(note).await, "recipient");
    assert_eq!(ttls(&valkey), [], "nothing was counted");
    make(&sidecar, policy("longest", fixed(1, 400 * DAY))).await;
    make(&sidecar, policy("odd", fixed(1, (1 << 31) + 1))).await;
    let odd = ask(&sidecar, consume("odd", &["odd"])).await;
    assert_eq!(at_ms(odd.usage[0].reset_at) % ((1 << 31) + 1), 0, "to the millisecond");
}

/// In a cluster all keys of one call are in one slot, since all carry the namespace's tag.
#[tokio::test]
async fn all_cap_keys_of_a_namespace_carry_one_tag() {
    let (valkey, sidecar) = start().await;
    let watch = Watch::begin(&valkey);
    let (canary, text) = ("5215550001111", "Zebulon Quaverwing");
    let namespace = format!("{text} bot");
    let names = [format!("{text} f"), format!("{text} u"), format!("{text} g"), format!("{text} r")];
    for (name, algorithm) in names.iter().zip([daily(5), unique(5, DAY), gcra(5, DAY), rolling(5, DAY)]) {
        let request = v1::SetPolicyRequest { namespace: namespace.clone(), ..set(policy(name, algorithm)) };
        sidecar.caps().set_policy(request).await.unwrap();
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for n in 0..3 {
        let request = ConsumeRequest {
            namespace: namespace.clone(),
            sender: text.into(),
            ..to(consume(&format!("send {canary} {n}"), &names), &format!("{canary} {n}"))
        };
        assert_eq!(ask(&sidecar, reserve(request, 5000)).await.outcome(), Outcome::Allowed);
    }
    let request = v1::ConfirmRequest { namespace: namespace.clone(), ..confirm(&format!("send {canary} 0")) };
    sidecar.caps().confirm(request).await.unwrap();
    let request = v1::RefundRequest { namespace: namespace.clone(), ..refund(&format!("send {canary} 1")) };
    sidecar.caps().refund(request).await.unwrap();
    let note = v1::NoteInboundRequest {
        namespace,
        request_id: rid(),
        recipient: canary.into(),
        ..Default::default()
    };
    sidecar.caps().note_inbound(note).await.unwrap();
    let tag = |key: &[u8]| {
        let text = String::from_utf8_lossy(key).into_owned();
        text[text.find('{').unwrap()..=text.find('}').unwrap()].to_owned()
    };
    let keys = ttls(&valkey);
    assert!(keys.len() >= 9 && keys.iter().all(|(key, ttl)| tag(key) == tag(&keys[0].0) && *ttl > 0));
    watch.assert_nowhere(&valkey, &sidecar, &[canary, text]);
}

/// Beside `INCR cap:<recipient>:<day>` with EXPIRE.
#[tokio::test]
async fn a_counter_takes_at_most_64_bytes_more_than_the_recipe_and_a_send_220() {
    let (valkey, sidecar) = start().await;
    let recipient = "5215550001111@s.whatsapp.net";
    let plain = format!("cap:{recipient}:2026-11-29");
    let _: i64 = valkey.command(&["INCR", &plain]);
    let _: i64 = valkey.command(&["EXPIRE", &plain, "86400"]);
    let recipe = memory(&valkey, plain.as_bytes());
    make(&sidecar, CapPolicy { scope: CapScope::Recipient.into(), ..policy("daily", daily(5)) }).await;
    ask(
        &sidecar,
        to(consume("wamid.HBgNNTIxNTU1MDAwMTExMRUCABIYFDNBMEE1QzBGODk3RDVGNzA1RQA=", &["daily"]), recipient),
    )
    .await;
    let of = |wanted| {
        ttls(&valkey)
            .into_iter()
            .find(|(key, _)| kind(key) == wanted)
            .map(|(key, _)| memory(&valkey, &key))
            .unwrap()
    };
    let (counter, send) = (of(b'c'), of(b's'));
    println!("recipe {recipe}, counter {counter}, send {send}");
    assert!(counter <= recipe + 64, "recipe {recipe}, counter {counter}");
    assert!(send <= 220, "{send}");
}

#[tokio::test]
async fn without_valkey_only_a_policy_that_fails_open_lets_sends_through() {
    let (mut valkey, sidecar) = start().await;
    make(&sidecar, policy("closed", fixed(5, DAY))).await;
    make(&sidecar, CapPolicy { fail_open: true, ..policy("open", fixed(5, DAY)) }).await;
    ask(&sidecar, consume("1", &["closed", "open"])).await;
    valkey.kill9();
    let begun = Instant::now();
    let open = ask(&sidecar, consume("2", &["open"])).await;
    assert!(open.failed_open && open.outcome() == Outcome::Allowed);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    for policies in [&["closed"][..], &["open", "closed"], &["open", "unknown"]] {
        let mut request = tonic::Request::new(consume("3", policies));
        request.set_timeout(Duration::from_millis(1500));
        let refused = answered(sidecar.caps().consume(request).await).unwrap_err();
        assert!(
            matches!(
                refused.code,
                tonic::Code::Unavailable | tonic::Code::DeadlineExceeded | tonic::Code::Cancelled
            ),
            "{refused:?}"
        );
    }
    valkey.spawn();
    let after = ask(&sidecar, consume("2", &["open"])).await;
    assert!(!after.failed_open && after.outcome() == Outcome::Allowed, "it was not counted");
    assert_eq!(used(&sidecar, "open").await, 2);
}

#[tokio::test]
async fn policies_of_the_configuration_are_set_and_what_was_changed_since_stays() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let dir = support::short_temp_dir();
    let file = dir.path().join("caps.toml");
    let write = |limit: u32| {
        let text = format!(
            "[[policy]]\nname = \"a\"\nfixed = {{ limit = {limit}, window = \"1h\" }}\n[[policy]]\nname = \"b\"\npreset = \"meta-pair\"\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    write(5);
    let options = Options::with(&valkey).arg("--cap-policies").arg(file.to_str().unwrap());
    let mut sidecar = Sidecar::start(options).await;
    let limit = async |sidecar: &Sidecar, name: &str, wanted: i32| {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let get = v1::GetPolicyRequest { name: name.into(), ..Default::default() };
            if let Ok(policy) = sidecar.caps().get_policy(get).await {
                let policy = policy.into_inner().policy.unwrap();
                let limit = match policy.algorithm.clone().unwrap() {
                    Algorithm::Fixed(fixed) => fixed.limit,
                    Algorithm::Gcra(gcra) => gcra.burst,
                    other => panic!("{other:?}"),
                };
                if limit == wanted {
                    return policy.from_config;
                }
            }
            assert!(Instant::now() < until, "{name} is not {wanted}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(limit(&sidecar, "a", 5).await && limit(&sidecar, "b", 45).await);
    write(6);
    sidecar.restart().await;
    assert!(limit(&sidecar, "a", 6).await, "the file has changed");
    make(&sidecar, policy("a", fixed(9, 3_600_000))).await;
    sidecar.restart().await;
    assert!(limit(&sidecar, "b", 45).await);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!limit(&sidecar, "a", 9).await, "changed at run time: it stays");
    std::fs::write(&file, "[[policy]]\nname = \"a\"\n").unwrap();
    sidecar.kill9();
    let refused = support::pannier(&["serve", "--check-config", "--cap-policies", file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(78), "{}", String::from_utf8_lossy(&refused.stderr));
}
