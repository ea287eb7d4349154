import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from pannier._gen import session_pb2 as _session_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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
