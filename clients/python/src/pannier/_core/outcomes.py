"""What came of calls on jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from .._gen import schedule_pb2 as pb
from . import values, wire

#: `scheduled`: due later, or waiting for its next attempt or for a cap. `ready`: the next worker gets it. `waiting`: behind others
#: of its group. `leased`: a worker has it. `done`, `dead` (given up), `cancelled`: it has ended.
JobState = Literal["scheduled", "ready", "waiting", "leased", "done", "dead", "cancelled"]
STATES: tuple[JobState, ...] = ("scheduled", "ready", "waiting", "leased", "done", "dead", "cancelled")

#: `attempts`: all failed, or their workers died. `failed`: its worker said so (FailJob). `expired`: not started by its deadline.
#: `cap_never`: it asks for more than its cap ever gives. `cap_config`: there is no such cap policy.
DeadReason = Literal["attempts", "failed", "expired", "cap_never", "cap_config"]
_REASONS: tuple[DeadReason, ...] = get_args(DeadReason)

_Enqueued = Literal["created", "existing", "replaced", "rescheduled", "already_finished"]
_ENQUEUED: tuple[_Enqueued, ...] = get_args(_Enqueued)


@dataclass(frozen=True)
class EnqueueResult:
    """What became of one job; never silent.

    `created`: it is there now. `existing`: one of this id is there and stays as it is. `replaced`, `rescheduled`: what `on_conflict`
    asked for was done. `already_finished`: one of this id has ended, and its unique window has not.
    """

    outcome: _Enqueued
    id: str = field(repr=False)
    #: The job's number in its queue: rising, never used twice.
    number: int
    #: As it is stored now.
    state: JobState
    due_at: datetime | None
    #: Of `already_finished`.
    finished_at: datetime | None
    #: An earlier try of this very call had done it.
    replayed: bool


@dataclass(frozen=True)
class RescheduleResult:
    """What became of another due time. `leased`: a worker has it, nothing was changed."""

    outcome: Literal["rescheduled", "leased", "already_finished", "not_found"]
    state: JobState | None = None
    due_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True)
class CancelResult:
    """What became of a cancellation.

    `cancelled`: it will not run (also: was cancelled before). `cancel_requested`: a worker has it, and is told.
    `already_finished`: done or dead.
    """

    outcome: Literal["cancelled", "cancel_requested", "already_finished", "not_found"]


@dataclass(frozen=True)
class PurgeResult:
    """How many jobs were removed, and of how many leased ones the workers were asked to cancel."""

    removed: int
    cancel_requested: int


@dataclass(frozen=True)
class JobInfo:
    """A job as it is stored."""

    queue: str
    id: str = field(repr=False)
    number: int
    state: JobState
    priority: int
    group: str | None = field(repr=False)
    #: Counted so far, a running one included.
    attempts: int
    max_attempts: int
    #: `scheduled`: when the next attempt begins; else when it was due.
    due_at: datetime | None
    created_at: datetime | None
    #: Of one that is leased.
    lease_until: datetime | None
    #: Of one that has ended.
    finished_at: datetime | None
    deadline: datetime | None
    dead_reason: DeadReason | None
    #: Of the last failed attempt.
    error: str | None = field(repr=False)
    progress: Any = field(repr=False)
    cancel_requested: bool
    #: None where there is none, or where it was not asked for.
    payload: Any = field(repr=False)
    #: What the worker gave. The same.
    result: Any = field(repr=False)


def enqueued(answer: pb.Enqueued) -> EnqueueResult:
    """From the wire."""
    return EnqueueResult(
        outcome=wire.word(_ENQUEUED, answer.outcome),
        id=answer.id,
        number=answer.number,
        state=wire.word(STATES, answer.state),
        due_at=wire.instant(answer, "due_at"),
        finished_at=wire.instant(answer, "finished_at"),
        replayed=answer.replayed,
    )


def rescheduled(answer: pb.Enqueued) -> RescheduleResult:
    """From the wire."""
    one = enqueued(answer)
    if one.outcome == "existing":
        return RescheduleResult("leased", one.state)
    if one.outcome == "already_finished":
        return RescheduleResult("already_finished", one.state, finished_at=one.finished_at)
    return RescheduleResult("rescheduled", one.state, one.due_at)


def job_info(job: pb.Job) -> JobInfo:
    """From the wire."""
    return JobInfo(
        queue=job.queue,
        id=job.id,
        number=job.number,
        state=wire.word(STATES, job.state),
        priority=job.priority,
        group=job.group or None,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        due_at=wire.instant(job, "due_at"),
        created_at=wire.instant(job, "created_at"),
        lease_until=wire.instant(job, "lease_until"),
        finished_at=wire.instant(job, "finished_at"),
        deadline=wire.instant(job, "deadline"),
        dead_reason=wire.word(_REASONS, job.dead_reason) if job.dead_reason else None,
        error=job.error or None,
        progress=values.decode_present(job.progress),
        cancel_requested=job.cancel_requested,
        payload=values.decode_present(job.payload),
        result=values.decode_present(job.result),
    )
