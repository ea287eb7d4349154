//! Imports and exports that are killed: all of it is there, or nothing that could be taken for it. Exports while a bot writes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::Value;
use support::{
    Options, Sidecar,
    attach::{Attach, open, put},
    cli::Cli,
    folder::Folder,
    unary::Unary,
};

const RECORDS: usize = 1_000;

fn large_folder() -> Folder {
    let folder = Folder::usual();
    let usual = folder.files().len();
    for n in usual..RECORDS {
        let text = format!(r#"{{"private":{{"type":"Buffer","data":"{n:044}"}}}}"#);
        folder.write(&format!("pre-key-{}.json", n + 100), text);
    }
    folder
}

/// Runs a command and kills it after so long. Whether it had ended by itself before, and how long it ran.
fn killed_after(sidecar: &Sidecar, arguments: &[&str], after: Duration) -> (bool, Duration) {
    let begin = Instant::now();
    let mut child = Command::new(support::BINARY)
        .args(arguments)
        .args(["--address", &sidecar.address()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while begin.elapsed() < after && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_micros(200));
    }
    let ended = child.try_wait().unwrap().is_some();
    let _ = child.kill();
    child.wait().unwrap();
    (ended, begin.elapsed())
}

#[tokio::test]
async fn an_import_killed_at_any_instant_is_whole_or_nothing() {
    let sidecar = Sidecar::start(Options::default()).await;
    let folder = large_folder();
    let patience = Duration::from_secs(60);
    let (ended, whole) =
        killed_after(&sidecar, &["import", "baileys", folder.path(), "--session", "whole"], patience);
    assert!(ended);
    let mut unary = Unary::of(&sidecar);
    let (mut nothing, mut begun) = (0, 0);
    for n in 0..16_u32 {
        let name = format!("bot-{n}");
        let after = whole * (n + 1) / 17;
        killed_after(&sidecar, &["import", "baileys", folder.path(), "--session", &name], after);
        // What it had sent may still be on its way.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let found = unary.session(&name).await.unwrap();
        let records: u64 =
            found.session.iter().flat_map(|info| &info.counts).map(|count| count.records).sum();
        assert!(
            records == 0 || records == RECORDS as u64,
            "{records} records, killed after {after:?} of {whole:?}"
        );
        nothing += u32::from(records == 0);
        begun += u32::from(found.exists);
        assert!(found.archives.is_empty());
    }
    assert!(nothing > 0 && begun > 0, "none was killed before its commit, or none after it had begun");
}

/// What it was stays an archive; the next import needs no `--replace` then, once the killed one's lease has run out.
#[tokio::test]
async fn a_replacing_import_that_is_killed_loses_nothing() {
    let sidecar = Sidecar::start(Options::default()).await;
    let (small, large) = (Folder::usual(), large_folder());
    let import = Cli::of(&sidecar, &["import", "baileys"]);
    let patience = Duration::from_secs(60);
    let command = ["import", "baileys", large.path(), "--session", "whole"];
    let (_, whole) = killed_after(&sidecar, &command, patience);
    let mut unary = Unary::of(&sidecar);
    for n in 0..8_u32 {
        let name = format!("bot-{n}");
        import.note(&[small.path(), "--session", &name]);
        let command = ["import", "baileys", large.path(), "--session", &name, "--replace"];
        killed_after(&sidecar, &command, whole * (n + 5) / 14);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let found = unary.session(&name).await.unwrap();
        let records: u64 =
            found.session.iter().flat_map(|info| &info.counts).map(|count| count.records).sum();
        let archived: Vec<u64> =
            found.archives.iter().map(|one| one.counts.iter().map(|count| count.records).sum()).collect();
        let old = small.files().len() as u64;
        assert!(
            (records == old && archived.is_empty())
                || ([0, RECORDS as u64].contains(&records) && archived == [old]),
            "{records} records, archives {archived:?}"
        );
    }
}

#[tokio::test]
async fn an_export_killed_at_any_instant_never_looks_complete() {
    let sidecar = Sidecar::start(Options::default()).await;
    let folder = large_folder();
    Cli::of(&sidecar, &["import", "baileys"]).note(&[folder.path(), "--session", "bot-1"]);
    let patience = Duration::from_secs(120);
    let out = folder.beside("whole");
    let (ended, whole) = killed_after(&sidecar, &["export", "baileys", &out, "--session", "bot-1"], patience);
    assert!(ended && Folder::read(&out) == folder.files());
    let (mut nothing, mut left) = (0, 0);
    for n in 0..8_u32 {
        // In the first half it reads, in the second it writes.
        let after = whole * (n + 2) / 10;
        let out = folder.beside(&format!("out-{n}"));
        let command = ["export", "baileys", &out, "--session", "bot-1"];
        killed_after(&sidecar, &command, after);
        let manifest = fs::symlink_metadata(format!("{out}.manifest.json")).is_ok();
        if fs::symlink_metadata(&out).is_ok() {
            assert!(Folder::read(&out) == folder.files(), "killed after {after:?} of {whole:?}");
        } else {
            nothing += 1;
            assert!(!manifest, "a manifest of nothing");
        }
    }
    let hidden = |folder: &Folder| {
        let names = fs::read_dir(folder.beside("."))
            .unwrap()
            .map(|one| one.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(".export-")).collect::<Vec<_>>()
    };
    for name in hidden(&folder) {
        left += 1;
        let out = name.trim_start_matches('.').split(".export-").next().unwrap().to_owned();
        Cli::of(&sidecar, &["export", "baileys"]).note(&[&folder.beside(&out), "--session", "bot-1"]);
        assert!(Folder::read(&folder.beside(&out)) == folder.files());
    }
    assert!(
        nothing > 0 && left > 0,
        "none was killed while it read, or none while it wrote: {nothing}, {left}"
    );
    assert!(hidden(&folder).is_empty(), "what killed exports left is removed by the next");
}

/// Records that change together are never seen apart. A session that never rests may be refused.
#[tokio::test]
async fn an_export_of_a_busy_session_is_of_one_revision() {
    const TOGETHER: u64 = 300;
    let sidecar = Sidecar::start(Options::default()).await;
    let folder = Folder::usual();
    for n in 0..5_000 {
        folder.write(&format!("pre-key-{n}.json"), "{\"private\":1}");
    }
    Cli::of(&sidecar, &["import", "baileys"]).note(&[folder.path(), "--session", "bot-1"]);
    let look = |out: String| {
        let address = sidecar.address();
        tokio::task::spawn_blocking(move || {
            let arguments = ["export", "baileys", &out, "--session", "bot-1", "--dry-run", "--json"];
            support::pannier(&[&arguments[..], &["--address", &address]].concat())
        })
    };
    let begin = Instant::now();
    assert!(look(folder.beside("out")).await.unwrap().status.success());
    let pause = Arc::new(Mutex::new(begin.elapsed() / 2));

    let (written, mut first) = tokio::sync::oneshot::channel();
    let writing = tokio::spawn({
        let (pause, channel) = (pause.clone(), sidecar.channel());
        async move {
            let (mut bot, mut written) =
                (Attach::open(channel, open("bot-1", "busy")).await.unwrap(), Some(written));
            for n in 1_u64.. {
                let value = if n % 2 == 0 { "even" } else { "odd, and longer" };
                let puts =
                    (0..TOGETHER).map(|id| put("identity-key", &format!("{}.0", id + 1000), value)).collect();
                bot.commit(n, puts, vec![]).await.unwrap();
                if let Some(written) = written.take() {
                    written.send(()).unwrap();
                }
                let pause = *pause.lock().unwrap();
                tokio::time::sleep(pause).await;
            }
        }
    });
    tokio::time::timeout(Duration::from_secs(30), &mut first).await.unwrap().unwrap();
    let (mut whole, mut refused) = (BTreeSet::new(), 0);
    for n in 0..5 {
        if n == 3 {
            // Now it does come to rest in between.
            *pause.lock().unwrap() = begin.elapsed().max(Duration::from_millis(500));
        }
        let output = look(folder.beside("out")).await.unwrap();
        if output.status.code() == Some(69) {
            assert!(String::from_utf8_lossy(&output.stderr).contains("was written to during each"));
            refused += 1;
            continue;
        }
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let of_type =
            said["types"].as_array().unwrap().iter().find(|ty| ty["type"] == "identity-key").unwrap();
        whole.insert(of_type["bytes"].as_u64().unwrap());
    }
    // The usual folder has one of the type, of which nobody speaks here.
    let names = (TOGETHER + 1) * "identity-key".len() as u64 + TOGETHER * 6 + "49151.0".len() as u64;
    let other = "{\"type\":\"Buffer\",\"data\":[0,1,255]}".len() as u64;
    let possible = ["even", "odd, and longer"].map(|value| names + other + TOGETHER * value.len() as u64);
    assert!(whole.iter().all(|bytes| possible.contains(bytes)), "{whole:?} of {possible:?}");
    assert!(!whole.is_empty() && !writing.is_finished(), "{refused} refused");
    writing.abort();
}

/// A bot that was not stopped: its folder is not taken half old, half new.
#[tokio::test]
async fn a_folder_that_changes_while_it_is_read_is_refused() {
    let sidecar = Sidecar::start(Options::default()).await;
    let folder = large_folder();
    let file = format!("{}/pre-key-{}.json", folder.path(), RECORDS);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        for n in 0_u64.. {
            fs::write(&file, format!("{{\"private\":{n}}}")).unwrap();
            if stopped.recv_timeout(Duration::from_millis(2))
                != Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                return;
            }
        }
    });
    let (code, why) =
        Cli::of(&sidecar, &["import", "baileys"]).refused(&[folder.path(), "--session", "bot-1"]);
    drop(stop);
    writer.join().unwrap();
    assert!(code == 1 && why.contains(&format!("pre-key-{RECORDS}.json: ")), "{why}");
    assert!(why.contains("changed while it was read") || why.contains("corrupt"), "{why}");
    assert!(!Unary::of(&sidecar).session("bot-1").await.unwrap().exists);
    Cli::of(&sidecar, &["import", "baileys"]).note(&[folder.path(), "--session", "bot-1"]);
}
