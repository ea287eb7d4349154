//! Sessions from the outside: the built binary, its socket, a real Valkey.

mod support;

use pannier::proto::v1::{self, attach_response::Event};
use support::{
    Options, Sidecar,
    attach::{Attach, Refused, delete, open, put},
};
use tonic::Code;

#[tokio::test]
async fn what_was_acknowledged_is_there_after_the_sidecar_was_killed() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot-1", "me")).await.unwrap();
    assert!(bot.opened.created);
    let committed = bot
        .commit(1, vec![put("creds", "creds", "secret"), put("session", "1.0", vec![7; 3000])], vec![])
        .await;
    let committed = committed.unwrap();
    assert_eq!((committed.base_revision, committed.revision), (0, 1));
    assert_eq!(committed.durability(), v1::Durability::Fsync);
    assert_eq!(bot.value("session", "1.0").await, Some(vec![7; 3000]));
    assert_eq!(bot.value("session", "2.0").await, None);
    sidecar.kill9();
    sidecar.restart().await;
    let mut bot = Attach::open(sidecar.channel(), open("bot-1", "me")).await.unwrap();
    assert!(!bot.opened.created);
    assert_eq!((bot.opened.revision, bot.opened.last_op_seq), (1, 1));
    assert_eq!(bot.value("creds", "creds").await, Some(b"secret".to_vec()));
    let types: Vec<_> =
        bot.opened.counts.iter().map(|count| (count.r#type.as_str(), count.records)).collect();
    assert_eq!(types, [("creds", 1), ("session", 1)]);
    bot.commit(2, vec![], vec![delete("session", "1.0")]).await.unwrap();
    assert_eq!(bot.value("session", "1.0").await, None);
    bot.close().await;
}

#[tokio::test]
async fn a_taken_over_owner_is_told_and_its_next_write_is_refused() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut first = Attach::open(sidecar.channel(), open("bot-1", "first")).await.unwrap();
    first.commit(1, vec![put("creds", "creds", "first")], vec![]).await.unwrap();

    let held = Attach::open(sidecar.channel(), open("bot-1", "second")).await.err().unwrap();
    assert_eq!((held.code, held.reason.as_str()), (Code::FailedPrecondition, "SESSION_HELD"));
    assert_eq!(held.metadata["owner"], "first");

    let take = v1::Open { on_held: v1::OnHeld::TakeOver.into(), ..open("bot-1", "second") };
    let mut second = Attach::open(sidecar.channel(), take).await.unwrap();
    let refused: Refused = first.commit(2, vec![put("creds", "creds", "late")], vec![]).await.unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Aborted, "FENCED"));
    assert_eq!(second.value("creds", "creds").await, Some(b"first".to_vec()));
    assert_eq!(second.commit(1, vec![put("creds", "creds", "second")], vec![]).await.unwrap().revision, 2);
    let lost = first.push(|event| matches!(event, Event::LeaseLost(_))).await;
    let Event::LeaseLost(lost) = lost else { unreachable!() };
    assert_eq!(lost.reason(), v1::lease_lost::Reason::TakenOver);
}
