//! Blobs from the outside: what is saved comes back to the byte, an earlier one stays until a later one is whole, and what was
//! deleted can be brought back until its time has come.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use pannier::proto::v1::{
    self, GenerationState,
    GenerationState::{Current, Dropped, Kept},
    save_blob_response::Outcome,
};
use support::{
    Valkey,
    blob::{chunk, content, finish, header, is, parts, start, start_with},
};
use tonic::Code;

const KIB: usize = 1024;

async fn no_parts(valkey: &Valkey) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !parts(valkey).is_empty() {
        assert!(std::time::Instant::now() < until, "still there: {:?}", parts(valkey));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn every_size_comes_back_to_the_byte_and_nothing_has_a_ttl() {
    let (valkey, mut sidecar, blobs) = start().await;
    let (segment, part) = (64 * KIB, 256 * KIB);
    let sizes = [0, 1, segment - 1, segment, segment + 1, part - 1, part, part + 1, 5 << 20];
    for (seed, size) in (1..).zip(sizes) {
        let name = format!("RemoteAuth-{size} 📦:{{}}*");
        let given = content(seed, size);
        let info = blobs.save(&name, &given).await.unwrap();
        assert_eq!((info.size, info.state()), (size as u64, GenerationState::Current));
        let (fetched, back) = blobs.fetch_generation(&name, 0).await.unwrap();
        assert!(back == given, "{size}");
        assert_eq!(fetched, info);
    }
    assert_eq!(parts(&valkey).len(), 6 + 1 + 2 + 20);
    sidecar.restart().await;
    assert!(blobs.fetch("RemoteAuth-262145 📦:{}*").await.unwrap() == content(8, part + 1));
    for key in valkey.keys("*") {
        let ttl: i64 = valkey.command(&["TTL", &key]);
        let may = key.contains(":sweeper:");
        assert!(ttl == -1 || may, "{key} has a TTL of {ttl}");
    }
    // Names and contents are nowhere in clear.
    let listed = blobs.list(false).await;
    assert_eq!((listed.blobs.len(), listed.corrupt, listed.cursor.as_str()), (9, 0, ""));
    assert!(valkey.keys("*RemoteAuth*").is_empty());
}

#[tokio::test]
async fn what_does_not_arrive_as_the_client_says_is_not_stored() {
    let (valkey, _sidecar, blobs) = start().await;
    let good = content(1, 300 * KIB);
    blobs.save("bot", &good).await.unwrap();
    let before = parts(&valkey);

    // waha#457: an archive that was cut off on its way.
    let saving = blobs.begin(header("bot")).await;
    saving.send(chunk(&good[..200 * KIB])).await;
    saving.send(finish(&good)).await;
    let refused = saving.end().await.unwrap_err();
    is(&refused, Code::InvalidArgument, "BAD_FIELD");
    assert!(refused.message.starts_with("finish.size"), "{refused:?}");

    let saving = blobs.begin(header("bot")).await;
    saving.send(chunk(&content(2, 200 * KIB))).await;
    saving.send(finish(&content(3, 200 * KIB))).await;
    let refused = saving.end().await.unwrap_err();
    is(&refused, Code::InvalidArgument, "BAD_FIELD");
    assert!(refused.message.starts_with("finish.sha256"), "{refused:?}");

    let saving = blobs.begin(header("bot")).await;
    saving.send(chunk(&content(2, 256 * KIB))).await;
    saving.send(chunk(&content(2, 256 * KIB))).await;
    is(&saving.end().await.unwrap_err(), Code::InvalidArgument, "PROTOCOL");

    let saving = blobs.begin(header("bot")).await;
    saving.send(chunk(&content(2, 256 * KIB + 1))).await;
    let refused = saving.end().await.unwrap_err();
    is(&refused, Code::InvalidArgument, "TOO_LARGE");
    assert!(refused.message.starts_with("chunk.data"), "{refused:?}");

    assert!(blobs.fetch("bot").await.unwrap() == good);
    let error = blobs.stat("bot").await.unwrap().last_error.unwrap();
    assert!(error.reason == "TOO_LARGE" && error.at.is_some(), "{error:?}");
    while parts(&valkey) != before {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(blobs.generations("bot").await.len(), 1);
}

#[tokio::test]
async fn bad_input_names_the_field_and_writes_nothing() {
    let (valkey, _sidecar, blobs) = start_with(vec!["--max-blob".into(), "1MiB".into()]).await;
    let empty = valkey.keys("*").len();
    let bad: [(&str, v1::SaveBlobHeader); 7] = [
        ("header.blob", header("")),
        ("header.blob", header(&"x".repeat(257))),
        ("namespace", v1::SaveBlobHeader { namespace: "n".repeat(129), ..header("bot") }),
        ("header.request_id", v1::SaveBlobHeader { request_id: "short".into(), ..header("bot") }),
        ("header.request_id", v1::SaveBlobHeader { request_id: "é".repeat(16), ..header("bot") }),
        ("header.content_digest", v1::SaveBlobHeader { content_digest: vec![1; 65].into(), ..header("bot") }),
        (
            "header.labels",
            v1::SaveBlobHeader { labels: [("k".into(), "v".repeat(257))].into(), ..header("bot") },
        ),
    ];
    for (field, header) in bad {
        let refused = blobs.save_as(header, b"x").await.unwrap_err();
        is(&refused, Code::InvalidArgument, "BAD_FIELD");
        assert!(refused.message.starts_with(field), "{field}: {refused:?}");
    }
    let saving = blobs.begin(header("bot")).await;
    saving.send(chunk(b"x")).await;
    drop(saving);
    // waha#1017: an empty name must never mean all of them.
    is(&blobs.delete("").await.unwrap_err(), Code::InvalidArgument, "BAD_FIELD");
    is(&blobs.fetch("").await.unwrap_err(), Code::InvalidArgument, "BAD_FIELD");
    is(&blobs.rollback("bot", 0, 0).await.unwrap_err(), Code::InvalidArgument, "BAD_FIELD");

    let refused = blobs.save("large", &content(1, (1 << 20) + 1)).await.unwrap_err();
    is(&refused, Code::InvalidArgument, "TOO_LARGE");
    blobs.save("large", &content(1, 1 << 20)).await.unwrap();
    blobs.shred("large", 0).await.unwrap();
    no_parts(&valkey).await;
    assert!(valkey.keys("*").len() <= empty + 6, "{:?}", valkey.keys("*"));
}

#[tokio::test]
async fn what_is_not_there_is_an_answer_and_not_a_failure() {
    let (_valkey, _sidecar, blobs) = start().await;
    assert_eq!(blobs.stat("bot").await.unwrap(), v1::StatBlobResponse::default());
    is(&blobs.fetch("bot").await.unwrap_err(), Code::NotFound, "BLOB_NOT_FOUND");
    is(&blobs.rollback("bot", 7, 0).await.unwrap_err(), Code::NotFound, "BLOB_NOT_FOUND");
    is(&blobs.restore("bot", 0, false).await.unwrap_err(), Code::NotFound, "ARCHIVE_NOT_FOUND");
    assert!(!blobs.delete("bot").await.unwrap().deleted);
    assert!(!blobs.shred("bot", 0).await.unwrap().deleted);
    assert!(blobs.generations("bot").await.is_empty());
    // #3339: a save that never succeeded leaves a trace.
    let saving = blobs.begin(header("bot")).await;
    saving.send(chunk(b"half")).await;
    saving.end().await.unwrap_err();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
    let stat = loop {
        let stat = blobs.stat("bot").await.unwrap();
        if stat.last_error.is_some() || std::time::Instant::now() > until {
            break stat;
        }
    };
    assert!(!stat.exists);
    assert_eq!(stat.last_error.unwrap().reason, "PROTOCOL");
}

#[tokio::test]
async fn the_last_three_generations_stay_and_one_of_them_can_come_back() {
    let (_valkey, _sidecar, blobs) = start().await;
    let mut saved = Vec::new();
    for seed in 1..=4 {
        saved.push(blobs.save("bot", &content(seed, 100 * KIB)).await.unwrap());
    }
    assert!(saved.is_sorted_by_key(|info| info.generation));
    assert!(saved.iter().all(|info| info.incarnation == saved[0].generation));
    let states: Vec<_> = blobs.generations("bot").await.iter().map(v1::BlobInfo::state).collect();
    assert_eq!(states, [Current, Kept, Kept, Dropped]);
    // Its readers have it for a while.
    let (info, back) = blobs.fetch_generation("bot", saved[0].generation).await.unwrap();
    assert!(back == content(1, 100 * KIB) && info.gone_at.is_some());
    is(&blobs.rollback("bot", saved[0].generation, 0).await.unwrap_err(), Code::Aborted, "GENERATION_GONE");
    is(&blobs.fetch_generation("bot", 7).await.unwrap_err(), Code::Aborted, "GENERATION_GONE");

    // #1681: a bad backup on top of a good one.
    let in_progress = blobs.begin(header("bot")).await;
    in_progress.send(chunk(&content(9, 100 * KIB))).await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    for _ in 0..2 {
        let back = blobs.rollback("bot", saved[1].generation, 0).await.unwrap();
        assert_eq!((back.generation, back.state()), (saved[1].generation, Current));
    }
    assert!(blobs.fetch("bot").await.unwrap() == content(2, 100 * KIB));
    in_progress.send(finish(&content(9, 100 * KIB))).await;
    is(&in_progress.end().await.unwrap_err(), Code::Aborted, "GENERATION_GONE");
    let states: Vec<_> = blobs.generations("bot").await.iter().map(v1::BlobInfo::state).collect();
    assert_eq!(states[..3], [Kept, Kept, Current]);
    blobs.save("bot", &content(5, 100 * KIB)).await.unwrap();
    let states: Vec<_> = blobs.generations("bot").await.iter().map(v1::BlobInfo::state).collect();
    assert_eq!(states[..4], [Current, Kept, Kept, Dropped]);
}

#[tokio::test]
async fn older_generations_stay_only_within_the_history_size() {
    let (_valkey, _sidecar, blobs) = start_with(vec!["--max-blob-history".into(), "1MiB".into()]).await;
    for seed in 1..=3 {
        blobs.save("bot", &content(seed, 600 * KIB)).await.unwrap();
    }
    let states: Vec<_> = blobs.generations("bot").await.iter().map(v1::BlobInfo::state).collect();
    assert_eq!(states, [Current, Kept, Dropped]);
}

#[tokio::test]
async fn the_same_content_is_stored_once_and_the_same_request_done_once() {
    let (valkey, _sidecar, blobs) = start().await;
    let same = content(1, 600 * KIB);
    let first = header("bot");
    let saved = blobs.save_as(first.clone(), &same).await.unwrap();
    assert_eq!((saved.outcome(), saved.replayed), (Outcome::Saved, false));
    let replayed = blobs.save_as(first.clone(), &same).await.unwrap();
    assert_eq!((replayed.outcome(), replayed.replayed), (Outcome::Saved, true));
    assert_eq!(replayed.blob, saved.blob);
    // Without a digest the content itself decides.
    let unchanged = blobs.save_as(header("bot"), &same).await.unwrap();
    assert_eq!((unchanged.outcome(), unchanged.blob), (Outcome::Unchanged, saved.blob));

    // #3258: ten backups of an unchanged profile. Their zips differ, the digest of their entries does not.
    let digest = |bytes: &'static [u8]| v1::SaveBlobHeader { content_digest: bytes.into(), ..header("zip") };
    for seed in 0..10 {
        let outcome = blobs.save_as(digest(b"entries"), &content(seed, 300 * KIB)).await.unwrap();
        assert_eq!(outcome.outcome(), if seed == 0 { Outcome::Saved } else { Outcome::Unchanged });
        assert_eq!(outcome.blob.unwrap().content_digest[..], b"entries"[..]);
    }
    assert_eq!(blobs.generations("zip").await.len(), 1);
    assert!(blobs.fetch("zip").await.unwrap() == content(0, 300 * KIB));
    let other = blobs.save_as(digest(b"other"), &content(11, 300 * KIB)).await.unwrap();
    assert_eq!(other.outcome(), Outcome::Saved);
    // Only the current one counts.
    let again = blobs.save_as(digest(b"entries"), &content(12, 300 * KIB)).await.unwrap();
    assert_eq!(again.outcome(), Outcome::Saved);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while parts(&valkey).len() != 3 + 3 * 2 && std::time::Instant::now() < until {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(parts(&valkey).len(), 3 + 3 * 2, "an unchanged content leaves no parts behind");

    let labels = [("provisional".to_owned(), "yes".to_owned())].into();
    blobs.save_as(v1::SaveBlobHeader { labels, ..header("bot") }, b"labelled").await.unwrap();
    let stat = blobs.stat("bot").await.unwrap().blob.unwrap();
    assert_eq!(stat.labels["provisional"], "yes");
    // The first request was replayed although it is not the current one any more; it brings nothing back.
    let replayed = blobs.save_as(first, &same).await.unwrap();
    assert_eq!((replayed.replayed, replayed.blob.unwrap().state()), (true, GenerationState::Kept));
    assert_eq!(blobs.fetch("bot").await.unwrap(), b"labelled");
}

#[tokio::test]
async fn a_deleted_blob_is_absent_at_once_and_can_be_restored() {
    let (valkey, _sidecar, blobs) = start().await;
    let first = header("bot");
    let one = blobs.save_as(first.clone(), &content(1, 300 * KIB)).await.unwrap().blob.unwrap();
    let two = blobs.save("bot", &content(2, 300 * KIB)).await.unwrap();
    let deleted = blobs.delete("bot").await.unwrap();
    let archive = deleted.archive.unwrap();
    assert_eq!((archive.generations, archive.generation), (2, two.generation));
    assert_eq!(archive.incarnation, one.incarnation);
    // evolution-api#79: absent at once, and a new one may be made beside it.
    assert!(!blobs.stat("bot").await.unwrap().exists);
    is(&blobs.fetch("bot").await.unwrap_err(), Code::NotFound, "BLOB_NOT_FOUND");
    is(&blobs.fetch_generation("bot", two.generation).await.unwrap_err(), Code::Aborted, "GENERATION_GONE");
    assert!(blobs.list(false).await.blobs.is_empty());
    assert_eq!(blobs.list(true).await.archives, std::slice::from_ref(&archive));
    // OpenWA#1072: what is retained can be seen.
    let retained = blobs.generations("bot").await;
    assert!(retained.iter().all(|info| info.state() == GenerationState::Deleted && info.gone_at.is_some()));
    // Sent again: the same answer. And the save that came before it does not bring it back.
    let again =
        v1::DeleteBlobRequest { blob: "bot".into(), incarnation: archive.incarnation, ..Default::default() };
    assert_eq!(blobs.delete_as(again.clone()).await.unwrap().archive, Some(archive.clone()));
    assert!(!blobs.delete("bot").await.unwrap().deleted);
    let replayed = blobs.save_as(first, &content(1, 300 * KIB)).await.unwrap();
    assert_eq!((replayed.replayed, replayed.blob.unwrap().state()), (true, GenerationState::Deleted));
    assert!(!blobs.stat("bot").await.unwrap().exists);

    let three = blobs.save("bot", &content(3, 300 * KIB)).await.unwrap();
    assert!(three.incarnation > archive.incarnation);
    // A delete that means the earlier life leaves this one alone.
    blobs.delete_as(again).await.unwrap();
    assert!(blobs.fetch("bot").await.unwrap() == content(3, 300 * KIB));
    is(&blobs.restore("bot", 0, false).await.unwrap_err(), Code::FailedPrecondition, "WRONG_STATE");
    for _ in 0..2 {
        let restored = blobs.restore("bot", archive.incarnation, true).await.unwrap();
        assert_eq!(restored.blob.unwrap().generation, two.generation);
    }
    assert!(blobs.fetch("bot").await.unwrap() == content(2, 300 * KIB));
    blobs.rollback("bot", one.generation, 0).await.unwrap();
    let archives = blobs.stat("bot").await.unwrap().archives;
    assert_eq!(archives.len(), 1);
    assert_eq!(archives[0].incarnation, three.incarnation);
    is(&blobs.restore("bot", 7, true).await.unwrap_err(), Code::NotFound, "ARCHIVE_NOT_FOUND");

    assert!(blobs.shred("bot", three.incarnation).await.unwrap().deleted);
    assert!(blobs.stat("bot").await.unwrap().archives.is_empty());
    assert!(blobs.shred("bot", 0).await.unwrap().deleted);
    assert!(!blobs.stat("bot").await.unwrap().exists);
    no_parts(&valkey).await;
    assert!(!blobs.shred("bot", 0).await.unwrap().deleted);
    is(&blobs.restore("bot", 0, true).await.unwrap_err(), Code::NotFound, "ARCHIVE_NOT_FOUND");
    blobs.save("bot", b"anew").await.unwrap();
    assert_eq!(blobs.fetch("bot").await.unwrap(), b"anew");
}

#[tokio::test]
async fn three_archives_are_kept_and_a_fourth_drops_the_oldest() {
    let (_valkey, _sidecar, blobs) = start().await;
    let mut incarnations = Vec::new();
    for seed in 1..=4 {
        incarnations.push(blobs.save("bot", &content(seed, 1000)).await.unwrap().incarnation);
        assert_eq!(blobs.delete("bot").await.unwrap().oldest_archive_dropped, seed == 4);
    }
    let archives = blobs.list(true).await.archives;
    let left: Vec<_> = archives.iter().rev().map(|archive| archive.incarnation).collect();
    assert_eq!(left, incarnations[1..]);
    assert!(blobs.restore("bot", 0, false).await.unwrap().blob.unwrap().incarnation == incarnations[3]);
}
