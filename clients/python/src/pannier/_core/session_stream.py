"""The engine of an open session: the lease, reads and commits on it, over as many streams as it takes.

Every call settles by its deadline. A broken stream is attached again with `resume`, and what was not acknowledged is sent again, in order,
under the same numbers (commits.py). LeaseLost, and FENCED at a re-attach, are final.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from .._gen import session_pb2 as pb
from ..errors import ClosedError, PannierError
from . import faults, records, wire
from .attach import COMMIT_MAX
from .call import backoff
from .commits import CommitQueue, Write
from .promise import Promise
from .reads import GRACE, REQUEST_AGAIN, Read, ReadQueue, try_ms
from .reasons import OPEN_AGAIN, STREAM_AGAIN

#: Commits on their way at once.
IN_FLIGHT = 64
#: What may wait for its turn.
WAITING = 10_000
WAITING_BYTES = 128 * 1024 * 1024
#: Seconds of one try of a commit, of attaching again.
COMMIT_TRY = 10.0
REATTACH = 10.0
#: After Draining, what is on its way is answered first, if it is quick.
DRAIN = 2.0
#: Before the lease's end.
MARGIN = 3.0

State = Literal["new", "attached", "detached", "ended"]


@dataclass(frozen=True)
class SessionLost:
    """The lease is gone, for good. Everything pending has been rejected."""

    error: PannierError


@dataclass(frozen=True)
class ForeignWrite:
    """Somebody else wrote: what was cached may be old."""


@dataclass(frozen=True)
class SessionSuspended:
    """The sidecar has not renewed the lease for so long that another owner may come soon: stop sending."""


@dataclass(frozen=True)
class SessionResumed:
    """The lease is renewed again."""


SessionEvent = SessionLost | ForeignWrite | SessionSuspended | SessionResumed


class SessionEngine:
    """See the top of this file, and duplex.Engine."""

    path = "/pannier.v1.SessionService/Attach"

    def __init__(self, open: pb.Open, open_timeout: float, tell: Callable[[SessionEvent], None]) -> None:
        self._open = open
        self._open_timeout = open_timeout
        self._open_by: float | None = None
        self._wait = wire.to_timedelta(open.wait_timeout).total_seconds() if open.on_held == pb.ON_HELD_WAIT else 0.0
        self._tell = tell
        self.effects: deque[Callable[[], None]] = deque()
        self.broken: PannierError | None = None
        self.state: State = "new"
        self.ending: PannierError | None = None
        self.opened = pb.Opened()
        self.fence = self.incarnation = 0
        #: The highest revision acknowledged.
        self.revision = 0
        self.suspended = False
        #: Close was answered, or the stream ended.
        self.released = False
        self._suspend_at = math.inf
        self._queue = CommitQueue()
        self._waiting_bytes = 0
        self._sent: dict[int, Write] = {}
        self._reads = ReadQueue()
        self._out: deque[bytes] = deque()
        self._seq = 0
        self._opened_by = math.inf
        self._drain_at: float | None = None
        self._writes_not_before = 0.0
        self._failures = 0
        self._out_of_order_last: int | None = None
        self._close_seq: int | None = None

    @property
    def interval(self) -> float:
        """Deadlines are seen to ten times a second, while there are any."""
        return 1.0 if self.idle and self.state == "attached" and self._drain_at is None else 0.1

    # ---- What the session asks.

    def promise(self, future: object) -> Promise:
        """For one of these calls."""
        return Promise(future, lambda: self.effects)  # type: ignore[arg-type] # a future of either kind

    def read(self, op: pb.Get | pb.List, promise: Promise, timeout: float, now: float) -> None:
        """Get or List."""
        if self.ending is not None:
            promise.reject(self.ending)
        else:
            self._reads.all[Read(op, promise, timeout, now + timeout)] = None

    def write(self, item: Write) -> None:
        """Commit or Clear, in call order."""
        if self.ending is not None:
            item.promise.reject(self.ending)
        elif len(self._queue.items) >= WAITING or self._waiting_bytes + item.size > WAITING_BYTES + COMMIT_MAX:
            message = "too many commits of this session are waiting"
            item.promise.reject(faults.make("RESOURCE_EXHAUSTED", "TOO_MANY_IN_FLIGHT", message))
        else:
            self._waiting_bytes += item.size
            self._queue.items.append(item)

    def give_up(self, item: Write) -> None:
        """Its caller does not wait any more. What was sent may still be applied."""
        if item in self._queue.items and not item.abandoned:
            self._queue.abandon(item)
            self._waiting_bytes -= item.size

    @property
    def idle(self) -> bool:
        """Nothing is pending."""
        return self.state == "ended" or not (self._queue.items or self._reads.all)

    def close(self) -> None:
        """Releases the lease, if there is a stream to say so."""
        if self.state == "attached" and self._close_seq is None:
            self._close_seq = self._next_seq()
            self._out.append(pb.AttachRequest(seq=self._close_seq, close=pb.Close()).SerializeToString())
        elif self._close_seq is None:
            self.released = True

    def end(self, error: PannierError) -> None:
        """Everything pending, and every later call, gets this."""
        if self.state == "ended":
            return
        self.state = "ended"
        self.ending = self.broken = error
        self.released = True
        self._sent.clear()
        self._out.clear()
        self._reads.end(error)
        items, self._queue.items = self._queue.items, []
        for item in items:
            if not item.abandoned:
                item.promise.reject(faults.unclear(error) if item.sent or item.uncertain else error)

    # ---- The stream.

    def opening(self, now: float) -> None:
        self.broken = self.ending
        self._seq = 1
        self._drain_at = None
        self._out.clear()
        if self._open_by is None:
            self._open_by = now + self._open_timeout
        left = max(0.001, self._open_by - now) if self.state == "new" else REATTACH
        request = pb.AttachRequest(seq=1, timeout_ms=math.ceil(left * 1000))
        request.open.CopyFrom(self._open)
        if self.state != "new":
            request.open.on_held = pb.ON_HELD_FAIL
            request.open.ClearField("wait_timeout")
            request.open.must_exist = False
            request.open.min_revision = self.revision
            request.open.resume.CopyFrom(pb.Resume(fence=self.fence, revision=self.revision))
        self._opened_by = now + left + GRACE + (self._wait if self.state == "new" else 0.0)
        self._out.append(request.SerializeToString())

    def next_message(self, now: float) -> bytes | None:
        if not self._out:
            self._pump(now)
        return self._out.popleft() if self._out else None

    def sent(self, now: float) -> None:
        pass

    def on_message(self, data: bytes, now: float) -> None:
        told = pb.AttachResponse.FromString(data)
        event = told.WhichOneof("event")
        if event == "opened":
            self._on_opened(told.opened, now)
        elif told.seq == 0:
            self._on_push(told, event, now)
        elif told.seq == 1 and event == "error":
            self.broken = faults.from_status(told.error)
        elif told.seq in self._sent:
            self._on_write_answer(self._sent.pop(told.seq), told, event, now)
        elif not self._reads.answer(told, now) and told.seq == self._close_seq:
            # Closed, or refused: somebody else has the session.
            self.released = True

    def on_end(self, error: PannierError | None, now: float) -> float | None:
        self._out.clear()
        known = error or faults.draining()
        if self.state == "ended" or self._close_seq is not None or isinstance(known, ClosedError):
            self.end(known if self._close_seq is None else faults.closed("the session"))
            return None
        wait = known.retry_after.total_seconds() if known.retry_after else backoff(self._failures, 0.05, 1.0)
        if self.state == "new":
            if known.reason in STREAM_AGAIN and now + wait < (self._open_by or now) + self._wait:
                self._failures += 1
                return wait
            self.end(known)
            return None
        if known.reason == "SESSION_HELD":
            known = faults.fenced("another owner took the session")
        if known.reason not in OPEN_AGAIN and known.reason != "OUT_OF_ORDER":
            self._lose(known)
            return None
        first = self.state == "attached"
        self.state = "detached"
        self._queue.broken()
        self._sent.clear()
        self._reads.broken()
        self._failures += 1
        return 0.0 if first and self._failures == 1 else wait

    def tick(self, now: float) -> None:
        if self.state == "ended":
            return
        if now >= self._suspend_at and not self.suspended:
            self.suspended = True
            self._event(SessionSuspended())
        if self.state != "attached" and now >= self._opened_by:
            self._opened_by = math.inf
            self.broken = faults.deadline_exceeded("opening the session", self._open_timeout)
        if self._drain_at is not None and now >= self._drain_at:
            self.broken = self.broken or faults.draining()
        dead = self._reads.expire(now)
        for item in list(self._queue.items):
            if item.abandoned:
                continue
            if now >= item.deadline:
                unknown = item.sent or item.uncertain
                dead = not self._queue.abandon(item) or dead
                self._waiting_bytes -= item.size
                item.promise.reject(faults.deadline_exceeded("a commit", item.timeout, unknown=unknown, last=item.last))
            elif item.sent and now >= item.answer_by:
                dead = True
        if dead and self.state == "attached":
            self.broken = self.broken or faults.deadline_exceeded("an answer", COMMIT_TRY)

    # ---- Saying.

    def _pump(self, now: float) -> None:
        if self.state != "attached" or self.broken is not None:
            return
        if self._drain_at is not None or self._seq > 0xFFFF_0000:
            if not self._sent and not self._reads.in_flight:
                self.broken = faults.draining()
            return
        if self._queue.held and not self._queue.in_flight and now >= self._writes_not_before:
            last, self._out_of_order_last = self._out_of_order_last, None
            match self._queue.settle(last):
                case "reattach":
                    self.broken = faults.make("ABORTED", "OUT_OF_ORDER", "a new fence is needed to order the commits")
                    return
                case "stale":
                    self._lose(_stale())
                    return
        item = self._queue.take(IN_FLIGHT)
        if item is not None:
            item.seq = self._next_seq()
            ms = try_ms(item.deadline, COMMIT_TRY, now)
            item.answer_by = now + ms / 1000 + GRACE
            self._sent[item.seq] = item
            self._out.extend(item.encode(item.seq, ms, item.op_seq))
        self._out.extend(self._reads.take(now, self._next_seq))

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq

    # ---- Hearing.

    def _on_opened(self, opened: pb.Opened, now: float) -> None:
        expected = self.revision + opened.last_op_seq - self._queue.known
        if not self._queue.reopened(opened.last_op_seq) or opened.revision < self.revision:
            self._lose(_stale())
            return
        first = self.state == "new"
        if first:
            self.opened = opened
        self.state = "attached"
        self._opened_by = math.inf
        self._failures = 0
        self._writes_not_before = 0.0
        self.fence, self.revision, self.incarnation = opened.fence, opened.revision, opened.incarnation
        self._renewed(wire.to_timedelta(opened.lease_ttl).total_seconds(), now)
        if not first and opened.revision != expected:
            self._event(ForeignWrite())

    def _on_push(self, told: pb.AttachResponse, event: str | None, now: float) -> None:
        match event:
            case "renewed":
                self._renewed(wire.to_timedelta(told.renewed.lease_left).total_seconds(), now)
            case "changed":
                self._event(ForeignWrite())
            case "lease_lost":
                deleted = told.lease_lost.reason == pb.LeaseLost.REASON_DELETED
                self._lose(faults.fenced("the session was deleted" if deleted else "another owner took the session"))
            case "draining":
                self._drain_at = now + DRAIN
            case _:
                pass

    def _on_write_answer(self, item: Write, told: pb.AttachResponse, event: str | None, now: float) -> None:
        if event == "committed":
            answer = told.committed
            if not answer.replayed and answer.base_revision != self.revision:
                self._event(ForeignWrite())
            self.revision = max(self.revision, answer.revision)
            self._written(item)
            item.promise.resolve(records.committed(answer))
        elif event == "cleared":
            cleared = told.cleared
            self.fence, self.incarnation, self.revision = cleared.fence, cleared.incarnation, cleared.revision
            self._written(item)
            item.promise.resolve(records.Cleared(cleared.fence, cleared.incarnation, cleared.revision))
        elif event == "error":
            self._on_write_error(item, faults.from_status(told.error), now)

    def _written(self, item: Write) -> None:
        self._failures = 0
        self._queue.committed(item)
        if not item.abandoned:
            self._waiting_bytes -= item.size

    def _on_write_error(self, item: Write, error: PannierError, now: float) -> None:
        if error.reason == "OUT_OF_ORDER":
            self._queue.again(item)
            last = error.metadata.get("last", "")
            self._out_of_order_last = int(last) if last.isdecimal() else self._out_of_order_last
            return
        # Of what the sidecar did not expect, nobody knows how far it came.
        unknown = error.outcome_unknown or error.reason == "INTERNAL"
        if error.reason not in ("FENCED", "STALE_STATE") and (unknown or error.reason in REQUEST_AGAIN):
            item.last = error
            if unknown:
                self._queue.unknown(item)
            else:
                self._queue.again(item)
            wait = error.retry_after.total_seconds() if error.retry_after else backoff(self._failures)
            self._writes_not_before = now + wait
            self._failures += 1
            return
        self._queue.refused(item)
        if not item.abandoned:
            self._waiting_bytes -= item.size
            item.promise.reject(error)
        if error.reason in ("FENCED", "STALE_STATE"):
            self._lose(error)

    # ---- The rest.

    def _renewed(self, left: float, now: float) -> None:
        ttl = wire.to_timedelta(self._open.lease_ttl).total_seconds()
        left = min(left or ttl, ttl)
        self._suspend_at = now + max(left - MARGIN, left / 2)
        if self.suspended:
            self.suspended = False
            self._event(SessionResumed())

    def _lose(self, error: PannierError) -> None:
        if self.state != "ended":
            self.end(error)
            self._event(SessionLost(error))

    def _event(self, event: SessionEvent) -> None:
        self.effects.append(partial(self._tell, event))


def _stale() -> PannierError:
    return faults.make("FAILED_PRECONDITION", "STALE_STATE", "the sidecar is behind what it acknowledged")
