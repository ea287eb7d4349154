//! `pannier tokens`, and the other commands over TCP with TLS and a token.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::{fs, os::unix::fs::MetadataExt as _, process::Output};

use support::{
    Options, Sidecar,
    access::{Authority, Files, TokenFile, on_tcp, tcp_address},
    pannier, pannier_env, path_str, short_temp_dir,
};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn refused(output: &Output, code: i32, say: &str) {
    let why = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{why}");
    assert!(why.contains(say), "{why}");
}

#[test]
fn a_token_is_shown_once_and_only_its_hash_is_kept() {
    let dir = short_temp_dir();
    let path = dir.path().join("tokens.toml");
    let run = |arguments: &[&str]| {
        pannier_env(&[&["tokens"], arguments].concat(), &[("PANNIER_TOKEN_FILE", path_str(&path))])
    };
    let made = run(&["add", "bot-1", "--scope", "namespace:bot-1,sessions", "--expires", "90d", "--json"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    let token = made["token"].as_str().unwrap();
    assert!(token.starts_with("pannier_") && token.len() == 51, "{token}");
    assert_eq!(made["scopes"], serde_json::json!(["namespace:bot-1", "session"]));

    let second = run(&["add", "ops", "--scope", "all", "--scope", "admin"]);
    let shown = text(&second.stdout);
    assert!(shown.trim().starts_with("pannier_") && shown.lines().count() == 1, "{shown}");
    let file = fs::read_to_string(&path).unwrap();
    assert!(!file.contains(token) && !file.contains(shown.trim()));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);

    let listed = run(&["list", "--json"]);
    let tokens: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(tokens.as_array().unwrap().len(), 2);
    assert_eq!((&tokens[0]["name"], &tokens[0]["expired"]), (&"bot-1".into(), &false.into()));
    assert!(!text(&listed.stdout).contains("sha256"));
    let table = text(&run(&["list"]).stdout);
    assert!(table.contains("NAME") && table.contains("all, admin"), "{table}");

    refused(&run(&["add", "ops", "--scope", "all"]), 78, "there is a token `ops`");
    refused(&run(&["add", "x", "--scope", "shedule"]), 64, "did you mean `schedule`?");
    refused(&run(&["add", "x y", "--scope", "all"]), 64, "a name has");
    refused(&run(&["add", "x"]), 64, "--scope");
    refused(&run(&["add", "x", "--scope", "all", "--expires", "2020-01-01T00:00:00Z"]), 64, "to come");
    refused(&run(&["add", "x", "--scope", "all", "--expires", "soon"]), 64, "90d");
    refused(&run(&["remove", "nobody"]), 1, "no token `nobody`");
    refused(&pannier(&["tokens", "list"]), 64, "--token-file");
    assert_eq!(fs::read_to_string(&path).unwrap(), file, "what is refused writes nothing");

    assert!(run(&["remove", "bot-1"]).status.success());
    let left = fs::read_to_string(&path).unwrap();
    assert!(left.contains("ops") && !left.contains("bot-1"));
}

/// Edits at once come one after the other, and each is kept.
#[test]
fn edits_at_once_lose_none() {
    let dir = short_temp_dir();
    let path = dir.path().join("tokens.toml");
    std::thread::scope(|scope| {
        for n in 0..8 {
            let path = path_str(&path);
            scope.spawn(move || {
                let name = format!("t{n}");
                assert!(
                    pannier(&["tokens", "add", &name, "--scope", "all", "--token-file", path])
                        .status
                        .success()
                );
            });
        }
    });
    assert_eq!(fs::read_to_string(&path).unwrap().matches("[[token]]").count(), 8);
    let others: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(others.len(), 1, "nothing is left beside it: {others:?}");
}

#[tokio::test]
async fn every_command_goes_over_tls_with_a_token() {
    let ca = Authority::new("one");
    let options = Options { dir: Some(short_temp_dir()), ..Options::default() };
    let (files, tokens) = (Files::new(&options), TokenFile::new(&options));
    let leaf = ca.client();
    files.write(&ca.server(), &ca.pem());
    let dir = options.dir.clone().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path_str(&path).to_owned()
    };
    let all = write("all.token", &(tokens.add("all", "all") + "\n"));
    let narrow = write("narrow.token", &tokens.add("narrow", "dedup"));
    let (cert, key, ca_file) =
        (write("c.pem", &leaf.cert), write("c.key", &leaf.key), write("roots.pem", &ca.pem()));
    let mut options =
        options.arg("--listen=127.0.0.1:0").arg(format!("--token-file={}", tokens.path.display()));
    options.args.extend(files.server_args());
    let sidecar = Sidecar::start(options.arg(files.client_ca_arg())).await;
    let address = tcp_address(&sidecar).to_string();
    let env = [
        ("PANNIER_ADDRESS", address.as_str()),
        ("PANNIER_TLS_CA", &ca_file),
        ("PANNIER_TLS_CLIENT_CERT", &cert),
        ("PANNIER_TLS_CLIENT_KEY", &key),
    ];
    let run = |arguments: &[&str]| pannier_env(arguments, &env);
    assert!(run(&["healthcheck"]).status.success(), "needs no token");
    refused(&run(&["sessions", "list"]), 76, "UNAUTHENTICATED");
    refused(&run(&["sessions", "list", "--token-file", &narrow]), 76, "the scope `session`");
    for listing in [
        &["sessions", "list"][..],
        &["blobs", "list"],
        &["queue", "stats"],
        &["conversations", "list"],
        &["caps", "list"],
    ] {
        let output = run(&[listing, &["--json", "--token-file", &all]].concat());
        assert!(output.status.success(), "{listing:?}: {}", text(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    }
    refused(&run(&["sessions", "list", "--token-file", path_str(&tokens.path)]), 78, "hashes");
    refused(&run(&["sessions", "list", "--token-file", "/nowhere"]), 78, "/nowhere");
    refused(&run(&["stop"]), 64, "through its socket");
    refused(&run(&["healthcheck", "--tls-name", "other.test"]), 69, "");
    let without = pannier(&["healthcheck", "--address", &address, "--tls-ca", &ca_file]);
    assert!(!without.status.success(), "a client without a certificate");
    let clear = pannier(&["healthcheck", "--address", &address]);
    assert!(!clear.status.success(), "plaintext");
    let far = pannier(&["healthcheck", "--address", "192.0.2.1:7600", "--token-file", &all]);
    refused(&far, 64, "in clear");
}

/// A token in the place of the file of hashes, or the other way round, is said to be that, and not repeated.
#[test]
fn a_token_given_as_the_file_of_hashes_is_not_repeated() {
    let (options, tokens) = on_tcp();
    let token = tokens.add("one", "all");
    fs::write(&tokens.path, &token).unwrap();
    let output = pannier(
        &[&["serve", "--check-config"], &options.args.iter().map(String::as_str).collect::<Vec<_>>()[..]]
            .concat(),
    );
    refused(&output, 78, "only its hash");
    assert!(!text(&output.stderr).contains(&token));
}
