"""A gRPC channel in one event loop, and calls on it that end in an answer or a PannierError."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio

from .._core import faults
from .._core.dial import Dial
from ..errors import PannierError


class Channel:
    """Made in a running loop, used in it alone."""

    def __init__(self, target: str, dial: Dial) -> None:
        self.target = target
        self.metadata = dial.metadata()
        self.closed = False
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        credentials, options = dial.credentials(), dial.options(target)
        if credentials is None:
            self.grpc = grpc.aio.insecure_channel(target, options=options)
        else:
            self.grpc = grpc.aio.secure_channel(target, credentials, options=options)
        self._methods: dict[str, Any] = {}

    def check(self) -> None:
        """Raises if this is not the place where it can be used."""
        if self.closed:
            raise faults.closed("the client")
        if os.getpid() != self._pid:
            raise faults.make("CANCELLED", "FORKED", "this client was made before the process forked")
        if asyncio.get_running_loop() is not self._loop:
            raise faults.make("CANCELLED", "WRONG_LOOP", "this client was made in another event loop")

    @contextmanager
    def _told(self) -> Generator[None, None, None]:
        """Says as a PannierError how a call failed."""
        try:
            yield
        except grpc.RpcError as error:
            raise self.error(error) from error
        except asyncio.CancelledError:
            # Closing the channel cancels its calls; a task that is cancelled itself goes on being so.
            if self.closed and not _being_cancelled():
                raise faults.closed("the client") from None
            raise

    async def invoke(self, path: str, request: bytes, timeout: float) -> bytes:
        """One try of a unary call."""
        self.check()
        method = self._methods.get(path)
        if method is None:
            method = self._methods[path] = self.grpc.unary_unary(path)
        with self._told():
            answer: bytes = await method(request, timeout=max(timeout, 0.001), metadata=self.metadata)
        return answer

    async def upload(self, path: str, messages: AsyncGenerator[bytes, None], timeout: float | None) -> bytes:
        """Sends a stream of messages, one when the one before has left; gives the answer."""
        self.check()
        method: Any = self.grpc.stream_unary(path)
        with self._told():
            answer: bytes = await method(messages, timeout=timeout, metadata=self.metadata)
        return answer

    async def stream(self, path: str, request: bytes, timeout: float | None = None) -> AsyncGenerator[bytes, None]:
        """What a stream of answers says, until it ends. Close it to end it before."""
        self.check()
        method: Any = self.grpc.unary_stream(path)
        call = method(request, timeout=timeout, metadata=self.metadata)
        try:
            with self._told():
                async for message in call:
                    yield message
        finally:
            call.cancel()

    def error(self, error: grpc.RpcError) -> PannierError:
        """Reads how a call ended."""
        if self.closed:
            return faults.closed("the client")
        if isinstance(error, grpc.aio.AioRpcError):
            return faults.from_grpc(error.code(), error.details(), error.trailing_metadata())
        return faults.make("UNKNOWN", "SIDECAR_UNREACHABLE", str(error))

    def unreadable(self, error: Exception | None) -> PannierError:
        """A stream ended for a reason of this side: the client was closed, or a message cannot be read."""
        if self.closed:
            return faults.closed("the client")
        return faults.make("INTERNAL", "INTERNAL", f"the stream ended here: {error or 'it was broken off'}")

    async def close(self) -> None:
        """Ends it; calls that are open get ClosedError."""
        if not self.closed:
            self.closed = True
            if os.getpid() == self._pid:
                await self.grpc.close()


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    cancelling = getattr(task, "cancelling", None)
    return cancelling is not None and cancelling() > 0
