"""Work under a claim: extended while it runs, completed or released when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from .._core import dedup as core
from .._core import faults
from .._core.dedup import CompleteResult, Ran
from .._core.values import Value
from ..errors import BadRequestError, PannierError

if TYPE_CHECKING:
    from ._dedup import Claim

Result = TypeVar("Result")


@dataclass(frozen=True)
class WorkContext:
    """What the work is told. When its claim is lost, its task is cancelled: another may be at it."""

    #: Of the claim: rising with each claim of the key. For stores that can refuse an older one.
    fence: int
    #: An earlier try died on the way: it may have been done in part.
    takeover: bool


Work = Callable[[WorkContext], Awaitable[Result]]


class Keepers:
    """The works of one client that run now."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[None]] = set()
        self._closed = False

    def check(self) -> None:
        """Raises when no work may begin any more."""
        if self._closed:
            raise faults.closed("the client")

    async def close(self, timeout: float) -> None:
        """Takes no more; ends when what runs has, at the latest after `timeout` seconds."""
        self._closed = True
        if self._running:
            await asyncio.wait(self._running, timeout=timeout)

    async def run(self, claim: Claim, work: Work[Result], ttl: timedelta | None, retention: timedelta | None, keep: bool) -> Ran[Result]:
        """Runs it under its claim."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running.add(over)
        try:
            return await _run(claim, work, ttl or core.IN_PROGRESS, retention, keep)
        finally:
            self._running.discard(over)
            over.set_result(None)


async def _run(claim: Claim, work: Work[Result], ttl: timedelta, retention: timedelta | None, keep: bool) -> Ran[Result]:
    lost: list[PannierError] = []

    async def call() -> Result:
        return await work(WorkContext(claim.fence, claim.outcome == "takeover"))

    task = asyncio.ensure_future(call())
    keeper = asyncio.ensure_future(_keep(claim, ttl, task, lost))
    try:
        await asyncio.wait([task])
    finally:
        keeper.cancel()
        if not task.done():
            # It is this call that was cancelled.
            task.cancel()
            await asyncio.wait([task])
        if task.cancelled() or task.exception() is not None:
            # What the caller must see is the work's own end; an unreleased claim runs out by itself.
            with contextlib.suppress(PannierError):
                await asyncio.shield(asyncio.ensure_future(claim.release()))
    if task.cancelled() and lost:
        raise lost[0]
    value = task.result()
    completed = await _complete(claim, value if keep else None, retention, max(ttl, timedelta(seconds=5)))
    return Ran(completed.outcome, value)


async def _complete(claim: Claim, result: object, retention: timedelta | None, timeout: timedelta) -> CompleteResult:
    """Done is done: a result that cannot be stored is the caller's error, but the work must not run again for it."""
    stored: Value = result  # type: ignore[assignment] # judged where it is encoded
    try:
        return await claim.complete(stored, retention=retention, timeout=timeout)
    except BadRequestError:
        with contextlib.suppress(PannierError):
            await claim.complete(retention=retention, timeout=timeout)
        raise


async def _keep(claim: Claim, ttl: timedelta, task: asyncio.Future[Result], lost: list[PannierError]) -> None:
    """Extends the claim each third of its time, until that fails for too long."""
    held_until = time.monotonic() + ttl.total_seconds()
    why = None
    while why is None:
        await asyncio.sleep(min(ttl.total_seconds() / 3, max(0.0, held_until - time.monotonic())))
        asked = time.monotonic()
        if asked >= held_until:
            why = core.TOO_LATE
            break
        with contextlib.suppress(PannierError):
            extended = await claim.extend(ttl, timeout=timedelta(seconds=max(0.001, held_until - asked)))
            if extended.outcome == "extended":
                held_until = asked + ttl.total_seconds()
            else:
                why = core.TAKEN
    lost.append(faults.fenced(why))
    task.cancel()
