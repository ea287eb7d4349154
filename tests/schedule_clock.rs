//! What time does to jobs and crons, under a clock that the test shifts: needs `--features test-clock`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{
    self, DeadReason, JobState, NackVerdict, SettleOutcome, enqueued::Outcome, upsert_cron_response,
};
use support::{
    Valkey,
    blob::request_id,
    schedule::{Queue, at_ms, delayed, grouped, job, ms, now_ms, retry, start, timestamp},
};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Lets the scripts see `by` more, ms.
fn shift(valkey: &Valkey, by: i64) {
    let _: i64 = valkey.command(&["INCRBY", "pannier:test-clock", &by.to_string()]);
}

/// Stops the clock at an instant.
fn set(valkey: &Valkey, at: i64) {
    let _: () = valkey.command(&["SET", "pannier:test-clock", &format!("={at}")]);
}

async fn until<F: Future<Output = bool>>(what: &str, done: impl Fn() -> F) {
    let until = Instant::now() + Duration::from_secs(15);
    while !done().await {
        assert!(Instant::now() < until, "{what}");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

async fn finish_all(queue: &Queue) {
    loop {
        let jobs = queue.take(100).await;
        if jobs.is_empty() {
            return;
        }
        for job in jobs {
            queue.ack(&job).await;
        }
    }
}

#[tokio::test]
async fn an_id_is_free_again_when_its_window_is_over() {
    // taskforcesh/bullmq#1799: ids that are kept for ever block a queue.
    let (valkey, _sidecar, queue) = start().await;
    let job = |n: usize| v1::JobSpec { unique_window: Some(ms(HOUR)), ..job(&format!("job {n}")) };
    queue.batch((0..300).map(job).collect()).await.unwrap();
    finish_all(&queue).await;
    let again = queue.batch((0..300).map(job).collect()).await.unwrap();
    assert!(again.iter().all(|one| one.outcome() == Outcome::AlreadyFinished));
    // Their records go with the retention, what is left of them stays until the window ends.
    queue
        .configure(v1::QueueSettings {
            retention: Some(v1::Retention { done_age: Some(ms(MINUTE)), ..Default::default() }),
            ..Default::default()
        })
        .await;
    shift(&valkey, 10 * MINUTE);
    until("the records go", || async { queue.counts().await.done == 0 }).await;
    let again = queue.batch((0..300).map(job).collect()).await.unwrap();
    assert!(again.iter().all(|one| one.outcome() == Outcome::AlreadyFinished && one.finished_at.is_some()));
    shift(&valkey, 51 * MINUTE);
    let again = queue.batch((0..300).map(job).collect()).await.unwrap();
    assert!(again.iter().all(|one| one.outcome() == Outcome::Created));
    finish_all(&queue).await;
    shift(&valkey, 2 * HOUR);
    until("nothing is left", || async {
        let left: Vec<String> = valkey.keys("*");
        left.iter().all(|key| !key.ends_with(":u") && !key.ends_with(":ux") && !key.contains(":j:"))
    })
    .await;
}

#[tokio::test]
async fn an_ingested_key_is_held_for_eight_days_from_when_it_was_first_seen() {
    let (valkey, _sidecar, queue) = start().await;
    queue.ingest(&["wamid.1"]).await.unwrap();
    shift(&valkey, 7 * DAY);
    assert_eq!(queue.ingest(&["wamid.1"]).await.unwrap()[0].outcome(), Outcome::Existing);
    finish_all(&queue).await;
    shift(&valkey, 23 * HOUR);
    assert_eq!(queue.ingest(&["wamid.1"]).await.unwrap()[0].outcome(), Outcome::AlreadyFinished);
    shift(&valkey, 2 * HOUR);
    assert_eq!(queue.ingest(&["wamid.1"]).await.unwrap()[0].outcome(), Outcome::Created);
}

#[tokio::test]
async fn an_old_failed_job_does_not_free_the_id_of_a_new_one() {
    // bullmq#3232.
    let (_valkey, _sidecar, queue) = start().await;
    let unique = || v1::JobSpec { unique_window: Some(ms(0)), ..job("k") };
    queue.add(unique()).await;
    let first = queue.take(1).await.pop().unwrap();
    queue.nack(&first, NackVerdict::Fail, None).await;
    let second = queue.add(v1::JobSpec { when: delayed("k", HOUR).when, ..unique() }).await;
    assert_eq!((second.outcome(), second.number), (Outcome::Created, 2));
    let request = v1::DeleteDeadRequest { queue: queue.name.clone(), all: true, ..Default::default() };
    assert_eq!(queue.client.clone().delete_dead(request).await.unwrap().into_inner().deleted, 1);
    assert_eq!(queue.outcome(unique()).await, Outcome::Existing);
}

#[tokio::test]
async fn defaults_of_retention_hold() {
    // OptimalBits/bull#840: finished jobs were kept for ever.
    let (valkey, _sidecar, queue) = start().await;
    for n in 0..12 {
        queue.batch((0..100).map(|m| job(&format!("job {n} {m}"))).collect()).await.unwrap();
    }
    finish_all(&queue).await;
    until("more than 1000 are trimmed", || async { queue.counts().await.done == 1000 }).await;
    queue.add(job("dead")).await;
    let got = queue.take(1).await.pop().unwrap();
    queue.nack(&got, NackVerdict::Fail, None).await;
    shift(&valkey, HOUR + MINUTE);
    until("done ones go after an hour", || async { queue.counts().await.done == 0 }).await;
    assert_eq!(queue.counts().await.dead, 1);
    shift(&valkey, 14 * DAY);
    until("dead ones go after 14 days", || async { queue.counts().await.dead == 0 }).await;
}

#[tokio::test]
async fn delays_of_more_than_24_days_and_until_9999_wait() {
    // OptimalBits/bull#244, taskforcesh/bullmq#4096.
    let (valkey, _sidecar, queue) = start().await;
    for delay in [2_147_483_647, 2_147_483_648, 2_147_483_649, 200_000_000_000_000] {
        let added = queue.add(delayed(&format!("in {delay}"), delay)).await;
        assert_eq!(added.state(), JobState::Scheduled);
    }
    let too_late = queue.try_add(delayed("too late", 300_000_000_000_000)).await.unwrap_err();
    assert_eq!(too_late.fields, ["job.delay"]);
    // 2040-01-01T00:00:00.001Z and .002Z, added the other way round.
    let new_year = 2_208_988_800_000;
    for (id, at) in [("second", new_year + 2), ("first", new_year + 1)] {
        let when = Some(v1::job_spec::When::DueAt(timestamp(at)));
        let added = queue.add(v1::JobSpec { when, ..job(id) }).await;
        assert_eq!(at_ms(added.due_at.as_ref()), at);
    }
    set(&valkey, new_year);
    let before: Vec<_> = queue.take(10).await.into_iter().map(|job| job.id).collect();
    assert_eq!(before, ["in 2147483647", "in 2147483648", "in 2147483649"]);
    set(&valkey, new_year + 5);
    let then: Vec<_> = queue.take(10).await.into_iter().map(|job| job.id).collect();
    assert_eq!(then, ["first", "second"]);
}

#[tokio::test]
async fn a_job_that_takes_its_workers_with_it_waits_longer_each_time() {
    // bullmq#892: two crashes, and it had failed for good without a wait.
    let (valkey, _sidecar, queue) = start().await;
    queue.add(v1::JobSpec { retry: retry(4, MINUTE), ..job("one") }).await;
    let first = queue.lease(&request_id(), 1, 5_000, 0).await.pop().unwrap();
    assert_eq!(first.attempt, 1);
    shift(&valkey, 5_001);
    until("the first loss comes back at once", || async { queue.counts().await.ready == 1 }).await;
    let second = queue.lease(&request_id(), 1, 5_000, 0).await.pop().unwrap();
    assert_eq!(second.attempt, 2);
    shift(&valkey, 5_001);
    until("the second one waits", || async { queue.counts().await.scheduled == 1 }).await;
    shift(&valkey, MINUTE);
    let third = queue.lease(&request_id(), 1, 5_000, 5_000).await.pop().unwrap();
    assert_eq!(third.attempt, 3);
    shift(&valkey, 5_001);
    until("the third one too", || async { queue.counts().await.scheduled == 1 }).await;
    shift(&valkey, 2 * MINUTE);
    let fourth = queue.lease(&request_id(), 1, 5_000, 5_000).await.pop().unwrap();
    assert_eq!(fourth.attempt, 4);
    shift(&valkey, 5_001);
    until("the last one is dead", || async { queue.counts().await.dead == 1 }).await;
    let dead = queue.get("one").await.unwrap();
    assert_eq!(dead.dead_reason(), DeadReason::Attempts);
    assert_eq!(queue.info().await.totals.unwrap().leases_lost, 4);
    // bullmq#3555: a dead one that is retried has all its attempts again.
    let request = v1::RetryDeadRequest { queue: queue.name.clone(), all: true, ..Default::default() };
    assert_eq!(queue.client.clone().retry_dead(request).await.unwrap().into_inner().retried, 1);
    let again = queue.take(1).await.pop().unwrap();
    assert_eq!((again.attempt, again.max_attempts), (1, 4));
}

#[tokio::test]
async fn a_job_that_starts_too_late_is_dead() {
    let (valkey, _sidecar, queue) = start().await;
    let not_after = Some(v1::job_spec::NotAfter::DeadlineIn(ms(MINUTE)));
    queue.add(v1::JobSpec { not_after, ..grouped("late", "chat") }).await;
    queue.add(grouped("next", "chat")).await;
    shift(&valkey, MINUTE + 1_000);
    until("the next one goes", || async { !queue.take(1).await.is_empty() }).await;
    assert_eq!(queue.get("late").await.unwrap().dead_reason(), DeadReason::Expired);
}

#[tokio::test]
async fn a_pause_ends_by_itself() {
    let (valkey, _sidecar, queue) = start().await;
    queue.add(job("one")).await;
    let request =
        v1::PauseQueueRequest { queue: queue.name.clone(), r#for: Some(ms(MINUTE)), ..Default::default() };
    assert!(queue.client.clone().pause_queue(request).await.unwrap().into_inner().paused_until.is_some());
    assert!(queue.info().await.paused);
    assert!(queue.take(1).await.is_empty());
    shift(&valkey, MINUTE + 1);
    assert_eq!(queue.take(1).await.len(), 1);
    assert!(!queue.info().await.paused);
}

#[tokio::test]
async fn with_skip_delayed_a_waiting_head_lets_the_others_go() {
    let (valkey, _sidecar, queue) = start().await;
    queue.configure(v1::QueueSettings { skip_delayed: Some(true), ..Default::default() }).await;
    queue.add(v1::JobSpec { retry: retry(3, 10_000), ..grouped("a", "chat") }).await;
    queue.add(v1::JobSpec { when: delayed("", HOUR).when, ..grouped("b", "chat") }).await;
    queue.add(grouped("c", "chat")).await;
    queue.add(grouped("d", "chat")).await;
    let a = queue.take(10).await;
    assert_eq!(a.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(queue.nack(&a[0], NackVerdict::Retry, None).await, SettleOutcome::Ok);
    let c = queue.take(10).await;
    assert_eq!(c.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["c"], "one at a time");
    // Not so far that the lease of c ends.
    shift(&valkey, 15_000);
    assert!(queue.take(10).await.is_empty(), "a is due again, but c is at it");
    queue.ack(&c[0]).await;
    let a = queue.take(10).await;
    assert_eq!(a[0].id, "a", "it has its old place");
    queue.ack(&a[0]).await;
    finish_all(&queue).await;
    shift(&valkey, HOUR);
    assert_eq!(queue.take(10).await[0].id, "b");
}

#[tokio::test]
async fn jobs_that_are_in_no_list_are_put_back() {
    // bullmq#2870: a hash without an entry in any set kept its id for ever.
    let (valkey, _sidecar, queue) = start().await;
    queue.add(delayed("scheduled", HOUR)).await;
    queue.add(grouped("of a group", "chat")).await;
    queue.add(v1::JobSpec { priority: 0, ..job("leased") }).await;
    queue.lease(&request_id(), 1, HOUR, 0).await;
    for key in valkey.keys("*") {
        if [":due", ":rdy", ":lse", ":grp", ":ga"].iter().any(|suffix| key.ends_with(suffix)) {
            let _: i64 = valkey.command(&["DEL", &key]);
        }
    }
    until("they are back", || async {
        let counts = queue.counts().await;
        counts.scheduled == 1 && counts.ready == 2
    })
    .await;
    assert_eq!(queue.cancel("scheduled").await, v1::cancel_job_response::Outcome::Cancelled);
}

fn cron(id: &str, rule: v1::cron::Rule) -> v1::Cron {
    v1::Cron {
        id: id.into(),
        rule: Some(rule),
        template: Some(v1::JobSpec { payload: b"tick".to_vec().into(), ..Default::default() }),
        ..Default::default()
    }
}

fn pattern(id: &str, pattern: &str, zone: &str) -> v1::Cron {
    v1::Cron { time_zone: zone.into(), ..cron(id, v1::cron::Rule::Pattern(pattern.into())) }
}

async fn upsert(queue: &Queue, cron: v1::Cron) -> v1::UpsertCronResponse {
    let request = v1::UpsertCronRequest { queue: queue.name.clone(), cron: Some(cron), ..Default::default() };
    queue.client.clone().upsert_cron(request).await.unwrap().into_inner()
}

async fn delete(queue: &Queue, id: &str) -> bool {
    let request = v1::DeleteCronRequest { queue: queue.name.clone(), id: id.into(), ..Default::default() };
    queue.client.clone().delete_cron(request).await.unwrap().into_inner().deleted
}

async fn next(queue: &Queue) -> v1::WorkJob {
    queue.lease(&request_id(), 1, 30_000, 10_000).await.pop().expect("no job came")
}

#[tokio::test]
async fn a_cron_fires_at_the_local_time_of_its_zone() {
    let (valkey, _sidecar, queue) = start().await;
    // 2026-03-07T12:00:00Z; the clocks of New York go forward in the night that follows.
    set(&valkey, 1_772_884_800_000);
    let set_to = upsert(&queue, pattern("nightly", "30 2 * * *", "America/New_York")).await;
    assert_eq!(set_to.outcome(), upsert_cron_response::Outcome::Created);
    // 2026-03-08T07:00:00Z
    let first = 1_772_953_200_000;
    assert_eq!(at_ms(set_to.next_at.as_ref()), first);
    set(&valkey, first - 1);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(queue.take(1).await.is_empty());
    set(&valkey, first);
    let got = next(&queue).await;
    assert_eq!((got.id.as_str(), &got.payload[..]), ("nightly@2026-03-08T07:00:00Z", &b"tick"[..]));
    assert_eq!(at_ms(got.due_at.as_ref()), first);
    queue.ack(&got).await;
    let request = v1::ListCronsRequest { queue: queue.name.clone(), occurrences: 2, ..Default::default() };
    let listed = queue.client.clone().list_crons(request).await.unwrap().into_inner().crons.pop().unwrap();
    assert_eq!(at_ms(listed.last_at.as_ref()), first);
    // 02:30 in summer is 06:30Z.
    let slots: Vec<_> = listed.occurrences.iter().map(|at| at_ms(Some(at)) - first).collect();
    assert_eq!(slots, [DAY - 30 * MINUTE, 2 * DAY - 30 * MINUTE]);
    assert_eq!(queue.info().await.counts.unwrap().crons, 1);
}

#[tokio::test]
async fn a_changed_cron_fires_by_its_new_rule() {
    // bullmq#3378: an upsert that changed nothing.
    let (valkey, _sidecar, queue) = start().await;
    set(&valkey, 1_772_884_800_000);
    upsert(&queue, pattern("c", "0 18 * * *", "")).await;
    let again = upsert(&queue, pattern("c", "0 18 * * *", "")).await;
    assert_eq!(again.outcome(), upsert_cron_response::Outcome::Unchanged);
    let mut changed = pattern("c", "0 15 * * *", "");
    changed.template.as_mut().unwrap().payload = b"new".to_vec().into();
    let changed = upsert(&queue, changed).await;
    assert_eq!(changed.outcome(), upsert_cron_response::Outcome::Updated);
    set(&valkey, at_ms(changed.next_at.as_ref()));
    let got = next(&queue).await;
    assert_eq!(&got.payload[..], b"new");
    queue.ack(&got).await;
    assert!(delete(&queue, "c").await);
    assert!(!delete(&queue, "c").await);
    shift_set(&valkey, &queue, 3 * DAY).await;
    assert!(queue.take(1).await.is_empty());
}

/// Moves a clock that stands still.
async fn shift_set(valkey: &Valkey, _queue: &Queue, by: i64) {
    let now: String = valkey.command(&["GET", "pannier:test-clock"]);
    set(valkey, now[1..].parse::<i64>().unwrap() + by);
    tokio::time::sleep(Duration::from_millis(400)).await;
}

#[tokio::test]
async fn what_was_missed_fires_once_or_not_at_all() {
    let (valkey, mut sidecar, queue) = start().await;
    set(&valkey, 1_772_884_800_000);
    upsert(&queue, pattern("once", "0 * * * *", "")).await;
    upsert(&queue, v1::Cron { misfire: v1::Misfire::Skip.into(), ..pattern("skip", "0 * * * *", "") }).await;
    // Nobody is there for ten hours and a half.
    sidecar.kill9();
    set(&valkey, 1_772_884_800_000 + 10 * HOUR + HOUR / 2);
    sidecar.spawn();
    sidecar.wait_serving(Duration::from_secs(30)).await;
    let queue = Queue::of(&sidecar, "reminders");
    let got = next(&queue).await;
    assert_eq!(got.id, "once@2026-03-07T13:00:00Z");
    queue.ack(&got).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(queue.take(1).await.is_empty());
    shift_set(&valkey, &queue, HOUR / 2).await;
    let mut ids = [next(&queue).await.id, next(&queue).await.id];
    ids.sort();
    assert_eq!(ids, ["once@2026-03-07T23:00:00Z", "skip@2026-03-07T23:00:00Z"]);
}

#[tokio::test]
async fn an_occurrence_waits_for_nobody_or_is_left_out() {
    let (valkey, _sidecar, queue) = start().await;
    set(&valkey, 1_772_884_800_000);
    upsert(&queue, pattern("skip", "* * * * *", "")).await;
    shift_set(&valkey, &queue, MINUTE).await;
    let first = queue.lease(&request_id(), 1, 2 * HOUR, 5_000).await.pop().unwrap();
    shift_set(&valkey, &queue, MINUTE).await;
    shift_set(&valkey, &queue, MINUTE).await;
    assert!(queue.take(5).await.is_empty(), "the first one is not final");
    queue.ack(&first).await;
    shift_set(&valkey, &queue, MINUTE).await;
    let second = queue.lease(&request_id(), 1, 2 * HOUR, 5_000).await.pop().unwrap();
    assert_eq!(second.id, "skip@2026-03-07T12:04:00Z");
    upsert(&queue, v1::Cron { overlap: v1::Overlap::Allow.into(), ..pattern("skip", "* * * * *", "") }).await;
    shift_set(&valkey, &queue, MINUTE).await;
    assert_eq!(next(&queue).await.id, "skip@2026-03-07T12:05:00Z");
}

#[tokio::test]
async fn a_cron_that_is_set_and_deleted_all_the_time_fires_every_slot_once() {
    // bullmq#3063: the next job was missing, or its id was that of one that had finished.
    let (valkey, _sidecar, queue) = start().await;
    let begin = 1_772_884_800_000;
    set(&valkey, begin);
    let each =
        || v1::Cron { overlap: v1::Overlap::Allow.into(), ..cron("c", v1::cron::Rule::Every(ms(10_000))) };
    upsert(&queue, each()).await;
    let mut seen = Vec::new();
    for slot in 1..=10 {
        set(&valkey, begin + slot * 10_000);
        let mut churn = Vec::new();
        for _ in 0..5 {
            let queue = queue.clone();
            churn.push(tokio::spawn(async move {
                for _ in 0..10 {
                    delete(&queue, "c").await;
                    upsert(&queue, each()).await;
                }
            }));
        }
        for one in churn {
            one.await.unwrap();
        }
        let got = next(&queue).await;
        queue.ack(&got).await;
        seen.push(at_ms(got.due_at.as_ref()) - begin);
        assert!(queue.take(5).await.is_empty(), "twice in one slot");
    }
    assert_eq!(seen, (1..=10).map(|slot| slot * 10_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_job_of_a_cron_that_is_gone_ends_after_its_attempts() {
    // The job of a scheduler that was removed stalled for ever.
    let (valkey, _sidecar, queue) = start().await;
    set(&valkey, 1_772_884_800_000);
    let mut each = pattern("c", "* * * * *", "");
    each.template.as_mut().unwrap().retry = retry(2, 1);
    upsert(&queue, each).await;
    shift_set(&valkey, &queue, MINUTE).await;
    for attempt in 1..=2 {
        let got = queue.lease(&request_id(), 1, 1_000, 5_000).await.pop().unwrap();
        assert_eq!(got.attempt, attempt);
        delete(&queue, "c").await;
        shift_set(&valkey, &queue, 1_001).await;
    }
    until("it is dead", || async { queue.counts().await.dead == 1 }).await;
}

#[tokio::test]
async fn bad_crons_are_refused() {
    let (_valkey, _sidecar, queue) = start().await;
    let wrong = [
        (pattern("", "* * * * *", ""), "cron.id"),
        (pattern("c", "0 0 30 2 *", ""), "cron.pattern"),
        (pattern("c", "hello", ""), "cron.pattern"),
        (pattern("c", "* * * * *", "Mars/Olympus"), "cron.time_zone"),
        (cron("c", v1::cron::Rule::Every(ms(999))), "cron.every"),
        (cron("c", v1::cron::Rule::Every(ms(401 * DAY))), "cron.every"),
        (v1::Cron { rule: None, ..pattern("c", "", "") }, "cron.pattern"),
        (v1::Cron { template: Some(job("own id")), ..pattern("c", "* * * * *", "") }, "cron.template.id"),
        (v1::Cron { template: Some(delayed("", 5)), ..pattern("c", "* * * * *", "") }, "cron.template.delay"),
        // bullmq#2954: an id of its own in the template stopped the scheduler. The slot is the id here.
        (
            v1::Cron {
                template: Some(v1::JobSpec { id: String::new(), unique_window: Some(ms(5)), ..job("") }),
                ..pattern("c", "* * * * *", "")
            },
            "cron.template.unique_window",
        ),
        (v1::Cron { misfire: 9, ..pattern("c", "* * * * *", "") }, "cron.misfire"),
    ];
    for (cron, field) in wrong {
        let request =
            v1::UpsertCronRequest { queue: queue.name.clone(), cron: Some(cron), ..Default::default() };
        let refused = support::unary::answer(queue.client.clone().upsert_cron(request).await).unwrap_err();
        assert_eq!(refused.fields, [field]);
    }
    assert!(queue.info().await.counts.is_none(), "nothing was made");
}

#[tokio::test]
async fn the_client_clock_does_not_count() {
    // OptimalBits/bull#1288: the server is a minute ahead of everybody else here, then a minute behind.
    for by in [MINUTE, -MINUTE] {
        let (valkey, _sidecar, queue) = start().await;
        shift(&valkey, by);
        let mut worker = queue.worker(30_000).await;
        worker.credit(20).await;
        let mut late = Vec::new();
        for n in 0..10 {
            let added = queue.add(delayed(&format!("job {n}"), 150)).await;
            let due = at_ms(added.due_at.as_ref());
            assert!((due - now_ms() - by - 150).abs() < 1_000);
            let got = worker.job().await;
            late.push(at_ms(got.leased_at.as_ref()) - due);
        }
        late.sort_unstable();
        // The half of them says it also where tests share their machine.
        assert!(late[0] >= 0 && late[5] < 20, "{late:?}");
    }
}
