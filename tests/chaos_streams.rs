//! A bad network under the streams: a commit, a call in a pipe, a job's settlement and a save are each answered inside their time, and
//! the same again has its effect once. The lease and the stream outlive what is shorter than they are.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{
    self, SettleOutcome, attach_request::Op, pipe_request::Call, pipe_response::Answer,
};
use support::{
    attach::{Attach, Refused, open, put},
    bad_network::{check_refusal, faults_for, healed, start},
    chaos::Fault,
    schedule::{Queue, job, lease_of},
    small::{Pipe, claim},
    unary::Unary,
};

const TIME_MS: u32 = 1000;
const MARGIN: Duration = Duration::from_secs(2);

fn check(fault: Fault, what: &str, refused: Option<&Refused>, begun: Instant) {
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(TIME_MS.into()) + MARGIN, "{fault:?}: {what} took {took:?}");
    if let Some(refused) = refused {
        check_refusal(fault, what, refused);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_answered_in_its_time_and_done_once_and_the_lease_is_kept() {
    let (_valkey, network, sidecar) = start().await;
    let mut bot = Attach::open(sidecar.channel(), open("bot", "me")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", *b"0")], vec![]).await.unwrap();
    let mut in_doubt = 0;
    for (op_seq, fault) in (2..).zip(faults_for("Attach")) {
        let value = op_seq.to_string();
        let commit = v1::Commit {
            op_seq,
            puts: vec![put("session", "1.0", value.clone()), put("session", "2.0", value.clone())],
            ..Default::default()
        };
        network.suffer(fault);
        let begun = Instant::now();
        let seq = bot.send_with(TIME_MS, Op::Commit(commit.clone())).await;
        let refused = bot.committed(seq).await.err();
        check(fault, "the commit", refused.as_ref(), begun);
        network.suffer(Fault::None);
        healed(&sidecar, fault).await;

        let mut unary = Unary::of(&sidecar);
        let revision = unary.info("bot").await.revision;
        let values: Vec<_> = unary.get("bot", "session", &["1.0", "2.0"]).await.unwrap();
        assert!(values.windows(2).all(|pair| pair[0].value == pair[1].value), "{fault:?}: torn: {values:?}");
        match &refused {
            None => assert_eq!(revision, op_seq, "{fault:?}: it was acknowledged"),
            Some(refused) if revision == op_seq => {
                assert!(refused.outcome_unknown(), "{fault:?}: it was done: {refused:?}");
                in_doubt += 1;
            }
            Some(_) => assert_eq!(revision, op_seq - 1, "{fault:?}"),
        }
        // On the same stream, with the same number.
        let again = bot.commit_as(commit).await.unwrap_or_else(|refused| panic!("{fault:?}: {refused:?}"));
        assert_eq!(again.revision, op_seq, "{fault:?}: done once");
        assert_eq!(unary.info("bot").await.revision, op_seq, "{fault:?}: done once");
        assert_eq!(unary.value("bot", "session", "2.0").await.unwrap(), value.as_bytes());
    }
    assert!(in_doubt > 0, "no commit was ever in doubt: the faults do too little");
    bot.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_in_a_pipe_is_answered_in_its_time_and_the_pipe_goes_on() {
    let (_valkey, network, sidecar) = start().await;
    let mut pipe = Pipe::open(&sidecar).await;
    pipe.call(Call::Claim(claim("first"))).await.unwrap();
    for (n, fault) in faults_for("Pipe").into_iter().enumerate() {
        let request = claim(&format!("message-{n}"));
        network.suffer(fault);
        let begun = Instant::now();
        let seq = pipe.send_within(Call::Claim(request.clone()), TIME_MS).await;
        let (answered, answer) = pipe.next().await.expect("the pipe has ended");
        assert_eq!(answered, seq);
        let first = match &answer {
            Ok(Answer::Claim(claimed)) => Some(claimed.fence),
            _ => None,
        };
        check(fault, "the claim", answer.err().as_ref(), begun);
        network.suffer(Fault::None);
        healed(&sidecar, fault).await;

        let Answer::Claim(again) = pipe.call(Call::Claim(request.clone())).await.unwrap() else { panic!() };
        // Ours, by this very request, whether the first time or now.
        assert_eq!(again.outcome(), v1::claim_response::Outcome::New, "{fault:?}: {first:?}");
        assert!(first.is_none_or(|first| first == again.fence), "{fault:?}: {first:?} then {again:?}");
        let Answer::Claim(other) = pipe.call(Call::Claim(claim(&request.key))).await.unwrap() else {
            panic!()
        };
        assert_eq!(other.outcome(), v1::claim_response::Outcome::InProgress, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_settled_over_a_bad_network_is_done_once() {
    let (_valkey, network, sidecar) = start().await;
    for (n, fault) in faults_for("Work").into_iter().enumerate() {
        let queue = Queue::of(&sidecar, &format!("reminders {n}"));
        queue.add(job("one")).await;
        let mut worker = queue.worker(60_000).await;
        worker.credit(1).await;
        let taken = worker.job_within(Duration::from_secs(20)).await;
        let Some(taken) = taken else { panic!("before {fault:?}: no job came: {:?}", queue.counts().await) };
        network.suffer(fault);
        let lease = lease_of(&taken);
        let settle =
            v1::WorkSettle { lease: Some(lease.clone()), result: b"r".to_vec().into(), ..Default::default() };
        worker.send(v1::WorkRequest { settles: vec![settle.clone()], ..Default::default() }).await;
        // Longer than a reply takes on a good day; what comes of it is told when it is known.
        let _ = worker.step(Duration::from_millis(TIME_MS.into())).await;
        network.suffer(Fault::None);
        healed(&sidecar, fault).await;

        let begun = Instant::now();
        let key = (lease.number, lease.fence);
        while !worker.outcomes.contains_key(&key) {
            assert!(begun.elapsed() < Duration::from_secs(15), "{fault:?}: no outcome, {:?}", worker.errors);
            if worker.step(Duration::from_secs(2)).await.is_err() {
                // The stream was ended: another one takes over, and nobody has lost the job meanwhile.
                worker = queue.worker(60_000).await;
            }
            if !worker.outcomes.contains_key(&key) {
                worker.send(v1::WorkRequest { settles: vec![settle.clone()], ..Default::default() }).await;
            }
        }
        let outcome = worker.outcomes[&key];
        assert!([SettleOutcome::Ok, SettleOutcome::AlreadyDone].contains(&outcome), "{fault:?}: {outcome:?}");
        let now = queue.get("one").await.unwrap();
        assert_eq!(
            (now.state(), now.attempts, &now.result[..]),
            (v1::JobState::Done, 1, &b"r"[..]),
            "{fault:?}"
        );
    }
}

/// The last good archive stays whole, whatever becomes of a save.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_over_a_bad_network_is_whole_or_not_at_all() {
    let (_valkey, network, sidecar) = start().await;
    let blobs = sidecar.blobs();
    let mut good = support::blob::content(0, 600_000);
    blobs.save("archive", &good).await.unwrap();
    for (n, fault) in (1..).zip(faults_for("SaveBlob")) {
        let next = support::blob::content(n, 600_000);
        let header = support::blob::header("archive");
        network.suffer(fault);
        let saving = blobs.save_as(header.clone(), &next);
        let saved = match tokio::time::timeout(Duration::from_secs(2), saving).await {
            Ok(saved) => saved.is_ok(),
            Err(_) => false,
        };
        network.suffer(Fault::None);
        healed(&sidecar, fault).await;
        let found = blobs.fetch("archive").await.unwrap();
        assert!(found == next || (!saved && found == good), "{fault:?}: neither the old one nor the new one");
        // With the same request id, until it is there: an upload that was cut off holds nobody up for long.
        let begun = Instant::now();
        while let Err(refused) = blobs.save_as(header.clone(), &next).await {
            assert!(begun.elapsed() < Duration::from_secs(20), "{fault:?}: {refused:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert_eq!(blobs.fetch("archive").await.unwrap(), next, "{fault:?}");
        good = next;
    }
}
