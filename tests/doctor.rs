//! `pannier doctor`: each thing that can be wrong is found, named, and has a next command; nothing is changed by looking; no secret
//! is told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "doctor/files.rs"]
mod files;
#[path = "doctor/keyring.rs"]
mod keyring;
mod support;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    doctor::{Home, snapshot},
    pannier, path_str,
};

/// A Valkey that a sidecar has taken into use and left, and the home of that sidecar.
async fn in_use(options: ValkeyOptions) -> (Valkey, Home) {
    let valkey = Valkey::start(options);
    let home = Home::of(&valkey);
    let more = ["--keyring", path_str(&home.keyring())].map(Into::into).into();
    let mut sidecar = Sidecar::start(Options { args: more, ..Options::with(&valkey) }).await;
    support::unary::Unary::of(&sidecar)
        .client
        .list_sessions(pannier::proto::v1::ListSessionsRequest::default())
        .await
        .unwrap();
    sidecar.conversations().advance(support::small::step("chat", "a namespace is made")).await.unwrap();
    assert!(sidecar.stop().await.success());
    (valkey, home)
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn with_all_well_every_check_is_told_and_nothing_is_written() {
    let (valkey, home) = in_use(ValkeyOptions::default().set("maxmemory", "200mb")).await;
    let size: i64 = valkey.command(&["DBSIZE"]);
    let writes = |valkey: &Valkey| {
        let stats: String = valkey.command(&["INFO", "persistence"]);
        stats.lines().find(|line| line.starts_with("rdb_changes_since_last_save")).unwrap().to_owned()
    };
    let before = writes(&valkey);
    let told = home.doctor(&[]);
    assert_eq!((told.exit, told.count("fail"), told.count("warn")), (0, 0, 0), "{}", told.text);
    for (section, check, found) in [
        ("configuration", "settings", "given"),
        ("keyring", "file", "mode 0600"),
        ("keyring", "keys", "primary 1"),
        ("keyring", "backup", "cannot be seen"),
        ("socket", "place", "is free"),
        ("valkey", "role", "primary"),
        ("valkey", "replicas", "0 connected"),
        ("valkey", "version", "."),
        ("valkey", "eviction", "noeviction"),
        ("valkey", "persistence", "appendfsync always"),
        ("valkey", "memory", "of 200 MiB"),
        ("valkey", "clock", "ms apart"),
        ("valkey", "database", "environment test, store "),
        ("valkey", "keyring", "canaries"),
        ("valkey", "expiry", "none among"),
        ("valkey", "durability", "`fsync`"),
    ] {
        told.says(section, check, "ok", found, "");
    }
    assert_eq!(valkey.command::<i64>(&["DBSIZE"]), size);
    assert_eq!(writes(&valkey), before, "looking wrote something");
}

#[tokio::test]
async fn in_a_fresh_home_there_is_nothing_to_fear_and_nothing_is_made() {
    let home = Home::bare(&[]);
    let told = home.doctor(&[]);
    assert_eq!((told.exit, told.count("fail")), (0, 0), "{}", told.text);
    told.says("keyring", "file", "ok", "the first start makes it", "");
    told.says("socket", "directory", "ok", "the start makes it", "");
    told.says("data directory", "directory", "ok", "the first start makes it", "");
    told.says("data directory", "server", "ok", "valkey-server", "");
    told.says("data directory", "disk", "ok", "MiB free", "");
    told.says("valkey", "server", "unknown", "does not run", "pannier serve");
    assert_eq!(fs::read_dir(home.dir.path()).unwrap().count(), 0, "something was made");
}

#[tokio::test]
async fn a_running_embedded_sidecar_is_looked_at_from_outside_and_asked() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let (socket, data) = (path_str(&sidecar.socket).to_owned(), path_str(&sidecar.data_dir()).to_owned());
    let flags = ["doctor", "--socket", &socket, "--data-dir", &data, "--json"];
    let files = |dir: &Path| snapshot(dir).into_keys().collect::<Vec<_>>();
    let before = files(sidecar.dir.path());
    let run = |more: &[&str]| {
        let output = pannier(&[&flags[..], more].concat());
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let exit = output.status.code().unwrap();
        support::doctor::Told {
            exit,
            text: format!("{json:#}\n{}", String::from_utf8_lossy(&output.stderr)),
            json,
        }
    };
    let told = run(&[]);
    assert_eq!((told.exit, told.count("fail")), (0, 0), "{}", told.text);
    told.says("socket", "place", "ok", "a sidecar listens on", "");
    told.says("data directory", "lock", "ok", "a sidecar uses it", "");
    told.says("data directory", "database", "ok", "store ", "");
    told.says("data directory", "fsync", "ok", "µs", "");
    told.says("valkey", "database", "ok", "environment dev", "");
    told.says("valkey", "keyring", "ok", "canaries", "");
    told.says("valkey", "durability", "ok", "`fsync`", "");
    assert_eq!(files(sidecar.dir.path()), before);

    let told = run(&["--live"]);
    assert_eq!((told.exit, told.count("fail")), (0, 0), "{}", told.text);
    told.says("sidecar", "ready", "ok", "calls are served", "");
    told.says("keyring", "file", "ok", "as it is in use", "");
    told.says("valkey", "eviction", "ok", "noeviction", "");
    // Changed under it: the file, and a setting of Valkey, which it looks at again by itself.
    assert!(pannier(&["keys", "add", "--keyring", path_str(&sidecar.keyring())]).status.success());
    let told = run(&["--live"]);
    told.says("keyring", "file", "warn", "not in use yet", "SIGHUP");
    assert_eq!(told.exit, 0);

    assert!(sidecar.stop().await.success());
    let told = run(&["--live"]);
    assert!(told.exit == 69 && told.text.contains("no sidecar"), "{}", told.text);
    let told = run(&[]);
    assert_eq!(told.exit, 0, "{}", told.text);
    told.says("data directory", "lock", "ok", "no sidecar uses it", "");
}

#[tokio::test]
async fn what_is_wrong_with_the_configuration_is_told_like_everything_else() {
    let home = Home::bare(&[]);
    let told = home.doctor(&["--drain-delay", "forever"]);
    assert_eq!(told.exit, 78);
    told.says("configuration", "settings", "fail", "--drain-delay", "run doctor again");
    let told = home.doctor(&["--valkey-url", "valkey://:canary-9@127.0.0.1:1", "--env", "test"]);
    assert_eq!(told.exit, 78);
    assert!(!told.text.contains("canary-9"), "{}", told.text);
    let unknown = pannier(&["doctor", "--drain-dealy", "1s"]);
    assert_eq!(unknown.status.code(), Some(64));
    let mut home = Home::bare(&[]);
    home.envs.push(("PANNIER_ALLOW_EVICTION".into(), "true".into()));
    let told = home.doctor(&[]);
    assert_eq!(told.exit, 0);
    told.says("configuration", "settings", "ok", "PANNIER_ALLOW_EVICTION, without effect here", "");
}

/// dapr#1868: a wrong password is named for what it is, and not repeated.
#[tokio::test]
async fn a_valkey_that_is_away_and_one_that_lets_us_not_in_are_two_things() {
    let mut valkey = Valkey::start(
        ValkeyOptions { tcp: true, ..ValkeyOptions::default() }.set("requirepass", "canary-right-1"),
    );
    let mut home = Home::bare(&["--env", "test"]);
    assert!(pannier(&["keys", "init", "--keyring", path_str(&home.keyring())]).status.success());
    let url = |password: &str| format!("valkey://:{password}@127.0.0.1:{}", valkey.port);
    home.envs = vec![("PANNIER_VALKEY_URL".into(), url("canary-wrong-1"))];
    let told = home.doctor(&[]);
    assert_eq!(told.exit, 78, "{}", told.text);
    told.says("valkey", "access", "fail", "refused", "password");
    assert!(told.line("valkey", "access").1.contains(&valkey.port.to_string()));
    let right = url("canary-right-1");
    home.envs = vec![("PANNIER_VALKEY_URL".into(), right)];
    let empty = home.doctor(&[]);
    assert_eq!(empty.exit, 78);
    empty.says("valkey", "database", "fail", "empty", "--init");
    let told = home.doctor(&["--init"]);
    assert_eq!(told.exit, 0, "{}", told.text);
    told.says("valkey", "database", "ok", "--init takes it into use", "");
    valkey.kill9();
    let away = home.doctor(&[]);
    assert_eq!(away.exit, 69, "{}", away.text);
    away.says("valkey", "connection", "fail", "127.0.0.1", "ping");
    for told in [told, empty, away] {
        assert!(!told.text.contains("canary"), "{}", told.text);
        assert!(!told.json.to_string().contains("canary"));
    }
}

/// bullmq#2737, sidekiq#5562: eviction. phpredis#609, sccache#598, redis_exporter#597, bullmq#2215, #921: CONFIG and INFO forbidden.
#[tokio::test]
async fn settings_of_valkey_that_lose_data_are_named_and_those_hidden_are_unknown() {
    let (valkey, home) = in_use(ValkeyOptions::default().set("enable-protected-configs", "yes")).await;
    let set = |name: &str, value: &str| -> () { valkey.command(&["CONFIG", "SET", name, value]) };
    set("maxmemory-policy", "allkeys-lru");
    let told = home.doctor(&[]);
    assert_eq!(told.exit, 78);
    told.says("valkey", "eviction", "fail", "allkeys-lru", "noeviction");
    let told = home.doctor(&["--allow-eviction"]);
    assert_eq!(told.exit, 0, "{}", told.text);
    told.says("valkey", "eviction", "warn", "allowed by --allow-eviction", "noeviction");
    set("maxmemory-policy", "volatile-lru");
    home.doctor(&[]).says("valkey", "eviction", "warn", "volatile-lru", "noeviction");
    set("maxmemory-policy", "noeviction");

    // redis#13793: what an acknowledged write is worth.
    for (appendonly, fsync, worth, level, found) in [
        ("yes", "everysec", "`aof`", "ok", "appendfsync everysec"),
        ("no", "everysec", "`memory`", "warn", "OFF"),
        ("yes", "always", "`fsync`", "ok", "appendfsync always"),
    ] {
        set("appendonly", appendonly);
        set("appendfsync", fsync);
        let told = home.doctor(&[]);
        assert_eq!(told.exit, 0, "{}", told.text);
        told.says("valkey", "persistence", level, found, "");
        told.says("valkey", "durability", "ok", worth, "");
        let told = home.doctor(&["--durability", "fsync"]);
        let (exit, level) = if worth == "`fsync`" { (0, "ok") } else { (78, "fail") };
        assert_eq!(told.exit, exit, "{}", told.text);
        told.says("valkey", "durability", level, worth, "");
    }
    set("maxmemory", "1mb");
    home.doctor(&[]).says("valkey", "memory", "warn", "of 1 MiB", "raise maxmemory");
    set("maxmemory", "0");
    home.doctor(&[]).says("valkey", "memory", "warn", "no maxmemory", "set maxmemory");
    // A snapshot that failed: there is no directory for it.
    let gone = valkey.dir.path().join("gone");
    fs::create_dir(&gone).unwrap();
    set("dir", path_str(&gone));
    fs::remove_dir(&gone).unwrap();
    // It is refused for as long as the AOF is being rewritten.
    let failed = || valkey.command::<String>(&["INFO", "persistence"]).contains("rdb_last_bgsave_status:err");
    for _ in 0..100 {
        if failed() {
            break;
        }
        let _: redis::RedisResult<String> = redis::cmd("BGSAVE").query(&mut valkey.connection());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(failed(), "{}", valkey.log());
    home.doctor(&[]).says("valkey", "last snapshot", "warn", "err", "disk");

    let as_user = |name: &str, rules: &[&str]| {
        let mut words = vec!["ACL", "SETUSER", name, "on", ">secret", "~pannier:*", "&pannier:*", "+@all"];
        words.extend(rules);
        let _: () = valkey.command(&words);
        let url = format!("{}?user={name}&pass=secret", valkey.url());
        Home {
            dir: home.dir.clone(),
            args: vec!["--env".into(), "test".into()],
            envs: vec![("PANNIER_VALKEY_URL".into(), url)],
        }
    };
    let told = as_user("no-config", &["-config"]).doctor(&[]);
    assert_eq!(told.exit, 0, "{}", told.text);
    told.says("valkey", "eviction", "ok", "noeviction", "");
    told.says("valkey", "durability", "ok", "at least", "");
    let told = as_user("no-info", &["-config", "-info"]).doctor(&[]);
    assert_eq!(told.exit, 0, "{}", told.text);
    told.says("valkey", "eviction", "unknown", "forbidden", "noeviction");
    told.says("valkey", "persistence", "unknown", "forbidden", "--durability");
    told.says("valkey", "memory", "unknown", "forbidden", "");
    told.says("valkey", "version", "ok", ".", "");
    let told = as_user("no-keys", &["resetkeys", "~other:*"]).doctor(&[]);
    assert_eq!(told.exit, 78);
    told.says("valkey", "database", "fail", "NOPERM", "pannier:*");
}

#[tokio::test]
async fn a_database_that_is_anothers_lost_or_touched_is_named() {
    let (valkey, home) = in_use(ValkeyOptions::default()).await;
    let told = home.doctor(&["--env", "prod"]);
    assert_eq!(told.exit, 78);
    told.says("valkey", "database", "fail", "belongs to environment \"test\"", "--env test");
    let told = home.doctor(&["--init"]);
    assert_eq!(told.exit, 78);
    told.says("valkey", "database", "fail", "in use already", "remove --init");
    // Somebody gave a wrapped key a time to live.
    let key = &valkey.keys("pannier:test:{*}:k")[0];
    let _: i64 = valkey.command(&["EXPIRE", key, "100000"]);
    let told = home.doctor(&[]);
    assert_eq!(told.exit, 78);
    told.says("valkey", "expiry", "fail", "1 of", "PERSIST");
    let _: i64 = valkey.command(&["PERSIST", key]);
    home.doctor(&[]).says("valkey", "expiry", "ok", "none among", "");
    let part = &valkey.keys("pannier:test:idx:session:{17}")[0];
    let _: i64 = valkey.command(&["DEL", part]);
    let told = home.doctor(&[]);
    assert_eq!(told.exit, 78);
    told.says("valkey", "database", "fail", "a part of the database is gone", "backup");
}

/// inngest#2297, ekuiper#1173, rollups-node#485, linkerd2#2383, dapr#2037: secrets where people look when something is wrong.
#[tokio::test]
async fn no_secret_and_no_name_is_in_the_log_at_trace_the_metrics_or_what_doctor_says() {
    const PASSWORD: &str = "canary-pass-5d1e";
    const PHONE: &str = "15557779876";
    let valkey =
        Valkey::start(ValkeyOptions { tcp: true, ..ValkeyOptions::default() }.set("requirepass", PASSWORD));
    let dir = support::short_temp_dir();
    let data = dir.path().join("data");
    let keyring = data.join("keyring.toml");
    assert!(pannier(&["keys", "init", "--keyring", path_str(&keyring)]).status.success());
    let tokens = support::access::TokenFile { path: dir.path().join("tokens.toml") };
    let token = tokens.add("bot", "all");
    let url = format!("valkey://:{PASSWORD}@127.0.0.1:{}", valkey.port);
    let tokens = format!("--token-file={}", tokens.path.display());
    let args = ["--env=test", "--init", "--log-level=trace", "--admin=127.0.0.1:0", "--listen=127.0.0.1:0"];
    let options = Options {
        envs: vec![("PANNIER_VALKEY_URL".into(), url.clone())],
        args: args.into_iter().chain([tokens.as_str()]).map(Into::into).collect(),
        dir: Some(dir.clone()),
        no_wait: true,
        ..Options::default()
    };
    let mut sidecar = Sidecar::start(options).await;
    sidecar.wait_serving(std::time::Duration::from_secs(10)).await;
    // By token and by socket, right and wrong, and with Valkey away.
    let channel = support::access::plain(&sidecar);
    let claim = "/pannier.v1.DedupService/Claim";
    let request = prost::Message::encode_to_vec(&pannier::proto::v1::ClaimRequest {
        namespace: PHONE.into(),
        ..support::small::claim(PHONE)
    });
    for shown in [token.as_str(), "pannier_canaryWrongToken0000000000000000000000"] {
        let _ = support::access::call(&channel, claim, Some(shown), request.clone().into()).await;
    }
    let mut unary = support::unary::Unary::of(&sidecar);
    unary.get(PHONE, PHONE, &[PHONE]).await.unwrap_err();
    let address = support::admin_http::address(&sidecar);
    let metrics = support::admin_http::get(&address, "/metrics").await.body;
    let run = |more: &[&str]| {
        let flags =
            ["doctor", "--socket", path_str(&sidecar.socket), "--data-dir", path_str(&data), "--env=test"];
        let output = support::pannier_env(
            &[&flags[..], &[&tokens, "--socket-auth=token"], more].concat(),
            &[("PANNIER_VALKEY_URL", &url)],
        );
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("eviction"), "{text}");
        text
    };
    let doctor = run(&[]) + &run(&["--json"]);
    let live = pannier(&["doctor", "--live", "--address", &sidecar.address()]);
    let live = String::from_utf8(live.stdout).unwrap();
    assert!(live.contains("eviction"), "{live}");
    valkey.sigstop();
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    let ready = support::admin_http::get(&address, "/readyz").await.body;
    assert!(ready.contains("not ready"), "{ready}");
    valkey.sigcont();
    let logs = sidecar.logs();
    assert!(logs.contains("\"TRACE\"") || logs.contains("\"DEBUG\""), "everything is logged");
    let secrets = fs::read_to_string(&keyring).unwrap();
    let secrets = secrets.lines().filter_map(|line| line.split('"').nth(1)).filter(|text| text.len() > 30);
    let mut canaries: Vec<&str> = secrets.collect();
    assert_eq!(canaries.len(), 2, "the index key and a key");
    canaries.extend([PASSWORD, &token, "canaryWrongToken", PHONE]);
    for (place, text) in
        [("/metrics", &metrics), ("doctor", &doctor), ("--live", &live), ("/readyz", &ready), ("log", &logs)]
    {
        for canary in &canaries {
            assert!(!text.contains(*canary), "{canary} is in {place}:\n{text}");
        }
    }
}
