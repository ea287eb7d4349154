import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClaimRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "key", "fingerprint", "in_progress_ttl", "retention", "complete")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_TTL_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    key: str
    fingerprint: bytes
    in_progress_ttl: _duration_pb2.Duration
    retention: _duration_pb2.Duration
    complete: bool
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., key: _Optional[str] = ..., fingerprint: _Optional[bytes] = ..., in_progress_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retention: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., complete: bool = ...) -> None: ...

class ClaimResponse(_message.Message):
    __slots__ = ("outcome", "fence", "retry_after", "result", "expires_at", "replayed")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[ClaimResponse.Outcome]
        OUTCOME_NEW: _ClassVar[ClaimResponse.Outcome]
        OUTCOME_TAKEOVER: _ClassVar[ClaimResponse.Outcome]
        OUTCOME_IN_PROGRESS: _ClassVar[ClaimResponse.Outcome]
        OUTCOME_DUPLICATE: _ClassVar[ClaimResponse.Outcome]
        OUTCOME_MISMATCH: _ClassVar[ClaimResponse.Outcome]
    OUTCOME_UNSPECIFIED: ClaimResponse.Outcome
    OUTCOME_NEW: ClaimResponse.Outcome
    OUTCOME_TAKEOVER: ClaimResponse.Outcome
    OUTCOME_IN_PROGRESS: ClaimResponse.Outcome
    OUTCOME_DUPLICATE: ClaimResponse.Outcome
    OUTCOME_MISMATCH: ClaimResponse.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    outcome: ClaimResponse.Outcome
    fence: int
    retry_after: _duration_pb2.Duration
    result: bytes
    expires_at: _timestamp_pb2.Timestamp
    replayed: bool
    def __init__(self, outcome: _Optional[_Union[ClaimResponse.Outcome, str]] = ..., fence: _Optional[int] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., result: _Optional[bytes] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., replayed: bool = ...) -> None: ...

class ClaimItem(_message.Message):
    __slots__ = ("key", "fingerprint")
    KEY_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    key: str
    fingerprint: bytes
    def __init__(self, key: _Optional[str] = ..., fingerprint: _Optional[bytes] = ...) -> None: ...

class ClaimBatchRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "items", "in_progress_ttl", "retention", "complete")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_TTL_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    items: _containers.RepeatedCompositeFieldContainer[ClaimItem]
    in_progress_ttl: _duration_pb2.Duration
    retention: _duration_pb2.Duration
    complete: bool
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., items: _Optional[_Iterable[_Union[ClaimItem, _Mapping]]] = ..., in_progress_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retention: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., complete: bool = ...) -> None: ...

class ClaimBatchResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ClaimResponse]
    def __init__(self, items: _Optional[_Iterable[_Union[ClaimResponse, _Mapping]]] = ...) -> None: ...

class CompleteClaimRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "key", "fence", "result", "retention")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    key: str
    fence: int
    result: bytes
    retention: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., key: _Optional[str] = ..., fence: _Optional[int] = ..., result: _Optional[bytes] = ..., retention: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CompleteClaimResponse(_message.Message):
    __slots__ = ("outcome", "expires_at")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[CompleteClaimResponse.Outcome]
        OUTCOME_COMPLETED: _ClassVar[CompleteClaimResponse.Outcome]
        OUTCOME_LEASE_LOST: _ClassVar[CompleteClaimResponse.Outcome]
    OUTCOME_UNSPECIFIED: CompleteClaimResponse.Outcome
    OUTCOME_COMPLETED: CompleteClaimResponse.Outcome
    OUTCOME_LEASE_LOST: CompleteClaimResponse.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    outcome: CompleteClaimResponse.Outcome
    expires_at: _timestamp_pb2.Timestamp
    def __init__(self, outcome: _Optional[_Union[CompleteClaimResponse.Outcome, str]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ExtendClaimRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "key", "fence", "in_progress_ttl")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_TTL_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    key: str
    fence: int
    in_progress_ttl: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., key: _Optional[str] = ..., fence: _Optional[int] = ..., in_progress_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ExtendClaimResponse(_message.Message):
    __slots__ = ("outcome", "expires_at")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[ExtendClaimResponse.Outcome]
        OUTCOME_EXTENDED: _ClassVar[ExtendClaimResponse.Outcome]
        OUTCOME_LEASE_LOST: _ClassVar[ExtendClaimResponse.Outcome]
    OUTCOME_UNSPECIFIED: ExtendClaimResponse.Outcome
    OUTCOME_EXTENDED: ExtendClaimResponse.Outcome
    OUTCOME_LEASE_LOST: ExtendClaimResponse.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    outcome: ExtendClaimResponse.Outcome
    expires_at: _timestamp_pb2.Timestamp
    def __init__(self, outcome: _Optional[_Union[ExtendClaimResponse.Outcome, str]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ReleaseClaimRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "key", "fence")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    key: str
    fence: int
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., key: _Optional[str] = ..., fence: _Optional[int] = ...) -> None: ...

class ReleaseClaimResponse(_message.Message):
    __slots__ = ("outcome",)
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[ReleaseClaimResponse.Outcome]
        OUTCOME_RELEASED: _ClassVar[ReleaseClaimResponse.Outcome]
        OUTCOME_LEASE_LOST: _ClassVar[ReleaseClaimResponse.Outcome]
    OUTCOME_UNSPECIFIED: ReleaseClaimResponse.Outcome
    OUTCOME_RELEASED: ReleaseClaimResponse.Outcome
    OUTCOME_LEASE_LOST: ReleaseClaimResponse.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    outcome: ReleaseClaimResponse.Outcome
    def __init__(self, outcome: _Optional[_Union[ReleaseClaimResponse.Outcome, str]] = ...) -> None: ...
