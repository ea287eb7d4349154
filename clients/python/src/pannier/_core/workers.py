"""What workers with threads and with tasks have in common."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from .._gen import schedule_pb2 as pb
from . import limits, wire
from .work import JobFailed, LeaseLost, WorkerEvent, WorkerProblem

#: Seconds that `close` takes at most.
CLOSE = 30.0
#: Handlers that heed that they are aborted get this much of a `close` that runs out of time.
GRACE = 1.0
LEASE = timedelta(seconds=30)
log = logging.getLogger("pannier")


def hello(namespace: str, queues: str | Sequence[str], name: str | None, lease: timedelta | None) -> pb.WorkHello:
    """Who works."""
    held = limits.span("lease", LEASE if lease is None else lease, limits.DAY, timedelta(seconds=1)) or LEASE
    return pb.WorkHello(
        namespace=namespace,
        worker="" if name is None else limits.text("name", name),
        queues=limits.names("queues", queues, 64),
        lease=wire.to_duration(held),
    )


class Telling:
    """Tells who listens; what nobody listens to is logged, so that it is not silent. A listener that raises disturbs nobody."""

    def __init__(self, listener: Callable[[WorkerEvent], object] | None) -> None:
        if listener is not None and not callable(listener):
            raise TypeError("pannier: on_event must be callable")
        self._listener = listener
        self._next_warning = 0.0

    def tell(self, event: WorkerEvent) -> None:
        """Something happened."""
        if self._listener is not None:
            try:
                self._listener(event)
            except Exception:
                log.exception("on_event failed")
            return
        match event:
            case JobFailed(error=error, retried=retried):
                log.warning("a job failed, %s", "and is tried again" if retried else "for good", exc_info=error)
            case LeaseLost():
                log.warning("a job's lease was lost: another worker may have it")
            case WorkerProblem(error=error) if time.monotonic() >= self._next_warning:
                self._next_warning = time.monotonic() + 60
                log.warning("the worker goes on after: %s", error)
