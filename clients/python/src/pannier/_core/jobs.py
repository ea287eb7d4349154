"""A job as an application asks for it, checked as the sidecar checks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from .._gen import schedule_pb2 as pb
from . import limits, values, wire
from .faults import bad_field
from .values import Value

PAYLOAD_MAX = 256 * 1024
OnConflict = Literal["keep", "replace", "reschedule"]
_CONFLICTS: tuple[OnConflict, ...] = ("keep", "replace", "reschedule")
#: From now to the end of 9999, and more: the sidecar judges it.
_FAR = timedelta(days=2_932_896)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How a failed attempt is followed by the next: after min(24 h, base · 2^(attempt - 1)). What is None is the queue's."""

    #: 1..1 000; default 3. An attempt counts when it begins, also when its worker dies; a release, a drain and a cap's deferral
    #: do not.
    max_attempts: int | None = None
    #: 1 ms..24 h; default 60 s.
    base: timedelta | None = None
    #: 0..100, default 0: the wait is drawn from the last so many percent of it, so that jobs which failed together do not come
    #: back together.
    jitter_percent: int | None = None


@dataclass(frozen=True, kw_only=True)
class CapGate:
    """Sends that caps must allow before the job starts: counted at the start of each attempt. Denied, it waits and uses no
    attempt."""

    #: 1..8 names. An unknown one → the job is dead.
    policies: str | Sequence[str]
    #: As in `caps.consume`.
    recipient: str | None = None
    sender: str | None = None
    #: 1..1 000 000, default 1.
    n: int | None = None


@dataclass(frozen=True, kw_only=True)
class JobContent:
    """What every job may have."""

    #: A text, bytes, or anything of JSON; comes to the worker as what it was. ≤ 256 KiB. Encrypted. None: none.
    payload: Value = field(default=None, repr=False)
    #: From now, by the server's clock; negative: at once. To the millisecond. Not with `due_at`.
    delay: timedelta | None = None
    #: When; in the past: at once. Compared with the server's clock, never this machine's.
    due_at: datetime | None = None
    #: 0..8 191; a smaller one goes first.
    priority: int = 0
    #: Jobs of one group run one at a time, in the order in which they were accepted: a chat's messages never overtake each other.
    group: str | None = None
    retry: RetryPolicy | None = None
    #: Not started by then → dead, `expired`. Not with `deadline_in`.
    deadline: datetime | None = None
    #: The same, from when it is accepted.
    deadline_in: timedelta | None = None
    cap: CapGate | None = None
    #: A cancelled or purged job frees its id at once, unless this is True.
    hold_when_cancelled: bool = False


@dataclass(frozen=True, kw_only=True)
class JobSpec(JobContent):
    """A job to be, for `enqueue_batch`."""

    #: Unique in its queue: 1..512 bytes, any characters. None: a new UUID.
    id: str | None = None
    #: How long the id stays taken after max(due, end): 0..400 days, default 7 days; 0 frees it at the end.
    unique_window: timedelta | None = None
    #: When the id is taken. `keep`: the job there stays as it is. `replace`: content and due time become these, its attempts begin
    #: anew; a dead one lives again. `reschedule`: only the due time. One that a worker has stays as it is.
    on_conflict: OnConflict = "keep"


@dataclass(frozen=True, kw_only=True)
class IngestItem(JobContent):
    """One message of a webhook."""

    #: 1..512 bytes: what stays the same when the message comes again. It is the job's id. Statuses of the Cloud API reuse the
    #: message's id: put kind, id and status together.
    dedup_key: str


def job(name: str, spec: JobSpec) -> pb.JobSpec:
    """JobSpec on the wire."""
    made = content(name, spec)
    if spec.id is not None:
        made.id = limits.text(f"{name}.id", spec.id)
    if spec.unique_window is not None:
        window = limits.span(f"{name}.unique_window", spec.unique_window, least=limits.ZERO)
        made.unique_window.CopyFrom(wire.to_duration(window or limits.ZERO))
    conflict = limits.number_of(f"{name}.on_conflict", _CONFLICTS, spec.on_conflict)
    made.on_conflict = conflict  # type: ignore[assignment] # an enum's number
    return made


def content(name: str, spec: JobContent) -> pb.JobSpec:
    """What every job may have, on the wire."""
    if not isinstance(spec, JobContent):
        raise TypeError(f"{name} must be a JobSpec, JobContent or IngestItem, not {type(spec).__name__}")
    made = pb.JobSpec(
        payload=values.encode_present(f"{name}.payload", spec.payload, PAYLOAD_MAX),
        priority=limits.count(f"{name}.priority", spec.priority, 0, 8191),
        group="" if spec.group is None else limits.text(f"{name}.group", spec.group),
        hold_when_cancelled=spec.hold_when_cancelled,
    )
    if spec.delay is not None:
        if spec.due_at is not None:
            raise bad_field(f"{name}.delay", "cannot be given with `due_at`")
        made.delay.CopyFrom(wire.to_duration(delay(f"{name}.delay", spec.delay)))
    due_at = limits.moment(f"{name}.due_at", spec.due_at)
    if due_at is not None:
        made.due_at.CopyFrom(wire.to_timestamp(due_at))
    if spec.retry is not None:
        made.retry.CopyFrom(retry(f"{name}.retry", spec.retry))
    deadline = limits.moment(f"{name}.deadline", spec.deadline)
    if deadline is not None:
        if spec.deadline_in is not None:
            raise bad_field(f"{name}.deadline", "cannot be given with `deadline_in`")
        made.deadline.CopyFrom(wire.to_timestamp(deadline))
    if spec.deadline_in is not None:
        left = limits.span(f"{name}.deadline_in", spec.deadline_in, _FAR, limits.ZERO)
        made.deadline_in.CopyFrom(wire.to_duration(left or limits.ZERO))
    if spec.cap is not None:
        made.cap.CopyFrom(_cap(f"{name}.cap", spec.cap))
    return made


def delay(name: str, value: timedelta) -> timedelta:
    """From now; what is negative is now."""
    if isinstance(value, timedelta) and value < limits.ZERO:
        return limits.ZERO
    return limits.span(name, value, _FAR, limits.ZERO) or limits.ZERO


def retry(name: str, policy: RetryPolicy) -> pb.RetryPolicy:
    """RetryPolicy on the wire."""
    made = pb.RetryPolicy()
    if policy.max_attempts is not None:
        made.max_attempts = limits.count(f"{name}.max_attempts", policy.max_attempts, 1, 1000)
    base = limits.span(f"{name}.base", policy.base, limits.DAY)
    if base is not None:
        made.base.CopyFrom(wire.to_duration(base))
    if policy.jitter_percent is not None:
        # Also 0 is said: the queue's own may be another.
        made.jitter_percent = limits.count(f"{name}.jitter_percent", policy.jitter_percent, 0, 100)
    return made


def _cap(name: str, gate: CapGate) -> pb.CapGate:
    return pb.CapGate(
        policies=limits.names(f"{name}.policies", gate.policies, 8),
        recipient="" if gate.recipient is None else limits.text(f"{name}.recipient", gate.recipient),
        sender="" if gate.sender is None else limits.text(f"{name}.sender", gate.sender),
        n=0 if gate.n is None else limits.count(f"{name}.n", gate.n, 1, 1_000_000),
    )
