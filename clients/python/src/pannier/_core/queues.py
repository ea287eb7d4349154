"""Queues: their settings and what is in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from .._gen import schedule_pb2 as pb
from . import limits, wire
from .faults import bad_field
from .jobs import RetryPolicy, retry

COUNT_MAX = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Limiter:
    """At most `max` starts in any interval of `duration`, over all workers."""

    #: 1..10 000; 0 takes the limiter away.
    max: int
    #: 1 ms..24 h.
    duration: timedelta | None = None


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long jobs stay that have ended; age or count, whichever is reached first."""

    #: Done and cancelled: default 1 h; 0..400 days.
    done_age: timedelta | None = None
    #: Default 1 000; ≤ 10 000 000.
    done_count: int | None = None
    #: Default 14 days; 0..400 days.
    dead_age: timedelta | None = None
    #: Default 5 000; ≤ 10 000 000.
    dead_count: int | None = None


@dataclass(frozen=True, kw_only=True)
class QueueSettings:
    """What can be set of a queue. What is None stays as it is."""

    limiter: Limiter | None = None
    #: Jobs running at once over all workers: 1..100 000; 0: no bound.
    concurrency: int | None = None
    retention: Retention | None = None
    #: For jobs that bring none.
    retry: RetryPolicy | None = None
    #: A job of a group that is due later does not hold up those behind it.
    skip_delayed: bool | None = None


@dataclass(frozen=True)
class QueueCounts:
    """How many jobs are where."""

    scheduled: int
    ready: int
    waiting: int
    leased: int
    #: Cancelled ones among them.
    done: int
    dead: int
    crons: int
    #: Groups with jobs that have not ended.
    groups: int


@dataclass(frozen=True)
class QueueTotals:
    """What a queue has seen since it came into being."""

    created: int
    leased: int
    done: int
    dead: int
    retried: int
    released: int
    leases_lost: int
    cancelled: int


@dataclass(frozen=True)
class QueueInfo:
    """A queue."""

    queue: str = field(repr=False)
    counts: QueueCounts
    totals: QueueTotals
    paused: bool
    #: None: until `resume`, if it is paused.
    paused_until: datetime | None
    #: How long the job that is first in turn has been due.
    lateness: timedelta
    #: When the next scheduled job is due.
    next_due_at: datetime | None
    #: All of them, as they are now.
    settings: QueueSettings


def to_wire(settings: QueueSettings) -> pb.QueueSettings:
    """Settings for the sidecar."""
    made = pb.QueueSettings()
    if settings.limiter is not None:
        limiter = settings.limiter
        made.limiter.max = limits.count("settings.limiter.max", limiter.max, 0, 10_000)
        if limiter.max and limiter.duration is None:
            raise bad_field("settings.limiter.duration", "must be given: 1 ms..24 h")
        duration = limits.span("settings.limiter.duration", limiter.duration, limits.DAY)
        if duration is not None:
            made.limiter.duration.CopyFrom(wire.to_duration(duration))
    if settings.concurrency is not None:
        made.concurrency = limits.count("settings.concurrency", settings.concurrency, 0, 100_000)
    if settings.retention is not None:
        made.retention.CopyFrom(_retention(settings.retention))
    if settings.retry is not None:
        made.retry.CopyFrom(retry("settings.retry", settings.retry))
    if settings.skip_delayed is not None:
        made.skip_delayed = settings.skip_delayed
    return made


def _retention(retention: Retention) -> pb.Retention:
    made = pb.Retention()
    for name in ("done_age", "dead_age"):
        age = limits.span(f"settings.retention.{name}", getattr(retention, name), least=limits.ZERO)
        if age is not None:
            getattr(made, name).CopyFrom(wire.to_duration(age))
    for name in ("done_count", "dead_count"):
        count = getattr(retention, name)
        if count is not None:
            setattr(made, name, limits.count(f"settings.retention.{name}", count, 0, COUNT_MAX))
    return made


def from_wire(settings: pb.QueueSettings) -> QueueSettings:
    """Settings from the sidecar."""
    limiter = retention = policy = None
    if settings.HasField("limiter"):
        limiter = Limiter(max=settings.limiter.max, duration=wire.span(settings.limiter, "duration"))
    if settings.HasField("retention"):
        kept = settings.retention
        retention = Retention(
            done_age=wire.span(kept, "done_age"),
            done_count=kept.done_count if kept.HasField("done_count") else None,
            dead_age=wire.span(kept, "dead_age"),
            dead_count=kept.dead_count if kept.HasField("dead_count") else None,
        )
    if settings.HasField("retry"):
        policy = RetryPolicy(
            max_attempts=settings.retry.max_attempts or None,
            base=wire.span(settings.retry, "base"),
            jitter_percent=settings.retry.jitter_percent if settings.retry.HasField("jitter_percent") else None,
        )
    return QueueSettings(
        limiter=limiter,
        concurrency=settings.concurrency if settings.HasField("concurrency") else None,
        retention=retention,
        retry=policy,
        skip_delayed=settings.skip_delayed if settings.HasField("skip_delayed") else None,
    )


def queue_info(queue: pb.Queue) -> QueueInfo:
    """A queue from the sidecar."""
    counts, totals = queue.counts, queue.totals
    return QueueInfo(
        queue=queue.queue,
        counts=QueueCounts(**{name: getattr(counts, name) for name in QueueCounts.__dataclass_fields__}),
        totals=QueueTotals(**{name: getattr(totals, name) for name in QueueTotals.__dataclass_fields__}),
        paused=queue.paused,
        paused_until=wire.instant(queue, "paused_until"),
        lateness=wire.to_timedelta(queue.lateness),
        next_due_at=wire.instant(queue, "next_due_at"),
        settings=from_wire(queue.settings),
    )
