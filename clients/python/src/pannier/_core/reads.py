"""Reads of an open session: which wait, which are on their way. A read may be sent again at any time, so a failure that can pass is tried
again until the read's own deadline. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .._gen import session_pb2 as pb
from ..errors import PannierError
from . import faults
from .attach import Gathered
from .call import backoff
from .promise import Promise
from .reasons import STREAM_AGAIN
from .records import Record

#: On their way at once.
IN_FLIGHT = 128
#: Seconds of one try.
TRY = 5.0
#: How much longer than the sidecar's own deadline an answer may take.
GRACE = 1.5
#: Also what the sidecar itself did not expect.
REQUEST_AGAIN = STREAM_AGAIN | {"INTERNAL"}


@dataclass(frozen=True)
class ReadResult:
    """What a read gives."""

    records: list[Record]
    #: Where the walk goes on; "" at its end.
    cursor: str
    #: Records of a page that could not be opened.
    corrupt: int


@dataclass(eq=False)
class Read:
    """A Get or List until it is settled."""

    op: pb.Get | pb.List
    promise: Promise
    timeout: float
    deadline: float
    #: On the present stream; 0 when it is not on its way.
    seq: int = 0
    answer_by: float = 0.0
    #: Not before this, after a failure.
    not_before: float = 0.0
    attempt: int = 0
    last: PannierError | None = None
    gathered: Gathered = field(default_factory=Gathered)


def try_ms(deadline: float, most: float, now: float) -> int:
    """How long a try may take, of a request that ends at `deadline`."""
    return max(1, math.ceil(min(most, deadline - now) * 1000))


class ReadQueue:
    """See the top of this file."""

    def __init__(self) -> None:
        self.all: dict[Read, None] = {}
        self._sent: dict[int, Read] = {}

    @property
    def in_flight(self) -> int:
        """On their way."""
        return len(self._sent)

    def take(self, now: float, next_seq: Callable[[], int]) -> Iterator[bytes]:
        """The messages to be sent now."""
        if len(self._sent) == len(self.all):
            return
        for read in list(self.all):
            if len(self._sent) >= IN_FLIGHT:
                return
            if read.seq or read.not_before > now:
                continue
            read.seq = next_seq()
            ms = try_ms(read.deadline, TRY, now)
            read.answer_by = now + ms / 1000 + GRACE
            self._sent[read.seq] = read
            request = pb.AttachRequest(seq=read.seq, timeout_ms=ms)
            if isinstance(read.op, pb.Get):
                request.get.CopyFrom(read.op)
            else:
                request.list.CopyFrom(read.op)
            yield request.SerializeToString()

    def answer(self, told: pb.AttachResponse, now: float) -> bool:
        """Handles an answer to a read; False if it belongs to none."""
        read = self._sent.get(told.seq)
        if read is None:
            return False
        try:
            match told.WhichOneof("event"):
                case "records":
                    read.gathered.add(told.records)
                    if not told.records.more:
                        self._done(read, ReadResult(read.gathered.records, "", 0))
                case "page":
                    read.gathered.add(told.page)
                    if not told.page.more:
                        self._done(read, ReadResult(read.gathered.records, told.page.cursor, told.page.corrupt))
                case "error":
                    self._failed(read, faults.from_status(told.error), now)
        except PannierError as error:
            self._failed(read, error, now)
        return True

    def broken(self) -> None:
        """The stream broke: what was on its way is sent again."""
        for read in self._sent.values():
            read.seq = 0
            read.gathered = Gathered()
        self._sent.clear()

    def expire(self, now: float) -> bool:
        """Ends what is past its deadline. True if an answer is overdue: the stream is dead."""
        dead = False
        for read in list(self.all):
            if now >= read.deadline:
                self._drop(read)
                read.promise.reject(faults.deadline_exceeded("a read", read.timeout, last=read.last))
            elif read.seq and now >= read.answer_by:
                dead = True
        return dead

    def end(self, error: PannierError) -> None:
        """Ends all."""
        for read in list(self.all):
            self._drop(read)
            read.promise.reject(error)

    def _drop(self, read: Read) -> None:
        self._sent.pop(read.seq, None)
        self.all.pop(read, None)

    def _done(self, read: Read, result: ReadResult) -> None:
        self._drop(read)
        read.promise.resolve(result)

    def _failed(self, read: Read, error: PannierError, now: float) -> None:
        self._sent.pop(read.seq, None)
        wait = error.retry_after.total_seconds() if error.retry_after else backoff(read.attempt)
        if error.reason not in REQUEST_AGAIN or now + wait >= read.deadline:
            self._drop(read)
            read.promise.reject(error)
            return
        read.seq = 0
        read.last = error
        read.attempt += 1
        read.not_before = now + wait
        read.gathered = Gathered()
