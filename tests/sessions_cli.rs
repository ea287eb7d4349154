//! `pannier sessions` against a running sidecar.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use serde_json::Value;
use support::{
    Options, Sidecar,
    attach::{Attach, open, put},
    cli::Cli,
};

async fn make_session(sidecar: &Sidecar, name: &str, records: u32) {
    let mut bot = Attach::open(sidecar.channel(), open(name, "setup")).await.unwrap();
    let mut puts = vec![put("creds", "creds", "x")];
    puts.extend((1..records).map(|n| put("session", &format!("{n}.0"), vec![7; 300])));
    bot.commit(1, puts, vec![]).await.unwrap();
    bot.close().await;
}

#[tokio::test]
async fn listing_and_showing_tell_the_same_as_json_and_as_text() {
    let sidecar = Sidecar::start(Options::default()).await;
    let cli = Cli::of(&sidecar, &["sessions"]);
    assert_eq!(cli.json(&["list"]), Value::Array(Vec::new()));
    make_session(&sidecar, "bot-1", 3).await;
    make_session(&sidecar, "büro: {2} *", 1).await;

    let list = cli.json(&["list"]);
    let names: Vec<_> =
        list.as_array().unwrap().iter().map(|session| session["session"].as_str().unwrap()).collect();
    assert_eq!(names, ["bot-1", "büro: {2} *"]);
    let text = String::from_utf8(cli.run(&["list"]).stdout).unwrap();
    assert!(text.contains("SESSION") && text.contains("bot-1") && !text.contains('\u{1b}'), "{text}");

    let shown = cli.json(&["show", "bot-1"]);
    assert_eq!(shown["session"]["records"], 3);
    assert_eq!(shown["session"]["types"][1]["type"], "session");
    let text = String::from_utf8(cli.run(&["show", "büro: {2} *"]).stdout).unwrap();
    assert!(text.contains("büro: {2} *") && text.contains("creds"), "{text}");
    let (code, why) = cli.refused(&["show", "nobody"]);
    assert!(code == 1 && why.contains("no session"), "{why}");
    assert_eq!(cli.json(&["list", "--namespace", "other"]), Value::Array(Vec::new()));
}

#[tokio::test]
async fn what_destroys_needs_a_yes_and_a_deleted_session_comes_back() {
    let sidecar = Sidecar::start(Options::default()).await;
    let cli = Cli::of(&sidecar, &["sessions"]);
    make_session(&sidecar, "bot-1", 3).await;
    for command in [&["delete", "bot-1"][..], &["delete", "bot-1", "--shred"], &["break-lease", "bot-1"]] {
        let (code, why) = cli.refused(command);
        assert!(code == 64 && why.contains("--yes"), "{why}");
    }
    assert_eq!(cli.json(&["list"]).as_array().unwrap().len(), 1);

    cli.note(&["delete", "bot-1", "--yes"]);
    assert_eq!(cli.json(&["list"]).as_array().unwrap().len(), 0);
    let (code, _) = cli.refused(&["delete", "bot-1", "--yes"]);
    assert_eq!(code, 1, "there was nothing to delete");
    let deleted = cli.json(&["deleted"]);
    assert_eq!((&deleted[0]["session"], &deleted[0]["records"]), (&Value::from("bot-1"), &Value::from(3)));

    cli.note(&["restore", "bot-1"]);
    let (code, why) = cli.refused(&["restore", "bot-1"]);
    assert_eq!(code, 1, "{why}");
    assert_eq!(cli.json(&["show", "bot-1"])["session"]["records"], 3);

    cli.note(&["delete", "bot-1", "--shred", "--yes"]);
    assert_eq!(cli.json(&["deleted"]).as_array().unwrap().len(), 0);
}

/// On a terminal it asks for the name, and takes no other for it.
#[tokio::test]
async fn on_a_terminal_the_name_must_be_typed() {
    const TERMINAL: &str = "
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown = b''
while b'to go on: ' not in shown:
    shown += os.read(terminal, 1024)
os.write(terminal, sys.argv[1].encode() + b'\\n')
try:
    while os.read(terminal, 1024): pass
except OSError: pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";
    let sidecar = Sidecar::start(Options::default()).await;
    let cli = Cli::of(&sidecar, &["sessions"]);
    make_session(&sidecar, "bot-1", 1).await;
    let address = sidecar.address();
    for (typed, code, left) in [("bot-2", 1, 1), ("", 1, 1), ("bot-1", 0, 0)] {
        let status = std::process::Command::new("python3")
            .args(["-c", TERMINAL, typed, support::BINARY])
            .args(["sessions", "delete", "bot-1", "--address", &address])
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{typed}");
        assert_eq!(cli.json(&["list"]).as_array().unwrap().len(), left);
    }
}

#[tokio::test]
async fn a_broken_lease_is_lost_by_its_holder() {
    let sidecar = Sidecar::start(Options::default()).await;
    let cli = Cli::of(&sidecar, &["sessions"]);
    let mut bot = Attach::open(sidecar.channel(), open("bot-1", "me")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "x")], vec![]).await.unwrap();
    assert_eq!(cli.json(&["show", "bot-1"])["session"]["lease"]["owner"], "me");
    cli.note(&["break-lease", "bot-1", "--yes"]);
    let refused = bot.commit(2, vec![put("creds", "creds", "y")], vec![]).await.unwrap_err();
    assert_eq!(refused.reason, "FENCED");
}

#[tokio::test]
async fn a_copy_holds_every_record_and_never_replaces() {
    let sidecar = Sidecar::start(Options::default()).await;
    let cli = Cli::of(&sidecar, &["sessions"]);
    let mut bot = Attach::open(sidecar.channel(), open("bot-1", "setup")).await.unwrap();
    let puts = (0..1200).map(|n| put("pre-key", &n.to_string(), vec![9; 200])).collect();
    bot.commit(1, puts, vec![]).await.unwrap();
    let big: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).take(3_000_000).collect();
    for (n, part) in big.chunks(1 << 20).enumerate() {
        let fragment = pannier::proto::v1::Fragment {
            r#type: "session".into(),
            id: "big.0".into(),
            offset: (n << 20) as u64,
            total: big.len() as u64,
            data: part.to_vec().into(),
            ..Default::default()
        };
        let more = (n + 1) << 20 < big.len();
        let commit =
            pannier::proto::v1::Commit { op_seq: 2, fragments: vec![fragment], more, ..Default::default() };
        let op = pannier::proto::v1::attach_request::Op::Commit(commit);
        if n == 0 {
            bot.send(op).await
        } else {
            bot.send_part(op).await;
            0
        };
    }
    bot.committed(3).await.unwrap();
    let (code, why) = cli.refused(&["copy", "bot-1", "bot-2"]);
    assert!(code == 1 && why.contains("SESSION_HELD"), "{why}");
    bot.close().await;

    cli.note(&["copy", "bot-1", "bot-2"]);
    assert_eq!(cli.json(&["show", "bot-2"])["session"]["records"], 1201);
    let shown = cli.json(&["show", "bot-2"]);
    assert!(
        !shown["session"]["lease"]["live"].as_bool().unwrap_or(false),
        "the copy is held by nobody: {shown}"
    );
    let mut copy = Attach::open(sidecar.channel(), open("bot-2", "me")).await.unwrap();
    assert_eq!(copy.value("session", "big.0").await, Some(big));
    assert_eq!(copy.value("pre-key", "1199").await, Some(vec![9; 200]));
    copy.close().await;

    let (code, why) = cli.refused(&["copy", "bot-1", "bot-2"]);
    assert!(code == 1 && why.contains("exists already"), "{why}");
    let (code, _) = cli.refused(&["copy", "nobody", "bot-3"]);
    assert_eq!(code, 1);
    assert_eq!(cli.json(&["list"]).as_array().unwrap().len(), 2, "a failed copy leaves nothing");
}
