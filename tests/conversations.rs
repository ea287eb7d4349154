//! Where each chat is: silence, the ceiling, compare-and-set, and nothing of it in clear.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::HashSet;

use futures_util::future::join_all;
use pannier::proto::v1::{
    self, AdvanceRequest, ListConversationsRequest, advance_request::Expected, advance_response::Outcome,
};
use support::{
    conversations::{go, idle, read, sleep},
    small::{advance, answered, assert_names, at_ms, fields, get, ms, reset, rid, step, touch, ttls},
    start,
};

#[tokio::test]
async fn an_unknown_conversation_is_idle() {
    let (valkey, sidecar) = start().await;
    assert_eq!(read(&sidecar, "nobody").await, idle());
    let touched = sidecar.conversations().touch_conversation(touch("nobody")).await.unwrap().into_inner();
    assert_eq!(touched.state.unwrap(), idle());
    assert_eq!(ttls(&valkey), [], "asking writes nothing");
}

#[tokio::test]
async fn silence_ends_a_conversation_and_each_advance_begins_the_silence_anew() {
    let (_valkey, sidecar) = start().await;
    for n in 0..3 {
        let (outcome, state) =
            go(&sidecar, AdvanceRequest { ttl: ms(1200), ..step("chat", &format!("s{n}")) }).await;
        assert_eq!((outcome, state.step.as_str()), (Outcome::Advanced, format!("s{n}").as_str()));
        sleep(700).await;
    }
    assert_eq!(read(&sidecar, "chat").await.step, "s2");
    let touched = v1::TouchConversationRequest { ttl: ms(1200), ..touch("chat") };
    assert!(
        sidecar.conversations().touch_conversation(touched).await.unwrap().into_inner().state.unwrap().exists
    );
    sleep(700).await;
    let state = read(&sidecar, "chat").await;
    assert!(state.exists, "reading and touching: {state:?}");
    sleep(at_ms(state.expires_at).saturating_sub(now_ms()) + 30).await;
    assert_eq!(read(&sidecar, "chat").await, idle());
}

fn now_ms() -> u64 {
    u64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

#[tokio::test]
async fn the_ceiling_ends_a_conversation_however_lively_it_is() {
    let (_valkey, sidecar) = start().await;
    let (_, first) = go(&sidecar, AdvanceRequest { max_age: ms(1000), ..step("chat", "s") }).await;
    let mut advanced = 1;
    let last = loop {
        sleep(250).await;
        let request = step("chat", "s");
        let (outcome, state) = go(&sidecar, request.clone()).await;
        if outcome == Outcome::Ceiling {
            assert_eq!(state, idle(), "the state is gone");
            break request;
        }
        assert_eq!(state.started_at, first.started_at);
        advanced += 1;
        assert!(advanced < 10, "no ceiling");
    };
    assert!(now_ms() >= at_ms(first.ends_at), "not before its time");
    assert_eq!(read(&sidecar, "chat").await, idle());
    let again = sidecar.conversations().advance(last).await.unwrap().into_inner();
    assert_eq!((again.outcome(), again.replayed), (Outcome::Ceiling, true), "the answer was lost");
    let (outcome, state) = go(&sidecar, step("chat", "s")).await;
    assert_eq!(outcome, Outcome::Advanced, "the next one begins anew");
    assert!(state.version > first.version && state.ends_at.is_none());
    assert!(at_ms(state.started_at) > at_ms(first.started_at));
}

#[tokio::test]
async fn of_several_that_meet_the_ceiling_one_ends_it_and_the_others_begin_anew() {
    let (_valkey, sidecar) = start().await;
    for round in 0..20 {
        let chat = format!("chat {round}");
        let first = AdvanceRequest { max_age: ms(30), ..step(&chat, "old") };
        let (_, old) = go(&sidecar, first).await;
        sleep(60).await;
        let calls: Vec<_> = (0..4)
            .map(|n| {
                let mut client = sidecar.conversations();
                let mut request = step(&chat, "new");
                if n == 0 {
                    request.expected = Some(v1::advance_request::Expected::ExpectedVersion(old.version));
                }
                tokio::spawn(async move { client.advance(request).await.unwrap().into_inner() })
            })
            .collect();
        let mut ceilings = 0;
        for (n, call) in calls.into_iter().enumerate() {
            let answer = call.await.unwrap();
            match answer.outcome() {
                Outcome::Ceiling => ceilings += 1,
                Outcome::Advanced => {
                    assert!(n > 0, "the version that was expected is gone");
                    assert_eq!(answer.state.unwrap().step, "new");
                }
                other => assert!(n == 0 && other == Outcome::Conflict, "{n}: {other:?}"),
            }
        }
        assert_eq!(ceilings, 1);
        assert_eq!(read(&sidecar, &chat).await.step, "new");
    }
}

#[tokio::test]
async fn past_its_ceiling_a_conversation_reads_as_idle() {
    let (_valkey, sidecar) = start().await;
    go(&sidecar, AdvanceRequest { max_age: ms(100), ..step("chat", "s") }).await;
    sleep(150).await;
    assert_eq!(read(&sidecar, "chat").await, idle());
    let touched = sidecar.conversations().touch_conversation(touch("chat")).await.unwrap().into_inner();
    assert_eq!(touched.state.unwrap(), idle());
    assert_eq!(go(&sidecar, step("chat", "s")).await.0, Outcome::Ceiling, "and was not ended by that");
}

#[tokio::test]
async fn of_two_changes_of_one_version_one_is_a_conflict_that_shows_the_other() {
    let (_valkey, sidecar) = start().await;
    let (_, state) = go(&sidecar, step("chat", "asked")).await;
    let at = |text: &str| AdvanceRequest {
        expected: Some(Expected::ExpectedVersion(state.version)),
        ..step("chat", text)
    };
    let both = join_all([go(&sidecar, at("left")), go(&sidecar, at("right"))]).await;
    let (won, lost): (Vec<_>, Vec<_>) =
        both.into_iter().partition(|(outcome, _)| *outcome == Outcome::Advanced);
    assert_eq!((won.len(), lost.len()), (1, 1));
    assert_eq!(lost[0].0, Outcome::Conflict);
    assert_eq!(lost[0].1, won[0].1, "the winner's state");
    // What is expected of a conversation that is not there.
    let none = AdvanceRequest { expected: Some(Expected::ExpectedVersion(0)), ..step("new", "s") };
    assert_eq!(go(&sidecar, none.clone()).await.0, Outcome::Advanced);
    assert_eq!(go(&sidecar, AdvanceRequest { request_id: rid(), ..none }).await.0, Outcome::Conflict);
    let steps = |steps: &[&str]| {
        let steps = steps.iter().map(|step| (*step).to_owned()).collect();
        Some(Expected::ExpectedSteps(v1::ExpectedSteps { steps }))
    };
    let expects = |id: &str, expected| AdvanceRequest { expected, ..step(id, "next") };
    assert_eq!(go(&sidecar, expects("new", steps(&["a", "b"]))).await.0, Outcome::Conflict);
    assert_eq!(go(&sidecar, expects("new", steps(&["a", "s"]))).await.0, Outcome::Advanced);
    assert_eq!(go(&sidecar, expects("fresh", steps(&["idle"]))).await.0, Outcome::Advanced);
}

#[tokio::test]
async fn a_late_worker_does_not_take_the_next_conversation_for_its_own() {
    let (_valkey, sidecar) = start().await;
    let (_, old) = go(&sidecar, step("chat", "s")).await;
    assert!(sidecar.conversations().reset_conversation(reset("chat")).await.unwrap().into_inner().existed);
    let (_, new) = go(&sidecar, step("chat", "s")).await;
    assert!(new.version > old.version);
    let late =
        AdvanceRequest { expected: Some(Expected::ExpectedVersion(old.version)), ..step("chat", "late") };
    assert_eq!(go(&sidecar, late).await.0, Outcome::Conflict);
}

#[tokio::test]
async fn fields_are_set_unset_kept_and_replaced() {
    let (_valkey, sidecar) = start().await;
    let set = |names: &[(&str, &str)]| AdvanceRequest { set: fields(names), ..advance("chat") };
    let (_, state) = go(&sidecar, set(&[("a", "1"), ("b", "2"), ("c", "3")])).await;
    assert_eq!(state.step, "idle", "begun without a step");
    let (_, state) = go(
        &sidecar,
        AdvanceRequest {
            unset: vec!["b".into(), "none".into()],
            step: Some("ask".into()),
            ..set(&[("a", "9"), ("d", "")])
        },
    )
    .await;
    assert_eq!(state.fields, fields(&[("a", "9"), ("c", "3"), ("d", "")]));
    assert_eq!(read(&sidecar, "chat").await, state);
    let (_, state) = go(&sidecar, AdvanceRequest { replace: true, ..set(&[("e", "5")]) }).await;
    assert_eq!((state.fields, state.step.as_str()), (fields(&[("e", "5")]), "ask"));
}

#[tokio::test]
async fn no_change_is_lost_when_many_come_at_once() {
    let (_valkey, sidecar) = start().await;
    for _ in 0..20 {
        let answers = join_all((0..5).map(|n| {
            go(&sidecar, AdvanceRequest { set: fields(&[(&format!("f{n}"), "x")]), ..advance("chat") })
        }))
        .await;
        assert!(answers.iter().all(|(outcome, _)| *outcome == Outcome::Advanced));
        let versions: HashSet<u64> = answers.iter().map(|(_, state)| state.version).collect();
        assert_eq!(versions.len(), 5);
        assert_eq!(read(&sidecar, "chat").await.fields.len(), 5);
        sidecar.conversations().reset_conversation(reset("chat")).await.unwrap();
    }
}

#[tokio::test]
async fn a_change_sent_again_is_made_once() {
    let (_valkey, sidecar) = start().await;
    let first = AdvanceRequest {
        expected: Some(Expected::ExpectedVersion(0)),
        ..AdvanceRequest { set: fields(&[("n", "1")]), ..step("chat", "one") }
    };
    let (_, state) = go(&sidecar, first.clone()).await;
    let again = sidecar.conversations().advance(first.clone()).await.unwrap().into_inner();
    assert_eq!((again.outcome(), again.replayed, again.state.unwrap()), (Outcome::Advanced, true, state));
    let (_, later) = go(&sidecar, step("chat", "two")).await;
    let again = sidecar.conversations().advance(first.clone()).await.unwrap().into_inner();
    assert_eq!((again.replayed, again.state.unwrap()), (true, later), "with the state as it is now");
    let ended = reset("chat");
    assert!(sidecar.conversations().reset_conversation(ended.clone()).await.unwrap().into_inner().existed);
    let again = sidecar.conversations().advance(first).await.unwrap().into_inner();
    assert_eq!((again.outcome(), again.replayed, again.state.unwrap()), (Outcome::Advanced, true, idle()));
    go(&sidecar, step("chat", "three")).await;
    let again = sidecar.conversations().reset_conversation(ended).await.unwrap().into_inner();
    assert!(again.existed && again.replayed);
    assert_eq!(read(&sidecar, "chat").await.step, "three", "the next conversation was not ended");
}

#[tokio::test]
async fn a_conversation_holds_256_kib_and_refuses_more_unchanged() {
    let (_valkey, sidecar) = start().await;
    let large = |bytes: usize| AdvanceRequest {
        set: [("f".to_owned(), vec![b'x'; bytes].into())].into(),
        ..step("chat", "large")
    };
    let (_, state) = go(&sidecar, large(256 * 1024 - 1)).await;
    let refused = answered(sidecar.conversations().advance(large(256 * 1024)).await).unwrap_err();
    assert_eq!((refused.reason.as_str(), &refused.fields[..]), ("TOO_LARGE", &["set".to_owned()][..]));
    assert_eq!(read(&sidecar, "chat").await, state);
    let one_more = AdvanceRequest { set: fields(&[("g", "y")]), ..advance("chat") };
    assert_names(sidecar.conversations().advance(one_more).await, "set");
    let many = (0..1001).map(|n| (n.to_string(), bytes::Bytes::new())).collect();
    assert_names(sidecar.conversations().advance(AdvanceRequest { set: many, ..advance("m") }).await, "set");
}

#[tokio::test]
async fn wrong_input_is_refused_by_its_name_and_writes_nothing() {
    let (valkey, sidecar) = start().await;
    let day = 24 * 3600 * 1000;
    let half = Some(prost_types::Duration { seconds: 1, nanos: 500_000 });
    let long = "x".repeat(129);
    let steps = |steps: Vec<String>| Some(Expected::ExpectedSteps(v1::ExpectedSteps { steps }));
    let bad: Vec<(&str, AdvanceRequest)> = vec![
        ("id", advance("")),
        ("id", advance(&"x".repeat(513))),
        ("namespace", AdvanceRequest { namespace: long.clone(), ..advance("c") }),
        ("request_id", AdvanceRequest { request_id: "short".into(), ..advance("c") }),
        ("step", AdvanceRequest { step: Some(String::new()), ..advance("c") }),
        ("step", step("c", &long)),
        ("ttl", AdvanceRequest { ttl: ms(0), ..advance("c") }),
        ("ttl", AdvanceRequest { ttl: half, ..advance("c") }),
        ("ttl", AdvanceRequest { ttl: ms(400 * day + 1), ..advance("c") }),
        ("max_age", AdvanceRequest { max_age: ms(0), ..advance("c") }),
        (
            "max_age",
            AdvanceRequest {
                max_age: Some(prost_types::Duration { seconds: i64::MAX, nanos: 0 }),
                ..advance("c")
            },
        ),
        ("set", AdvanceRequest { set: fields(&[("", "x")]), ..advance("c") }),
        ("set", AdvanceRequest { set: fields(&[(&long, "x")]), ..advance("c") }),
        ("unset", AdvanceRequest { unset: vec![String::new()], ..advance("c") }),
        ("unset", AdvanceRequest { set: fields(&[("a", "x")]), unset: vec!["a".into()], ..advance("c") }),
        ("expected_steps", AdvanceRequest { expected: steps(vec![]), ..advance("c") }),
        ("expected_steps", AdvanceRequest { expected: steps(vec!["s".into(); 33]), ..advance("c") }),
        (
            "expected_steps.steps[1]",
            AdvanceRequest { expected: steps(vec!["s".into(), String::new()]), ..advance("c") },
        ),
    ];
    for (field, request) in bad {
        assert_names(sidecar.conversations().advance(request).await, field);
    }
    assert_names(sidecar.conversations().get_conversation(get("")).await, "id");
    assert_names(
        sidecar
            .conversations()
            .touch_conversation(v1::TouchConversationRequest { ttl: ms(0), ..touch("c") })
            .await,
        "ttl",
    );
    assert_names(sidecar.conversations().reset_conversation(reset(&"x".repeat(513))).await, "id");
    let list =
        |limit, cursor: &str| ListConversationsRequest { limit, cursor: cursor.into(), ..Default::default() };
    assert_names(sidecar.conversations().list_conversations(list(1001, "")).await, "limit");
    assert_names(sidecar.conversations().list_conversations(list(1, "x")).await, "cursor");
    assert_eq!(ttls(&valkey), [], "nothing was written");
}

#[tokio::test]
async fn any_characters_make_an_id_and_a_field() {
    let (_valkey, sidecar) = start().await;
    let emoji = "😀".repeat(128);
    let ids =
        ["a:b", "*", "{x}", "x", "a b", "5215550001111@s.whatsapp.net", "\u{0}", "A", "a", emoji.as_str()];
    for id in ids {
        go(&sidecar, AdvanceRequest { set: fields(&[(&id[..1.max(id.len().min(4))], id)]), ..step(id, "s") })
            .await;
    }
    for id in ids {
        let state = read(&sidecar, id).await;
        assert_eq!(state.fields.values().next().unwrap(), id, "{id:?}");
    }
    let other = v1::GetConversationRequest { namespace: "other".into(), ..get("x") };
    assert!(
        !sidecar.conversations().get_conversation(other).await.unwrap().into_inner().state.unwrap().exists
    );
}
