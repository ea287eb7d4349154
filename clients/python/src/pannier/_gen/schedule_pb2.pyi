import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from pannier._gen import session_pb2 as _session_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_SCHEDULED: _ClassVar[JobState]
    JOB_STATE_READY: _ClassVar[JobState]
    JOB_STATE_WAITING: _ClassVar[JobState]
    JOB_STATE_LEASED: _ClassVar[JobState]
    JOB_STATE_DONE: _ClassVar[JobState]
    JOB_STATE_DEAD: _ClassVar[JobState]
    JOB_STATE_CANCELLED: _ClassVar[JobState]

class DeadReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEAD_REASON_UNSPECIFIED: _ClassVar[DeadReason]
    DEAD_REASON_ATTEMPTS: _ClassVar[DeadReason]
    DEAD_REASON_FAILED: _ClassVar[DeadReason]
    DEAD_REASON_EXPIRED: _ClassVar[DeadReason]
    DEAD_REASON_CAP_NEVER: _ClassVar[DeadReason]
    DEAD_REASON_CAP_CONFIG: _ClassVar[DeadReason]

class OnConflict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_CONFLICT_UNSPECIFIED: _ClassVar[OnConflict]
    ON_CONFLICT_KEEP: _ClassVar[OnConflict]
    ON_CONFLICT_REPLACE: _ClassVar[OnConflict]
    ON_CONFLICT_RESCHEDULE: _ClassVar[OnConflict]

class NackVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NACK_VERDICT_UNSPECIFIED: _ClassVar[NackVerdict]
    NACK_VERDICT_RETRY: _ClassVar[NackVerdict]
    NACK_VERDICT_FAIL: _ClassVar[NackVerdict]
    NACK_VERDICT_RELEASE: _ClassVar[NackVerdict]

class SettleOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SETTLE_OUTCOME_UNSPECIFIED: _ClassVar[SettleOutcome]
    SETTLE_OUTCOME_OK: _ClassVar[SettleOutcome]
    SETTLE_OUTCOME_ALREADY_DONE: _ClassVar[SettleOutcome]
    SETTLE_OUTCOME_LEASE_LOST: _ClassVar[SettleOutcome]
    SETTLE_OUTCOME_NOT_FOUND: _ClassVar[SettleOutcome]

class Misfire(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISFIRE_UNSPECIFIED: _ClassVar[Misfire]
    MISFIRE_FIRE_ONCE: _ClassVar[Misfire]
    MISFIRE_SKIP: _ClassVar[Misfire]

class Overlap(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERLAP_UNSPECIFIED: _ClassVar[Overlap]
    OVERLAP_SKIP: _ClassVar[Overlap]
    OVERLAP_ALLOW: _ClassVar[Overlap]
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_SCHEDULED: JobState
JOB_STATE_READY: JobState
JOB_STATE_WAITING: JobState
JOB_STATE_LEASED: JobState
JOB_STATE_DONE: JobState
JOB_STATE_DEAD: JobState
JOB_STATE_CANCELLED: JobState
DEAD_REASON_UNSPECIFIED: DeadReason
DEAD_REASON_ATTEMPTS: DeadReason
DEAD_REASON_FAILED: DeadReason
DEAD_REASON_EXPIRED: DeadReason
DEAD_REASON_CAP_NEVER: DeadReason
DEAD_REASON_CAP_CONFIG: DeadReason
ON_CONFLICT_UNSPECIFIED: OnConflict
ON_CONFLICT_KEEP: OnConflict
ON_CONFLICT_REPLACE: OnConflict
ON_CONFLICT_RESCHEDULE: OnConflict
NACK_VERDICT_UNSPECIFIED: NackVerdict
NACK_VERDICT_RETRY: NackVerdict
NACK_VERDICT_FAIL: NackVerdict
NACK_VERDICT_RELEASE: NackVerdict
SETTLE_OUTCOME_UNSPECIFIED: SettleOutcome
SETTLE_OUTCOME_OK: SettleOutcome
SETTLE_OUTCOME_ALREADY_DONE: SettleOutcome
SETTLE_OUTCOME_LEASE_LOST: SettleOutcome
SETTLE_OUTCOME_NOT_FOUND: SettleOutcome
MISFIRE_UNSPECIFIED: Misfire
MISFIRE_FIRE_ONCE: Misfire
MISFIRE_SKIP: Misfire
OVERLAP_UNSPECIFIED: Overlap
OVERLAP_SKIP: Overlap
OVERLAP_ALLOW: Overlap

class RetryPolicy(_message.Message):
    __slots__ = ("max_attempts", "base", "jitter_percent")
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    JITTER_PERCENT_FIELD_NUMBER: _ClassVar[int]
    max_attempts: int
    base: _duration_pb2.Duration
    jitter_percent: int
    def __init__(self, max_attempts: _Optional[int] = ..., base: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., jitter_percent: _Optional[int] = ...) -> None: ...

class CapGate(_message.Message):
    __slots__ = ("policies", "recipient", "sender", "n")
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    policies: _containers.RepeatedScalarFieldContainer[str]
    recipient: str
    sender: str
    n: int
    def __init__(self, policies: _Optional[_Iterable[str]] = ..., recipient: _Optional[str] = ..., sender: _Optional[str] = ..., n: _Optional[int] = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("id", "payload", "delay", "due_at", "priority", "group", "retry", "deadline", "deadline_in", "cap", "unique_window", "on_conflict", "hold_when_cancelled")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_IN_FIELD_NUMBER: _ClassVar[int]
    CAP_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_WINDOW_FIELD_NUMBER: _ClassVar[int]
    ON_CONFLICT_FIELD_NUMBER: _ClassVar[int]
    HOLD_WHEN_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    id: str
    payload: bytes
    delay: _duration_pb2.Duration
    due_at: _timestamp_pb2.Timestamp
    priority: int
    group: str
    retry: RetryPolicy
    deadline: _timestamp_pb2.Timestamp
    deadline_in: _duration_pb2.Duration
    cap: CapGate
    unique_window: _duration_pb2.Duration
    on_conflict: OnConflict
    hold_when_cancelled: bool
    def __init__(self, id: _Optional[str] = ..., payload: _Optional[bytes] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., due_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., priority: _Optional[int] = ..., group: _Optional[str] = ..., retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deadline_in: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., cap: _Optional[_Union[CapGate, _Mapping]] = ..., unique_window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., on_conflict: _Optional[_Union[OnConflict, str]] = ..., hold_when_cancelled: bool = ...) -> None: ...

class EnqueueRequest(_message.Message):
    __slots__ = ("namespace", "queue", "request_id", "job")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    request_id: str
    job: JobSpec
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., request_id: _Optional[str] = ..., job: _Optional[_Union[JobSpec, _Mapping]] = ...) -> None: ...

class Enqueued(_message.Message):
    __slots__ = ("outcome", "id", "number", "state", "due_at", "finished_at", "replayed")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[Enqueued.Outcome]
        OUTCOME_CREATED: _ClassVar[Enqueued.Outcome]
        OUTCOME_EXISTING: _ClassVar[Enqueued.Outcome]
        OUTCOME_REPLACED: _ClassVar[Enqueued.Outcome]
        OUTCOME_RESCHEDULED: _ClassVar[Enqueued.Outcome]
        OUTCOME_ALREADY_FINISHED: _ClassVar[Enqueued.Outcome]
    OUTCOME_UNSPECIFIED: Enqueued.Outcome
    OUTCOME_CREATED: Enqueued.Outcome
    OUTCOME_EXISTING: Enqueued.Outcome
    OUTCOME_REPLACED: Enqueued.Outcome
    OUTCOME_RESCHEDULED: Enqueued.Outcome
    OUTCOME_ALREADY_FINISHED: Enqueued.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    outcome: Enqueued.Outcome
    id: str
    number: int
    state: JobState
    due_at: _timestamp_pb2.Timestamp
    finished_at: _timestamp_pb2.Timestamp
    replayed: bool
    def __init__(self, outcome: _Optional[_Union[Enqueued.Outcome, str]] = ..., id: _Optional[str] = ..., number: _Optional[int] = ..., state: _Optional[_Union[JobState, str]] = ..., due_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., replayed: bool = ...) -> None: ...

class EnqueueResponse(_message.Message):
    __slots__ = ("job", "durability")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    job: Enqueued
    durability: _session_pb2.Durability
    def __init__(self, job: _Optional[_Union[Enqueued, _Mapping]] = ..., durability: _Optional[_Union[_session_pb2.Durability, str]] = ...) -> None: ...

class EnqueueBatchRequest(_message.Message):
    __slots__ = ("namespace", "queue", "request_id", "jobs")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    request_id: str
    jobs: _containers.RepeatedCompositeFieldContainer[JobSpec]
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., request_id: _Optional[str] = ..., jobs: _Optional[_Iterable[_Union[JobSpec, _Mapping]]] = ...) -> None: ...

class EnqueueBatchResponse(_message.Message):
    __slots__ = ("jobs", "durability")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Enqueued]
    durability: _session_pb2.Durability
    def __init__(self, jobs: _Optional[_Iterable[_Union[Enqueued, _Mapping]]] = ..., durability: _Optional[_Union[_session_pb2.Durability, str]] = ...) -> None: ...

class IngestItem(_message.Message):
    __slots__ = ("dedup_key", "job")
    DEDUP_KEY_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    dedup_key: str
    job: JobSpec
    def __init__(self, dedup_key: _Optional[str] = ..., job: _Optional[_Union[JobSpec, _Mapping]] = ...) -> None: ...

class IngestRequest(_message.Message):
    __slots__ = ("namespace", "queue", "items")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    items: _containers.RepeatedCompositeFieldContainer[IngestItem]
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., items: _Optional[_Iterable[_Union[IngestItem, _Mapping]]] = ...) -> None: ...

class IngestResponse(_message.Message):
    __slots__ = ("items", "durability")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Enqueued]
    durability: _session_pb2.Durability
    def __init__(self, items: _Optional[_Iterable[_Union[Enqueued, _Mapping]]] = ..., durability: _Optional[_Union[_session_pb2.Durability, str]] = ...) -> None: ...

class WorkRequest(_message.Message):
    __slots__ = ("hello", "settles", "received", "credit", "heartbeat", "progress", "draining")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    SETTLES_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    hello: WorkHello
    settles: _containers.RepeatedCompositeFieldContainer[WorkSettle]
    received: int
    credit: int
    heartbeat: bool
    progress: _containers.RepeatedCompositeFieldContainer[WorkProgress]
    draining: bool
    def __init__(self, hello: _Optional[_Union[WorkHello, _Mapping]] = ..., settles: _Optional[_Iterable[_Union[WorkSettle, _Mapping]]] = ..., received: _Optional[int] = ..., credit: _Optional[int] = ..., heartbeat: bool = ..., progress: _Optional[_Iterable[_Union[WorkProgress, _Mapping]]] = ..., draining: bool = ...) -> None: ...

class WorkHello(_message.Message):
    __slots__ = ("namespace", "worker", "queues", "lease", "max_in_flight", "held")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    worker: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    lease: _duration_pb2.Duration
    max_in_flight: int
    held: _containers.RepeatedCompositeFieldContainer[LeaseRef]
    def __init__(self, namespace: _Optional[str] = ..., worker: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_in_flight: _Optional[int] = ..., held: _Optional[_Iterable[_Union[LeaseRef, _Mapping]]] = ...) -> None: ...

class LeaseRef(_message.Message):
    __slots__ = ("queue", "number", "fence")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    number: int
    fence: int
    def __init__(self, queue: _Optional[str] = ..., number: _Optional[int] = ..., fence: _Optional[int] = ...) -> None: ...

class WorkSettle(_message.Message):
    __slots__ = ("lease", "nack", "result", "error", "retry_after")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseRef
    nack: NackVerdict
    result: bytes
    error: str
    retry_after: _duration_pb2.Duration
    def __init__(self, lease: _Optional[_Union[LeaseRef, _Mapping]] = ..., nack: _Optional[_Union[NackVerdict, str]] = ..., result: _Optional[bytes] = ..., error: _Optional[str] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WorkProgress(_message.Message):
    __slots__ = ("lease", "progress")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseRef
    progress: bytes
    def __init__(self, lease: _Optional[_Union[LeaseRef, _Mapping]] = ..., progress: _Optional[bytes] = ...) -> None: ...

class WorkResponse(_message.Message):
    __slots__ = ("welcome", "jobs", "settled", "lease_lost", "cancel_requested", "quiet", "draining", "renewed", "errors")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    LEASE_LOST_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    QUIET_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    welcome: WorkWelcome
    jobs: _containers.RepeatedCompositeFieldContainer[WorkJob]
    settled: _containers.RepeatedCompositeFieldContainer[WorkSettled]
    lease_lost: _containers.RepeatedCompositeFieldContainer[LeaseRef]
    cancel_requested: _containers.RepeatedCompositeFieldContainer[LeaseRef]
    quiet: bool
    draining: bool
    renewed: int
    errors: _containers.RepeatedCompositeFieldContainer[WorkError]
    def __init__(self, welcome: _Optional[_Union[WorkWelcome, _Mapping]] = ..., jobs: _Optional[_Iterable[_Union[WorkJob, _Mapping]]] = ..., settled: _Optional[_Iterable[_Union[WorkSettled, _Mapping]]] = ..., lease_lost: _Optional[_Iterable[_Union[LeaseRef, _Mapping]]] = ..., cancel_requested: _Optional[_Iterable[_Union[LeaseRef, _Mapping]]] = ..., quiet: bool = ..., draining: bool = ..., renewed: _Optional[int] = ..., errors: _Optional[_Iterable[_Union[WorkError, _Mapping]]] = ...) -> None: ...

class WorkWelcome(_message.Message):
    __slots__ = ("lease", "max_in_flight", "held")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    lease: _duration_pb2.Duration
    max_in_flight: int
    held: _containers.RepeatedCompositeFieldContainer[LeaseRef]
    def __init__(self, lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_in_flight: _Optional[int] = ..., held: _Optional[_Iterable[_Union[LeaseRef, _Mapping]]] = ...) -> None: ...

class WorkJob(_message.Message):
    __slots__ = ("delivery", "queue", "id", "number", "fence", "attempt", "max_attempts", "payload", "group", "priority", "due_at", "leased_at", "lease_until", "created_at", "progress")
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_FIELD_NUMBER: _ClassVar[int]
    LEASED_AT_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    delivery: int
    queue: str
    id: str
    number: int
    fence: int
    attempt: int
    max_attempts: int
    payload: bytes
    group: str
    priority: int
    due_at: _timestamp_pb2.Timestamp
    leased_at: _timestamp_pb2.Timestamp
    lease_until: _timestamp_pb2.Timestamp
    created_at: _timestamp_pb2.Timestamp
    progress: bytes
    def __init__(self, delivery: _Optional[int] = ..., queue: _Optional[str] = ..., id: _Optional[str] = ..., number: _Optional[int] = ..., fence: _Optional[int] = ..., attempt: _Optional[int] = ..., max_attempts: _Optional[int] = ..., payload: _Optional[bytes] = ..., group: _Optional[str] = ..., priority: _Optional[int] = ..., due_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., leased_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lease_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., progress: _Optional[bytes] = ...) -> None: ...

class WorkSettled(_message.Message):
    __slots__ = ("lease", "outcome")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseRef
    outcome: SettleOutcome
    def __init__(self, lease: _Optional[_Union[LeaseRef, _Mapping]] = ..., outcome: _Optional[_Union[SettleOutcome, str]] = ...) -> None: ...

class WorkError(_message.Message):
    __slots__ = ("lease", "reason", "message")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseRef
    reason: str
    message: str
    def __init__(self, lease: _Optional[_Union[LeaseRef, _Mapping]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class LeaseJobsRequest(_message.Message):
    __slots__ = ("namespace", "queue", "request_id", "max", "lease", "wait")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    request_id: str
    max: int
    lease: _duration_pb2.Duration
    wait: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., request_id: _Optional[str] = ..., max: _Optional[int] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LeaseJobsResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[WorkJob]
    def __init__(self, jobs: _Optional[_Iterable[_Union[WorkJob, _Mapping]]] = ...) -> None: ...

class AckJobsRequest(_message.Message):
    __slots__ = ("namespace", "queue", "acks")
    class Ack(_message.Message):
        __slots__ = ("number", "fence", "result")
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        FENCE_FIELD_NUMBER: _ClassVar[int]
        RESULT_FIELD_NUMBER: _ClassVar[int]
        number: int
        fence: int
        result: bytes
        def __init__(self, number: _Optional[int] = ..., fence: _Optional[int] = ..., result: _Optional[bytes] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    acks: _containers.RepeatedCompositeFieldContainer[AckJobsRequest.Ack]
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., acks: _Optional[_Iterable[_Union[AckJobsRequest.Ack, _Mapping]]] = ...) -> None: ...

class AckJobsResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedScalarFieldContainer[SettleOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[SettleOutcome, str]]] = ...) -> None: ...

class NackJobsRequest(_message.Message):
    __slots__ = ("namespace", "queue", "nacks")
    class Nack(_message.Message):
        __slots__ = ("number", "fence", "verdict", "error", "retry_after")
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        FENCE_FIELD_NUMBER: _ClassVar[int]
        VERDICT_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
        number: int
        fence: int
        verdict: NackVerdict
        error: str
        retry_after: _duration_pb2.Duration
        def __init__(self, number: _Optional[int] = ..., fence: _Optional[int] = ..., verdict: _Optional[_Union[NackVerdict, str]] = ..., error: _Optional[str] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NACKS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    nacks: _containers.RepeatedCompositeFieldContainer[NackJobsRequest.Nack]
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., nacks: _Optional[_Iterable[_Union[NackJobsRequest.Nack, _Mapping]]] = ...) -> None: ...

class NackJobsResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedScalarFieldContainer[SettleOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[SettleOutcome, str]]] = ...) -> None: ...

class ExtendJobsRequest(_message.Message):
    __slots__ = ("namespace", "queue", "leases", "lease")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    leases: _containers.RepeatedCompositeFieldContainer[LeaseRef]
    lease: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., leases: _Optional[_Iterable[_Union[LeaseRef, _Mapping]]] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ExtendJobsResponse(_message.Message):
    __slots__ = ("outcomes",)
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[ExtendJobsResponse.Outcome]
        OUTCOME_EXTENDED: _ClassVar[ExtendJobsResponse.Outcome]
        OUTCOME_LEASE_LOST: _ClassVar[ExtendJobsResponse.Outcome]
        OUTCOME_CANCEL_REQUESTED: _ClassVar[ExtendJobsResponse.Outcome]
    OUTCOME_UNSPECIFIED: ExtendJobsResponse.Outcome
    OUTCOME_EXTENDED: ExtendJobsResponse.Outcome
    OUTCOME_LEASE_LOST: ExtendJobsResponse.Outcome
    OUTCOME_CANCEL_REQUESTED: ExtendJobsResponse.Outcome
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedScalarFieldContainer[ExtendJobsResponse.Outcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[ExtendJobsResponse.Outcome, str]]] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("queue", "id", "number", "state", "priority", "group", "attempts", "max_attempts", "due_at", "created_at", "lease_until", "finished_at", "deadline", "dead_reason", "error", "progress", "cancel_requested", "payload", "result", "cap", "fence")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    DEAD_REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    CAP_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    id: str
    number: int
    state: JobState
    priority: int
    group: str
    attempts: int
    max_attempts: int
    due_at: _timestamp_pb2.Timestamp
    created_at: _timestamp_pb2.Timestamp
    lease_until: _timestamp_pb2.Timestamp
    finished_at: _timestamp_pb2.Timestamp
    deadline: _timestamp_pb2.Timestamp
    dead_reason: DeadReason
    error: str
    progress: bytes
    cancel_requested: bool
    payload: bytes
    result: bytes
    cap: CapGate
    fence: int
    def __init__(self, queue: _Optional[str] = ..., id: _Optional[str] = ..., number: _Optional[int] = ..., state: _Optional[_Union[JobState, str]] = ..., priority: _Optional[int] = ..., group: _Optional[str] = ..., attempts: _Optional[int] = ..., max_attempts: _Optional[int] = ..., due_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lease_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., dead_reason: _Optional[_Union[DeadReason, str]] = ..., error: _Optional[str] = ..., progress: _Optional[bytes] = ..., cancel_requested: bool = ..., payload: _Optional[bytes] = ..., result: _Optional[bytes] = ..., cap: _Optional[_Union[CapGate, _Mapping]] = ..., fence: _Optional[int] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("namespace", "queue", "id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    id: str
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("namespace", "queue", "state", "cursor", "limit", "with_payload")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WITH_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    state: JobState
    cursor: str
    limit: int
    with_payload: bool
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., with_payload: bool = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "cursor", "corrupt")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    cursor: str
    corrupt: int
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., cursor: _Optional[str] = ..., corrupt: _Optional[int] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("namespace", "queue", "id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    id: str
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class CancelJobResponse(_message.Message):
    __slots__ = ("outcome",)
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[CancelJobResponse.Outcome]
        OUTCOME_CANCELLED: _ClassVar[CancelJobResponse.Outcome]
        OUTCOME_CANCEL_REQUESTED: _ClassVar[CancelJobResponse.Outcome]
        OUTCOME_ALREADY_FINISHED: _ClassVar[CancelJobResponse.Outcome]
        OUTCOME_NOT_FOUND: _ClassVar[CancelJobResponse.Outcome]
    OUTCOME_UNSPECIFIED: CancelJobResponse.Outcome
    OUTCOME_CANCELLED: CancelJobResponse.Outcome
    OUTCOME_CANCEL_REQUESTED: CancelJobResponse.Outcome
    OUTCOME_ALREADY_FINISHED: CancelJobResponse.Outcome
    OUTCOME_NOT_FOUND: CancelJobResponse.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    outcome: CancelJobResponse.Outcome
    def __init__(self, outcome: _Optional[_Union[CancelJobResponse.Outcome, str]] = ...) -> None: ...

class RescheduleJobRequest(_message.Message):
    __slots__ = ("namespace", "queue", "id", "delay", "due_at")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    id: str
    delay: _duration_pb2.Duration
    due_at: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., id: _Optional[str] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., due_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RescheduleJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Enqueued
    def __init__(self, job: _Optional[_Union[Enqueued, _Mapping]] = ...) -> None: ...

class PromoteJobRequest(_message.Message):
    __slots__ = ("namespace", "queue", "id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    id: str
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class PromoteJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Enqueued
    def __init__(self, job: _Optional[_Union[Enqueued, _Mapping]] = ...) -> None: ...

class RetryDeadRequest(_message.Message):
    __slots__ = ("namespace", "queue", "ids", "all", "since")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    all: bool
    since: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ..., all: bool = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RetryDeadResponse(_message.Message):
    __slots__ = ("retried",)
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    retried: int
    def __init__(self, retried: _Optional[int] = ...) -> None: ...

class DeleteDeadRequest(_message.Message):
    __slots__ = ("namespace", "queue", "ids", "all", "since")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    all: bool
    since: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ..., all: bool = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DeleteDeadResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: int
    def __init__(self, deleted: _Optional[int] = ...) -> None: ...

class Limiter(_message.Message):
    __slots__ = ("max", "duration")
    MAX_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    max: int
    duration: _duration_pb2.Duration
    def __init__(self, max: _Optional[int] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Retention(_message.Message):
    __slots__ = ("done_age", "done_count", "dead_age", "dead_count")
    DONE_AGE_FIELD_NUMBER: _ClassVar[int]
    DONE_COUNT_FIELD_NUMBER: _ClassVar[int]
    DEAD_AGE_FIELD_NUMBER: _ClassVar[int]
    DEAD_COUNT_FIELD_NUMBER: _ClassVar[int]
    done_age: _duration_pb2.Duration
    done_count: int
    dead_age: _duration_pb2.Duration
    dead_count: int
    def __init__(self, done_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., done_count: _Optional[int] = ..., dead_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., dead_count: _Optional[int] = ...) -> None: ...

class QueueSettings(_message.Message):
    __slots__ = ("limiter", "concurrency", "retention", "retry", "skip_delayed")
    LIMITER_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    SKIP_DELAYED_FIELD_NUMBER: _ClassVar[int]
    limiter: Limiter
    concurrency: int
    retention: Retention
    retry: RetryPolicy
    skip_delayed: bool
    def __init__(self, limiter: _Optional[_Union[Limiter, _Mapping]] = ..., concurrency: _Optional[int] = ..., retention: _Optional[_Union[Retention, _Mapping]] = ..., retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., skip_delayed: bool = ...) -> None: ...

class ConfigureQueueRequest(_message.Message):
    __slots__ = ("namespace", "queue", "settings")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    settings: QueueSettings
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., settings: _Optional[_Union[QueueSettings, _Mapping]] = ...) -> None: ...

class ConfigureQueueResponse(_message.Message):
    __slots__ = ("settings",)
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    settings: QueueSettings
    def __init__(self, settings: _Optional[_Union[QueueSettings, _Mapping]] = ...) -> None: ...

class QueueCounts(_message.Message):
    __slots__ = ("scheduled", "ready", "waiting", "leased", "done", "dead", "crons", "groups")
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    CRONS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    scheduled: int
    ready: int
    waiting: int
    leased: int
    done: int
    dead: int
    crons: int
    groups: int
    def __init__(self, scheduled: _Optional[int] = ..., ready: _Optional[int] = ..., waiting: _Optional[int] = ..., leased: _Optional[int] = ..., done: _Optional[int] = ..., dead: _Optional[int] = ..., crons: _Optional[int] = ..., groups: _Optional[int] = ...) -> None: ...

class QueueTotals(_message.Message):
    __slots__ = ("created", "leased", "done", "dead", "retried", "released", "leases_lost", "cancelled")
    CREATED_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    LEASES_LOST_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    created: int
    leased: int
    done: int
    dead: int
    retried: int
    released: int
    leases_lost: int
    cancelled: int
    def __init__(self, created: _Optional[int] = ..., leased: _Optional[int] = ..., done: _Optional[int] = ..., dead: _Optional[int] = ..., retried: _Optional[int] = ..., released: _Optional[int] = ..., leases_lost: _Optional[int] = ..., cancelled: _Optional[int] = ...) -> None: ...

class GetQueueRequest(_message.Message):
    __slots__ = ("namespace", "queue")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("queue", "counts", "totals", "paused", "paused_until", "lateness", "next_due_at", "settings")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    PAUSED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    LATENESS_FIELD_NUMBER: _ClassVar[int]
    NEXT_DUE_AT_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    counts: QueueCounts
    totals: QueueTotals
    paused: bool
    paused_until: _timestamp_pb2.Timestamp
    lateness: _duration_pb2.Duration
    next_due_at: _timestamp_pb2.Timestamp
    settings: QueueSettings
    def __init__(self, queue: _Optional[str] = ..., counts: _Optional[_Union[QueueCounts, _Mapping]] = ..., totals: _Optional[_Union[QueueTotals, _Mapping]] = ..., paused: bool = ..., paused_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lateness: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., next_due_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., settings: _Optional[_Union[QueueSettings, _Mapping]] = ...) -> None: ...

class GetQueueResponse(_message.Message):
    __slots__ = ("exists", "queue")
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    exists: bool
    queue: Queue
    def __init__(self, exists: bool = ..., queue: _Optional[_Union[Queue, _Mapping]] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ("namespace", "cursor", "limit")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    cursor: str
    limit: int
    def __init__(self, namespace: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListQueuesResponse(_message.Message):
    __slots__ = ("queues", "cursor", "corrupt")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    cursor: str
    corrupt: int
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., cursor: _Optional[str] = ..., corrupt: _Optional[int] = ...) -> None: ...

class PauseQueueRequest(_message.Message):
    __slots__ = ("namespace", "queue")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FOR_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., **kwargs) -> None: ...

class PauseQueueResponse(_message.Message):
    __slots__ = ("paused_until",)
    PAUSED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    paused_until: _timestamp_pb2.Timestamp
    def __init__(self, paused_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ResumeQueueRequest(_message.Message):
    __slots__ = ("namespace", "queue")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class ResumeQueueResponse(_message.Message):
    __slots__ = ("resumed",)
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    resumed: bool
    def __init__(self, resumed: bool = ...) -> None: ...

class PurgeQueueRequest(_message.Message):
    __slots__ = ("namespace", "queue", "confirm", "states")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    confirm: str
    states: _containers.RepeatedScalarFieldContainer[JobState]
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., confirm: _Optional[str] = ..., states: _Optional[_Iterable[_Union[JobState, str]]] = ...) -> None: ...

class PurgeQueueResponse(_message.Message):
    __slots__ = ("removed", "cancel_requested")
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    removed: int
    cancel_requested: int
    def __init__(self, removed: _Optional[int] = ..., cancel_requested: _Optional[int] = ...) -> None: ...

class WatchQueueRequest(_message.Message):
    __slots__ = ("namespace", "queue")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class WatchQueueResponse(_message.Message):
    __slots__ = ("event", "number", "id", "at")
    class Event(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EVENT_UNSPECIFIED: _ClassVar[WatchQueueResponse.Event]
        EVENT_WATCHING: _ClassVar[WatchQueueResponse.Event]
        EVENT_RESYNC: _ClassVar[WatchQueueResponse.Event]
        EVENT_CREATED: _ClassVar[WatchQueueResponse.Event]
        EVENT_LEASED: _ClassVar[WatchQueueResponse.Event]
        EVENT_DONE: _ClassVar[WatchQueueResponse.Event]
        EVENT_DEAD: _ClassVar[WatchQueueResponse.Event]
        EVENT_RETRY: _ClassVar[WatchQueueResponse.Event]
        EVENT_LEASE_LOST: _ClassVar[WatchQueueResponse.Event]
        EVENT_RELEASED: _ClassVar[WatchQueueResponse.Event]
        EVENT_CANCELLED: _ClassVar[WatchQueueResponse.Event]
        EVENT_PROGRESS: _ClassVar[WatchQueueResponse.Event]
        EVENT_RESCHEDULED: _ClassVar[WatchQueueResponse.Event]
    EVENT_UNSPECIFIED: WatchQueueResponse.Event
    EVENT_WATCHING: WatchQueueResponse.Event
    EVENT_RESYNC: WatchQueueResponse.Event
    EVENT_CREATED: WatchQueueResponse.Event
    EVENT_LEASED: WatchQueueResponse.Event
    EVENT_DONE: WatchQueueResponse.Event
    EVENT_DEAD: WatchQueueResponse.Event
    EVENT_RETRY: WatchQueueResponse.Event
    EVENT_LEASE_LOST: WatchQueueResponse.Event
    EVENT_RELEASED: WatchQueueResponse.Event
    EVENT_CANCELLED: WatchQueueResponse.Event
    EVENT_PROGRESS: WatchQueueResponse.Event
    EVENT_RESCHEDULED: WatchQueueResponse.Event
    EVENT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    event: WatchQueueResponse.Event
    number: int
    id: str
    at: _timestamp_pb2.Timestamp
    def __init__(self, event: _Optional[_Union[WatchQueueResponse.Event, str]] = ..., number: _Optional[int] = ..., id: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Cron(_message.Message):
    __slots__ = ("id", "pattern", "every", "time_zone", "misfire", "overlap", "template")
    ID_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    EVERY_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    MISFIRE_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    id: str
    pattern: str
    every: _duration_pb2.Duration
    time_zone: str
    misfire: Misfire
    overlap: Overlap
    template: JobSpec
    def __init__(self, id: _Optional[str] = ..., pattern: _Optional[str] = ..., every: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., time_zone: _Optional[str] = ..., misfire: _Optional[_Union[Misfire, str]] = ..., overlap: _Optional[_Union[Overlap, str]] = ..., template: _Optional[_Union[JobSpec, _Mapping]] = ...) -> None: ...

class UpsertCronRequest(_message.Message):
    __slots__ = ("namespace", "queue", "cron")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    cron: Cron
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., cron: _Optional[_Union[Cron, _Mapping]] = ...) -> None: ...

class UpsertCronResponse(_message.Message):
    __slots__ = ("outcome", "next_at")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[UpsertCronResponse.Outcome]
        OUTCOME_CREATED: _ClassVar[UpsertCronResponse.Outcome]
        OUTCOME_UPDATED: _ClassVar[UpsertCronResponse.Outcome]
        OUTCOME_UNCHANGED: _ClassVar[UpsertCronResponse.Outcome]
    OUTCOME_UNSPECIFIED: UpsertCronResponse.Outcome
    OUTCOME_CREATED: UpsertCronResponse.Outcome
    OUTCOME_UPDATED: UpsertCronResponse.Outcome
    OUTCOME_UNCHANGED: UpsertCronResponse.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    NEXT_AT_FIELD_NUMBER: _ClassVar[int]
    outcome: UpsertCronResponse.Outcome
    next_at: _timestamp_pb2.Timestamp
    def __init__(self, outcome: _Optional[_Union[UpsertCronResponse.Outcome, str]] = ..., next_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DeleteCronRequest(_message.Message):
    __slots__ = ("namespace", "queue", "id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    id: str
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class DeleteCronResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: bool = ...) -> None: ...

class ListCronsRequest(_message.Message):
    __slots__ = ("namespace", "queue", "cursor", "limit", "occurrences")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OCCURRENCES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    queue: str
    cursor: str
    limit: int
    occurrences: int
    def __init__(self, namespace: _Optional[str] = ..., queue: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., occurrences: _Optional[int] = ...) -> None: ...

class CronInfo(_message.Message):
    __slots__ = ("cron", "next_at", "occurrences", "last_at", "last_number")
    CRON_FIELD_NUMBER: _ClassVar[int]
    NEXT_AT_FIELD_NUMBER: _ClassVar[int]
    OCCURRENCES_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_NUMBER_FIELD_NUMBER: _ClassVar[int]
    cron: Cron
    next_at: _timestamp_pb2.Timestamp
    occurrences: _containers.RepeatedCompositeFieldContainer[_timestamp_pb2.Timestamp]
    last_at: _timestamp_pb2.Timestamp
    last_number: int
    def __init__(self, cron: _Optional[_Union[Cron, _Mapping]] = ..., next_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., occurrences: _Optional[_Iterable[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]]] = ..., last_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_number: _Optional[int] = ...) -> None: ...

class ListCronsResponse(_message.Message):
    __slots__ = ("crons", "cursor", "corrupt")
    CRONS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    crons: _containers.RepeatedCompositeFieldContainer[CronInfo]
    cursor: str
    corrupt: int
    def __init__(self, crons: _Optional[_Iterable[_Union[CronInfo, _Mapping]]] = ..., cursor: _Optional[str] = ..., corrupt: _Optional[int] = ...) -> None: ...
