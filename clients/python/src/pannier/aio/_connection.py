"""A connection to the sidecar, from the search for it to its end, and unary calls that are tried again within their deadline."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from typing import NoReturn, TypeVar

from .._core import faults, limits
from .._core.address import user
from .._core.call import Call, Tries
from .._core.settings import HEALTH, PAUSE, PROBE, SERVING, Settings
from ..errors import AccessError, PannierError
from ._channel import Channel
from ._io import sleep

T = TypeVar("T")


class Connection:
    """Of one client. Nothing is opened before `open`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.namespace = settings.namespace
        self._channel: Channel | None = None
        self._bulk: set[Channel] = set()
        self._closed = False

    @property
    def channel(self) -> Channel:
        """The channel, here and now. Raises ClosedError if it cannot be used."""
        if self._channel is None:
            if self._closed:
                raise faults.closed("the client")
            raise faults.make("CANCELLED", "NOT_CONNECTED", "this client is not connected")
        self._channel.check()
        return self._channel

    @property
    def is_open(self) -> bool:
        """It has been opened, and not closed."""
        return self._channel is not None

    async def open(self) -> None:
        """Finds a sidecar and waits until it serves. Raises UnavailableError that names every place tried."""
        if self._channel is not None or self._closed:
            raise faults.closed("the client") if self._closed else RuntimeError("pannier: this client is open already")
        settings = self.settings
        deadline = time.monotonic() + settings.ready_timeout
        why: dict[str, str] = {}
        channels: dict[str, Channel] = {}
        try:
            while True:
                for place in settings.places:
                    refused = place.refusal(user()) if place.checked else None
                    if refused is None:
                        channel = channels.get(place.target) or Channel(place.target, settings.dial)
                        channels[place.target] = channel
                        refused = await _probe(channel, min(PROBE, max(0.1, deadline - time.monotonic())))
                    if refused is None:
                        self._channel = channels.pop(place.target)
                        return
                    why[place.target] = refused
                if time.monotonic() + PAUSE >= deadline:
                    raise settings.not_there(why)
                await sleep(PAUSE)
        finally:
            for channel in channels.values():
                await channel.close()

    async def call(self, call: Call[T], timeout: timedelta | None = None) -> T:
        """Makes a call, and again where that helps, within its timeout. Every call of this package is safe to repeat."""
        seconds = limits.seconds("timeout", timeout, self.settings.timeout)
        deadline = time.monotonic() + seconds
        tries = Tries(call.writes, seconds, deadline)
        while True:
            try:
                answer = await self.channel.invoke(call.path, call.request, deadline - time.monotonic())
            except PannierError as error:
                failure = error
            else:
                return call.read(answer)
            await sleep(tries.failed(failure, time.monotonic()))

    async def upload(self, path: str, messages: AsyncGenerator[bytes, None], timeout: float | None) -> bytes:
        """Sends bulk data, over a channel of its own: it holds up nobody else."""
        channel = self._bulk_channel()
        try:
            return await channel.upload(path, messages, timeout)
        finally:
            await self._end(channel)

    async def download(self, path: str, request: bytes, timeout: float | None) -> AsyncGenerator[bytes, None]:
        """Takes bulk data: the same."""
        channel = self._bulk_channel()
        try:
            async with aclosing(channel.stream(path, request, timeout)) as messages:
                async for message in messages:
                    yield message
        finally:
            await self._end(channel)

    def _bulk_channel(self) -> Channel:
        channel = Channel(self.channel.target, self.settings.dial)
        self._bulk.add(channel)
        return channel

    async def _end(self, channel: Channel) -> None:
        self._bulk.discard(channel)
        await channel.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("pannier: a client cannot be pickled; connect in the other process")

    async def close(self) -> None:
        """Ends it; calls that are open get ClosedError."""
        self._closed = True
        channel, self._channel = self._channel, None
        for one in [channel, *self._bulk]:
            if one is not None:
                await one.close()


async def _probe(channel: Channel, timeout: float) -> str | None:
    """None if it serves; else why not. Raises what waiting does not cure."""
    try:
        answer = await channel.invoke(HEALTH, b"", timeout)
    except AccessError:
        raise
    except PannierError as error:
        return error.message
    return None if answer == SERVING else "it is there, but not ready"
