# Made from ../aio/_client.py by generate.py: change it there.
"""A client, as an application holds it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Protocol, TypeVar

import grpc

from .._core import limits
from .._core.admin import ServerInfo, server_info
from .._core.settings import Settings
from .._core.work import WorkerEvent
from ._blobs import Blobs
from ._caps import Caps
from ._connection import Connection
from ._conversations import Conversations
from ._dedup import Dedup
from ._keeper import Keepers
from ._schedule import Schedule
from ._sessions import Sessions
from ._work import Handler, Worker, WorkerFunction

P = TypeVar("P")
Self = TypeVar("Self", bound="Pannier")


class Dependent(Protocol):
    """What `close` closes first, such as a worker or an open session."""

    def close(self, *, timeout: timedelta | None = None) -> None:
        """Always ends."""


class Pannier:
    """Made by `pannier.connect`. It belongs to one process; it cannot be pickled."""

    def __init__(self, settings: Settings) -> None:
        self._connection = Connection(settings)
        self._keepers = Keepers()
        self._dependents: list[Dependent] = []
        #: The credentials and keys of bots.
        self.sessions = Sessions(self._connection, self._dependents.append, self._forget)
        #: Messages handled once.
        self.dedup = Dedup(self._connection, self._keepers)
        #: Where each chat is.
        self.conversations = Conversations(self._connection)
        #: How much may be sent.
        self.caps = Caps(self._connection)
        #: Archives and other large state.
        self.blobs = Blobs(self._connection)
        #: Jobs: delayed, retried, recurring.
        self.schedule = Schedule(self._connection)

    @property
    def namespace(self) -> str:
        """The bot, number or tenant that it works for."""
        return self._connection.namespace

    @property
    def address(self) -> str:
        """Where the sidecar is: `unix:/path` or `host:port`."""
        return self._connection.channel.target

    @property
    def raw_channel(self) -> grpc.Channel:
        """For the stubs in `pannier.raw`."""
        return self._connection.channel.grpc

    @property
    def raw_metadata(self) -> tuple[tuple[str, str], ...]:
        """For calls of those stubs: the token, if there is one."""
        return self._connection.channel.metadata

    def worker(
        self,
        queues: str | Sequence[str],
        handler: Handler[P],
        *,
        concurrency: int = 1,
        lease: timedelta | None = None,
        name: str | None = None,
        on_event: Callable[[WorkerEvent], object] | None = None,
    ) -> Worker[P]:
        """Runs jobs of a queue, or of 1..64 queues, from now on until it is closed. See Worker.

        `handler` gets one job at a time, `concurrency` (1..1 000) of them at once. `lease`: how long a job stays with a worker that is not
        heard of, 1 s..24 h, default 30 s; it is renewed for as long as the handler runs; a worker that dies has its jobs run again after so
        long. `name`: for lists, 1..512 bytes. `on_event` is told of what happens (WorkerEvent) and must not block; without it what goes
        wrong is logged, under "pannier". Raises BadRequestError for wrong options, ClosedError.
        """
        self._connection.channel.check()
        worker = Worker(self._connection, queues, handler, concurrency, lease, name, on_event, self._forget)
        self._dependents.append(worker)
        return worker

    def run(self, function: WorkerFunction[P], *, on_event: Callable[[WorkerEvent], object] | None = None) -> Worker[P]:
        """Runs what `@pannier.worker` has made: `with client.run(remind) as worker: worker.wait()`."""
        return self.worker(
            function.queues,
            function.handler,
            concurrency=function.concurrency,
            lease=function.lease,
            name=function.name,
            on_event=on_event,
        )

    def _forget(self, dependent: Dependent) -> None:
        if dependent in self._dependents:
            self._dependents.remove(dependent)

    def server_info(self, *, timeout: timedelta | None = None) -> ServerInfo:
        """What the sidecar says of itself. Raises AccessError without the admin scope."""
        return self._connection.call(server_info(), timeout)

    def close(self, *, timeout: timedelta | None = None) -> None:
        """Closes workers and sessions, lets `dedup.run`s end, then disconnects; what is open then gets ClosedError.

        Always ends, at the latest after `timeout` (default 5 s).
        """
        deadline = time.monotonic() + limits.seconds("timeout", timeout, 5.0)
        for dependent in list(self._dependents):
            left = max(0.001, deadline - time.monotonic())
            dependent.close(timeout=timedelta(seconds=left))
        self._keepers.close(max(0.0, deadline - time.monotonic()))
        self._connection.close()

    def __enter__(self: Self) -> Self:
        if not self._connection.is_open:
            self._connection.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
