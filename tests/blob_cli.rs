//! `pannier blobs`: what a person does with archives, and what scripts read of it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{fs, os::unix::fs::PermissionsExt as _, process::Output};

use support::{Options, Sidecar, blob::content, pannier, path_str};

struct Cli<'a> {
    sidecar: &'a Sidecar,
}

impl Cli<'_> {
    async fn run(&self, args: &[&str]) -> Output {
        let socket = self.sidecar.socket.clone();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        tokio::task::spawn_blocking(move || {
            let mut all = vec!["blobs"];
            all.extend(args.iter().map(String::as_str));
            all.extend(["--address", path_str(&socket)]);
            pannier(&all)
        })
        .await
        .unwrap()
    }

    async fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args).await;
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    async fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(&[args, &["--json"]].concat()).await).unwrap()
    }
}

#[tokio::test]
async fn a_file_goes_in_and_comes_out_and_earlier_ones_come_back() {
    let sidecar = Sidecar::start(Options::default()).await;
    let cli = Cli { sidecar: &sidecar };
    let (a, b) = (sidecar.dir.path().join("a.zip"), sidecar.dir.path().join("b.zip"));
    let back = sidecar.dir.path().join("back.zip");
    fs::write(&a, content(1, 3 << 20)).unwrap();
    fs::write(&b, content(2, 700_000)).unwrap();
    assert_eq!(cli.json(&["list"]).await, serde_json::json!([]));

    let saved = cli.json(&["save", "RemoteAuth-bot", path_str(&a)]).await;
    assert_eq!((saved["outcome"].as_str(), saved["size"].as_u64()), (Some("saved"), Some(3 << 20)));
    let first = saved["generation"].to_string();
    let again = cli.json(&["save", "RemoteAuth-bot", path_str(&a)]).await;
    assert_eq!(again["outcome"], "unchanged");
    cli.ok(&["save", "RemoteAuth-bot", path_str(&b)]).await;

    cli.ok(&["fetch", "RemoteAuth-bot", path_str(&back)]).await;
    assert!(fs::read(&back).unwrap() == content(2, 700_000));
    assert_eq!(fs::metadata(&back).unwrap().permissions().mode() & 0o777, 0o600);
    let refused = cli.run(&["fetch", "RemoteAuth-bot", path_str(&back)]).await;
    assert_eq!(refused.status.code(), Some(1), "a file that is there is not replaced unasked");
    let fetched =
        cli.json(&["fetch", "RemoteAuth-bot", path_str(&back), "--force", "--generation", &first]).await;
    assert_eq!(fetched["state"], "kept");
    assert!(fs::read(&back).unwrap() == content(1, 3 << 20));

    let listed = cli.json(&["generations", "RemoteAuth-bot"]).await;
    let states: Vec<_> =
        listed["generations"].as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["current", "kept"]);
    cli.ok(&["rollback", "RemoteAuth-bot", &first]).await;
    assert_eq!(cli.json(&["list"]).await[0]["generation"].to_string(), first);
    let table = cli.ok(&["generations", "RemoteAuth-bot"]).await;
    assert!(table.contains("GENERATION") && table.contains("current"), "{table}");

    let refused = cli.run(&["delete", "RemoteAuth-bot"]).await;
    assert_eq!(refused.status.code(), Some(64), "without a terminal it needs --yes");
    cli.ok(&["delete", "RemoteAuth-bot", "--yes"]).await;
    assert_eq!(cli.json(&["list"]).await, serde_json::json!([]));
    assert_eq!(cli.json(&["list", "--deleted"]).await[0]["generations"], 2);
    let absent = cli.run(&["fetch", "RemoteAuth-bot", path_str(&back), "--force"]).await;
    assert_eq!(absent.status.code(), Some(1));
    assert!(fs::read(&back).unwrap() == content(1, 3 << 20), "a fetch that fails leaves the file alone");
    cli.ok(&["restore", "RemoteAuth-bot"]).await;
    cli.ok(&["delete", "RemoteAuth-bot", "--shred", "--yes"]).await;
    assert_eq!(cli.json(&["list", "--deleted"]).await, serde_json::json!([]));
    let parts = fs::read_dir(sidecar.dir.path()).unwrap().flatten();
    assert!(parts.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().contains(".part-")));
    let missing = cli.run(&["save", "x", "/no/such/file"]).await;
    assert_eq!(missing.status.code(), Some(1));
}
