//! `pannier migrate`: everything arrives as it was, a break loses nothing, and an unfinished target is never used.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use support::{
    BINARY, Options, Sidecar, Valkey, ValkeyOptions,
    attach::Attach,
    attach::open,
    cluster::Cluster,
    everything::{still_there, use_everything},
    pannier, path_str,
};

/// A sidecar that has used everything and is stopped.
async fn source() -> (Valkey, Sidecar) {
    let (valkey, mut sidecar) = support::start().await;
    use_everything(&sidecar).await;
    assert!(sidecar.stop().await.success());
    (valkey, sidecar)
}

/// The flags by which the source is found.
fn from(valkey: &Valkey, sidecar: &Sidecar) -> Vec<String> {
    let keyring = path_str(&sidecar.keyring()).to_owned();
    ["migrate", "--env", "test", "--keyring", &keyring, "--valkey-url", &valkey.url()]
        .map(str::to_owned)
        .into()
}

fn run(flags: &[String], more: &[&str]) -> std::process::Output {
    let all: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    pannier(&all)
}

fn done(flags: &[String], more: &[&str]) -> serde_json::Value {
    let output = run(flags, &[more, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(flags: &[String], more: &[&str], code: i32) -> String {
    let output = run(flags, more);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

/// The same sidecar with the same keyring on another server.
async fn served(sidecar: &Sidecar, url: String, args: &[&str]) -> Sidecar {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let options = Options {
        valkey_url: Some(url),
        no_init: true,
        dir: Some(sidecar.dir.clone()),
        args,
        ..Options::default()
    };
    Sidecar::start(options).await
}

/// The names of keys that match; those of caps are not text.
fn keys(valkey: &Valkey, pattern: &str) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = valkey.command(&["KEYS", pattern]);
    keys.sort();
    keys
}

/// Those that are carried.
fn lasting(valkey: &Valkey) -> Vec<Vec<u8>> {
    let mut keys = keys(valkey, "pannier:test:*");
    keys.retain(|key| !key.starts_with(b"pannier:test:sweeper:") && key != b"pannier:test:sidecars");
    keys
}

fn environment(valkey: &Valkey) -> Option<String> {
    valkey.command(&["GET", "pannier:environment"])
}

#[tokio::test]
async fn everything_arrives_as_it_was_and_the_source_stays() {
    let (old, sidecar) = source().await;
    let new = Valkey::start(ValkeyOptions::default());
    // One that is not ours.
    old.command::<()>(&["SET", "elsewhere", "x"]);
    let told = done(&from(&old, &sidecar), &["--to", &new.url()]);
    let here = lasting(&old);
    assert!(here.len() > 150, "{}", here.len());
    assert_eq!(keys(&new, "pannier:test:*"), here);
    assert_eq!(told["keys"], here.len());
    assert_eq!(told["copied"], here.len());
    assert_eq!(told["rewritten"], 0);
    assert_eq!(told["digest"].as_str().unwrap().len(), 64);
    assert_eq!(environment(&old), environment(&new));
    assert_eq!(new.keys("elsewhere").len(), 0);
    let mut ending = 0;
    for key in &here {
        let at = |valkey: &Valkey| -> i64 {
            redis::cmd("PEXPIRETIME").arg(key).query(&mut valkey.connection()).unwrap()
        };
        assert_eq!(at(&old), at(&new), "{}", String::from_utf8_lossy(key));
        ending += u32::from(at(&new) > 0);
    }
    assert!(ending >= 20, "claims and conversations have a time to live: {ending}");
    let sidecar = served(&sidecar, new.url(), &[]).await;
    still_there(&sidecar, true).await;
}

#[tokio::test]
async fn a_second_run_is_refused_and_changes_nothing() {
    let (old, sidecar) = source().await;
    let new = Valkey::start(ValkeyOptions::default());
    let flags = from(&old, &sidecar);
    done(&flags, &["--to", &new.url()]);
    let said = refused(&flags, &["--to", &new.url()], 1);
    assert!(said.contains("already"), "{said}");
    // Nor does another database go over it.
    let (other, other_sidecar) = source().await;
    let before = keys(&new, "*");
    let said = refused(&from(&other, &other_sidecar), &["--to", &new.url()], 1);
    assert!(said.contains("give an empty one"), "{said}");
    assert_eq!(keys(&new, "*"), before);
}

#[tokio::test]
async fn what_was_killed_goes_on_and_is_never_used_before() {
    let (old, sidecar) = source().await;
    let new = Valkey::start(ValkeyOptions::default());
    // Enough that it takes a while.
    let mut fill = redis::pipe();
    for number in 0..60_000 {
        fill.cmd("SET").arg(format!("pannier:test:{{filler-{number}}}:x")).arg(number).ignore();
    }
    fill.query::<()>(&mut old.connection()).unwrap();
    let flags = from(&old, &sidecar);
    let mut child = Command::new(BINARY)
        .args(&flags)
        .args(["--to", &new.url()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while new.command::<u64>(&["DBSIZE"]) < 5_000 {
        assert!(
            std::time::Instant::now() < until && child.try_wait().unwrap().is_none(),
            "it must be in the middle"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let there = environment(&new).unwrap();
    assert!(there.starts_with("migrating/test/"), "{there}");
    assert!(new.command::<u64>(&["DBSIZE"]) < 60_000, "it was over already");
    // Nobody takes it for a database, with or without --init.
    let keyring = sidecar.keyring();
    let socket = sidecar.dir.path().join("other.sock");
    for init in [&[][..], &["--init"]] {
        let mut args =
            vec!["serve", "--env", "test", "--keyring", path_str(&keyring), "--socket", path_str(&socket)];
        let url = new.url();
        args.extend(["--valkey-url", &url]);
        args.extend(init);
        let output = pannier(&args);
        assert_eq!(output.status.code(), Some(78));
        assert!(
            String::from_utf8_lossy(&output.stderr)
                .contains("a migration into this database is not finished")
        );
    }
    // What the first run has carried and the source has changed or lost since.
    let moved = new.keys("pannier:test:{filler-*");
    old.command::<()>(&["SET", &moved[0], "changed"]);
    old.command::<()>(&["DEL", &moved[1]]);
    let told = done(&flags, &["--to", &new.url()]);
    assert!(told["already_there"].as_u64().unwrap() >= 4_000, "{told}");
    assert_eq!(new.command::<String>(&["GET", &moved[0]]), "changed");
    assert_eq!(new.command::<u64>(&["EXISTS", &moved[1]]), 0);
    assert_eq!(environment(&old), environment(&new));
    let sidecar = served(&sidecar, new.url(), &[]).await;
    still_there(&sidecar, true).await;
}

#[tokio::test]
async fn to_a_cluster_every_key_goes_to_its_node() {
    let (old, sidecar) = source().await;
    let cluster = Cluster::start(3, 0);
    let told = done(&from(&old, &sidecar), &["--to", &cluster.url(), "--to-cluster"]);
    let on_nodes: Vec<usize> = cluster.nodes.iter().map(|node| keys(node, "pannier:test:*").len()).collect();
    assert!(on_nodes.iter().all(|count| *count > 20), "{on_nodes:?}");
    assert_eq!(told["keys"], on_nodes.iter().sum::<usize>());
    let sidecar = served(&sidecar, cluster.url(), &["--cluster"]).await;
    still_there(&sidecar, true).await;
}

#[tokio::test]
async fn to_an_older_server_it_is_written_anew() {
    let Some(redis) = support::valkey::other_server("redis") else { return };
    let Some(wheel) = support::valkey::other_server("wheel") else { return };
    let old = Valkey::start(ValkeyOptions { server: Some(wheel), ..ValkeyOptions::default() });
    let mut sidecar = Sidecar::start(Options::with(&old)).await;
    use_everything(&sidecar).await;
    assert!(sidecar.stop().await.success());
    let new = Valkey::start(ValkeyOptions { server: Some(redis), ..ValkeyOptions::default() });
    let told = done(&from(&old, &sidecar), &["--to", &new.url()]);
    assert_eq!(told["rewritten"], told["keys"], "a dump of Valkey 9 means nothing to Redis 7: {told}");
    let sidecar = served(&sidecar, new.url(), &[]).await;
    still_there(&sidecar, true).await;
}

#[tokio::test]
async fn an_embedded_database_moves_out() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    use_everything(&sidecar).await;
    let new = Valkey::start(ValkeyOptions::default());
    let (data, socket) = (sidecar.data_dir(), sidecar.socket.clone());
    let flags = ["migrate", "--data-dir", path_str(&data), "--socket", path_str(&socket), "--env", "dev"]
        .map(str::to_owned);
    // Its sidecar holds the data directory.
    let said = refused(&flags, &["--to", &new.url()], 78);
    assert!(said.contains("in use") || said.contains("lock") || said.contains("uses"), "{said}");
    assert_eq!(new.keys("*").len(), 0);
    assert!(sidecar.stop().await.success());
    let told = done(&flags, &["--to", &new.url()]);
    assert_eq!(told["environment"], "dev");
    assert!(sidecar.embedded_socket().is_none(), "the server that it started is gone");
    let options = Options {
        valkey_url: Some(new.url()),
        env: Some("dev".into()),
        no_init: true,
        dir: Some(sidecar.dir.clone()),
        ..Options::default()
    };
    let moved = Sidecar::start(options).await;
    still_there(&moved, true).await;
}

#[tokio::test]
async fn it_is_refused_where_it_would_do_harm() {
    let (old, mut sidecar) = support::start().await;
    Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap().close().await;
    let new = Valkey::start(ValkeyOptions::default());
    let flags = from(&old, &sidecar);
    let said = refused(&flags, &["--to", &new.url()], 1);
    assert!(said.contains("a sidecar runs on it") && said.contains("pannier stop"), "{said}");
    assert!(sidecar.stop().await.success());

    let said = refused(&flags, &["--to", "valkey://u:secret@127.0.0.1:1"], 78);
    assert!(said.contains("--to-url-file") && !said.contains("secret"), "{said}");
    refused(&flags, &["--to", "valkey://127.0.0.1:1"], 69);
    refused(&flags, &[], 64);

    new.command::<()>(&["SET", "pannier:other:meta", "x"]);
    let said = refused(&flags, &["--to", &new.url()], 1);
    assert!(said.contains("empty it first"), "{said}");
    new.command::<()>(&["DEL", "pannier:other:meta"]);

    new.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    new.command::<()>(&["CONFIG", "SET", "maxmemory", "100mb"]);
    let said = refused(&flags, &["--to", &new.url()], 1);
    assert!(said.contains("allkeys-lru"), "{said}");
    new.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);

    new.command::<()>(&["SET", "pannier:environment", "migrating/test/0123"]);
    let said = refused(&flags, &["--to", &new.url()], 1);
    assert!(said.contains("another migration"), "{said}");
    new.command::<()>(&["DEL", "pannier:environment"]);
    assert_eq!(new.keys("*").len(), 0, "nothing was written");

    let wrong: Vec<String> =
        flags.iter().map(|word| if word == "test" { "prod".into() } else { word.clone() }).collect();
    let said = refused(&wrong, &["--to", &new.url()], 1);
    assert!(said.contains("belongs to environment \"test\""), "{said}");
}

#[tokio::test]
async fn a_password_of_the_target_comes_from_a_file() {
    let (old, mut sidecar) = support::start().await;
    Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap().close().await;
    assert!(sidecar.stop().await.success());
    let new = Valkey::start(ValkeyOptions::default());
    new.command::<()>(&["CONFIG", "SET", "requirepass", "s3cret"]);
    let flags = from(&old, &sidecar);
    let said = refused(&flags, &["--to", &new.url()], 78);
    assert!(said.contains("password"), "{said}");
    let file = sidecar.dir.path().join("password");
    std::fs::write(&file, "s3cret\n").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let told = done(&flags, &["--to", &new.url(), "--to-password-file", path_str(&file)]);
    assert!(told["keys"].as_u64().unwrap() > 64, "{told}");
}
