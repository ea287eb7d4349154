//! Claims, and what a claim is in the mind of its user.

use std::collections::HashMap;

use pannier::proto::v1::{
    self, claim_response::Outcome, complete_claim_response::Outcome as Completed,
    extend_claim_response::Outcome as Extended, release_claim_response::Outcome as Released,
};

use super::{
    World, operations,
    support::small::{at_ms, claim, complete, extend, ms, release, wait_ms},
};

#[derive(Clone, Debug, PartialEq)]
enum State {
    InProgress { until: u64 },
    Done { until: u64, result: Vec<u8> },
    Released,
}

#[derive(Clone, Debug)]
struct Claim {
    state: State,
    fence: u64,
    retention: u64,
    fingerprint: Vec<u8>,
    /// Newest first: the request, what it did.
    requests: Vec<(String, &'static str)>,
}

impl Claim {
    fn is_free(&self, now: u64) -> bool {
        match &self.state {
            State::InProgress { until } => now >= *until.max(&(self.fence / 1000 + self.retention)),
            State::Done { until, .. } => now >= *until,
            State::Released => true,
        }
    }

    fn did(&self, request: &str) -> Option<&'static str> {
        self.requests.iter().find(|(id, _)| id == request).map(|(_, did)| *did)
    }

    fn remember(&mut self, request: &str, did: &'static str) {
        if did == "extend" && self.requests.first().is_some_and(|(_, did)| *did == "extend") {
            self.requests.remove(0);
        }
        self.requests.insert(0, (request.to_owned(), did));
        self.requests.truncate(4);
    }
}

/// The instant by the claim's clock, which stands at its fence at least, as milliseconds: no time for work is cut short.
fn rounded_up(now: u64, old: Option<&Claim>) -> u64 {
    old.map_or(now, |old| now.max(old.fence.div_ceil(1000)))
}

/// Outcome, fence, wait, replayed.
type Answer = (Outcome, u64, u64, bool);

fn expected_claim(claims: &mut HashMap<String, Claim>, now: u64, ask: &v1::ClaimRequest) -> Answer {
    let (ttl, retention) = (wait_ms(ask.in_progress_ttl), wait_ms(ask.retention));
    let old = claims.get(&ask.key).cloned();
    let mut takeover = false;
    let mut fingerprint = ask.fingerprint.to_vec();
    if let Some(old) = old.as_ref().filter(|old| !old.is_free(now)) {
        let outcome = |did: &str| if did.starts_with("take") { Outcome::Takeover } else { Outcome::New };
        match (old.did(&ask.request_id), &old.state) {
            (Some(did @ ("new done" | "take done")), _) => return (outcome(did), old.fence, 0, true),
            (Some(did @ ("new" | "take")), State::InProgress { until }) if now < *until => {
                let newest = old.requests.iter().find(|(_, did)| ["new", "take"].contains(did)).unwrap();
                if newest.0 == ask.request_id {
                    return (outcome(did), old.fence, 0, true);
                }
            }
            _ => {}
        }
        if !fingerprint.is_empty() && !old.fingerprint.is_empty() && fingerprint != old.fingerprint {
            return (Outcome::Mismatch, 0, 0, false);
        }
        match old.state {
            State::Done { .. } => return (Outcome::Duplicate, 0, 0, false),
            State::InProgress { until } if now < until => {
                return (Outcome::InProgress, 0, until - now, false);
            }
            _ => {}
        }
        takeover = true;
        if fingerprint.is_empty() {
            fingerprint.clone_from(&old.fingerprint);
        }
    }
    let fence = old.as_ref().map_or(now * 1000, |old| (old.fence + 1).max(now * 1000));
    let state = if ask.complete {
        State::Done { until: now + retention, result: Vec::new() }
    } else {
        State::InProgress { until: rounded_up(now, old.as_ref()) + ttl }
    };
    let requests = old.map(|old| old.requests).unwrap_or_default();
    let mut new = Claim { state, fence, retention, fingerprint, requests };
    new.remember(
        &ask.request_id,
        match (takeover, ask.complete) {
            (false, false) => "new",
            (true, false) => "take",
            (false, true) => "new done",
            (true, true) => "take done",
        },
    );
    claims.insert(ask.key.clone(), new);
    (if takeover { Outcome::Takeover } else { Outcome::New }, fence, 0, false)
}

#[tokio::test]
async fn claims_do_what_their_model_does() {
    let mut world = World::begin().await;
    let mut dedup = world.sidecar.dedup();
    let mut claims: HashMap<String, Claim> = HashMap::new();
    let mut asked: Vec<v1::ClaimRequest> = Vec::new();
    let mut completed: Vec<v1::CompleteClaimRequest> = Vec::new();
    let mut released: Vec<v1::ReleaseClaimRequest> = Vec::new();
    let mut fences: Vec<u64> = vec![1];
    let mut seen = HashMap::new();
    for step in 0..operations() {
        let key = world.pick(&["a", "b", "{c}"]);
        let now = world.now;
        let of_key = claims.get(key).map_or(1, |claim| claim.fence);
        let fence = if world.random(4) > 0 { of_key } else { world.pick(&fences) };
        let again = world.random(6) == 0;
        match world.random(12) {
            0..=5 => {
                let mut request = v1::ClaimRequest {
                    in_progress_ttl: ms(1 + world.random(50)),
                    retention: ms(1 + world.random(120)),
                    complete: world.random(5) == 0,
                    fingerprint: world.pick(&["", "", "", "x", "y"]).into(),
                    ..claim(key)
                };
                if again && !asked.is_empty() {
                    request = world.pick(&asked[asked.len().saturating_sub(6)..]);
                }
                let expected = expected_claim(&mut claims, now, &request);
                let answer = dedup.claim(request.clone()).await.unwrap().into_inner();
                let wait = answer.retry_after.map_or(0, |wait| wait_ms(Some(wait)));
                assert_eq!(
                    (answer.outcome(), answer.fence, wait, answer.replayed),
                    expected,
                    "{step}: {request:?}"
                );
                if answer.outcome() == Outcome::Duplicate {
                    let State::Done { until, result } = &claims[&request.key].state else { panic!("{step}") };
                    assert_eq!(
                        (at_ms(answer.expires_at), &answer.result[..]),
                        (*until, &result[..]),
                        "{step}"
                    );
                }
                *seen.entry(answer.outcome() as i32).or_insert(0) += 1;
                fences.push(answer.fence.max(1));
                asked.push(request);
            }
            6 | 7 => {
                let mut request = complete(key, fence, &vec![7; usize::try_from(world.random(30)).unwrap()]);
                if again && !completed.is_empty() {
                    request = world.pick(&completed[completed.len().saturating_sub(4)..]);
                }
                let mut expected = (Completed::LeaseLost, 0);
                if let Some(claim) = claims.get_mut(&request.key) {
                    if claim.fence == request.fence {
                        match claim.state.clone() {
                            State::Done { until, .. } => expected = (Completed::Completed, until),
                            State::Released => {}
                            State::InProgress { .. } => {
                                let until = now + claim.retention;
                                claim.state = State::Done { until, result: request.result.to_vec() };
                                claim.remember(&request.request_id, "complete");
                                expected = (Completed::Completed, until);
                            }
                        }
                    } else if claim.did(&request.request_id) == Some("complete") {
                        expected = (Completed::Completed, 0);
                    }
                }
                let answer = dedup.complete_claim(request.clone()).await.unwrap().into_inner();
                assert_eq!((answer.outcome(), at_ms(answer.expires_at)), expected, "{step}");
                completed.push(request);
            }
            8 => {
                let request = extend(key, fence, 1 + world.random(60));
                let mut expected = (Extended::LeaseLost, 0);
                if let Some(claim) = claims.get_mut(key)
                    && claim.fence == fence
                    && matches!(claim.state, State::InProgress { .. })
                {
                    let until = rounded_up(now, Some(claim)) + wait_ms(request.in_progress_ttl);
                    claim.state = State::InProgress { until };
                    claim.remember(&request.request_id, "extend");
                    expected = (Extended::Extended, until);
                }
                let answer = dedup.extend_claim(request).await.unwrap().into_inner();
                assert_eq!((answer.outcome(), at_ms(answer.expires_at)), expected, "{step}");
            }
            9 => {
                let mut request = release(key, fence);
                if again && !released.is_empty() {
                    request = world.pick(&released[released.len().saturating_sub(4)..]);
                }
                let mut expected = Released::LeaseLost;
                if let Some(claim) = claims.get_mut(&request.key) {
                    if claim.did(&request.request_id) == Some("release") {
                        expected = Released::Released;
                    } else if claim.fence == request.fence && !matches!(claim.state, State::Done { .. }) {
                        if claim.state != State::Released {
                            claim.state = State::Released;
                            claim.fingerprint.clear();
                            claim.remember(&request.request_id, "release");
                        }
                        expected = Released::Released;
                    }
                }
                let answer = dedup.release_claim(request.clone()).await.unwrap().into_inner();
                assert_eq!(answer.outcome(), expected, "{step}");
                released.push(request);
            }
            _ => {
                let ms = world.random(60);
                world.advance(ms);
            }
        }
    }
    assert_eq!(seen.len(), 5, "every outcome came up: {seen:?}");
    world.assert_ttls();
}

/// To the millisecond, by the clock of Valkey alone: the sidecar's is years behind here.
#[tokio::test]
async fn a_claim_ends_to_the_millisecond_by_the_clock_of_valkey() {
    let mut world = World::begin().await;
    let mut dedup = world.sidecar.dedup();
    let first = v1::ClaimRequest { in_progress_ttl: ms(30_000), retention: ms(100_000), ..claim("k") };
    let first = dedup.claim(first).await.unwrap().into_inner();
    world.advance(29_999);
    let waiting = dedup.claim(claim("k")).await.unwrap().into_inner();
    assert_eq!((waiting.outcome(), wait_ms(waiting.retry_after)), (Outcome::InProgress, 1));
    world.advance(1);
    let taken = dedup.claim(claim("k")).await.unwrap().into_inner();
    assert_eq!(taken.outcome(), Outcome::Takeover);
    let done = v1::CompleteClaimRequest { retention: ms(5_000), ..complete("k", taken.fence, b"r") };
    dedup.complete_claim(done).await.unwrap();
    world.advance(4_999);
    assert_eq!(dedup.claim(claim("k")).await.unwrap().into_inner().outcome(), Outcome::Duplicate);
    world.advance(1);
    let anew = dedup.claim(claim("k")).await.unwrap().into_inner();
    assert!(anew.outcome() == Outcome::New && anew.fence > taken.fence && taken.fence > first.fence);
    // A clock that falls back, another primary's, ends nothing early and gives no lower fence.
    world.set(super::BEGIN - 600_000);
    assert_eq!(dedup.claim(claim("k")).await.unwrap().into_inner().outcome(), Outcome::InProgress);
    dedup.release_claim(release("k", anew.fence)).await.unwrap();
    let last = dedup.claim(claim("k")).await.unwrap().into_inner();
    assert!(last.outcome() == Outcome::New && last.fence > anew.fence);
    world.assert_ttls();
}
