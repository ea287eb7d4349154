"""Work under a claim: extended while it runs, completed or released when it ends."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from .._core import dedup as core
from .._core import faults
from .._core.abort import Abort
from .._core.dedup import CompleteResult, Ran
from .._core.values import Value
from ..errors import BadRequestError, PannierError

if TYPE_CHECKING:
    from ._dedup import Claim

Result = TypeVar("Result")


class WorkContext(Abort):
    """What the work is told. Aborts when its claim is lost, or could not be extended in time: another may be at it."""

    def __init__(self, fence: int, takeover: bool) -> None:
        super().__init__()
        #: Of the claim: rising with each claim of the key. For stores that can refuse an older one.
        self.fence = fence
        #: An earlier try died on the way: it may have been done in part.
        self.takeover = takeover


Work = Callable[[WorkContext], Result]


class Keepers:
    """The works of one client that run now."""

    def __init__(self) -> None:
        self._running = 0
        self._closed = False
        self._idle = threading.Condition()

    def check(self) -> None:
        """Raises when no work may begin any more."""
        if self._closed:
            raise faults.closed("the client")

    def close(self, timeout: float) -> None:
        """Takes no more; ends when what runs has, at the latest after `timeout` seconds."""
        with self._idle:
            self._closed = True
            self._idle.wait_for(lambda: self._running == 0, timeout)

    def run(self, claim: Claim, work: Work[Result], ttl: timedelta | None, retention: timedelta | None, keep: bool) -> Ran[Result]:
        """Runs it under its claim."""
        with self._idle:
            self._running += 1
        try:
            return _run(claim, work, ttl or core.IN_PROGRESS, retention, keep)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()


def _run(claim: Claim, work: Work[Result], ttl: timedelta, retention: timedelta | None, keep: bool) -> Ran[Result]:
    context = WorkContext(claim.fence, claim.outcome == "takeover")
    over = threading.Event()
    threading.Thread(target=_keep, args=(claim, ttl, context, over), name="pannier-claim", daemon=True).start()
    try:
        value = work(context)
    except BaseException:
        over.set()
        # What the caller must see is the work's own exception; an unreleased claim runs out by itself.
        with contextlib.suppress(PannierError):
            claim.release()
        raise
    over.set()
    completed = _complete(claim, value if keep else None, retention, max(ttl, timedelta(seconds=5)))
    return Ran(completed.outcome, value)


def _complete(claim: Claim, result: object, retention: timedelta | None, timeout: timedelta) -> CompleteResult:
    """Done is done: a result that cannot be stored is the caller's error, but the work must not run again for it."""
    stored: Value = result  # type: ignore[assignment] # judged where it is encoded
    try:
        return claim.complete(stored, retention=retention, timeout=timeout)
    except BadRequestError:
        with contextlib.suppress(PannierError):
            claim.complete(retention=retention, timeout=timeout)
        raise


def _keep(claim: Claim, ttl: timedelta, context: WorkContext, over: threading.Event) -> None:
    """Extends the claim each third of its time, until that fails for too long."""
    held_until = time.monotonic() + ttl.total_seconds()
    why = None
    while why is None:
        if over.wait(min(ttl.total_seconds() / 3, max(0.0, held_until - time.monotonic()))):
            return
        asked = time.monotonic()
        if asked >= held_until:
            why = core.TOO_LATE
            break
        with contextlib.suppress(PannierError):
            extended = claim.extend(ttl, timeout=timedelta(seconds=max(0.001, held_until - asked)))
            if extended.outcome == "extended":
                held_until = asked + ttl.total_seconds()
            elif not over.is_set():
                why = core.TAKEN
            else:
                return
    context.abort(faults.fenced(why))
