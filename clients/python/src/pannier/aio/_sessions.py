"""Sessions: opened, or looked at and changed without a lease."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import timedelta

from .._core import acknowledged, faults, limits
from .._core import sessions as core
from .._core.records import Attributes, Committed, Put, Record, SessionArchive, SessionInfo
from .._core.session_stream import SessionEvent
from .._core.sessions import OnHeld, Records
from ..errors import CorruptRecordError, KeyMismatchError
from ._connection import Connection
from ._session import Session


class Sessions:
    """Sessions: the credentials and keys of a bot, as records under (type, id). Nothing in them ever expires.

    Names, owners, record types (≤ 128 bytes) and ids: 1..512 bytes of UTF-8, any characters. Errors of every call: BadRequestError,
    UnavailableError, DeadlineExceededError, KeyMismatchError, CorruptRecordError (never the same as missing).
    """

    def __init__(self, connection: Connection, on_open: Callable[[Session], None], on_closed: Callable[[Session], None]) -> None:
        self._connection = connection
        self._on_open = on_open
        self._on_closed = on_closed

    def open(
        self,
        session: str,
        *,
        owner: str | None = None,
        on_held: OnHeld = "wait",
        wait_timeout: timedelta | None = None,
        lease_ttl: timedelta | None = None,
        min_revision: int = 0,
        must_exist: bool = False,
        open_timeout: timedelta | None = None,
        on_event: Callable[[SessionEvent], object] | None = None,
    ) -> Session:
        """A session that is opened when it is entered: then this process has its lease. See Session.

        `owner`: who holds the lease, 1..512 bytes, default a UUID of this process; the same owner gets its session at once. `on_held`: when
        another owner holds it, `wait` for it, `fail` with SessionHeldError, or `take_over` (the other's writes are refused then).
        `wait_timeout`: how long `wait` waits, ≤ 10 minutes; default `lease_ttl` + 15 s: then a crashed owner's lease has run out.
        `lease_ttl`: how long the lease outlives a broken connection, 3 s..10 minutes, default 30 s. `min_revision`: one that was
        acknowledged earlier, of which you kept a note; a stored session behind it is StaleStateError; what was acknowledged in this process
        is known anyway. `must_exist`: NotFoundError instead of a new one. `open_timeout`: how long the sidecar may be away while opening,
        default 30 s. `on_event` is told of SessionLost, SessionSuspended, SessionResumed and ForeignWrite, and must not block.
        """
        request = core.open_request(self._connection.namespace, session, owner, on_held, wait_timeout, lease_ttl, min_revision, must_exist)
        seconds = limits.seconds("open_timeout", open_timeout, 30.0)
        return Session(self._connection, request, seconds, on_event, self._on_open, self._on_closed)

    async def get(self, session: str, wanted: Mapping[str, Sequence[str]], *, timeout: timedelta | None = None) -> Records:
        """Reads records without a lease: ids by type, ≤ 1 000 in all. Missing ones are left out. Raises NotFoundError, TooLargeError."""
        return await self._connection.call(core.get(self._connection.namespace, session, wanted), timeout)

    async def records(self, session: str, type: str = "", *, ids_only: bool = False) -> AsyncIterator[Record]:
        """All records of a session, or those of one type; nothing is locked meanwhile. `ids_only` leaves the values out."""
        cursor = ""
        while True:
            call = core.record_page(self._connection.namespace, session, type, ids_only, cursor)
            found, corrupt, too_large, cursor = await self._connection.call(call)
            for one in found:
                yield one
            if corrupt:
                raise faults.corrupt(corrupt, type)
            if too_large:
                raise faults.make("INVALID_ARGUMENT", "TOO_LARGE", "a record is too large for this call: open the session to read it")
            if not cursor:
                return

    async def commit(
        self,
        session: str,
        puts: Iterable[Put] = (),
        deletes: Iterable[tuple[str, str]] = (),
        *,
        expected_revision: int | None = None,
        attributes: Attributes | None = None,
        incarnation: int | None = None,
        fence: int | None = None,
        timeout: timedelta | None = None,
    ) -> Committed:
        """One commit without a lease, to a session that exists; ≤ 4 MiB.

        `fence`: the holder's, to write under its lease; without it no lease may be live (SessionHeldError). `incarnation`: the one that is
        meant, another is FencedError; default the one that is there. Raises RevisionConflictError, NotFoundError.
        """
        left = _time(timeout, self._connection.settings.timeout)
        if incarnation is None and fence is None:
            # Naming what is meant, a repetition after a lost answer cannot write into a newer session.
            there = (await self._find(session, left())).session
            incarnation = there.incarnation if there else 0
        call = core.commit(
            self._connection.namespace,
            session,
            puts,
            deletes,
            expected_revision=expected_revision,
            attributes=attributes,
            incarnation=incarnation or 0,
            fence=fence,
        )
        return await self._connection.call(call, left())

    async def info(self, session: str, *, timeout: timedelta | None = None) -> SessionInfo | None:
        """What is known of a session; None if there is none."""
        return (await self._find(session, timeout)).session

    async def list(self) -> AsyncIterator[SessionInfo]:
        """The live sessions of the namespace, in no order. Raises CorruptRecordError."""
        cursor = ""
        while True:
            found, corrupt, cursor = await self._connection.call(core.page(self._connection.namespace, cursor))
            for one in found:
                yield one
            if corrupt:
                raise faults.corrupt(corrupt, "session")
            if not cursor:
                return

    async def delete(self, session: str, *, shred: bool = False, incarnation: int | None = None, timeout: timedelta | None = None) -> bool:
        """Deletes a session: True if it was there, and is not any more. The owner's later writes get FencedError.

        It stays as an archive for 7 days, at most 3 a session; with `shred` records and keys are unlinked at once, archives too. Only what
        was there at the call is deleted, also when it has to be repeated. `incarnation`: only this one, with `shred` an archive's too.
        """
        left = _time(timeout, self._connection.settings.timeout)
        try:
            found = await self._find(session, left())
        except (CorruptRecordError, KeyMismatchError):
            # What cannot be opened can still be shredded, but not named.
            if not shred:
                raise
            meant = [incarnation or 0]
        else:
            meant = [found.session.incarnation] if found.session else []
            meant += [archive.incarnation for archive in found.archives] if shred else []
            meant = [one for one in meant if incarnation is None or one == incarnation]
        for one in meant:
            await self._connection.call(core.delete(self._connection.namespace, session, shred, one), left())
        acknowledged.forget((self._connection.channel.target, self._connection.namespace, session), incarnation)
        return bool(meant)

    async def deleted(self, session: str = "") -> AsyncIterator[SessionArchive]:
        """The archives of one session, or of the namespace. Raises CorruptRecordError."""
        cursor = ""
        while True:
            found, corrupt, cursor = await self._connection.call(core.deleted_page(self._connection.namespace, session, cursor))
            for one in found:
                yield one
            if corrupt:
                raise faults.corrupt(corrupt, "session")
            if not cursor:
                return

    async def restore(
        self,
        session: str,
        *,
        incarnation: int | None = None,
        replace: bool = False,
        timeout: timedelta | None = None,
    ) -> SessionInfo:
        """Brings an archive back: the newest, or the one named.

        With `replace` a live session of the name becomes an archive; without it that is a WrongStateError. Raises NotFoundError.
        """
        left = _time(timeout, self._connection.settings.timeout)
        if incarnation is None:
            # Naming it makes a repetition after a lost answer harmless.
            archives = (await self._find(session, left())).archives
            incarnation = max((archive.incarnation for archive in archives), default=0)
        return await self._connection.call(core.restore(self._connection.namespace, session, incarnation, replace), left())

    async def break_lease(self, session: str, *, timeout: timedelta | None = None) -> bool:
        """Takes the lease from whoever holds it. True if somebody did."""
        left = _time(timeout, self._connection.settings.timeout)
        there = (await self._find(session, left())).session
        # Naming the lease that is meant, a repetition after a lost answer breaks no later one.
        fence = there.fence if there else 0
        broken = await self._connection.call(core.break_lease(self._connection.namespace, session, fence), left())
        return broken or bool(there and there.lease and there.lease.live)

    async def _find(self, session: str, timeout: timedelta | None) -> core.Found:
        return await self._connection.call(core.find(self._connection.namespace, session), timeout)


def _time(timeout: timedelta | None, default: float) -> Callable[[], timedelta]:
    """What is left of the time of a call that takes several."""
    deadline = time.monotonic() + limits.seconds("timeout", timeout, default)
    return lambda: timedelta(seconds=max(0.001, deadline - time.monotonic()))
