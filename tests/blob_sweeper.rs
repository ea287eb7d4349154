//! What the sweeper takes away and when, under a clock that the test shifts: needs `--features test-clock`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::GenerationState::{Current, Dropped, Kept};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
    blob::{Blobs, CHUNK, chunk, content, finish, header},
};
use tonic::Code;

async fn start() -> (Valkey, Sidecar, Blobs) {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey).arg("--bulk-rate").arg("0")).await;
    let blobs = sidecar.blobs();
    (valkey, sidecar, blobs)
}

/// Lets the scripts see `by` more.
fn shift(valkey: &Valkey, by: Duration) {
    let _: i64 = valkey.command(&["INCRBY", "pannier:test-clock", &by.as_millis().to_string()]);
}

fn parts(valkey: &Valkey) -> usize {
    valkey.keys("*:b:*").into_iter().filter(|key| !key.ends_with(":b:m")).count()
}

async fn until(what: &str, done: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn an_upload_that_nobody_ends_is_collected() {
    let (valkey, mut sidecar, blobs) = start().await;
    blobs.save("bot", &content(1, CHUNK)).await.unwrap();
    let before = parts(&valkey);
    for name in ["bot", "never"] {
        let saving = blobs.begin(header(name)).await;
        for seed in 0..4 {
            saving.send(chunk(&content(seed, CHUNK))).await;
        }
        until("its parts are there", || parts(&valkey) > before).await;
        let with_it = parts(&valkey);
        sidecar.restart().await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(parts(&valkey), with_it, "another sidecar may be at it");
        shift(&valkey, 5 * MINUTE);
        until("they are collected", || parts(&valkey) == before).await;
    }
    assert!(blobs.fetch("bot").await.unwrap() == content(1, CHUNK));
    until("nothing is left of the one that never was", || valkey.keys("*}:b").len() == 1).await;
}

#[tokio::test]
async fn an_upload_that_paused_too_long_cannot_end_any_more() {
    let (valkey, _sidecar, blobs) = start().await;
    let saving = blobs.begin(header("bot")).await;
    saving.send(chunk(&content(1, CHUNK))).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    shift(&valkey, 3 * MINUTE);
    saving.send(finish(&content(1, CHUNK))).await;
    let refused = saving.end().await.unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Aborted, "GENERATION_GONE"));
    assert!(!blobs.stat("bot").await.unwrap().exists);
}

#[tokio::test]
async fn a_generation_that_has_fallen_out_stays_a_quarter_of_an_hour() {
    let (valkey, _sidecar, blobs) = start().await;
    let mut first = 0;
    for seed in 1..=4 {
        let info = blobs.save("bot", &content(seed, CHUNK)).await.unwrap();
        first = if seed == 1 { info.generation } else { first };
    }
    shift(&valkey, 14 * MINUTE);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let states: Vec<_> = blobs.generations("bot").await.iter().map(|info| info.state()).collect();
    assert_eq!(states, [Current, Kept, Kept, Dropped]);
    assert!(blobs.fetch_generation("bot", first).await.unwrap().1 == content(1, CHUNK));
    shift(&valkey, 2 * MINUTE);
    until("it is collected", || parts(&valkey) == 3).await;
    let states: Vec<_> = blobs.generations("bot").await.iter().map(|info| info.state()).collect();
    assert_eq!(states, [Current, Kept, Kept]);
    assert_eq!(blobs.fetch_generation("bot", first).await.unwrap_err().reason, "GENERATION_GONE");
    // Time alone takes nothing else.
    shift(&valkey, 400 * DAY);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(parts(&valkey), 3);
    assert!(blobs.fetch("bot").await.unwrap() == content(4, CHUNK));
}

#[tokio::test]
async fn an_archive_goes_after_seven_days_and_with_it_all_that_is_left() {
    let (valkey, sidecar, blobs) = start().await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "secret")], vec![]).await.unwrap();
    bot.close().await;
    blobs.save("bot", &content(1, CHUNK)).await.unwrap();
    blobs.save("bot", &content(2, CHUNK)).await.unwrap();
    blobs.delete("bot").await.unwrap();
    let shred = pannier::proto::v1::DeleteSessionRequest {
        session: "bot".into(),
        mode: pannier::proto::v1::delete_session_request::Mode::Shred.into(),
        ..Default::default()
    };
    assert!(sidecar.sessions().delete_session(shred).await.unwrap().into_inner().deleted);
    assert_eq!(valkey.keys("*}:h").len(), 1, "the head stays as long as the blob, so that its fences hold");
    shift(&valkey, 6 * DAY);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(parts(&valkey), 2);
    blobs.restore("bot", 0, false).await.unwrap();
    blobs.delete("bot").await.unwrap();
    shift(&valkey, 6 * DAY);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(parts(&valkey), 2, "seven days from the last delete");
    shift(&valkey, DAY + MINUTE);
    until("the parts are gone", || parts(&valkey) == 0).await;
    until("the index is gone", || valkey.keys("*}:b*").is_empty()).await;
    until("the head is gone", || valkey.keys("*}:h").is_empty()).await;
    assert!(!blobs.stat("bot").await.unwrap().exists);
    let session = pannier::proto::v1::GetSessionRequest { session: "bot".into(), ..Default::default() };
    assert!(!sidecar.sessions().get_session(session).await.unwrap().into_inner().exists);
    blobs.save("bot", b"anew").await.unwrap();
    assert_eq!(blobs.fetch("bot").await.unwrap(), b"anew");
}

#[tokio::test]
async fn an_error_is_remembered_for_a_week() {
    let (valkey, _sidecar, blobs) = start().await;
    let saving = blobs.begin(header("bot")).await;
    saving.send(chunk(b"half")).await;
    saving.end().await.unwrap_err();
    until("it is noted", || !valkey.keys("*}:b").is_empty()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    shift(&valkey, 6 * DAY);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(blobs.stat("bot").await.unwrap().last_error.unwrap().reason, "PROTOCOL");
    shift(&valkey, DAY + 3 * MINUTE);
    until("nothing is left", || valkey.keys("*}:b*").is_empty()).await;
    assert!(!blobs.stat("bot").await.unwrap().exists);
}
