"""One exception tree. An error means that a call could not be decided; an expected "no" is an outcome, never an exception."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from ._core.reasons import HINTS, RETRYABLE

_RFC_3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)")


class PannierError(Exception):
    """A failed call. Its text never holds an id, a name or a value of yours."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        reason: str,
        metadata: Mapping[str, str] | None = None,
        retry_after: timedelta | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        #: Name of a gRPC status, such as `UNAVAILABLE`.
        self.code = code
        #: Why, for a program, such as `FENCED` or `SESSION_HELD`; all of them are in docs/errors.md.
        self.reason = reason
        #: What belongs to the reason, such as `owner` and `until` of SESSION_HELD.
        self.metadata: Mapping[str, str] = dict(metadata or {})
        #: Wait at least this long before trying again, if the sidecar said so.
        self.retry_after = retry_after
        #: The wrong field of the request, of INVALID_ARGUMENT.
        self.field = field

    @property
    def retryable(self) -> bool:
        """The same call may succeed later."""
        return self.reason in RETRYABLE

    @property
    def hint(self) -> str | None:
        """What to do next, for a person."""
        return HINTS.get(self.reason)

    @property
    def outcome_unknown(self) -> bool:
        """A write may have happened all the same: repeat it with the same id, key or send_id."""
        return self.metadata.get("outcome_unknown") == "true"

    def __str__(self) -> str:
        hint = f" {self.hint}" if self.hint else ""
        return f"{self.message} [{self.reason}]{hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), dict(self.__dict__))


def _again(kind: type[PannierError], fields: dict[str, object]) -> PannierError:
    """An error that comes from another process, such as one of `multiprocessing`."""
    error = kind.__new__(kind)
    error.__dict__.update(fields)
    error.args = (fields.get("message"),)
    return error


class BadRequestError(PannierError):
    """INVALID_ARGUMENT: `field` names what is wrong. Nothing was written."""


class TooLargeError(BadRequestError):
    """TOO_LARGE: a value, message or commit is over its limit."""


class NotFoundError(PannierError):
    """NOT_FOUND: there is no such session, archive, blob, cap policy or job."""


class FencedError(PannierError):
    """FENCED: a newer owner, or a deletion, came between. Final for this handle."""


class RevisionConflictError(PannierError):
    """REVISION_CONFLICT: a compare-and-set lost; nothing was written."""


class SessionHeldError(PannierError):
    """SESSION_HELD: another owner's lease is live."""

    @property
    def owner(self) -> str | None:
        """Who holds it, if known."""
        return self.metadata.get("owner")

    @property
    def until(self) -> datetime | None:
        """When that lease runs out, if known."""
        told = _RFC_3339.fullmatch(self.metadata.get("until", ""))
        if told is None:
            return None
        # Python 3.10 wants six digits of a second and no Z.
        fraction, zone = (told[2] or "0")[:6], "+00:00" if told[3] == "Z" else told[3]
        return datetime.fromisoformat(f"{told[1]}.{fraction:0<6}{zone}")


class StaleStateError(PannierError):
    """STALE_STATE: the store is behind what was acknowledged."""


class KeyMismatchError(PannierError):
    """KEY_MISMATCH: the sidecar's keyring is not the one that wrote this."""


class WrongStateError(PannierError):
    """WRONG_STATE: what is there does not allow this."""


class CorruptRecordError(PannierError):
    """CORRUPT_RECORD: a stored record cannot be opened. Never the same as missing."""

    @property
    def type(self) -> str | None:
        """The record's type, if known."""
        return self.metadata.get("type")


class CorruptBlobError(PannierError):
    """CORRUPT_BLOB: what is stored, or what arrived, is not what was saved. Never the same as missing."""


class GenerationGoneError(PannierError):
    """GENERATION_GONE: it is not kept any more; or a save was overtaken by a deletion, a rollback or a restore."""


class ExhaustedError(PannierError):
    """RESOURCE_EXHAUSTED: Valkey is full, or a queue or quota is."""


class UnavailableError(PannierError):
    """UNAVAILABLE: the sidecar or its Valkey cannot be reached now. Says nothing about what is stored."""


class DeadlineExceededError(PannierError):
    """DEADLINE_EXCEEDED: the call's `timeout` has passed."""


class AccessError(PannierError):
    """UNAUTHENTICATED or PERMISSION_DENIED."""


class ClosedError(PannierError):
    """This process closed the client, session or worker; or it is used in a forked process or from another event loop."""


class SourceError(PannierError):
    """What was to be saved cannot be read, or changed while it was read (SOURCE_CHANGED); nothing was stored."""
