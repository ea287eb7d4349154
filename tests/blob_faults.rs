//! Blobs when things break: whatever dies, fills up or interferes, what is fetched is whole, and it is the last acknowledged save
//! or a newer one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1;
use support::{
    attach::{Attach, open},
    blob::{CHUNK, chunk, content, finish, header, is, parts, start},
};
use tonic::Code;

const MIB: usize = 1 << 20;

async fn until(what: &str, done: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(15);
    while !done() {
        assert!(Instant::now() < until, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How often a drill is repeated: the full count with PANNIER_SOAK, else a tenth.
fn rounds(full: u64) -> u64 {
    if std::env::var_os("PANNIER_SOAK").is_some() { full } else { full / 10 }
}

/// A seed of its own for each run, printed so that a failure can be repeated with PANNIER_SEED.
fn seed() -> u64 {
    let given = std::env::var("PANNIER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos().into()
    });
    eprintln!("PANNIER_SEED={seed}");
    seed
}

/// Its first 8 bytes say which save it was.
fn numbered(number: u64) -> Vec<u8> {
    let mut content = content(number, MIB + 100 * usize::try_from(number % 50 + 1).unwrap());
    content[..8].copy_from_slice(&number.to_be_bytes());
    content
}

fn number_of(content: &[u8]) -> u64 {
    u64::from_be_bytes(content[..8].try_into().unwrap())
}

/// whatsapp-web.js#3724, waha#457: a backup that is cut off at any point must not cost the one before it.
#[tokio::test]
async fn killed_at_any_point_of_a_save_a_whole_archive_is_fetched() {
    let mut state = seed() | 1;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let (mut valkey, mut sidecar, blobs) = start().await;
    blobs.save("bot", &numbered(0)).await.unwrap();
    let (mut acknowledged, mut survived) = (0, 0);
    for number in 1..=rounds(100) {
        let saving = tokio::spawn({
            let blobs = blobs.clone();
            async move { blobs.save("bot", &numbered(number)).await }
        });
        tokio::time::sleep(Duration::from_millis(random(25))).await;
        match random(2) {
            0 => sidecar.restart().await,
            _ => valkey.restart(),
        }
        match saving.await.unwrap() {
            Ok(_) => (acknowledged, survived) = (number, survived + 1),
            Err(refused) => assert!(
                matches!(refused.code, Code::Unavailable | Code::Aborted | Code::Unknown | Code::Cancelled),
                "{refused:?}"
            ),
        }
        sidecar.wait_serving(Duration::from_secs(30)).await;
        let fetched = blobs.fetch("bot").await.unwrap();
        let found = number_of(&fetched);
        assert!(fetched == numbered(found), "what is fetched is one save, whole");
        assert!((acknowledged..=number).contains(&found), "{found}, but {acknowledged} was acknowledged");
    }
    eprintln!("{survived} saves of {} were acknowledged", rounds(100));
}

#[tokio::test]
async fn of_concurrent_saves_the_one_begun_last_stays() {
    let (valkey, _sidecar, blobs) = start().await;
    let saves: Vec<_> = (0..8)
        .map(|number| {
            let blobs = blobs.clone();
            tokio::spawn(async move { blobs.save("bot", &numbered(number)).await.map(|info| (info, number)) })
        })
        .collect();
    let mut acknowledged = Vec::new();
    for save in saves {
        match save.await.unwrap() {
            Ok((info, number)) => acknowledged.push((info.generation, number)),
            Err(refused) => is(&refused, Code::Aborted, "GENERATION_GONE"),
        }
    }
    let (_, newest) = *acknowledged.iter().max().unwrap();
    assert!(blobs.fetch("bot").await.unwrap() == numbered(newest));
    until("what was refused is collected", || parts(&valkey).len() == acknowledged.len() * 5).await;
}

#[tokio::test]
async fn a_newer_try_of_a_request_ends_the_older_one() {
    let (_valkey, _sidecar, blobs) = start().await;
    let same = header("bot");
    let older = blobs.begin(same.clone()).await;
    older.send(chunk(&numbered(1)[..CHUNK])).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    blobs.save_as(same.clone(), &numbered(1)).await.unwrap();
    for data in numbered(1)[CHUNK..].chunks(CHUNK) {
        older.send(chunk(data)).await;
    }
    older.send(finish(&numbered(1))).await;
    is(&older.end().await.unwrap_err(), Code::Aborted, "GENERATION_GONE");
    assert_eq!(blobs.generations("bot").await.len(), 1);
    assert!(blobs.save_as(same, &numbered(1)).await.unwrap().replayed);
}

#[tokio::test]
async fn a_save_begun_before_a_delete_does_not_bring_the_blob_back() {
    let (valkey, _sidecar, blobs) = start().await;
    for shred in [false, true] {
        blobs.save("bot", &numbered(1)).await.unwrap();
        let saving = blobs.begin(header("bot")).await;
        for data in numbered(2).chunks(CHUNK) {
            saving.send(chunk(data)).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(blobs.stat("bot").await.unwrap().uploads, 1);
        let deleted = if shred { blobs.shred("bot", 0).await } else { blobs.delete("bot").await };
        assert!(deleted.unwrap().deleted);
        saving.send(finish(&numbered(2))).await;
        is(&saving.end().await.unwrap_err(), Code::Aborted, "GENERATION_GONE");
        assert!(!blobs.stat("bot").await.unwrap().exists);
        let left = if shred { 0 } else { 5 };
        until("its parts are collected", || parts(&valkey).len() == left).await;
    }
    // Also when there is nothing yet.
    let saving = blobs.begin(header("first")).await;
    saving.send(chunk(b"half")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!blobs.delete("first").await.unwrap().deleted);
    saving.send(finish(b"half")).await;
    is(&saving.end().await.unwrap_err(), Code::Aborted, "GENERATION_GONE");
}

/// baileys-api#315: two instances of one identity. The blob belongs to who holds the session of its name.
#[tokio::test]
async fn the_holder_of_the_session_alone_changes_the_blob() {
    let (_valkey, sidecar, blobs) = start().await;
    let with = |fence| v1::SaveBlobHeader { fence, ..header("bot") };
    blobs.save("bot", b"before").await.unwrap();
    let a = Attach::open(sidecar.channel(), open("bot", "a")).await.unwrap();

    let refused = blobs.save("bot", b"stranger").await.unwrap_err();
    is(&refused, Code::FailedPrecondition, "SESSION_HELD");
    assert_eq!(refused.metadata["owner"], "a");
    assert!(refused.metadata.contains_key("until"));
    is(&blobs.delete("bot").await.unwrap_err(), Code::FailedPrecondition, "SESSION_HELD");
    is(&blobs.shred("bot", 0).await.unwrap_err(), Code::FailedPrecondition, "SESSION_HELD");
    let one = blobs.save_as(with(a.opened.fence), b"by a").await.unwrap().blob.unwrap();
    is(
        &blobs.rollback("bot", one.incarnation, 0).await.unwrap_err(),
        Code::FailedPrecondition,
        "SESSION_HELD",
    );
    // Reading is everybody's.
    assert_eq!(blobs.fetch("bot").await.unwrap(), b"by a");

    // #1681: a late writer with the old fence; and one that is taken over in the middle of its save.
    let late = blobs.begin(with(a.opened.fence)).await;
    late.send(chunk(b"late")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let take = v1::Open { on_held: v1::OnHeld::TakeOver.into(), ..open("bot", "b") };
    let b = Attach::open(sidecar.channel(), take).await.unwrap();
    late.send(finish(b"late")).await;
    is(&late.end().await.unwrap_err(), Code::Aborted, "FENCED");
    is(&blobs.save_as(with(a.opened.fence), b"late").await.unwrap_err(), Code::Aborted, "FENCED");
    is(&blobs.rollback("bot", one.incarnation, a.opened.fence).await.unwrap_err(), Code::Aborted, "FENCED");
    assert_eq!(blobs.fetch("bot").await.unwrap(), b"by a");
    let fence = b.opened.fence;
    blobs.save_as(with(fence), b"by b").await.unwrap();
    b.close().await;
    // Nobody holds it: free, and the last fence still holds.
    blobs.save("bot", b"free").await.unwrap();
    blobs.save_as(with(fence), b"late b").await.unwrap();
    let mut sessions = sidecar.sessions();
    let shred = v1::DeleteSessionRequest {
        session: "bot".into(),
        mode: v1::delete_session_request::Mode::Shred.into(),
        ..Default::default()
    };
    assert!(sessions.delete_session(shred).await.unwrap().into_inner().deleted);
    is(&blobs.save_as(with(fence), b"after its end").await.unwrap_err(), Code::Aborted, "FENCED");
    assert_eq!(blobs.fetch("bot").await.unwrap(), b"late b");
}

/// What is done to the parts of a generation.
type Damage<'a> = (&'a str, Box<dyn Fn(&[String]) + 'a>);

#[tokio::test]
async fn a_damaged_part_is_never_given_out_as_whole() {
    let (valkey, _sidecar, blobs) = start().await;
    blobs.save("other", &numbered(9)).await.unwrap();
    let others = parts(&valkey);
    let dump = |key: &str| -> Vec<u8> { redis::cmd("GET").arg(key).query(&mut valkey.connection()).unwrap() };
    let set = |key: &str, value: &[u8]| -> () {
        redis::cmd("SET").arg(key).arg(value).query::<()>(&mut valkey.connection()).unwrap();
    };
    let damages: Vec<Damage<'_>> = vec![
        (
            "a flipped bit",
            Box::new(|keys| {
                let mut value = dump(&keys[2]);
                value[70_000] ^= 1;
                set(&keys[2], &value);
            }),
        ),
        (
            "a flipped bit in the preamble",
            Box::new(|keys| {
                let mut value = dump(&keys[0]);
                value[20] ^= 1;
                set(&keys[0], &value);
            }),
        ),
        (
            "two parts swapped",
            Box::new(|keys| {
                let (one, two) = (dump(&keys[1]), dump(&keys[2]));
                set(&keys[1], &two);
                set(&keys[2], &one);
            }),
        ),
        ("another blob's part", Box::new(|keys| set(&keys[1], &dump(&others[1])))),
        (
            "all of another blob's parts",
            Box::new(|keys| {
                for (ours, theirs) in keys.iter().zip(&others) {
                    set(ours, &dump(theirs));
                }
            }),
        ),
        ("a part cut short", Box::new(|keys| set(&keys[3], &dump(&keys[3])[..100_000]))),
        ("the last part cut off", Box::new(|keys| valkey.command(&["DEL", &keys[4]]))),
        ("the first part gone", Box::new(|keys| valkey.command(&["DEL", &keys[0]]))),
        (
            "a part that is a list",
            Box::new(|keys| {
                let () = valkey.command(&["DEL", &keys[1]]);
                let () = valkey.command(&["RPUSH", &keys[1], "x"]);
            }),
        ),
        (
            "the manifests gone",
            Box::new(|keys| {
                let key = format!("{}:m", keys[0].rsplitn(3, ':').last().unwrap());
                assert_eq!(valkey.command::<i64>(&["DEL", &key]), 1, "{key}");
            }),
        ),
    ];
    for (number, (what, damage)) in (1..).zip(damages) {
        let good = blobs.save("bot", &numbered(100)).await.unwrap();
        let bad = blobs.save("bot", &numbered(number)).await.unwrap();
        let ours: Vec<_> =
            parts(&valkey).into_iter().filter(|key| key.contains(&format!(":{}:", bad.generation))).collect();
        assert_eq!(ours.len(), 5);
        damage(&ours);
        let refused = blobs.fetch("bot").await.expect_err(what);
        is(&refused, Code::DataLoss, "CORRUPT_BLOB");
        if what == "the manifests gone" {
            is(&blobs.stat("bot").await.unwrap_err(), Code::DataLoss, "CORRUPT_BLOB");
        } else {
            let stat = blobs.stat("bot").await.unwrap();
            assert_eq!(stat.last_error.unwrap().reason, "CORRUPT_BLOB", "{what}");
            // The same content is not taken for unchanged: the next save mends it.
            assert!(blobs.save("bot", &numbered(number)).await.unwrap().generation > bad.generation);
            assert!(blobs.fetch("bot").await.unwrap() == numbered(number), "{what}");
            blobs.rollback("bot", good.generation, 0).await.unwrap();
            assert!(blobs.fetch("bot").await.unwrap() == numbered(100), "{what}");
        }
        blobs.shred("bot", 0).await.unwrap();
    }
    assert!(blobs.fetch("other").await.unwrap() == numbered(9));
}

#[tokio::test]
async fn a_blob_that_is_gone_from_valkey_is_not_an_absent_one() {
    let (valkey, _sidecar, blobs) = start().await;
    blobs.save("bot", &numbered(1)).await.unwrap();
    for key in valkey.keys("*}:b*") {
        let () = valkey.command(&["DEL", &key]);
    }
    is(&blobs.fetch("bot").await.unwrap_err(), Code::Unavailable, "STORE_CHANGED");
    is(&blobs.stat("bot").await.unwrap_err(), Code::Unavailable, "STORE_CHANGED");
    is(&blobs.save("bot", b"over it").await.unwrap_err(), Code::Unavailable, "STORE_CHANGED");
}

#[tokio::test]
async fn with_valkey_full_the_old_one_stays_and_the_half_one_is_collected() {
    let (valkey, _sidecar, blobs) = start().await;
    blobs.save("bot", &numbered(1)).await.unwrap();
    let before = parts(&valkey);
    let used = || -> u64 {
        let info: redis::InfoDict = redis::cmd("INFO").arg("memory").query(&mut valkey.connection()).unwrap();
        info.get("used_memory").unwrap()
    };
    let saving = blobs.begin(header("bot")).await;
    for seed in 0..8 {
        saving.send(chunk(&content(seed, CHUNK))).await;
    }
    until("some parts are there", || parts(&valkey).len() > before.len() + 4).await;
    let () = valkey.command(&["CONFIG", "SET", "maxmemory", &(used() + 300_000).to_string()]);
    for seed in 8..40 {
        if !saving.send(chunk(&content(seed, CHUNK))).await {
            break;
        }
    }
    is(&saving.end().await.unwrap_err(), Code::ResourceExhausted, "VALKEY_OUT_OF_MEMORY");
    assert!(blobs.fetch("bot").await.unwrap() == numbered(1));
    until("the half one is collected", || parts(&valkey) == before).await;
    assert_eq!(blobs.stat("bot").await.unwrap().last_error.unwrap().reason, "VALKEY_OUT_OF_MEMORY");
    // Full to the brim: what frees memory is not refused for it.
    let () = valkey.command(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let refused = blobs.save("bot", &numbered(2)).await.unwrap_err();
    is(&refused, Code::ResourceExhausted, "VALKEY_OUT_OF_MEMORY");
    assert!(blobs.fetch("bot").await.unwrap() == numbered(1));
    assert!(blobs.delete("bot").await.unwrap().deleted);
    assert!(blobs.restore("bot", 0, false).await.is_ok());
    let () = valkey.command(&["CONFIG", "SET", "maxmemory", "0"]);
    blobs.save("bot", &numbered(2)).await.unwrap();
    assert!(blobs.fetch("bot").await.unwrap() == numbered(2));
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_no_parts_and_a_trace() {
    let (valkey, _sidecar, blobs) = start().await;
    let saving = blobs.begin(header("bot")).await;
    for seed in 0..6 {
        saving.send(chunk(&content(seed, CHUNK))).await;
    }
    until("some parts are there", || parts(&valkey).len() >= 4).await;
    saving.answer.abort();
    until("the call is cut off", || saving.answer.is_finished()).await;
    drop(saving);
    until("they are collected", || parts(&valkey).is_empty()).await;
    let error = blobs.stat("bot").await.unwrap().last_error.unwrap();
    assert!(error.message.contains("the client went away"), "{error:?}");
}

#[tokio::test]
async fn a_sidecar_that_stops_ends_what_does_not_end_by_itself() {
    let (_valkey, mut sidecar, blobs) = start().await;
    blobs.save("bot", &numbered(1)).await.unwrap();
    let (quick, slow) = (blobs.begin(header("quick")).await, blobs.begin(header("bot")).await);
    quick.send(chunk(b"quick")).await;
    slow.send(chunk(b"slow")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    sidecar.sigterm();
    tokio::time::sleep(Duration::from_millis(200)).await;
    quick.send(finish(b"quick")).await;
    quick.end().await.expect("what ends soon is let to its end");
    let refused = slow.answer.await.unwrap().unwrap_err();
    is(&refused, Code::Unavailable, "DRAINING");
    assert!(sidecar.wait_exit(Duration::from_secs(25)).await.success());
    sidecar.spawn();
    sidecar.wait_serving(Duration::from_secs(30)).await;
    assert!(blobs.fetch("bot").await.unwrap() == numbered(1));
}
