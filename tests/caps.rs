//! How much may be sent: exact under concurrency, counted once, all or nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::time::Duration;

use futures_util::future::join_all;
use pannier::proto::v1::{
    self, CapPolicy, CapPreset, CapScope, ConsumeRequest, cap_policy::Algorithm,
    confirm_response::Outcome as Confirmed, consume_response::Outcome, consume_response::SendState,
    refund_response::Outcome as Refunded,
};
use support::{
    Valkey,
    caps::{
        DAY, ask, confirm, fixed, gcra, kind, make, peek, policy, refund, reserve, rolling, start, to,
        unique, used,
    },
    small::{answered, assert_names, consume, rid, ttls, wait_ms},
};

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
