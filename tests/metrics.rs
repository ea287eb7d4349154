//! What is counted is what happened, under no name of a client's; and the dashboard and the alerts ask for what there is.

// What is counted is whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_cmp)]

mod support;

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use pannier::{
    proto::v1::{self, pipe_request::Call},
    telemetry::{Kind, METRICS, table},
};
use saphyr::{LoadableYamlNode as _, Yaml};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    admin_http::{Metrics, address, metrics},
    attach::{Attach, open, put},
    caps::{ask, fixed, make, policy},
    leak::forms,
    schedule::{Queue, delayed, job},
    small::{Pipe, claim, consume},
    unary::{Unary, commit},
};

const PHONE: &str = "15557774321";
const NAME: &str = "Quillfeather Zabriskie";

async fn start() -> (Valkey, Sidecar, String) {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey).arg("--admin=127.0.0.1:0")).await;
    let address = address(&sidecar);
    (valkey, sidecar, address)
}

/// Waits until a number is reached: what is counted at the end of a call may come a moment after its answer.
async fn reaches(address: &str, name: &str, labels: &[(&str, &str)], wanted: f64) -> Metrics {
    let mut metrics = metrics(address).await;
    for _ in 0..500 {
        if metrics.sum(name, labels) >= Some(wanted) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        metrics = support::admin_http::metrics(address).await;
    }
    assert_eq!(metrics.sum(name, labels), Some(wanted), "{name} {labels:?} in\n{}", metrics.text);
    metrics
}

#[tokio::test]
async fn calls_are_counted_by_method_and_code_and_none_is_left_in_flight() {
    let (_valkey, sidecar, address) = start().await;
    let mut unary = Unary::of(&sidecar);
    for _ in 0..3 {
        unary.get("nobody", "creds", &["creds"]).await.unwrap_err();
    }
    unary.commit(commit("", "w", 1, vec![])).await.unwrap_err();
    for key in ["a", "b", "a"] {
        sidecar.dedup().claim(claim(key)).await.unwrap();
    }
    let mut pipe = Pipe::open(&sidecar).await;
    pipe.call(Call::Claim(claim("c"))).await.unwrap();
    pipe.call(Call::Claim(claim(""))).await.unwrap_err();
    let calls = "pannier_rpc_duration_seconds_count";
    let metrics = reaches(&address, calls, &[("method", "DedupService/Claim"), ("code", "OK")], 4.0).await;
    let count = |method: &str, code: &str| metrics.sum(calls, &[("method", method), ("code", code)]);
    assert_eq!(count("SessionService/GetRecords", "NOT_FOUND"), Some(3.0));
    assert_eq!(count("SessionService/CommitRecords", "INVALID_ARGUMENT"), Some(1.0));
    assert_eq!(count("DedupService/Claim", "INVALID_ARGUMENT"), Some(1.0), "that in the pipe");
    assert_eq!(metrics.value("pannier_claims_total", &[("outcome", "new")]), 3.0);
    assert_eq!(metrics.value("pannier_claims_total", &[("outcome", "in_progress")]), 1.0);
    assert_eq!(metrics.value("pannier_errors_total", &[("reason", "SESSION_NOT_FOUND")]), 3.0);
    assert_eq!(metrics.value("pannier_errors_total", &[("reason", "BAD_FIELD")]), 2.0);
    assert_eq!(metrics.value("pannier_streams_open", &[("method", "PipeService/Pipe")]), 1.0);
    assert_eq!(metrics.value("pannier_rpc_in_flight", &[]), 1.0, "the pipe");
    let slowest = metrics.value("pannier_rpc_duration_seconds_sum", &[("method", "DedupService/Claim")]);
    assert!((0.0..5.0).contains(&slowest), "{slowest}");
    drop(pipe);
    let metrics = reaches(&address, "pannier_streams_total", &[("method", "PipeService/Pipe")], 1.0).await;
    assert_eq!(metrics.value("pannier_streams_open", &[("method", "PipeService/Pipe")]), 0.0);
    assert_eq!(metrics.value("pannier_rpc_in_flight", &[]), 0.0);
    assert!(metrics.value("pannier_valkey_duration_seconds_count", &[("lane", "small")]) > 5.0);
    for (name, least) in [
        ("process_resident_memory_bytes", 1e6),
        ("process_open_fds", 5.0),
        ("process_max_fds", 100.0),
        ("process_threads", 2.0),
        ("process_start_time_seconds", 1.7e9),
    ] {
        assert!(metrics.value(name, &[]) > least, "{name}");
    }
}

#[tokio::test]
async fn sessions_jobs_and_caps_are_counted() {
    let (valkey, sidecar, address) = start().await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "a")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "x")], vec![]).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "x")], vec![]).await.unwrap();
    bot.get("creds", &["creds"]).await.unwrap();
    let metrics = reaches(&address, "pannier_session_commits_total", &[("outcome", "replayed")], 1.0).await;
    assert_eq!(metrics.value("pannier_session_commits_total", &[("outcome", "applied")]), 1.0);
    assert_eq!(
        metrics.value("pannier_session_request_duration_seconds_count", &[("request", "commit")]),
        2.0
    );
    assert_eq!(metrics.value("pannier_session_request_duration_seconds_count", &[("request", "get")]), 1.0);
    assert_eq!(metrics.value("pannier_leases_held", &[]), 1.0);
    // Another takes over; what the first one still writes is fenced.
    let take = v1::Open { on_held: v1::OnHeld::TakeOver.into(), ..open("bot", "b") };
    let second = Attach::open(sidecar.channel(), take).await.unwrap();
    let _ = bot.commit(2, vec![put("creds", "creds", "y")], vec![]).await;
    reaches(&address, "pannier_fenced_writes_total", &[("kind", "session")], 1.0).await;
    drop((bot, second));
    // A record that somebody has altered.
    let keys = valkey.keys("pannier:test:{*}:r:*");
    let fields: Vec<Vec<u8>> = valkey.command(&["HKEYS", &keys[0]]);
    let field = fields.iter().find(|field| field[0] == 1).unwrap();
    let _: i32 = redis::Commands::hset(&mut valkey.connection(), &keys[0], field, b"broken").unwrap();
    Unary::of(&sidecar).get("bot", "creds", &["creds"]).await.unwrap_err();
    let metrics = support::admin_http::metrics(&address).await;
    assert!(metrics.value("pannier_decrypt_failures_total", &[("class", "corrupt")]) >= 1.0);
    assert_eq!(metrics.value("pannier_errors_total", &[("reason", "CORRUPT_RECORD")]), 1.0);

    let queue = Queue::of(&sidecar, "reminders");
    queue.add(job("now")).await;
    queue.add(delayed("later", 3_600_000)).await;
    let leased = queue.take(1).await;
    reaches(&address, "pannier_jobs", &[("state", "leased")], 1.0).await;
    queue.ack(&leased[0]).await;
    let metrics = reaches(&address, "pannier_job_settles_total", &[("verdict", "done")], 1.0).await;
    assert_eq!(metrics.value("pannier_job_leases_total", &[("attempt", "1")]), 1.0);
    assert_eq!(metrics.value("pannier_job_lateness_seconds_count", &[]), 1.0);
    assert!(metrics.value("pannier_job_lateness_seconds_sum", &[]) < 5.0);
    assert_eq!(metrics.value("pannier_jobs", &[("state", "delayed")]), 1.0);
    assert_eq!(metrics.value("pannier_queues", &[]), 1.0);

    make(&sidecar, policy("daily", fixed(1, 3_600_000))).await;
    ask(&sidecar, consume("send-1", &["daily"])).await;
    ask(&sidecar, consume("send-2", &["daily"])).await;
    let metrics = reaches(&address, "pannier_cap_consumes_total", &[("outcome", "denied")], 1.0).await;
    assert_eq!(metrics.value("pannier_cap_consumes_total", &[("outcome", "allowed")]), 1.0);
}

/// elie222/rakazo#490 and the like: what is scraped is kept for months by people who have no business with it.
#[tokio::test]
async fn no_name_of_a_client_is_in_a_label_and_names_make_no_series() {
    let (_valkey, sidecar, address) = start().await;
    let before = {
        live(&sidecar, "warm").await;
        metrics(&address).await.series()
    };
    for n in 0..20 {
        live(&sidecar, &format!("{PHONE}-{n} {NAME}")).await;
    }
    // Whoever chooses the path chooses no label.
    for path in [format!("/pannier.v1.SessionService/{PHONE}"), format!("/{PHONE}/{PHONE}")] {
        let answer = support::access::call(&sidecar.channel(), &path, None, bytes::Bytes::new()).await;
        assert_eq!(answer.unwrap_err().code(), tonic::Code::Unimplemented);
    }
    let metrics = metrics(&address).await;
    for canary in [PHONE, NAME] {
        for form in forms(canary.as_bytes()) {
            let form = String::from_utf8_lossy(&form).into_owned();
            assert!(!metrics.text.contains(&form), "{canary} as {form} in\n{}", metrics.text);
        }
    }
    // 17 numbers a histogram: the two paths are one series of `other`.
    assert!(metrics.series() <= before + 20, "{} series, and {before} before", metrics.series());
    assert_eq!(metrics.value("pannier_rpc_duration_seconds_count", &[("method", "other/other")]), 2.0);
    let labels: BTreeSet<&str> = metrics.text.lines().flat_map(labels_of).collect();
    let known = [
        "method", "code", "reason", "lane", "check", "request", "outcome", "kind", "class", "state",
        "attempt", "verdict", "version", "le",
    ];
    assert_eq!(labels, BTreeSet::from(known), "a label that nobody has thought about");
}

fn labels_of(line: &str) -> Vec<&str> {
    if line.starts_with('#') {
        return Vec::new();
    }
    let inside = line.split_once('{').map_or("", |(_, rest)| rest.rsplit_once('}').unwrap().0);
    inside
        .split("\",")
        .filter(|label| !label.is_empty())
        .map(|label| label.split_once('=').unwrap().0)
        .collect()
}

/// A little of everything, under this name.
async fn live(sidecar: &Sidecar, name: &str) {
    let namespace = format!("ns {name}");
    let opening = v1::Open { namespace: namespace.clone(), ..open(name, name) };
    let mut bot = Attach::open(sidecar.channel(), opening).await.unwrap();
    bot.commit(1, vec![put("session", name, name), put(name, name, name)], vec![]).await.unwrap();
    bot.get(name, &[name]).await.unwrap();
    bot.commit(5, vec![put("session", name, name)], vec![]).await.unwrap_err();
    let claiming = v1::ClaimRequest { namespace: namespace.clone(), ..claim(name) };
    sidecar.dedup().claim(claiming).await.unwrap();
    let advance = v1::AdvanceRequest { namespace: namespace.clone(), ..support::small::step(name, name) };
    sidecar.conversations().advance(advance).await.unwrap();
    let consuming = v1::ConsumeRequest { namespace, ..consume(name, &[name]) };
    sidecar.caps().consume(consuming).await.unwrap_err();
    let queue = Queue::of(sidecar, name);
    queue.add(job(name)).await;
    let leased = queue.take(1).await;
    queue.ack(&leased[0]).await;
    Unary::of(sidecar).get(name, name, &[name]).await.unwrap_err();
}

/// The names that a query asks for.
fn asked_for(query: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    query
        .split(|c: char| !word(c))
        .filter(|word| word.starts_with("pannier_") || word.starts_with("process_"))
        .map(ToOwned::to_owned)
        .collect()
}

fn file(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

#[tokio::test]
async fn every_metric_that_the_dashboard_and_the_alerts_ask_for_is_there_from_the_start() {
    let (_valkey, _sidecar, address) = start().await;
    let metrics = metrics(&address).await;
    let mut there: BTreeSet<&str> = metrics.names();
    // Only whoever rewraps keys counts owners; streams that have ended have names only then.
    there.extend(["pannier_owners", "pannier_streams_total", "pannier_denied_calls_total"]);

    let rules = Yaml::load_from_str(&file("deploy/prometheus/alerts.yml")).unwrap();
    let mut alerts = BTreeSet::new();
    for group in rules[0].as_mapping_get("groups").unwrap().as_sequence().unwrap() {
        for rule in group.as_mapping_get("rules").unwrap().as_sequence().unwrap() {
            let text = |key: &str| rule.as_mapping_get(key).and_then(|value| value.as_str());
            let (name, query) = (text("alert").expect("a name"), text("expr").expect("a query"));
            assert!(alerts.insert(name.to_owned()), "{name} is there twice");
            let severity = rule.as_mapping_get("labels").and_then(|labels| labels.as_mapping_get("severity"));
            assert!(matches!(severity.and_then(|one| one.as_str()), Some("critical" | "warning")), "{name}");
            let summary =
                rule.as_mapping_get("annotations").and_then(|notes| notes.as_mapping_get("summary"));
            assert!(summary.is_some(), "{name} says nothing");
            for metric in asked_for(query) {
                assert!(there.contains(metric.as_str()), "{name} asks for {metric}");
            }
        }
    }
    assert!(alerts.len() >= 15, "{} alerts", alerts.len());
    let documented = file("docs/operations.md");
    for alert in &alerts {
        assert!(
            documented.contains(&format!("`{alert}`")),
            "docs/operations.md does not say what to do at {alert}"
        );
    }

    let dashboard: serde_json::Value = serde_json::from_str(&file("deploy/grafana/pannier.json")).unwrap();
    for key in ["title", "uid", "schemaVersion", "panels", "templating", "time"] {
        assert!(!dashboard[key].is_null(), "a dashboard has {key}");
    }
    let variables: BTreeSet<&str> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(variables, BTreeSet::from(["datasource", "job", "instance"]));
    let (mut ids, mut places, mut shown) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title} has an id of another");
        let at = &panel["gridPos"];
        let (x, y, width) = (at["x"].as_u64().unwrap(), at["y"].as_u64().unwrap(), at["w"].as_u64().unwrap());
        assert!(x + width <= 24 && places.insert((x, y)), "{title} stands on another");
        let empty = Vec::new();
        let targets = panel["targets"].as_array().unwrap_or(&empty);
        assert_eq!(targets.is_empty(), panel["type"] == "row", "{title}");
        for target in targets {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
            let asked = asked_for(target["expr"].as_str().unwrap());
            assert!(!asked.is_empty(), "{title} asks for nothing of ours");
            for metric in asked {
                assert!(there.contains(metric.as_str()), "{title} asks for {metric}");
                shown.insert(metric.trim_end_matches("_bucket").trim_end_matches("_count").to_owned());
            }
        }
    }
    let forgotten: Vec<&str> = METRICS
        .iter()
        .map(|metric| metric.name)
        .filter(|name| {
            !shown.contains(*name)
                && !["pannier_build_info", "process_threads", "process_start_time_seconds"].contains(name)
        })
        .collect();
    assert!(forgotten.is_empty(), "no panel shows {forgotten:?}");
}

#[tokio::test]
async fn what_is_exported_is_what_is_listed_with_help_and_kind() {
    let (_valkey, sidecar, address) = start().await;
    live(&sidecar, "bot").await;
    let metrics = metrics(&address).await;
    for name in metrics.names() {
        let known = METRICS.iter().any(|metric| {
            let suffixes: &[&str] =
                if metric.kind == Kind::Histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
            name.strip_prefix(metric.name).is_some_and(|rest| suffixes.contains(&rest))
        });
        assert!(known, "{name} is not in the list");
    }
    for line in metrics.text.lines().filter(|line| line.starts_with("# TYPE ")) {
        let (name, kind) = line["# TYPE ".len()..].split_once(' ').unwrap();
        let listed = METRICS.iter().find(|metric| metric.name == name).unwrap().kind;
        assert_eq!(format!("{listed:?}").to_lowercase(), kind, "{name}");
        assert!(metrics.text.contains(&format!("# HELP {name} ")), "{name} has no help");
    }
}

#[test]
fn the_documentation_has_the_list_as_it_is() {
    const BEGIN: &str = "<!-- metrics: written by `make docs` -->\n";
    const END: &str = "<!-- end of metrics -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the place of the list");
    let (_, after) = rest.split_once(END).expect("its end");
    let current = format!("{before}{BEGIN}{}{END}{after}", table());
    if std::env::var_os("PANNIER_UPDATE_DOCS").is_some() {
        fs::write(&path, &current).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap() == current, "run `make docs`");
}
