//! `pannier caps` and `pannier conversations` against a running sidecar.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::process::Output;

use pannier::proto::v1::AdvanceRequest;
use serde_json::Value;
use support::{
    Options, Sidecar, pannier,
    small::{consume, fields, step},
};

fn run(sidecar: &Sidecar, arguments: &[&str]) -> Output {
    pannier(&[arguments, &["--address", &sidecar.address()]].concat())
}

fn ok(sidecar: &Sidecar, arguments: &[&str]) -> String {
    let output = run(sidecar, arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
    assert!(output.stdout.is_empty(), "stdout is data only");
    text
}

fn json(sidecar: &Sidecar, arguments: &[&str]) -> Value {
    let output = run(sidecar, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn table(sidecar: &Sidecar, arguments: &[&str]) -> String {
    let output = run(sidecar, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(sidecar: &Sidecar, arguments: &[&str]) -> (i32, String) {
    let output = run(sidecar, arguments);
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn policies_are_set_listed_peeked_and_deleted() {
    let sidecar = Sidecar::start(Options::default()).await;
    assert_eq!(json(&sidecar, &["caps", "list"]), Value::Array(Vec::new()));
    let zone = ["--time-zone", "America/Mexico_City", "--scope", "recipient", "--fail-open"];
    let made = ok(&sidecar, &[&["caps", "set", "daily", "--fixed", "5"], &zone[..]].concat());
    assert!(made.contains("daily is made: 5 a day (America/Mexico_City)"), "{made}");
    ok(&sidecar, &["caps", "set", "burst", "--rolling", "20", "--window", "10s"]);
    ok(&sidecar, &["caps", "set", "pair", "--preset", "meta-pair"]);
    ok(&sidecar, &["caps", "set", "tier", "--unique", "250"]);
    ok(&sidecar, &["caps", "set", "slow", "--gcra", "2", "--period", "500us"]);
    let list = json(&sidecar, &["caps", "list"]);
    let rules: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["rule"].as_str().unwrap()))
        .collect();
    assert_eq!(
        rules,
        [
            ("burst", "20 in any 10000 ms"),
            ("daily", "5 a day (America/Mexico_City)"),
            ("pair", "one per 6000 ms, 45 at once"),
            ("slow", "one per 0.5 ms, 2 at once"),
            ("tier", "250 recipients in any 86400000 ms"),
        ]
    );
    let daily = json(&sidecar, &["caps", "get", "daily"]);
    assert_eq!(
        (&daily["scope"], &daily["fail_open"], &daily["limit"]),
        (&"recipient".into(), &true.into(), &5.into())
    );
    let text = table(&sidecar, &["caps", "list"]);
    assert!(text.contains("POLICY") && text.contains("burst") && !text.contains('\u{1b}'), "{text}");

    let mut send = consume("1", &["daily", "burst"]);
    send.recipient = "x".into();
    sidecar.caps().consume(send).await.unwrap();
    let standing = json(&sidecar, &["caps", "peek", "daily", "burst", "--recipient", "x"]);
    let used: Vec<_> =
        standing["policies"].as_array().unwrap().iter().map(|one| one["used"].as_i64().unwrap()).collect();
    assert_eq!(used, [1, 1]);
    let never = json(&sidecar, &["caps", "peek", "burst", "--count", "21"]);
    assert_eq!(never["policies"][0]["never"], true);
    assert!(table(&sidecar, &["caps", "peek", "burst"]).contains("19"));

    assert_eq!(refused(&sidecar, &["caps", "delete", "daily"]).0, 64, "without a terminal it needs --yes");
    ok(&sidecar, &["caps", "delete", "daily", "--yes"]);
    assert_eq!(refused(&sidecar, &["caps", "delete", "daily", "--yes"]).0, 1);
    let (code, text) = refused(&sidecar, &["caps", "get", "daily"]);
    assert!(code == 1 && text.contains("POLICY_NOT_FOUND"), "{text}");
    for wrong in [
        &["caps", "set", "x"][..],
        &["caps", "set", "x", "--fixed", "1", "--rolling", "1"],
        &["caps", "set", "x", "--rolling", "1"],
        &["caps", "set", "x", "--rolling", "1", "--window", "1.5s"],
        &["caps", "set", "x", "--gcra", "1", "--period", "1s", "--window", "1s"],
        &["caps", "set", "x", "--fixed", "1", "--time-zone", "Mars"],
        &["caps", "set", "x", "--preset", "meta"],
        &["caps", "peek"],
        &["caps", "peek", "burst", "--count", "0"],
    ] {
        assert_eq!(refused(&sidecar, wrong).0, 64, "{wrong:?}");
    }
}

#[tokio::test]
async fn conversations_are_listed_shown_and_reset() {
    let sidecar = Sidecar::start(Options::default()).await;
    assert_eq!(json(&sidecar, &["conversations", "list"]), Value::Array(Vec::new()));
    let id = "5215550001111@s.whatsapp.net";
    let mut set = fields(&[("name", "María"), ("order", "2 large\u{1b}[2J")]);
    set.insert("raw".into(), vec![0xff, 0].into());
    sidecar.conversations().advance(AdvanceRequest { set, ..step(id, "ask") }).await.unwrap();
    sidecar.conversations().advance(step("other", "s")).await.unwrap();
    let list = json(&sidecar, &["conversations", "list"]);
    let shown: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["id"].as_str().unwrap(), one["fields"].as_u64().unwrap()))
        .collect();
    assert_eq!(shown, [(id, 3), ("other", 0)]);
    assert!(!table(&sidecar, &["conversations", "list"]).contains("María"), "values are not listed");
    let detail = json(&sidecar, &["conversations", "get", id]);
    assert_eq!((&detail["step"], &detail["fields"]["name"]), (&"ask".into(), &"María".into()));
    assert_eq!(detail["fields"]["raw"]["base64"], "/wA=");
    let text = table(&sidecar, &["conversations", "show", id]);
    assert!(text.contains("name = María") && !text.contains('\u{1b}'), "{text}");
    let unknown = json(&sidecar, &["conversations", "get", "nobody"]);
    assert_eq!((&unknown["exists"], &unknown["step"]), (&false.into(), &"idle".into()));
    assert_eq!(refused(&sidecar, &["conversations", "reset", id]).0, 64);
    ok(&sidecar, &["conversations", "reset", id, "--yes"]);
    assert_eq!(refused(&sidecar, &["conversations", "reset", id, "--yes"]).0, 1);
    assert_eq!(json(&sidecar, &["conversations", "list"]).as_array().unwrap().len(), 1);
    assert_eq!(json(&sidecar, &["conversations", "list", "-n", "else"]).as_array().unwrap().len(), 0);
}
