//! Listings: of records while they are written, of sessions and archives over many pages.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use pannier::proto::v1::{self, delete_session_request::Mode};
use support::{
    Options, Sidecar,
    attach::{Attach, delete, open, put},
    unary::{Unary, answer},
};

/// Every type of Baileys, and one that nobody knows.
const TYPES: [&str; 12] = [
    "creds",
    "pre-key",
    "session",
    "sender-key",
    "sender-key-memory",
    "app-state-sync-key",
    "app-state-sync-version",
    "lid-mapping",
    "device-list",
    "tctoken",
    "identity-key",
    "foo-bar",
];

#[tokio::test]
async fn a_walk_gives_what_was_there_all_along_while_others_come_and_go() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let stay: BTreeSet<String> = (0..1000).map(|n| format!("stay-{n}")).collect();
    let mut puts: Vec<_> = stay.iter().map(|id| put("session", id, id.as_bytes())).collect();
    puts.extend((0..2000).map(|n| put("session", &format!("go-{n}"), "x")));
    bot.commit(1, puts, vec![]).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let churn = tokio::spawn({
        let done = done.clone();
        async move {
            let mut op_seq = 1;
            while !done.load(Ordering::Relaxed) {
                // Away in large steps and back in large steps, so that a step of the walk reaches less far, then further.
                for chunk in 0..10 {
                    let ids = (0..200).map(|n| format!("go-{}", n * 10 + chunk));
                    op_seq += 1;
                    if (op_seq / 10) % 2 == 0 {
                        let deletes = ids.map(|id| delete("session", &id)).collect();
                        bot.commit(op_seq, vec![], deletes).await.unwrap();
                    } else {
                        let puts = ids.map(|id| put("session", &id, "y")).collect();
                        bot.commit(op_seq, puts, vec![]).await.unwrap();
                    }
                }
            }
            op_seq
        }
    });
    let mut reader = Unary::of(&sidecar);
    for (ty, limit) in [("session", 50), ("", 30), ("", 0), ("session", 100), ("session", 20), ("", 1000)] {
        let found = reader.walk("bot", ty, limit).await;
        let seen: BTreeSet<String> = found.into_iter().map(|one| one.id).collect();
        let missing: Vec<_> = stay.difference(&seen).collect();
        assert!(missing.is_empty(), "type {ty:?}, limit {limit}: {missing:?}");
    }
    done.store(true, Ordering::Relaxed);
    assert!(churn.await.unwrap() > 20);
}

/// openclaw PR#118610: listing, counting and clearing cover every type, also one that nobody knows.
#[tokio::test]
async fn every_type_is_listed_counted_and_cleared() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let mut unary = Unary::of(&sidecar);
    let mut puts = Vec::new();
    for (n, ty) in TYPES.iter().enumerate() {
        puts.extend((0..=n * 40).map(|id| put(ty, &id.to_string(), format!("{ty} {id}"))));
    }
    bot.commit(1, puts, vec![]).await.unwrap();
    let mut all = BTreeMap::new();
    for (n, ty) in TYPES.iter().enumerate() {
        let found = unary.walk("bot", ty, 33).await;
        let ids: BTreeSet<_> = found.iter().map(|one| one.id.clone()).collect();
        assert_eq!((ids.len(), found.len()), (n * 40 + 1, n * 40 + 1), "{ty}: each once while nobody writes");
        assert!(found.iter().all(|one| one.r#type == *ty && one.value == format!("{ty} {}", one.id)));
        all.insert((*ty).to_owned(), found.len() as u64);
        // The same through the stream.
        let (mut streamed, mut cursor) = (0, String::new());
        loop {
            let list = v1::List { r#type: (*ty).into(), cursor, limit: 100, ids_only: true };
            let (page, next, corrupt) = bot.list(list).await.unwrap();
            assert_eq!(corrupt, 0);
            assert!(page.len() <= 100 && page.iter().all(|one| one.value.is_empty() && !one.id.is_empty()));
            streamed += page.len();
            cursor = next;
            if cursor.is_empty() {
                break;
            }
        }
        assert_eq!(streamed, found.len());
    }
    assert_eq!(unary.walk("bot", "nobody's", 1000).await, []);
    let counts: BTreeMap<_, _> =
        unary.info("bot").await.counts.into_iter().map(|one| (one.r#type, one.records)).collect();
    assert_eq!(counts, all);
    bot.clear(2).await.unwrap();
    assert_eq!(unary.walk("bot", "", 1000).await, []);
    assert_eq!(unary.info("bot").await.counts, []);
    let archived: BTreeMap<_, _> = unary.session("bot").await.unwrap().archives[0]
        .counts
        .iter()
        .map(|one| (one.r#type.clone(), one.records))
        .collect();
    assert_eq!(archived, all);
}

async fn make(sidecar: &Sidecar, namespace: &str, session: &str) {
    let open = v1::Open { namespace: namespace.into(), ..open(session, "me") };
    let mut bot = Attach::open(sidecar.channel(), open).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "x")], vec![]).await.unwrap();
    bot.close().await;
}

#[tokio::test]
async fn three_hundred_sessions_of_two_namespaces_are_listed_once_each_in_pages() {
    let sidecar = Arc::new(Sidecar::start(Options::default()).await);
    let mut tasks = Vec::new();
    for worker in 0..6 {
        let sidecar = sidecar.clone();
        tasks.push(tokio::spawn(async move {
            for n in (worker..300).step_by(6) {
                make(&sidecar, if n % 3 == 0 { "one" } else { "two" }, &format!("bot-{n}")).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut client = Unary::of(&sidecar).client;
    for (namespace, count) in [("one", 100), ("two", 200), ("three", 0), ("", 0)] {
        for limit in [1, 7, 0, 1000] {
            if limit == 1 && namespace == "two" {
                continue;
            }
            let (mut seen, mut cursor) = (BTreeSet::new(), String::new());
            loop {
                let request = v1::ListSessionsRequest { namespace: namespace.into(), cursor, limit };
                let page = answer(client.list_sessions(request).await).unwrap();
                assert!(page.sessions.len() <= if limit == 0 { 100 } else { limit as usize });
                assert_eq!(page.corrupt, 0);
                for info in page.sessions {
                    assert_eq!((info.namespace.as_str(), info.revision), (namespace, 1));
                    assert_eq!(info.counts[0].records, 1);
                    assert!(!info.lease.is_some_and(|lease| lease.live));
                    assert!(seen.insert(info.session), "each once");
                }
                cursor = page.cursor;
                if cursor.is_empty() {
                    break;
                }
            }
            assert_eq!(seen.len(), count, "{namespace} by {limit}");
        }
    }
    // Archives of a third of them, and of one twice.
    for n in (0..300).step_by(3) {
        let request = v1::DeleteSessionRequest {
            namespace: "one".into(),
            session: format!("bot-{n}"),
            ..Default::default()
        };
        assert!(answer(client.delete_session(request).await).unwrap().deleted);
    }
    make(&sidecar, "one", "bot-0-again").await;
    let (mut archives, mut cursor) = (Vec::new(), String::new());
    loop {
        let request =
            v1::ListDeletedRequest { namespace: "one".into(), cursor, limit: 30, ..Default::default() };
        let page = answer(client.list_deleted(request).await).unwrap();
        archives.extend(page.archives.into_iter().map(|one| one.session));
        cursor = page.cursor;
        if cursor.is_empty() {
            break;
        }
    }
    archives.sort();
    archives.dedup();
    assert_eq!(archives.len(), 100);
    let request = v1::ListSessionsRequest { namespace: "one".into(), ..Default::default() };
    let left = answer(client.list_sessions(request).await).unwrap().sessions;
    assert_eq!(left.iter().map(|one| one.session.as_str()).collect::<Vec<_>>(), ["bot-0-again"]);
    let request =
        v1::ListDeletedRequest { namespace: "one".into(), session: "bot-3".into(), ..Default::default() };
    assert_eq!(answer(client.list_deleted(request).await).unwrap().archives.len(), 1);
    let request = v1::ListDeletedRequest { namespace: "two".into(), ..Default::default() };
    assert_eq!(answer(client.list_deleted(request).await).unwrap().archives, []);
}

#[tokio::test]
async fn what_is_known_of_a_session_is_told_without_opening_it() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut unary = Unary::of(&sidecar);
    let none = unary.session("bot").await.unwrap();
    assert!(!none.exists && none.session.is_none() && none.archives.is_empty());
    let before = jiff::Timestamp::now().as_second();
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let info = unary.info("bot").await;
    assert_eq!((info.revision, info.last_write_at, info.counts.len()), (0, None, 0));
    assert!((before - 1..before + 5).contains(&info.created_at.unwrap().seconds));
    // Nothing in the clear that a value would not explain: bytes are as stored.
    bot.commit(1, vec![put("session", "1", vec![0; 10]), put("session", "2", vec![0; 10_000])], vec![])
        .await
        .unwrap();
    let info = unary.info("bot").await;
    let count = &info.counts[0];
    assert_eq!((count.r#type.as_str(), count.records), ("session", 2));
    assert!(count.bytes > 2 * 88 && count.bytes < 1000, "{}", count.bytes);
    assert!(info.last_write_at.unwrap().seconds >= info.created_at.unwrap().seconds);
    assert_eq!((info.incarnation, info.fence), (bot.opened.incarnation, bot.opened.fence));
    let lease = info.lease.unwrap();
    assert_eq!((lease.owner.as_str(), lease.fence, lease.live), ("me", bot.opened.fence, true));
    bot.commit(2, vec![put("session", "1", "x")], vec![delete("session", "2"), delete("session", "3")])
        .await
        .unwrap();
    let smaller = unary.info("bot").await;
    assert_eq!(smaller.counts[0].records, 1);
    assert!(smaller.counts[0].bytes < count.bytes);
    bot.commit(3, vec![], vec![delete("session", "1")]).await.unwrap();
    assert_eq!(unary.info("bot").await.counts, []);
    bot.close().await;
    assert!(unary.info("bot").await.lease.is_none());
    unary.delete("bot", Mode::Soft).await.unwrap();
    assert_eq!(unary.session("bot").await.unwrap().archives[0].revision, 3);
}
