import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from pannier._gen import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ValueKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VALUE_KIND_UNSPECIFIED: _ClassVar[ValueKind]
    VALUE_KIND_BYTES: _ClassVar[ValueKind]
    VALUE_KIND_JSON: _ClassVar[ValueKind]
    VALUE_KIND_TEXT: _ClassVar[ValueKind]

class Durability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DURABILITY_UNSPECIFIED: _ClassVar[Durability]
    DURABILITY_MEMORY: _ClassVar[Durability]
    DURABILITY_AOF: _ClassVar[Durability]
    DURABILITY_FSYNC: _ClassVar[Durability]
    DURABILITY_REPLICAS: _ClassVar[Durability]

class OnHeld(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_HELD_UNSPECIFIED: _ClassVar[OnHeld]
    ON_HELD_FAIL: _ClassVar[OnHeld]
    ON_HELD_WAIT: _ClassVar[OnHeld]
    ON_HELD_TAKE_OVER: _ClassVar[OnHeld]
VALUE_KIND_UNSPECIFIED: ValueKind
VALUE_KIND_BYTES: ValueKind
VALUE_KIND_JSON: ValueKind
VALUE_KIND_TEXT: ValueKind
DURABILITY_UNSPECIFIED: Durability
DURABILITY_MEMORY: Durability
DURABILITY_AOF: Durability
DURABILITY_FSYNC: Durability
DURABILITY_REPLICAS: Durability
ON_HELD_UNSPECIFIED: OnHeld
ON_HELD_FAIL: OnHeld
ON_HELD_WAIT: OnHeld
ON_HELD_TAKE_OVER: OnHeld

class Record(_message.Message):
    __slots__ = ("type", "id", "kind", "value", "revision")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    type: str
    id: str
    kind: ValueKind
    value: bytes
    revision: int
    def __init__(self, type: _Optional[str] = ..., id: _Optional[str] = ..., kind: _Optional[_Union[ValueKind, str]] = ..., value: _Optional[bytes] = ..., revision: _Optional[int] = ...) -> None: ...

class RecordRef(_message.Message):
    __slots__ = ("type", "id")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    type: str
    id: str
    def __init__(self, type: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class Query(_message.Message):
    __slots__ = ("type", "ids")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    type: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, type: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class Fragment(_message.Message):
    __slots__ = ("type", "id", "kind", "offset", "total", "data", "revision", "if_revision")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    type: str
    id: str
    kind: ValueKind
    offset: int
    total: int
    data: bytes
    revision: int
    if_revision: int
    def __init__(self, type: _Optional[str] = ..., id: _Optional[str] = ..., kind: _Optional[_Union[ValueKind, str]] = ..., offset: _Optional[int] = ..., total: _Optional[int] = ..., data: _Optional[bytes] = ..., revision: _Optional[int] = ..., if_revision: _Optional[int] = ...) -> None: ...

class Put(_message.Message):
    __slots__ = ("record", "if_revision")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    record: Record
    if_revision: int
    def __init__(self, record: _Optional[_Union[Record, _Mapping]] = ..., if_revision: _Optional[int] = ...) -> None: ...

class Attributes(_message.Message):
    __slots__ = ("paired", "next_pre_key_id", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PAIRED_FIELD_NUMBER: _ClassVar[int]
    NEXT_PRE_KEY_ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    paired: bool
    next_pre_key_id: int
    labels: _containers.ScalarMap[str, str]
    def __init__(self, paired: bool = ..., next_pre_key_id: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class TypeCount(_message.Message):
    __slots__ = ("type", "records", "bytes")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    type: str
    records: int
    bytes: int
    def __init__(self, type: _Optional[str] = ..., records: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class AttachRequest(_message.Message):
    __slots__ = ("seq", "timeout_ms", "open", "get", "list", "commit", "clear", "close")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    GET_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    CLEAR_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    timeout_ms: int
    open: Open
    get: Get
    list: List
    commit: Commit
    clear: Clear
    close: Close
    def __init__(self, seq: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., open: _Optional[_Union[Open, _Mapping]] = ..., get: _Optional[_Union[Get, _Mapping]] = ..., list: _Optional[_Union[List, _Mapping]] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ..., clear: _Optional[_Union[Clear, _Mapping]] = ..., close: _Optional[_Union[Close, _Mapping]] = ...) -> None: ...

class AttachResponse(_message.Message):
    __slots__ = ("seq", "opened", "records", "page", "committed", "cleared", "closed", "error", "renewed", "lease_lost", "draining", "changed")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    LEASE_LOST_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    seq: int
    opened: Opened
    records: Records
    page: Page
    committed: Committed
    cleared: Cleared
    closed: Closed
    error: _status_pb2.Status
    renewed: Renewed
    lease_lost: LeaseLost
    draining: Draining
    changed: Changed
    def __init__(self, seq: _Optional[int] = ..., opened: _Optional[_Union[Opened, _Mapping]] = ..., records: _Optional[_Union[Records, _Mapping]] = ..., page: _Optional[_Union[Page, _Mapping]] = ..., committed: _Optional[_Union[Committed, _Mapping]] = ..., cleared: _Optional[_Union[Cleared, _Mapping]] = ..., closed: _Optional[_Union[Closed, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., renewed: _Optional[_Union[Renewed, _Mapping]] = ..., lease_lost: _Optional[_Union[LeaseLost, _Mapping]] = ..., draining: _Optional[_Union[Draining, _Mapping]] = ..., changed: _Optional[_Union[Changed, _Mapping]] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("namespace", "session", "owner", "writer_id", "on_held", "wait_timeout", "lease_ttl", "min_revision", "must_exist", "resume", "preload_types")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    WRITER_ID_FIELD_NUMBER: _ClassVar[int]
    ON_HELD_FIELD_NUMBER: _ClassVar[int]
    WAIT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    MUST_EXIST_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    PRELOAD_TYPES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    session: str
    owner: str
    writer_id: str
    on_held: OnHeld
    wait_timeout: _duration_pb2.Duration
    lease_ttl: _duration_pb2.Duration
    min_revision: int
    must_exist: bool
    resume: Resume
    preload_types: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., session: _Optional[str] = ..., owner: _Optional[str] = ..., writer_id: _Optional[str] = ..., on_held: _Optional[_Union[OnHeld, str]] = ..., wait_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lease_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., min_revision: _Optional[int] = ..., must_exist: bool = ..., resume: _Optional[_Union[Resume, _Mapping]] = ..., preload_types: _Optional[_Iterable[str]] = ...) -> None: ...

class Resume(_message.Message):
    __slots__ = ("fence", "revision")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    fence: int
    revision: int
    def __init__(self, fence: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ("fence", "revision", "incarnation", "created", "resumed", "durability", "durability_met", "counts", "last_op_seq", "lease_ttl", "attributes", "preload_complete")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_MET_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    LAST_OP_SEQ_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    PRELOAD_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    fence: int
    revision: int
    incarnation: int
    created: bool
    resumed: bool
    durability: Durability
    durability_met: bool
    counts: _containers.RepeatedCompositeFieldContainer[TypeCount]
    last_op_seq: int
    lease_ttl: _duration_pb2.Duration
    attributes: Attributes
    preload_complete: bool
    def __init__(self, fence: _Optional[int] = ..., revision: _Optional[int] = ..., incarnation: _Optional[int] = ..., created: bool = ..., resumed: bool = ..., durability: _Optional[_Union[Durability, str]] = ..., durability_met: bool = ..., counts: _Optional[_Iterable[_Union[TypeCount, _Mapping]]] = ..., last_op_seq: _Optional[int] = ..., lease_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., attributes: _Optional[_Union[Attributes, _Mapping]] = ..., preload_complete: bool = ...) -> None: ...

class Get(_message.Message):
    __slots__ = ("queries",)
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    queries: _containers.RepeatedCompositeFieldContainer[Query]
    def __init__(self, queries: _Optional[_Iterable[_Union[Query, _Mapping]]] = ...) -> None: ...

class Records(_message.Message):
    __slots__ = ("records", "fragments", "more", "revision")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[Record]
    fragments: _containers.RepeatedCompositeFieldContainer[Fragment]
    more: bool
    revision: int
    def __init__(self, records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., fragments: _Optional[_Iterable[_Union[Fragment, _Mapping]]] = ..., more: bool = ..., revision: _Optional[int] = ...) -> None: ...

class List(_message.Message):
    __slots__ = ("type", "cursor", "limit", "ids_only")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    IDS_ONLY_FIELD_NUMBER: _ClassVar[int]
    type: str
    cursor: str
    limit: int
    ids_only: bool
    def __init__(self, type: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., ids_only: bool = ...) -> None: ...

class Page(_message.Message):
    __slots__ = ("records", "fragments", "more", "cursor", "corrupt")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[Record]
    fragments: _containers.RepeatedCompositeFieldContainer[Fragment]
    more: bool
    cursor: str
    corrupt: int
    def __init__(self, records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., fragments: _Optional[_Iterable[_Union[Fragment, _Mapping]]] = ..., more: bool = ..., cursor: _Optional[str] = ..., corrupt: _Optional[int] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("writer_id", "op_seq", "puts", "deletes", "fragments", "more", "expected_revision", "incarnation", "attributes", "min_durability")
    WRITER_ID_FIELD_NUMBER: _ClassVar[int]
    OP_SEQ_FIELD_NUMBER: _ClassVar[int]
    PUTS_FIELD_NUMBER: _ClassVar[int]
    DELETES_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    MIN_DURABILITY_FIELD_NUMBER: _ClassVar[int]
    writer_id: str
    op_seq: int
    puts: _containers.RepeatedCompositeFieldContainer[Put]
    deletes: _containers.RepeatedCompositeFieldContainer[RecordRef]
    fragments: _containers.RepeatedCompositeFieldContainer[Fragment]
    more: bool
    expected_revision: int
    incarnation: int
    attributes: Attributes
    min_durability: Durability
    def __init__(self, writer_id: _Optional[str] = ..., op_seq: _Optional[int] = ..., puts: _Optional[_Iterable[_Union[Put, _Mapping]]] = ..., deletes: _Optional[_Iterable[_Union[RecordRef, _Mapping]]] = ..., fragments: _Optional[_Iterable[_Union[Fragment, _Mapping]]] = ..., more: bool = ..., expected_revision: _Optional[int] = ..., incarnation: _Optional[int] = ..., attributes: _Optional[_Union[Attributes, _Mapping]] = ..., min_durability: _Optional[_Union[Durability, str]] = ...) -> None: ...

class Committed(_message.Message):
    __slots__ = ("base_revision", "revision", "replayed", "durability", "durability_met")
    BASE_REVISION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_MET_FIELD_NUMBER: _ClassVar[int]
    base_revision: int
    revision: int
    replayed: bool
    durability: Durability
    durability_met: bool
    def __init__(self, base_revision: _Optional[int] = ..., revision: _Optional[int] = ..., replayed: bool = ..., durability: _Optional[_Union[Durability, str]] = ..., durability_met: bool = ...) -> None: ...

class Clear(_message.Message):
    __slots__ = ("writer_id", "op_seq", "incarnation")
    WRITER_ID_FIELD_NUMBER: _ClassVar[int]
    OP_SEQ_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    writer_id: str
    op_seq: int
    incarnation: int
    def __init__(self, writer_id: _Optional[str] = ..., op_seq: _Optional[int] = ..., incarnation: _Optional[int] = ...) -> None: ...

class Cleared(_message.Message):
    __slots__ = ("fence", "incarnation", "revision", "replayed", "oldest_archive_dropped")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_ARCHIVE_DROPPED_FIELD_NUMBER: _ClassVar[int]
    fence: int
    incarnation: int
    revision: int
    replayed: bool
    oldest_archive_dropped: bool
    def __init__(self, fence: _Optional[int] = ..., incarnation: _Optional[int] = ..., revision: _Optional[int] = ..., replayed: bool = ..., oldest_archive_dropped: bool = ...) -> None: ...

class Close(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Closed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Renewed(_message.Message):
    __slots__ = ("lease_left",)
    LEASE_LEFT_FIELD_NUMBER: _ClassVar[int]
    lease_left: _duration_pb2.Duration
    def __init__(self, lease_left: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LeaseLost(_message.Message):
    __slots__ = ("reason",)
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REASON_UNSPECIFIED: _ClassVar[LeaseLost.Reason]
        REASON_TAKEN_OVER: _ClassVar[LeaseLost.Reason]
        REASON_DELETED: _ClassVar[LeaseLost.Reason]
    REASON_UNSPECIFIED: LeaseLost.Reason
    REASON_TAKEN_OVER: LeaseLost.Reason
    REASON_DELETED: LeaseLost.Reason
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: LeaseLost.Reason
    def __init__(self, reason: _Optional[_Union[LeaseLost.Reason, str]] = ...) -> None: ...

class Draining(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Changed(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class GetRecordsRequest(_message.Message):
    __slots__ = ("namespace", "session", "queries")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    session: str
    queries: _containers.RepeatedCompositeFieldContainer[Query]
    def __init__(self, namespace: _Optional[str] = ..., session: _Optional[str] = ..., queries: _Optional[_Iterable[_Union[Query, _Mapping]]] = ...) -> None: ...

class GetRecordsResponse(_message.Message):
    __slots__ = ("records", "revision", "incarnation")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[Record]
    revision: int
    incarnation: int
    def __init__(self, records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., revision: _Optional[int] = ..., incarnation: _Optional[int] = ...) -> None: ...

class ListRecordsRequest(_message.Message):
    __slots__ = ("namespace", "session", "type", "cursor", "limit", "ids_only")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    IDS_ONLY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    session: str
    type: str
    cursor: str
    limit: int
    ids_only: bool
    def __init__(self, namespace: _Optional[str] = ..., session: _Optional[str] = ..., type: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., ids_only: bool = ...) -> None: ...

class ListRecordsResponse(_message.Message):
    __slots__ = ("records", "cursor", "corrupt", "too_large")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    TOO_LARGE_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[Record]
    cursor: str
    corrupt: int
    too_large: _containers.RepeatedCompositeFieldContainer[RecordRef]
    def __init__(self, records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., cursor: _Optional[str] = ..., corrupt: _Optional[int] = ..., too_large: _Optional[_Iterable[_Union[RecordRef, _Mapping]]] = ...) -> None: ...

class CommitRecordsRequest(_message.Message):
    __slots__ = ("namespace", "session", "writer_id", "op_seq", "puts", "deletes", "expected_revision", "incarnation", "fence", "attributes", "min_durability")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    WRITER_ID_FIELD_NUMBER: _ClassVar[int]
    OP_SEQ_FIELD_NUMBER: _ClassVar[int]
    PUTS_FIELD_NUMBER: _ClassVar[int]
    DELETES_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    MIN_DURABILITY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    session: str
    writer_id: str
    op_seq: int
    puts: _containers.RepeatedCompositeFieldContainer[Put]
    deletes: _containers.RepeatedCompositeFieldContainer[RecordRef]
    expected_revision: int
    incarnation: int
    fence: int
    attributes: Attributes
    min_durability: Durability
    def __init__(self, namespace: _Optional[str] = ..., session: _Optional[str] = ..., writer_id: _Optional[str] = ..., op_seq: _Optional[int] = ..., puts: _Optional[_Iterable[_Union[Put, _Mapping]]] = ..., deletes: _Optional[_Iterable[_Union[RecordRef, _Mapping]]] = ..., expected_revision: _Optional[int] = ..., incarnation: _Optional[int] = ..., fence: _Optional[int] = ..., attributes: _Optional[_Union[Attributes, _Mapping]] = ..., min_durability: _Optional[_Union[Durability, str]] = ...) -> None: ...

class CommitRecordsResponse(_message.Message):
    __slots__ = ("base_revision", "revision", "replayed", "durability", "durability_met")
    BASE_REVISION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_MET_FIELD_NUMBER: _ClassVar[int]
    base_revision: int
    revision: int
    replayed: bool
    durability: Durability
    durability_met: bool
    def __init__(self, base_revision: _Optional[int] = ..., revision: _Optional[int] = ..., replayed: bool = ..., durability: _Optional[_Union[Durability, str]] = ..., durability_met: bool = ...) -> None: ...

class GetSessionRequest(_message.Message):
    __slots__ = ("namespace", "session")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    session: str
    def __init__(self, namespace: _Optional[str] = ..., session: _Optional[str] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("owner", "fence", "expires_at", "live")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    owner: str
    fence: int
    expires_at: _timestamp_pb2.Timestamp
    live: bool
    def __init__(self, owner: _Optional[str] = ..., fence: _Optional[int] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., live: bool = ...) -> None: ...

class SessionInfo(_message.Message):
    __slots__ = ("namespace", "session", "incarnation", "revision", "attributes", "counts", "lease", "created_at", "last_write_at", "fence")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_WRITE_AT_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    session: str
    incarnation: int
    revision: int
    attributes: Attributes
    counts: _containers.RepeatedCompositeFieldContainer[TypeCount]
    lease: Lease
    created_at: _timestamp_pb2.Timestamp
    last_write_at: _timestamp_pb2.Timestamp
    fence: int
    def __init__(self, namespace: _Optional[str] = ..., session: _Optional[str] = ..., incarnation: _Optional[int] = ..., revision: _Optional[int] = ..., attributes: _Optional[_Union[Attributes, _Mapping]] = ..., counts: _Optional[_Iterable[_Union[TypeCount, _Mapping]]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_write_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., fence: _Optional[int] = ...) -> None: ...

class GetSessionResponse(_message.Message):
    __slots__ = ("exists", "session", "archives")
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ARCHIVES_FIELD_NUMBER: _ClassVar[int]
    exists: bool
    session: SessionInfo
    archives: _containers.RepeatedCompositeFieldContainer[ArchiveInfo]
    def __init__(self, exists: bool = ..., session: _Optional[_Union[SessionInfo, _Mapping]] = ..., archives: _Optional[_Iterable[_Union[ArchiveInfo, _Mapping]]] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("namespace", "cursor", "limit")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    cursor: str
    limit: int
    def __init__(self, namespace: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions", "cursor", "corrupt")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionInfo]
    cursor: str
    corrupt: int
    def __init__(self, sessions: _Optional[_Iterable[_Union[SessionInfo, _Mapping]]] = ..., cursor: _Optional[str] = ..., corrupt: _Optional[int] = ...) -> None: ...

class ArchiveInfo(_message.Message):
    __slots__ = ("namespace", "session", "incarnation", "revision", "counts", "deleted_at", "purge_at")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    DELETED_AT_FIELD_NUMBER: _ClassVar[int]
    PURGE_AT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    session: str
    incarnation: int
    revision: int
    counts: _containers.RepeatedCompositeFieldContainer[TypeCount]
    deleted_at: _timestamp_pb2.Timestamp
    purge_at: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., session: _Optional[str] = ..., incarnation: _Optional[int] = ..., revision: _Optional[int] = ..., counts: _Optional[_Iterable[_Union[TypeCount, _Mapping]]] = ..., deleted_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., purge_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListDeletedRequest(_message.Message):
    __slots__ = ("namespace", "session", "cursor", "limit")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    session: str
    cursor: str
    limit: int
    def __init__(self, namespace: _Optional[str] = ..., session: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListDeletedResponse(_message.Message):
    __slots__ = ("archives", "cursor", "corrupt")
    ARCHIVES_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    archives: _containers.RepeatedCompositeFieldContainer[ArchiveInfo]
    cursor: str
    corrupt: int
    def __init__(self, archives: _Optional[_Iterable[_Union[ArchiveInfo, _Mapping]]] = ..., cursor: _Optional[str] = ..., corrupt: _Optional[int] = ...) -> None: ...

class DeleteSessionRequest(_message.Message):
    __slots__ = ("namespace", "session", "mode", "incarnation")
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MODE_UNSPECIFIED: _ClassVar[DeleteSessionRequest.Mode]
        MODE_SOFT: _ClassVar[DeleteSessionRequest.Mode]
        MODE_SHRED: _ClassVar[DeleteSessionRequest.Mode]
    MODE_UNSPECIFIED: DeleteSessionRequest.Mode
    MODE_SOFT: DeleteSessionRequest.Mode
    MODE_SHRED: DeleteSessionRequest.Mode
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    session: str
    mode: DeleteSessionRequest.Mode
    incarnation: int
    def __init__(self, namespace: _Optional[str] = ..., session: _Optional[str] = ..., mode: _Optional[_Union[DeleteSessionRequest.Mode, str]] = ..., incarnation: _Optional[int] = ...) -> None: ...

class DeleteSessionResponse(_message.Message):
    __slots__ = ("deleted", "archive", "oldest_archive_dropped")
    DELETED_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_FIELD_NUMBER: _ClassVar[int]
    OLDEST_ARCHIVE_DROPPED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    archive: ArchiveInfo
    oldest_archive_dropped: bool
    def __init__(self, deleted: bool = ..., archive: _Optional[_Union[ArchiveInfo, _Mapping]] = ..., oldest_archive_dropped: bool = ...) -> None: ...

class RestoreSessionRequest(_message.Message):
    __slots__ = ("namespace", "session", "incarnation", "replace")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    session: str
    incarnation: int
    replace: bool
    def __init__(self, namespace: _Optional[str] = ..., session: _Optional[str] = ..., incarnation: _Optional[int] = ..., replace: bool = ...) -> None: ...

class RestoreSessionResponse(_message.Message):
    __slots__ = ("session", "oldest_archive_dropped")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    OLDEST_ARCHIVE_DROPPED_FIELD_NUMBER: _ClassVar[int]
    session: SessionInfo
    oldest_archive_dropped: bool
    def __init__(self, session: _Optional[_Union[SessionInfo, _Mapping]] = ..., oldest_archive_dropped: bool = ...) -> None: ...

class BreakLeaseRequest(_message.Message):
    __slots__ = ("namespace", "session", "fence")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    session: str
    fence: int
    def __init__(self, namespace: _Optional[str] = ..., session: _Optional[str] = ..., fence: _Optional[int] = ...) -> None: ...

class BreakLeaseResponse(_message.Message):
    __slots__ = ("broken", "fence")
    BROKEN_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    broken: bool
    fence: int
    def __init__(self, broken: bool = ..., fence: _Optional[int] = ...) -> None: ...
