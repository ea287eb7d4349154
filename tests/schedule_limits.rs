//! What holds jobs back: limiter, concurrency, pauses, credit; and requests that are refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{self, JobState, NackVerdict, SettleOutcome};
use support::{
    Options, Sidecar,
    blob::request_id,
    schedule::{Queue, Worker, at_ms, delayed, grouped, job, lease_of, ms, retry, start},
};
use tonic::Code;

fn limiter(max: u32, per: i64) -> v1::QueueSettings {
    let limiter = Some(v1::Limiter { max, duration: Some(ms(per)) });
    v1::QueueSettings { limiter, ..Default::default() }
}

/// Works jobs off until `count` have started or time is up; gives when each did.
async fn work(mut worker: Worker, count: usize, within: Duration) -> Vec<i64> {
    let until = Instant::now() + within;
    let mut starts = Vec::new();
    worker.credit(100).await;
    while starts.len() < count && Instant::now() < until {
        let Some(job) = worker.job_within(Duration::from_millis(200)).await else { continue };
        starts.push(at_ms(job.leased_at.as_ref()));
        let settles = vec![v1::WorkSettle { lease: Some(lease_of(&job)), ..Default::default() }];
        worker.send(v1::WorkRequest { settles, credit: 1, ..Default::default() }).await;
    }
    starts
}

#[tokio::test]
async fn never_more_starts_than_the_limiter_allows_in_any_interval() {
    // OptimalBits/bull#2221, taskforcesh/bullmq#2777: twice as many at the edges of windows, and with several workers.
    let (_valkey, sidecar, queue) = start().await;
    let second = Sidecar::start(Options {
        dir: Some(sidecar.dir.clone()),
        socket_name: Some("second.sock".into()),
        ..sidecar.options.clone()
    })
    .await;
    queue.configure(limiter(20, 1_000)).await;
    let other = Queue::of(&second, "reminders");
    let mut workers = Vec::new();
    for queue in [&queue, &other, &other] {
        let worker = queue.worker(30_000).await;
        workers.push(tokio::spawn(work(worker, 200, Duration::from_millis(4_500))));
    }
    // One, idle, and then a burst.
    queue.add(job("first")).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    queue.batch((0..70).map(|n| job(&format!("job {n}"))).collect()).await.unwrap();
    let mut starts = Vec::new();
    for worker in workers {
        starts.extend(worker.await.unwrap());
    }
    starts.sort_unstable();
    assert_eq!(starts.len(), 71);
    for window in starts.windows(21) {
        assert!(window[20] - window[0] > 1_000, "21 starts in {} ms: {starts:?}", window[20] - window[0]);
    }
    // And no slower than that: 71 need three further intervals.
    assert!(starts[70] - starts[0] < 4_500, "{}", starts[70] - starts[0]);
}

#[tokio::test]
async fn a_pause_does_not_save_up_starts() {
    // bullmq#2193: a burst after the pause.
    let (_valkey, _sidecar, queue) = start().await;
    queue.configure(limiter(10, 1_000)).await;
    let request = v1::PauseQueueRequest { queue: queue.name.clone(), ..Default::default() };
    queue.client.clone().pause_queue(request).await.unwrap();
    queue.batch((0..25).map(|n| job(&format!("job {n}"))).collect()).await.unwrap();
    let worker = queue.worker(30_000).await;
    let working = tokio::spawn(work(worker, 25, Duration::from_secs(8)));
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(queue.counts().await.ready, 25);
    let request = v1::ResumeQueueRequest { queue: queue.name.clone(), ..Default::default() };
    assert!(queue.client.clone().resume_queue(request.clone()).await.unwrap().into_inner().resumed);
    assert!(!queue.client.clone().resume_queue(request).await.unwrap().into_inner().resumed);
    let starts = working.await.unwrap();
    assert_eq!(starts.len(), 25);
    for window in starts.windows(11) {
        assert!(window[10] - window[0] > 1_000);
    }
}

#[tokio::test]
async fn due_jobs_become_ready_although_the_limiter_holds() {
    // bullmq#2697.
    let (_valkey, _sidecar, queue) = start().await;
    queue.configure(limiter(1, 60_000)).await;
    let mut worker = queue.worker(30_000).await;
    worker.credit(10).await;
    queue.add(job("one")).await;
    worker.job().await;
    queue.batch((0..5).map(|n| delayed(&format!("job {n}"), 200)).collect()).await.unwrap();
    assert_eq!(queue.counts().await.scheduled, 5);
    let until = Instant::now() + Duration::from_secs(5);
    while queue.counts().await.ready != 5 {
        assert!(Instant::now() < until, "{:?}", queue.counts().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Without it they go at once.
    queue.configure(limiter(0, 1)).await;
    for _ in 0..5 {
        worker.job().await;
    }
}

#[tokio::test]
async fn no_more_leases_at_once_than_the_queue_allows() {
    let (_valkey, _sidecar, queue) = start().await;
    queue.configure(v1::QueueSettings { concurrency: Some(3), ..Default::default() }).await;
    queue.batch((0..10).map(|n| job(&format!("job {n}"))).collect()).await.unwrap();
    let (mut first, mut second) = (queue.worker(30_000).await, queue.worker(30_000).await);
    first.credit(10).await;
    second.credit(10).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(tokio::select! { job = first.job() => (0, job), job = second.job() => (1, job) });
    }
    assert!(first.job_within(Duration::from_millis(200)).await.is_none());
    assert!(second.job_within(Duration::from_millis(200)).await.is_none());
    assert_eq!(queue.counts().await.leased, 3);
    let (which, one) = held.pop().unwrap();
    let owner = if which == 0 { &mut first } else { &mut second };
    assert_eq!(owner.ack(&one).await, SettleOutcome::Ok);
    let next = tokio::select! { job = first.job() => job, job = second.job() => job };
    assert_eq!(next.id, "job 3");
}

#[tokio::test]
async fn a_smaller_priority_goes_first_also_when_it_failed() {
    // OptimalBits/bull#1925: a retry forgot the priority.
    let (_valkey, _sidecar, queue) = start().await;
    for (id, priority) in [("low", 5), ("high", 1), ("low 2", 5)] {
        queue.add(v1::JobSpec { priority, retry: retry(3, 1), ..job(id) }).await;
    }
    let high = queue.take(1).await.pop().unwrap();
    assert_eq!(high.id, "high");
    queue.nack(&high, NackVerdict::Retry, Some(0)).await;
    let ids: Vec<_> = queue.take(3).await.into_iter().map(|job| job.id).collect();
    assert_eq!(ids, ["high", "low", "low 2"]);
}

#[tokio::test]
async fn a_release_while_draining_does_not_come_back_to_the_same_worker() {
    // bullmq#4163, bullmq#834: a close that never ended.
    let (_valkey, _sidecar, queue) = start().await;
    queue.batch((0..10).map(|n| job(&format!("job {n}"))).collect()).await.unwrap();
    let mut worker = queue.worker(30_000).await;
    worker.credit(10).await;
    let mut jobs = Vec::new();
    for _ in 0..10 {
        jobs.push(worker.job().await);
    }
    worker.send(v1::WorkRequest { draining: true, credit: 5, ..Default::default() }).await;
    worker.until("quiet", |worker| worker.quiet).await;
    for (n, job) in jobs.iter().enumerate() {
        worker.heartbeat().await;
        let verdict = match n {
            0..5 => NackVerdict::Unspecified,
            5..8 => NackVerdict::Fail,
            _ => NackVerdict::Release,
        };
        assert_eq!(worker.settle(job, verdict, None).await, SettleOutcome::Ok);
    }
    let ended = loop {
        if let Err(status) = worker.step(Duration::from_secs(5)).await {
            break status;
        }
    };
    assert_eq!(ended.code(), Code::Ok, "{ended:?}");
    assert!(worker.jobs.is_empty());
    let counts = queue.counts().await;
    assert_eq!((counts.done, counts.dead, counts.ready), (5, 3, 2));
    assert!(queue.take(5).await.iter().all(|job| job.attempt == 1));
}

#[tokio::test]
async fn a_silent_worker_is_given_up_after_one_lease() {
    let (_valkey, _sidecar, queue) = start().await;
    queue.add(job("one")).await;
    let mut worker = queue.worker(1_000).await;
    worker.credit(1).await;
    worker.job().await;
    let began = Instant::now();
    let ended = loop {
        if let Err(status) = worker.step(Duration::from_secs(5)).await {
            break status;
        }
    };
    assert_eq!(ended.code(), Code::DeadlineExceeded);
    assert!(began.elapsed() < Duration::from_secs(3));
    let again = queue.lease(&request_id(), 1, 30_000, 5_000).await.pop().unwrap();
    assert_eq!(again.attempt, 2);
}

#[tokio::test]
async fn a_leased_job_can_be_cancelled_and_its_worker_hears_of_it() {
    // bullmq#374, OptimalBits/bull#2335.
    use v1::cancel_job_response::Outcome;
    let (_valkey, _sidecar, queue) = start().await;
    assert_eq!(queue.cancel("none").await, Outcome::NotFound);
    queue.add(grouped("one", "chat")).await;
    queue.add(grouped("two", "chat")).await;
    let mut worker = queue.worker(30_000).await;
    worker.credit(1).await;
    let one = worker.job().await;
    assert_eq!(queue.cancel("one").await, Outcome::CancelRequested);
    assert_eq!(queue.cancel("one").await, Outcome::CancelRequested);
    worker.until("the cancellation", |worker| !worker.cancel.is_empty()).await;
    assert_eq!(worker.cancel[0], lease_of(&one));
    assert!(queue.get("one").await.unwrap().cancel_requested);
    assert_eq!(worker.settle(&one, NackVerdict::Retry, None).await, SettleOutcome::Ok);
    assert_eq!(queue.get("one").await.unwrap().state(), JobState::Cancelled);
    assert_eq!(queue.cancel("one").await, Outcome::Cancelled);
    // Its id is free, and the next of its group has the turn.
    assert_eq!(queue.add(job("one")).await.number, 3);
    worker.credit(1).await;
    let two = worker.job().await;
    assert_eq!(two.id, "two");
    worker.ack(&two).await;
    assert_eq!(queue.cancel("two").await, Outcome::AlreadyFinished);
}

#[tokio::test]
async fn a_cancel_that_races_a_lease_has_one_of_two_outcomes() {
    use v1::cancel_job_response::Outcome;
    let (_valkey, _sidecar, queue) = start().await;
    // SnapOtter#889, bullmq#374, #1506, #2256.
    for n in 0..1_000 {
        let id = format!("job {n}");
        queue.add(job(&id)).await;
        let (outcome, leased) = tokio::join!(queue.cancel(&id), queue.take(1));
        match outcome {
            Outcome::Cancelled => assert!(leased.is_empty()),
            Outcome::CancelRequested => assert_eq!(leased.len(), 1),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_last_of_two_new_due_times_counts() {
    // bullmq#1389: the old delay stayed.
    let (_valkey, _sidecar, queue) = start().await;
    queue.add(delayed("one", 60_000)).await;
    queue.reschedule("one", 120_000).await.unwrap();
    let moved = queue.reschedule("one", 300_000).await.unwrap();
    let stored = queue.get("one").await.unwrap();
    assert_eq!(stored.due_at, moved.due_at);
    assert!(at_ms(stored.due_at.as_ref()) - at_ms(stored.created_at.as_ref()) >= 300_000);
    let request = v1::PromoteJobRequest { queue: queue.name.clone(), id: "one".into(), ..Default::default() };
    queue.client.clone().promote_job(request).await.unwrap();
    assert_eq!(queue.take(1).await.len(), 1);
    assert_eq!(queue.reschedule("none", 5).await.unwrap_err().reason, "JOB_NOT_FOUND");
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_name_and_nothing_is_written() {
    let (_valkey, _sidecar, queue) = start().await;
    let wrong = [
        (v1::JobSpec { payload: vec![0; 256 * 1024 + 1].into(), ..job("a") }, "job.payload"),
        (v1::JobSpec { priority: 8192, ..job("a") }, "job.priority"),
        (v1::JobSpec { group: "x".repeat(513), ..job("a") }, "job.group"),
        (v1::JobSpec { on_conflict: 9, ..job("a") }, "job.on_conflict"),
        (v1::JobSpec { retry: retry(1001, 1), ..job("a") }, "job.retry.max_attempts"),
        (v1::JobSpec { retry: retry(3, 0), ..job("a") }, "job.retry.base"),
        (v1::JobSpec { retry: retry(3, 24 * 3_600_000 + 1), ..job("a") }, "job.retry.base"),
        (
            v1::JobSpec {
                retry: Some(v1::RetryPolicy { jitter_percent: Some(101), ..Default::default() }),
                ..job("a")
            },
            "job.retry.jitter_percent",
        ),
        (v1::JobSpec { unique_window: Some(ms(401 * 86_400_000)), ..job("a") }, "job.unique_window"),
        (v1::JobSpec { cap: Some(v1::CapGate::default()), ..job("a") }, "job.cap.policies"),
        (
            v1::JobSpec {
                when: Some(v1::job_spec::When::DueAt(prost_types::Timestamp { seconds: 1, nanos: -1 })),
                ..job("a")
            },
            "job.due_at",
        ),
    ];
    for (spec, field) in wrong {
        let refused = queue.try_add(spec).await.unwrap_err();
        assert_eq!((refused.code, refused.fields), (Code::InvalidArgument, vec![field.to_owned()]));
    }
    let short = queue.add_as(job("a"), "short").await.unwrap_err();
    assert_eq!(short.fields, ["request_id"]);
    let many = queue.batch((0..1001).map(|n| job(&n.to_string())).collect()).await.unwrap_err();
    assert_eq!(many.fields, ["jobs"]);
    let one_of_many =
        queue.batch(vec![job("a"), v1::JobSpec { priority: 9999, ..job("b") }]).await.unwrap_err();
    assert_eq!(one_of_many.fields, ["jobs[1].priority"]);
    assert_eq!(queue.ingest(&[""]).await.unwrap_err().fields, ["items[0].dedup_key"]);
    for name in [String::new(), "x".repeat(513)] {
        let other = Queue { name, ..queue.clone() };
        assert_eq!(other.try_add(job("a")).await.unwrap_err().fields, ["queue"]);
    }
    let settings = [
        (limiter(10_001, 1_000), "settings.limiter.max"),
        (limiter(5, 0), "settings.limiter.duration"),
        (v1::QueueSettings { concurrency: Some(100_001), ..Default::default() }, "settings.concurrency"),
    ];
    for (settings, field) in settings {
        let request = v1::ConfigureQueueRequest {
            queue: queue.name.clone(),
            settings: Some(settings),
            ..Default::default()
        };
        let refused =
            support::unary::answer(queue.client.clone().configure_queue(request).await).unwrap_err();
        assert_eq!(refused.fields, [field]);
    }
    let hellos = [
        (v1::WorkHello { queues: vec![], ..queue.hello(30_000) }, "hello.queues"),
        (v1::WorkHello { queues: vec!["a".into(), "a".into()], ..queue.hello(30_000) }, "hello.queues[1]"),
        (queue.hello(999), "hello.lease"),
        (v1::WorkHello { max_in_flight: 1001, ..queue.hello(30_000) }, "hello.max_in_flight"),
    ];
    for (hello, field) in hellos {
        let Err(refused) = queue.try_worker(hello).await else { panic!("{field}") };
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().starts_with(field), "{}", refused.message());
    }
    assert!(queue.info().await.counts.is_none(), "a refused request has made the queue");
    // A settle that is too large is refused alone; the stream goes on.
    queue.add(job("one")).await;
    let mut worker = queue.worker(30_000).await;
    worker.credit(1).await;
    let one = worker.job().await;
    let settle = v1::WorkSettle {
        lease: Some(lease_of(&one)),
        result: vec![0; 64 * 1024 + 1].into(),
        ..Default::default()
    };
    worker.send(v1::WorkRequest { settles: vec![settle], ..Default::default() }).await;
    worker.until("the refusal", |worker| !worker.errors.is_empty()).await;
    assert_eq!(worker.errors.remove(0).reason, "TOO_LARGE");
    assert_eq!(worker.ack(&one).await, SettleOutcome::Ok);
}
