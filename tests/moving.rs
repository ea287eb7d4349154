//! `pannier import` and `pannier export` against a running sidecar.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use support::{Options, Sidecar, cli::Cli, folder::Folder, unary::Unary};

#[tokio::test]
async fn a_folder_comes_back_byte_for_byte() {
    let sidecar = Sidecar::start(Options::default()).await;
    let cli = Cli::of(&sidecar, &[]);
    let folder = Folder::usual();
    let said = cli.json(&["import", "baileys", folder.path(), "--session", "bot-1"]);
    assert_eq!(said["records"], folder.files().len());
    let out = folder.beside("out");
    cli.note(&["export", "baileys", &out, "--session", "bot-1"]);
    assert_eq!(Folder::read(&out), folder.files());
    let mut unary = Unary::of(&sidecar);
    assert_eq!(unary.value("bot-1", "session", "49151.0").await.unwrap(), b"\x00\x01\x02\xff");
}
