"""The unary calls on sessions, which need no lease, and the request that opens one."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from .._gen import session_pb2 as pb
from . import limits, records, wire
from .attach import COMMIT_MAX, size_of
from .call import Call, call
from .faults import too_large
from .records import Attributes, Committed, Put, Record, SessionArchive, SessionInfo

_SERVICE = "SessionService"
OnHeld = Literal["fail", "wait", "take_over"]
_ON_HELD: tuple[OnHeld, ...] = ("fail", "wait", "take_over")
LEASE_TTL = timedelta(seconds=30)
#: This process, unless `owner` says otherwise.
PROCESS_OWNER = str(uuid.uuid4())


@dataclass(frozen=True)
class Records:
    """Records of one snapshot; missing ones are left out."""

    records: tuple[Record, ...]
    revision: int
    incarnation: int


@dataclass(frozen=True)
class Found:
    """A session, if there is one, and its archives."""

    session: SessionInfo | None
    archives: tuple[SessionArchive, ...]


def open_request(
    namespace: str,
    session: str,
    owner: str | None,
    on_held: OnHeld,
    wait_timeout: timedelta | None,
    lease_ttl: timedelta | None,
    min_revision: int,
    must_exist: bool,
) -> pb.Open:
    """Open. Waits by default for lease_ttl + 15 s: then a crashed owner's lease has run out."""
    ttl = limits.span("lease_ttl", lease_ttl or LEASE_TTL, timedelta(minutes=10), timedelta(seconds=3)) or LEASE_TTL
    longest = timedelta(minutes=10)
    wait = limits.span("wait_timeout", wait_timeout or min(longest, ttl + timedelta(seconds=15)), longest) or longest
    return pb.Open(
        namespace=namespace,
        session=limits.text("session", session),
        owner=PROCESS_OWNER if owner is None else limits.text("owner", owner),
        # Numbers of commits count per writer: a process of the same owner must not use ours.
        writer_id=str(uuid.uuid4()),
        on_held=pb.OnHeld.Name(limits.number_of("on_held", _ON_HELD, on_held)),
        wait_timeout=wire.to_duration(wait) if on_held == "wait" else None,
        lease_ttl=wire.to_duration(ttl),
        min_revision=limits.count("min_revision", min_revision, 0, 2**63 - 1),
        must_exist=must_exist,
    )


def body(puts: Iterable[Put], deletes: Iterable[tuple[str, str]]) -> tuple[list[pb.Put], list[pb.RecordRef]]:
    """What a commit does. Raises TooLargeError above 32 MiB."""
    written = [records.put(n, one) for n, one in enumerate(puts)]
    gone = records.refs(deletes)
    size = size_of(written, gone)
    if size > COMMIT_MAX:
        raise too_large("puts", f"a commit may have {COMMIT_MAX} bytes; this one has {size}")
    return written, gone


def get(namespace: str, session: str, wanted: Mapping[str, Sequence[str]]) -> Call[Records]:
    """GetRecords."""
    request = pb.GetRecordsRequest(namespace=namespace, session=limits.text("session", session), queries=records.queries(wanted))

    def read(answer: pb.GetRecordsResponse) -> Records:
        return Records(tuple(map(records.record, answer.records)), answer.revision, answer.incarnation)

    return call(_SERVICE, "GetRecords", request, pb.GetRecordsResponse, read, writes=False)


def record_page(namespace: str, session: str, type: str, ids_only: bool, cursor: str) -> Call[tuple[list[Record], int, int, str]]:
    """A page of ListRecords: records, how many cannot be opened, how many do not fit, the next cursor."""
    request = pb.ListRecordsRequest(
        namespace=namespace, session=limits.text("session", session), type=type, cursor=cursor, ids_only=ids_only
    )

    def read(answer: pb.ListRecordsResponse) -> tuple[list[Record], int, int, str]:
        return [records.record(one) for one in answer.records], answer.corrupt, len(answer.too_large), answer.cursor

    return call(_SERVICE, "ListRecords", request, pb.ListRecordsResponse, read, writes=False)


def commit(
    namespace: str,
    session: str,
    puts: Iterable[Put],
    deletes: Iterable[tuple[str, str]],
    *,
    expected_revision: int | None,
    attributes: Attributes | None,
    incarnation: int,
    fence: int | None,
) -> Call[Committed]:
    """CommitRecords, by a writer of its own."""
    written, gone = body(puts, deletes)
    request = pb.CommitRecordsRequest(
        namespace=namespace,
        session=limits.text("session", session),
        writer_id=str(uuid.uuid4()),
        op_seq=1,
        puts=written,
        deletes=gone,
        expected_revision=expected_revision,
        incarnation=incarnation,
        fence=fence or 0,
        attributes=records.attributes(attributes),
    )
    return call(_SERVICE, "CommitRecords", request, pb.CommitRecordsResponse, records.committed, writes=True)


def find(namespace: str, session: str) -> Call[Found]:
    """GetSession."""
    request = pb.GetSessionRequest(namespace=namespace, session=limits.text("session", session))

    def read(answer: pb.GetSessionResponse) -> Found:
        there = records.info(answer.session) if answer.exists else None
        return Found(there, tuple(map(records.archive, answer.archives)))

    return call(_SERVICE, "GetSession", request, pb.GetSessionResponse, read, writes=False)


def page(namespace: str, cursor: str) -> Call[tuple[list[SessionInfo], int, str]]:
    """A page of ListSessions: sessions, how many cannot be opened, the next cursor."""
    request = pb.ListSessionsRequest(namespace=namespace, cursor=cursor, limit=100)

    def read(answer: pb.ListSessionsResponse) -> tuple[list[SessionInfo], int, str]:
        return [records.info(one) for one in answer.sessions], answer.corrupt, answer.cursor

    return call(_SERVICE, "ListSessions", request, pb.ListSessionsResponse, read, writes=False)


def deleted_page(namespace: str, session: str, cursor: str) -> Call[tuple[list[SessionArchive], int, str]]:
    """A page of ListDeleted: archives, how many cannot be opened, the next cursor."""
    request = pb.ListDeletedRequest(namespace=namespace, session=session, cursor=cursor, limit=100)

    def read(answer: pb.ListDeletedResponse) -> tuple[list[SessionArchive], int, str]:
        return [records.archive(one) for one in answer.archives], answer.corrupt, answer.cursor

    return call(_SERVICE, "ListDeleted", request, pb.ListDeletedResponse, read, writes=False)


def delete(namespace: str, session: str, shred: bool, incarnation: int) -> Call[bool]:
    """DeleteSession."""
    mode = pb.DeleteSessionRequest.MODE_SHRED if shred else pb.DeleteSessionRequest.MODE_SOFT
    request = pb.DeleteSessionRequest(namespace=namespace, session=limits.text("session", session), mode=mode, incarnation=incarnation)
    return call(_SERVICE, "DeleteSession", request, pb.DeleteSessionResponse, lambda a: a.deleted, writes=True)


def restore(namespace: str, session: str, incarnation: int, replace: bool) -> Call[SessionInfo]:
    """RestoreSession."""
    request = pb.RestoreSessionRequest(
        namespace=namespace, session=limits.text("session", session), incarnation=incarnation, replace=replace
    )
    return call(_SERVICE, "RestoreSession", request, pb.RestoreSessionResponse, lambda a: records.info(a.session), writes=True)


def break_lease(namespace: str, session: str, fence: int) -> Call[bool]:
    """BreakLease."""
    request = pb.BreakLeaseRequest(namespace=namespace, session=limits.text("session", session), fence=fence)
    return call(_SERVICE, "BreakLease", request, pb.BreakLeaseResponse, lambda a: a.broken, writes=True)
