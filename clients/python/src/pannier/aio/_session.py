"""A session held open."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType

from .._core import acknowledged, attach, faults, limits, records
from .._core import sessions as core
from .._core.admin import Durability, durability
from .._core.commits import Write
from .._core.reads import ReadResult
from .._core.records import Attributes, Cleared, Committed, Put, Record, TypeCount
from .._core.session_stream import SessionEngine, SessionEvent, SessionLost
from .._gen import session_pb2 as pb
from ._connection import Connection
from ._duplex import Duplex, new_future, settled

log = logging.getLogger("pannier")
#: Seconds of a commit, unless told otherwise: over a sidecar that starts again.
COMMIT = 30.0
PAGE = 500


class Session:
    """A session of one owner, from entering to leaving it: `async with client.sessions.open("bot-1") as session:`.

    Commits apply in call order, each whole or not at all, and a read after a commit sees it. A broken stream is attached again by itself,
    and what was not acknowledged is sent again, applied once. When another owner takes the session, or it is deleted, that is final: every
    pending and later call gets FencedError, and so tells `lost`.
    """

    def __init__(
        self,
        connection: Connection,
        request: pb.Open,
        open_timeout: float,
        on_event: Callable[[SessionEvent], object] | None,
        on_open: Callable[[Session], None],
        on_closed: Callable[[Session], None],
    ) -> None:
        self._connection = connection
        self._request = request
        self._open_timeout = open_timeout
        self._on_event = on_event
        self._on_open = on_open
        self._on_closed = on_closed
        self._engine = SessionEngine(request, open_timeout, self._tell)
        self._duplex = Duplex(connection, self._engine, "pannier-session")

    @property
    def name(self) -> str:
        """The session's name."""
        return self._request.session

    @property
    def fence(self) -> int:
        """Of the lease; a new one with each stream. Give it to `blobs` to change the blob of this name."""
        return self._engine.fence

    @property
    def revision(self) -> int:
        """The highest one acknowledged: the number of commits so far. Keep a note of it for `min_revision`."""
        return self._engine.revision

    @property
    def incarnation(self) -> int:
        """Which life of the session this is: a new one begins with `clear`, or an open after a deletion."""
        return self._engine.incarnation

    @property
    def created(self) -> bool:
        """There was none when it was opened."""
        return self._engine.opened.created

    @property
    def durability(self) -> Durability:
        """What a commit's "done" is worth here."""
        return durability(self._engine.opened.durability)

    @property
    def counts(self) -> tuple[TypeCount, ...]:
        """Records a type, when it was opened."""
        return records.counts(self._engine.opened.counts)

    @property
    def attributes(self) -> Attributes:
        """When it was opened."""
        return records.attributes_of(self._engine.opened.attributes)

    @property
    def lost(self) -> Exception | None:
        """Why it is over; None while it is not."""
        return self._engine.ending

    @property
    def suspended(self) -> bool:
        """The lease was not renewed for so long that another owner may come soon: stop sending until it is."""
        return self._engine.suspended

    async def get(self, type: str, ids: Sequence[str], *, timeout: timedelta | None = None) -> dict[str, Record]:
        """Reads records of one type in one snapshot: ≤ 1 000 ids, ≤ 32 MiB. Missing ones are left out.

        Raises CorruptRecordError (never the same as missing), TooLargeError, FencedError, UnavailableError, DeadlineExceededError.
        """
        return {one.id: one for one in await self.get_many({type: ids}, timeout=timeout)}

    async def get_many(self, wanted: Mapping[str, Sequence[str]], *, timeout: timedelta | None = None) -> Sequence[Record]:
        """The same over several types: ids by type."""
        if not any(wanted.values()):
            return ()
        return (await self._read(pb.Get(queries=records.queries(wanted)), timeout)).records

    async def list(self, type: str = "", *, ids_only: bool = False) -> AsyncIterator[Record]:
        """The records of one type, or all; each once. What changes meanwhile may be missed. `ids_only` leaves the values out.

        Raises CorruptRecordError when some cannot be opened.
        """
        cursor, seen = "", set()
        while True:
            page = await self._read(pb.List(type=type, cursor=cursor, limit=PAGE, ids_only=ids_only), None)
            for one in page.records:
                # A walk may come past the same record twice.
                if (one.type, one.id) not in seen:
                    seen.add((one.type, one.id))
                    yield one
            if page.corrupt:
                raise faults.corrupt(page.corrupt, type)
            cursor = page.cursor
            if not cursor:
                return

    async def commit(
        self,
        puts: Iterable[Put] = (),
        deletes: Iterable[tuple[str, str]] = (),
        *,
        expected_revision: int | None = None,
        attributes: Attributes | None = None,
        timeout: timedelta | None = None,
    ) -> Committed:
        """Puts and deletes (type, id), all or nothing: ≤ 20 000 items, ≤ 32 MiB. One record at most once.

        `expected_revision`: the session's, that must be the current one, else RevisionConflictError. `timeout`: default 30 s. One whose
        caller is cancelled may still be applied. Raises BadRequestError, TooLargeError, FencedError, RevisionConflictError, ExhaustedError
        (Valkey is full, or 10 000 commits wait), UnavailableError, DeadlineExceededError (`outcome_unknown` says whether it may be in).
        """
        written, gone = core.body(puts, deletes)
        sealed = records.attributes(attributes)

        def encode(seq: int, timeout_ms: int, op_seq: int) -> Messages:
            return attach.commit_messages(seq, timeout_ms, op_seq, written, gone, expected_revision, sealed)

        committed = await self._write(encode, attach.size_of(written, gone), timeout)
        assert isinstance(committed, Committed)
        acknowledged.committed(self._place(), self.incarnation, committed.revision)
        return committed

    async def clear(self, *, timeout: timedelta | None = None) -> Cleared:
        """Soft-deletes all records and goes on empty, under the same lease; an archive is kept for 7 days. In order with commits."""

        def encode(seq: int, timeout_ms: int, op_seq: int) -> Messages:
            return [pb.AttachRequest(seq=seq, timeout_ms=timeout_ms, clear=pb.Clear(op_seq=op_seq)).SerializeToString()]

        cleared = await self._write(encode, 0, timeout)
        assert isinstance(cleared, Cleared)
        acknowledged.opened(self._place(), cleared.incarnation, cleared.revision)
        return cleared

    async def close(self, *, timeout: timedelta | None = None) -> None:
        """Waits for what is pending, releases the lease, ends. Always ends, at the latest after `timeout` (default 5 s)."""
        deadline = time.monotonic() + limits.seconds("timeout", timeout, 5.0)
        if self._engine.state not in ("new", "ended"):
            await self._duplex.wait_for(lambda: self._engine.idle, deadline - time.monotonic())
            with self._duplex.locked() as engine:
                engine.close()
            await self._duplex.wait_for(lambda: self._engine.released, deadline - time.monotonic())
        with self._duplex.locked() as engine:
            engine.end(faults.closed("the session"))
        await self._duplex.stop()
        self._on_closed(self)

    async def __aenter__(self) -> Session:
        # Known already, or the connection's own complaint.
        place = self._place()
        with self._duplex.locked():
            self._request.min_revision = max(self._request.min_revision, acknowledged.seen(place))
        self._duplex.start()
        self._on_open(self)
        wait = self._request.wait_timeout.seconds + self._open_timeout + 10
        try:
            await self._duplex.wait_for(lambda: self._engine.state != "new", wait)
            if self._engine.state in ("new", "ended"):
                raise self._engine.ending or faults.deadline_exceeded("opening the session", wait)
        except BaseException:
            await self.close()
            raise
        acknowledged.opened(place, self.incarnation, self.revision)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _read(self, op: pb.Get | pb.List, timeout: timedelta | None) -> ReadResult:
        seconds = limits.seconds("timeout", timeout, self._connection.settings.timeout)
        self._connection.channel.check()
        future = new_future()
        with self._duplex.locked() as engine:
            engine.read(op, engine.promise(future), seconds, time.monotonic())
        result = await settled(future)
        assert isinstance(result, ReadResult)
        return result

    async def _write(self, encode: Callable[[int, int, int], Messages], size: int, timeout: timedelta | None) -> object:
        seconds = limits.seconds("timeout", timeout, COMMIT)
        self._connection.channel.check()
        future = new_future()
        with self._duplex.locked() as engine:
            item = Write(encode, size, engine.promise(future), seconds, time.monotonic() + seconds)
            engine.write(item)
        try:
            return await settled(future)
        finally:
            if not item.promise.settled:
                with self._duplex.locked() as engine:
                    engine.give_up(item)

    def _place(self) -> acknowledged.Place:
        return self._connection.channel.target, self._request.namespace, self._request.session

    def _tell(self, event: SessionEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)
        elif isinstance(event, SessionLost):
            log.error("a session cannot go on in this process: %s", event.error)


# `list` is a method above.
Messages = list[bytes]
