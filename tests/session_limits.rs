//! Bad input is INVALID_ARGUMENT naming the field, before anything is written; and what is allowed is allowed to the last byte.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;

use pannier::proto::v1::{self, AttachRequest, attach_request::Op, attach_response::Event};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, Refused, delete, open, put},
    unary::{Unary, answer},
};
use tonic::Code;

/// Everything that is stored of any session.
fn stored(valkey: &Valkey) -> BTreeMap<String, Vec<u8>> {
    let mut keys: Vec<String> = valkey.command(&["KEYS", "pannier:test:{*"]);
    keys.extend(valkey.command::<Vec<String>>(&["KEYS", "pannier:test:idx:session:*"]));
    keys.into_iter().map(|key| (key.clone(), valkey.command(&["DUMP", &key]))).collect()
}

fn span(seconds: i64, nanos: i32) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos }
}

fn check(refused: &Refused, field: &str) {
    assert_eq!(refused.code, Code::InvalidArgument, "{field}: {refused:?}");
    assert!(matches!(refused.reason.as_str(), "BAD_FIELD" | "TOO_LARGE"), "{field}: {refused:?}");
    assert_eq!(refused.fields, [field], "{refused:?}");
}

#[tokio::test]
async fn an_open_out_of_bounds_names_the_field_and_makes_nothing() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let before = stored(&valkey);
    let base = || open("bot", "me");
    let long = |len: usize| "x".repeat(len);
    let cases: Vec<(&str, v1::Open)> = vec![
        ("open.session", v1::Open { session: String::new(), ..base() }),
        ("open.session", v1::Open { session: long(513), ..base() }),
        ("open.owner", v1::Open { owner: String::new(), ..base() }),
        ("open.owner", v1::Open { owner: long(513), ..base() }),
        ("open.writer_id", v1::Open { writer_id: long(513), ..base() }),
        ("namespace", v1::Open { namespace: long(129), ..base() }),
        ("open.on_held", v1::Open { on_held: 9, ..base() }),
        ("open.wait_timeout", v1::Open { wait_timeout: Some(span(-1, 0)), ..base() }),
        ("open.wait_timeout", v1::Open { wait_timeout: Some(span(600, 1)), ..base() }),
        ("open.lease_ttl", v1::Open { lease_ttl: Some(span(2, 999_999_999)), ..base() }),
        ("open.lease_ttl", v1::Open { lease_ttl: Some(span(600, 1)), ..base() }),
        ("open.lease_ttl", v1::Open { lease_ttl: Some(span(i64::MAX, i32::MAX)), ..base() }),
        ("open.preload_types", v1::Open { preload_types: vec!["creds".into(); 17], ..base() }),
        ("open.preload_types[1]", v1::Open { preload_types: vec!["creds".into(), String::new()], ..base() }),
        ("open.preload_types[0]", v1::Open { preload_types: vec![long(129)], ..base() }),
    ];
    for (field, open) in cases {
        check(&Attach::open(sidecar.channel(), open).await.err().unwrap(), field);
    }
    let late = Attach::open_with(sidecar.channel(), base(), 120_001).await.err().unwrap();
    check(&late, "timeout_ms");
    for op in [None, Some(Op::Get(v1::Get::default())), Some(Op::Close(v1::Close {}))] {
        let first = AttachRequest { seq: 1, timeout_ms: 0, op };
        let refused = Attach::start(sidecar.channel(), first).await.unwrap().end().await.unwrap_err();
        check(&refused, "op");
    }
    assert_eq!(stored(&valkey), before);
    let most = v1::Open {
        namespace: long(128),
        session: long(512),
        owner: long(512),
        writer_id: long(512),
        lease_ttl: Some(span(600, 0)),
        wait_timeout: Some(span(600, 0)),
        preload_types: vec![long(128); 16],
        ..base()
    };
    assert!(Attach::open(sidecar.channel(), most).await.unwrap().opened.created);
}

#[tokio::test]
async fn a_request_out_of_bounds_names_the_field_and_the_stream_goes_on() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot =
        Attach::open(sidecar.channel(), v1::Open { lease_ttl: Some(span(600, 0)), ..open("bot", "me") })
            .await
            .unwrap();
    bot.commit(1, vec![put("session", "1", "x")], vec![]).await.unwrap();
    // A renewal may still be on its way; the next is minutes off.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let before = stored(&valkey);
    let long = |len: usize| "x".repeat(len);
    let get = |ty: &str, ids: Vec<String>| {
        let other = v1::Query { r#type: "session".into(), ids: vec!["1".into()] };
        Op::Get(v1::Get { queries: vec![other, v1::Query { r#type: ty.into(), ids }] })
    };
    let commit = |puts: Vec<v1::Put>, deletes| {
        Op::Commit(v1::Commit { op_seq: 2, puts, deletes, ..Default::default() })
    };
    let good = || put("session", "2", "x");
    let kind = |kind| {
        let mut put = good();
        put.record.as_mut().unwrap().kind = kind;
        put
    };
    let with = |attributes| {
        Op::Commit(v1::Commit {
            op_seq: 2,
            puts: vec![good()],
            attributes: Some(attributes),
            ..Default::default()
        })
    };
    let labels = |labels: Vec<(String, String)>| v1::Attributes {
        labels: labels.into_iter().collect(),
        ..Default::default()
    };
    let cases: Vec<(&str, Option<Op>)> = vec![
        ("op", None),
        ("get.queries[1].type", Some(get("", vec!["1".into()]))),
        ("get.queries[1].type", Some(get(&long(129), vec![]))),
        ("get.queries[1].ids[0]", Some(get("session", vec![String::new()]))),
        ("get.queries[1].ids[1]", Some(get("session", vec!["1".into(), long(513)]))),
        ("get.queries", Some(get("session", vec!["1".into(); 1000]))),
        ("list.type", Some(Op::List(v1::List { r#type: long(129), ..Default::default() }))),
        ("limit", Some(Op::List(v1::List { limit: 1001, ..Default::default() }))),
        ("cursor", Some(Op::List(v1::List { cursor: "!".into(), ..Default::default() }))),
        ("cursor", Some(Op::List(v1::List { cursor: "AAAA".into(), ..Default::default() }))),
        ("commit.puts[1].record", Some(commit(vec![good(), v1::Put::default()], vec![]))),
        ("commit.puts[0].record.type", Some(commit(vec![put("", "1", "x")], vec![]))),
        ("commit.puts[0].record.type", Some(commit(vec![put(&long(129), "1", "x")], vec![]))),
        ("commit.puts[0].record.id", Some(commit(vec![put("session", "", "x")], vec![]))),
        ("commit.puts[1].record.id", Some(commit(vec![good(), put("session", &long(513), "x")], vec![]))),
        ("commit.puts[0].record.kind", Some(commit(vec![kind(4)], vec![]))),
        ("commit.puts[0].record.kind", Some(commit(vec![kind(-1)], vec![]))),
        ("commit.deletes[0].type", Some(commit(vec![good()], vec![delete("", "1")]))),
        ("commit.deletes[1].id", Some(commit(vec![], vec![delete("session", "1"), delete("session", "")]))),
        ("commit", Some(commit(vec![good(), good()], vec![]))),
        ("commit", Some(commit(vec![good()], vec![delete("session", "2")]))),
        ("commit", Some(commit(vec![], vec![delete("session", "2"), delete("session", "2")]))),
        ("commit.op_seq", Some(Op::Commit(v1::Commit { puts: vec![good()], ..Default::default() }))),
        (
            "commit.writer_id",
            Some(Op::Commit(v1::Commit { op_seq: 1, writer_id: long(513), ..Default::default() })),
        ),
        (
            "commit.min_durability",
            Some(Op::Commit(v1::Commit { op_seq: 2, min_durability: 5, ..Default::default() })),
        ),
        ("commit.attributes.labels", Some(with(labels(vec![(String::new(), "x".into())])))),
        ("commit.attributes.labels", Some(with(labels(vec![(long(65), "x".into())])))),
        ("commit.attributes.labels", Some(with(labels(vec![("x".into(), long(257))])))),
        (
            "commit.attributes.labels",
            Some(with(labels((0..17).map(|n| (n.to_string(), "x".into())).collect()))),
        ),
        ("clear.op_seq", Some(Op::Clear(v1::ClearSession::default()))),
        (
            "clear.writer_id",
            Some(Op::Clear(v1::ClearSession { op_seq: 2, writer_id: long(513), ..Default::default() })),
        ),
    ];
    let mut seq = 10;
    for (field, op) in cases {
        seq += 1;
        bot.send_raw(AttachRequest { seq, timeout_ms: 0, op }).await;
        check(&bot.reply(seq).await.unwrap_err(), field);
    }
    bot.send_raw(AttachRequest { seq: 100, timeout_ms: 120_001, op: Some(get("session", vec![])) }).await;
    check(&bot.reply(100).await.unwrap_err(), "timeout_ms");
    for seq in [100, 50] {
        bot.send_raw(AttachRequest { seq, timeout_ms: 0, op: Some(commit(vec![good()], vec![])) }).await;
        check(&bot.reply(seq).await.unwrap_err(), "seq");
    }
    bot.send_raw(AttachRequest { seq: 0, timeout_ms: 0, op: Some(commit(vec![good()], vec![])) }).await;
    let Event::Error(zero) = bot.push(|event| matches!(event, Event::Error(_))).await else { unreachable!() };
    check(&Refused::of(&zero), "seq");
    bot.send_raw(AttachRequest { seq: 101, timeout_ms: 0, op: Some(Op::Open(open("bot", "me"))) }).await;
    assert_eq!(bot.reply(101).await.unwrap_err().why(), (Code::InvalidArgument, "PROTOCOL"));
    assert!(stored(&valkey) == before, "nothing was written");
    assert_eq!(bot.commit(2, vec![good()], vec![]).await.unwrap().revision, 2);
}

#[tokio::test]
async fn a_type_of_128_bytes_and_an_id_of_512_are_allowed() {
    let sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    let (ty, id) = ("é".repeat(64), "x".repeat(512));
    bot.commit(1, vec![put(&ty, &id, "x")], vec![]).await.unwrap();
    assert_eq!(bot.value(&ty, &id).await, Some(b"x".to_vec()));
}

#[tokio::test]
async fn unary_calls_out_of_bounds_name_the_field_and_write_nothing() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("session", "1", "x")], vec![]).await.unwrap();
    bot.close().await;
    let before = stored(&valkey);
    let mut client = Unary::of(&sidecar).client;
    let long = "x".repeat(513);
    for (session, namespace, field) in
        [("", "", "session"), (long.as_str(), "", "session"), ("bot", &long[..129], "namespace")]
    {
        let (session, namespace) = (session.to_owned(), namespace.to_owned());
        macro_rules! refused {
            ($call:ident, $request:ident { $($rest:tt)* }) => {
                let request = v1::$request { session: session.clone(), namespace: namespace.clone(), $($rest)* };
                check(&answer(client.$call(request).await).err().unwrap(), field);
            };
        }
        refused!(get_records, GetRecordsRequest { ..Default::default() });
        refused!(list_records, ListRecordsRequest { ..Default::default() });
        refused!(
            commit_records,
            CommitRecordsRequest { writer_id: "w".into(), op_seq: 1, ..Default::default() }
        );
        refused!(get_session, GetSessionRequest {});
        refused!(delete_session, DeleteSessionRequest { ..Default::default() });
        refused!(restore_session, RestoreSessionRequest { ..Default::default() });
        refused!(break_lease, BreakLeaseRequest { fence: 0 });
        if field == "namespace" {
            refused!(list_deleted, ListDeletedRequest { ..Default::default() });
            let request = v1::ListSessionsRequest { namespace: namespace.clone(), ..Default::default() };
            check(&answer(client.list_sessions(request).await).err().unwrap(), field);
        }
    }
    macro_rules! refused {
        ($field:literal, $call:ident, $request:ident { $($name:ident : $value:expr),* $(,)? }) => {
            let request = v1::$request { $($name: $value,)* ..Default::default() };
            check(&answer(client.$call(request).await).err().unwrap(), $field);
        };
    }
    let session = || "bot".to_owned();
    let query = |ty: &str, ids: Vec<String>| vec![v1::Query { r#type: ty.into(), ids }];
    refused!(
        "queries[0].type",
        get_records,
        GetRecordsRequest { session: session(), queries: query("", vec![]) }
    );
    refused!(
        "queries",
        get_records,
        GetRecordsRequest { session: session(), queries: query("a", vec!["1".into(); 1001]) }
    );
    refused!(
        "queries[0].ids[0]",
        get_records,
        GetRecordsRequest { session: session(), queries: query("a", vec![long.clone()]) }
    );
    refused!("type", list_records, ListRecordsRequest { session: session(), r#type: long.clone() });
    refused!("limit", list_records, ListRecordsRequest { session: session(), limit: 1001 });
    refused!("cursor", list_records, ListRecordsRequest { session: session(), cursor: "?".into() });
    refused!("limit", list_sessions, ListSessionsRequest { limit: 1001 });
    refused!("cursor", list_sessions, ListSessionsRequest { cursor: "_w".into() });
    refused!("cursor", list_deleted, ListDeletedRequest { cursor: "nonsense of any kind".into() });
    refused!("mode", delete_session, DeleteSessionRequest { session: session(), mode: 7 });
    let writer = || "w".to_owned();
    refused!("writer_id", commit_records, CommitRecordsRequest { session: session(), op_seq: 1 });
    refused!("op_seq", commit_records, CommitRecordsRequest { session: session(), writer_id: writer() });
    refused!(
        "min_durability",
        commit_records,
        CommitRecordsRequest { session: session(), writer_id: writer(), op_seq: 1, min_durability: 9 }
    );
    refused!(
        "puts[0].record.id",
        commit_records,
        CommitRecordsRequest {
            session: session(),
            writer_id: writer(),
            op_seq: 1,
            puts: vec![put("a", "", "x")],
        }
    );
    refused!(
        "puts",
        commit_records,
        CommitRecordsRequest {
            session: session(),
            writer_id: writer(),
            op_seq: 1,
            puts: vec![put("a", "1", "x"), put("a", "1", "y")],
        }
    );
    assert!(stored(&valkey) == before);
}
