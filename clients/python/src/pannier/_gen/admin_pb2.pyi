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

class KeyState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KEY_STATE_UNSPECIFIED: _ClassVar[KeyState]
    KEY_STATE_PRIMARY: _ClassVar[KeyState]
    KEY_STATE_DECRYPT_ONLY: _ClassVar[KeyState]
    KEY_STATE_DISABLED: _ClassVar[KeyState]
KEY_STATE_UNSPECIFIED: KeyState
KEY_STATE_PRIMARY: KeyState
KEY_STATE_DECRYPT_ONLY: KeyState
KEY_STATE_DISABLED: KeyState

class ServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServerInfoResponse(_message.Message):
    __slots__ = ("version", "engine", "engine_version", "topology", "env", "durability", "primary_key_id", "key_ids", "connections", "uptime", "attached_sessions", "tzdb", "store_id")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_KEY_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_IDS_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    TZDB_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    version: str
    engine: str
    engine_version: str
    topology: str
    env: str
    durability: _session_pb2.Durability
    primary_key_id: int
    key_ids: _containers.RepeatedScalarFieldContainer[int]
    connections: int
    uptime: _duration_pb2.Duration
    attached_sessions: int
    tzdb: str
    store_id: str
    def __init__(self, version: _Optional[str] = ..., engine: _Optional[str] = ..., engine_version: _Optional[str] = ..., topology: _Optional[str] = ..., env: _Optional[str] = ..., durability: _Optional[_Union[_session_pb2.Durability, str]] = ..., primary_key_id: _Optional[int] = ..., key_ids: _Optional[_Iterable[int]] = ..., connections: _Optional[int] = ..., uptime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., attached_sessions: _Optional[int] = ..., tzdb: _Optional[str] = ..., store_id: _Optional[str] = ...) -> None: ...

class KeyStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KeyStatusResponse(_message.Message):
    __slots__ = ("keys", "damaged")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[KeyUse]
    damaged: int
    def __init__(self, keys: _Optional[_Iterable[_Union[KeyUse, _Mapping]]] = ..., damaged: _Optional[int] = ...) -> None: ...

class KeyUse(_message.Message):
    __slots__ = ("id", "state", "owners", "sessions", "archives", "blobs", "namespaces")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    ARCHIVES_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    id: int
    state: KeyState
    owners: int
    sessions: int
    archives: int
    blobs: int
    namespaces: int
    def __init__(self, id: _Optional[int] = ..., state: _Optional[_Union[KeyState, str]] = ..., owners: _Optional[int] = ..., sessions: _Optional[int] = ..., archives: _Optional[int] = ..., blobs: _Optional[int] = ..., namespaces: _Optional[int] = ...) -> None: ...

class ListSidecarsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSidecarsResponse(_message.Message):
    __slots__ = ("sidecars",)
    SIDECARS_FIELD_NUMBER: _ClassVar[int]
    sidecars: _containers.RepeatedCompositeFieldContainer[SidecarInfo]
    def __init__(self, sidecars: _Optional[_Iterable[_Union[SidecarInfo, _Mapping]]] = ...) -> None: ...

class SidecarInfo(_message.Message):
    __slots__ = ("id", "name", "version", "started_at", "seen_at", "keys", "own")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    SEEN_AT_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    version: str
    started_at: _timestamp_pb2.Timestamp
    seen_at: _timestamp_pb2.Timestamp
    keys: _containers.RepeatedCompositeFieldContainer[SidecarKey]
    own: bool
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., version: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., seen_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., keys: _Optional[_Iterable[_Union[SidecarKey, _Mapping]]] = ..., own: bool = ...) -> None: ...

class SidecarKey(_message.Message):
    __slots__ = ("id", "state")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    id: int
    state: KeyState
    def __init__(self, id: _Optional[int] = ..., state: _Optional[_Union[KeyState, str]] = ...) -> None: ...

class RewrapRequest(_message.Message):
    __slots__ = ("owners_per_second",)
    OWNERS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    owners_per_second: int
    def __init__(self, owners_per_second: _Optional[int] = ...) -> None: ...

class RewrapResponse(_message.Message):
    __slots__ = ("key_id", "total", "looked_at", "moved", "skipped", "failed", "failures", "done", "elapsed")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    key_id: int
    total: int
    looked_at: int
    moved: int
    skipped: int
    failed: int
    failures: _containers.RepeatedCompositeFieldContainer[RewrapFailure]
    done: bool
    elapsed: _duration_pb2.Duration
    def __init__(self, key_id: _Optional[int] = ..., total: _Optional[int] = ..., looked_at: _Optional[int] = ..., moved: _Optional[int] = ..., skipped: _Optional[int] = ..., failed: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[RewrapFailure, _Mapping]]] = ..., done: bool = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RewrapFailure(_message.Message):
    __slots__ = ("kind", "namespace", "name", "reason", "message")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class DoctorRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DoctorResponse(_message.Message):
    __slots__ = ("findings",)
    class Finding(_message.Message):
        __slots__ = ("section", "check", "level", "found", "next")
        class Level(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            LEVEL_UNSPECIFIED: _ClassVar[DoctorResponse.Finding.Level]
            LEVEL_OK: _ClassVar[DoctorResponse.Finding.Level]
            LEVEL_WARN: _ClassVar[DoctorResponse.Finding.Level]
            LEVEL_FAIL: _ClassVar[DoctorResponse.Finding.Level]
            LEVEL_UNKNOWN: _ClassVar[DoctorResponse.Finding.Level]
        LEVEL_UNSPECIFIED: DoctorResponse.Finding.Level
        LEVEL_OK: DoctorResponse.Finding.Level
        LEVEL_WARN: DoctorResponse.Finding.Level
        LEVEL_FAIL: DoctorResponse.Finding.Level
        LEVEL_UNKNOWN: DoctorResponse.Finding.Level
        SECTION_FIELD_NUMBER: _ClassVar[int]
        CHECK_FIELD_NUMBER: _ClassVar[int]
        LEVEL_FIELD_NUMBER: _ClassVar[int]
        FOUND_FIELD_NUMBER: _ClassVar[int]
        NEXT_FIELD_NUMBER: _ClassVar[int]
        section: str
        check: str
        level: DoctorResponse.Finding.Level
        found: str
        next: str
        def __init__(self, section: _Optional[str] = ..., check: _Optional[str] = ..., level: _Optional[_Union[DoctorResponse.Finding.Level, str]] = ..., found: _Optional[str] = ..., next: _Optional[str] = ...) -> None: ...
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    findings: _containers.RepeatedCompositeFieldContainer[DoctorResponse.Finding]
    def __init__(self, findings: _Optional[_Iterable[_Union[DoctorResponse.Finding, _Mapping]]] = ...) -> None: ...
