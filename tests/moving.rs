//! `pannier import` and `pannier export` of folders, against a running sidecar.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{fs, os::unix::fs::PermissionsExt as _};

use pannier::proto::v1::{Record, ValueKind, delete_session_request::Mode};
use serde_json::Value;
use support::{
    Options, Sidecar,
    attach::{Attach, open, put},
    cli::Cli,
    folder::Folder,
    unary::Unary,
};

const IMPORT: &[&str] = &["import", "baileys"];
const EXPORT: &[&str] = &["export", "baileys"];

fn mode(path: &str) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_folder_comes_back_byte_for_byte_and_its_records_are_as_the_adapter_stores_them() {
    let sidecar = Sidecar::start(Options::default()).await;
    let (import, export) = (Cli::of(&sidecar, IMPORT), Cli::of(&sidecar, EXPORT));
    let folder = Folder::usual();
    let said = import.json(&[folder.path(), "--session", "bot-1"]);
    assert_eq!(said["records"], folder.files().len());
    assert_eq!((&said["dry_run"], &said["hindrance"]), (&Value::from(false), &Value::Null));

    let mut unary = Unary::of(&sidecar);
    let info = unary.info("bot-1").await;
    assert_eq!((&said["revision"], info.revision), (&Value::from(1), 1), "one commit");
    assert_eq!(info.counts.len(), 11, "ten types and the creds");
    let attributes = info.attributes.unwrap();
    assert_eq!((attributes.paired, attributes.next_pre_key_id), (Some(true), Some(31)));
    assert!(!info.lease.is_some_and(|lease| lease.live), "an import keeps no lease");
    for (ty, id, kind, value) in [
        ("session", "49151.0", ValueKind::Bytes, &b"\x00\x01\x02\xff"[..]),
        ("sender-key", "49151-1512@g.us::99123_1::0", ValueKind::Bytes, b"[]"),
        ("sender-key-memory", "49151-1512@g.us", ValueKind::Json, br#"{"99123:1@lid":true}"#),
        (
            "app-state-sync-key",
            "AAAA/+//",
            ValueKind::Json,
            br#"{"keyData":"AAEC","timestamp":"1700000000"}"#,
        ),
        ("identity-key", "49151.0", ValueKind::Json, br#"{"type":"Buffer","data":[0,1,255]}"#),
        ("lid-mapping", "99123_reverse", ValueKind::Json, b"\"49151\""),
        ("tctoken", "__index", ValueKind::Json, br#"{"token":{"type":"Buffer","data":"W10="}}"#),
    ] {
        let found: Vec<Record> = unary.get("bot-1", ty, &[id]).await.unwrap();
        assert_eq!((found[0].kind(), &found[0].value[..]), (kind, value), "{ty} {id}");
    }

    let out = folder.beside("out");
    let said = export.json(&[&out, "--session", "bot-1"]);
    assert_eq!(Folder::read(&out), folder.files());
    assert_eq!(said["records"], folder.files().len());
    assert_eq!((mode(&out), mode(&format!("{out}/creds.json"))), (0o700, 0o600));
    assert_eq!(mode(&format!("{out}.manifest.json")), 0o600);
    let left: Vec<_> =
        fs::read_dir(folder.beside(".")).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "no folder of another name is left: {left:?}");
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_written_and_writes_nothing() {
    let sidecar = Sidecar::start(Options::default()).await;
    let (import, export) = (Cli::of(&sidecar, IMPORT), Cli::of(&sidecar, EXPORT));
    let folder = Folder::usual();
    let said = import.json(&[folder.path(), "--session", "bot-1", "--dry-run"]);
    let pre_keys = said["types"].as_array().unwrap().iter().find(|ty| ty["type"] == "pre-key").unwrap();
    assert_eq!(pre_keys["records"], 2);
    assert!(said["bytes"].as_u64().unwrap() > 500 && said["revision"].is_null(), "{said}");
    let text = import.data(&[folder.path(), "--session", "bot-1", "--dry-run"]);
    assert!(text.contains("pre-key") && text.contains("all"), "{text}");
    assert!(!Unary::of(&sidecar).session("bot-1").await.unwrap().exists);

    import.note(&[folder.path(), "--session", "bot-1"]);
    let output = import.run(&[folder.path(), "--session", "bot-1", "--dry-run", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said["hindrance"].as_str().unwrap().contains("exists already"), "{said}");

    let out = folder.beside("out");
    assert_eq!(export.json(&[&out, "--session", "bot-1", "--dry-run"])["records"], folder.files().len());
    assert!(fs::symlink_metadata(&out).is_err());
}

#[tokio::test]
async fn a_session_that_is_held_or_has_records_is_refused_unless_asked_for() {
    let sidecar = Sidecar::start(Options::default()).await;
    let import = Cli::of(&sidecar, IMPORT);
    let folder = Folder::usual();
    let mut bot = Attach::open(sidecar.channel(), open("bot-1", "the bot")).await.unwrap();
    let (code, why) = import.refused(&[folder.path(), "--session", "bot-1"]);
    assert!(code == 1 && why.contains("held by the bot until 20"), "{why}");
    bot.commit(1, vec![put("creds", "creds", "old")], vec![]).await.unwrap();
    let (code, why) = import.refused(&[folder.path(), "--session", "bot-1", "--take-over"]);
    assert!(code == 1 && why.contains("exists already, with 1 records"), "{why}");
    assert_eq!(bot.value("creds", "creds").await.unwrap(), b"old", "the bot has lost nothing");

    let said = import.json(&[folder.path(), "--session", "bot-1", "--take-over", "--replace"]);
    let mut unary = Unary::of(&sidecar);
    assert_eq!(unary.value("bot-1", "creds", "creds").await.unwrap(), support::folder::CREDS.as_bytes());
    assert_eq!(unary.info("bot-1").await.attributes.unwrap().next_pre_key_id, Some(31));
    let refused = bot.commit(2, vec![put("creds", "creds", "late")], vec![]).await.unwrap_err();
    assert_eq!(refused.reason, "FENCED");
    let archived = said["archived_incarnation"].as_u64().unwrap();
    unary.restore("bot-1", archived, true).await.unwrap();
    assert_eq!(unary.value("bot-1", "creds", "creds").await.unwrap(), b"old");
}

/// An import that was killed, and a bot that logged out, leave an empty session.
#[tokio::test]
async fn an_empty_session_takes_an_import_without_asking() {
    let sidecar = Sidecar::start(Options::default()).await;
    let folder = Folder::usual();
    Attach::open(sidecar.channel(), open("bot-1", "killed")).await.unwrap().close().await;
    Cli::of(&sidecar, IMPORT).note(&[folder.path(), "--session", "bot-1"]);
    let mut unary = Unary::of(&sidecar);
    unary.delete("bot-1", Mode::Soft).await.unwrap();
    Cli::of(&sidecar, IMPORT).note(&[folder.path(), "--session", "bot-1"]);
    assert_eq!(unary.info("bot-1").await.counts.len(), 11);
}

#[tokio::test]
async fn an_export_disturbs_no_bot_and_says_who_it_is() {
    let sidecar = Sidecar::start(Options::default()).await;
    let folder = Folder::usual();
    Cli::of(&sidecar, IMPORT).note(&[folder.path(), "--session", "bot-1"]);
    let mut bot = Attach::open(sidecar.channel(), open("bot-1", "the bot")).await.unwrap();
    bot.commit(1, vec![put("session", "7.0", vec![7; 300])], vec![]).await.unwrap();
    let out = folder.beside("out");
    let said = Cli::of(&sidecar, EXPORT).note(&[&out, "--session", "bot-1"]);
    assert!(said.contains("the bot still holds the session"), "{said}");
    assert_eq!(Folder::read(&out).len(), folder.files().len() + 1);
    bot.commit(2, vec![put("session", "7.0", vec![8; 300])], vec![]).await.unwrap();
}

/// Ids of any characters, kinds of any sort and types of anybody: with the manifest, nothing is lost, elsewhere too.
#[tokio::test]
async fn with_its_manifest_any_session_comes_back() {
    let sidecar = Sidecar::start(Options::default()).await;
    let (import, export) = (Cli::of(&sidecar, IMPORT), Cli::of(&sidecar, EXPORT));
    let mut bot = Attach::open(sidecar.channel(), open("büro {1} *", "setup")).await.unwrap();
    let mut odd = vec![
        put("foo-bar", "a/b:c--d__e 😀 *", vec![0, 159, 146, 150]),
        put("session", "4-9:1/..", "x"),
        put("note", "1", "say \"hi\"\n"),
        put("creds", "creds", support::folder::CREDS),
    ];
    odd[2].record.as_mut().unwrap().kind = ValueKind::Text.into();
    odd[3].record.as_mut().unwrap().kind = ValueKind::Json.into();
    bot.commit(1, odd.clone(), vec![]).await.unwrap();
    bot.close().await;

    let folder = Folder::empty();
    let out = folder.beside("out");
    let said = export.note(&[&out, "--session", "büro {1} *"]);
    assert!(said.contains("3 of its files tell only with the manifest"), "{said}");
    let (_, why) = import.refused(&[&out, "--session", "bot-2"]);
    assert!(why.contains("3 of") && why.contains("foo-bar-a__b-c--d__e 😀 *.json"), "{why}");
    let manifest = format!("{out}.manifest.json");
    let elsewhere = Sidecar::start(Options::default()).await;
    Cli::of(&elsewhere, IMPORT).note(&[&out, "--session", "bot-2", "--manifest", &manifest]);
    let mut unary = Unary::of(&elsewhere);
    for put in odd {
        let record = put.record.unwrap();
        let found = unary.get("bot-2", &record.r#type, &[&record.id]).await.unwrap();
        assert_eq!((found[0].kind, &found[0].value), (record.kind, &record.value), "{}", record.id);
    }
}

#[tokio::test]
async fn a_manifest_finds_every_changed_missing_and_new_file() {
    let sidecar = Sidecar::start(Options::default()).await;
    let (import, export) = (Cli::of(&sidecar, IMPORT), Cli::of(&sidecar, EXPORT));
    let folder = Folder::usual();
    import.note(&[folder.path(), "--session", "bot-1"]);
    let out = folder.beside("out");
    let manifest = folder.beside("elsewhere.json");
    export.note(&[&out, "--session", "bot-1", "--manifest", &manifest]);
    import.note(&[&out, "--session", "bot-2", "--manifest", &manifest]);

    fs::write(format!("{out}/device-list-49151.json"), "[\"0\",\"18\"]").unwrap();
    fs::write(format!("{out}/pre-key-3.json"), "{}").unwrap();
    fs::remove_file(format!("{out}/session-49151.0.json")).unwrap();
    let (code, why) = import.refused(&[&out, "--session", "bot-3", "--manifest", &manifest]);
    assert_eq!(code, 1);
    for line in [
        "device-list-49151.json: not what the manifest says",
        "pre-key-3.json: not in the manifest",
        "session-49151.0.json: missing",
    ] {
        assert!(why.contains(line), "{line}: {why}");
    }
    assert!(why.contains("3 of"), "{why}");
    let mut unary = Unary::of(&sidecar);
    assert!(!unary.session("bot-3").await.unwrap().exists);
    import.note(&[&out, "--session", "bot-3"]);
    let (code, why) =
        import.refused(&[&out, "--session", "bot-4", "--manifest", &format!("{out}/creds.json")]);
    assert!(code == 1 && why.contains("no manifest"), "{why}");
}

#[tokio::test]
async fn a_large_value_goes_in_and_out_in_parts() {
    let sidecar = Sidecar::start(Options::default()).await;
    let folder = Folder::usual();
    // As creds with tens of thousands of processed history messages.
    let messages: Vec<String> =
        (0..90_000).map(|n| format!("\"3EB0{n:016x}{:08x}\"", n * 7919 % 65_521)).collect();
    let creds = support::folder::CREDS.replacen(
        '{',
        &format!("{{\"processedHistoryMessages\":[{}],", messages.join(",")),
        1,
    );
    assert!(creds.len() > 2_500_000);
    folder.write("creds.json", creds);
    let large: Vec<String> = (0..1_200_000_u32).map(|n| (n % 251).to_string()).collect();
    folder.write("session-7.0.json", format!("{{\"type\":\"Buffer\",\"data\":[{}]}}", large.join(",")));
    Cli::of(&sidecar, IMPORT).note(&[folder.path(), "--session", "bot-1"]);
    let info = Unary::of(&sidecar).info("bot-1").await;
    assert_eq!(
        info.attributes.unwrap().next_pre_key_id,
        Some(31),
        "they come with the first of several parts"
    );
    Cli::of(&sidecar, &["sessions", "copy"]).note(&["bot-1", "bot-2"]);
    let info = Unary::of(&sidecar).info("bot-2").await;
    assert_eq!(info.attributes.unwrap().next_pre_key_id, Some(31));
    let out = folder.beside("out");
    Cli::of(&sidecar, EXPORT).note(&[&out, "--session", "bot-1"]);
    assert!(Folder::read(&out) == folder.files());
    let bot = Attach::open(sidecar.channel(), open("bot-1", "the bot")).await.unwrap();
    let (code, why) = Cli::of(&sidecar, EXPORT).refused(&[&folder.beside("held"), "--session", "bot-1"]);
    assert!(code == 1 && why.contains("SESSION_HELD, held by the bot"), "{why}");
    bot.close().await;
}
