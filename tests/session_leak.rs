//! Who reads Valkey, its files, its MONITOR, or the sidecar's logs, learns no name, no number, no key; and nothing of a session
//! ever gets a TTL.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::Duration;

use pannier::proto::v1::{self, OnHeld, attach_request::Op};
use redis::Commands as _;
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, delete, open, put},
    blob,
    leak::{forms, monitor, walk},
    unary::{self, Unary, answer},
};

const PHONE: &str = "15557771234";
const NAME: &str = "Zebulon Quaverwing";
/// No byte of it appears in the text around it.
const KEY: [u8; 32] = [
    0xd1, 0x9e, 0x83, 0xf7, 0x8c, 0xb2, 0xe5, 0x99, 0xa6, 0xdb, 0x94, 0xce, 0xf1, 0x87, 0xba, 0xe3, 0x9d,
    0xc8, 0xa1, 0xfe, 0x82, 0xd7, 0xb9, 0xec, 0x95, 0xc3, 0xa8, 0xf4, 0x8e, 0xd9, 0xb6, 0xe1,
];

fn assert_clean(what: &str, haystack: &[u8]) {
    for (canary, bytes) in [("phone", PHONE.as_bytes()), ("name", NAME.as_bytes()), ("key", &KEY[..])] {
        for (n, form) in forms(bytes).into_iter().enumerate() {
            let at = haystack.windows(form.len()).position(|window| window == form);
            if let Some(at) = at {
                let around = &haystack[at.saturating_sub(80)..haystack.len().min(at + 80)];
                panic!("{canary} in {what} (form {n}): {}", String::from_utf8_lossy(around));
            }
        }
    }
}

fn value(n: usize) -> Vec<u8> {
    // Short, long and worth compressing, and with the key at every offset to base64.
    [&vec![b' '; n % 3], &KEY[..], NAME.as_bytes(), PHONE.as_bytes(), &vec![b'z'; (n % 4) * 400], &KEY[..]]
        .concat()
}

async fn live_a_whole_life(sidecar: &Sidecar, valkey: &Valkey) {
    let name = |part: &str| format!("{PHONE}:{part} {NAME}");
    let (session, namespace) = (name("session"), name("namespace"));
    let opening = |owner: &str| v1::Open {
        namespace: namespace.clone(),
        preload_types: vec!["session".into(), name("type")],
        writer_id: name("writer"),
        ..open(&session, &name(owner))
    };
    let mut bot = Attach::open(sidecar.channel(), opening("owner")).await.unwrap();
    let mut puts: Vec<_> =
        (0..40).map(|n| put("session", &format!("{PHONE}.{n}@s.whatsapp.net"), value(n))).collect();
    puts.extend((0..10).map(|n| put(&name("type"), &name(&n.to_string()), value(n))));
    let attributes = v1::Attributes {
        paired: Some(true),
        next_pre_key_id: Some(31),
        labels: [(name("label"), name("text"))].into(),
    };
    let commit = |op_seq, puts| v1::Commit {
        op_seq,
        puts,
        attributes: Some(attributes.clone()),
        ..Default::default()
    };
    bot.commit_as(commit(1, puts)).await.unwrap();
    let conflict =
        v1::Commit { expected_revision: Some(9), ..commit(2, vec![put("creds", "creds", value(1))]) };
    bot.commit_as(conflict).await.unwrap_err();
    bot.commit(2, vec![put("creds", "creds", value(2))], vec![delete("session", &name("none"))])
        .await
        .unwrap();
    bot.commit(9, vec![put("creds", &name("late"), value(2))], vec![]).await.unwrap_err();
    bot.commit(3, vec![put("creds", &name("x").repeat(40), value(2))], vec![]).await.unwrap_err();
    let seq = bot.send_value(3, "sender-key", &name("large"), &value(3).repeat(9000)).await;
    bot.committed(seq).await.unwrap();
    bot.get("session", &[&name("missing"), &format!("{PHONE}.1@s.whatsapp.net")]).await.unwrap();
    bot.list(v1::List { r#type: name("type"), ..Default::default() }).await.unwrap();
    // A record that does not open, and one held by another.
    let keys: Vec<String> = valkey.command(&["KEYS", "pannier:test:{*}:r:*"]);
    let fields: Vec<Vec<u8>> = valkey.command(&["HKEYS", &keys[0]]);
    for field in fields.iter().filter(|field| field[0] == 3).take(1) {
        let _: i32 = valkey.connection().hset(&keys[0], field, b"broken").unwrap();
    }
    bot.list(v1::List::default()).await.unwrap();
    let ids: Vec<String> = (0..40).map(|n| format!("{PHONE}.{n}@s.whatsapp.net")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    bot.get("session", &ids).await.unwrap_err();
    Attach::open(sidecar.channel(), opening("second")).await.err().unwrap();

    let mut client = Unary::of(sidecar).client;
    let (session, namespace) = (session.clone(), namespace.clone());
    macro_rules! call {
        ($call:ident, $request:ident { $($rest:tt)* }) => {
            answer(client.$call(v1::$request {
                session: session.clone(), namespace: namespace.clone(), $($rest)*
            }).await)
        };
    }
    let outside = v1::CommitRecordsRequest {
        namespace: namespace.clone(),
        fence: bot.opened.fence,
        ..unary::commit(&session, &name("admin"), 1, vec![put("pre-key", PHONE, value(1))])
    };
    answer(client.commit_records(outside).await).unwrap();
    call!(
        get_records,
        GetRecordsRequest { queries: vec![v1::Query { r#type: "creds".into(), ids: vec![name("none")] }] }
    )
    .unwrap();
    call!(list_records, ListRecordsRequest { ..Default::default() }).unwrap();
    call!(get_session, GetSessionRequest {}).unwrap();
    bot.clear(4).await.unwrap();
    bot.commit(5, vec![put("creds", "creds", value(0))], vec![]).await.unwrap();
    let take = v1::Open { on_held: OnHeld::TakeOver.into(), ..opening("third") };
    let third = Attach::open(sidecar.channel(), take).await.unwrap();
    bot.lost().await;
    call!(break_lease, BreakLeaseRequest {}).unwrap();
    drop(third);
    call!(delete_session, DeleteSessionRequest { ..Default::default() }).unwrap();
    call!(restore_session, RestoreSessionRequest { ..Default::default() }).unwrap();
    call!(restore_session, RestoreSessionRequest { incarnation: 7, ..Default::default() }).unwrap_err();
    let list = v1::ListSessionsRequest { namespace: namespace.clone(), ..Default::default() };
    assert_eq!(answer(client.list_sessions(list).await).unwrap().sessions.len(), 1);
    let list = v1::ListDeletedRequest { namespace: namespace.clone(), ..Default::default() };
    assert_eq!(answer(client.list_deleted(list).await).unwrap().archives.len(), 1);
}

/// An archive under the same kinds of names, refused, deleted and brought back.
async fn save_an_archive(sidecar: &Sidecar) {
    let blobs = sidecar.blobs();
    let name = format!("{PHONE}:RemoteAuth {NAME}");
    let header = || v1::SaveBlobHeader {
        namespace: name.clone(),
        request_id: format!("{PHONE}:{}", blob::request_id()).chars().take(64).collect(),
        content_digest: KEY.to_vec().into(),
        labels: [(format!("{NAME} label"), PHONE.to_owned())].into(),
        ..blob::header(&name)
    };
    let content: Vec<u8> = (0..3000).flat_map(value).collect();
    blobs.save_as(header(), &content).await.unwrap();
    blobs.save_as(header(), b"unchanged").await.unwrap();
    let cut = blobs.begin(v1::SaveBlobHeader { content_digest: PHONE.into(), ..header() }).await;
    cut.send(blob::chunk(&content[..200_000])).await;
    cut.end().await.unwrap_err();
    let request = v1::DeleteBlobRequest { blob: name.clone(), namespace: name.clone(), ..Default::default() };
    assert!(blobs.delete_as(request).await.unwrap().deleted);
    blobs.save_as(v1::SaveBlobHeader { content_digest: NAME.into(), ..header() }, &content).await.unwrap();
    blobs.fetch(&name).await.unwrap_err();
}

/// elie222/rakazo#490, whatsapp-mcp#223, whatsapp-rust#1506 (case 48), and the report "Shown by" 5.
#[tokio::test]
async fn no_name_number_or_key_shows_anywhere_and_no_key_of_a_session_has_a_ttl() {
    let valkey = Valkey::start(ValkeyOptions::default().set("rdbcompression", "no"));
    let trace = ("PANNIER_LOG_LEVEL".to_owned(), "trace".to_owned());
    let mut sidecar = Sidecar::start(Options { envs: vec![trace], ..Options::with(&valkey) }).await;
    let transcript = monitor(&valkey);
    live_a_whole_life(&sidecar, &valkey).await;
    save_an_archive(&sidecar).await;
    // Valkey gone while calls are made: errors tell nothing either.
    let mut bot = Attach::open(sidecar.channel(), open(&format!("{PHONE} {NAME}"), NAME)).await.unwrap();
    valkey.sigstop();
    let commit = v1::Commit { op_seq: 1, puts: vec![put("creds", PHONE, value(1))], ..Default::default() };
    let seq = bot.send_with(300, Op::Commit(commit)).await;
    let refused = bot.committed(seq).await.unwrap_err();
    assert_clean("an error", format!("{refused:?}").as_bytes());
    valkey.sigcont();
    tokio::time::sleep(Duration::from_millis(500)).await;

    let keys: Vec<Vec<u8>> = valkey.command(&["KEYS", "*"]);
    let mut of_sessions = 0;
    for key in &keys {
        assert_clean("a key's name", key);
        let text = String::from_utf8_lossy(key).into_owned();
        let ttl: i64 = valkey.command(&["TTL", &text]);
        if text.contains(":{") {
            of_sessions += 1;
            assert_eq!(ttl, -1, "{text} has a TTL");
        }
        assert!(ttl == -1 || text.contains("sweeper"), "{text} has a TTL");
    }
    assert!(of_sessions >= 5, "{of_sessions} keys of sessions");
    let _: String = valkey.command(&["SAVE"]);
    let mut files = 0;
    for entry in walk(valkey.dir.path()) {
        let bytes = std::fs::read(&entry).unwrap();
        files += usize::from(bytes.len() > 20_000);
        assert_clean(&entry.display().to_string(), &bytes);
    }
    assert!(files >= 2, "an RDB and an AOF with something in them");
    let transcript = transcript.lock().unwrap().clone();
    assert!(transcript.len() > 100_000, "MONITOR saw it all: {}", transcript.len());
    assert_clean("MONITOR", &transcript);
    sidecar.stop().await;
    let logs = sidecar.logs();
    assert!(logs.contains("\"DEBUG\"") && logs.contains("a lease was lost"), "everything is logged:\n{logs}");
    assert_clean("the logs", logs.as_bytes());
    // The search itself finds what is there.
    for form in forms(PHONE.as_bytes()) {
        assert!(std::panic::catch_unwind(|| assert_clean("a test", &form)).is_err());
    }
}
