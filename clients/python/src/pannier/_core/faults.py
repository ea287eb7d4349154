"""Errors from what comes over the wire, and those that this client makes itself."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import grpc
from google.protobuf.message import DecodeError

from .. import errors as e
from .._gen import status_pb2
from . import wire

_BY_REASON: dict[str, type[e.PannierError]] = {
    "BAD_FIELD": e.BadRequestError,
    "PROTOCOL": e.BadRequestError,
    "TOO_LARGE": e.TooLargeError,
    "SESSION_NOT_FOUND": e.NotFoundError,
    "ARCHIVE_NOT_FOUND": e.NotFoundError,
    "BLOB_NOT_FOUND": e.NotFoundError,
    "POLICY_NOT_FOUND": e.NotFoundError,
    "JOB_NOT_FOUND": e.NotFoundError,
    "FENCED": e.FencedError,
    "REVISION_CONFLICT": e.RevisionConflictError,
    "SESSION_HELD": e.SessionHeldError,
    "STALE_STATE": e.StaleStateError,
    "KEY_MISMATCH": e.KeyMismatchError,
    "WRONG_STATE": e.WrongStateError,
    "CORRUPT_RECORD": e.CorruptRecordError,
    "CORRUPT_BLOB": e.CorruptBlobError,
    "GENERATION_GONE": e.GenerationGoneError,
    "VALKEY_OUT_OF_MEMORY": e.ExhaustedError,
    "TOO_MANY_IN_FLIGHT": e.ExhaustedError,
    "QUOTA": e.ExhaustedError,
    "VALKEY_UNREACHABLE": e.UnavailableError,
    "VALKEY_REFUSES_WRITES": e.UnavailableError,
    "STARTING": e.UnavailableError,
    "DRAINING": e.UnavailableError,
    "STORE_CHANGED": e.UnavailableError,
    "SIDECAR_UNREACHABLE": e.UnavailableError,
    "DEADLINE_EXCEEDED": e.DeadlineExceededError,
    "UNAUTHENTICATED": e.AccessError,
    "PERMISSION_DENIED": e.AccessError,
    "CLOSED": e.ClosedError,
    "FORKED": e.ClosedError,
    "WRONG_LOOP": e.ClosedError,
    "NOT_CONNECTED": e.ClosedError,
    "SOURCE_UNREADABLE": e.SourceError,
    "SOURCE_CHANGED": e.SourceError,
}

# A status without details was not made by the sidecar's handlers but on the way to them.
_REASON_OF_CODE = {
    "UNAVAILABLE": "SIDECAR_UNREACHABLE",
    "CANCELLED": "SIDECAR_UNREACHABLE",
    # A connection that breaks in the middle of an answer.
    "INTERNAL": "SIDECAR_UNREACHABLE",
    "UNKNOWN": "SIDECAR_UNREACHABLE",
}
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}
_DETAILS = "grpc-status-details-bin"


def make(
    code: str,
    reason: str,
    message: str,
    *,
    metadata: dict[str, str] | None = None,
    retry_after: timedelta | None = None,
    field: str | None = None,
) -> e.PannierError:
    """The error for a reason."""
    kind = _BY_REASON.get(reason, e.PannierError)
    return kind(message, code=code, reason=reason, metadata=metadata, retry_after=retry_after, field=field)


def from_status(status: status_pb2.Status) -> e.PannierError:
    """Reads a `google.rpc.Status` as it comes inside streams and in trailers."""
    code = _CODES.get(status.code, "UNKNOWN")
    reason, metadata, field, retry_after = code, {}, None, None
    for detail in status.details:
        name = detail.type_url.rpartition("/")[2]
        if name == "google.rpc.ErrorInfo":
            info = status_pb2.ErrorInfo.FromString(detail.value)
            reason, metadata = info.reason, dict(info.metadata)
        elif name == "google.rpc.BadRequest":
            violations = status_pb2.BadRequest.FromString(detail.value).field_violations
            field = violations[0].field if violations else None
        elif name == "google.rpc.RetryInfo":
            retry_after = wire.to_timedelta(status_pb2.RetryInfo.FromString(detail.value).retry_delay)
    return make(code, reason, status.message, metadata=metadata, retry_after=retry_after, field=field)


def from_grpc(code: grpc.StatusCode | None, details: str | None, trailers: Iterable[tuple[str, str | bytes]] | None) -> e.PannierError:
    """Reads how a call ended."""
    for key, value in trailers or ():
        if key == _DETAILS and isinstance(value, bytes):
            try:
                return from_status(status_pb2.Status.FromString(value))
            except DecodeError:
                # Not ours: the bare code is all there is.
                break
    name = code.name if code is not None else "UNKNOWN"
    return make(name, _REASON_OF_CODE.get(name, name), details or f"the call ended with {name}")


def never_sent(error: e.PannierError) -> bool:
    """No connection came about, so that the sidecar cannot have seen the call."""
    return error.reason == "SIDECAR_UNREACHABLE" and error.message.startswith("failed to connect to all addresses")


def deadline_exceeded(what: str, timeout: float, *, unknown: bool = False, last: e.PannierError | None = None) -> e.PannierError:
    """A wait in this client ended first."""
    why = f"; the last try failed with: {last.message} ({last.reason})" if last else ""
    metadata = {"outcome_unknown": "true"} if unknown else None
    message = f"{what} took longer than {timeout:g} s{why}"
    return make("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", message, metadata=metadata)


def unclear(error: e.PannierError) -> e.PannierError:
    """The same error, of a write that may have happened."""
    metadata = {**error.metadata, "outcome_unknown": "true"}
    again = make(error.code, error.reason, error.message, metadata=metadata, retry_after=error.retry_after, field=error.field)
    again.__cause__ = error
    return again


def bad_field(field: str, what: str) -> e.PannierError:
    """A value that the sidecar would refuse. `field` is the request's, as the sidecar names it."""
    return make("INVALID_ARGUMENT", "BAD_FIELD", f"{field}: {what}", field=field)


def too_large(field: str, what: str) -> e.PannierError:
    """The same, for being too much."""
    return make("INVALID_ARGUMENT", "TOO_LARGE", f"{field}: {what}", field=field)


def closed(what: str) -> e.PannierError:
    """This side closed it."""
    return make("CANCELLED", "CLOSED", f"{what} is closed")


def fenced(message: str) -> e.PannierError:
    """A lease is gone; every later call gets this."""
    return make("ABORTED", "FENCED", message)


def draining() -> e.PannierError:
    """The sidecar goes."""
    return make("UNAVAILABLE", "DRAINING", "the sidecar is stopping")


def corrupt(number: int, kind: str) -> e.PannierError:
    """Some of what a listing found cannot be opened."""
    what = f"{number} of type {kind} cannot be opened" if kind else f"{number} records cannot be opened"
    return make("DATA_LOSS", "CORRUPT_RECORD", what, metadata={"type": kind} if kind else None)


def no_answer() -> e.PannierError:
    """An answer without what it is for."""
    return make("INTERNAL", "INTERNAL", "the sidecar gave no answer")
