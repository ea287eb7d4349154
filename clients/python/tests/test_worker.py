"""Jobs in the hands of handlers, in threads."""

import collections
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from support import Sidecar, until

import pannier
from pannier import FailJob, Job, JobSpec, ReleaseJob, RetryJob, RetryPolicy

SOON = RetryPolicy(max_attempts=3, base=timedelta(milliseconds=20))


class Events(list[pannier.WorkerEvent]):
    """What a worker tells."""

    def of(self, kind: type) -> list[pannier.WorkerEvent]:
        """Those of a kind."""
        return [event for event in self if isinstance(event, kind)]


@contextmanager
def working(
    client: pannier.Pannier, handler: Callable[[Job[Any]], object], concurrency: int = 1, lease: timedelta | None = None
) -> Iterator[tuple[pannier.Worker[Any], Events]]:
    """A worker, with what it tells."""
    events = Events()
    with client.worker("q", handler, concurrency=concurrency, lease=lease, on_event=events.append) as worker:
        yield worker, events


def state(client: pannier.Pannier, id: str) -> str:
    """Where a job stands."""
    job = client.schedule.get("q", id)
    return "none" if job is None else job.state


def test_a_job_is_run_and_its_result_is_kept(client: pannier.Pannier) -> None:
    client.schedule.enqueue("q", {"n": 20}, id="jöb", group="ana", priority=4)

    def handler(job: Job[dict[str, int]]) -> dict[str, int]:
        assert (job.queue, job.id, job.group, job.priority, job.attempt, job.max_attempts) == ("q", "jöb", "ana", 4, 1, 3)
        assert job.created_at <= job.leased_at and not job.aborted and job.last_progress is None
        return {"n": job.payload["n"] + 1}

    with working(client, handler) as (worker, events):
        until(lambda: events.of(pannier.JobCompleted))
        assert worker.status == "working"
    job = client.schedule.get("q", "jöb")
    assert job is not None and job.state == "done" and job.result == {"n": 21}
    assert [event.status for event in events.of(pannier.StatusChanged) if isinstance(event, pannier.StatusChanged)] == [
        "working", "draining", "closed",
    ]  # fmt: skip


def test_how_a_handler_ends_settles_its_job(client: pannier.Pannier) -> None:
    calls: collections.Counter[str] = collections.Counter()

    def handler(job: Job[object]) -> None:
        calls[job.id] += 1
        match job.id:
            case "raises":
                raise LookupError("no such invoice")
            case "fails":
                raise FailJob("no such number")
            case "retries" if calls[job.id] == 1:
                raise RetryJob(timedelta(milliseconds=10))
            case "releases" if calls[job.id] < 6:
                raise ReleaseJob(timedelta(milliseconds=5))
            case "big":
                return "x" * 70_000  # type: ignore[return-value]

    names = ["raises", "fails", "retries", "releases", "big"]
    client.schedule.enqueue_batch("q", [JobSpec(id=name, retry=SOON) for name in names])
    events = Events()
    with client.worker("q", handler, concurrency=5, on_event=events.append):
        until(lambda: all(state(client, name) in ("done", "dead") for name in names))
    assert {name: state(client, name) for name in names} == {
        "raises": "dead", "fails": "dead", "retries": "done", "releases": "done", "big": "done",
    }  # fmt: skip
    assert calls == {"raises": 3, "fails": 1, "retries": 2, "releases": 6, "big": 1}
    dead = client.schedule.get("q", "raises")
    assert dead is not None and dead.error is not None and "LookupError: no such invoice" in dead.error and "in handler" in dead.error
    assert dead.dead_reason == "attempts"
    released = client.schedule.get("q", "releases")
    assert released is not None and released.attempts == 1
    assert any(isinstance(event, pannier.WorkerProblem) and event.error.field == "result" for event in events)
    assert [event.retried for event in events if isinstance(event, pannier.JobFailed) and event.job.id == "raises"] == [True, True, False]
    assert client.schedule.retry_dead("q", ["raises"]) == 1
    assert client.schedule.delete_dead("q", all=True) == 1


def test_progress_is_kept_and_the_next_attempt_sees_it(client: pannier.Pannier) -> None:
    seen: list[object] = []

    def handler(job: Job[object]) -> None:
        seen.append(job.last_progress)
        job.progress({"done": job.attempt})
        with pytest.raises(pannier.TooLargeError):
            job.progress("x" * 1025)
        # The sidecar takes it and the end of the job side by side.
        time.sleep(0.3)
        if job.attempt == 1:
            raise RuntimeError

    client.schedule.enqueue("q", id="j", retry=SOON)
    with working(client, handler):
        until(lambda: state(client, "j") == "done")
    assert seen == [None, {"done": 1}]


def test_a_cancelled_job_aborts(client: pannier.Pannier) -> None:
    begun = threading.Event()

    def handler(job: Job[object]) -> None:
        begun.set()
        assert job.wait(10)
        job.check()

    client.schedule.enqueue("q", id="j", retry=SOON)
    with working(client, handler) as (_, events):
        assert begun.wait(10)
        assert client.schedule.cancel("q", "j").outcome == "cancel_requested"
        until(lambda: events.of(pannier.JobFailed))
        failed = events.of(pannier.JobFailed)[0]
        assert isinstance(failed, pannier.JobFailed) and isinstance(failed.error, pannier.JobCancelledError) and not failed.retried
    assert state(client, "j") == "cancelled"


def test_closing_lets_handlers_end(client: pannier.Pannier) -> None:
    client.schedule.enqueue_batch("q", [JobSpec() for _ in range(10)])
    ended: list[int] = []

    def handler(job: Job[object]) -> None:
        time.sleep(0.3)
        ended.append(job.number)

    with working(client, handler, 3) as (worker, _):
        until(lambda: worker.running == 3)
    assert len(ended) == 3
    stats = client.schedule.stats("q")
    assert stats is not None and (stats.counts.done, stats.counts.ready, stats.counts.leased) == (3, 7, 0)


def test_closing_always_ends_and_gives_jobs_back(client: pannier.Pannier) -> None:
    client.schedule.enqueue_batch("q", [JobSpec(id="heeds"), JobSpec(id="does not")])
    over = threading.Event()

    def handler(job: Job[object]) -> None:
        if job.id == "does not":
            over.wait(60)
        else:
            job.wait(60)
            job.check()

    worker = client.worker("q", handler, concurrency=2)
    until(lambda: worker.running == 2)
    began = time.monotonic()
    worker.close(timeout=timedelta(seconds=1.5))
    assert 0.9 < time.monotonic() - began < 4.5
    job = client.schedule.get("q", "heeds")
    assert job is not None and (job.state, job.attempts) == ("ready", 0)
    assert state(client, "does not") == "leased"
    assert worker.status == "closed" and worker.wait(timedelta(seconds=1))
    over.set()


def test_a_thousand_jobs_at_concurrency_fifty(client: pannier.Pannier) -> None:
    client.schedule.enqueue_batch("q", [JobSpec(payload={"n": n}) for n in range(1000)])
    ran: list[int] = []
    most = 0
    lock = threading.Lock()
    now = 0

    def handler(job: Job[dict[str, int]]) -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.002)
        with lock:
            now -= 1
            ran.append(job.payload["n"])

    with working(client, handler, 50) as (_, events):
        until(lambda: len(events.of(pannier.JobCompleted)) == 1000, 60)
    assert sorted(ran) == list(range(1000)) and 10 < most <= 50
    stats = client.schedule.stats("q")
    assert stats is not None and stats.totals.done == 1000 and stats.totals.leases_lost == 0


def test_a_worker_goes_on_over_killed_sidecars(sidecar: Sidecar) -> None:
    with sidecar.connect(timeout=timedelta(seconds=20)) as client:
        client.schedule.enqueue_batch("q", [JobSpec(payload={"n": n}, group=f"g{n % 7}") for n in range(200)])
        ran: collections.Counter[int] = collections.Counter()

        def handler(job: Job[dict[str, int]]) -> int:
            time.sleep(0.03)
            ran[job.payload["n"]] += 1
            return job.payload["n"]

        # A job that was on its way when the sidecar died is nobody's until its lease ends.
        with working(client, handler, 7, timedelta(seconds=8)) as (worker, events):
            for _ in range(2):
                enough = len(ran) + 30
                until(lambda enough=enough: len(ran) >= enough, 30)  # type: ignore[misc]
                sidecar.restart()
            until(lambda: len(ran) == 200, 60)
            until(lambda: len(events.of(pannier.JobCompleted)) == 200, 30)
            assert worker.status == "working" and events.of(pannier.WorkerProblem)
        assert sorted(ran.elements()) == list(range(200)), "a job ran twice, though its lease was held over the break"


def test_a_lost_lease_aborts_and_another_worker_runs_the_job(sidecar: Sidecar) -> None:
    with sidecar.connect(timeout=timedelta(seconds=20)) as client:
        client.schedule.enqueue("q", id="j")
        reasons: list[object] = []

        def handler(job: Job[object]) -> str:
            if job.attempt == 1:
                sidecar.kill9()
                assert job.wait(20)
                reasons.append(job.reason)
                sidecar.start()
            return f"attempt {job.attempt}"

        with working(client, handler, lease=timedelta(seconds=1)):
            until(lambda: reasons, 20)
            until(lambda: state(client, "j") == "done", 30)
        assert isinstance(reasons[0], pannier.FencedError)


def test_a_decorated_function_works(client: pannier.Pannier) -> None:
    done: list[int] = []

    @pannier.worker("q", concurrency=2, name="tests")
    def remind(job: Job[dict[str, int]]) -> None:
        done.append(job.payload["n"])

    client.schedule.enqueue("q", {"n": 7})
    with client.run(remind) as worker:
        until(lambda: done == [7])
        assert worker.running <= 1 and not worker.wait(timedelta(milliseconds=10))


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("concurrency", {"concurrency": 0}),
        ("concurrency", {"concurrency": 1001}),
        ("lease", {"lease": timedelta(milliseconds=999)}),
        ("name", {"name": ""}),
        ("queues", {"queues": []}),
        ("queues[1]", {"queues": ["a", "a"]}),
    ],
)
def test_wrong_options_are_named(client: pannier.Pannier, field: str, options: dict[str, object]) -> None:
    with pytest.raises(pannier.BadRequestError) as raised:
        client.worker(**{"queues": "q", "handler": print, **options})  # type: ignore[arg-type]
    assert raised.value.field == field


def test_a_closed_client_closes_its_workers(shared: Sidecar) -> None:
    client = shared.connect()
    worker: pannier.Worker[object] = client.worker("q", print)
    until(lambda: worker.status == "working")
    client.close()
    assert worker.status == "closed" and worker.wait(timedelta(seconds=1))
    with pytest.raises(pannier.ClosedError):
        client.worker("q", print)
