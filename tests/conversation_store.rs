//! Conversations as they are stored: listed, sealed, small, and gone with their Valkey.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use pannier::proto::v1::{self, AdvanceRequest, ListConversationsRequest, advance_response::Outcome};
use support::{
    conversations::{go, idle, read, sleep},
    leak::Watch,
    small::{advance, answered, assert_unavailable, fields, get, memory, ms, reset, step, ttls},
    start,
};

#[tokio::test]
async fn ten_thousand_conversations_are_listed_in_pages_and_valkey_stays_responsive() {
    let (valkey, sidecar) = start().await;
    let mut pipe = support::small::Pipe::open(&sidecar).await;
    for chunk in 0..50 {
        for n in 0..200 {
            let request = step(&format!("chat-{}", chunk * 200 + n), "s");
            pipe.send(v1::pipe_request::Call::Advance(request)).await;
        }
        for _ in 0..200 {
            pipe.next().await.unwrap().1.unwrap();
        }
    }
    go(&sidecar, AdvanceRequest { namespace: "other".into(), ..step("not this", "s") }).await;
    let (mut seen, mut cursor, mut slowest) = (HashSet::new(), String::new(), Duration::ZERO);
    let mut pages = 0;
    loop {
        let request = ListConversationsRequest { cursor, limit: 500, ..Default::default() };
        let asked = tokio::spawn({
            let mut client = sidecar.conversations();
            async move { client.list_conversations(request).await.unwrap().into_inner() }
        });
        while !asked.is_finished() {
            let begun = Instant::now();
            let _: String = valkey.command(&["PING"]);
            slowest = slowest.max(begun.elapsed());
            sleep(2).await;
        }
        let page = asked.await.unwrap();
        pages += 1;
        seen.extend(page.conversations.into_iter().map(|one| one.id));
        cursor = page.cursor;
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(seen.len(), 10_000);
    assert!(pages >= 10 && !seen.contains("not this"));
    assert!(slowest < Duration::from_millis(500), "a PING took {slowest:?}");
    let commands: String = valkey.command(&["INFO", "commandstats"]);
    let scans = commands.lines().find(|line| line.starts_with("cmdstat_scan:")).unwrap();
    assert!(!commands.contains("cmdstat_keys:calls=1,") && scans.contains("calls="), "{scans}");
}

#[tokio::test]
async fn nothing_of_a_conversation_is_in_clear_and_every_key_has_a_ttl() {
    let (valkey, sidecar) = start().await;
    let watch = Watch::begin(&valkey);
    let (canary, text) = ("5215550001111", "Zebulon Quaverwing");
    let id = format!("{canary}@s.whatsapp.net");
    for n in 0..10 {
        let request = AdvanceRequest {
            namespace: canary.into(),
            request_id: format!("request-{canary}-{n}"),
            set: fields(&[(text, canary), (canary, text), ("long", &text.repeat(100))]),
            ..step(&format!("{id}{n}"), text)
        };
        go(&sidecar, request).await;
    }
    let request = v1::ResetConversationRequest { namespace: canary.into(), ..reset(&format!("{id}0")) };
    sidecar.conversations().reset_conversation(request).await.unwrap();
    let keys = ttls(&valkey);
    assert_eq!(keys.len(), 10);
    assert!(keys.iter().all(|(_, ttl)| *ttl > 0));
    watch.assert_nowhere(&valkey, &sidecar, &[canary, text]);
}

/// The record of another conversation under this one's name, and one that was altered.
#[tokio::test]
async fn what_was_moved_or_altered_is_data_loss_and_never_another_chat() {
    let (valkey, sidecar) = start().await;
    go(&sidecar, AdvanceRequest { set: fields(&[("a", "1")]), ..step("one", "s") }).await;
    let one = ttls(&valkey).pop().unwrap().0;
    go(&sidecar, AdvanceRequest { set: fields(&[("b", "2")]), ..step("two", "s") }).await;
    let two = ttls(&valkey).into_iter().map(|(key, _)| key).find(|key| *key != one).unwrap();
    let mut connection = valkey.connection();
    let moved: Vec<u8> = redis::cmd("GET").arg(&two).query(&mut connection).unwrap();
    let _: () = redis::cmd("SET").arg(&one).arg(&moved).arg("KEEPTTL").query(&mut connection).unwrap();
    let refused = answered(sidecar.conversations().get_conversation(get("one")).await).unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (tonic::Code::DataLoss, "CORRUPT_RECORD"));
    let refused = answered(sidecar.conversations().advance(step("one", "s")).await).unwrap_err();
    assert_eq!(refused.reason, "CORRUPT_RECORD", "and is not written over");
    sidecar.conversations().reset_conversation(reset("one")).await.unwrap();
    assert_eq!(read(&sidecar, "one").await, idle(), "a reset ends it");
    assert_eq!(read(&sidecar, "two").await.fields, fields(&[("b", "2")]));
}

/// Beside a hash with the same step and fields, the instants as the recipe keeps them, and EXPIRE.
#[tokio::test]
async fn a_conversation_takes_at_most_160_bytes_more_than_the_recipe() {
    let (valkey, sidecar) = start().await;
    let id = "5215550001111@s.whatsapp.net";
    let (name, size) = ("María Fernández", "2 large, 1 small");
    let plain = format!("conv:{id}");
    let _: i64 = valkey.command(&[
        "HSET",
        &plain,
        "step",
        "awaiting_address",
        "name",
        name,
        "order",
        size,
        "started_at",
        "1764436789123",
        "updated_at",
        "1764436790456",
    ]);
    let _: i64 = valkey.command(&["EXPIRE", &plain, "1800"]);
    let recipe = memory(&valkey, plain.as_bytes());
    let request =
        AdvanceRequest { set: fields(&[("name", name), ("order", size)]), ..step(id, "awaiting_address") };
    go(&sidecar, AdvanceRequest { max_age: ms(3_600_000), ..request }).await;
    let key = ttls(&valkey).into_iter().map(|(key, _)| key).find(|key| key.ends_with(b":s")).unwrap();
    let first = memory(&valkey, &key);
    for _ in 0..5 {
        go(&sidecar, advance(id)).await;
    }
    let full = memory(&valkey, &key);
    println!("recipe {recipe}, new {first}, with four request ids {full}");
    assert!(first <= recipe + 160 && full <= recipe + 160, "recipe {recipe}, new {first}, full {full}");
}

#[tokio::test]
async fn without_valkey_a_conversation_is_unavailable_and_comes_back() {
    let (mut valkey, sidecar) = start().await;
    go(&sidecar, step("chat", "s")).await;
    valkey.kill9();
    let mut request = tonic::Request::new(get("chat"));
    request.set_timeout(Duration::from_millis(1500));
    let refused = answered(sidecar.conversations().get_conversation(request).await).unwrap_err();
    assert_unavailable(&refused);
    valkey.spawn();
    assert_eq!(read(&sidecar, "chat").await.step, "s");
}

/// What a sidecar knows of a conversation is out of date when another one has changed it, or when the database was set back.
#[tokio::test]
async fn a_change_never_begins_with_what_is_out_of_date() {
    let (valkey, one) = start().await;
    let two = one.beside("two.sock").await;
    let set = |name: &str| AdvanceRequest { set: fields(&[(name, "1")]), ..advance("chat") };
    let (_, first) = go(&one, set("a")).await;
    let (_, second) = go(&two, set("b")).await;
    let (outcome, third) = go(&one, set("c")).await;
    assert_eq!(outcome, Outcome::Advanced);
    assert_eq!(names(&third), ["a", "b", "c"]);
    assert!(first.version < second.version && second.version < third.version);

    // Both sidecars go on from a copy: what the first one knows has the version, and not the state, of what is there.
    let key = valkey.keys("*:s")[0].clone();
    let mut connection = valkey.connection();
    let copy: Vec<u8> = redis::cmd("DUMP").arg(&key).query(&mut connection).unwrap();
    let (_, lost) = go(&one, set("lost")).await;
    redis::cmd("RESTORE").arg(&key).arg(600_000).arg(&copy).arg("REPLACE").exec(&mut connection).unwrap();
    let (_, other) = go(&two, set("d")).await;
    assert_eq!(other.version, lost.version);
    let (_, merged) = go(&one, set("e")).await;
    assert_eq!(names(&merged), ["a", "b", "c", "d", "e"]);
}

fn names(state: &v1::ConversationState) -> Vec<&str> {
    let mut names: Vec<_> = state.fields.keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}
