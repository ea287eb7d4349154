"""The calls on jobs and queues, and what a watch tells."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeVar, get_args

from google.protobuf.message import Message

from .._gen import schedule_pb2 as pb
from . import jobs, limits, outcomes, queues, wire
from .call import Call, call
from .faults import bad_field, too_large
from .jobs import IngestItem, JobSpec
from .outcomes import CancelResult, EnqueueResult, JobInfo, JobState, PurgeResult, RescheduleResult
from .queues import QueueInfo, QueueSettings

_SERVICE = "ScheduleService"
BATCH_MAX = 1000
INGEST_MAX = 100
IDS_MAX = 500
#: What one message may have.
MESSAGE_MAX = 4 * 1024 * 1024 - 1024
WATCH = f"/pannier.v1.{_SERVICE}/WatchQueue"
_Cancelled = Literal["cancelled", "cancel_requested", "already_finished", "not_found"]
_CANCELLED: tuple[_Cancelled, ...] = get_args(_Cancelled)
_Event = Literal[
    "watching",
    "resync",
    "created",
    "leased",
    "done",
    "dead",
    "retry",
    "lease_lost",
    "released",
    "cancelled",
    "progress",
    "rescheduled",
]
_EVENTS: tuple[_Event, ...] = get_args(_Event)

M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class QueueEvent:
    """Something happened in a queue.

    `watching`: the first one; from here on. `resync`: some may be missing; read again what you need. `retry`: an attempt failed,
    another follows. `lease_lost`: a worker was lost; once for each time.
    """

    event: _Event
    #: The job's number; None where there is none.
    number: int | None
    #: None when the job was gone before it could be read.
    id: str | None = field(repr=False)
    at: datetime | None


def enqueue(namespace: str, queue: str, spec: JobSpec) -> Call[EnqueueResult]:
    """Enqueue."""
    request = pb.EnqueueRequest(
        namespace=namespace, queue=limits.text("queue", queue), request_id=str(uuid.uuid4()), job=jobs.job("job", spec)
    )
    return call(_SERVICE, "Enqueue", request, pb.EnqueueResponse, lambda a: outcomes.enqueued(a.job), writes=True)


def enqueue_batch(namespace: str, queue: str, specs: Sequence[JobSpec]) -> Call[list[EnqueueResult]]:
    """EnqueueBatch."""
    limits.batch("jobs", len(specs), BATCH_MAX)
    request = pb.EnqueueBatchRequest(
        namespace=namespace,
        queue=limits.text("queue", queue),
        request_id=str(uuid.uuid4()),
        jobs=[jobs.job(f"jobs[{n}]", spec) for n, spec in enumerate(specs)],
    )
    _fits("jobs", request)

    def read(answer: pb.EnqueueBatchResponse) -> list[EnqueueResult]:
        return [outcomes.enqueued(one) for one in answer.jobs]

    return call(_SERVICE, "EnqueueBatch", request, pb.EnqueueBatchResponse, read, writes=True)


def ingest(namespace: str, queue: str, items: Sequence[IngestItem]) -> Call[list[EnqueueResult]]:
    """Ingest."""
    limits.batch("items", len(items), INGEST_MAX)
    request = pb.IngestRequest(
        namespace=namespace,
        queue=limits.text("queue", queue),
        items=[
            pb.IngestItem(dedup_key=limits.text(f"items[{n}].dedup_key", item.dedup_key), job=jobs.content(f"items[{n}].job", item))
            for n, item in enumerate(items)
        ],
    )
    _fits("items", request)

    def read(answer: pb.IngestResponse) -> list[EnqueueResult]:
        return [outcomes.enqueued(one) for one in answer.items]

    return call(_SERVICE, "Ingest", request, pb.IngestResponse, read, writes=True)


def get(namespace: str, queue: str, id: str) -> Call[JobInfo]:
    """GetJob."""
    request = _named(pb.GetJobRequest, namespace, queue, id)
    return call(_SERVICE, "GetJob", request, pb.GetJobResponse, lambda a: outcomes.job_info(a.job), writes=False)


def page(namespace: str, queue: str, state: JobState, with_payload: bool, cursor: str) -> Call[tuple[list[JobInfo], int, str]]:
    """A page of ListJobs: jobs, how many cannot be opened, the next cursor."""
    request = pb.ListJobsRequest(
        namespace=namespace,
        queue=limits.text("queue", queue),
        state=pb.JobState.Name(limits.number_of("state", outcomes.STATES, state)),
        cursor=cursor,
        with_payload=with_payload,
    )

    def read(answer: pb.ListJobsResponse) -> tuple[list[JobInfo], int, str]:
        return [outcomes.job_info(job) for job in answer.jobs], answer.corrupt, answer.cursor

    return call(_SERVICE, "ListJobs", request, pb.ListJobsResponse, read, writes=False)


def cancel(namespace: str, queue: str, id: str) -> Call[CancelResult]:
    """CancelJob."""
    request = _named(pb.CancelJobRequest, namespace, queue, id)

    def read(answer: pb.CancelJobResponse) -> CancelResult:
        return CancelResult(wire.word(_CANCELLED, answer.outcome))

    return call(_SERVICE, "CancelJob", request, pb.CancelJobResponse, read, writes=True)


def reschedule(namespace: str, queue: str, id: str, delay: timedelta | None, due_at: datetime | None) -> Call[RescheduleResult]:
    """RescheduleJob."""
    if delay is not None and due_at is not None:
        raise bad_field("delay", "cannot be given with `due_at`")
    request = _named(pb.RescheduleJobRequest, namespace, queue, id)
    moment = limits.moment("due_at", due_at)
    if moment is not None:
        request.due_at.CopyFrom(wire.to_timestamp(moment))
    elif delay is not None:
        request.delay.CopyFrom(wire.to_duration(jobs.delay("delay", delay)))
    return call(_SERVICE, "RescheduleJob", request, pb.RescheduleJobResponse, lambda a: outcomes.rescheduled(a.job), writes=True)


def promote(namespace: str, queue: str, id: str) -> Call[RescheduleResult]:
    """PromoteJob."""
    request = _named(pb.PromoteJobRequest, namespace, queue, id)
    return call(_SERVICE, "PromoteJob", request, pb.PromoteJobResponse, lambda a: outcomes.rescheduled(a.job), writes=True)


def retry_dead(namespace: str, queue: str, ids: Sequence[str] | None, all: bool, since: datetime | None) -> Call[int]:
    """RetryDead."""
    request = pb.RetryDeadRequest(namespace=namespace, queue=limits.text("queue", queue))
    _select(request, ids, all, since)
    return call(_SERVICE, "RetryDead", request, pb.RetryDeadResponse, lambda a: a.retried, writes=True)


def delete_dead(namespace: str, queue: str, ids: Sequence[str] | None, all: bool, since: datetime | None) -> Call[int]:
    """DeleteDead."""
    request = pb.DeleteDeadRequest(namespace=namespace, queue=limits.text("queue", queue))
    _select(request, ids, all, since)
    return call(_SERVICE, "DeleteDead", request, pb.DeleteDeadResponse, lambda a: a.deleted, writes=True)


def configure(namespace: str, queue: str, settings: QueueSettings) -> Call[QueueSettings]:
    """ConfigureQueue."""
    request = pb.ConfigureQueueRequest(namespace=namespace, queue=limits.text("queue", queue), settings=queues.to_wire(settings))
    return call(_SERVICE, "ConfigureQueue", request, pb.ConfigureQueueResponse, lambda a: queues.from_wire(a.settings), writes=True)


def stats(namespace: str, queue: str) -> Call[QueueInfo | None]:
    """GetQueue."""
    request = pb.GetQueueRequest(namespace=namespace, queue=limits.text("queue", queue))

    def read(answer: pb.GetQueueResponse) -> QueueInfo | None:
        return queues.queue_info(answer.queue) if answer.exists else None

    return call(_SERVICE, "GetQueue", request, pb.GetQueueResponse, read, writes=False)


def queue_page(namespace: str, cursor: str) -> Call[tuple[list[QueueInfo], int, str]]:
    """A page of ListQueues: queues, how many cannot be opened, the next cursor."""
    request = pb.ListQueuesRequest(namespace=namespace, cursor=cursor)

    def read(answer: pb.ListQueuesResponse) -> tuple[list[QueueInfo], int, str]:
        return [queues.queue_info(queue) for queue in answer.queues], answer.corrupt, answer.cursor

    return call(_SERVICE, "ListQueues", request, pb.ListQueuesResponse, read, writes=False)


def pause(namespace: str, queue: str, duration: timedelta | None) -> Call[datetime | None]:
    """PauseQueue: until when."""
    request = pb.PauseQueueRequest(namespace=namespace, queue=limits.text("queue", queue))
    value = limits.span("for", duration)
    if value is not None:
        # The field's name is a word of Python's own.
        getattr(request, "for").CopyFrom(wire.to_duration(value))

    def read(answer: pb.PauseQueueResponse) -> datetime | None:
        return wire.instant(answer, "paused_until")

    return call(_SERVICE, "PauseQueue", request, pb.PauseQueueResponse, read, writes=True)


def resume(namespace: str, queue: str) -> Call[bool]:
    """ResumeQueue."""
    request = pb.ResumeQueueRequest(namespace=namespace, queue=limits.text("queue", queue))
    return call(_SERVICE, "ResumeQueue", request, pb.ResumeQueueResponse, lambda a: a.resumed, writes=True)


def purge(namespace: str, queue: str, confirm: str, states: Sequence[JobState]) -> Call[PurgeResult]:
    """PurgeQueue."""
    if confirm != queue:
        raise bad_field("confirm", "must be the queue's name")
    numbers = [limits.number_of(f"states[{n}]", outcomes.STATES, state) for n, state in enumerate(states)]
    request = pb.PurgeQueueRequest(
        namespace=namespace,
        queue=limits.text("queue", queue),
        confirm=confirm,
        states=[pb.JobState.Name(number) for number in numbers],
    )
    return call(
        _SERVICE,
        "PurgeQueue",
        request,
        pb.PurgeQueueResponse,
        lambda a: PurgeResult(a.removed, a.cancel_requested),
        writes=True,
    )


def watch(namespace: str, queue: str) -> bytes:
    """WatchQueueRequest."""
    return pb.WatchQueueRequest(namespace=namespace, queue=limits.text("queue", queue)).SerializeToString()


def event(message: bytes, watched: bool) -> QueueEvent | None:
    """What a watch tells; None for what this client does not know."""
    told = pb.WatchQueueResponse.FromString(message)
    if not 1 <= told.event <= len(_EVENTS):
        return None
    kind = wire.word(_EVENTS, told.event)
    # A stream that was opened again begins after a gap.
    kind = "resync" if kind == "watching" and watched else kind
    return QueueEvent(kind, told.number or None, told.id or None, wire.instant(told, "at"))


def _named(kind: type[M], namespace: str, queue: str, id: str) -> M:
    return kind(namespace=namespace, queue=limits.text("queue", queue), id=limits.text("id", id))


def _fits(name: str, request: Message) -> None:
    if request.ByteSize() > MESSAGE_MAX:
        raise too_large(name, "must be at most 4 MiB in all")


def _select(request: pb.RetryDeadRequest | pb.DeleteDeadRequest, ids: Sequence[str] | None, all: bool, since: datetime | None) -> None:
    if all == (ids is not None):
        raise bad_field("ids", "give either ids or all=True")
    if since is not None and not all:
        raise bad_field("since", "goes with all=True only")
    if ids is not None:
        names = [ids] if isinstance(ids, str) else list(ids)
        if not 1 <= len(names) <= IDS_MAX:
            raise bad_field("ids", f"must be 1..{IDS_MAX}; or give all=True")
        request.ids.extend(limits.text(f"ids[{n}]", name) for n, name in enumerate(names))
    request.all = all
    moment = limits.moment("since", since)
    if moment is not None:
        request.since.CopyFrom(wire.to_timestamp(moment))
