"""A gRPC channel of one process, and calls on it that end in an answer or a PannierError. Threads may share it."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import grpc

from .._core import faults
from .._core.dial import Dial
from ..errors import PannierError


class Channel:
    """Connects when first used, and again whenever it broke."""

    def __init__(self, target: str, dial: Dial) -> None:
        self.target = target
        self.metadata = dial.metadata()
        self.closed = False
        self._pid = os.getpid()
        credentials, options = dial.credentials(), dial.options(target)
        if credentials is None:
            self.grpc = grpc.insecure_channel(target, options=options)
        else:
            self.grpc = grpc.secure_channel(target, credentials, options=options)
        self._methods: dict[str, Any] = {}

    def check(self) -> None:
        """Raises if this is not the place where it can be used."""
        if self.closed:
            raise faults.closed("the client")
        if os.getpid() != self._pid:
            raise faults.make("CANCELLED", "FORKED", "this client was made before the process forked")

    def invoke(self, path: str, request: bytes, timeout: float) -> bytes:
        """One try of a unary call."""
        self.check()
        method = self._methods.get(path)
        if method is None:
            method = self._methods[path] = self.grpc.unary_unary(path)
        try:
            answer: bytes = method(request, timeout=max(timeout, 0.001), metadata=self.metadata)
            return answer
        except grpc.RpcError as error:
            raise self.error(error) from error
        except ValueError:
            # What a channel says that another thread has closed meanwhile.
            if self.closed:
                raise faults.closed("the client") from None
            raise

    def upload(self, path: str, messages: Generator[bytes, None, None], timeout: float | None) -> bytes:
        """Sends a stream of messages, one when the one before has left; gives the answer."""
        self.check()
        method: Any = self.grpc.stream_unary(path)
        try:
            answer: bytes = method(messages, timeout=timeout, metadata=self.metadata)
            return answer
        except grpc.RpcError as error:
            raise self.error(error) from error

    def stream(self, path: str, request: bytes, timeout: float | None = None) -> Generator[bytes, None, None]:
        """What a stream of answers says, until it ends. Close it to end it before."""
        self.check()
        method: Any = self.grpc.unary_stream(path)
        call = method(request, timeout=timeout, metadata=self.metadata)
        try:
            yield from call
        except grpc.RpcError as error:
            raise self.error(error) from error
        finally:
            call.cancel()

    def error(self, error: grpc.RpcError) -> PannierError:
        """Reads how a call ended."""
        if self.closed:
            return faults.closed("the client")
        if isinstance(error, grpc.Call):
            return faults.from_grpc(error.code(), error.details(), error.trailing_metadata())
        return faults.make("UNKNOWN", "SIDECAR_UNREACHABLE", str(error))

    def unreadable(self, error: Exception | None) -> PannierError:
        """A stream ended for a reason of this side: the client was closed, or a message cannot be read."""
        if self.closed:
            return faults.closed("the client")
        return faults.make("INTERNAL", "INTERNAL", f"the stream ended here: {error or 'it was broken off'}")

    def close(self) -> None:
        """Ends it; calls that are open get ClosedError."""
        if not self.closed:
            self.closed = True
            if os.getpid() == self._pid:
                self.grpc.close()
