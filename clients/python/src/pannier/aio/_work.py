"""Runs a queue's jobs in tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Generic, TypeVar

from .._core import faults, limits
from .._core.work import BaseJob, Lease, WorkerEvent, WorkerStatus
from .._core.worker import WorkEngine
from .._core.workers import CLOSE, GRACE, Telling, hello
from ._connection import Connection
from ._duplex import Duplex

P = TypeVar("P")


class Job(BaseJob[P]):
    """A job that this worker has: nobody else does, until it ends or its lease is lost.

    The handler's task is cancelled when what it does is not wanted any more: `reason` says why then. Somebody cancelled the job
    (JobCancelledError), the lease is lost and another worker may have it (FencedError), or `close` runs out of time (ClosedError; the job
    goes back and counts no attempt).
    """

    def __init__(self, lease: Lease, progress: Callable[[bytes], None]) -> None:
        super().__init__(lease, progress)
        self._lease = lease

    @property
    def aborted(self) -> bool:
        """Stop as soon as you can."""
        return self._lease.aborted is not None

    @property
    def reason(self) -> Exception | None:
        """Why; None while it is not aborted."""
        return self._lease.aborted


Handler = Callable[[Job[P]], Awaitable[object]]


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
        self._handlers: dict[Lease, asyncio.Task[None]] = {}
        self._closing = asyncio.Lock()
        self._duplex.start()

    @property
    def status(self) -> WorkerStatus:
        """`connecting`, `working`, `draining` or `closed`."""
        return self._engine.status

    @property
    def running(self) -> int:
        """Handlers that run now."""
        return len(self._engine.running)

    async def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until it is closed; at most `timeout`. True if it is."""
        seconds = 1e9 if timeout is None else timeout.total_seconds()
        return await self._duplex.wait_for(lambda: self._duplex.stopped, seconds)

    async def close(self, *, timeout: timedelta | None = None) -> None:
        """Takes no more jobs and lets those that run end; nothing is lost and no attempt counted.

        Always ends, at the latest after `timeout` (default 30 s): in the last second of it handlers are cancelled, and their jobs go back;
        that of one that does not heed it runs again when its lease ends.
        """
        seconds = limits.seconds("timeout", timeout, CLOSE)
        async with self._closing:
            if not self._duplex.stopped:
                deadline = time.monotonic() + seconds
                with self._duplex.locked() as engine:
                    engine.drain()

                def over() -> bool:
                    return self._engine.drained or self._duplex.stopped

                if not await self._duplex.wait_for(over, seconds - min(GRACE, seconds / 2)):
                    with self._duplex.locked() as engine:
                        engine.abort_all(faults.closed("the worker"))
                    await self._duplex.wait_for(over, deadline - time.monotonic())
            if self._engine.status != "closed":
                with self._duplex.locked() as engine:
                    engine.close()
            await self._duplex.stop()
            self._on_closed(self)

    async def __aenter__(self) -> Worker[P]:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # ---- What the engine wants.

    def start(self, lease: Lease) -> None:
        """Runs the handler in a task."""

        def progress(kept: bytes) -> None:
            with self._duplex.locked() as engine:
                engine.note(lease, kept)

        job: Job[Any] = Job(lease, progress)
        lease.job = job
        self._handlers[lease] = asyncio.create_task(self._handle(lease, job), name="pannier-job")

    def abort(self, lease: Lease, reason: Exception) -> None:
        """Cancels the handler."""
        task = self._handlers.get(lease)
        if task is not None:
            task.cancel()

    def tell(self, event: WorkerEvent) -> None:
        """Tells who listens."""
        self._telling.tell(event)

    async def _handle(self, lease: Lease, job: Job[P]) -> None:
        try:
            result = await self._handler(job)
        except BaseException as error:
            if lease.aborted is None and isinstance(error, asyncio.CancelledError) and self._duplex.stopped:
                raise
            with self._duplex.locked() as engine:
                engine.failed(lease, lease.aborted if lease.aborted and isinstance(error, asyncio.CancelledError) else error)
        else:
            with self._duplex.locked() as engine:
                engine.done(lease, result)
        finally:
            self._handlers.pop(lease, None)


class WorkerFunction(Generic[P]):
    """A handler with its queue, made by `@pannier.aio.worker`. Still callable as the function it was."""

    def __init__(
        self, queues: str | Sequence[str], handler: Handler[P], concurrency: int, lease: timedelta | None, name: str | None
    ) -> None:
        self.queues = queues
        self.handler = handler
        self.concurrency = concurrency
        self.lease = lease
        self.name = name

    async def __call__(self, job: Job[P]) -> object:
        return await self.handler(job)


def worker(
    queues: str | Sequence[str], *, concurrency: int = 1, lease: timedelta | None = None, name: str | None = None
) -> Callable[[Handler[P]], WorkerFunction[P]]:
    """Makes a function the handler of a queue: `@pannier.aio.worker("reminders", concurrency=5)`. `client.run(function)` runs it.

    The options are those of `client.worker`.
    """

    def decorate(handler: Handler[P]) -> WorkerFunction[P]:
        return WorkerFunction(queues, handler, concurrency, lease, name)

    return decorate
