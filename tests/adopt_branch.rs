//! `pannier adopt-branch`: a copy becomes a database of its own that does nothing by itself.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{
    process::{Command, Output, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use support::{
    BINARY, Options, Sidecar, Valkey, ValkeyOptions,
    cli::Cli,
    everything::{still_there, use_everything},
    pannier, path_str, schedule,
};

/// A stopped sidecar of environment test that has used everything; its queue of crons has one that is due every second.
async fn copy() -> (Valkey, Sidecar) {
    let (valkey, mut sidecar) = support::start().await;
    use_everything(&sidecar).await;
    let crons = Cli::of(&sidecar, &["crons"]);
    // It fires with each second of the clock: a whole one is left to stop in.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    tokio::time::sleep(Duration::from_millis(1010 - u64::from(now.subsec_millis()))).await;
    crons.data(&["set", "bot-0", "tick", "--every", "1s"]);
    assert!(sidecar.stop().await.success());
    (valkey, sidecar)
}

fn adopt(valkey: &Valkey, sidecar: &Sidecar, more: &[&str]) -> Output {
    let (keyring, url) = (sidecar.keyring(), valkey.url());
    let flags = ["adopt-branch", "--keyring", path_str(&keyring), "--valkey-url", &url];
    pannier(&[&flags, more].concat())
}

fn refused(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

const STAGING: &[&str] = &["--from", "test", "--to", "staging", "--yes", "--json"];

fn done(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn staging(valkey: &Valkey, sidecar: &Sidecar) -> Sidecar {
    let (dir, env) = (Some(sidecar.dir.clone()), Some("staging".into()));
    Sidecar::start(Options { no_init: true, dir, env, ..Options::with(valkey) }).await
}

fn environment(valkey: &Valkey) -> String {
    valkey.command(&["GET", "pannier:environment"])
}

#[tokio::test]
async fn it_is_another_database_without_sessions_and_everything_rests() {
    let (valkey, sidecar) = copy().await;
    let before = environment(&valkey);
    let told = done(&adopt(&valkey, &sidecar, STAGING));
    assert_eq!(valkey.keys("pannier:test:*"), Vec::<String>::new());
    let after = environment(&valkey);
    assert_eq!(after, format!("staging {}", told["store_id"].as_str().unwrap()));
    assert_ne!(before.split_once(' ').unwrap().1, after.split_once(' ').unwrap().1);
    assert_eq!(told["queues_paused"], 20);
    assert!(told["dropped"].as_u64().unwrap() >= 80, "{told}");

    let served = staging(&valkey, &sidecar).await;
    still_there(&served, false).await;
    let queue = Cli::of(&served, &["queue"]);
    let stats = queue.json(&["stats", "bot-0"]);
    assert!(stats.to_string().contains("\"paused\":true"), "{stats}");
    // The cron was due long ago, and two more times meanwhile.
    let jobs = |text: &str| text.matches("tick@").count();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(jobs(&queue.data(&["list", "bot-0", "ready", "--json"])), 0);
    queue.data(&["resume", "bot-0"]);
    let until = Instant::now() + Duration::from_secs(10);
    while jobs(&queue.data(&["list", "bot-0", "ready", "--json"])) == 0 {
        assert!(Instant::now() < until, "the cron must go on when the queue is resumed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // And jobs are given out again.
    let queue = schedule::Queue::of(&served, "bot-0");
    assert!(!queue.take(1).await.is_empty());
}

#[tokio::test]
async fn sessions_stay_when_asked_for() {
    let (valkey, sidecar) = copy().await;
    let told = done(&adopt(&valkey, &sidecar, &[STAGING, &["--keep-sessions"]].concat()));
    assert_eq!(told["dropped"], 0);
    still_there(&staging(&valkey, &sidecar).await, true).await;
}

#[tokio::test]
async fn what_was_killed_goes_on() {
    let (valkey, sidecar) = copy().await;
    let mut fill = redis::pipe();
    for number in 0..60_000 {
        fill.cmd("SET").arg(format!("pannier:test:{{filler-{number}}}:x")).arg(number).ignore();
    }
    fill.query::<()>(&mut valkey.connection()).unwrap();
    let keyring = sidecar.keyring();
    let mut child = Command::new(BINARY)
        .args(["adopt-branch", "--keyring", path_str(&keyring), "--valkey-url", &valkey.url()])
        .args(STAGING)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    let renamed = || {
        let exists: Vec<String> =
            (0..100).map(|number| format!("pannier:staging:{{filler-{number}}}:x")).collect();
        let words: Vec<&str> = ["EXISTS"].into_iter().chain(exists.iter().map(String::as_str)).collect();
        valkey.command::<u64>(&words)
    };
    while renamed() < 5 {
        assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "it must be in the middle");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let there = environment(&valkey);
    assert!(there.starts_with("adopting/test/staging/drop/"), "{there}");
    // Nobody uses it meanwhile, under either name.
    let socket = sidecar.dir.path().join("other.sock");
    for env in ["test", "staging"] {
        let url = valkey.url();
        let args = ["serve", "--env", env, "--keyring", path_str(&keyring), "--socket", path_str(&socket)];
        let output = pannier(&[&args[..], &["--valkey-url", &url]].concat());
        assert!(refused(&output, 78).contains("this database is being renamed"));
    }
    let other = adopt(&valkey, &sidecar, &["--from", "test", "--to", "dev", "--yes"]);
    assert!(refused(&other, 1).contains("--from test --to staging"));
    let told = done(&adopt(&valkey, &sidecar, STAGING));
    assert!(there.ends_with(told["store_id"].as_str().unwrap()), "the id stays over a break");
    assert_eq!(valkey.keys("pannier:test:*"), Vec::<String>::new());
    assert_eq!(valkey.keys("pannier:staging:{filler-*").len(), 60_000);
    still_there(&staging(&valkey, &sidecar).await, false).await;
}

#[tokio::test]
async fn a_copied_data_directory_becomes_one_of_its_own() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    use_everything(&sidecar).await;
    let (data, socket) = (sidecar.data_dir(), sidecar.socket.clone());
    let flags = ["adopt-branch", "--data-dir", path_str(&data), "--socket", path_str(&socket)];
    let more = ["--from", "dev", "--to", "staging", "--yes", "--json"];
    refused(&pannier(&[&flags[..], &more].concat()), 78);
    assert!(sidecar.stop().await.success());
    done(&pannier(&[&flags[..], &more].concat()));
    sidecar.options.env = Some("staging".into());
    sidecar.spawn();
    sidecar.wait_serving(Duration::from_secs(30)).await;
    still_there(&sidecar, false).await;
}

#[tokio::test]
async fn a_cluster_is_renamed_node_by_node() {
    let cluster = support::cluster::Cluster::start(3, 0);
    let options =
        Options { valkey_url: Some(cluster.url()), args: vec!["--cluster".into()], ..Options::default() };
    let mut sidecar = Sidecar::start(options.clone()).await;
    use_everything(&sidecar).await;
    assert!(sidecar.stop().await.success());
    let keyring = sidecar.keyring();
    let url = cluster.url();
    let flags = ["adopt-branch", "--keyring", path_str(&keyring), "--valkey-url", &url, "--cluster"];
    done(&pannier(&[&flags[..], STAGING].concat()));
    assert_eq!(cluster.keys("pannier:test:*"), Vec::<String>::new());
    let (dir, env) = (Some(sidecar.dir.clone()), Some("staging".into()));
    let served = Sidecar::start(Options { no_init: true, dir, env, ..options }).await;
    still_there(&served, false).await;
}

#[tokio::test]
async fn it_is_refused_where_it_would_do_harm() {
    let (valkey, mut sidecar) = support::start().await;
    use_everything(&sidecar).await;
    let before = environment(&valkey);
    let said = refused(&adopt(&valkey, &sidecar, STAGING), 1);
    assert!(said.contains("a sidecar runs on it"), "{said}");
    assert!(sidecar.stop().await.success());
    let try_out = |more: &[&str], code| refused(&adopt(&valkey, &sidecar, more), code);
    assert!(try_out(&["--from", "test", "--to", "staging"], 64).contains("--yes"));
    assert!(try_out(&["--from", "test", "--to", "test", "--yes"], 64).contains("the same"));
    assert!(try_out(&["--from", "test", "--to", "No", "--yes"], 64).contains("--to must match"));
    assert!(
        try_out(&["--from", "prod", "--to", "dev", "--yes"], 1).contains("belongs to environment \"test\"")
    );
    assert!(try_out(&["--from", "prod", "--to", "test", "--yes"], 1).contains("nothing to do"));
    valkey.command::<()>(&["SET", "pannier:staging:x", "1"]);
    assert!(try_out(STAGING, 1).contains("beside"));
    assert_eq!(environment(&valkey), before, "nothing was written");
    let empty = Valkey::start(ValkeyOptions::default());
    assert!(refused(&adopt(&empty, &sidecar, STAGING), 1).contains("empty"));
}
