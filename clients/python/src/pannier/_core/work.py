"""A job in the hands of a handler, how it can end, and what a worker tells. Pure."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, TypeVar

from .._gen import schedule_pb2 as pb
from ..errors import PannierError
from . import limits, values, wire
from .values import Value

P = TypeVar("P")

PROGRESS_MAX = 1024
RESULT_MAX = 64 * 1024
ERROR_MAX = 4096


class FailJob(Exception):
    """Raised by a handler: give the job up at once, whatever attempts are left. It is dead then."""


class RetryJob(Exception):
    """Raised by a handler: the attempt failed; the next one begins after `after` (0..400 days) rather than after the wait of the retry
    policy."""

    def __init__(self, after: timedelta, message: str = "to be tried again") -> None:
        super().__init__(message)
        self.after = limits.span("after", after, least=limits.ZERO) or limits.ZERO


class ReleaseJob(Exception):
    """Raised by a handler: not now. The job goes back, at once or for so long (0..400 days), as if it had not been started: it counts
    no attempt."""

    def __init__(self, after: timedelta = limits.ZERO, message: str = "not now") -> None:
        super().__init__(message)
        self.after = limits.span("after", after, least=limits.ZERO) or limits.ZERO


class JobCancelledError(Exception):
    """Why a job was aborted: somebody cancelled it. If its handler raises then, the job ends as cancelled."""


class BaseJob(Generic[P]):
    """A job that this worker has: nobody else does, until it ends or its lease is lost."""

    def __init__(self, lease: Lease, progress: Callable[[bytes], None]) -> None:
        told = lease.told
        self.queue: str = told.queue
        self.id: str = told.id
        #: In its queue: rising, never used twice.
        self.number: int = told.number
        #: Of this attempt: rises with each. For stores that can refuse an older one.
        self.fence: int = told.fence
        #: From 1.
        self.attempt: int = told.attempt
        self.max_attempts: int = told.max_attempts
        #: What it was enqueued with.
        self.payload: P = values.decode_present(told.payload)
        self.group: str | None = told.group or None
        self.priority: int = told.priority
        #: When it was due, when this attempt began, when it was accepted: by the server's clock.
        self.due_at: datetime = wire.to_datetime(told.due_at)
        self.leased_at: datetime = wire.to_datetime(told.leased_at)
        self.created_at: datetime = wire.to_datetime(told.created_at)
        #: The last progress of an earlier attempt.
        self.last_progress: Any = values.decode_present(told.progress)
        self._progress = progress

    def progress(self, value: Value) -> None:
        """Says how far it is: a text, bytes or JSON, ≤ 1 KiB; the newest replaces the one before.

        It goes with what is sent next, and is kept with the job: `schedule.get` and the next attempt see it. One that is said in the moment
        the handler ends may not be kept. Raises TooLargeError, BadRequestError.
        """
        self._progress(values.encode_present("progress", value, PROGRESS_MAX))

    def __repr__(self) -> str:
        return f"Job(queue={self.queue!r}, number={self.number}, attempt={self.attempt})"


@dataclass(eq=False)
class Lease:
    """From a job's arrival to the sidecar's word that it has ended."""

    told: pb.WorkJob
    arrived: float
    #: Until then the sidecar surely counts it as ours.
    held_until: float
    #: The handler's job; made when it starts.
    job: BaseJob[Any] | None = None
    #: It is not ours any more.
    lost: bool = False
    cancelled: bool = False
    #: Why its handler was told to stop.
    aborted: Exception | None = None
    #: Not sent yet.
    progress: bytes | None = None
    settle: pb.WorkSettle | None = None
    #: What the handler gave or raised.
    ending: Any = None
    refusals: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """A fence is never used twice in a queue."""
        return self.told.queue, self.told.fence

    @property
    def ref(self) -> pb.LeaseRef:
        """On the wire."""
        return pb.LeaseRef(queue=self.told.queue, number=self.told.number, fence=self.told.fence)


WorkerStatus = Literal["connecting", "working", "draining", "closed"]


@dataclass(frozen=True)
class JobCompleted:
    """A job is done, and the sidecar has it."""

    job: BaseJob[Any]
    result: Any = field(repr=False)


@dataclass(frozen=True)
class JobFailed:
    """An attempt failed, and the sidecar has it. `retried`: another one follows."""

    job: BaseJob[Any]
    error: BaseException
    retried: bool


@dataclass(frozen=True)
class LeaseLost:
    """A job is not ours any more: its lease ended, or it was removed. What its handler gives is not kept."""

    job: BaseJob[Any]


@dataclass(frozen=True)
class WorkerProblem:
    """Something went wrong that the worker goes on from: a broken stream, a result that cannot be kept."""

    error: PannierError


@dataclass(frozen=True)
class StatusChanged:
    """`working`: connected. `connecting`: not now, trying. `draining`: `close` was called, what runs may end."""

    status: WorkerStatus


WorkerEvent = JobCompleted | JobFailed | LeaseLost | WorkerProblem | StatusChanged


def done(lease: Lease, result: bytes) -> pb.WorkSettle:
    """How a handler's return settles its job."""
    return pb.WorkSettle(lease=lease.ref, result=result)


def failed(lease: Lease, error: BaseException, released: bool) -> pb.WorkSettle:
    """How an exception settles it. `released`: because the worker is closing."""
    settle = pb.WorkSettle(lease=lease.ref, error=error_text(error))
    if isinstance(error, ReleaseJob):
        settle.nack = pb.NACK_VERDICT_RELEASE
        settle.retry_after.CopyFrom(wire.to_duration(error.after))
    elif isinstance(error, FailJob):
        settle.nack = pb.NACK_VERDICT_FAIL
    elif isinstance(error, RetryJob):
        settle.nack = pb.NACK_VERDICT_RETRY
        settle.retry_after.CopyFrom(wire.to_duration(error.after))
    else:
        settle.nack = pb.NACK_VERDICT_RELEASE if released else pb.NACK_VERDICT_RETRY
    return settle


def error_text(error: BaseException) -> str:
    """What is kept of an exception: what it says, and as much of the end of its traceback as there is room for."""
    try:
        said = "".join(traceback.format_exception_only(type(error), error))
        whole = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        return "raised: something that has no text"
    data = whole.encode(errors="replace")
    if len(data) > ERROR_MAX:
        head = said.encode(errors="replace")[: ERROR_MAX // 2] + b"...\n"
        data = head + data[len(head) - ERROR_MAX :]
    # Not in the middle of a character.
    return data.decode(errors="ignore")
