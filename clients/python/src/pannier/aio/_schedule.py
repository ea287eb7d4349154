"""Jobs: added, looked at, taken back. Who runs them is a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta

from .._core import faults
from .._core import schedule as core
from .._core.call import backoff
from .._core.jobs import CapGate, IngestItem, JobSpec, OnConflict, RetryPolicy
from .._core.outcomes import CancelResult, EnqueueResult, JobInfo, JobState, PurgeResult, RescheduleResult
from .._core.queues import Limiter, QueueInfo, QueueSettings, Retention
from .._core.reasons import OPEN_AGAIN
from .._core.schedule import QueueEvent
from .._core.values import Value
from ..errors import NotFoundError, PannierError
from ._connection import Connection
from ._crons import Crons
from ._io import sleep

# `list` is a method below.
Jobs = list[EnqueueResult]


class Schedule:
    """Jobs. Queues, ids and groups: 1..512 bytes of UTF-8, any characters; a queue comes into being with its first use.

    All times are by the server's clock. A "no" is an outcome; an error means that it could not be decided: BadRequestError,
    TooLargeError, UnavailableError, DeadlineExceededError, ExhaustedError (Valkey is full; nothing was written), CorruptRecordError,
    KeyMismatchError.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        #: Recurring jobs.
        self.cron = Crons(connection)

    async def enqueue(
        self,
        queue: str,
        payload: Value = None,
        *,
        id: str | None = None,
        delay: timedelta | None = None,
        due_at: datetime | None = None,
        priority: int = 0,
        group: str | None = None,
        retry: RetryPolicy | None = None,
        deadline: datetime | None = None,
        deadline_in: timedelta | None = None,
        cap: CapGate | None = None,
        unique_window: timedelta | None = None,
        on_conflict: OnConflict = "keep",
        hold_when_cancelled: bool = False,
        timeout: timedelta | None = None,
    ) -> EnqueueResult:
        """Adds a job. The options are those of JobSpec.

        With an `id` it is added once however often this is called, until 7 days (`unique_window`) after it has ended: so a redeploy, a
        retry or two processes cannot send a reminder twice.
        """
        spec = JobSpec(
            payload=payload,
            id=id,
            delay=delay,
            due_at=due_at,
            priority=priority,
            group=group,
            retry=retry,
            deadline=deadline,
            deadline_in=deadline_in,
            cap=cap,
            unique_window=unique_window,
            on_conflict=on_conflict,
            hold_when_cancelled=hold_when_cancelled,
        )
        return await self._connection.call(core.enqueue(self._connection.namespace, queue, spec), timeout)

    async def enqueue_batch(self, queue: str, jobs: Sequence[JobSpec], *, timeout: timedelta | None = None) -> Jobs:
        """Adds 1..1 000 jobs, ≤ 4 MiB in all; each is decided by itself, in this order. The answers are in the order of `jobs`."""
        return await self._connection.call(core.enqueue_batch(self._connection.namespace, queue, jobs), timeout)

    async def ingest(self, queue: str, items: Sequence[IngestItem], *, timeout: timedelta | None = None) -> Jobs:
        """Takes in 1..100 messages of a webhook: seen before or not, and the job, in one write. Answer the webhook after it.

        A message that comes again becomes no second job while its job has not ended, nor until 8 days after it was first seen; whatever
        is killed in between. Outcomes: `created`, `existing` (its job has not ended), `already_finished`.
        """
        return await self._connection.call(core.ingest(self._connection.namespace, queue, items), timeout)

    async def get(self, queue: str, id: str, *, timeout: timedelta | None = None) -> JobInfo | None:
        """One job, with payload and result; None if there is none (any more)."""
        try:
            return await self._connection.call(core.get(self._connection.namespace, queue, id), timeout)
        except NotFoundError:
            return None

    async def list(self, queue: str, state: JobState, *, with_payload: bool = False) -> AsyncIterator[JobInfo]:
        """Jobs of one state: `scheduled` by due time, `ready` by turn, `leased` by the end of the lease, ended ones the newest first.

        What changes meanwhile may be missed or come twice. `with_payload`: with payload and result. Raises CorruptRecordError.
        """
        cursor = ""
        while True:
            call = core.page(self._connection.namespace, queue, state, with_payload, cursor)
            found, corrupt, cursor = await self._connection.call(call)
            for one in found:
                yield one
            if corrupt:
                raise faults.corrupt(corrupt, "job")
            if not cursor:
                return

    async def stats(self, queue: str, *, timeout: timedelta | None = None) -> QueueInfo | None:
        """A queue with its counts and settings; None if nothing ever was in it."""
        return await self._connection.call(core.stats(self._connection.namespace, queue), timeout)

    async def queues(self) -> AsyncIterator[QueueInfo]:
        """The queues of the namespace, in no order. Raises CorruptRecordError."""
        cursor = ""
        while True:
            found, corrupt, cursor = await self._connection.call(core.queue_page(self._connection.namespace, cursor))
            for one in found:
                yield one
            if corrupt:
                raise faults.corrupt(corrupt, "queue")
            if not cursor:
                return

    async def cancel(self, queue: str, id: str, *, timeout: timedelta | None = None) -> CancelResult:
        """Takes a job back: at once if no worker has it; else its handler is told."""
        return await self._connection.call(core.cancel(self._connection.namespace, queue, id), timeout)

    async def reschedule(
        self,
        queue: str,
        id: str,
        *,
        delay: timedelta | None = None,
        due_at: datetime | None = None,
        timeout: timedelta | None = None,
    ) -> RescheduleResult:
        """Another due time, for a job that no worker has and that has not ended. Neither `delay` nor `due_at`: now."""
        call = core.reschedule(self._connection.namespace, queue, id, delay, due_at)
        try:
            return await self._connection.call(call, timeout)
        except NotFoundError:
            return RescheduleResult("not_found")

    async def promote(self, queue: str, id: str, *, timeout: timedelta | None = None) -> RescheduleResult:
        """Makes a scheduled job due now. Behind others of its group it still waits."""
        try:
            return await self._connection.call(core.promote(self._connection.namespace, queue, id), timeout)
        except NotFoundError:
            return RescheduleResult("not_found")

    async def retry_dead(
        self,
        queue: str,
        ids: Sequence[str] | None = None,
        *,
        all: bool = False,
        since: datetime | None = None,
        timeout: timedelta | None = None,
    ) -> int:
        """Gives dead jobs a new life, with all their attempts: `ids` (≤ 500), or `all` (that died `since`). Gives how many."""
        return await self._connection.call(core.retry_dead(self._connection.namespace, queue, ids, all, since), timeout)

    async def delete_dead(
        self,
        queue: str,
        ids: Sequence[str] | None = None,
        *,
        all: bool = False,
        since: datetime | None = None,
        timeout: timedelta | None = None,
    ) -> int:
        """Removes dead jobs and frees their ids: the same."""
        return await self._connection.call(core.delete_dead(self._connection.namespace, queue, ids, all, since), timeout)

    async def configure(
        self,
        queue: str,
        *,
        limiter: Limiter | None = None,
        concurrency: int | None = None,
        retention: Retention | None = None,
        retry: RetryPolicy | None = None,
        skip_delayed: bool | None = None,
        timeout: timedelta | None = None,
    ) -> QueueSettings:
        """Sets what is given of a queue's settings (see QueueSettings), for all its workers at once; the rest stays. Gives all."""
        settings = QueueSettings(limiter=limiter, concurrency=concurrency, retention=retention, retry=retry, skip_delayed=skip_delayed)
        return await self._connection.call(core.configure(self._connection.namespace, queue, settings), timeout)

    async def pause(self, queue: str, duration: timedelta | None = None, *, timeout: timedelta | None = None) -> datetime | None:
        """No job starts until `resume`, or for so long (≤ 400 days). What runs goes on. Gives until when, if it ends by itself."""
        return await self._connection.call(core.pause(self._connection.namespace, queue, duration), timeout)

    async def resume(self, queue: str, *, timeout: timedelta | None = None) -> bool:
        """Ends a pause. False: there was none."""
        return await self._connection.call(core.resume(self._connection.namespace, queue), timeout)

    async def purge(self, queue: str, *, confirm: str, states: Sequence[JobState] = (), timeout: timedelta | None = None) -> PurgeResult:
        """Removes jobs: those of `states`, default scheduled, ready and waiting. Of `leased` the workers are asked to cancel.

        `confirm`: the queue's name once more. A large queue takes a while: give a `timeout`; what it had not reached by then stays.
        """
        return await self._connection.call(core.purge(self._connection.namespace, queue, confirm, states), timeout)

    async def watch(self, queue: str) -> AsyncIterator[QueueEvent]:
        """What happens in a queue, from now on. It goes on when the stream breaks; where events may be missing, a `resync` says so.

        Ends when it is closed, and with ClosedError when the client is.
        """
        request = core.watch(self._connection.namespace, queue)
        watched, attempt = False, 0
        while True:
            try:
                async with aclosing(self._connection.channel.stream(core.WATCH, request)) as messages:
                    async for message in messages:
                        attempt = 0
                        event = core.event(message, watched)
                        if event is not None:
                            watched = True
                            yield event
            except PannierError as error:
                if error.reason not in OPEN_AGAIN:
                    raise
            await sleep(backoff(attempt))
            attempt += 1
