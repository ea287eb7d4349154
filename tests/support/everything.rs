//! Every capability, used once for twenty owners each, with what comes of it checked.

use pannier::proto::v1;

use super::{
    Sidecar,
    attach::{Attach, open, put},
    blob, caps, conversations, schedule,
    small::{answered, claim, complete, consume, get, step},
};

pub async fn use_everything(sidecar: &Sidecar) {
    for number in 0..20 {
        let bot = format!("bot-{number}");
        let mut attach = Attach::open(sidecar.channel(), open(&bot, "me")).await.unwrap();
        attach
            .commit(1, vec![put("creds", "self", *b"v"), put("session", "1.0", *b"w")], Vec::new())
            .await
            .unwrap();
        assert_eq!(attach.value("session", "1.0").await.unwrap(), b"w");
        attach.close().await;

        let content = blob::content(number, 300_000);
        sidecar.blobs().save(&bot, &content).await.unwrap();
        assert_eq!(sidecar.blobs().fetch(&bot).await.unwrap(), content);

        let claimed = answered(sidecar.dedup().claim(claim(&bot)).await).unwrap();
        answered(sidecar.dedup().complete_claim(complete(&bot, claimed.fence, b"done")).await).unwrap();
        conversations::go(sidecar, step(&bot, "asked")).await;
        assert_eq!(
            answered(sidecar.conversations().get_conversation(get(&bot)).await).unwrap().state.unwrap().step,
            "asked"
        );

        let queue = schedule::Queue::of(sidecar, &bot);
        queue.add(schedule::job("one")).await;
        let jobs = queue.take(5).await;
        assert_eq!(jobs.len(), 1);
        assert_eq!(queue.ack(&jobs[0]).await, v1::SettleOutcome::Ok);
    }
    caps::make(sidecar, caps::policy("daily", caps::daily(2))).await;
    for (number, allowed) in [(0, true), (1, true), (2, false)] {
        let answer = caps::ask(sidecar, consume(&format!("send-{number}"), &["daily"])).await;
        assert_eq!(answer.outcome() == v1::consume_response::Outcome::Allowed, allowed);
    }

    let listed =
        answered(sidecar.sessions().list_sessions(v1::ListSessionsRequest::default()).await).unwrap();
    assert_eq!(listed.sessions.len(), 20);
    assert_eq!(sidecar.blobs().list(false).await.blobs.len(), 20);
    let all = v1::ListConversationsRequest::default();
    let listed = answered(sidecar.conversations().list_conversations(all).await).unwrap();
    assert_eq!(listed.conversations.len(), 20);
}

/// What [`use_everything`] left behind is there, in another place or under another name; `sessions`: they and the blobs too.
pub async fn still_there(sidecar: &Sidecar, sessions: bool) {
    let listed =
        answered(sidecar.sessions().list_sessions(v1::ListSessionsRequest::default()).await).unwrap();
    assert_eq!(listed.sessions.len(), if sessions { 20 } else { 0 });
    assert_eq!(sidecar.blobs().list(false).await.blobs.len(), if sessions { 20 } else { 0 });
    for number in 0..20 {
        let bot = format!("bot-{number}");
        let mut attach = Attach::open(sidecar.channel(), open(&bot, "me")).await.unwrap();
        if sessions {
            assert_eq!(attach.value("session", "1.0").await.unwrap(), b"w");
            assert_eq!(sidecar.blobs().fetch(&bot).await.unwrap(), blob::content(number, 300_000));
        }
        // And it can be written.
        attach.commit(1, vec![put("creds", "self", *b"new")], Vec::new()).await.unwrap();
        attach.close().await;
        // Claimed, done, and its result is kept.
        let claimed = answered(sidecar.dedup().claim(claim(&bot)).await).unwrap();
        assert_eq!(claimed.outcome(), v1::claim_response::Outcome::Duplicate, "{bot}");
        assert_eq!(
            answered(sidecar.conversations().get_conversation(get(&bot)).await).unwrap().state.unwrap().step,
            "asked"
        );
    }
    // Both sends of the day are used up, whatever the name of the third.
    let answer = caps::ask(sidecar, consume("send-later", &["daily"])).await;
    assert_ne!(answer.outcome(), v1::consume_response::Outcome::Allowed);
}
