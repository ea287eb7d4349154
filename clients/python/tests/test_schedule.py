"""Jobs: added, looked at, taken back."""

import threading
import time
from datetime import datetime, timedelta, timezone

import pytest
from support import Sidecar

import pannier
from pannier import CapGate, IngestItem, JobContent, JobSpec, Limiter, Retention, RetryPolicy, aio

HOUR = timedelta(hours=1)
QUEUE = "reminders {*}: ☂"


def test_a_job_is_added_once_under_its_id(client: pannier.Pannier) -> None:
    due = datetime(2099, 12, 1, 9, 0, tzinfo=timezone(timedelta(hours=-6)))
    added = client.schedule.enqueue(QUEUE, {"invoice": "INV-7"}, id="reminder:ÍNV-7:1", due_at=due, group="ana")
    assert (added.outcome, added.state, added.due_at, added.replayed) == ("created", "scheduled", due, False)
    again = client.schedule.enqueue(QUEUE, {"invoice": "other"}, id="reminder:ÍNV-7:1")
    assert (again.outcome, again.number, again.due_at) == ("existing", added.number, due)
    moved = client.schedule.enqueue(QUEUE, id="reminder:ÍNV-7:1", delay=HOUR, on_conflict="reschedule")
    assert moved.outcome == "rescheduled" and moved.due_at is not None and moved.due_at < due
    job = client.schedule.get(QUEUE, "reminder:ÍNV-7:1")
    assert job is not None and job.payload == {"invoice": "INV-7"} and job.group == "ana" and job.state == "scheduled"
    new = client.schedule.enqueue(QUEUE, b"\x00", id="reminder:ÍNV-7:1", on_conflict="replace", priority=3)
    assert new.outcome == "replaced"
    job = client.schedule.get(QUEUE, "reminder:ÍNV-7:1")
    assert job is not None and job.payload == b"\x00" and job.priority == 3
    assert client.schedule.get(QUEUE, "none") is None


def test_a_batch_is_decided_one_by_one(client: pannier.Pannier) -> None:
    specs = [JobSpec(id=f"j{n % 3}", payload=n) for n in range(5)] + [JobSpec(payload="")]
    results = client.schedule.enqueue_batch("q", specs)
    assert [one.outcome for one in results] == ["created"] * 3 + ["existing"] * 2 + ["created"]
    assert {job.id: job.payload for job in client.schedule.list("q", "ready", with_payload=True)} == {
        "j0": 0, "j1": 1, "j2": 2, results[5].id: "",
    }  # fmt: skip


def test_a_message_that_comes_again_is_one_job(client: pannier.Pannier) -> None:
    items = [IngestItem(dedup_key=f"message:wamid.{n}", payload={"n": n}, group="ana") for n in (1, 2, 1)]
    assert [one.outcome for one in client.schedule.ingest("in", items)] == ["created", "created", "existing"]
    assert client.schedule.ingest("in", items[:1])[0].outcome == "existing"
    assert [job.id for job in client.schedule.list("in", "waiting")] == ["message:wamid.2"]


def test_a_job_is_taken_back_moved_and_promoted(client: pannier.Pannier) -> None:
    client.schedule.enqueue("q", id="j", delay=HOUR)
    assert client.schedule.reschedule("q", "j", delay=2 * HOUR).outcome == "rescheduled"
    at = datetime(2090, 1, 1, tzinfo=timezone.utc)
    assert client.schedule.reschedule("q", "j", due_at=at).due_at == at
    assert client.schedule.promote("q", "j").state == "ready"
    assert client.schedule.cancel("q", "j").outcome == "cancelled"
    assert client.schedule.cancel("q", "none").outcome == "not_found"
    assert client.schedule.promote("q", "none").outcome == "not_found"
    assert client.schedule.reschedule("q", "none").outcome == "not_found"


def test_a_queue_is_configured_paused_and_purged(client: pannier.Pannier) -> None:
    assert client.schedule.stats("q") is None
    settings = client.schedule.configure(
        "q",
        limiter=Limiter(max=10, duration=timedelta(seconds=1)),
        concurrency=7,
        retry=RetryPolicy(max_attempts=5, base=timedelta(seconds=2), jitter_percent=0),
        retention=Retention(done_age=timedelta(0), dead_count=9),
        skip_delayed=True,
    )
    assert settings.limiter == Limiter(max=10, duration=timedelta(seconds=1)) and settings.concurrency == 7
    assert settings.retention is not None and settings.retention.dead_count == 9 and settings.skip_delayed
    assert client.schedule.configure("q", limiter=Limiter(max=0)).concurrency == 7
    client.schedule.enqueue_batch("q", [JobSpec(), JobSpec(delay=HOUR)])
    until = client.schedule.pause("q", HOUR)
    stats = client.schedule.stats("q")
    assert stats is not None and stats.paused and stats.paused_until == until and until is not None
    assert (stats.counts.ready, stats.counts.scheduled, stats.totals.created) == (1, 1, 2)
    assert client.schedule.resume("q") and not client.schedule.resume("q")
    assert client.schedule.pause("q") is None
    assert client.schedule.purge("q", confirm="q", states=["ready"]).removed == 1
    assert [queue.queue for queue in client.schedule.queues()] == ["q"]


def test_recurring_jobs_are_set_listed_and_ended(client: pannier.Pannier) -> None:
    template = JobContent(payload={"kind": "daily"}, priority=2)
    made = client.schedule.cron.upsert("q", "daily", pattern="0 9 * * 1-5", time_zone="America/Mexico_City", template=template)
    assert made.outcome == "created" and made.next_at is not None
    again = client.schedule.cron.upsert("q", "daily", pattern="0 9 * * 1-5", time_zone="America/Mexico_City", template=template)
    assert again.outcome == "unchanged"
    assert client.schedule.cron.upsert("q", "tick", every=timedelta(hours=2), overlap="allow", misfire="skip").outcome == "created"
    found = {cron.id: cron for cron in client.schedule.cron.list("q", occurrences=3)}
    assert found["daily"].payload == {"kind": "daily"} and len(found["daily"].occurrences) == 3
    assert found["tick"].every == timedelta(hours=2) and (found["tick"].misfire, found["tick"].overlap) == ("skip", "allow")
    assert client.schedule.cron.delete("q", "tick") and not client.schedule.cron.delete("q", "tick")


def test_what_happens_is_told(client: pannier.Pannier) -> None:
    watch = client.schedule.watch("q")
    assert next(watch).event == "watching"
    number = client.schedule.enqueue("q", id="j").number
    event = next(watch)
    assert (event.event, event.number, event.id) == ("created", number, "j")
    client.schedule.cancel("q", "j")
    assert next(watch).event == "cancelled"
    watch.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("field", "act"),
    [
        ("queue", lambda s: s.enqueue("")),
        ("job.id", lambda s: s.enqueue("q", id="x" * 513)),
        ("job.delay", lambda s: s.enqueue("q", delay=HOUR, due_at=datetime.now(timezone.utc))),
        ("job.due_at", lambda s: s.enqueue("q", due_at=datetime(2030, 1, 1))),
        ("job.priority", lambda s: s.enqueue("q", priority=8192)),
        ("job.payload", lambda s: s.enqueue("q", b"x" * (256 * 1024 + 1))),
        ("job.payload", lambda s: s.enqueue("q", {"a": object()})),
        ("job.retry.max_attempts", lambda s: s.enqueue("q", retry=RetryPolicy(max_attempts=0))),
        ("job.deadline", lambda s: s.enqueue("q", deadline=datetime.now(timezone.utc), deadline_in=HOUR)),
        ("job.cap.policies", lambda s: s.enqueue("q", cap=CapGate(policies=[]))),
        ("job.on_conflict", lambda s: s.enqueue("q", on_conflict="merge")),
        ("job.unique_window", lambda s: s.enqueue("q", unique_window=timedelta(days=401))),
        ("jobs[1].group", lambda s: s.enqueue_batch("q", [JobSpec(), JobSpec(group="")])),
        ("jobs", lambda s: s.enqueue_batch("q", [])),
        ("jobs", lambda s: s.enqueue_batch("q", [JobSpec()] * 1001)),
        ("items[0].dedup_key", lambda s: s.ingest("q", [IngestItem(dedup_key="")])),
        ("state", lambda s: next(s.list("q", "late"))),
        ("confirm", lambda s: s.purge("q", confirm="other")),
        ("ids", lambda s: s.retry_dead("q")),
        ("since", lambda s: s.retry_dead("q", ["a"], since=datetime.now(timezone.utc))),
        ("settings.limiter.duration", lambda s: s.configure("q", limiter=Limiter(max=3))),
        ("cron.rule", lambda s: s.cron.upsert("q", "c")),
        ("cron.every", lambda s: s.cron.upsert("q", "c", every=timedelta(milliseconds=10))),
        ("cron.pattern", lambda s: s.cron.upsert("q", "c", pattern="61 * * * *")),
        ("for", lambda s: s.pause("q", timedelta(0))),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_added(client: pannier.Pannier, field: str, act: object) -> None:
    assert callable(act)
    with pytest.raises(pannier.BadRequestError) as raised:
        act(client.schedule)
    assert raised.value.field == field
    assert client.schedule.stats("q") is None


def test_a_watch_goes_on_over_a_killed_sidecar(sidecar: Sidecar) -> None:
    with sidecar.connect(timeout=timedelta(seconds=20)) as client:
        seen: list[str] = []

        def watch() -> None:
            try:
                for event in client.schedule.watch("q"):
                    seen.append(event.event)
            except pannier.ClosedError:
                seen.append("closed")

        thread = threading.Thread(target=watch)
        thread.start()
        while not seen:
            time.sleep(0.01)
        sidecar.restart()
        client.schedule.enqueue("q")
        deadline = time.monotonic() + 20
        while "resync" not in seen and time.monotonic() < deadline:
            time.sleep(0.05)
        client.schedule.enqueue("q")
        while "created" not in seen and time.monotonic() < deadline:
            time.sleep(0.05)
    thread.join(10)
    assert seen[0] == "watching" and "resync" in seen and "created" in seen and seen[-1] == "closed"


async def test_the_same_with_asyncio(aclient: aio.Pannier) -> None:
    watch = aclient.schedule.watch("q")
    assert (await anext(watch)).event == "watching"
    assert (await aclient.schedule.enqueue("q", "hi", id="j")).outcome == "created"
    assert (await anext(watch)).event == "created"
    await watch.aclose()  # type: ignore[attr-defined]
    job = await aclient.schedule.get("q", "j")
    assert job is not None and job.payload == "hi"
    assert [one.id async for one in aclient.schedule.list("q", "ready")] == ["j"]
    assert (await aclient.schedule.cron.upsert("q", "c", every=HOUR)).outcome == "created"
    assert [one.id async for one in aclient.schedule.cron.list("q")] == ["c"]
    stats = await aclient.schedule.stats("q")
    assert stats is not None and stats.counts.ready == 1
    assert (await aclient.schedule.purge("q", confirm="q")).removed == 1
