"""Claims: what can come of them, and the calls. A message is handled once, and not lost between the claim and the work."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, Literal, TypeVar

from .._gen import dedup_pb2 as pb
from . import limits, values, wire
from .call import Call, call
from .faults import bad_field, too_large
from .values import Value

_SERVICE = "DedupService"
RESULT_MAX = 4096
FINGERPRINT_MAX = 512
BATCH_MAX = 100
#: How long the work may take unless told otherwise.
IN_PROGRESS = timedelta(seconds=30)
TOO_LATE = "the claim could not be extended in time: another may have taken it over"
TAKEN = "the claim was taken over"
_OUTCOMES = ("new", "takeover", "in_progress", "duplicate", "mismatch")

C = TypeVar("C")
R = TypeVar("R")


@dataclass(frozen=True)
class InProgress:
    """Somebody is at it. It can be taken over in `retry_after` at the earliest (exact, rounded up to a millisecond)."""

    claimed: ClassVar[Literal[False]] = False
    outcome: ClassVar[Literal["in_progress"]] = "in_progress"
    retry_after: timedelta


@dataclass(frozen=True)
class Duplicate:
    """It was done."""

    claimed: ClassVar[Literal[False]] = False
    outcome: ClassVar[Literal["duplicate"]] = "duplicate"
    #: What `complete` was given; None if nothing.
    result: Any = field(repr=False)
    #: When the key is free again, by the server's clock.
    expires_at: datetime | None


@dataclass(frozen=True)
class ClaimMismatch:
    """The key was claimed with another fingerprint: two different things share it. Nothing was written."""

    claimed: ClassVar[Literal[False]] = False
    outcome: ClassVar[Literal["mismatch"]] = "mismatch"


@dataclass(frozen=True)
class Ran(Generic[R]):
    """The work ran. `completed`: and is done. `lease_lost`: another had taken the claim over meanwhile."""

    claimed: ClassVar[Literal[True]] = True
    outcome: Literal["completed", "lease_lost"]
    #: What the work gave.
    value: R


@dataclass(frozen=True)
class CompleteResult:
    """`lease_lost`: another had taken the claim over, or it was released or forgotten; nothing was written."""

    outcome: Literal["completed", "lease_lost"]
    #: When the key is free again.
    expires_at: datetime | None


@dataclass(frozen=True)
class ExtendResult:
    """`lease_lost`: it was completed, taken over, released or forgotten."""

    outcome: Literal["extended", "lease_lost"]
    #: When another may take it over.
    expires_at: datetime | None


@dataclass(frozen=True)
class ReleaseResult:
    """`lease_lost`: it was completed, taken over or forgotten."""

    outcome: Literal["released", "lease_lost"]


@dataclass(frozen=True, kw_only=True)
class ClaimItem:
    """One of a batch: as the arguments of `claim`."""

    key: str
    fingerprint: str | bytes | None = None


@dataclass(frozen=True)
class Granted:
    """A claim that came about, before the client makes it one that can be completed."""

    key: str
    outcome: Literal["new", "takeover"]
    fence: int
    expires_at: datetime | None


#: Makes the client's own Claim of it.
Grant = Callable[[Granted], C]


def claim(
    namespace: str,
    key: str,
    fingerprint: str | bytes | None,
    in_progress_ttl: timedelta | None,
    retention: timedelta | None,
    complete: bool,
    grant: Grant[C],
) -> Call[C | InProgress | Duplicate | ClaimMismatch]:
    """Claim."""
    request = pb.ClaimRequest(
        namespace=namespace,
        request_id=str(uuid.uuid4()),
        key=limits.text("key", key),
        fingerprint=_fingerprint("fingerprint", fingerprint),
        complete=complete,
        **_terms(in_progress_ttl, retention),
    )
    return call(_SERVICE, "Claim", request, pb.ClaimResponse, lambda a: _result(key, a, grant), writes=True)


def claim_batch(
    namespace: str,
    items: Sequence[str | ClaimItem],
    in_progress_ttl: timedelta | None,
    retention: timedelta | None,
    grant: Grant[C],
) -> Call[list[C | InProgress | Duplicate | ClaimMismatch]]:
    """ClaimBatch."""
    claims = [ClaimItem(key=item) if isinstance(item, str) else item for item in items]
    limits.batch("items", len(claims), BATCH_MAX)
    request = pb.ClaimBatchRequest(
        namespace=namespace,
        request_id=str(uuid.uuid4()),
        items=[
            pb.ClaimItem(
                key=limits.text(f"items[{n}].key", item.key),
                fingerprint=_fingerprint(f"items[{n}].fingerprint", item.fingerprint),
            )
            for n, item in enumerate(claims)
        ],
        **_terms(in_progress_ttl, retention),
    )
    return call(
        _SERVICE,
        "ClaimBatch",
        request,
        pb.ClaimBatchResponse,
        lambda a: [_result(item.key, one, grant) for item, one in zip(claims, a.items, strict=True)],
        writes=True,
    )


def complete(namespace: str, key: str, fence: int, result: Value, retention: timedelta | None) -> Call[CompleteResult]:
    """CompleteClaim."""
    request = pb.CompleteClaimRequest(
        namespace=namespace,
        request_id=str(uuid.uuid4()),
        key=key,
        fence=fence,
        result=values.encode_present("result", result, RESULT_MAX),
        **_span("retention", limits.span("retention", retention)),
    )

    def read(answer: pb.CompleteClaimResponse) -> CompleteResult:
        return CompleteResult(wire.word(("completed", "lease_lost"), answer.outcome), wire.instant(answer, "expires_at"))

    return call(_SERVICE, "CompleteClaim", request, pb.CompleteClaimResponse, read, writes=True)


def extend(namespace: str, key: str, fence: int, in_progress_ttl: timedelta | None) -> Call[ExtendResult]:
    """ExtendClaim."""
    request = pb.ExtendClaimRequest(
        namespace=namespace, request_id=str(uuid.uuid4()), key=key, fence=fence, **_terms(in_progress_ttl, None)
    )

    def read(answer: pb.ExtendClaimResponse) -> ExtendResult:
        return ExtendResult(wire.word(("extended", "lease_lost"), answer.outcome), wire.instant(answer, "expires_at"))

    return call(_SERVICE, "ExtendClaim", request, pb.ExtendClaimResponse, read, writes=True)


def release(namespace: str, key: str, fence: int) -> Call[ReleaseResult]:
    """ReleaseClaim."""
    request = pb.ReleaseClaimRequest(namespace=namespace, request_id=str(uuid.uuid4()), key=key, fence=fence)
    return call(
        _SERVICE,
        "ReleaseClaim",
        request,
        pb.ReleaseClaimResponse,
        lambda a: ReleaseResult(wire.word(("released", "lease_lost"), a.outcome)),
        writes=True,
    )


def _terms(in_progress_ttl: timedelta | None, retention: timedelta | None) -> dict[str, Any]:
    work = limits.span("in_progress_ttl", in_progress_ttl, limits.DAY)
    return {**_span("in_progress_ttl", work), **_span("retention", limits.span("retention", retention))}


def _span(name: str, value: timedelta | None) -> dict[str, Any]:
    return {} if value is None else {name: wire.to_duration(value)}


def _fingerprint(name: str, value: str | bytes | None) -> bytes:
    if value is None:
        return b""
    data = value.encode() if isinstance(value, str) else value
    if not isinstance(data, bytes):
        raise bad_field(name, "must be a str or bytes")
    if len(data) > FINGERPRINT_MAX:
        raise too_large(name, f"must be at most {FINGERPRINT_MAX} bytes")
    return data


def _result(key: str, answer: pb.ClaimResponse, grant: Grant[C]) -> C | InProgress | Duplicate | ClaimMismatch:
    match wire.word(_OUTCOMES, answer.outcome):
        case "new" | "takeover" as outcome:
            expires_at = wire.instant(answer, "expires_at")
            return grant(Granted(key, "new" if outcome == "new" else "takeover", answer.fence, expires_at))
        case "in_progress":
            return InProgress(wire.to_timedelta(answer.retry_after))
        case "duplicate":
            return Duplicate(values.decode_present(answer.result), wire.instant(answer, "expires_at"))
        case _:
            return ClaimMismatch()
