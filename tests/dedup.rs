//! A message is handled once, and never lost between the claim and the work.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use pannier::proto::v1::{
    self, claim_response::Outcome, complete_claim_response::Outcome as Completed,
    extend_claim_response::Outcome as Extended, release_claim_response::Outcome as Released,
};
use support::{
    Sidecar, Valkey,
    leak::Watch,
    small::{
        answered, assert_names, assert_unavailable, at_ms, claim, complete, extend, memory, ms, release, rid,
        ttls, wait_ms,
    },
    start,
};

async fn ask(sidecar: &Sidecar, request: v1::ClaimRequest) -> v1::ClaimResponse {
    sidecar.dedup().claim(request).await.unwrap().into_inner()
}

#[tokio::test]
async fn of_fifty_claims_at_once_one_is_new() {
    let (_valkey, sidecar) = start().await;
    let answers = join_all((0..50).map(|_| ask(&sidecar, claim("wamid.A")))).await;
    let count = |outcome| answers.iter().filter(|answer| answer.outcome() == outcome).count();
    assert_eq!((count(Outcome::New), count(Outcome::InProgress)), (1, 49));
    let waits =
        answers.iter().filter(|one| one.outcome() == Outcome::InProgress).map(|one| wait_ms(one.retry_after));
    // Rounded up to the end of the time and to a millisecond.
    assert!(waits.into_iter().all(|wait| (1..=30_001).contains(&wait)));
}

#[tokio::test]
async fn what_is_done_is_a_duplicate_with_its_result() {
    let (_valkey, sidecar) = start().await;
    let mut dedup = sidecar.dedup();
    let claimed = ask(&sidecar, claim("k")).await;
    assert_eq!(claimed.outcome(), Outcome::New);
    let done = dedup.complete_claim(complete("k", claimed.fence, b"reply 7")).await.unwrap().into_inner();
    assert_eq!(done.outcome(), Completed::Completed);
    let again = ask(&sidecar, claim("k")).await;
    assert_eq!((again.outcome(), &again.result[..]), (Outcome::Duplicate, &b"reply 7"[..]));
    assert_eq!(at_ms(again.expires_at), at_ms(done.expires_at));
    // Completing again is done again, and changes nothing.
    let repeated = dedup.complete_claim(complete("k", claimed.fence, b"other")).await.unwrap().into_inner();
    assert_eq!(repeated, done);
    assert_eq!(&ask(&sidecar, claim("k")).await.result[..], b"reply 7");
    // Eight days by default.
    let days = (at_ms(done.expires_at) - now_ms()) / 3_600_000;
    assert!((191..=192).contains(&days), "{days} hours");
}

fn now_ms() -> u64 {
    u64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

#[tokio::test]
async fn the_plain_set_nx_is_one_call() {
    let (_valkey, sidecar) = start().await;
    let once = v1::ClaimRequest { complete: true, ..claim("k") };
    assert_eq!(ask(&sidecar, once.clone()).await.outcome(), Outcome::New);
    let repeated = ask(&sidecar, once.clone()).await;
    assert_eq!((repeated.outcome(), repeated.replayed), (Outcome::New, true), "the first answer was lost");
    let other = v1::ClaimRequest { request_id: rid(), ..once };
    assert_eq!(ask(&sidecar, other).await.outcome(), Outcome::Duplicate);
}

#[tokio::test]
async fn a_claim_whose_worker_is_silent_is_taken_over_and_the_late_worker_finds_out() {
    let (_valkey, sidecar) = start().await;
    let mut dedup = sidecar.dedup();
    let begun = Instant::now();
    let first = ask(&sidecar, v1::ClaimRequest { in_progress_ttl: ms(700), ..claim("k") }).await;
    let waiting = ask(&sidecar, claim("k")).await;
    assert_eq!(waiting.outcome(), Outcome::InProgress);
    tokio::time::sleep(Duration::from_millis(wait_ms(waiting.retry_after))).await;
    let second = ask(&sidecar, claim("k")).await;
    assert_eq!(second.outcome(), Outcome::Takeover);
    assert!(begun.elapsed() >= Duration::from_millis(700), "not before its time");
    assert!(second.fence > first.fence);
    let late = dedup.complete_claim(complete("k", first.fence, b"")).await.unwrap().into_inner();
    assert_eq!(late.outcome(), Completed::LeaseLost);
    let late = dedup.extend_claim(extend("k", first.fence, 1000)).await.unwrap().into_inner();
    assert_eq!(late.outcome(), Extended::LeaseLost);
    let late = dedup.release_claim(release("k", first.fence)).await.unwrap().into_inner();
    assert_eq!(late.outcome(), Released::LeaseLost);
    let done = dedup.complete_claim(complete("k", second.fence, b"")).await.unwrap().into_inner();
    assert_eq!(done.outcome(), Completed::Completed);
}

#[tokio::test]
async fn a_claim_that_is_given_back_is_free_and_giving_it_back_again_does_no_harm() {
    let (_valkey, sidecar) = start().await;
    let mut dedup = sidecar.dedup();
    let first = ask(&sidecar, claim("k")).await;
    let back = release("k", first.fence);
    let released = dedup.release_claim(back.clone()).await.unwrap().into_inner();
    assert_eq!(released.outcome(), Released::Released);
    let second = ask(&sidecar, claim("k")).await;
    assert_eq!(second.outcome(), Outcome::New);
    assert!(second.fence > first.fence);
    // The same call once more, late: the second claim stays.
    let released = dedup.release_claim(back).await.unwrap().into_inner();
    assert_eq!(released.outcome(), Released::Released);
    assert_eq!(ask(&sidecar, claim("k")).await.outcome(), Outcome::InProgress);
    let done = dedup.complete_claim(complete("k", second.fence, b"")).await.unwrap().into_inner();
    assert_eq!(done.outcome(), Completed::Completed);
    let lost = dedup.release_claim(release("k", second.fence)).await.unwrap().into_inner();
    assert_eq!(lost.outcome(), Released::LeaseLost, "what is done stays done");
}

#[tokio::test]
async fn more_time_is_counted_from_now() {
    let (_valkey, sidecar) = start().await;
    let first = ask(&sidecar, v1::ClaimRequest { in_progress_ttl: ms(300), ..claim("k") }).await;
    tokio::time::sleep(Duration::from_millis(350)).await;
    // Its time has run out, but nobody has taken it over.
    let request = extend("k", first.fence, 60_000);
    let extended = sidecar.dedup().extend_claim(request).await.unwrap().into_inner();
    assert_eq!(extended.outcome(), Extended::Extended);
    let waiting = ask(&sidecar, claim("k")).await;
    assert_eq!(waiting.outcome(), Outcome::InProgress);
    assert!((59_000..=60_001).contains(&wait_ms(waiting.retry_after)));
}

#[tokio::test]
async fn a_claim_sent_again_is_the_same_claim() {
    let (_valkey, sidecar) = start().await;
    let request = claim("k");
    let first = ask(&sidecar, request.clone()).await;
    let again = ask(&sidecar, request.clone()).await;
    assert_eq!((again.outcome(), again.fence, again.replayed), (Outcome::New, first.fence, true));
    let short = v1::ClaimRequest { in_progress_ttl: ms(100), ..claim("other") };
    let first = ask(&sidecar, short.clone()).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    let taken = ask(&sidecar, claim("other")).await;
    assert_eq!(taken.outcome(), Outcome::Takeover);
    // The claim of this request is another's by now.
    assert_eq!(ask(&sidecar, short).await.outcome(), Outcome::InProgress);
    assert!(taken.fence > first.fence);
}

#[tokio::test]
async fn one_key_twice_in_a_batch_is_new_once() {
    let (_valkey, sidecar) = start().await;
    let items = ["a", "b", "a"].map(|key| v1::ClaimItem { key: key.into(), fingerprint: "".into() }).to_vec();
    let batch = v1::ClaimBatchRequest { request_id: rid(), items, ..Default::default() };
    let first = sidecar.dedup().claim_batch(batch.clone()).await.unwrap().into_inner();
    let outcomes = |answer: &v1::ClaimBatchResponse| {
        answer.items.iter().map(v1::ClaimResponse::outcome).collect::<Vec<_>>()
    };
    assert_eq!(outcomes(&first), [Outcome::New, Outcome::New, Outcome::InProgress]);
    // The whole batch again, as after a lost answer.
    let again = sidecar.dedup().claim_batch(batch.clone()).await.unwrap().into_inner();
    assert_eq!(outcomes(&again), [Outcome::New, Outcome::New, Outcome::InProgress]);
    assert_eq!(again.items[0].fence, first.items[0].fence);
    let done = v1::ClaimBatchRequest { complete: true, request_id: rid(), ..batch };
    let items = ["c", "d", "c"].map(|key| v1::ClaimItem { key: key.into(), fingerprint: "".into() }).to_vec();
    let done = v1::ClaimBatchRequest { items, ..done };
    let first = sidecar.dedup().claim_batch(done).await.unwrap().into_inner();
    assert_eq!(outcomes(&first), [Outcome::New, Outcome::New, Outcome::Duplicate]);
}

#[tokio::test]
async fn a_key_that_two_things_share_is_a_mismatch() {
    let (valkey, sidecar) = start().await;
    let with =
        |fingerprint: &'static [u8]| v1::ClaimRequest { fingerprint: fingerprint.into(), ..claim("k") };
    assert_eq!(ask(&sidecar, with(b"\xff\x00one")).await.outcome(), Outcome::New);
    let before: Vec<u8> = dump(&valkey);
    assert_eq!(ask(&sidecar, with(b"two")).await.outcome(), Outcome::Mismatch);
    assert_eq!(dump(&valkey), before, "nothing was written");
    assert_eq!(ask(&sidecar, with(b"\xff\x00one")).await.outcome(), Outcome::InProgress);
    assert_eq!(ask(&sidecar, claim("k")).await.outcome(), Outcome::InProgress, "none: not compared");
}

fn dump(valkey: &Valkey) -> Vec<u8> {
    let (key, _) = ttls(valkey).pop().unwrap();
    redis::cmd("DUMP").arg(key).query(&mut valkey.connection()).unwrap()
}

/// upstash/ratelimit#61 has the kind: a time that is off by one at its end. aws-powertools/powertools-lambda-python#8386: a
/// record is never judged by its age, only by the instants in it.
#[tokio::test]
async fn a_duplicate_ends_with_its_retention_and_not_with_the_key() {
    let (valkey, sidecar) = start().await;
    let done = ask(&sidecar, v1::ClaimRequest { complete: true, retention: ms(400), ..claim("k") }).await;
    let (key, ttl) = ttls(&valkey).pop().unwrap();
    assert!(ttl > 60_000, "the key outlives it: {ttl}");
    assert_eq!(ask(&sidecar, claim("k")).await.outcome(), Outcome::Duplicate);
    // Without a TTL the instants still decide.
    assert_eq!(redis::cmd("PERSIST").arg(&key).query::<i64>(&mut valkey.connection()).unwrap(), 1);
    tokio::time::sleep(Duration::from_millis(at_ms(done.expires_at).saturating_sub(now_ms()) + 20)).await;
    let anew = ask(&sidecar, claim("k")).await;
    assert_eq!(anew.outcome(), Outcome::New);
    assert!(anew.fence > done.fence);
    assert!(ttls(&valkey).iter().all(|(_, ttl)| *ttl > 0), "and the TTL is back");
}

#[tokio::test]
async fn any_characters_make_a_key_and_none_is_taken_for_another() {
    let (_valkey, sidecar) = start().await;
    let emoji = "😀".repeat(128);
    assert_eq!(emoji.len(), 512);
    let keys = ["a:b", "a", "b", "*", "{x}", "x", "a b", "../a", "ñ", "\u{0}", "A", emoji.as_str()];
    for key in keys {
        assert_eq!(ask(&sidecar, claim(key)).await.outcome(), Outcome::New, "{key:?}");
    }
    for key in keys {
        assert_eq!(ask(&sidecar, claim(key)).await.outcome(), Outcome::InProgress, "{key:?}");
        let elsewhere = v1::ClaimRequest { namespace: "other".into(), ..claim(key) };
        assert_eq!(ask(&sidecar, elsewhere).await.outcome(), Outcome::New, "{key:?}");
    }
    // Neither does a namespace run over into a key.
    let one = v1::ClaimRequest { namespace: "n".into(), ..claim("sk") };
    let two = v1::ClaimRequest { namespace: "ns".into(), ..claim("k") };
    assert_eq!(
        (ask(&sidecar, one).await.outcome(), ask(&sidecar, two).await.outcome()),
        (Outcome::New, Outcome::New)
    );
}

#[tokio::test]
async fn wrong_input_is_refused_by_its_name_and_writes_nothing() {
    let (valkey, sidecar) = start().await;
    let mut dedup = sidecar.dedup();
    let long = "x".repeat(513);
    let nanos = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
    let day = 24 * 3600 * 1000;
    let bad: Vec<(&str, v1::ClaimRequest)> = vec![
        ("key", claim("")),
        ("key", claim(&long)),
        ("namespace", v1::ClaimRequest { namespace: "n".repeat(129), ..claim("k") }),
        ("request_id", v1::ClaimRequest { request_id: String::new(), ..claim("k") }),
        ("request_id", v1::ClaimRequest { request_id: "x".repeat(15), ..claim("k") }),
        ("request_id", v1::ClaimRequest { request_id: "x".repeat(65), ..claim("k") }),
        ("request_id", v1::ClaimRequest { request_id: "ñ".repeat(10), ..claim("k") }),
        ("fingerprint", v1::ClaimRequest { fingerprint: vec![1; 513].into(), ..claim("k") }),
        ("in_progress_ttl", v1::ClaimRequest { in_progress_ttl: ms(0), ..claim("k") }),
        ("in_progress_ttl", v1::ClaimRequest { in_progress_ttl: nanos(1, 500_000), ..claim("k") }),
        ("in_progress_ttl", v1::ClaimRequest { in_progress_ttl: nanos(-1, 0), ..claim("k") }),
        ("in_progress_ttl", v1::ClaimRequest { in_progress_ttl: nanos(0, -1), ..claim("k") }),
        ("in_progress_ttl", v1::ClaimRequest { in_progress_ttl: ms(day + 1), ..claim("k") }),
        ("in_progress_ttl", v1::ClaimRequest { in_progress_ttl: nanos(i64::MAX, 0), ..claim("k") }),
        ("in_progress_ttl", v1::ClaimRequest { in_progress_ttl: nanos(i64::MIN, i32::MIN), ..claim("k") }),
        ("in_progress_ttl", v1::ClaimRequest { in_progress_ttl: nanos(0, 1_000_000_000), ..claim("k") }),
        ("retention", v1::ClaimRequest { retention: ms(0), ..claim("k") }),
        ("retention", v1::ClaimRequest { retention: ms(400 * day + 1), ..claim("k") }),
        ("retention", v1::ClaimRequest { retention: nanos(0, 1), ..claim("k") }),
    ];
    for (field, request) in bad {
        assert_names(dedup.claim(request).await, field);
    }
    assert_names(dedup.complete_claim(complete("k", 0, b"")).await, "fence");
    assert_names(dedup.complete_claim(complete("k", 1, &[0; 4097])).await, "result");
    assert_names(dedup.complete_claim(complete("", 1, b"")).await, "key");
    assert_names(dedup.extend_claim(extend("k", 1, 0)).await, "in_progress_ttl");
    assert_names(dedup.extend_claim(extend("k", 0, 1)).await, "fence");
    assert_names(dedup.release_claim(release("k", 0)).await, "fence");
    let item = |key: &str| v1::ClaimItem { key: key.into(), ..Default::default() };
    let batch = |items| v1::ClaimBatchRequest { request_id: rid(), items, ..Default::default() };
    assert_names(dedup.claim_batch(batch(vec![])).await, "items");
    assert_names(dedup.claim_batch(batch(vec![item("k"); 101])).await, "items");
    assert_names(dedup.claim_batch(batch(vec![item("k"), item("")])).await, "items[1].key");
    let long_id = v1::ClaimBatchRequest { request_id: "x".repeat(61), ..batch(vec![item("k")]) };
    assert_names(dedup.claim_batch(long_id).await, "request_id");
    assert_eq!(ttls(&valkey), [], "nothing was written");
    let longest =
        v1::ClaimRequest { retention: ms(400 * day), in_progress_ttl: ms(day), ..claim(&long[1..]) };
    assert_eq!(ask(&sidecar, longest).await.outcome(), Outcome::New);
}

/// With Valkey full under noeviction nothing is half-written; what is claimed can still be completed, and reads go on.
#[tokio::test]
async fn a_full_valkey_is_resource_exhausted() {
    let (valkey, sidecar) = start().await;
    let held = ask(&sidecar, claim("held")).await;
    let before = ttls(&valkey).len();
    let _: String = valkey.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = answered(sidecar.dedup().claim(claim("more")).await).unwrap_err();
    assert_eq!(
        (refused.code, refused.reason.as_str()),
        (tonic::Code::ResourceExhausted, "VALKEY_OUT_OF_MEMORY")
    );
    assert_eq!(ttls(&valkey).len(), before);
    let done = sidecar.dedup().complete_claim(complete("held", held.fence, b"")).await.unwrap().into_inner();
    assert_eq!(done.outcome(), Completed::Completed);
    let _: String = valkey.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(ask(&sidecar, claim("more")).await.outcome(), Outcome::New);
}

#[tokio::test]
async fn without_valkey_a_claim_is_unavailable_within_its_deadline() {
    let (mut valkey, sidecar) = start().await;
    ask(&sidecar, claim("k")).await;
    valkey.kill9();
    let mut request = tonic::Request::new(claim("k"));
    request.set_timeout(Duration::from_millis(1500));
    let begun = Instant::now();
    let refused = answered(sidecar.dedup().claim(request).await).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_unavailable(&refused);
    valkey.spawn();
    let after = sidecar.dedup().claim(claim("k")).await.unwrap().into_inner();
    assert_eq!(after.outcome(), Outcome::InProgress);
}

#[tokio::test]
async fn nothing_of_a_claim_is_in_clear_and_every_key_has_a_ttl() {
    let (valkey, sidecar) = start().await;
    let watch = Watch::begin(&valkey);
    let canary = "5215550001111";
    for n in 0..20 {
        let key = format!("wamid.{canary}.{n}");
        let request = v1::ClaimRequest {
            namespace: canary.into(),
            fingerprint: canary.as_bytes().into(),
            request_id: format!("request-{canary}-{n}"),
            ..claim(&key)
        };
        let fence = ask(&sidecar, request).await.fence;
        let done =
            v1::CompleteClaimRequest { namespace: canary.into(), ..complete(&key, fence, canary.as_bytes()) };
        sidecar.dedup().complete_claim(done).await.unwrap();
    }
    let keys = ttls(&valkey);
    assert_eq!(keys.len(), 20);
    assert!(keys.iter().all(|(_, ttl)| *ttl > 0));
    watch.assert_nowhere(&valkey, &sidecar, &[canary]);
}

/// Beside `SET seen:<id> 1 EX`.
#[tokio::test]
async fn a_claim_takes_at_most_64_bytes_more_than_the_recipe() {
    let (valkey, sidecar) = start().await;
    let id = "wamid.HBgNNTIxNTU1MDAwMTExMRUCABIYFDNBMEE1QzBGODk3RDVGNzA1RQA=";
    let plain = format!("seen:{id}");
    let _: String = valkey.command(&["SET", &plain, "1", "EX", "86400"]);
    let recipe = memory(&valkey, plain.as_bytes());
    let claimed = ask(&sidecar, claim(id)).await;
    let ours = memory(&valkey, &ttls(&valkey)[0].0);
    sidecar.dedup().complete_claim(complete(id, claimed.fence, b"")).await.unwrap();
    let done = memory(&valkey, &ttls(&valkey)[0].0);
    assert!(ours <= recipe + 64 && done <= recipe + 64, "recipe {recipe}, claimed {ours}, done {done}");
}

#[tokio::test]
async fn fences_rise_whatever_becomes_of_the_claims() {
    let (_valkey, sidecar) = start().await;
    let (mut seen, mut last) = (HashSet::new(), 0);
    for n in 0..40 {
        let claimed =
            ask(&sidecar, v1::ClaimRequest { in_progress_ttl: ms(1), retention: ms(1), ..claim("k") }).await;
        if claimed.fence == 0 {
            continue;
        }
        assert!(claimed.fence > last && seen.insert(claimed.fence), "{n}");
        last = claimed.fence;
        if n % 3 == 0 {
            sidecar.dedup().release_claim(release("k", last)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(seen.len() > 20);
}

/// An answer got lost, and when the call is sent again the claim is another's.
#[tokio::test]
async fn an_extension_that_comes_again_after_a_takeover_is_no_extension() {
    let (_valkey, sidecar) = start().await;
    let first =
        sidecar.dedup().claim(v1::ClaimRequest { in_progress_ttl: ms(50), ..claim("k") }).await.unwrap();
    let request = extend("k", first.into_inner().fence, 50);
    let extended = sidecar.dedup().extend_claim(request.clone()).await.unwrap().into_inner();
    assert_eq!(extended.outcome(), Extended::Extended);
    tokio::time::sleep(Duration::from_millis(120)).await;
    let other = sidecar.dedup().claim(claim("k")).await.unwrap().into_inner();
    assert_eq!(other.outcome(), Outcome::Takeover);
    let again = sidecar.dedup().extend_claim(request).await.unwrap().into_inner();
    assert_eq!(again.outcome(), Extended::LeaseLost);
}

#[tokio::test]
async fn the_time_for_the_work_is_whole_to_the_microsecond() {
    let (_valkey, sidecar) = start().await;
    for key in 0..60 {
        let key = key.to_string();
        let first = ask(&sidecar, v1::ClaimRequest { in_progress_ttl: ms(5), ..claim(&key) }).await;
        assert_eq!(first.outcome(), Outcome::New);
        let second = loop {
            let again = ask(&sidecar, v1::ClaimRequest { in_progress_ttl: ms(5), ..claim(&key) }).await;
            if again.outcome() == Outcome::Takeover {
                break again;
            }
        };
        // Fences are the server's microseconds.
        assert!(second.fence - first.fence >= 5_000, "{} µs", second.fence - first.fence);
    }
}
