import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from pannier._gen import session_pb2 as _session_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GenerationState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GENERATION_STATE_UNSPECIFIED: _ClassVar[GenerationState]
    GENERATION_STATE_CURRENT: _ClassVar[GenerationState]
    GENERATION_STATE_KEPT: _ClassVar[GenerationState]
    GENERATION_STATE_DELETED: _ClassVar[GenerationState]
    GENERATION_STATE_DROPPED: _ClassVar[GenerationState]
GENERATION_STATE_UNSPECIFIED: GenerationState
GENERATION_STATE_CURRENT: GenerationState
GENERATION_STATE_KEPT: GenerationState
GENERATION_STATE_DELETED: GenerationState
GENERATION_STATE_DROPPED: GenerationState

class BlobInfo(_message.Message):
    __slots__ = ("namespace", "blob", "generation", "incarnation", "state", "size", "sha256", "content_digest", "saved_at", "labels", "stored_bytes", "gone_at")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    CONTENT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SAVED_AT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    GONE_AT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    blob: str
    generation: int
    incarnation: int
    state: GenerationState
    size: int
    sha256: bytes
    content_digest: bytes
    saved_at: _timestamp_pb2.Timestamp
    labels: _containers.ScalarMap[str, str]
    stored_bytes: int
    gone_at: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., blob: _Optional[str] = ..., generation: _Optional[int] = ..., incarnation: _Optional[int] = ..., state: _Optional[_Union[GenerationState, str]] = ..., size: _Optional[int] = ..., sha256: _Optional[bytes] = ..., content_digest: _Optional[bytes] = ..., saved_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., stored_bytes: _Optional[int] = ..., gone_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class BlobChunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class SaveBlobRequest(_message.Message):
    __slots__ = ("header", "chunk", "finish")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    header: SaveBlobHeader
    chunk: BlobChunk
    finish: SaveBlobFinish
    def __init__(self, header: _Optional[_Union[SaveBlobHeader, _Mapping]] = ..., chunk: _Optional[_Union[BlobChunk, _Mapping]] = ..., finish: _Optional[_Union[SaveBlobFinish, _Mapping]] = ...) -> None: ...

class SaveBlobHeader(_message.Message):
    __slots__ = ("namespace", "blob", "request_id", "content_digest", "fence", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    blob: str
    request_id: str
    content_digest: bytes
    fence: int
    labels: _containers.ScalarMap[str, str]
    def __init__(self, namespace: _Optional[str] = ..., blob: _Optional[str] = ..., request_id: _Optional[str] = ..., content_digest: _Optional[bytes] = ..., fence: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SaveBlobFinish(_message.Message):
    __slots__ = ("size", "sha256")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    size: int
    sha256: bytes
    def __init__(self, size: _Optional[int] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class SaveBlobResponse(_message.Message):
    __slots__ = ("outcome", "blob", "replayed", "durability")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[SaveBlobResponse.Outcome]
        OUTCOME_SAVED: _ClassVar[SaveBlobResponse.Outcome]
        OUTCOME_UNCHANGED: _ClassVar[SaveBlobResponse.Outcome]
    OUTCOME_UNSPECIFIED: SaveBlobResponse.Outcome
    OUTCOME_SAVED: SaveBlobResponse.Outcome
    OUTCOME_UNCHANGED: SaveBlobResponse.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    outcome: SaveBlobResponse.Outcome
    blob: BlobInfo
    replayed: bool
    durability: _session_pb2.Durability
    def __init__(self, outcome: _Optional[_Union[SaveBlobResponse.Outcome, str]] = ..., blob: _Optional[_Union[BlobInfo, _Mapping]] = ..., replayed: bool = ..., durability: _Optional[_Union[_session_pb2.Durability, str]] = ...) -> None: ...

class FetchBlobRequest(_message.Message):
    __slots__ = ("namespace", "blob", "generation")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    blob: str
    generation: int
    def __init__(self, namespace: _Optional[str] = ..., blob: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class FetchBlobResponse(_message.Message):
    __slots__ = ("info", "chunk", "finish")
    INFO_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    info: BlobInfo
    chunk: BlobChunk
    finish: FetchBlobFinish
    def __init__(self, info: _Optional[_Union[BlobInfo, _Mapping]] = ..., chunk: _Optional[_Union[BlobChunk, _Mapping]] = ..., finish: _Optional[_Union[FetchBlobFinish, _Mapping]] = ...) -> None: ...

class FetchBlobFinish(_message.Message):
    __slots__ = ("size", "sha256")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    size: int
    sha256: bytes
    def __init__(self, size: _Optional[int] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class StatBlobRequest(_message.Message):
    __slots__ = ("namespace", "blob")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    blob: str
    def __init__(self, namespace: _Optional[str] = ..., blob: _Optional[str] = ...) -> None: ...

class BlobError(_message.Message):
    __slots__ = ("reason", "message", "at")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    at: _timestamp_pb2.Timestamp
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class StatBlobResponse(_message.Message):
    __slots__ = ("exists", "blob", "last_error", "archives", "uploads")
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    ARCHIVES_FIELD_NUMBER: _ClassVar[int]
    UPLOADS_FIELD_NUMBER: _ClassVar[int]
    exists: bool
    blob: BlobInfo
    last_error: BlobError
    archives: _containers.RepeatedCompositeFieldContainer[BlobArchive]
    uploads: int
    def __init__(self, exists: bool = ..., blob: _Optional[_Union[BlobInfo, _Mapping]] = ..., last_error: _Optional[_Union[BlobError, _Mapping]] = ..., archives: _Optional[_Iterable[_Union[BlobArchive, _Mapping]]] = ..., uploads: _Optional[int] = ...) -> None: ...

class ListBlobsRequest(_message.Message):
    __slots__ = ("namespace", "cursor", "limit", "deleted")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    cursor: str
    limit: int
    deleted: bool
    def __init__(self, namespace: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., deleted: bool = ...) -> None: ...

class ListBlobsResponse(_message.Message):
    __slots__ = ("blobs", "archives", "cursor", "corrupt")
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    ARCHIVES_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    blobs: _containers.RepeatedCompositeFieldContainer[BlobInfo]
    archives: _containers.RepeatedCompositeFieldContainer[BlobArchive]
    cursor: str
    corrupt: int
    def __init__(self, blobs: _Optional[_Iterable[_Union[BlobInfo, _Mapping]]] = ..., archives: _Optional[_Iterable[_Union[BlobArchive, _Mapping]]] = ..., cursor: _Optional[str] = ..., corrupt: _Optional[int] = ...) -> None: ...

class ListGenerationsRequest(_message.Message):
    __slots__ = ("namespace", "blob")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    blob: str
    def __init__(self, namespace: _Optional[str] = ..., blob: _Optional[str] = ...) -> None: ...

class ListGenerationsResponse(_message.Message):
    __slots__ = ("generations", "corrupt")
    GENERATIONS_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_FIELD_NUMBER: _ClassVar[int]
    generations: _containers.RepeatedCompositeFieldContainer[BlobInfo]
    corrupt: int
    def __init__(self, generations: _Optional[_Iterable[_Union[BlobInfo, _Mapping]]] = ..., corrupt: _Optional[int] = ...) -> None: ...

class RollbackBlobRequest(_message.Message):
    __slots__ = ("namespace", "blob", "generation", "fence")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    blob: str
    generation: int
    fence: int
    def __init__(self, namespace: _Optional[str] = ..., blob: _Optional[str] = ..., generation: _Optional[int] = ..., fence: _Optional[int] = ...) -> None: ...

class RollbackBlobResponse(_message.Message):
    __slots__ = ("blob",)
    BLOB_FIELD_NUMBER: _ClassVar[int]
    blob: BlobInfo
    def __init__(self, blob: _Optional[_Union[BlobInfo, _Mapping]] = ...) -> None: ...

class BlobArchive(_message.Message):
    __slots__ = ("namespace", "blob", "incarnation", "generation", "size", "generations", "deleted_at", "purge_at")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    GENERATIONS_FIELD_NUMBER: _ClassVar[int]
    DELETED_AT_FIELD_NUMBER: _ClassVar[int]
    PURGE_AT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    blob: str
    incarnation: int
    generation: int
    size: int
    generations: int
    deleted_at: _timestamp_pb2.Timestamp
    purge_at: _timestamp_pb2.Timestamp
    def __init__(self, namespace: _Optional[str] = ..., blob: _Optional[str] = ..., incarnation: _Optional[int] = ..., generation: _Optional[int] = ..., size: _Optional[int] = ..., generations: _Optional[int] = ..., deleted_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., purge_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DeleteBlobRequest(_message.Message):
    __slots__ = ("namespace", "blob", "mode", "incarnation", "fence")
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MODE_UNSPECIFIED: _ClassVar[DeleteBlobRequest.Mode]
        MODE_SOFT: _ClassVar[DeleteBlobRequest.Mode]
        MODE_SHRED: _ClassVar[DeleteBlobRequest.Mode]
    MODE_UNSPECIFIED: DeleteBlobRequest.Mode
    MODE_SOFT: DeleteBlobRequest.Mode
    MODE_SHRED: DeleteBlobRequest.Mode
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    blob: str
    mode: DeleteBlobRequest.Mode
    incarnation: int
    fence: int
    def __init__(self, namespace: _Optional[str] = ..., blob: _Optional[str] = ..., mode: _Optional[_Union[DeleteBlobRequest.Mode, str]] = ..., incarnation: _Optional[int] = ..., fence: _Optional[int] = ...) -> None: ...

class DeleteBlobResponse(_message.Message):
    __slots__ = ("deleted", "archive", "oldest_archive_dropped")
    DELETED_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_FIELD_NUMBER: _ClassVar[int]
    OLDEST_ARCHIVE_DROPPED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    archive: BlobArchive
    oldest_archive_dropped: bool
    def __init__(self, deleted: bool = ..., archive: _Optional[_Union[BlobArchive, _Mapping]] = ..., oldest_archive_dropped: bool = ...) -> None: ...

class RestoreBlobRequest(_message.Message):
    __slots__ = ("namespace", "blob", "incarnation", "replace", "fence")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    blob: str
    incarnation: int
    replace: bool
    fence: int
    def __init__(self, namespace: _Optional[str] = ..., blob: _Optional[str] = ..., incarnation: _Optional[int] = ..., replace: bool = ..., fence: _Optional[int] = ...) -> None: ...

class RestoreBlobResponse(_message.Message):
    __slots__ = ("blob", "oldest_archive_dropped")
    BLOB_FIELD_NUMBER: _ClassVar[int]
    OLDEST_ARCHIVE_DROPPED_FIELD_NUMBER: _ClassVar[int]
    blob: BlobInfo
    oldest_archive_dropped: bool
    def __init__(self, blob: _Optional[_Union[BlobInfo, _Mapping]] = ..., oldest_archive_dropped: bool = ...) -> None: ...
