//! The command line: exit codes, stdout for data only, and nothing destroyed without a word.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::fs;

use support::{Options, Sidecar, pannier, path_str, short_temp_dir};

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn help_has_examples_and_usage_errors_exit_with_64() {
    for arguments in [&["--help"][..], &["serve", "--help"], &["sessions", "--help"], &["keys", "--help"]] {
        let output = pannier(arguments);
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("Examples:"), "{arguments:?}");
        assert!(!output.stdout.contains(&0x1b), "no colours without a terminal");
    }
    for arguments in [&["nonsense"][..], &[], &["sessions", "delete"], &["serve", "--valkey-url"]] {
        let output = pannier(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(output.stdout.is_empty(), "stdout is data only");
    }
}

#[test]
fn without_a_sidecar_the_error_names_both_default_sockets() {
    let dir = short_temp_dir();
    let output = support::pannier_env(&["sessions", "list"], &[("XDG_RUNTIME_DIR", path_str(dir.path()))]);
    assert_eq!(output.status.code(), Some(69));
    let text = stderr(&output);
    assert!(text.contains(&format!("{}/pannier/pannier.sock", dir.path().display())), "{text}");
    assert!(text.contains("/tmp/pannier-") && text.contains("pannier serve"), "{text}");

    let missing = dir.path().join("missing.sock");
    for command in [&["healthcheck"][..], &["sessions", "list"]] {
        let output = pannier(&[command, &["--address", path_str(&missing)]].concat());
        assert_eq!(output.status.code(), Some(69));
        assert!(stderr(&output).contains("missing.sock"));
    }
    assert_eq!(pannier(&["healthcheck", "--address", "localhost"]).status.code(), Some(64));
}

#[test]
fn a_keyring_is_made_once_and_its_secrets_are_never_shown() {
    let dir = short_temp_dir();
    let file = dir.path().join("new/keyring.toml");
    let keyring = ["--keyring", path_str(&file)];
    assert!(pannier(&[&["keys", "init"], &keyring[..]].concat()).status.success());
    let first = fs::read_to_string(&file).unwrap();
    let again = pannier(&[&["keys", "init"], &keyring[..]].concat());
    assert_eq!(again.status.code(), Some(78));
    assert!(stderr(&again).contains("never overwritten"));
    assert_eq!(fs::read_to_string(&file).unwrap(), first);

    assert!(pannier(&[&["keys", "add"], &keyring[..]].concat()).status.success());
    let status = pannier(&[&["keys", "status", "--json"], &keyring[..]].concat());
    let shown: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let keys: Vec<_> =
        shown["keys"].as_array().unwrap().iter().map(|key| (&key["id"], &key["state"])).collect();
    assert_eq!(serde_json::json!(keys), serde_json::json!([[1, "primary"], [2, "decrypt_only"]]));
    let after = fs::read_to_string(&file).unwrap();
    for secret in after.lines().filter(|line| line.contains("secret") || line.contains("index_key")) {
        let secret = secret.split('"').nth(1).unwrap();
        assert!(!String::from_utf8_lossy(&status.stdout).contains(secret));
    }

    // Beside data that another keyring sealed a new one would only hide the loss.
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("store-id"), "x").unwrap();
    let refused = pannier(&["keys", "init", "--data-dir", path_str(&data)]);
    assert_eq!(refused.status.code(), Some(78));
    assert!(stderr(&refused).contains("backup") && !data.join("keyring.toml").exists());
}

#[test]
fn completions_know_the_flags_of_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let output = pannier(&["completions", shell]);
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("drain-delay"), "{shell}");
    }
}

#[tokio::test]
async fn stop_ends_the_sidecar_or_the_valkey_it_left_behind() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let address = sidecar.address();
    let data = sidecar.data_dir();
    let stop = ["stop", "--address", &address, "--data-dir", path_str(&data)];
    assert!(pannier(&stop).status.success());
    assert!(sidecar.wait_exit(std::time::Duration::from_secs(5)).await.success());
    let nothing = pannier(&stop);
    assert!(nothing.status.success() && stderr(&nothing).contains("nothing was running"));

    sidecar.restart().await;
    let orphan = sidecar.embedded_pid();
    sidecar.kill9();
    let ended = pannier(&stop);
    assert!(ended.status.success() && stderr(&ended).contains("left behind"), "{}", stderr(&ended));
    assert!(!support::is_alive(orphan));
}
