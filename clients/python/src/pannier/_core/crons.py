"""Recurring jobs. The sidecar fires them: no process of yours has to be up for that."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from .._gen import schedule_pb2 as pb
from . import jobs, limits, values, wire
from .call import Call, call
from .faults import bad_field
from .jobs import JobContent

_SERVICE = "ScheduleService"
Misfire = Literal["fire_once", "skip"]
Overlap = Literal["skip", "allow"]
_MISFIRES: tuple[Misfire, ...] = get_args(Misfire)
_OVERLAPS: tuple[Overlap, ...] = get_args(Overlap)
_Outcome = Literal["created", "updated", "unchanged"]
_OUTCOMES: tuple[_Outcome, ...] = get_args(_Outcome)


@dataclass(frozen=True)
class CronResult:
    """What became of it. `unchanged`: it was there as given."""

    outcome: _Outcome
    #: The next time.
    next_at: datetime | None


@dataclass(frozen=True)
class CronInfo:
    """A recurring job as it is stored."""

    id: str = field(repr=False)
    pattern: str | None
    every: timedelta | None
    time_zone: str | None
    misfire: Misfire
    overlap: Overlap
    payload: Any = field(repr=False)
    group: str | None = field(repr=False)
    priority: int
    next_at: datetime | None
    #: The next ones, as many as were asked for.
    occurrences: tuple[datetime, ...]
    #: The last one that made a job.
    last_at: datetime | None


def upsert(
    namespace: str,
    queue: str,
    id: str,
    pattern: str | None,
    every: timedelta | None,
    time_zone: str | None,
    misfire: Misfire,
    overlap: Overlap,
    template: JobContent,
) -> Call[CronResult]:
    """UpsertCron."""
    if (pattern is None) == (every is None):
        raise bad_field("cron.pattern", "either `pattern` or `every` must be given")
    if every is not None and time_zone is not None:
        raise bad_field("cron.time_zone", "cannot be given with `every`")
    if template.delay is not None or template.due_at is not None:
        raise bad_field("cron.template", "`delay` and `due_at` cannot be given: the cron says when")
    cron = pb.Cron(
        id=limits.text("cron.id", id),
        time_zone=time_zone or "",
        misfire=pb.Misfire.Name(limits.number_of("cron.misfire", _MISFIRES, misfire)),
        overlap=pb.Overlap.Name(limits.number_of("cron.overlap", _OVERLAPS, overlap)),
        template=jobs.content("cron.template", template),
    )
    if pattern is not None:
        cron.pattern = limits.text("cron.pattern", pattern, 256)
    span = limits.span("cron.every", every, least=timedelta(seconds=1))
    if span is not None:
        cron.every.CopyFrom(wire.to_duration(span))
    request = pb.UpsertCronRequest(namespace=namespace, queue=limits.text("queue", queue), cron=cron)

    def read(answer: pb.UpsertCronResponse) -> CronResult:
        return CronResult(wire.word(_OUTCOMES, answer.outcome), wire.instant(answer, "next_at"))

    return call(_SERVICE, "UpsertCron", request, pb.UpsertCronResponse, read, writes=True)


def delete(namespace: str, queue: str, id: str) -> Call[bool]:
    """DeleteCron."""
    request = pb.DeleteCronRequest(namespace=namespace, queue=limits.text("queue", queue), id=limits.text("id", id))
    return call(_SERVICE, "DeleteCron", request, pb.DeleteCronResponse, lambda a: a.deleted, writes=True)


def page(namespace: str, queue: str, occurrences: int, cursor: str) -> Call[tuple[list[CronInfo], int, str]]:
    """A page of ListCrons: crons, how many cannot be opened, the next cursor."""
    request = pb.ListCronsRequest(
        namespace=namespace,
        queue=limits.text("queue", queue),
        cursor=cursor,
        limit=100,
        occurrences=limits.count("occurrences", occurrences, 0, 20),
    )

    def read(answer: pb.ListCronsResponse) -> tuple[list[CronInfo], int, str]:
        return [_info(one) for one in answer.crons], answer.corrupt, answer.cursor

    return call(_SERVICE, "ListCrons", request, pb.ListCronsResponse, read, writes=False)


def _info(info: pb.CronInfo) -> CronInfo:
    cron = info.cron
    return CronInfo(
        id=cron.id,
        pattern=cron.pattern if cron.HasField("pattern") else None,
        every=wire.span(cron, "every"),
        time_zone=cron.time_zone or None,
        misfire="skip" if cron.misfire == pb.MISFIRE_SKIP else "fire_once",
        overlap="allow" if cron.overlap == pb.OVERLAP_ALLOW else "skip",
        payload=values.decode_present(cron.template.payload),
        group=cron.template.group or None,
        priority=cron.template.priority,
        next_at=wire.instant(info, "next_at"),
        occurrences=tuple(map(wire.to_datetime, info.occurrences)),
        last_at=wire.instant(info, "last_at"),
    )
