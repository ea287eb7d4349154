//! Test vectors for other implementations, in `tests/vectors/` (its README says what each field is). Written by
//! `PANNIER_WRITE_VECTORS=1 cargo test --lib crypto::tests::vectors`, checked a second way by `scripts/check-vectors.mjs`.
//!
//! Format v1 is fixed: a vector that changes is a database that cannot be read any more.

use std::{env, fs, path::Path};

use serde_json::{Value, json};

use super::{counting, hex, keyring_of, root, unhex};
use crate::crypto::{
    Context, IndexNameKey, KeyState, Keyring, RecordPayload, RootKey, SharedKeyring, ValueKind, canary,
    check_canary, envelope,
    kdf::{Prk, SALT_LEN},
    root_key::{unwrap, wrap_with},
};

/// Ten of this are what `FRAME` compresses, once framed as the JSON of "creds".
const REPEATED: &str = r#"{"type":"Buffer","data":"AAECAwQFBgc="},"#;
/// A zstd frame is one of many for its text, so it is given: another version of zstd may make another one.
const FRAME: &str = "28b52ffd609e00fd0100640300000005637265647300000000017b2274797065223a22427566666572222c2264617461223a2241414543417751464267633d227d2c010056b6540505";

fn keys() -> Keyring {
    keyring_of(&[(1, KeyState::Primary, 0x00), (7, KeyState::DecryptOnly, 0xa0)])
}

/// Compares `vectors` with the file of this name, or writes it when asked to.
fn agree(name: &str, vectors: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    if env::var_os("PANNIER_WRITE_VECTORS").is_some() {
        fs::write(&path, format!("{vectors:#}\n")).unwrap();
    }
    let stored: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert!(stored == *vectors, "{} is not what this build makes: format v1 must not change", path.display());
}

fn context(kind: &str, parts: &[&str]) -> Context {
    Context::new(kind, &parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>())
}

#[test]
fn owners() {
    let owners = [
        ("session", "default", "bot-1"),
        ("session", "", ""),
        ("session", "tienda", "número-1 📦"),
        ("blob", "default", "bot-1"),
        ("conversation", "default", "15551234567@s.whatsapp.net"),
        ("claim", "default", "wamid.HBgLMTU1NTEyMzQ1NjcVAgASGBQzQQ=="),
        ("queue", "default", "outbox"),
        ("cap", "default", ""),
        ("namespace", "default", ""),
    ];
    let keyring = keys();
    let owners: Vec<_> = owners
        .iter()
        .map(|(kind, namespace, name)| {
            let tag = keyring.owner_tag(kind, namespace, name);
            json!({
                "kind": kind, "namespace": namespace, "name": name,
                "tag": hex(tag.as_bytes()), "text": tag.to_string(), "bucket": tag.bucket(),
            })
        })
        .collect();
    agree("owners.json", &json!({ "index_key": hex(&counting::<32>(0x40)), "owners": owners }));
}

#[test]
fn names() {
    let records = [
        ("creds", ""),
        ("pre-key", "5241"),
        ("session", "15551234567.0"),
        ("sender-key", "120363000000000000@g.us::15551234567::0"),
        ("sender-key-memory", "120363000000000000@g.us"),
        ("app-state-sync-key", "AAAAAI2F"),
        ("app-state-sync-version", "critical_block"),
        ("lid-mapping", "15551234567_reverse"),
        ("device-list", "15551234567"),
        ("tctoken", "__index"),
        ("identity-key", "15551234567.0"),
        ("foo-bar", "né 📦"),
        ("", ""),
        ("Creds", ""),
        ("sentinel", "\0"),
    ];
    let keys = root().record_keys();
    let records: Vec<_> = records
        .iter()
        .map(|(ty, id)| {
            json!({
                "type": ty, "id": id, "type_code": hex(keys.type_code(ty).as_bytes()),
                "name": hex(&keys.name(ty, id)), "field": hex(keys.field(ty, id).as_bytes()),
            })
        })
        .collect();
    let k_name = Prk::new(root().as_bytes()).derive("pannier/v1/name");
    let vectors = json!({
        "root_key": hex(root().as_bytes()), "k_name": hex(&*k_name), "sentinel_type_code": "00", "records": records,
    });
    agree("names.json", &vectors);
}

#[test]
fn payloads() {
    let payloads = [
        ("session", "15551234567.0", ValueKind::Bytes, &b"\0\x01\xff"[..]),
        ("creds", "", ValueKind::Json, br#"{"registrationId":42}"#),
        ("lid-mapping", "15551234567", ValueKind::Text, "né 📦".as_bytes()),
        ("pre-key", "7", ValueKind::Bytes, b""),
    ];
    let payloads: Vec<_> = payloads
        .iter()
        .map(|&(ty, id, kind, value)| {
            let framed = RecordPayload::encode(ty, id, kind as u8, value);
            assert_eq!(RecordPayload::decode(&framed), Some((ty, id, kind as u8, value)));
            json!({ "type": ty, "id": id, "kind": kind as u8, "value": hex(value), "plaintext": hex(&framed) })
        })
        .collect();
    agree("payloads.json", &json!({ "payloads": payloads }));
}

/// About, context kind and parts, epoch and revision, flags and body, plaintext.
type Case<'a> = (&'a str, &'a str, &'a [&'a str], (u32, u64), (u8, String), &'a [u8]);

/// One record: what it is sealed from, and what must come of it.
fn record(
    about: &str,
    kind: &str,
    parts: &[&str],
    numbers: (u32, u64),
    body: (u8, &str, &[u8]),
    salt: u8,
) -> Value {
    let keys = root().record_keys();
    let ctx = context(kind, parts);
    let (flags, body, plaintext) = (body.0, unhex(body.1), body.2);
    let salt: [u8; SALT_LEN] = counting(salt);
    let sealed = envelope::seal_with(&keys.record, (numbers.0, numbers.1, flags), &salt, &ctx, &body);
    let opened = keys.open(&ctx, &sealed).ok().unwrap();
    assert_eq!((opened.epoch, opened.revision, &opened.plaintext[..]), (numbers.0, numbers.1, plaintext));
    json!({
        "about": about, "context_kind": kind, "context_parts": parts, "context": hex(ctx.as_bytes()),
        "epoch": numbers.0, "revision": numbers.1.to_string(), "flags": flags, "salt": hex(&salt),
        "plaintext": hex(plaintext), "body": hex(&body), "envelope": hex(&sealed),
    })
}

#[test]
fn records() {
    let session = ["default", "bot-1", "session", "15551234567.0"];
    let creds = ["default", "bot-1", "creds", ""];
    let framed = |ty, id, kind: ValueKind, value: &[u8]| RecordPayload::encode(ty, id, kind as u8, value);
    let bytes = framed("session", session[3], ValueKind::Bytes, b"\0\x01\xff");
    let json = framed("creds", "", ValueKind::Json, br#"{"registrationId":42}"#);
    let text = framed("lid-mapping", "15551234567", ValueKind::Text, "né 📦".as_bytes());
    let long = framed("creds", "", ValueKind::Json, REPEATED.repeat(10).as_bytes());
    let plain = |plaintext: &[u8]| (0, hex(plaintext));
    let cases: [Case; 12] = [
        ("known answer of the design, unframed", "session", &session, (1, 7), plain(b"hello"), b"hello"),
        ("BYTES", "session", &session, (1, 8), plain(&bytes), &bytes),
        ("JSON", "session", &creds, (1, 9), plain(&json), &json),
        (
            "TEXT",
            "session",
            &["default", "bot-1", "lid-mapping", "15551234567"],
            (1, 10),
            plain(&text),
            &text,
        ),
        ("compressed: body is a zstd frame", "session", &creds, (2, 11), (1, FRAME.to_owned()), &long),
        ("empty, largest numbers", "session", &session, (u32::MAX, u64::MAX), plain(b""), b""),
        ("blob manifest", "blob", &["default", "bot-1", "3"], (1, 0), plain(b"manifest"), b"manifest"),
        ("conversation", "conversation", &["default", "15551234567"], (1, 0), plain(b"step"), b"step"),
        ("claim's result", "claim", &["default", "wamid.1"], (1, 0), plain(b"done"), b"done"),
        ("job", "job", &["default", "outbox", "42", "payload"], (1, 0), plain(b"job"), b"job"),
        ("cap policy", "cap", &["default", "policy"], (1, 0), plain(b"policy"), b"policy"),
        ("a missing part is empty", "session", &["", "", "", ""], (0, 0), plain(b"x"), b"x"),
    ];
    let mut records = Vec::new();
    for ((about, kind, parts, numbers, body, plaintext), salt) in cases.iter().zip(0x60..) {
        records.push(record(about, kind, parts, *numbers, (body.0, &body.1, plaintext), salt));
    }
    let k_record = Prk::new(root().as_bytes()).derive("pannier/v1/record");
    let vectors =
        json!({ "root_key": hex(root().as_bytes()), "k_record": hex(&*k_record), "records": records });
    agree("records.json", &vectors);
}

#[test]
fn wrapped_keys() {
    let cases: [(&str, &[&str], u32, u32, u8); 5] = [
        ("session", &["default", "bot-1"], 1, 1, 0x80),
        ("session", &["default", "bot-1"], 7, 2, 0x81),
        ("blob", &["default", "bot-1"], 1, 1, 0x82),
        ("namespace", &["default", ""], 1, 1, 0x83),
        ("session", &["tienda", "número-1 📦"], 7, u32::MAX, 0x84),
    ];
    let keyring = keys();
    let secret = |id: u32| keyring.key(id).unwrap().secret.bytes();
    let mut wrapped = Vec::new();
    for (kind, parts, kek_id, epoch, salt) in cases {
        let ctx = context(kind, parts);
        let salt: [u8; SALT_LEN] = counting(salt);
        let root: RootKey = root();
        let made = wrap_with(&keyring.with_primary(kek_id).unwrap(), &root, epoch, &ctx, &salt);
        let (back, epoch_back) = unwrap(&SharedKeyring::fixed(keys()), &made, &ctx).ok().unwrap();
        assert_eq!((back.as_bytes(), epoch_back), (root.as_bytes(), epoch));
        wrapped.push(json!({
            "kek_id": kek_id, "kek": hex(secret(kek_id)),
            "k_wrap": hex(&*Prk::new(secret(kek_id)).derive("pannier/v1/wrap")),
            "context_kind": kind, "context_parts": parts, "epoch": epoch, "salt": hex(&salt),
            "root_key": hex(root.as_bytes()), "wrapped": hex(&made),
        }));
    }
    agree("wrapped.json", &json!({ "wrapped": wrapped }));
}

#[test]
fn index_names() {
    let keyring = keys();
    let index_key = counting::<32>(0x40);
    let mut names = Vec::new();
    for ((kind, namespace, name), salt) in
        [("session", "default", "bot-1"), ("queue", "default", "outbox"), ("namespace", "tienda", "")]
            .iter()
            .zip(0x10..)
    {
        let tag = keyring.owner_tag(kind, namespace, name);
        let ctx = IndexNameKey::context(&tag);
        let plaintext = IndexNameKey::plaintext(namespace, name);
        let salt: [u8; SALT_LEN] = counting(salt);
        let sealed = envelope::seal_with(&keyring.index_name_key().0, (0, 0, 0), &salt, &ctx, &plaintext);
        let opened = keyring.index_name_key().open_name(&tag, &sealed);
        assert_eq!(opened, Some(((*namespace).to_owned(), (*name).to_owned())));
        names.push(json!({
            "tag": hex(tag.as_bytes()), "namespace": namespace, "name": name, "salt": hex(&salt),
            "context": hex(ctx.as_bytes()), "plaintext": hex(&plaintext), "envelope": hex(&sealed),
        }));
    }
    let k_index_name = Prk::new(&index_key).derive("pannier/v1/index-name");
    let vectors =
        json!({ "index_key": hex(&index_key), "k_index_name": hex(&*k_index_name), "names": names });
    agree("index-names.json", &vectors);
}

#[test]
fn canaries() {
    let keyring = keys();
    let mut canaries = Vec::new();
    for (id, salt) in [(1, 0x30), (7, 0x31)] {
        let key = canary::key(&keyring, id).unwrap();
        let salt: [u8; SALT_LEN] = counting(salt);
        let ctx = canary::context(id);
        let sealed = envelope::seal_with(&key, (0, 0, 0), &salt, &ctx, canary::PLAINTEXT);
        assert!(check_canary(&keyring, id, &sealed));
        let secret = keyring.key(id).unwrap().secret.bytes();
        canaries.push(json!({
            "kek_id": id, "kek": hex(secret), "k_canary": hex(&*Prk::new(secret).derive("pannier/v1/canary")),
            "salt": hex(&salt), "context": hex(ctx.as_bytes()), "plaintext": hex(canary::PLAINTEXT),
            "envelope": hex(&sealed),
        }));
    }
    agree("canaries.json", &json!({ "canaries": canaries }));
}

#[test]
fn blob_bodies() {
    let keys = root().blob_key();
    let ctx = context("blob", &["default", "bot-1", "3"]);
    // Whole segments are 64 KiB; shorter ones show the same.
    let bodies: [(&str, &[&[u8]]); 3] = [
        ("empty", &[b""]),
        ("one segment", &[b"hello"]),
        ("three segments", &[b"first", b"second", b"the last"]),
    ];
    let mut vectors = Vec::new();
    for ((about, segments), salt) in bodies.into_iter().zip(0x20..) {
        let salt: [u8; SALT_LEN] = counting(salt);
        let mut sealer = keys.sealer_with(1, 3, &salt, &ctx);
        let preamble = sealer.preamble().to_vec();
        let mut opener = keys.opener(3, &ctx, &preamble).ok().unwrap();
        let mut stored = Vec::new();
        for (at, segment) in segments.iter().enumerate() {
            let (last, mut out, mut back) = (at + 1 == segments.len(), Vec::new(), Vec::new());
            sealer.seal(segment, last, &mut out);
            opener.open(&out, last, &mut back).unwrap();
            assert_eq!(&back[..], *segment);
            stored.push(json!({ "plaintext": hex(segment), "sealed": hex(&out) }));
        }
        vectors.push(json!({
            "about": about, "context_kind": "blob", "context_parts": ["default", "bot-1", "3"],
            "context": hex(ctx.as_bytes()), "epoch": 1, "generation": "3", "salt": hex(&salt),
            "preamble": hex(&preamble), "segments": stored,
        }));
    }
    let k_blob = Prk::new(root().as_bytes()).derive("pannier/v1/blob");
    let vectors = json!({ "root_key": hex(root().as_bytes()), "k_blob": hex(&*k_blob), "bodies": vectors });
    agree("blob-bodies.json", &vectors);
}
