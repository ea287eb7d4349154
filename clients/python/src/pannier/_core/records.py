"""Records of a session, commits, and what is known of sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

from .._gen import session_pb2 as pb
from . import limits, wire
from .admin import Durability, durability
from .faults import bad_field, too_large

#: How a value is to be read: raw bytes, JSON text kept to the letter, other UTF-8 text.
Kind = Literal["bytes", "json", "text"]
_KINDS: tuple[Kind, ...] = get_args(Kind)
TYPE_MAX = 128
VALUE_MAX = 16 * 1024 * 1024


@dataclass(frozen=True)
class Record:
    """A record as it is stored."""

    #: Such as `session`, `pre-key`, `creds`.
    type: str
    id: str = field(repr=False)
    kind: Kind
    value: bytes = field(repr=False)
    #: The session revision that wrote it.
    revision: int

    @property
    def text(self) -> str:
        """The value of a `json` or `text` record."""
        return self.value.decode()


@dataclass(frozen=True)
class Put:
    """A record to write: ≤ 16 MiB. `kind`: default `bytes` of bytes, `text` of a str."""

    type: str
    id: str = field(repr=False)
    value: bytes | str = field(repr=False)
    kind: Kind | None = None
    #: The revision that the stored record must have, else RevisionConflictError; 0: it must be absent.
    if_revision: int | None = None


@dataclass(frozen=True)
class Attributes:
    """Facts about the account that listings may show. Kept sealed. Those given replace those of the same name."""

    #: The account has been paired: its creds hold `registered` or `me`.
    paired: bool | None = None
    #: Baileys' `nextPreKeyId`. A falling one is reported: a sign of old state put back.
    next_pre_key_id: int | None = None
    #: Anything else: ≤ 16 names of ≤ 64 bytes, values ≤ 256 bytes.
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Committed:
    """A commit that is in, whole."""

    #: The revision before it. Not the last one you saw: somebody else wrote in between.
    base_revision: int
    revision: int
    #: It had been applied before; `base_revision` means nothing then.
    replayed: bool
    durability: Durability


@dataclass(frozen=True)
class Cleared:
    """The session is empty; the old records are an archive for 7 days."""

    fence: int
    incarnation: int
    revision: int


@dataclass(frozen=True)
class TypeCount:
    """Records of one type, and their bytes as stored."""

    type: str
    records: int
    bytes: int


@dataclass(frozen=True)
class LeaseInfo:
    """Who holds a session."""

    owner: str
    fence: int
    expires_at: datetime | None
    #: It has not run out.
    live: bool


@dataclass(frozen=True)
class SessionInfo:
    """A live session."""

    namespace: str
    session: str
    incarnation: int
    #: The number of commits so far.
    revision: int
    attributes: Attributes
    counts: tuple[TypeCount, ...]
    lease: LeaseInfo | None
    created_at: datetime | None
    last_write_at: datetime | None
    #: The newest fence.
    fence: int


@dataclass(frozen=True)
class SessionArchive:
    """A soft-deleted session. It is unlinked for good at `purge_at`, 7 days after `deleted_at`."""

    namespace: str
    session: str
    incarnation: int
    revision: int
    counts: tuple[TypeCount, ...]
    deleted_at: datetime | None
    purge_at: datetime | None


def record(stored: pb.Record) -> Record:
    """From the wire."""
    return Record(stored.type, stored.id, kind_of(stored.kind), stored.value, stored.revision)


def kind_of(number: pb.ValueKind) -> Kind:
    """Its word."""
    return wire.word(_KINDS, number or pb.VALUE_KIND_BYTES)


def put(n: int, one: Put) -> pb.Put:
    """A Put on the wire."""
    where = f"puts[{n}].record"
    value = one.value.encode() if isinstance(one.value, str) else one.value
    if not isinstance(value, bytes):
        raise bad_field(f"{where}.value", "must be bytes or a str")
    if len(value) > VALUE_MAX:
        raise too_large(f"{where}.value", "must be at most 16 MiB")
    word = one.kind or ("text" if isinstance(one.value, str) else "bytes")
    made = pb.Put(
        record=pb.Record(
            type=limits.text(f"{where}.type", one.type, TYPE_MAX),
            id=limits.text(f"{where}.id", one.id),
            kind=pb.ValueKind.Name(limits.number_of(f"{where}.kind", _KINDS, word)),
            value=value,
        )
    )
    if one.if_revision is not None:
        made.if_revision = limits.count(f"puts[{n}].if_revision", one.if_revision, 0, 2**63 - 1)
    return made


def refs(deletes: Iterable[tuple[str, str]]) -> list[pb.RecordRef]:
    """Names of records on the wire."""
    return [
        pb.RecordRef(type=limits.text(f"deletes[{n}].type", kind, TYPE_MAX), id=limits.text(f"deletes[{n}].id", name))
        for n, (kind, name) in enumerate(deletes)
    ]


def queries(wanted: Mapping[str, Sequence[str]]) -> list[pb.Query]:
    """Ids by type on the wire."""
    made = []
    for n, (kind, ids) in enumerate(wanted.items()):
        names = [ids] if isinstance(ids, str) else list(ids)
        named = [limits.text(f"queries[{n}].ids[{m}]", name) for m, name in enumerate(names)]
        made.append(pb.Query(type=limits.text(f"queries[{n}].type", kind, TYPE_MAX), ids=named))
    return made


def attributes(given: Attributes | None) -> pb.Attributes | None:
    """On the wire; None stays so."""
    if given is None:
        return None
    made = pb.Attributes(labels=given.labels)
    if given.paired is not None:
        made.paired = given.paired
    if given.next_pre_key_id is not None:
        made.next_pre_key_id = given.next_pre_key_id
    return made


def committed(answer: pb.Committed | pb.CommitRecordsResponse) -> Committed:
    """From the wire."""
    return Committed(answer.base_revision, answer.revision, answer.replayed, durability(answer.durability))


def counts(stored: Iterable[pb.TypeCount]) -> tuple[TypeCount, ...]:
    """From the wire."""
    return tuple(TypeCount(one.type, one.records, one.bytes) for one in stored)


def attributes_of(stored: pb.Attributes) -> Attributes:
    """From the wire."""
    return Attributes(
        paired=stored.paired if stored.HasField("paired") else None,
        next_pre_key_id=stored.next_pre_key_id if stored.HasField("next_pre_key_id") else None,
        labels=dict(stored.labels),
    )


def info(stored: pb.SessionInfo) -> SessionInfo:
    """From the wire."""
    lease = stored.lease
    return SessionInfo(
        namespace=stored.namespace,
        session=stored.session,
        incarnation=stored.incarnation,
        revision=stored.revision,
        attributes=attributes_of(stored.attributes),
        counts=counts(stored.counts),
        lease=LeaseInfo(lease.owner, lease.fence, wire.instant(lease, "expires_at"), lease.live) if stored.HasField("lease") else None,
        created_at=wire.instant(stored, "created_at"),
        last_write_at=wire.instant(stored, "last_write_at"),
        fence=stored.fence,
    )


def archive(stored: pb.ArchiveInfo) -> SessionArchive:
    """From the wire."""
    return SessionArchive(
        namespace=stored.namespace,
        session=stored.session,
        incarnation=stored.incarnation,
        revision=stored.revision,
        counts=counts(stored.counts),
        deleted_at=wire.instant(stored, "deleted_at"),
        purge_at=wire.instant(stored, "purge_at"),
    )
