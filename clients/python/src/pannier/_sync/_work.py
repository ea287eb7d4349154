"""Runs a queue's jobs in threads."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

from .._core import faults, limits
from .._core.abort import Abort
from .._core.work import BaseJob, Lease, WorkerEvent, WorkerStatus
from .._core.worker import WorkEngine
from .._core.workers import CLOSE, GRACE, Telling, hello
from ._connection import Connection
from ._duplex import Duplex

P = TypeVar("P")
log = logging.getLogger("pannier")


class Job(BaseJob[P], Abort):
    """A job that this worker has: nobody else does, until it ends or its lease is lost.

    It aborts when what the handler does is not wanted any more: somebody cancelled the job (`reason`: JobCancelledError), the lease is lost
    and another worker may have it (FencedError), or `close` runs out of time (ClosedError; the job goes back and counts no attempt).
    """

    def __init__(self, lease: Lease, progress: Callable[[bytes], None]) -> None:
        BaseJob.__init__(self, lease, progress)
        Abort.__init__(self)


Handler = Callable[[Job[P]], object]


class Worker(Generic[P]):
    """Made by `client.worker`; works at once. What a handler gives is the job's result (a text, bytes or JSON, ≤ 64 KiB); what it raises
    makes the job come again after the wait of its retry policy, except FailJob, RetryJob and ReleaseJob, which say what they mean."""

    def __init__(
        self,
        connection: Connection,
        queues: str | Sequence[str],
        handler: Handler[P],
        concurrency: int,
        lease: timedelta | None,
        name: str | None,
        on_event: Callable[[WorkerEvent], object] | None,
        on_closed: Callable[[Worker[P]], None],
    ) -> None:
        if not callable(handler):
            raise TypeError("pannier: the handler must be callable")
        self._handler = handler
        self._telling = Telling(on_event)
        self._engine = WorkEngine(self, hello(connection.namespace, queues, name, lease), limits.count("concurrency", concurrency, 1, 1000))
        self._duplex = Duplex(connection, self._engine, "pannier-worker")
        self._on_closed = on_closed
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = 0
        self._idle = 0
        self._closing = threading.Lock()
        self._duplex.start()

    @property
    def status(self) -> WorkerStatus:
        """`connecting`, `working`, `draining` or `closed`."""
        return self._engine.status

    @property
    def running(self) -> int:
        """Handlers that run now."""
        return len(self._engine.running)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until it is closed, from another thread or by a signal handler that raises; at most `timeout`. True if it is."""
        seconds = None if timeout is None else timeout.total_seconds()
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self._duplex.stopped:
            left = 3600.0 if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            self._duplex.wait_for(lambda: self._duplex.stopped, left)
        return True

    def close(self, *, timeout: timedelta | None = None) -> None:
        """Takes no more jobs and lets those that run end; nothing is lost and no attempt counted.

        Always ends, at the latest after `timeout` (default 30 s): in the last second of it jobs abort, and those whose handlers then raise
        go back; one that does not even then runs again when its lease ends.
        """
        seconds = limits.seconds("timeout", timeout, CLOSE)
        with self._closing:
            if self._duplex.stopped:
                self._finish()
                return
            deadline = time.monotonic() + seconds
            with self._duplex.locked() as engine:
                engine.drain()

            def over() -> bool:
                return self._engine.drained or self._duplex.stopped

            if not self._duplex.wait_for(over, seconds - min(GRACE, seconds / 2)):
                with self._duplex.locked() as engine:
                    engine.abort_all(faults.closed("the worker"))
                self._duplex.wait_for(over, deadline - time.monotonic())
            self._finish()

    def _finish(self) -> None:
        if self._engine.status != "closed":
            with self._duplex.locked() as engine:
                engine.close()
        self._duplex.stop()
        for _ in range(self._threads):
            self._jobs.put(None)
        self._on_closed(self)

    def __enter__(self) -> Worker[P]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- What the engine wants.

    def start(self, lease: Lease) -> None:
        """Gives it to a thread that has nothing to do, or to a new one."""

        def progress(kept: bytes) -> None:
            with self._duplex.locked() as engine:
                engine.note(lease, kept)

        job: Job[Any] = Job(lease, progress)
        lease.job = job
        if lease.aborted is not None:
            job.abort(lease.aborted)
        with self._duplex.locked():
            if self._idle > 0:
                self._idle -= 1
            else:
                self._threads += 1
                threading.Thread(target=self._work, name=f"pannier-job-{self._threads}", daemon=True).start()
        self._jobs.put(partial(self._handle, lease, job))

    def abort(self, lease: Lease, reason: Exception) -> None:
        """Tells the handler."""
        if isinstance(lease.job, Job):
            lease.job.abort(reason)

    def tell(self, event: WorkerEvent) -> None:
        """Tells who listens."""
        self._telling.tell(event)

    def _work(self) -> None:
        while True:
            run = self._jobs.get()
            if run is None:
                return
            run()
            with self._duplex.locked():
                self._idle += 1

    def _handle(self, lease: Lease, job: Job[P]) -> None:
        try:
            result = self._handler(job)
        except BaseException as error:
            with self._duplex.locked() as engine:
                engine.failed(lease, error)
        else:
            with self._duplex.locked() as engine:
                engine.done(lease, result)


class WorkerFunction(Generic[P]):
    """A handler with its queue, made by `@pannier.worker`. Still callable as the function it was."""

    def __init__(
        self, queues: str | Sequence[str], handler: Handler[P], concurrency: int, lease: timedelta | None, name: str | None
    ) -> None:
        self.queues = queues
        self.handler = handler
        self.concurrency = concurrency
        self.lease = lease
        self.name = name

    def __call__(self, job: Job[P]) -> object:
        return self.handler(job)


def worker(
    queues: str | Sequence[str], *, concurrency: int = 1, lease: timedelta | None = None, name: str | None = None
) -> Callable[[Handler[P]], WorkerFunction[P]]:
    """Makes a function the handler of a queue: `@pannier.worker("reminders", concurrency=5)`. `client.run(function)` runs it.

    The options are those of `client.worker`.
    """

    def decorate(handler: Handler[P]) -> WorkerFunction[P]:
        return WorkerFunction(queues, handler, concurrency, lease, name)

    return decorate
