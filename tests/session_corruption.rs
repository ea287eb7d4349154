//! Whoever can write Valkey can take records away, but not alter, move or forge one unnoticed; and what is lost never looks like
//! what never was.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use pannier::proto::v1::{self, delete_session_request::Mode};
use redis::Commands as _;
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, Refused, open, put},
    unary::Unary,
};
use tonic::Code;

type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

/// The one key that fits.
fn key(valkey: &Valkey, pattern: &str) -> String {
    let keys: Vec<String> = valkey.command(&["KEYS", pattern]);
    assert_eq!(keys.len(), 1, "{keys:?}");
    keys[0].clone()
}

fn record_keys(valkey: &Valkey) -> BTreeSet<String> {
    valkey.command(&["KEYS", "pannier:test:{*}:r:*"])
}

fn fields(valkey: &Valkey, key: &str) -> Fields {
    valkey.connection().hgetall(key).unwrap()
}

fn set(valkey: &Valkey, key: &str, field: &[u8], value: &[u8]) {
    let _: i32 = valkey.connection().hset(key, field, value).unwrap();
}

/// A session whose records stand alone, each with its field.
struct Written {
    bot: Attach,
    key: String,
    /// (type, id) → field.
    at: BTreeMap<(String, String), Vec<u8>>,
}

const SECRET_ID: &str = "15550001111.0";

async fn write(sidecar: &Sidecar, valkey: &Valkey, session: &str) -> Written {
    let before = record_keys(valkey);
    let mut bot = Attach::open(sidecar.channel(), open(session, "me")).await.unwrap();
    let key = record_keys(valkey).difference(&before).next().unwrap().clone();
    let mut at = BTreeMap::new();
    let records =
        [("creds", "creds"), ("session", SECRET_ID), ("session", "15550002222.0"), ("own type", "x")];
    for (n, (ty, id)) in records.into_iter().enumerate() {
        let known = fields(valkey, &key);
        bot.commit(n as u64 + 1, vec![put(ty, id, format!("value of {ty} in {session}"))], vec![])
            .await
            .unwrap();
        let new = fields(valkey, &key).into_keys().find(|field| !known.contains_key(field)).unwrap();
        at.insert((ty.to_owned(), id.to_owned()), new);
    }
    Written { bot, key, at }
}

fn check(refused: &Refused, ty: &str, what: &str) {
    assert_eq!(refused.why(), (Code::DataLoss, "CORRUPT_RECORD"), "{what}: {refused:?}");
    assert_eq!(refused.metadata["type"], ty, "{what}");
    let all = format!("{refused:?}");
    assert!(!all.contains("1555000") && !all.contains("own type"), "{what}: no id in {all}");
}

/// openclaw PR#99070, Baileys PR#2575 (cases 11 and 31): what is corrupt is told so, and is not taken for a first run.
#[tokio::test]
async fn a_record_that_was_altered_moved_or_cut_short_is_told_as_corrupt_and_spoils_nothing_else() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut this = write(&sidecar, &valkey, "bot").await;
    let mut other = write(&sidecar, &valkey, "other").await;
    let mut unary = Unary::of(&sidecar);
    let whole = fields(&valkey, &this.key);
    let foreign = fields(&valkey, &other.key);
    for ((ty, id), field) in &this.at.clone() {
        let value = &whole[field];
        let another = this.at.iter().find(|((_, other), _)| other != id).unwrap().1;
        let mut damages: Vec<(String, Vec<u8>)> = vec![
            ("cut to the header".into(), value[..72].to_vec()),
            ("cut by one byte".into(), value[..value.len() - 1].to_vec()),
            ("one byte more".into(), [value.as_slice(), b"\0"].concat()),
            ("empty".into(), Vec::new()),
            ("another record of the session".into(), whole[another].clone()),
            (
                "the same record of another session".into(),
                foreign[&other.at[&(ty.clone(), id.clone())]].clone(),
            ),
        ];
        // Behind version and suite, whose change means a newer version wrote it.
        for at in [0, 4, 8, 15, 16, 39, 40, 71, 72, value.len() - 17, value.len() - 1] {
            let mut flipped = value.clone();
            flipped[at] ^= 1;
            damages.push((format!("byte {at} flipped"), flipped));
        }
        let shown = if ty == "own type" { "other" } else { ty };
        for (what, damaged) in damages {
            set(&valkey, &this.key, field, &damaged);
            let what = format!("{ty}: {what}");
            check(&this.bot.get(ty, &[id]).await.unwrap_err(), shown, &what);
            check(&unary.get("bot", ty, &[id]).await.unwrap_err(), shown, &what);
        }
        // Others are as they were, in this session and elsewhere; a walk leaves it out and counts it.
        for ((ty, id), _) in this.at.iter().filter(|((_, other), _)| other != id) {
            assert_eq!(this.bot.value(ty, id).await, Some(format!("value of {ty} in bot").into_bytes()));
        }
        let (listed, _, corrupt) = this.bot.list(v1::List::default()).await.unwrap();
        assert_eq!((listed.len(), corrupt), (3, 1));
        let preload_types = vec![ty.clone()];
        let again =
            Attach::open(sidecar.channel(), v1::Open { preload_types, ..open("bot", "me") }).await.unwrap();
        assert!(!again.opened.preload_complete && !again.opened.created);
        this.bot = again;
        set(&valkey, &this.key, field, value);
        assert!(this.bot.value(ty, id).await.is_some());
    }
    for (ty, id) in other.at.keys() {
        assert_eq!(other.bot.value(ty, id).await, Some(format!("value of {ty} in other").into_bytes()));
    }
    // Swapped with each other, both are wrong; and a corrupt one can be written anew.
    let pair: Vec<_> = this.at.values().take(2).cloned().collect();
    set(&valkey, &this.key, &pair[0], &whole[&pair[1]]);
    set(&valkey, &this.key, &pair[1], &whole[&pair[0]]);
    for ((ty, id), _) in this.at.clone().iter().take(2) {
        let shown = if ty == "own type" { "other" } else { ty };
        check(&this.bot.get(ty, &[id]).await.unwrap_err(), shown, "swapped");
    }
    this.bot.commit(5, vec![put("creds", "creds", "new")], vec![]).await.unwrap();
    assert_eq!(this.bot.value("creds", "creds").await, Some(b"new".to_vec()));
    let logs = sidecar.logs();
    assert!(!logs.contains("1555000"), "no id in the logs");
}

#[tokio::test]
async fn a_record_of_an_earlier_life_of_the_session_does_not_open_in_this_one() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut this = write(&sidecar, &valkey, "bot").await;
    let old = fields(&valkey, &this.key);
    this.bot.clear(5).await.unwrap();
    this.bot.commit(6, vec![put("creds", "creds", "new")], vec![]).await.unwrap();
    let new_key = record_keys(&valkey).into_iter().find(|key| *key != this.key).unwrap();
    let new = fields(&valkey, &new_key);
    let field = new.keys().find(|field| field.len() == 17 && field[0] == 1).unwrap();
    let old_creds = &old[&this.at[&("creds".to_owned(), "creds".to_owned())]];
    set(&valkey, &new_key, field, old_creds);
    check(&this.bot.get("creds", &["creds"]).await.unwrap_err(), "creds", "from an earlier life");
    // Put in under the name it had, it is no record of this life at all.
    for (field, value) in &old {
        set(&valkey, &new_key, field, value);
    }
    assert_eq!(this.bot.value("session", SECRET_ID).await, None);
    let (listed, _, corrupt) = this.bot.list(v1::List::default()).await.unwrap();
    assert_eq!(listed.len(), 0);
    assert!(corrupt >= 4, "{corrupt}");
}

#[tokio::test]
async fn a_record_of_a_newer_format_says_to_update_and_is_left_alone() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut this = write(&sidecar, &valkey, "bot").await;
    let (field, value) = {
        let field = this.at[&("creds".to_owned(), "creds".to_owned())].clone();
        (field.clone(), fields(&valkey, &this.key)[&field].clone())
    };
    for (at, byte) in [(1, 2), (2, 9)] {
        let mut newer = value.clone();
        newer[at] = byte;
        set(&valkey, &this.key, &field, &newer);
        let refused = this.bot.get("creds", &["creds"]).await.unwrap_err();
        assert_eq!(refused.why(), (Code::FailedPrecondition, "NEWER_FORMAT"), "byte {at}");
        assert_eq!(fields(&valkey, &this.key)[&field], newer);
    }
}

/// elie222/rakazo#490: a key that does not fit is a hard failure, never an empty session.
#[tokio::test]
async fn a_session_whose_key_is_not_in_the_keyring_says_so_and_is_not_made_anew() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let mut sidecar = Sidecar::start(Options::with(&valkey)).await;
    drop(write(&sidecar, &valkey, "bot").await);
    drop(write(&sidecar, &valkey, "other").await);
    let heads: Vec<String> = valkey.command(&["KEYS", "pannier:test:{*}:h"]);
    let head = heads[0].clone();
    let wrapped = fields(&valkey, &head)[&b"k"[..]].clone();
    // Cached keys do not hide it after a restart.
    for (at, code, reason) in [
        (7, Code::FailedPrecondition, "KEY_MISMATCH"),
        (115, Code::DataLoss, "CORRUPT_RECORD"),
        (40, Code::DataLoss, "CORRUPT_RECORD"),
    ] {
        let mut damaged = wrapped.clone();
        damaged[at] ^= 0x40;
        set(&valkey, &head, b"k", &damaged);
        sidecar.restart().await;
        let mut unary = Unary::of(&sidecar);
        let mut wrong = Vec::new();
        for session in ["bot", "other"] {
            if let Err(refused) = unary.get(session, "creds", &["creds"]).await {
                assert_eq!(refused.why(), (code, reason));
                wrong.push(session);
            }
        }
        assert_eq!(wrong.len(), 1, "the other session is as it was");
        let taken = Attach::open(sidecar.channel(), open(wrong[0], "me")).await.err().unwrap();
        assert_eq!(taken.why(), (code, reason), "not made anew");
        assert!(unary.session(wrong[0]).await.is_err());
        let list = v1::ListSessionsRequest::default();
        let page = unary.client.list_sessions(list).await.unwrap().into_inner();
        assert_eq!((page.sessions.len(), page.corrupt), (1, 1));
    }
    set(&valkey, &head, b"k", &wrapped);
    let mut unary = Unary::of(&sidecar);
    for session in ["bot", "other"] {
        assert!(unary.value(session, "creds", "creds").await.is_some());
    }
}

#[tokio::test]
async fn a_session_that_the_index_lists_but_whose_head_is_gone_is_never_taken_for_absent() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut this = write(&sidecar, &valkey, "bot").await;
    let head = key(&valkey, "pannier:test:{*}:h");
    let dump: Vec<u8> = valkey.command(&["DUMP", &head]);
    let _: i32 = valkey.command(&["DEL", &head]);
    let changed = (Code::Unavailable, "STORE_CHANGED");
    let mut unary = Unary::of(&sidecar);
    assert_eq!(this.bot.get("creds", &["creds"]).await.unwrap_err().why(), changed);
    let refused = this.bot.commit(5, vec![put("creds", "creds", "new")], vec![]).await.unwrap_err();
    assert_eq!(refused.why(), changed);
    assert_eq!(Attach::open(sidecar.channel(), open("bot", "me")).await.err().unwrap().why(), changed);
    assert_eq!(unary.get("bot", "creds", &["creds"]).await.unwrap_err().why(), changed);
    assert_eq!(unary.session("bot").await.unwrap_err().why(), changed);
    assert_eq!(unary.delete("bot", Mode::Soft).await.unwrap_err().why(), changed);
    assert_eq!(unary.delete("bot", Mode::Shred).await.unwrap_err().why(), changed);
    let keys: Vec<String> = valkey.command(&["KEYS", "pannier:test:{*}:h"]);
    assert_eq!(keys, Vec::<String>::new(), "nothing was made in its place");
    // Another session is served, and this one when its head is back.
    drop(write(&sidecar, &valkey, "other").await);
    let mut restore = redis::cmd("RESTORE");
    let _: String = restore.arg(&head).arg(0).arg(dump).query(&mut valkey.connection()).unwrap();
    let committed = this.bot.commit(5, vec![put("creds", "creds", "new")], vec![]).await.unwrap();
    assert_eq!(committed.revision, 5);
}

#[tokio::test]
async fn a_session_whose_records_are_gone_is_told_as_lost_not_as_empty() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    let mut this = write(&sidecar, &valkey, "bot").await;
    let _: i32 = valkey.command(&["DEL", &this.key]);
    let gone = (Code::DataLoss, "CORRUPT_RECORD");
    let mut unary = Unary::of(&sidecar);
    assert_eq!(this.bot.get("creds", &["creds"]).await.unwrap_err().why(), gone);
    assert_eq!(this.bot.list(v1::List::default()).await.unwrap_err().why(), gone);
    let refused = this.bot.commit(5, vec![put("creds", "creds", "new")], vec![]).await.unwrap_err();
    assert_eq!(refused.why(), gone);
    assert_eq!(this.bot.clear(5).await.unwrap_err().why(), gone);
    assert_eq!(unary.get("bot", "creds", &["creds"]).await.unwrap_err().why(), gone);
    let list = v1::ListRecordsRequest { session: "bot".into(), ..Default::default() };
    assert_eq!(unary.list(list).await.unwrap_err().why(), gone);
    assert_eq!(Attach::open(sidecar.channel(), open("bot", "me")).await.err().unwrap().why(), gone);
    let exists: i32 = valkey.command(&["EXISTS", &this.key]);
    assert_eq!(exists, 0, "no empty hash was made");
    // It can be given up.
    assert!(unary.delete("bot", Mode::Shred).await.unwrap().deleted);
    assert!(Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap().opened.created);
}
