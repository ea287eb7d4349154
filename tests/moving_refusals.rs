//! What `pannier import` and `export` refuse: everything at once, by name, and nothing is written.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{fs, os::unix::fs::symlink, path::Path};

use redis::Commands as _;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use support::{
    Options, Sidecar,
    attach::{Attach, open, put},
    cli::Cli,
    folder::Folder,
    random::Random,
    unary::Unary,
};

const IMPORT: &[&str] = &["import", "baileys"];
const EXPORT: &[&str] = &["export", "baileys"];

#[tokio::test]
async fn every_file_that_cannot_be_taken_is_named_at_once() {
    let sidecar = Sidecar::start(Options::default()).await;
    let import = Cli::of(&sidecar, IMPORT);
    let folder = Folder::usual();
    let at = |file: &str| Path::new(folder.path()).join(file);
    // As a killed writer leaves them: Baileys takes each for "not there", and its bot pairs again or loses messages.
    folder.write("pre-key-7.json", "");
    folder.write("pre-key-8.json", r#"{"private":{"type":"Buffer","data":"AA"#);
    folder.write("pre-key-9.json", [0_u8; 64]);
    folder.write("pre-key-10.json", "{}\n{}");
    folder.write("session-1.0.json", b"\"\xff\"");
    folder.write("session-2.0.json", "null");
    folder.write("session-49-151.0.json", "{}");
    folder.write("app-state-sync-key-AAA_.json", "{}");
    folder.write("foo-bar-1.json", "{}");
    folder.write("creds.json.tmp", "{");
    folder.write("pre-key-1.json.bak", "{}");
    folder.write("baileys_store.json", "{}");
    fs::create_dir(at("backup")).unwrap();
    symlink("/etc/hostname", at("pre-key-11.json")).unwrap();
    symlink("creds.json", at("pre-key-12.json")).unwrap();
    mknodat(CWD, at("pre-key-13.json"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    folder.write("pre-key-14.json", vec![b' '; (16 << 20) + 1]);

    let expected = [
        ("pre-key-7.json", "empty"),
        ("pre-key-8.json", "cut off"),
        ("pre-key-9.json", "not JSON"),
        ("pre-key-10.json", "not JSON"),
        ("session-1.0.json", "not UTF-8"),
        ("session-2.0.json", "no value"),
        ("session-49-151.0.json", "ambiguous"),
        ("app-state-sync-key-AAA_.json", "no id"),
        ("foo-bar-1.json", "not a record"),
        ("creds.json.tmp", "leftover"),
        ("pre-key-1.json.bak", "leftover"),
        ("baileys_store.json", "not a record"),
        ("backup", "a folder"),
        ("pre-key-11.json", "a symbolic link"),
        ("pre-key-12.json", "a symbolic link"),
        ("pre-key-13.json", "no regular file"),
        ("pre-key-14.json", "at most 16 MiB"),
    ];
    let (code, why) = import.refused(&[folder.path(), "--session", "bot-1"]);
    assert_eq!(code, 1);
    for (file, reason) in expected {
        let line = why.lines().find(|line| line.contains(&format!("  {file}: ")));
        assert!(line.is_some_and(|line| line.contains(reason)), "{file}: {why}");
    }
    assert!(why.contains(&format!("{} of", expected.len())), "{why}");
    assert_eq!(why.lines().count(), expected.len() + 1, "{why}");
    assert!(!Unary::of(&sidecar).session("bot-1").await.unwrap().exists);

    let output = import.run(&[folder.path(), "--session", "bot-1", "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["refused"].as_object().unwrap().len(), expected.len());

    let mut skips = vec![folder.path(), "--session", "bot-1"];
    for (file, _) in &expected[1..] {
        skips.extend(["--skip", file]);
    }
    let (_, why) = import.refused(&skips);
    assert!(why.contains("1 of") && why.contains("pre-key-7.json"), "{why}");
    skips.extend(["--skip", "pre-key-7*"]);
    let said = import.json(&skips);
    assert_eq!(said["skipped"].as_array().unwrap().len(), expected.len());
    let (code, why) = import.refused(&[folder.path(), "--session", "bot-2", "--skip", "typo.json"]);
    assert!(code == 64 && why.contains("typo.json"), "{why}");
}

#[tokio::test]
async fn without_whole_creds_there_is_nothing_to_import() {
    let sidecar = Sidecar::start(Options::default()).await;
    let import = Cli::of(&sidecar, IMPORT);
    let folder = Folder::usual();
    for (creds, why) in [
        (Some(""), "empty"),
        (Some("{\"noiseKey\":"), "cut off"),
        (Some("{}"), "noiseKey is missing"),
        (Some("[]"), "not the creds"),
        (Some(r#"{"type":"Buffer","data":"AA=="}"#), "not creds"),
        (None, "missing"),
    ] {
        match creds {
            Some(text) => folder.write("creds.json", text),
            None => fs::remove_file(Path::new(folder.path()).join("creds.json")).unwrap(),
        }
        let (code, said) = import.refused(&[folder.path(), "--session", "bot-1"]);
        assert!(code == 1 && said.contains("creds.json: ") && said.contains(why), "{creds:?}: {said}");
    }
    let (code, _) = import.refused(&[&folder.beside("nowhere"), "--session", "bot-1"]);
    assert_eq!(code, 1);
    assert!(!Unary::of(&sidecar).session("bot-1").await.unwrap().exists);
}

#[tokio::test]
async fn more_than_one_commit_takes_is_refused_with_size_and_limit() {
    let sidecar = Sidecar::start(Options::default()).await;
    let import = Cli::of(&sidecar, IMPORT);
    let folder = Folder::usual();
    let large = format!("\"{}\"", "x".repeat(12 << 20));
    for n in 0..3 {
        folder.write(&format!("session-{n}.0.json"), &large);
    }
    for flags in [&[][..], &["--dry-run"]] {
        let (code, why) = import.refused(&[&[folder.path(), "--session", "bot-1"], flags].concat());
        assert!(code == 1 && why.contains("36.0 MiB") && why.contains("32 MiB"), "{why}");
    }
    fs::remove_file(format!("{}/session-2.0.json", folder.path())).unwrap();
    import.note(&[folder.path(), "--session", "bot-1"]);
    assert_eq!(Unary::of(&sidecar).info("bot-1").await.counts.len(), 11);
}

/// Valkey's memory is full when the commit comes: what was there is there again.
#[tokio::test]
async fn an_import_that_fails_midway_leaves_what_was_there() {
    let (valkey, sidecar) = support::start().await;
    let import = Cli::of(&sidecar, IMPORT);
    let (small, large) = (Folder::usual(), Folder::usual());
    let (mut random, letters) = (Random(7), ('A'..='z').filter(|c| *c != '\\').collect::<Vec<_>>());
    for n in 0..10 {
        let noise: String = (0..1_000_000).map(|_| random.of(&letters)).collect();
        large.write(&format!("session-{n}.0.json"), format!("\"{noise}\""));
    }
    import.note(&[small.path(), "--session", "bot-1"]);
    let used: redis::InfoDict = valkey.command(&["INFO", "memory"]);
    let limit = used.get::<u64>("used_memory").unwrap() + (4 << 20);
    valkey.command::<()>(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);

    let mut unary = Unary::of(&sidecar);
    let (code, why) = import.refused(&[large.path(), "--session", "bot-2"]);
    assert!(code != 0 && why.contains("OUT_OF_MEMORY"), "{why}");
    let found = unary.session("bot-2").await.unwrap();
    assert!(!found.exists && found.archives.is_empty(), "{found:?}");

    let (code, why) = import.refused(&[large.path(), "--session", "bot-1", "--replace"]);
    assert!(code != 0 && why.contains("OUT_OF_MEMORY"), "{why}");
    let info = unary.info("bot-1").await;
    assert_eq!(info.counts.iter().map(|count| count.records).sum::<u64>(), small.files().len() as u64);
    let mut bot = Attach::open(sidecar.channel(), open("bot-1", "the bot")).await.expect("nobody holds it");
    assert_eq!(bot.value("creds", "creds").await.unwrap(), support::folder::CREDS.as_bytes());
    bot.close().await;
}

#[tokio::test]
async fn an_export_replaces_nothing() {
    let sidecar = Sidecar::start(Options::default()).await;
    let export = Cli::of(&sidecar, EXPORT);
    let folder = Folder::usual();
    Cli::of(&sidecar, IMPORT).note(&[folder.path(), "--session", "bot-1"]);
    let before = folder.files();
    let (code, why) = export.refused(&[folder.path(), "--session", "bot-1"]);
    assert!(code == 1 && why.contains("no empty folder"), "{why}");
    assert_eq!(folder.files(), before);

    let link = folder.beside("link");
    let empty = folder.beside("empty");
    fs::create_dir(&empty).unwrap();
    symlink(&empty, &link).unwrap();
    let (code, _) = export.refused(&[&link, "--session", "bot-1"]);
    assert_eq!(code, 1);
    let inside = format!("{empty}/manifest.json");
    let (code, why) = export.refused(&[&empty, "--session", "bot-1", "--manifest", &inside]);
    assert!(code == 1 && why.contains("in the folder"), "{why}");
    let kept = format!("{}/creds.json", folder.path());
    let (code, why) = export.refused(&[&empty, "--session", "bot-1", "--manifest", &kept]);
    assert!(code == 1 && why.contains("is there already"), "{why}");
    let (code, why) = export.refused(&[&empty, "--session", "nobody"]);
    assert!(code == 1 && why.contains("no session"), "{why}");
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    export.note(&[&empty, "--session", "bot-1"]);
    assert_eq!(Folder::read(&empty), before);
}

/// `fixFileName` of Baileys gives both records one file: whoever writes second would win.
#[tokio::test]
async fn records_that_would_share_a_file_are_named() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot-1", "setup")).await.unwrap();
    let puts = vec![
        put("tctoken", "49:1@lid", "a"),
        put("tctoken", "49-1@lid", "b"),
        put("session", &"9".repeat(300), "c"),
        put("creds", "creds", "d"),
    ];
    bot.commit(1, puts, vec![]).await.unwrap();
    bot.close().await;
    let folder = Folder::empty();
    let out = folder.beside("out");
    let (code, why) = Cli::of(&sidecar, EXPORT).refused(&[&out, "--session", "bot-1"]);
    assert_eq!(code, 1);
    for part in
        ["tctoken 49:1@lid: the same file as tctoken 49-1@lid", "tctoken 49-1@lid: ", "at most 255", "3 of"]
    {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert!(fs::symlink_metadata(&out).is_err());
}

#[tokio::test]
async fn a_damaged_record_stops_an_export() {
    let (valkey, sidecar) = support::start().await;
    let folder = Folder::usual();
    Cli::of(&sidecar, IMPORT).note(&[folder.path(), "--session", "bot-1"]);
    let key = valkey.keys("pannier:test:{*}:r:*").remove(0);
    let fields: Vec<(Vec<u8>, Vec<u8>)> = valkey.connection().hgetall(&key).unwrap();
    let (field, mut value) = fields.into_iter().max_by_key(|(_, value)| value.len()).unwrap();
    *value.last_mut().unwrap() ^= 1;
    let _: i32 = valkey.connection().hset(&key, field, value).unwrap();
    let out = folder.beside("out");
    let (code, why) = Cli::of(&sidecar, EXPORT).refused(&[&out, "--session", "bot-1"]);
    assert!(code != 0 && (why.contains("cannot be opened") || why.contains("CORRUPT")), "{why}");
    assert!(fs::symlink_metadata(&out).is_err());
}
