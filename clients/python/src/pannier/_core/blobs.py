"""Blobs: what is known of them, and the unary calls. A blob is a name and its generations; a save is visible whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from .._gen import blob_pb2 as pb
from . import limits, wire
from .admin import Durability, durability
from .call import Call, call
from .faults import bad_field, too_large

_SERVICE = "BlobService"
SAVE = f"/pannier.v1.{_SERVICE}/SaveBlob"
FETCH = f"/pannier.v1.{_SERVICE}/FetchBlob"
NAME_MAX = 256
DIGEST_MAX = 64

#: `current`: what `fetch` gives. `kept`: `rollback` can make it the current one. `deleted`: part of an archive that `restore` can bring
#: back until `gone_at`. `dropped`: has fallen out, can still be fetched by its number until about `gone_at`.
GenerationState = Literal["current", "kept", "deleted", "dropped"]
_STATES: tuple[GenerationState, ...] = ("current", "kept", "deleted", "dropped")


@dataclass(frozen=True)
class BlobInfo:
    """One generation of a blob."""

    namespace: str
    blob: str
    #: Rising, never used twice.
    generation: int
    #: Which life of the blob it belongs to: a new one begins with the first save, and with that after a deletion.
    incarnation: int
    state: GenerationState
    #: Bytes.
    size: int
    #: Of the whole content; 32 bytes.
    sha256: bytes
    #: As it was given with the save.
    content_digest: bytes
    #: When it became visible.
    saved_at: datetime | None
    #: As they were given with the save.
    labels: Mapping[str, str]
    #: Bytes in Valkey.
    stored_bytes: int
    #: Of `deleted` and `dropped`.
    gone_at: datetime | None


@dataclass(frozen=True)
class BlobArchive:
    """A soft-deleted life of a blob. It is unlinked for good at `purge_at`, 7 days after `deleted_at`."""

    namespace: str
    blob: str
    incarnation: int
    #: The one that was the current one.
    generation: int
    #: Its size in bytes.
    size: int
    #: How many generations it holds.
    generations: int
    deleted_at: datetime | None
    purge_at: datetime | None


@dataclass(frozen=True)
class BlobError:
    """A save or fetch that failed."""

    reason: str
    message: str
    at: datetime | None


@dataclass(frozen=True)
class BlobStatus:
    """What is known of a blob."""

    #: The current generation; None if there is no such blob.
    blob: BlobInfo | None
    #: The last save or fetch that failed, for 7 days; a later success does not hide it.
    last_error: BlobError | None
    #: What `restore` can bring back, newest first.
    archives: tuple[BlobArchive, ...]
    #: Uploads in progress, or not yet given up.
    uploads: int


@dataclass(frozen=True)
class SaveResult:
    """A save that is done. `unchanged`: the current generation has this content already; nothing was stored."""

    outcome: Literal["saved", "unchanged"]
    #: The new generation, or the current one.
    blob: BlobInfo
    durability: Durability


def header(
    namespace: str, blob: str, request_id: str, content_digest: bytes | None, labels: Mapping[str, str] | None, fence: int | None
) -> pb.SaveBlobHeader:
    """The head of a save."""
    if content_digest is not None and not isinstance(content_digest, bytes):
        raise bad_field("header.content_digest", "must be bytes")
    if len(content_digest or b"") > DIGEST_MAX:
        raise too_large("header.content_digest", f"must be at most {DIGEST_MAX} bytes")
    return pb.SaveBlobHeader(
        namespace=namespace,
        blob=limits.text("blob", blob, NAME_MAX),
        request_id=request_id,
        content_digest=content_digest or b"",
        labels=labels or {},
        fence=fence or 0,
    )


def fetch(namespace: str, blob: str, generation: int | None) -> bytes:
    """FetchBlobRequest."""
    name = limits.text("blob", blob, NAME_MAX)
    return pb.FetchBlobRequest(namespace=namespace, blob=name, generation=generation or 0).SerializeToString()


def saved(answer: bytes) -> SaveResult:
    """SaveBlobResponse."""
    response = pb.SaveBlobResponse.FromString(answer)
    unchanged = response.outcome == pb.SaveBlobResponse.OUTCOME_UNCHANGED
    return SaveResult("unchanged" if unchanged else "saved", info(response.blob), durability(response.durability))


def stat(namespace: str, blob: str) -> Call[BlobStatus]:
    """StatBlob."""
    request = pb.StatBlobRequest(namespace=namespace, blob=limits.text("blob", blob, NAME_MAX))

    def read(answer: pb.StatBlobResponse) -> BlobStatus:
        error = answer.last_error
        return BlobStatus(
            blob=info(answer.blob) if answer.exists else None,
            last_error=BlobError(error.reason, error.message, wire.instant(error, "at")) if answer.HasField("last_error") else None,
            archives=tuple(map(_archive, answer.archives)),
            uploads=answer.uploads,
        )

    return call(_SERVICE, "StatBlob", request, pb.StatBlobResponse, read, writes=False)


def page(namespace: str, deleted: bool, cursor: str) -> Call[tuple[list[BlobInfo], list[BlobArchive], int, str]]:
    """A page of ListBlobs: blobs, archives, how many cannot be opened, the next cursor."""
    request = pb.ListBlobsRequest(namespace=namespace, cursor=cursor, limit=100, deleted=deleted)

    def read(answer: pb.ListBlobsResponse) -> tuple[list[BlobInfo], list[BlobArchive], int, str]:
        return [info(one) for one in answer.blobs], [_archive(one) for one in answer.archives], answer.corrupt, answer.cursor

    return call(_SERVICE, "ListBlobs", request, pb.ListBlobsResponse, read, writes=False)


def generations(namespace: str, blob: str) -> Call[list[BlobInfo]]:
    """ListGenerations."""
    request = pb.ListGenerationsRequest(namespace=namespace, blob=limits.text("blob", blob, NAME_MAX))

    def read(answer: pb.ListGenerationsResponse) -> list[BlobInfo]:
        return [info(one) for one in answer.generations]

    return call(_SERVICE, "ListGenerations", request, pb.ListGenerationsResponse, read, writes=False)


def rollback(namespace: str, blob: str, generation: int, fence: int | None) -> Call[BlobInfo]:
    """RollbackBlob."""
    request = pb.RollbackBlobRequest(
        namespace=namespace,
        blob=limits.text("blob", blob, NAME_MAX),
        generation=limits.count("generation", generation, 1, 2**63 - 1),
        fence=fence or 0,
    )
    return call(_SERVICE, "RollbackBlob", request, pb.RollbackBlobResponse, lambda a: info(a.blob), writes=True)


def delete(namespace: str, blob: str, shred: bool, incarnation: int, fence: int | None) -> Call[bool]:
    """DeleteBlob."""
    mode = pb.DeleteBlobRequest.MODE_SHRED if shred else pb.DeleteBlobRequest.MODE_SOFT
    request = pb.DeleteBlobRequest(
        namespace=namespace, blob=limits.text("blob", blob, NAME_MAX), mode=mode, incarnation=incarnation, fence=fence or 0
    )
    return call(_SERVICE, "DeleteBlob", request, pb.DeleteBlobResponse, lambda a: a.deleted, writes=True)


def restore(namespace: str, blob: str, incarnation: int, replace: bool, fence: int | None) -> Call[BlobInfo]:
    """RestoreBlob."""
    request = pb.RestoreBlobRequest(
        namespace=namespace, blob=limits.text("blob", blob, NAME_MAX), incarnation=incarnation, replace=replace, fence=fence or 0
    )
    return call(_SERVICE, "RestoreBlob", request, pb.RestoreBlobResponse, lambda a: info(a.blob), writes=True)


def info(blob: pb.BlobInfo) -> BlobInfo:
    """From the wire."""
    return BlobInfo(
        namespace=blob.namespace,
        blob=blob.blob,
        generation=blob.generation,
        incarnation=blob.incarnation,
        state=wire.word(_STATES, blob.state),
        size=blob.size,
        sha256=blob.sha256,
        content_digest=blob.content_digest,
        saved_at=wire.instant(blob, "saved_at"),
        labels=dict(blob.labels),
        stored_bytes=blob.stored_bytes,
        gone_at=wire.instant(blob, "gone_at"),
    )


def _archive(archive: pb.BlobArchive) -> BlobArchive:
    return BlobArchive(
        namespace=archive.namespace,
        blob=archive.blob,
        incarnation=archive.incarnation,
        generation=archive.generation,
        size=archive.size,
        generations=archive.generations,
        deleted_at=wire.instant(archive, "deleted_at"),
        purge_at=wire.instant(archive, "purge_at"),
    )
