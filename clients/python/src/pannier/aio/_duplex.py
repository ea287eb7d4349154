"""Drives an engine with tasks: one reads, one writes, one sees to the time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

from .._core.duplex import Engine
from ..errors import PannierError
from ._connection import Connection

E = TypeVar("E", bound=Engine)
log = logging.getLogger("pannier")


class Duplex(Generic[E]):
    """A stream and those after it. `locked()` is how to call the engine."""

    def __init__(self, connection: Connection, engine: E, name: str) -> None:
        self._connection = connection
        self._engine = engine
        self._name = name
        self._changed = asyncio.Event()
        self._stopped = asyncio.Event()
        self._hurry = asyncio.Event()
        self._pace = 0.0
        self._waiting: set[asyncio.Event] = set()
        self._call: Any = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Opens the first stream."""
        self._tasks = [
            asyncio.create_task(self._run(), name=self._name),
            asyncio.create_task(self._tick(), name=f"{self._name}-time"),
        ]

    async def stop(self) -> None:
        """Ends it at once."""
        self._stop()
        others = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)

    def _stop(self) -> None:
        self._stopped.set()
        self._poke()
        self._cancel()

    @property
    def stopped(self) -> bool:
        """It has ended, for good."""
        return self._stopped.is_set()

    @contextmanager
    def locked(self) -> Generator[E, None, None]:
        """The engine, for calls that change it; what it wants done is done after them."""
        yield self._engine
        effects, self._engine.effects = self._engine.effects, type(self._engine.effects)()
        for effect in effects:
            try:
                effect()
            except Exception:
                log.exception("a callback failed")
        self._poke()
        if self._engine.interval < self._pace:
            self._hurry.set()
        if self._engine.broken is not None:
            self._cancel()

    async def wait_for(self, done: Callable[[], bool], timeout: float) -> bool:
        """Waits until `done()` holds."""
        deadline = time.monotonic() + timeout
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            while not done():
                event.clear()
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(event.wait(), max(0.0, deadline - time.monotonic()))
                if time.monotonic() >= deadline:
                    return done()
            return True
        finally:
            self._waiting.discard(event)

    def _poke(self) -> None:
        self._changed.set()
        for event in self._waiting:
            event.set()

    def _cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()

    async def _run(self) -> None:
        while not self.stopped:
            error = await self._once()
            with self.locked() as engine:
                pause = engine.on_end(engine.broken or error, time.monotonic())
            if pause is None:
                self._stop()
            else:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), pause)

    async def _once(self) -> PannierError | None:
        """One stream, to its end."""
        with self.locked() as engine:
            engine.opening(time.monotonic())
        writer: asyncio.Task[None] | None = None
        try:
            channel = self._connection.channel
            method: Any = channel.grpc.stream_stream(self._engine.path)
            call = self._call = method(metadata=channel.metadata)
            writer = asyncio.create_task(self._write(call))
            async for data in call:
                with self.locked() as engine:
                    engine.on_message(data, time.monotonic())
        except PannierError as error:
            return error
        except grpc.RpcError as error:
            return channel.error(error)
        except ValueError as error:
            return channel.unreadable(error)
        except asyncio.CancelledError:
            # Of the call: it was broken off, or the client closed. Of this task: it is stopped.
            if self.stopped or (self._engine.broken is None and not channel.closed):
                raise
            return channel.unreadable(None)
        finally:
            self._cancel()
            self._call = None
            if writer is not None:
                writer.cancel()
                await asyncio.wait([writer])
        return None

    async def _write(self, call: Any) -> None:
        """Says what is to be said on this stream."""
        while True:
            message = self._engine.next_message(time.monotonic())
            if message is None:
                self._changed.clear()
                await self._changed.wait()
                continue
            try:
                await call.write(message)
            except (grpc.RpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
                # The reader sees why.
                return
            with self.locked() as engine:
                engine.sent(time.monotonic())

    async def _tick(self) -> None:
        while not self.stopped:
            self._pace = self._engine.interval
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), self._pace)
            self._hurry.clear()
            with self.locked() as engine:
                engine.tick(time.monotonic())


def new_future() -> asyncio.Future[object]:
    """What a call waits for."""
    return asyncio.get_running_loop().create_future()


async def settled(future: asyncio.Future[object]) -> object:
    """Waits for it."""
    return await future
