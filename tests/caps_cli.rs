//! `pannier caps` and `pannier conversations` against a running sidecar.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use pannier::proto::v1::AdvanceRequest;
use serde_json::Value;
use support::{
    Options, Sidecar,
    cli::Cli,
    small::{consume, fields, step},
};

#[tokio::test]
async fn policies_are_set_listed_peeked_and_deleted() {
    let sidecar = Sidecar::start(Options::default()).await;
    let cli = Cli::of(&sidecar, &[]);
    assert_eq!(cli.json(&["caps", "list"]), Value::Array(Vec::new()));
    let zone = ["--time-zone", "America/Mexico_City", "--scope", "recipient", "--fail-open"];
    let made = cli.note(&[&["caps", "set", "daily", "--fixed", "5"], &zone[..]].concat());
    assert!(made.contains("daily is made: 5 a day (America/Mexico_City)"), "{made}");
    cli.note(&["caps", "set", "burst", "--rolling", "20", "--window", "10s"]);
    cli.note(&["caps", "set", "pair", "--preset", "meta-pair"]);
    cli.note(&["caps", "set", "tier", "--unique", "250"]);
    cli.note(&["caps", "set", "slow", "--gcra", "2", "--period", "500us"]);
    let list = cli.json(&["caps", "list"]);
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
    let daily = cli.json(&["caps", "get", "daily"]);
    assert_eq!(
        (&daily["scope"], &daily["fail_open"], &daily["limit"]),
        (&"recipient".into(), &true.into(), &5.into())
    );
    let text = cli.data(&["caps", "list"]);
    assert!(text.contains("POLICY") && text.contains("burst") && !text.contains('\u{1b}'), "{text}");

    let mut send = consume("1", &["daily", "burst"]);
    send.recipient = "x".into();
    sidecar.caps().consume(send).await.unwrap();
    let standing = cli.json(&["caps", "peek", "daily", "burst", "--recipient", "x"]);
    let used: Vec<_> =
        standing["policies"].as_array().unwrap().iter().map(|one| one["used"].as_i64().unwrap()).collect();
    assert_eq!(used, [1, 1]);
    let never = cli.json(&["caps", "peek", "burst", "--count", "21"]);
    assert_eq!(never["policies"][0]["never"], true);
    assert!(cli.data(&["caps", "peek", "burst"]).contains("19"));

    assert_eq!(cli.refused(&["caps", "delete", "daily"]).0, 64, "without a terminal it needs --yes");
    cli.note(&["caps", "delete", "daily", "--yes"]);
    assert_eq!(cli.refused(&["caps", "delete", "daily", "--yes"]).0, 1);
    let (code, text) = cli.refused(&["caps", "get", "daily"]);
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
        assert_eq!(cli.refused(wrong).0, 64, "{wrong:?}");
    }
}

#[tokio::test]
async fn conversations_are_listed_shown_and_reset() {
    let sidecar = Sidecar::start(Options::default()).await;
    let cli = Cli::of(&sidecar, &[]);
    assert_eq!(cli.json(&["conversations", "list"]), Value::Array(Vec::new()));
    let id = "5215550001111@s.whatsapp.net";
    let mut set = fields(&[("name", "María"), ("order", "2 large\u{1b}[2J")]);
    set.insert("raw".into(), vec![0xff, 0].into());
    sidecar.conversations().advance(AdvanceRequest { set, ..step(id, "ask") }).await.unwrap();
    sidecar.conversations().advance(step("other", "s")).await.unwrap();
    let list = cli.json(&["conversations", "list"]);
    let shown: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["id"].as_str().unwrap(), one["fields"].as_u64().unwrap()))
        .collect();
    assert_eq!(shown, [(id, 3), ("other", 0)]);
    assert!(!cli.data(&["conversations", "list"]).contains("María"), "values are not listed");
    let detail = cli.json(&["conversations", "get", id]);
    assert_eq!((&detail["step"], &detail["fields"]["name"]), (&"ask".into(), &"María".into()));
    assert_eq!(detail["fields"]["raw"]["base64"], "/wA=");
    let text = cli.data(&["conversations", "show", id]);
    assert!(text.contains("name = María") && !text.contains('\u{1b}'), "{text}");
    let unknown = cli.json(&["conversations", "get", "nobody"]);
    assert_eq!((&unknown["exists"], &unknown["step"]), (&false.into(), &"idle".into()));
    assert_eq!(cli.refused(&["conversations", "reset", id]).0, 64);
    cli.note(&["conversations", "reset", id, "--yes"]);
    assert_eq!(cli.refused(&["conversations", "reset", id, "--yes"]).0, 1);
    assert_eq!(cli.json(&["conversations", "list"]).as_array().unwrap().len(), 1);
    assert_eq!(cli.json(&["conversations", "list", "-n", "else"]).as_array().unwrap().len(), 0);
}
