//! Configuration: what wins, what is refused and how, and that no secret is shown.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::{collections::HashMap, fs, path::Path};

use pannier::config::{Config, ConfigError, Flags, SETTINGS, reference};
use secrecy::ExposeSecret as _;
use support::{Options, Sidecar, Valkey, ValkeyOptions, pannier, pannier_env, path_str, short_temp_dir};

fn load(flags: &[(&str, &str)], environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let mut variables: HashMap<&str, &str> = HashMap::from([("HOME", "/home/me")]);
    variables.extend(environment.iter().copied());
    let flags = Flags::from_pairs(flags.iter().copied());
    Config::load(&flags, &|name| variables.get(name).map(|value| (*value).to_owned()))
}

fn refused(flags: &[(&str, &str)], environment: &[(&str, &str)]) -> String {
    load(flags, environment).map(|_| ()).expect_err("must be refused").0
}

fn value(config: &Config, name: &str) -> (String, String) {
    let shown = config.shown.iter().find(|shown| shown.name == name).unwrap();
    (shown.value.clone(), shown.origin.clone())
}

#[test]
fn a_flag_beats_the_environment_and_that_the_file() {
    let dir = short_temp_dir();
    let file = dir.path().join("pannier.toml");
    fs::write(&file, "drain-delay = \"1s\"\nenv = \"file\"\nallow-uid = [7, 8]\nsocket-mode = \"0666\"\n")
        .unwrap();
    let file = path_str(&file);

    let from_file = load(&[("config", file)], &[]).unwrap();
    assert_eq!(value(&from_file, "drain-delay"), ("1s".into(), format!("file {file}")));
    assert_eq!(from_file.socket.allow_uids, [7, 8]);
    assert_eq!(from_file.env, "file");

    let environment = [("PANNIER_CONFIG", file), ("PANNIER_DRAIN_DELAY", "2s")];
    let from_environment = load(&[], &environment).unwrap();
    assert_eq!(value(&from_environment, "drain-delay"), ("2s".into(), "PANNIER_DRAIN_DELAY".into()));

    let from_flag = load(&[("drain-delay", "3s")], &environment).unwrap();
    assert_eq!(value(&from_flag, "drain-delay"), ("3s".into(), "flag".into()));
    assert_eq!(from_flag.drain_delay.as_secs(), 3);
    assert_eq!(value(&from_flag, "log-level"), ("info".into(), "default".into()));
}

#[test]
fn an_empty_variable_is_not_set_and_strange_ones_are_not_read() {
    // Kubernetes sets PANNIER_PORT and the like for a service of that name.
    let config = load(&[], &[("PANNIER_ENV", ""), ("PANNIER_PORT", "tcp://10.0.0.1:80")]).unwrap();
    assert_eq!(config.env, "dev");
}

#[test]
fn an_unknown_flag_or_key_is_refused_with_the_one_that_was_meant() {
    let output = pannier(&["serve", "--sokcet", "/tmp/x"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--socket"));

    let dir = short_temp_dir();
    let file = dir.path().join("pannier.toml");
    for (text, hint) in [
        ("drian-delay = \"1s\"", "did you mean `drain-delay`?"),
        ("drain_delay = \"1s\"", "did you mean `drain-delay`?"),
        ("[server]\nsocket = \"x\"", "unknown key `server`"),
        ("init = true", "give it as --init"),
        ("env = \"a\"\nsocket = ", "line 2"),
    ] {
        fs::write(&file, text).unwrap();
        let why = refused(&[("config", path_str(&file))], &[]);
        assert!(why.contains(hint), "{why}");
    }
    let why = refused(&[("config", "/nowhere/pannier.toml")], &[]);
    assert!(why.contains("/nowhere/pannier.toml"), "{why}");
}

#[test]
fn a_wrong_value_is_refused_where_it_was_given() {
    for (name, wrong, hint) in [
        ("env", "Prod", "[a-z0-9-]{1,32}"),
        ("drain-delay", "2 weeks", "500ms"),
        ("drain-delay", "16s", "at most 15s"),
        ("socket-mode", "0700", "0600"),
        ("allow-uid", "me", "number of a user"),
        ("embedded-fsync", "never", "everysec"),
        ("embedded-maxmemory", "1MiB", "at least 16MiB"),
        ("commit-buffer", "1MiB", "at least 32MiB"),
        ("worker-threads", "0", "1 to 256"),
        ("max-in-flight", "0", "1 to 1000000"),
        ("max-streams", "many", "a whole number"),
        ("session-in-flight", "1000001", "1 to 1000000"),
        ("memory-budget", "31MiB", "at least 32MiB"),
        ("max-blob", "17GiB", "16GiB"),
        ("bulk-rate", "100KiB", "at least 1MiB"),
        ("durability", "best", "memory, aof, fsync"),
        ("durability", "replicas", "min_durability"),
        ("log-level", "loud", "debug"),
        ("log-format", "xml", "json"),
        ("socket", &format!("/tmp/{}", "x".repeat(100)), "at most 100"),
        ("valkey-server", "/nowhere/valkey-server", "no file"),
        ("socket-group", "0", "--socket-mode"),
        ("allow-uid", "1234", "--socket-mode"),
    ] {
        let why = refused(&[(name, wrong)], &[]);
        assert!(why.contains(hint) && why.contains(&format!("--{name}")), "{name}: {why}");
    }
    let why = refused(&[], &[("PANNIER_DRAIN_DELAY", "x")]);
    assert!(why.starts_with("PANNIER_DRAIN_DELAY:"), "{why}");
}

#[test]
fn a_setting_that_would_have_no_effect_is_refused() {
    let url = ("valkey-url", "valkey://127.0.0.1:6379");
    for name in ["valkey-server", "embedded-fsync", "embedded-maxmemory"] {
        let why = refused(&[url, ("env", "dev"), (name, "x")], &[]);
        assert!(why.contains("embedded Valkey, but a URL"), "{why}");
    }
    for name in ["allow-eviction", "valkey-password-file"] {
        let why = refused(&[(name, "true")], &[]);
        assert!(why.contains("give --valkey-url"), "{why}");
    }
    // A private database that was lost is begun anew just as an external one is.
    assert!(load(&[("init", "true")], &[]).unwrap().init);
    let why = refused(&[url], &[]);
    assert!(why.contains("--env prod"), "{why}");
    // An environment may be shared with another use.
    let config = load(&[url, ("env", "dev")], &[("PANNIER_VALKEY_SERVER", "/nowhere")]).unwrap();
    assert!(value(&config, "valkey-server").1.contains("without effect"));
}

#[test]
fn a_password_never_comes_as_a_flag_and_never_goes_out() {
    const SECRET: &str = "canary-s3cret";
    let url = format!("valkey://bot:{SECRET}@db.example:6379/0");
    let why = refused(&[("valkey-url", &url), ("env", "prod")], &[]);
    assert!(why.contains("--valkey-url-file") && !why.contains(SECRET), "{why}");

    let config = load(&[("env", "prod")], &[("PANNIER_VALKEY_URL", &url)]).unwrap();
    assert_eq!(value(&config, "valkey-url").0, "valkey://bot:***@db.example:6379/0");
    assert!(!format!("{config:?}").contains(SECRET));

    // Whitespace at the end of a mounted secret is not part of it.
    let dir = short_temp_dir();
    let (url_file, password_file) = (dir.path().join("url"), dir.path().join("password"));
    fs::write(&url_file, format!("{url}\n")).unwrap();
    fs::write(&password_file, format!("{SECRET}\n")).unwrap();
    let config = load(&[("env", "prod"), ("valkey-url-file", path_str(&url_file))], &[]).unwrap();
    let pannier::config::Valkey::Url(pannier::config::External { url: read, .. }) = &config.valkey else {
        panic!("not a URL")
    };
    assert_eq!(read.expose_secret(), url);
    assert!(!format!("{:?}", config.shown).contains(SECRET));
    let flags = [
        ("env", "prod"),
        ("valkey-url", "valkey://db.example"),
        ("valkey-password-file", path_str(&password_file)),
    ];
    let config = load(&flags, &[]).unwrap();
    let pannier::config::Valkey::Url(pannier::config::External { password, .. }) = &config.valkey else {
        panic!("not a URL")
    };
    assert_eq!(password.as_ref().unwrap().expose_secret(), SECRET);

    // In a file that others can read it is no secret.
    let file = dir.path().join("pannier.toml");
    fs::write(&file, format!("env = \"prod\"\nvalkey-url = \"{url}\"")).unwrap();
    set_mode(&file, 0o644);
    let why = refused(&[("config", path_str(&file))], &[]);
    assert!(why.contains("chmod 600") && !why.contains(SECRET), "{why}");
    set_mode(&file, 0o600);
    load(&[("config", path_str(&file))], &[]).unwrap();

    // Errors about a URL do not quote it, nor does the reader of the file.
    let why = refused(&[("env", "prod")], &[("PANNIER_VALKEY_URL", &url.replace("valkey:", "valky:"))]);
    assert!(why.contains("did you mean `valkey://`") && !why.contains(SECRET), "{why}");
    fs::write(&file, format!("valkey-url = \"{url}\nenv = 1")).unwrap();
    let why = refused(&[("config", path_str(&file))], &[]);
    assert!(!why.contains(SECRET), "{why}");
}

#[test]
fn two_places_of_the_same_rank_for_the_url_are_refused() {
    let dir = short_temp_dir();
    let file = dir.path().join("url");
    fs::write(&file, "valkey://from-file").unwrap();
    let both = [("PANNIER_VALKEY_URL", "valkey://from-env"), ("PANNIER_VALKEY_URL_FILE", path_str(&file))];
    assert!(refused(&[("env", "a")], &both).contains("keep one"));
    let config = load(&[("env", "a"), ("valkey-url-file", path_str(&file))], &both[..1]).unwrap();
    let pannier::config::Valkey::Url(pannier::config::External { url, .. }) = &config.valkey else {
        panic!("not a URL")
    };
    assert_eq!(url.expose_secret(), "valkey://from-file", "a flag beats the environment");
}

#[test]
fn check_config_and_config_show_say_the_same_and_start_nothing() {
    let dir = short_temp_dir();
    let socket = dir.path().join("s/pannier.sock");
    let flags = ["--socket", path_str(&socket), "--data-dir", path_str(dir.path())];
    let checked = pannier(&[&["serve", "--check-config"], &flags[..]].concat());
    let shown = pannier(&[&["config", "show"], &flags[..]].concat());
    assert!(checked.status.success() && shown.status.success());
    assert_eq!(checked.stdout, shown.stdout);
    assert!(!socket.parent().unwrap().exists() && !dir.path().join("keyring.toml").exists());

    let json =
        pannier_env(&[&["config", "show", "--json"], &flags[..]].concat(), &[("PANNIER_LOG_LEVEL", "warn")]);
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(rows.len(), SETTINGS.len());
    let level = rows.iter().find(|row| row["name"] == "log-level").unwrap();
    assert_eq!(
        (level["value"].as_str(), level["origin"].as_str()),
        (Some("warn"), Some("PANNIER_LOG_LEVEL"))
    );

    let wrong = pannier(&["serve", "--check-config", "--drain-delay", "x"]);
    assert_eq!(wrong.status.code(), Some(78));
}

/// dapr#1868, inngest#2297: a wrong password is one clear line, and no secret is in any log, at TRACE neither.
#[tokio::test]
async fn a_wrong_password_is_named_with_its_host_and_no_secret_is_logged() {
    const RIGHT: &str = "canary-right-9f3";
    const WRONG: &str = "canary-wrong-7c1";
    let valkey =
        Valkey::start(ValkeyOptions { tcp: true, ..ValkeyOptions::default() }.set("requirepass", RIGHT));
    let with = |password: &str| Options {
        valkey_url: None,
        args: ["--env", "test", "--init", "--log-level", "trace"].map(Into::into).into(),
        envs: vec![("PANNIER_VALKEY_URL".into(), format!("valkey://:{password}@127.0.0.1:{}", valkey.port))],
        no_wait: true,
        ..Options::default()
    };
    let dir = short_temp_dir();
    let keyring = dir.path().join("data/keyring.toml");
    assert!(pannier(&["keys", "init", "--keyring", path_str(&keyring)]).status.success());

    let mut wrong = Sidecar::start(Options { dir: Some(dir.clone()), ..with(WRONG) }).await;
    wrong.wait_status(support::ServingStatus::NotServing, std::time::Duration::from_secs(10)).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let logs = wrong.logs();
    let port = valkey.port.to_string();
    assert!(logs.lines().any(|line| line.contains("WRONGPASS") && line.contains(&port)), "{logs}");
    drop(wrong);

    let mut right = Sidecar::start(Options { dir: Some(dir.clone()), ..with(RIGHT) }).await;
    right.wait_serving(std::time::Duration::from_secs(10)).await;
    let keyring = fs::read_to_string(&keyring).unwrap();
    let secret = keyring.lines().find(|line| line.contains("secret")).unwrap().split('"').nth(1).unwrap();
    for line in right.logs().lines() {
        for canary in [RIGHT, WRONG, secret] {
            assert!(!line.contains(canary), "{line}");
        }
    }
    right.stop().await;
}

#[test]
fn the_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    if std::env::var_os("PANNIER_UPDATE_DOCS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, reference()).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap_or_default() == reference(), "run `make docs`");
}

#[test]
fn every_reason_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let documented = fs::read_to_string(root.join("docs/errors.md")).unwrap();
    let source = fs::read_to_string(root.join("src/error.rs")).unwrap();
    let reasons: Vec<&str> = source
        .lines()
        .filter(|line| line.contains("=> (\""))
        .filter_map(|line| line.split('"').nth(1))
        .collect();
    assert!(reasons.len() > 20);
    for reason in reasons {
        assert!(documented.contains(&format!("`{reason}`")), "docs/errors.md lacks {reason}");
    }
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
