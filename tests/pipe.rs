//! Small calls over one stream: the same answers as the unary calls, bounded, and ended in order.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{collections::HashMap, time::Duration};

use pannier::proto::v1::{self, claim_response::Outcome, pipe_request::Call, pipe_response::Answer};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    small::{Pipe, advance, claim, complete, get, step},
};

async fn start() -> (Valkey, Sidecar) {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    (valkey, sidecar)
}

#[tokio::test]
async fn each_answer_carries_the_number_of_its_request() {
    let (_valkey, sidecar) = start().await;
    let mut pipe = Pipe::open(&sidecar).await;
    let mut asked = HashMap::new();
    for n in 0..200 {
        let key = format!("k{}", n / 2);
        asked.insert(pipe.send(Call::Claim(claim(&key))).await, n);
    }
    let mut outcomes: HashMap<i32, Vec<Outcome>> = HashMap::new();
    for _ in 0..200 {
        let (seq, answer) = pipe.next().await.unwrap();
        let Ok(Answer::Claim(claimed)) = answer else { panic!("{seq}") };
        outcomes.entry(asked.remove(&seq).unwrap() / 2).or_default().push(claimed.outcome());
    }
    for (key, mut of_key) in outcomes {
        of_key.sort_unstable();
        assert_eq!(of_key, [Outcome::New, Outcome::InProgress], "{key}");
    }
    // All that wait go to Valkey in a few writes.
}

#[tokio::test]
async fn a_refused_call_is_answered_as_the_unary_one_is_and_the_rest_goes_on() {
    let (_valkey, sidecar) = start().await;
    let mut pipe = Pipe::open(&sidecar).await;
    let refused = pipe.call(Call::Claim(claim(""))).await.unwrap_err();
    let unary = support::small::answered(sidecar.dedup().claim(claim("")).await).unwrap_err();
    assert_eq!(format!("{refused:?}"), format!("{unary:?}"));
    let Ok(Answer::Advance(advanced)) = pipe.call(Call::Advance(step("chat", "s"))).await else { panic!() };
    assert_eq!(advanced.state.unwrap().step, "s");
    let Ok(Answer::GetConversation(got)) = pipe.call(Call::GetConversation(get("chat"))).await else {
        panic!()
    };
    assert_eq!(got.state.unwrap().step, "s");
    let seq = pipe.send_within(Call::Advance(advance("chat")), 120_001).await;
    let (answered, refused) = pipe.next().await.unwrap();
    assert_eq!((answered, &refused.unwrap_err().fields[..]), (seq, &["timeout_ms".to_owned()][..]));
}

#[tokio::test]
async fn the_257th_call_in_flight_is_refused_and_the_256_are_answered() {
    let (valkey, sidecar) = start().await;
    let mut pipe = Pipe::open(&sidecar).await;
    pipe.call(Call::Claim(claim("warm"))).await.unwrap();
    valkey.sigstop();
    let mut last = 0;
    for n in 0..257 {
        last = pipe.send_within(Call::Claim(claim(&format!("k{n}"))), 30_000).await;
    }
    let (seq, refused) = pipe.next().await.unwrap();
    assert_eq!((seq, refused.unwrap_err().reason.as_str()), (last, "TOO_MANY_IN_FLIGHT"));
    valkey.sigcont();
    for _ in 0..256 {
        let Ok(Answer::Claim(claimed)) = pipe.next().await.unwrap().1 else { panic!() };
        assert_eq!(claimed.outcome(), Outcome::New);
    }
}

#[tokio::test]
async fn each_call_has_its_own_time() {
    let (valkey, sidecar) = start().await;
    let mut pipe = Pipe::open(&sidecar).await;
    pipe.call(Call::Claim(claim("warm"))).await.unwrap();
    valkey.sigstop();
    let slow = pipe.send_within(Call::Claim(claim("slow")), 20_000).await;
    let quick = pipe.send_within(Call::Claim(claim("quick")), 200).await;
    let (seq, refused) = pipe.next().await.unwrap();
    let refused = refused.unwrap_err();
    assert_eq!((seq, refused.code), (quick, tonic::Code::DeadlineExceeded), "{refused:?}");
    assert_eq!(refused.metadata.get("outcome_unknown").map(String::as_str), Some("true"));
    valkey.sigcont();
    let (seq, answer) = pipe.next().await.unwrap();
    assert!(seq == slow && answer.is_ok());
}

#[tokio::test]
async fn what_is_in_flight_is_answered_when_the_client_ends_its_side() {
    let (_valkey, sidecar) = start().await;
    let mut pipe = Pipe::open(&sidecar).await;
    for n in 0..50 {
        pipe.send(Call::Claim(claim(&format!("k{n}")))).await;
    }
    let mut answers = pipe.end();
    let mut count = 0;
    while let Some(answer) = answers.message().await.unwrap() {
        assert!(matches!(answer.answer, Some(Answer::Claim(_))));
        count += 1;
    }
    assert_eq!(count, 50);
}

#[tokio::test]
async fn a_sidecar_that_stops_answers_what_it_has_and_ends_the_stream() {
    let (valkey, mut sidecar) = start().await;
    let mut pipe = Pipe::open(&sidecar).await;
    let Ok(Answer::Claim(claimed)) = pipe.call(Call::Claim(claim("k"))).await else { panic!() };
    valkey.sigstop();
    let pending = pipe.send(Call::CompleteClaim(complete("k", claimed.fence, b""))).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    sidecar.sigterm();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let late = pipe.send(Call::Claim(claim("late"))).await;
    let (seq, refused) = pipe.next().await.unwrap();
    assert_eq!((seq, refused.unwrap_err().reason.as_str()), (late, "DRAINING"));
    valkey.sigcont();
    let (seq, answer) = pipe.next().await.unwrap();
    assert!(seq == pending && answer.is_ok());
    assert!(pipe.next().await.is_none());
    assert!(sidecar.wait_exit(Duration::from_secs(20)).await.success());
}

#[tokio::test]
async fn many_calls_reach_valkey_in_few_writes() {
    let (valkey, sidecar) = start().await;
    let mut pipe = Pipe::open(&sidecar).await;
    pipe.call(Call::Claim(claim("warm"))).await.unwrap();
    let reads = || -> u64 {
        let info: String = valkey.command(&["INFO", "stats"]);
        let line = info.lines().find_map(|line| line.strip_prefix("total_reads_processed:")).unwrap();
        line.trim().parse().unwrap()
    };
    let before = reads();
    for round in 0..10 {
        for n in 0..200 {
            pipe.send(Call::Claim(claim(&format!("k{round}.{n}")))).await;
        }
        for _ in 0..200 {
            pipe.next().await.unwrap().1.unwrap();
        }
    }
    let reads = reads() - before;
    assert!(reads < 1000, "2000 calls took Valkey {reads} reads");
}

#[tokio::test]
async fn a_request_without_a_call_is_refused() {
    let (_valkey, sidecar) = start().await;
    let mut client = v1::pipe_service_client::PipeServiceClient::new(sidecar.channel());
    let empty = v1::PipeRequest { seq: 7, ..Default::default() };
    let mut answers = client.pipe(tokio_stream::iter([empty])).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    assert_eq!(answer.seq, 7);
    assert!(matches!(answer.answer, Some(Answer::Error(status)) if status.code == 3));
}
