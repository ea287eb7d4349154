//! `pannier blobs`: what a person does with archives, and what scripts read of it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{fs, os::unix::fs::PermissionsExt as _};

use support::{Options, Sidecar, blob::content, cli::Cli, path_str};

#[tokio::test]
async fn a_file_goes_in_and_comes_out_and_earlier_ones_come_back() {
    let sidecar = Sidecar::start(Options::default()).await;
    let cli = Cli::of(&sidecar, &["blobs"]);
    let (a, b) = (sidecar.dir.path().join("a.zip"), sidecar.dir.path().join("b.zip"));
    let back = sidecar.dir.path().join("back.zip");
    fs::write(&a, content(1, 3 << 20)).unwrap();
    fs::write(&b, content(2, 700_000)).unwrap();
    assert_eq!(cli.json(&["list"]), serde_json::json!([]));

    let saved = cli.json(&["save", "RemoteAuth-bot", path_str(&a)]);
    assert_eq!((saved["outcome"].as_str(), saved["size"].as_u64()), (Some("saved"), Some(3 << 20)));
    let first = saved["generation"].to_string();
    let again = cli.json(&["save", "RemoteAuth-bot", path_str(&a)]);
    assert_eq!(again["outcome"], "unchanged");
    cli.note(&["save", "RemoteAuth-bot", path_str(&b)]);

    cli.note(&["fetch", "RemoteAuth-bot", path_str(&back)]);
    assert!(fs::read(&back).unwrap() == content(2, 700_000));
    assert_eq!(fs::metadata(&back).unwrap().permissions().mode() & 0o777, 0o600);
    let refused = cli.run(&["fetch", "RemoteAuth-bot", path_str(&back)]);
    assert_eq!(refused.status.code(), Some(1), "a file that is there is not replaced unasked");
    let fetched = cli.json(&["fetch", "RemoteAuth-bot", path_str(&back), "--force", "--generation", &first]);
    assert_eq!(fetched["state"], "kept");
    assert!(fs::read(&back).unwrap() == content(1, 3 << 20));

    let listed = cli.json(&["generations", "RemoteAuth-bot"]);
    let states: Vec<_> =
        listed["generations"].as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["current", "kept"]);
    cli.note(&["rollback", "RemoteAuth-bot", &first]);
    assert_eq!(cli.json(&["list"])[0]["generation"].to_string(), first);
    let table = cli.data(&["generations", "RemoteAuth-bot"]);
    assert!(table.contains("GENERATION") && table.contains("current"), "{table}");

    let refused = cli.run(&["delete", "RemoteAuth-bot"]);
    assert_eq!(refused.status.code(), Some(64), "without a terminal it needs --yes");
    cli.note(&["delete", "RemoteAuth-bot", "--yes"]);
    assert_eq!(cli.json(&["list"]), serde_json::json!([]));
    assert_eq!(cli.json(&["list", "--deleted"])[0]["generations"], 2);
    let absent = cli.run(&["fetch", "RemoteAuth-bot", path_str(&back), "--force"]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(fs::read(&back).unwrap() == content(1, 3 << 20), "a fetch that fails leaves the file alone");
    cli.note(&["restore", "RemoteAuth-bot"]);
    cli.note(&["delete", "RemoteAuth-bot", "--shred", "--yes"]);
    assert_eq!(cli.json(&["list", "--deleted"]), serde_json::json!([]));
    let parts = fs::read_dir(sidecar.dir.path()).unwrap().flatten();
    assert!(parts.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().contains(".part-")));
    let missing = cli.run(&["save", "x", "/no/such/file"]);
    assert_eq!(missing.status.code(), Some(1));
}
