"""Archives and other large state, in generations, streamed in bounded memory."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from datetime import timedelta
from typing import BinaryIO

from .._core import blobs as core
from .._core import faults, limits
from .._core.blobs import BlobArchive, BlobInfo, BlobStatus, SaveResult
from .._core.call import backoff
from .._core.reasons import STREAM_AGAIN
from .._core.sink import FileSink, OpenSink, Sink, Verified
from .._core.source import BlobSource, Source
from .._gen import blob_pb2 as pb
from ..errors import PannierError
from ._connection import Connection
from ._io import blocking, sleep

#: For how long after the first failure to begin anew, where that can help.
RETRY = 30.0
Generations = list[BlobInfo]


class Blobs:
    """Blobs. Names: 1..256 bytes of UTF-8, any characters. Size ≤ `--max-blob` (2 GiB).

    While somebody holds the session of the same name, every change is SessionHeldError, unless it gives the holder's `fence`. A transfer
    ends when nothing moves for 30 s; after a failure that can pass it begins anew for 30 s. Errors of every call: BadRequestError,
    UnavailableError, DeadlineExceededError, KeyMismatchError, CorruptBlobError.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def save(
        self,
        blob: str,
        source: BlobSource,
        *,
        content_digest: bytes | None = None,
        labels: Mapping[str, str] | None = None,
        fence: int | None = None,
        timeout: timedelta | None = None,
    ) -> SaveResult:
        """Stores a new generation. It is visible whole or not at all; until then the one before stays.

        `source`: a path, a file object open for bytes (read from where it stands; yours to close), or bytes. A file must not change
        meanwhile (SourceError). What can be read again is sent anew after a failure, under the same request id. `content_digest`: ≤ 64
        bytes that are equal when the content is; equal to the current generation's, nothing is stored (`unchanged`); default the content's
        SHA-256. `labels`: kept encrypted, ≤ 16 names of 1..64 bytes, values ≤ 256 bytes. `timeout`: of all of it, default none.
        Raises SourceError, SessionHeldError, FencedError, GenerationGoneError (deleted meanwhile), TooLargeError, ExhaustedError.
        """
        header = core.header(self._connection.namespace, blob, str(uuid.uuid4()), content_digest, labels, fence)
        content = await blocking(Source, source)
        try:
            again = _Again(timeout, content.repeatable)
            while True:
                try:
                    return await self._save_once(header, content, again.left())
                except PannierError as error:
                    pause = again.failed(error)
                await sleep(pause)
        finally:
            await blocking(content.close)

    async def _save_once(self, header: pb.SaveBlobHeader, content: Source, timeout: float | None) -> SaveResult:
        wrong: list[Exception] = []

        async def messages() -> AsyncGenerator[bytes, None]:
            # What is raised in here would reach nobody.
            try:
                number = await blocking(content.begin)
                yield pb.SaveBlobRequest(header=header).SerializeToString()
                while True:
                    message = await blocking(content.chunk, number)
                    if message is None:
                        break
                    yield message
                yield await blocking(content.finish)
            except Exception as error:
                wrong.append(error)

        try:
            answer = await self._connection.upload(core.SAVE, messages(), timeout)
        except PannierError:
            if wrong:
                raise wrong[0] from None
            raise
        if wrong:
            raise wrong[0]
        return core.saved(answer)

    async def fetch(
        self,
        blob: str,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        generation: int | None = None,
        timeout: timedelta | None = None,
    ) -> BlobInfo:
        """Writes a generation, by default the current one, to a path or a file object open for writing bytes.

        Of a path the directory is made; the name appears, or the file of that name is replaced, only when everything was verified and is on
        disk; until then it is `path.part-…`, mode 0600. A file object is written as it comes, once: only when this returns is it whole.
        Raises NotFoundError, CorruptBlobError, GenerationGoneError.
        """
        request = core.fetch(self._connection.namespace, blob, generation)
        to_path = isinstance(target, (str, os.PathLike))
        again = _Again(timeout, to_path)
        while True:
            sink: Sink = await blocking(FileSink, target) if isinstance(target, (str, os.PathLike)) else OpenSink(target)
            try:
                return await self._fetch_once(request, sink, again.left())
            except PannierError as error:
                pause = again.failed(error)
            finally:
                await blocking(sink.close)
            await sleep(pause)

    async def _fetch_once(self, request: bytes, sink: Sink, timeout: float | None) -> BlobInfo:
        verified = Verified()
        async with aclosing(self._connection.download(core.FETCH, request, timeout)) as messages:
            async for message in messages:
                await blocking(sink.write, verified.take(message))
        info = verified.finished()
        await blocking(sink.done)
        return info

    async def read(self, blob: str, *, generation: int | None = None, timeout: timedelta | None = None) -> AsyncGenerator[bytes, None]:
        """The bytes of a generation as they come, ≤ 256 KiB at a time. Only when it ends without an error was that all. One try."""
        request = core.fetch(self._connection.namespace, blob, generation)
        seconds = None if timeout is None else limits.seconds("timeout", timeout, 0)
        verified = Verified()
        async with aclosing(self._connection.download(core.FETCH, request, seconds)) as messages:
            async for message in messages:
                data = verified.take(message)
                if data:
                    yield data
        verified.finished()

    async def stat(self, blob: str, *, timeout: timedelta | None = None) -> BlobStatus:
        """What is known of a blob, also of one that does not exist."""
        return await self._connection.call(core.stat(self._connection.namespace, blob), timeout)

    async def list(self) -> AsyncIterator[BlobInfo]:
        """The current generations of all blobs of the namespace, in no order. Raises CorruptBlobError."""
        cursor = ""
        while True:
            found, _, corrupt, cursor = await self._connection.call(core.page(self._connection.namespace, False, cursor))
            for one in found:
                yield one
            if corrupt:
                raise faults.make("DATA_LOSS", "CORRUPT_BLOB", f"{corrupt} blobs cannot be opened")
            if not cursor:
                return

    async def deleted(self) -> AsyncIterator[BlobArchive]:
        """What `restore` can bring back, in the whole namespace."""
        cursor = ""
        while True:
            _, found, corrupt, cursor = await self._connection.call(core.page(self._connection.namespace, True, cursor))
            for one in found:
                yield one
            if corrupt:
                raise faults.make("DATA_LOSS", "CORRUPT_BLOB", f"{corrupt} archives cannot be opened")
            if not cursor:
                return

    async def generations(self, blob: str, *, timeout: timedelta | None = None) -> Generations:
        """All generations of a blob, newest first: current, kept, deleted, dropped."""
        return await self._connection.call(core.generations(self._connection.namespace, blob), timeout)

    async def rollback(self, blob: str, generation: int, *, fence: int | None = None, timeout: timedelta | None = None) -> BlobInfo:
        """Makes a kept generation the current one. Raises GenerationGoneError, NotFoundError, SessionHeldError, FencedError."""
        return await self._connection.call(core.rollback(self._connection.namespace, blob, generation, fence), timeout)

    async def delete(self, blob: str, *, shred: bool = False, fence: int | None = None, timeout: timedelta | None = None) -> bool:
        """Deletes a blob; False if there was none. Saves that are going on end with GenerationGoneError.

        It stays as an archive for 7 days, at most 3 a blob; with `shred` it is unreadable at once, archives too.
        """
        incarnation = 0
        if not shred:
            # Naming what is meant, a late repetition cannot hit a newer blob of the name.
            there = (await self.stat(blob, timeout=timeout)).blob
            incarnation = there.incarnation if there else 0
        # Also where nothing is: it ends the uploads.
        call = core.delete(self._connection.namespace, blob, shred, incarnation, fence)
        return await self._connection.call(call, timeout)

    async def restore(
        self,
        blob: str,
        *,
        incarnation: int | None = None,
        replace: bool = False,
        fence: int | None = None,
        timeout: timedelta | None = None,
    ) -> BlobInfo:
        """Brings an archive back, all its generations: the newest, or the one named.

        With `replace` the blob that is there becomes an archive; without it that is a WrongStateError. Raises NotFoundError.
        """
        if incarnation is None:
            # Naming it makes a repetition after a lost answer harmless.
            archives = (await self.stat(blob, timeout=timeout)).archives
            incarnation = archives[0].incarnation if archives else 0
        call = core.restore(self._connection.namespace, blob, incarnation, replace, fence)
        return await self._connection.call(call, timeout)


class _Again:
    """When a transfer that failed begins anew."""

    def __init__(self, timeout: timedelta | None, repeatable: bool) -> None:
        self._seconds = None if timeout is None else limits.seconds("timeout", timeout, 0)
        self._deadline = None if self._seconds is None else time.monotonic() + self._seconds
        self._repeatable = repeatable
        self._until: float | None = None
        self._attempt = 0

    def left(self) -> float | None:
        """Of the timeout."""
        return None if self._deadline is None else max(0.001, self._deadline - time.monotonic())

    def failed(self, error: PannierError) -> float:
        """How long to wait. Raises the error if that is of no use."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + RETRY
        wait = error.retry_after.total_seconds() if error.retry_after else backoff(self._attempt)
        self._attempt += 1
        last = self._until if self._deadline is None else min(self._until, self._deadline)
        if not self._repeatable or error.reason not in STREAM_AGAIN or now + wait >= last:
            raise error
        return wait
