"""A client, as an application holds it."""

from __future__ import annotations

import time
from datetime import timedelta
from types import TracebackType
from typing import Protocol, TypeVar

from .._core import limits
from .._core.admin import ServerInfo, server_info
from .._core.settings import Settings
from ._caps import Caps
from ._connection import Connection
from ._conversations import Conversations
from ._dedup import Dedup
from ._keeper import Keepers

Self = TypeVar("Self", bound="Pannier")


class Dependent(Protocol):
    """What `close` closes first, such as a worker or an open session."""

    async def close(self, *, timeout: timedelta | None = None) -> None:
        """Always ends."""


class Pannier:
    """Made by `pannier.aio.connect`. It belongs to one process; it cannot be pickled."""

    def __init__(self, settings: Settings) -> None:
        self._connection = Connection(settings)
        self._keepers = Keepers()
        self._dependents: list[Dependent] = []
        #: Messages handled once.
        self.dedup = Dedup(self._connection, self._keepers)
        #: Where each chat is.
        self.conversations = Conversations(self._connection)
        #: How much may be sent.
        self.caps = Caps(self._connection)

    @property
    def namespace(self) -> str:
        """The bot, number or tenant that it works for."""
        return self._connection.namespace

    @property
    def address(self) -> str:
        """Where the sidecar is: `unix:/path` or `host:port`."""
        return self._connection.channel.target

    async def server_info(self, *, timeout: timedelta | None = None) -> ServerInfo:
        """What the sidecar says of itself. Raises AccessError without the admin scope."""
        return await self._connection.call(server_info(), timeout)

    async def close(self, *, timeout: timedelta | None = None) -> None:
        """Closes workers and sessions, lets `dedup.run`s end, then disconnects; what is open then gets ClosedError.

        Always ends, at the latest after `timeout` (default 5 s).
        """
        deadline = time.monotonic() + limits.seconds("timeout", timeout, 5.0)
        for dependent in list(self._dependents):
            left = max(0.001, deadline - time.monotonic())
            await dependent.close(timeout=timedelta(seconds=left))
        await self._keepers.close(max(0.0, deadline - time.monotonic()))
        await self._connection.close()

    async def __aenter__(self: Self) -> Self:
        if not self._connection.is_open:
            await self._connection.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
