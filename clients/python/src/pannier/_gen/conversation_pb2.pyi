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

class ConversationState(_message.Message):
    __slots__ = ("exists", "step", "fields", "version", "started_at", "updated_at", "expires_at", "ends_at")
    class FieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_FIELD_NUMBER: _ClassVar[int]
    exists: bool
    step: str
    fields: _containers.ScalarMap[str, bytes]
    version: int
    started_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    ends_at: _timestamp_pb2.Timestamp
    def __init__(self, exists: bool = ..., step: _Optional[str] = ..., fields: _Optional[_Mapping[str, bytes]] = ..., version: _Optional[int] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ends_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetConversationRequest(_message.Message):
    __slots__ = ("namespace", "id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    id: str
    def __init__(self, namespace: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class GetConversationResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: ConversationState
    def __init__(self, state: _Optional[_Union[ConversationState, _Mapping]] = ...) -> None: ...

class ExpectedSteps(_message.Message):
    __slots__ = ("steps",)
    STEPS_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, steps: _Optional[_Iterable[str]] = ...) -> None: ...

class AdvanceRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "id", "step", "set", "unset", "replace", "ttl", "max_age", "expected_version", "expected_steps")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    UNSET_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_STEPS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    id: str
    step: str
    set: _containers.ScalarMap[str, bytes]
    unset: _containers.RepeatedScalarFieldContainer[str]
    replace: bool
    ttl: _duration_pb2.Duration
    max_age: _duration_pb2.Duration
    expected_version: int
    expected_steps: ExpectedSteps
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ..., step: _Optional[str] = ..., set: _Optional[_Mapping[str, bytes]] = ..., unset: _Optional[_Iterable[str]] = ..., replace: bool = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., expected_version: _Optional[int] = ..., expected_steps: _Optional[_Union[ExpectedSteps, _Mapping]] = ...) -> None: ...

class AdvanceResponse(_message.Message):
    __slots__ = ("outcome", "state", "replayed")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[AdvanceResponse.Outcome]
        OUTCOME_ADVANCED: _ClassVar[AdvanceResponse.Outcome]
        OUTCOME_CONFLICT: _ClassVar[AdvanceResponse.Outcome]
        OUTCOME_CEILING: _ClassVar[AdvanceResponse.Outcome]
    OUTCOME_UNSPECIFIED: AdvanceResponse.Outcome
    OUTCOME_ADVANCED: AdvanceResponse.Outcome
    OUTCOME_CONFLICT: AdvanceResponse.Outcome
    OUTCOME_CEILING: AdvanceResponse.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    outcome: AdvanceResponse.Outcome
    state: ConversationState
    replayed: bool
    def __init__(self, outcome: _Optional[_Union[AdvanceResponse.Outcome, str]] = ..., state: _Optional[_Union[ConversationState, _Mapping]] = ..., replayed: bool = ...) -> None: ...

class TouchConversationRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "id", "ttl")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    id: str
    ttl: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class TouchConversationResponse(_message.Message):
    __slots__ = ("state", "replayed")
    STATE_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    state: ConversationState
    replayed: bool
    def __init__(self, state: _Optional[_Union[ConversationState, _Mapping]] = ..., replayed: bool = ...) -> None: ...

class ResetConversationRequest(_message.Message):
    __slots__ = ("namespace", "request_id", "id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    request_id: str
    id: str
    def __init__(self, namespace: _Optional[str] = ..., request_id: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class ResetConversationResponse(_message.Message):
    __slots__ = ("existed", "replayed")
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    existed: bool
    replayed: bool
    def __init__(self, existed: bool = ..., replayed: bool = ...) -> None: ...

class ListConversationsRequest(_message.Message):
    __slots__ = ("namespace", "cursor", "limit")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    cursor: str
    limit: int
    def __init__(self, namespace: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ConversationSummary(_message.Message):
    __slots__ = ("id", "step", "version", "started_at", "updated_at", "expires_at", "ends_at", "fields", "bytes")
    ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    id: str
    step: str
    version: int
    started_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    ends_at: _timestamp_pb2.Timestamp
    fields: int
    bytes: int
    def __init__(self, id: _Optional[str] = ..., step: _Optional[str] = ..., version: _Optional[int] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ends_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., fields: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class ListConversationsResponse(_message.Message):
    __slots__ = ("conversations", "cursor")
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    conversations: _containers.RepeatedCompositeFieldContainer[ConversationSummary]
    cursor: str
    def __init__(self, conversations: _Optional[_Iterable[_Union[ConversationSummary, _Mapping]]] = ..., cursor: _Optional[str] = ...) -> None: ...
