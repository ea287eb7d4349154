"""Recurring jobs. The sidecar fires them: no process of yours has to be up for that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

from .._core import crons as core
from .._core import faults
from .._core.crons import CronInfo, CronResult, Misfire, Overlap
from .._core.jobs import JobContent
from ._connection import Connection


class Crons:
    """Recurring jobs. Errors as of Schedule. Their jobs have the ids `<cron id>@<instant>`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def upsert(
        self,
        queue: str,
        id: str,
        *,
        pattern: str | None = None,
        every: timedelta | None = None,
        time_zone: str | None = None,
        misfire: Misfire = "fire_once",
        overlap: Overlap = "skip",
        template: JobContent | None = None,
        timeout: timedelta | None = None,
    ) -> CronResult:
        """Sets a recurring job: safe at every start of the process, the same again changes nothing.

        A change holds from the next occurrence on. `id`: unique in its queue. `pattern`: five fields (minute, hour, day of month,
        month, day of week), six with seconds in front; L, W, # and names are known; one that never fires → BadRequestError. Either
        it or `every`, 1 s..400 days, which fires at multiples since 1970-01-01T00:00Z. `time_zone`: IANA name, default UTC; a local
        time that a clock change leaves out fires right after the gap, one that comes twice fires the first time only.
        `misfire`: of what was missed by more than a minute because everything was down, `fire_once` adds one job for all, `skip` none.
        `overlap`: while the job of the occurrence before has not ended, `skip` leaves this one out, `allow` adds it. `template`: what
        each occurrence adds, without `delay` and `due_at`.
        """
        call = core.upsert(self._connection.namespace, queue, id, pattern, every, time_zone, misfire, overlap, template or JobContent())
        return await self._connection.call(call, timeout)

    async def delete(self, queue: str, id: str, *, timeout: timedelta | None = None) -> bool:
        """Ends a recurring job; the jobs it made stay. False: there was none."""
        return await self._connection.call(core.delete(self._connection.namespace, queue, id), timeout)

    async def list(self, queue: str, *, occurrences: int = 1) -> AsyncIterator[CronInfo]:
        """The recurring jobs of a queue. `occurrences`: so many times to come of each, 0..20. Raises CorruptRecordError."""
        cursor = ""
        while True:
            call = core.page(self._connection.namespace, queue, occurrences, cursor)
            found, corrupt, cursor = await self._connection.call(call)
            for one in found:
                yield one
            if corrupt:
                raise faults.corrupt(corrupt, "cron")
            if not cursor:
                return
