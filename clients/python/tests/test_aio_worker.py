"""Jobs in the hands of handlers, in tasks."""

import asyncio
import collections
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from support import Sidecar

import pannier
from pannier import FailJob, JobSpec, RetryPolicy, aio
from pannier.aio import Job

SOON = RetryPolicy(max_attempts=2, base=timedelta(milliseconds=20))


async def until(done: Callable[[], object], seconds: float = 20) -> None:
    """Waits until it is so."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"it did not come about within {seconds} s"
        await asyncio.sleep(0.02)


async def test_jobs_are_run_and_settled(aclient: aio.Pannier) -> None:
    async def handler(job: Job[int]) -> int:
        if job.id == "fails":
            raise FailJob("no")
        if job.id == "raises":
            raise LookupError("never")
        job.progress("half")
        # The sidecar takes it and the end of the job side by side.
        await asyncio.sleep(0.3)
        return job.payload + 1

    events: list[pannier.WorkerEvent] = []
    names = ["good", "fails", "raises"]
    await aclient.schedule.enqueue_batch("q", [JobSpec(id=name, payload=1, retry=SOON) for name in names])
    async with aclient.worker("q", handler, concurrency=3, on_event=events.append) as worker:
        await until(lambda: sum(isinstance(event, (pannier.JobCompleted, pannier.JobFailed)) for event in events) == 4)
        assert worker.running == 0
    jobs = [await aclient.schedule.get("q", name) for name in names]
    assert [job and (job.state, job.result) for job in jobs] == [("done", 2), ("dead", None), ("dead", None)]
    assert jobs[0] and jobs[0].progress == "half"
    assert worker.status == "closed"


async def test_a_cancelled_job_cancels_its_task(aclient: aio.Pannier) -> None:
    begun = asyncio.Event()
    reasons: list[object] = []

    async def handler(job: Job[object]) -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            reasons.append(job.reason)

    await aclient.schedule.enqueue("q", id="j", retry=SOON)
    async with aclient.worker("q", handler):
        await asyncio.wait_for(begun.wait(), 10)
        assert (await aclient.schedule.cancel("q", "j")).outcome == "cancel_requested"
        await until(lambda: reasons)
    job = await aclient.schedule.get("q", "j")
    assert job is not None and job.state == "cancelled" and isinstance(reasons[0], pannier.JobCancelledError)


async def test_closing_gives_jobs_back(aclient: aio.Pannier) -> None:
    async def handler(job: Job[object]) -> None:
        await asyncio.sleep(60)

    await aclient.schedule.enqueue("q", id="j")
    worker = aclient.worker("q", handler)
    await until(lambda: worker.running == 1)
    began = time.monotonic()
    await worker.close(timeout=timedelta(seconds=1))
    assert time.monotonic() - began < 3
    job = await aclient.schedule.get("q", "j")
    assert job is not None and (job.state, job.attempts) == ("ready", 0)


async def test_a_thousand_jobs_at_concurrency_fifty(aclient: aio.Pannier) -> None:
    await aclient.schedule.enqueue_batch("q", [JobSpec(payload=n) for n in range(1000)])
    ran: list[int] = []
    completed: list[pannier.WorkerEvent] = []
    now = most = 0

    @aio.worker("q", concurrency=50)
    async def handler(job: Job[int]) -> None:
        nonlocal now, most
        now += 1
        most = max(now, most)
        await asyncio.sleep(0.002)
        now -= 1
        ran.append(job.payload)

    def on_event(event: pannier.WorkerEvent) -> None:
        if isinstance(event, pannier.JobCompleted):
            completed.append(event)

    async with aclient.run(handler, on_event=on_event):
        await until(lambda: len(completed) == 1000, 60)
    assert sorted(ran) == list(range(1000)) and 10 < most <= 50


async def test_a_worker_goes_on_over_killed_sidecars(sidecar: Sidecar) -> None:
    async with sidecar.aconnect(timeout=timedelta(seconds=20)) as client:
        await client.schedule.enqueue_batch("q", [JobSpec(payload=n) for n in range(200)])
        ran: collections.Counter[int] = collections.Counter()
        completed: list[pannier.WorkerEvent] = []

        async def handler(job: Job[int]) -> None:
            await asyncio.sleep(0.03)
            ran[job.payload] += 1

        def on_event(event: pannier.WorkerEvent) -> None:
            if isinstance(event, pannier.JobCompleted):
                completed.append(event)

        # A job that was on its way when the sidecar died is nobody's until its lease ends.
        lease = timedelta(seconds=8)
        async with client.worker("q", handler, concurrency=7, lease=lease, on_event=on_event):
            for _ in range(2):
                enough = len(ran) + 30
                await until(lambda enough=enough: len(ran) >= enough, 30)  # type: ignore[misc]
                await asyncio.to_thread(sidecar.restart)
            await until(lambda: len(completed) == 200, 60)
        assert sorted(ran.elements()) == list(range(200)), "a job ran twice, though its lease was held over the break"


async def test_a_lost_lease_cancels_the_task(sidecar: Sidecar) -> None:
    async with sidecar.aconnect(timeout=timedelta(seconds=20)) as client:
        await client.schedule.enqueue("q", id="j")
        reasons: list[object] = []
        attempts: list[int] = []

        async def handler(job: Job[object]) -> None:
            attempts.append(job.attempt)
            if job.attempt == 1:
                await asyncio.to_thread(sidecar.kill9)
                try:
                    await asyncio.sleep(20)
                finally:
                    reasons.append(job.reason)
                    sidecar.start()

        async with client.worker("q", handler, lease=timedelta(seconds=1)):
            await until(lambda: 2 in attempts, 30)
        assert isinstance(reasons[0], pannier.FencedError)


async def test_a_closed_client_closes_its_workers(shared: Sidecar) -> None:
    async def handler(job: Job[object]) -> None:
        await asyncio.sleep(0)

    async with shared.aconnect() as client:
        worker = client.worker("q", handler)
        await until(lambda: worker.status == "working")
    assert worker.status == "closed" and await worker.wait(timedelta(seconds=1))
    with pytest.raises(pannier.ClosedError):
        client.worker("q", handler)
