//! `pannier import redis`: from the layouts that hand-written stores of Baileys use.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{collections::BTreeMap, fs};

use redis::Commands as _;
use support::{
    Options, Sidecar, Valkey, ValkeyOptions, cli::Cli, folder::Folder, pannier_env, path_str, unary::Unary,
};

const IMPORT: &[&str] = &["import", "redis"];

/// What the usual folder holds, under names with ids as they are.
fn records() -> BTreeMap<String, Vec<u8>> {
    let ids = |name: &str| match name {
        "sender-key-49151-1512@g.us--99123_1--0" => "sender-key-49151-1512@g.us::99123_1::0".to_owned(),
        "app-state-sync-key-AAAA__+____" => "app-state-sync-key-AAAA/+//".to_owned(),
        name => name.to_owned(),
    };
    let files = Folder::usual().files();
    files.into_iter().map(|(file, text)| (ids(file.strip_suffix(".json").unwrap()), text)).collect()
}

fn behind_a_colon(name: &str) -> String {
    let types =
        ["app-state-sync-version", "app-state-sync-key", "sender-key-memory", "sender-key", "device-list"];
    let more = ["lid-mapping", "identity-key", "pre-key", "session", "tctoken"];
    let ty = types.iter().chain(&more).find(|ty| name.starts_with(&format!("{ty}-")));
    ty.map_or_else(|| name.to_owned(), |ty| format!("{ty}:{}", &name[ty.len() + 1..]))
}

/// What was imported, exported again: byte for byte what the folder would have been.
fn is_whole(sidecar: &Sidecar, session: &str) {
    let folder = Folder::empty();
    let out = folder.beside("out");
    Cli::of(sidecar, &["export", "baileys"]).note(&[&out, "--session", session]);
    assert_eq!(Folder::read(&out), Folder::usual().files(), "{session}");
}

#[tokio::test]
async fn every_layout_is_read_whole_and_the_source_stays_as_it_was() {
    let source = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::default()).await;
    let import = Cli::of(&sidecar, IMPORT);
    let mut there = source.connection();
    for (name, text) in records() {
        let _: () = there.hset("bot-1:auth", &name, &text).unwrap();
        let file = Folder::usual().files().into_iter().find(|(_, other)| *other == text).unwrap().0;
        let _: () = there.hset("instance", file, &text).unwrap();
        let _: () = there.set(format!("bot-1:{name}"), &text).unwrap();
        let _: () = there.set(format!("wa[*]?:{}", behind_a_colon(&name)), &text).unwrap();
        let _: () = there.set(format!("wa[x]y:{}", behind_a_colon(&name)), "another bot's").unwrap();
    }
    // As stores do that forget to delete.
    let _: () = there.hset("instance", "pre-key-9.json", "null").unwrap();
    let writes = |source: &Valkey| source.command::<String>(&["INFO", "commandstats"]);
    let before = source.command::<i64>(&["DBSIZE"]);
    source.command::<()>(&["CONFIG", "RESETSTAT"]);
    let url = source.url();

    let said = import.json(&["--url", &url, "--layout", "hash", "--session", "bot-1", "--dry-run"]);
    assert_eq!(said["records"], records().len());
    import.note(&["--url", &url, "--layout", "hash", "--session", "bot-1"]);
    is_whole(&sidecar, "bot-1");
    import.note(&["--url", &url, "--layout", "hash", "--key", "instance", "--session", "bot-2"]);
    is_whole(&sidecar, "bot-2");
    let skip = ["--skip", "bot-1:auth"];
    import.note(
        &[&["--url", &url, "--layout", "keys", "--prefix", "bot-1:", "--session", "bot-3"], &skip[..]]
            .concat(),
    );
    is_whole(&sidecar, "bot-3");
    import.note(&["--url", &url, "--layout", "keys", "--prefix", "wa[*]?:", "--session", "bot-4"]);
    is_whole(&sidecar, "bot-4");

    let stats = writes(&source);
    for command in
        ["cmdstat_set:", "cmdstat_hset:", "cmdstat_del:", "cmdstat_keys:", "cmdstat_eval", "cmdstat_expire"]
    {
        assert!(!stats.contains(command), "{command} {stats}");
    }
    assert!(stats.contains("cmdstat_hscan") && stats.contains("cmdstat_mget"), "{stats}");
    assert_eq!(source.command::<i64>(&["DBSIZE"]), before);
}

#[tokio::test]
async fn what_cannot_be_taken_is_named_at_once() {
    let source = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::default()).await;
    let import = Cli::of(&sidecar, IMPORT);
    let mut there = source.connection();
    for (name, text) in records() {
        let _: () = there.set(format!("bot-1:{name}"), &text).unwrap();
    }
    let _: () = there.set("bot-1:app-state-sync-key-AAAA__+____", "{}").unwrap();
    let _: () = there.set("bot-1:pre-key-7", "{\"private\":").unwrap();
    let _: () = there.set("bot-1:contacts", "[]").unwrap();
    let _: () = there.hset("bot-1:auth", "creds", "{}").unwrap();
    let _: () = there.set(b"bot-1:\xff".as_slice(), "{}").unwrap();
    let url = source.url();
    let (code, why) = import.refused(&["--url", &url, "--layout", "keys", "--session", "bot-1"]);
    assert_eq!(code, 1);
    for line in [
        "bot-1:app-state-sync-key-AAAA__+____: the same record as bot-1:app-state-sync-key-AAAA/+//",
        "bot-1:app-state-sync-key-AAAA/+//: the same record as",
        "bot-1:pre-key-7: corrupt: cut off",
        "bot-1:contacts: not a record",
        "bot-1:auth: not a record",
        "not UTF-8",
        "6 of bot-1:",
    ] {
        assert!(why.contains(line), "{line}: {why}");
    }
    assert!(!Unary::of(&sidecar).session("bot-1").await.unwrap().exists);

    for (arguments, code, says) in [
        (&["--layout", "hash", "--key", "nowhere"][..], 1, "has no key nowhere"),
        (&["--layout", "hash", "--key", "bot-1:creds"], 1, "no hash there but a string"),
        (&["--layout", "hash", "--key", "bot-1:auth"], 1, "noiseKey is missing"),
        (&["--layout", "keys", "--prefix", "nobody:"], 1, "nobody:creds: missing"),
        (&["--layout", "keys", "--prefix", ""], 64, "must not be empty"),
        (&["--layout", "hash", "--prefix", "x"], 64, "--key"),
        (&["--layout", "table"], 64, "possible values"),
    ] {
        let (found, why) = import.refused(&[&["--url", &url, "--session", "bot-2"], arguments].concat());
        assert!(found == code && why.contains(says), "{arguments:?}: {found} {why}");
    }
    let (code, why) =
        import.refused(&["--url", "redis://127.0.0.1:1", "--layout", "hash", "--session", "bot-2"]);
    assert!(code == 69 && why.contains("cannot be reached"), "{why}");
}

/// Every user of the machine can read a command line.
#[tokio::test]
async fn a_password_comes_from_a_file_or_the_environment_and_is_never_shown() {
    const SECRET: &str = "s3cret-of-the-source";
    let source = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::default()).await;
    let import = Cli::of(&sidecar, IMPORT);
    let mut there = source.connection();
    for (name, text) in records() {
        let _: () = there.hset("bot-1:auth", &name, &text).unwrap();
    }
    source.command::<()>(&["CONFIG", "SET", "requirepass", SECRET]);
    let url = source.url();
    let with = format!("{url}?pass={SECRET}");
    let rest = ["--layout", "hash", "--session", "bot-1"];
    let (code, why) = import.refused(&[&["--url", &with], &rest[..]].concat());
    assert!(code == 64 && why.contains("--url-file") && !why.contains(SECRET), "{why}");
    let (code, why) = import.refused(&[&["--url", &url], &rest[..]].concat());
    assert!(code != 0 && why.contains("NOAUTH"), "{why}");

    let dir = tempfile::tempdir().unwrap();
    let (password, wrong) = (dir.path().join("password"), dir.path().join("wrong"));
    fs::write(&password, format!("{SECRET}\n")).unwrap();
    fs::write(&wrong, "another-secret").unwrap();
    let (code, why) =
        import.refused(&[&["--url", &url, "--password-file", path_str(&wrong)], &rest[..]].concat());
    assert!(code != 0 && !why.contains("another-secret"), "{why}");
    import.note(&[&["--url", &url, "--password-file", path_str(&password)], &rest[..]].concat());
    is_whole(&sidecar, "bot-1");

    let file = dir.path().join("url");
    fs::write(&file, &with).unwrap();
    import.note(&[
        "--url-file",
        path_str(&file),
        "--layout",
        "hash",
        "--key",
        "bot-1:auth",
        "--session",
        "bot-2",
    ]);
    let address = sidecar.address();
    let arguments = ["--layout", "hash", "--key", "bot-1:auth", "--session", "bot-3", "--address", &address];
    let output = pannier_env(&[IMPORT, &arguments[..]].concat(), &[("PANNIER_IMPORT_URL", &with)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    is_whole(&sidecar, "bot-3");
}
