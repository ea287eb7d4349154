"""Messages of the Attach stream: a commit in parts of about 1 MiB, and replies put together."""

from __future__ import annotations

from collections.abc import Iterable

from .._gen import session_pb2 as pb
from .faults import make
from .records import Record, kind_of, record

#: A message stays near this.
MESSAGE = 1024 * 1024
#: A value above this goes in fragments of this.
FRAGMENT = 1024 * 1024 - 4096
#: Bytes of one commit.
COMMIT_MAX = 32 * 1024 * 1024


def size_of(puts: Iterable[pb.Put], deletes: Iterable[pb.RecordRef]) -> int:
    """Bytes of a commit's records, names included: what the 32 MiB limit counts, nearly."""
    size = sum(len(put.record.value) + len(put.record.type) + len(put.record.id) + 16 for put in puts)
    return size + sum(len(ref.type) + len(ref.id) + 8 for ref in deletes)


def commit_messages(
    seq: int,
    timeout_ms: int,
    op_seq: int,
    puts: list[pb.Put],
    deletes: list[pb.RecordRef],
    expected_revision: int | None,
    attributes: pb.Attributes | None,
) -> list[bytes]:
    """The messages of a commit, in order: one in nearly all cases; several with `more`."""
    parts = [pb.Commit(op_seq=op_seq, expected_revision=expected_revision, attributes=attributes)]
    room = MESSAGE

    def part(size: int) -> pb.Commit:
        nonlocal room
        if room < MESSAGE and size > room:
            parts.append(pb.Commit(op_seq=op_seq, expected_revision=expected_revision))
            room = MESSAGE
        room -= size
        return parts[-1]

    for put in puts:
        if len(put.record.value) <= FRAGMENT:
            part(put.ByteSize() + 8).puts.append(put)
        else:
            for fragment in _fragments(put):
                part(fragment.ByteSize() + 8).fragments.append(fragment)
    for ref in deletes:
        part(ref.ByteSize() + 4).deletes.append(ref)
    for one in parts[:-1]:
        one.more = True
    return [pb.AttachRequest(seq=seq, timeout_ms=timeout_ms, commit=one).SerializeToString() for one in parts]


def _fragments(put: pb.Put) -> Iterable[pb.Fragment]:
    stored = put.record
    for offset in range(0, len(stored.value), FRAGMENT):
        yield pb.Fragment(
            type=stored.type,
            id=stored.id,
            kind=stored.kind,
            offset=offset,
            total=len(stored.value),
            data=stored.value[offset : offset + FRAGMENT],
            if_revision=put.if_revision if put.HasField("if_revision") else None,
        )


class Gathered:
    """Puts the parts of a reply together."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._whole: tuple[pb.Fragment, bytearray] | None = None

    def add(self, part: pb.Records | pb.Page) -> None:
        """One message of it."""
        self.records += map(record, part.records)
        for fragment in part.fragments:
            self._fragment(fragment)

    def _fragment(self, part: pb.Fragment) -> None:
        if part.offset == 0:
            self._whole = (part, bytearray())
        if self._whole is None:
            raise _out_of_order()
        first, data = self._whole
        if part.offset != len(data) or (part.type, part.id) != (first.type, first.id):
            raise _out_of_order()
        data += part.data
        if len(data) == first.total:
            self.records.append(Record(first.type, first.id, kind_of(first.kind), bytes(data), first.revision))
            self._whole = None


def _out_of_order() -> Exception:
    return make("INTERNAL", "INTERNAL", "the sidecar sent fragments out of order")
