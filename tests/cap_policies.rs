//! Policies of caps: set, changed, refused, kept out of sight, and what happens without Valkey.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::too_many_lines
)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{
    self, CapPolicy, CapPreset, CapScope, ConsumeRequest, cap_policy::Algorithm, consume_response::Outcome,
};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    caps::{
        DAY, ask, confirm, daily, fixed, gcra, kind, make, policy, refund, reserve, rolling, set, start, to,
        unique, used,
    },
    leak::Watch,
    small::{answered, assert_names, assert_unavailable, at_ms, consume, memory, ms, rid, ttls},
};

#[tokio::test]
async fn a_policy_that_is_changed_holds_at_once_for_every_sidecar() {
    let (_valkey, sidecar) = start().await;
    let second = sidecar.beside("second.sock").await;
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
        assert_unavailable(&refused);
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
