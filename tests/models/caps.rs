//! Each algorithm beside its model.

use std::collections::BTreeMap;

use pannier::proto::v1::{
    self, CapPolicy, ConsumeRequest, ConsumeResponse,
    cap_policy::Algorithm,
    consume_request::Mode,
    consume_response::{Outcome, SendState},
};

use super::{
    World,
    cap_model::{Cap, Kind},
    operations,
    support::small::{at_ms, consume, ms, rid, wait_ms},
};

pub fn algorithm(kind: Kind, limit: i32, window: u64) -> Algorithm {
    match kind {
        Kind::Fixed => {
            Algorithm::Fixed(v1::FixedWindow { limit, window: ms(window), time_zone: String::new() })
        }
        Kind::Rolling => Algorithm::Rolling(v1::RollingWindow { limit, window: ms(window) }),
        Kind::Gcra => Algorithm::Gcra(v1::Gcra { period: ms(window), burst: limit }),
        Kind::Unique => {
            Algorithm::Unique(v1::UniqueRecipients { limit, window: ms(window), unlimited: false })
        }
    }
}

pub async fn set(world: &World, name: &str, algorithm: Algorithm) {
    let policy = CapPolicy { name: name.into(), algorithm: Some(algorithm), ..Default::default() };
    let request = v1::SetPolicyRequest { request_id: rid(), policy: Some(policy), ..Default::default() };
    world.sidecar.caps().set_policy(request).await.unwrap();
}

pub async fn peek(world: &World, policy: &str, n: u64, recipient: &str, unit: u32) -> v1::CapPeek {
    let request = v1::PeekRequest {
        policies: vec![policy.into()],
        n: Some(i32::try_from(n).unwrap()),
        recipient: recipient.into(),
        unit,
        ..Default::default()
    };
    world.sidecar.caps().peek(request).await.unwrap().into_inner().policies.remove(0)
}

fn told(usage: &v1::CapUsage) -> (i64, i64, u64) {
    assert_eq!(usage.remaining, (usage.limit - usage.used).max(0));
    (usage.limit, usage.used, at_ms(usage.reset_at))
}

async fn check(kind: Kind, limit: i32, window: u64) {
    let mut world = World::begin().await;
    set(&world, "p", algorithm(kind, limit, window)).await;
    let mut cap = Cap {
        kind,
        limit: u64::try_from(limit).unwrap(),
        window,
        sends: Vec::new(),
        whole: 0,
        last: BTreeMap::new(),
    };
    let mut sent = 0;
    let mut requests: Vec<ConsumeRequest> = Vec::new();
    let mut seen: BTreeMap<i32, u64> = BTreeMap::new();
    for step in 0..operations() / 2 {
        let now = world.now;
        cap.settle(now);
        match world.random(10) {
            0..=4 => {
                sent += 1;
                let n = if world.random(12) == 0 {
                    u64::try_from(limit).unwrap() + 1
                } else {
                    1 + world.random(2)
                };
                let mut request = ConsumeRequest {
                    n: Some(i32::try_from(n).unwrap()),
                    recipient: format!("r{}", world.random(6)),
                    ..consume(&format!("send {sent}"), &["p"])
                };
                if world.random(2) == 0 {
                    request.mode = Mode::Reserve.into();
                    request.reserve_ttl = ms(1 + world.random(window * 3 / 2));
                }
                if world.random(5) == 0 && !requests.is_empty() {
                    request = world.pick(&requests[requests.len().saturating_sub(8)..]);
                    if world.random(4) == 0 {
                        request.recipient = "another".into();
                    }
                }
                let answer = world.sidecar.caps().consume(request.clone()).await.unwrap().into_inner();
                consumed(&mut cap, &mut world, &request, &answer, &requests, step).await;
                *seen.entry(answer.outcome).or_default() += 1;
                if answer.outcome() == Outcome::Allowed {
                    requests.push(request);
                }
            }
            5 if sent > 0 => {
                let id = format!("send {}", 1 + sent - 1 - world.random(sent.min(8)));
                let request =
                    v1::ConfirmRequest { send_id: id.clone(), request_id: rid(), ..Default::default() };
                let answer = world.sidecar.caps().confirm(request).await.unwrap().into_inner();
                assert_eq!(answer.outcome(), cap.confirm(now, &id), "{kind:?} {step}: confirm {id}");
            }
            6 if sent > 0 => {
                let id = format!("send {}", 1 + sent - 1 - world.random(sent.min(8)));
                let request =
                    v1::RefundRequest { send_id: id.clone(), request_id: rid(), ..Default::default() };
                let answer = world.sidecar.caps().refund(request.clone()).await.unwrap().into_inner();
                assert_eq!(answer.outcome(), cap.refund(now, &id), "{kind:?} {step}: refund {id}");
                world.sidecar.caps().refund(request).await.unwrap();
            }
            _ => {
                let ms = world.random(window / 3 + 1);
                world.advance(ms);
                cap.settle(world.now);
            }
        }
        let (limit, used, reset, wait) = cap.standing(world.now, 1, "nobody at all");
        let peeked = peek(&world, "p", 1, "nobody at all", 0).await;
        assert_eq!(told(&peeked.usage.unwrap()), (limit, used, reset), "{kind:?} {step}");
        assert_eq!(peeked.retry_after.map(|wait| wait_ms(Some(wait))), wait, "{kind:?} {step}");
    }
    println!("{kind:?}: {seen:?}");
    assert_eq!(
        seen.len(),
        if kind == Kind::Unique { 4 } else { 5 },
        "{kind:?}: every outcome came up: {seen:?}"
    );
    world.assert_ttls();
}

async fn consumed(
    cap: &mut Cap,
    world: &mut World,
    request: &ConsumeRequest,
    answer: &ConsumeResponse,
    requests: &[ConsumeRequest],
    step: u64,
) {
    let (now, kind) = (world.now, cap.kind);
    let n = u64::from(request.n.unwrap().unsigned_abs());
    let what = format!("{kind:?} {step}: {request:?} {answer:?}");
    if let Some(send) = cap.find(&request.send_id).map(|send| send.clone())
        && ["reserved", "committed"].contains(&send.state(now))
    {
        let first = requests.iter().rev().find(|one| one.send_id == request.send_id).unwrap();
        if first != request {
            return assert_eq!(answer.outcome(), Outcome::Mismatch, "{what}");
        }
        assert_eq!((answer.outcome(), told(&answer.usage[0])), (Outcome::Replayed, send.first), "{what}");
        let state = if send.lapses.is_some() { SendState::Reserved } else { SendState::Committed };
        assert_eq!(
            (answer.state(), at_ms(answer.reserved_until)),
            (state, send.lapses.unwrap_or(0)),
            "{what}"
        );
        return;
    }
    let lapses = (request.mode() == Mode::Reserve).then(|| now + wait_ms(request.reserve_ttl));
    match cap.standing(now, n, &request.recipient).3 {
        None => assert_eq!((answer.outcome(), answer.retry_after), (Outcome::Never, None), "{what}"),
        Some(0) => {
            assert_eq!(answer.outcome(), Outcome::Allowed, "{what}");
            cap.count(now, n, &request.recipient, &request.send_id, lapses);
            assert_eq!(told(&answer.usage[0]), cap.sends.last().unwrap().first, "{what}");
        }
        Some(wait) => {
            assert_eq!((answer.outcome(), answer.denied_by.as_str()), (Outcome::Denied, "p"), "{what}");
            assert_eq!(wait_ms(answer.retry_after), wait, "{what}");
            assert!(wait >= 1);
            // One millisecond less does not do, that long does.
            world.set(now + wait - 1);
            let early = peek(world, "p", n, &request.recipient, 0).await;
            assert_eq!(wait_ms(early.retry_after), 1, "{what}");
            world.set(now + wait);
            let ready = peek(world, "p", n, &request.recipient, 0).await;
            assert_eq!(wait_ms(ready.retry_after), 0, "{what}");
            cap.settle(world.now);
        }
    }
}

#[tokio::test]
async fn fixed_windows_do_what_their_model_does() {
    check(Kind::Fixed, 5, 90).await;
}

#[tokio::test]
async fn rolling_windows_do_what_their_model_does() {
    check(Kind::Rolling, 5, 90).await;
}

#[tokio::test]
async fn buckets_do_what_their_model_does() {
    check(Kind::Gcra, 5, 17).await;
}

#[tokio::test]
async fn unique_recipients_do_what_their_model_does() {
    check(Kind::Unique, 3, 90).await;
}
