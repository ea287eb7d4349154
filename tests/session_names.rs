//! Names of any characters are names, each its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;

use pannier::proto::v1;
use support::{
    Options, Sidecar,
    attach::{Attach, delete, open, put},
    unary::{Unary, answer},
};

const STRANGE: &[&str] = &[
    ":",
    "::",
    "a:b",
    "a",
    "b",
    "/",
    "a/b",
    "..",
    ".",
    "{a}",
    "{}",
    "}{",
    "*",
    "a*",
    "?",
    "[ab]",
    "\\",
    "\\*",
    "+",
    "a+b",
    " ",
    "  ",
    " a",
    "a ",
    "\t",
    "\n",
    "\r\n",
    "\0",
    "a\0",
    "\0a",
    "a\0b",
    "é",
    "e\u{301}",
    "😀",
    "👩‍👩‍👧",
    "%2F",
    "%",
    "\"",
    "'",
    "A",
    "null",
    "0",
    "00",
    "-1",
    "creds",
    "session",
    "pre-key",
    "\u{feff}",
    "\u{202e}a",
    "15551234567.0",
    "15551234567@s.whatsapp.net",
];

#[tokio::test]
async fn ids_and_types_of_any_characters_are_distinct_and_match_nothing_else() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let (mut puts, mut expected) = (Vec::new(), BTreeMap::new());
    for ty in STRANGE {
        for id in STRANGE {
            let value = format!("{ty}|{}|{id}", ty.len()).into_bytes();
            puts.push(put(ty, id, value.clone()));
            expected.insert(((*ty).to_owned(), (*id).to_owned()), value);
        }
    }
    assert_eq!(bot.commit(1, puts, vec![]).await.unwrap().revision, 1);
    for ty in STRANGE {
        let found = bot.get(ty, STRANGE).await.unwrap();
        assert_eq!(found.len(), STRANGE.len());
        for record in found {
            assert_eq!(expected[&(record.r#type, record.id)], record.value);
        }
    }
    let mut listed = BTreeMap::new();
    for record in Unary::of(&sidecar).walk("bot", "", 1000).await {
        listed.insert((record.r#type, record.id), record.value.to_vec());
    }
    assert_eq!(listed, expected);
    let of_star = Unary::of(&sidecar).walk("bot", "*", 1000).await;
    assert_eq!(of_star.len(), STRANGE.len());
    bot.commit(2, vec![], vec![delete("a", "*")]).await.unwrap();
    assert_eq!(bot.value("a", "*").await, None);
    assert!(bot.value("a", "a").await.is_some());
    let counts = Unary::of(&sidecar).info("bot").await.counts;
    assert_eq!(counts.len(), STRANGE.len());
    assert_eq!(counts.iter().map(|one| one.records).sum::<u64>(), expected.len() as u64 - 1);
}

#[tokio::test]
async fn sessions_and_namespaces_of_any_characters_are_distinct() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut expected = BTreeMap::new();
    for namespace in ["", "a", "a:b", "*", "{}", "\0", "é"] {
        for session in ["a", "b", "b:c", "a:b", "*", "?", "{}", "\0", "e\u{301}", "é"] {
            let mut open = open(session, "me");
            open.namespace = namespace.into();
            let mut bot = Attach::open(sidecar.channel(), open).await.unwrap();
            assert!(bot.opened.created, "{namespace:?} {session:?}");
            let value = format!("{namespace}|{session}");
            bot.commit(1, vec![put("creds", "creds", value.clone())], vec![]).await.unwrap();
            bot.close().await;
            expected.insert((namespace.to_owned(), session.to_owned()), value);
        }
    }
    let mut client = Unary::of(&sidecar).client;
    for ((namespace, session), value) in &expected {
        let queries = vec![v1::Query { r#type: "creds".into(), ids: vec!["creds".into()] }];
        let request =
            v1::GetRecordsRequest { namespace: namespace.clone(), session: session.clone(), queries };
        let found = answer(client.get_records(request).await).unwrap().records;
        assert_eq!(found[0].value, value.as_bytes());
        let request = v1::ListSessionsRequest { namespace: namespace.clone(), ..Default::default() };
        let listed = answer(client.list_sessions(request).await).unwrap().sessions;
        assert_eq!(listed.len(), 10);
    }
    // "" is the namespace "default", and only that.
    let request = v1::GetSessionRequest { namespace: "default".into(), session: "a".into() };
    assert!(answer(client.get_session(request).await).unwrap().exists);
}

#[tokio::test]
async fn a_session_has_at_most_64_types_of_its_own() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let of =
        |from: usize, to: usize| (from..to).map(|n| put(&format!("own-{n}"), "1", "x")).collect::<Vec<_>>();
    bot.commit(1, of(0, 60), vec![]).await.unwrap();
    let refused = bot.commit(2, of(58, 65), vec![]).await.unwrap_err();
    assert_eq!((refused.reason.as_str(), refused.fields), ("TOO_LARGE", vec!["commit.puts".to_owned()]));
    assert_eq!(bot.value("own-60", "1").await, None);
    bot.commit(2, of(58, 64), vec![]).await.unwrap();
    assert_eq!(bot.commit(3, of(64, 65), vec![]).await.unwrap_err().reason, "TOO_LARGE");
    bot.commit(3, vec![put("creds", "creds", "x"), put("own-0", "2", "x")], vec![]).await.unwrap();
    assert_eq!(Unary::of(&sidecar).info("bot").await.counts.len(), 65);
}
