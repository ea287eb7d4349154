"""Drives an engine with threads: one reads, gRPC's own takes what is to be said, and one sees to the time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import grpc

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
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._hurry = threading.Event()
        self._pace = 0.0
        self._call: Any = None
        self._stream: object = None
        self._threads = [
            threading.Thread(target=self._run, name=name, daemon=True),
            threading.Thread(target=self._tick, name=f"{name}-time", daemon=True),
        ]

    def start(self) -> None:
        """Opens the first stream."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends it at once."""
        with self._changed:
            self._stopped.set()
            self._hurry.set()
            self._changed.notify_all()
        self._cancel()

    @property
    def stopped(self) -> bool:
        """It has ended, for good."""
        return self._stopped.is_set()

    @contextmanager
    def locked(self) -> Generator[E, None, None]:
        """The engine, for calls that change it; what it wants done is done after them."""
        with self._changed:
            yield self._engine
            effects, self._engine.effects = self._engine.effects, type(self._engine.effects)()
            broken = self._engine.broken is not None
            if self._engine.interval < self._pace:
                self._hurry.set()
            self._changed.notify_all()
        for effect in effects:
            try:
                effect()
            except Exception:
                log.exception("a callback failed")
        if broken:
            self._cancel()

    def wait_for(self, done: Any, timeout: float) -> bool:
        """Waits until `done()` holds."""
        with self._changed:
            return bool(self._changed.wait_for(done, max(0.0, timeout)))

    def _cancel(self) -> None:
        call = self._call
        if call is not None:
            call.cancel()

    def _run(self) -> None:
        while not self.stopped:
            error = self._once()
            with self.locked() as engine:
                pause = engine.on_end(engine.broken or error, time.monotonic())
            if pause is None:
                self.stop()
            else:
                self._stopped.wait(pause)

    def _once(self) -> PannierError | None:
        """One stream, to its end."""
        stream = object()
        with self.locked() as engine:
            engine.opening(time.monotonic())
            self._stream = stream
        try:
            channel = self._connection.channel
            method: Any = channel.grpc.stream_stream(self._engine.path)
            self._call = method(self._requests(stream), metadata=channel.metadata)
            for data in self._call:
                with self.locked() as engine:
                    engine.on_message(data, time.monotonic())
        except PannierError as error:
            return error
        except grpc.RpcError as error:
            return channel.error(error)
        except ValueError as error:
            # A channel that another thread has closed meanwhile, or a message that cannot be read.
            return channel.unreadable(error)
        finally:
            with self._changed:
                self._stream = None
                self._changed.notify_all()
            self._cancel()
        return None

    def _requests(self, stream: object) -> Generator[bytes, None, None]:
        """What is to be said on this stream. The next one is asked for when the one before has left."""
        while True:
            message = None
            with self._changed:
                while message is None and self._stream is stream and not self.stopped:
                    message = self._engine.next_message(time.monotonic())
                    if message is None:
                        self._changed.wait(1.0)
            if message is None:
                return
            yield message
            with self.locked() as engine:
                if self._stream is stream:
                    engine.sent(time.monotonic())

    def _tick(self) -> None:
        while not self.stopped:
            with self._changed:
                self._pace = self._engine.interval
            self._hurry.wait(self._pace)
            self._hurry.clear()
            with self.locked() as engine:
                engine.tick(time.monotonic())


def new_future() -> Future[object]:
    """What a call waits for."""
    return Future()


def settled(future: Future[object]) -> object:
    """Waits for it: an engine settles each by its deadline."""
    return future.result()
