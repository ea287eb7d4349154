//! What public reports say went wrong elsewhere, to the millisecond.

use pannier::proto::v1::{self, ConsumeRequest, consume_response::Outcome};

use super::{
    BEGIN, World,
    cap_model::Kind,
    caps::{algorithm, peek, set},
    support::small::{at_ms, consume, ms, rid, wait_ms},
};

async fn go(world: &World, policy: &str, send: u64) -> v1::ConsumeResponse {
    let request =
        ConsumeRequest { recipient: format!("r{send}"), ..consume(&format!("{policy} {send}"), &[policy]) };
    world.sidecar.caps().consume(request).await.unwrap().into_inner()
}

/// node-rate-limiter-flexible#112: spreading evenly let 5 of 10 through.
#[tokio::test]
async fn ten_an_hour_are_ten_an_hour() {
    let mut world = World::begin().await;
    set(&world, "p", algorithm(Kind::Gcra, 1, 360_000)).await;
    let (mut allowed, mut send) = (0, 0);
    while world.now < BEGIN + 3_600_000 {
        send += 1;
        let answer = go(&world, "p", send).await;
        match answer.outcome() {
            Outcome::Allowed => allowed += 1,
            _ => world.advance(wait_ms(answer.retry_after)),
        }
    }
    assert_eq!(allowed, 10);
}

/// upstash/ratelimit#61, #65: what was sent at the end of a window was forgotten in the next.
#[tokio::test]
async fn what_was_sent_at_the_end_of_a_window_counts_in_the_rolling_one() {
    let mut world = World::begin().await;
    set(&world, "fixed", algorithm(Kind::Fixed, 3, 10_000)).await;
    set(&world, "rolling", algorithm(Kind::Rolling, 3, 10_000)).await;
    world.set(BEGIN - BEGIN % 10_000 + 9_999);
    for send in 0..3 {
        assert_eq!(go(&world, "fixed", send).await.outcome(), Outcome::Allowed);
        assert_eq!(go(&world, "rolling", send).await.outcome(), Outcome::Allowed);
    }
    assert_eq!(wait_ms(go(&world, "fixed", 3).await.retry_after), 1);
    world.advance(1);
    let fixed = go(&world, "fixed", 3).await;
    assert_eq!((fixed.outcome(), fixed.usage[0].used), (Outcome::Allowed, 1), "another window");
    let rolling = go(&world, "rolling", 3).await;
    assert_eq!((rolling.outcome(), wait_ms(rolling.retry_after)), (Outcome::Denied, 9_999));
    world.advance(9_998);
    assert_eq!(wait_ms(go(&world, "rolling", 3).await.retry_after), 1);
    world.advance(1);
    assert_eq!(go(&world, "rolling", 3).await.outcome(), Outcome::Allowed);
}

/// peterkhayes/rolling-rate-limiter#9, #36: tries that were denied were stored, so that trying blocked for ever.
#[tokio::test]
async fn trying_every_100_ms_for_a_minute_lets_6_through() {
    let mut world = World::begin().await;
    set(&world, "p", algorithm(Kind::Rolling, 1, 10_000)).await;
    let mut allowed = 0;
    for send in 0..600 {
        allowed += u32::from(go(&world, "p", send).await.outcome() == Outcome::Allowed);
        world.advance(100);
    }
    assert_eq!(allowed, 6);
}

/// symfony/symfony#40289: the wait was that of the whole window when a part of it had expired.
#[tokio::test]
async fn the_wait_is_for_the_first_unit_that_frees() {
    let mut world = World::begin().await;
    set(&world, "p", algorithm(Kind::Rolling, 3, 10_000)).await;
    for (send, later) in [(0, 4_000), (1, 3_000), (2, 2_000)] {
        assert_eq!(go(&world, "p", send).await.outcome(), Outcome::Allowed);
        world.advance(later);
    }
    assert_eq!(wait_ms(go(&world, "p", 3).await.retry_after), 1_000);
    world.advance(2_000);
    assert_eq!(go(&world, "p", 4).await.outcome(), Outcome::Allowed);
    assert_eq!(wait_ms(go(&world, "p", 5).await.retry_after), 3_000);
    let two = ConsumeRequest { n: Some(2), ..consume("two", &["p"]) };
    let denied = world.sidecar.caps().consume(two).await.unwrap().into_inner();
    assert_eq!(wait_ms(denied.retry_after), 6_000);
}

/// node-rate-limiter-flexible#238 (a wait below zero) and #231 (2^31 ms): at every boundary.
#[tokio::test]
async fn odd_and_huge_windows_are_exact() {
    let mut world = World::begin().await;
    for window in [1, 2, 7, 2_147_483_647, 2_147_483_649, 400 * 24 * 3_600_000] {
        for kind in [Kind::Fixed, Kind::Rolling, Kind::Gcra, Kind::Unique] {
            let name = format!("{kind:?} {window}");
            set(&world, &name, algorithm(kind, 1, window)).await;
            let now = world.now;
            assert_eq!(go(&world, &name, 0).await.outcome(), Outcome::Allowed, "{name}");
            let denied = go(&world, &name, 1).await;
            let wanted = if kind == Kind::Fixed { window - now % window } else { window };
            assert_eq!((denied.outcome(), wait_ms(denied.retry_after)), (Outcome::Denied, wanted), "{name}");
            world.set(now + wanted - 1);
            assert_eq!(peek(&world, &name, 1, "new", 0).await.retry_after, ms(1), "{name}");
            world.set(now + wanted);
            assert_eq!(peek(&world, &name, 1, "new", 0).await.retry_after, ms(0), "{name}");
            world.set(now);
        }
        world.assert_ttls();
    }
}

/// A civil day of Madrid in spring has 23 hours, one in autumn 25.
#[tokio::test]
async fn a_civil_day_ends_at_midnight_whatever_the_clock_does() {
    let mut world = World::begin().await;
    let days = v1::FixedWindow { limit: 2, window: None, time_zone: "Europe/Madrid".into() };
    set(&world, "day", v1::cap_policy::Algorithm::Fixed(days)).await;
    // 27 March 2027 23:00 UTC begins the day on which the clock goes forward, 30 October 22:00 UTC that on which it goes back.
    for (midnight, hours) in [(1_806_188_400_000_u64, 23), (1_824_933_600_000, 25)] {
        world.set(midnight - 1);
        assert_eq!(go(&world, "day", midnight).await.outcome(), Outcome::Allowed);
        world.set(midnight);
        for send in 1..3 {
            let answer = go(&world, "day", midnight + send).await;
            assert_eq!(answer.outcome(), Outcome::Allowed);
            assert_eq!(at_ms(answer.usage[0].reset_at), midnight + hours * 3_600_000, "{hours}");
        }
        let denied = go(&world, "day", midnight + 3).await;
        assert_eq!(wait_ms(denied.retry_after), hours * 3_600_000);
        world.advance(hours * 3_600_000);
        assert_eq!(go(&world, "day", midnight + 3).await.outcome(), Outcome::Allowed);
    }
    world.assert_ttls();
}

/// Found by the model: collecting what is over took away the wrong one.
#[tokio::test]
async fn a_recipient_who_comes_again_takes_nobody_elses_place() {
    let mut world = World::begin().await;
    set(&world, "p", algorithm(Kind::Unique, 5, 1_000)).await;
    let mut used = Vec::new();
    for (send, recipient, later) in [(0, "one", 600), (1, "two", 500), (2, "one", 0), (3, "three", 0)] {
        let request = ConsumeRequest { recipient: recipient.into(), ..consume(&send.to_string(), &["p"]) };
        let answer = world.sidecar.caps().consume(request).await.unwrap().into_inner();
        used.push(answer.usage[0].used);
        world.advance(later);
    }
    assert_eq!(used, [1, 2, 2, 3]);
}

/// When the k-th single send could go, if all before it go as soon as they can: tried out.
#[tokio::test]
async fn the_kth_unit_frees_when_it_is_said_to() {
    for kind in [Kind::Fixed, Kind::Rolling, Kind::Gcra, Kind::Unique] {
        let mut world = World::begin().await;
        set(&world, "p", algorithm(kind, 3, 1_000)).await;
        for send in 0..2 {
            assert_eq!(go(&world, "p", send).await.outcome(), Outcome::Allowed);
            world.advance(130);
        }
        let begin = world.now;
        let mut told = Vec::new();
        for unit in 1..=8 {
            told.push(wait_ms(peek(&world, "p", 1, "someone new", unit).await.unit_after));
        }
        let mut came = Vec::new();
        let mut send = 100;
        while came.len() < 8 {
            send += 1;
            let answer = go(&world, "p", send).await;
            match answer.outcome() {
                Outcome::Allowed => came.push(world.now - begin),
                _ => world.advance(wait_ms(answer.retry_after)),
            }
        }
        assert_eq!(told, came, "{kind:?}");
    }
}

/// A clock that falls back (another primary's) opens no window anew and gives no more than the limit.
#[tokio::test]
async fn a_clock_that_falls_back_gives_nothing_away() {
    for kind in [Kind::Fixed, Kind::Rolling, Kind::Gcra, Kind::Unique] {
        let mut world = World::begin().await;
        set(&world, "p", algorithm(kind, 2, 10_000)).await;
        for send in 0..2 {
            assert_eq!(go(&world, "p", send).await.outcome(), Outcome::Allowed);
        }
        for back in [1, 9_999, 10_001, 600_000] {
            world.set(BEGIN - back);
            // What is counted for the first time shows the sidecar the clock as it is now.
            let other = format!("q{back}");
            set(&world, &other, algorithm(kind, 2, 10_000)).await;
            assert_eq!(go(&world, &other, 7 + back).await.outcome(), Outcome::Allowed, "{kind:?} {back}");
            assert_eq!(go(&world, "p", 5).await.outcome(), Outcome::Denied, "{kind:?} {back}");
        }
    }
}

/// Ten thousand random operations over everything at once, and no key without its TTL.
#[tokio::test]
async fn no_key_is_ever_without_its_ttl() {
    let mut world = World::begin().await;
    let names = ["Fixed", "Rolling", "Gcra", "Unique"];
    for (name, kind) in names.iter().zip([Kind::Fixed, Kind::Rolling, Kind::Gcra, Kind::Unique]) {
        set(&world, name, algorithm(kind, 50, 700)).await;
    }
    let mut pipe = super::support::small::Pipe::open(&world.sidecar).await;
    for round in 0..100 {
        for _ in 0..100 {
            use v1::pipe_request::Call;
            let id = format!("id {}", world.random(40));
            let count = usize::try_from(1 + world.random(4)).unwrap();
            let send = format!("send {}", world.random(2_000));
            let mut request = ConsumeRequest { recipient: id.clone(), ..consume(&send, &names[..count]) };
            if world.random(2) == 0 {
                request.mode = v1::consume_request::Mode::Reserve.into();
                request.reserve_ttl = ms(1 + world.random(900));
            }
            let settle = (send.clone(), rid());
            let call = match world.random(9) {
                0..=3 => Call::Consume(request),
                4 => Call::Confirm(v1::ConfirmRequest {
                    send_id: settle.0,
                    request_id: settle.1,
                    ..Default::default()
                }),
                5 => Call::Refund(v1::RefundRequest {
                    send_id: settle.0,
                    request_id: settle.1,
                    ..Default::default()
                }),
                6 => Call::NoteInbound(v1::NoteInboundRequest {
                    recipient: id,
                    request_id: rid(),
                    ..Default::default()
                }),
                7 => Call::Claim(v1::ClaimRequest {
                    retention: ms(1 + world.random(500)),
                    ..super::support::small::claim(&id)
                }),
                _ => Call::Advance(v1::AdvanceRequest {
                    ttl: ms(1 + world.random(500)),
                    ..super::support::small::advance(&id)
                }),
            };
            pipe.send(call).await;
        }
        for _ in 0..100 {
            pipe.next().await.unwrap().1.unwrap();
        }
        let ms = world.random(300);
        world.advance(ms);
        if round % 10 == 9 {
            world.assert_ttls();
        }
    }
    world.assert_ttls();
}
