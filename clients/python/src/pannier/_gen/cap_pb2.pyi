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

class CapScope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAP_SCOPE_UNSPECIFIED: _ClassVar[CapScope]
    CAP_SCOPE_NAMESPACE: _ClassVar[CapScope]
    CAP_SCOPE_SENDER: _ClassVar[CapScope]
    CAP_SCOPE_RECIPIENT: _ClassVar[CapScope]
    CAP_SCOPE_PAIR: _ClassVar[CapScope]

class CapPreset(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAP_PRESET_UNSPECIFIED: _ClassVar[CapPreset]
    CAP_PRESET_META_THROUGHPUT: _ClassVar[CapPreset]
    CAP_PRESET_META_PAIR: _ClassVar[CapPreset]
    CAP_PRESET_META_TIER_250: _ClassVar[CapPreset]
    CAP_PRESET_META_TIER_2K: _ClassVar[CapPreset]
    CAP_PRESET_META_TIER_10K: _ClassVar[CapPreset]
    CAP_PRESET_META_TIER_100K: _ClassVar[CapPreset]
    CAP_PRESET_META_TIER_UNLIMITED: _ClassVar[CapPreset]
CAP_SCOPE_UNSPECIFIED: CapScope
CAP_SCOPE_NAMESPACE: CapScope
CAP_SCOPE_SENDER: CapScope
CAP_SCOPE_RECIPIENT: CapScope
CAP_SCOPE_PAIR: CapScope
CAP_PRESET_UNSPECIFIED: CapPreset
CAP_PRESET_META_THROUGHPUT: CapPreset
CAP_PRESET_META_PAIR: CapPreset
CAP_PRESET_META_TIER_250: CapPreset
CAP_PRESET_META_TIER_2K: CapPreset
CAP_PRESET_META_TIER_10K: CapPreset
CAP_PRESET_META_TIER_100K: CapPreset
CAP_PRESET_META_TIER_UNLIMITED: CapPreset

class FixedWindow(_message.Message):
    __slots__ = ("limit", "window", "time_zone")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    limit: int
    window: _duration_pb2.Duration
    time_zone: str
    def __init__(self, limit: _Optional[int] = ..., window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., time_zone: _Optional[str] = ...) -> None: ...

class RollingWindow(_message.Message):
    __slots__ = ("limit", "window")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    limit: int
    window: _duration_pb2.Duration
    def __init__(self, limit: _Optional[int] = ..., window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Gcra(_message.Message):
    __slots__ = ("period", "burst")
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    period: _duration_pb2.Duration
    burst: int
    def __init__(self, period: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., burst: _Optional[int] = ...) -> None: ...

class UniqueRecipients(_message.Message):
    __slots__ = ("limit", "window", "unlimited")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    UNLIMITED_FIELD_NUMBER: _ClassVar[int]
    limit: int
    window: _duration_pb2.Duration
    unlimited: bool
    def __init__(self, limit: _Optional[int] = ..., window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., unlimited: bool = ...) -> None: ...

class CapPolicy(_message.Message):
    __slots__ = ("name", "scope", "fixed", "rolling", "gcra", "unique", "preset", "fail_open", "revision", "updated_at", "from_config")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    FIXED_FIELD_NUMBER: _ClassVar[int]
    ROLLING_FIELD_NUMBER: _ClassVar[int]
    GCRA_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_FIELD_NUMBER: _ClassVar[int]
    PRESET_FIELD_NUMBER: _ClassVar[int]
    FAIL_OPEN_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    FROM_CONFIG_FIELD_NUMBER: _ClassVar[int]
    name: str
    scope: CapScope
    fixed: FixedWindow
    rolling: RollingWindow
    gcra: Gcra
    unique: UniqueRecipients
    preset: CapPreset
    fail_open: bool
    revision: int
    updated_at: _timestamp_pb2.Timestamp
    from_config: bool
    def __init__(self, name: _Optional[str] = ..., scope: _Optional[_Union[CapScope, str]] = ..., fixed: _Optional[_Union[FixedWindow, _Mapping]] = ..., rolling: _Optional[_Union[RollingWindow, _Mapping]] = ..., gcra: _Optional[_Union[Gcra, _Mapping]] = ..., unique: _Optional[_Union[UniqueRecipients, _Mapping]] = ..., preset: _Optional[_Union[CapPreset, str]] = ..., fail_open: bool = ..., revision: _Optional[int] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., from_config: bool = ...) -> None: ...

class CapUsage(_message.Message):
    __slots__ = ("policy", "limit", "used", "remaining", "reset_at")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    RESET_AT_FIELD_NUMBER: _ClassVar[int]
    policy: str
    limit: int
    used: int
    remaining: int
    reset_at: _timestamp_pb2.Timestamp
    def __init__(self, policy: _Optional[str] = ..., limit: _Optional[int] = ..., used: _Optional[int] = ..., remaining: _Optional[int] = ..., reset_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ConsumeRequest(_message.Message):
    __slots__ = ("namespace", "send_id", "policies", "recipient", "sender", "n", "mode", "reserve_ttl")
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MODE_UNSPECIFIED: _ClassVar[ConsumeRequest.Mode]
        MODE_COMMIT: _ClassVar[ConsumeRequest.Mode]
        MODE_RESERVE: _ClassVar[ConsumeRequest.Mode]
    MODE_UNSPECIFIED: ConsumeRequest.Mode
    MODE_COMMIT: ConsumeRequest.Mode
    MODE_RESERVE: ConsumeRequest.Mode
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SEND_ID_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    RESERVE_TTL_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    send_id: str
    policies: _containers.RepeatedScalarFieldContainer[str]
    recipient: str
    sender: str
    n: int
    mode: ConsumeRequest.Mode
    reserve_ttl: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., send_id: _Optional[str] = ..., policies: _Optional[_Iterable[str]] = ..., recipient: _Optional[str] = ..., sender: _Optional[str] = ..., n: _Optional[int] = ..., mode: _Optional[_Union[ConsumeRequest.Mode, str]] = ..., reserve_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ConsumeResponse(_message.Message):
    __slots__ = ("outcome", "usage", "denied_by", "retry_after", "state", "reserved_until", "failed_open")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[ConsumeResponse.Outcome]
        OUTCOME_ALLOWED: _ClassVar[ConsumeResponse.Outcome]
        OUTCOME_DENIED: _ClassVar[ConsumeResponse.Outcome]
        OUTCOME_NEVER: _ClassVar[ConsumeResponse.Outcome]
        OUTCOME_REPLAYED: _ClassVar[ConsumeResponse.Outcome]
        OUTCOME_MISMATCH: _ClassVar[ConsumeResponse.Outcome]
    OUTCOME_UNSPECIFIED: ConsumeResponse.Outcome
    OUTCOME_ALLOWED: ConsumeResponse.Outcome
    OUTCOME_DENIED: ConsumeResponse.Outcome
    OUTCOME_NEVER: ConsumeResponse.Outcome
    OUTCOME_REPLAYED: ConsumeResponse.Outcome
    OUTCOME_MISMATCH: ConsumeResponse.Outcome
    class SendState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SEND_STATE_UNSPECIFIED: _ClassVar[ConsumeResponse.SendState]
        SEND_STATE_RESERVED: _ClassVar[ConsumeResponse.SendState]
        SEND_STATE_COMMITTED: _ClassVar[ConsumeResponse.SendState]
    SEND_STATE_UNSPECIFIED: ConsumeResponse.SendState
    SEND_STATE_RESERVED: ConsumeResponse.SendState
    SEND_STATE_COMMITTED: ConsumeResponse.SendState
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    DENIED_BY_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESERVED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    FAILED_OPEN_FIELD_NUMBER: _ClassVar[int]
    outcome: ConsumeResponse.Outcome
    usage: _containers.RepeatedCompositeFieldContainer[CapUsage]
    denied_by: str
    retry_after: _duration_pb2.Duration
    state: ConsumeResponse.SendState
    reserved_until: _timestamp_pb2.Timestamp
    failed_open: bool
    def __init__(self, outcome: _Optional[_Union[ConsumeResponse.Outcome, str]] = ..., usage: _Optional[_Iterable[_Union[CapUsage, _Mapping]]] = ..., denied_by: _Optional[str] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., state: _Optional[_Union[ConsumeResponse.SendState, str]] = ..., reserved_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., failed_open: bool = ...) -> None: ...

class ConfirmRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "send_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SEND_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    send_id: str
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., send_id: _Optional[str] = ...) -> None: ...

class ConfirmResponse(_message.Message):
    __slots__ = ("outcome",)
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[ConfirmResponse.Outcome]
        OUTCOME_CONFIRMED: _ClassVar[ConfirmResponse.Outcome]
        OUTCOME_LAPSED: _ClassVar[ConfirmResponse.Outcome]
        OUTCOME_UNKNOWN: _ClassVar[ConfirmResponse.Outcome]
    OUTCOME_UNSPECIFIED: ConfirmResponse.Outcome
    OUTCOME_CONFIRMED: ConfirmResponse.Outcome
    OUTCOME_LAPSED: ConfirmResponse.Outcome
    OUTCOME_UNKNOWN: ConfirmResponse.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    outcome: ConfirmResponse.Outcome
    def __init__(self, outcome: _Optional[_Union[ConfirmResponse.Outcome, str]] = ...) -> None: ...

class RefundRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "send_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SEND_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    send_id: str
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., send_id: _Optional[str] = ...) -> None: ...

class RefundResponse(_message.Message):
    __slots__ = ("outcome",)
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[RefundResponse.Outcome]
        OUTCOME_REFUNDED: _ClassVar[RefundResponse.Outcome]
        OUTCOME_LAPSED: _ClassVar[RefundResponse.Outcome]
        OUTCOME_UNKNOWN: _ClassVar[RefundResponse.Outcome]
    OUTCOME_UNSPECIFIED: RefundResponse.Outcome
    OUTCOME_REFUNDED: RefundResponse.Outcome
    OUTCOME_LAPSED: RefundResponse.Outcome
    OUTCOME_UNKNOWN: RefundResponse.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    outcome: RefundResponse.Outcome
    def __init__(self, outcome: _Optional[_Union[RefundResponse.Outcome, str]] = ...) -> None: ...

class PeekRequest(_message.Message):
    __slots__ = ("namespace", "policies", "recipient", "sender", "n", "unit")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    policies: _containers.RepeatedScalarFieldContainer[str]
    recipient: str
    sender: str
    n: int
    unit: int
    def __init__(self, namespace: _Optional[str] = ..., policies: _Optional[_Iterable[str]] = ..., recipient: _Optional[str] = ..., sender: _Optional[str] = ..., n: _Optional[int] = ..., unit: _Optional[int] = ...) -> None: ...

class CapPeek(_message.Message):
    __slots__ = ("usage", "never", "retry_after", "unit_after")
    USAGE_FIELD_NUMBER: _ClassVar[int]
    NEVER_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    UNIT_AFTER_FIELD_NUMBER: _ClassVar[int]
    usage: CapUsage
    never: bool
    retry_after: _duration_pb2.Duration
    unit_after: _duration_pb2.Duration
    def __init__(self, usage: _Optional[_Union[CapUsage, _Mapping]] = ..., never: bool = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., unit_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PeekResponse(_message.Message):
    __slots__ = ("policies", "service_window_until")
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    SERVICE_WINDOW_UNTIL_FIELD_NUMBER: _ClassVar[int]
    policies: _containers.RepeatedCompositeFieldContainer[CapPeek]
    service_window_until: _timestamp_pb2.Timestamp
    def __init__(self, policies: _Optional[_Iterable[_Union[CapPeek, _Mapping]]] = ..., service_window_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class NoteInboundRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "recipient", "sender")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    recipient: str
    sender: str
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., recipient: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class NoteInboundResponse(_message.Message):
    __slots__ = ("open_until",)
    OPEN_UNTIL_FIELD_NUMBER: _ClassVar[int]
    open_until: _timestamp_pb2.Timestamp
    def __init__(self, open_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SetPolicyRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "policy")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    policy: CapPolicy
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., policy: _Optional[_Union[CapPolicy, _Mapping]] = ...) -> None: ...

class SetPolicyResponse(_message.Message):
    __slots__ = ("policy", "created", "replayed")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    policy: CapPolicy
    created: bool
    replayed: bool
    def __init__(self, policy: _Optional[_Union[CapPolicy, _Mapping]] = ..., created: bool = ..., replayed: bool = ...) -> None: ...

class GetPolicyRequest(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetPolicyResponse(_message.Message):
    __slots__ = ("policy",)
    POLICY_FIELD_NUMBER: _ClassVar[int]
    policy: CapPolicy
    def __init__(self, policy: _Optional[_Union[CapPolicy, _Mapping]] = ...) -> None: ...

class ListPoliciesRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class ListPoliciesResponse(_message.Message):
    __slots__ = ("policies", "corrupt")
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    policies: _containers.RepeatedCompositeFieldContainer[CapPolicy]
    corrupt: int
    def __init__(self, policies: _Optional[_Iterable[_Union[CapPolicy, _Mapping]]] = ..., corrupt: _Optional[int] = ...) -> None: ...

class DeletePolicyRequest(_message.Message):
    __slots__ = ("namespace", "name", "revision")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    revision: int
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class DeletePolicyResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: bool = ...) -> None: ...
