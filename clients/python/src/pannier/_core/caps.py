"""Caps: how much may be sent, what can come of asking, and the calls."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from .._gen import cap_pb2 as pb
from . import limits, wire
from .call import Call, call
from .policies import COUNT_MAX, CapPolicy, Preset, Rule, Scope, from_wire, to_wire

_SERVICE = "CapService"
POLICIES_MAX = 8
UNIT_MAX = 1_000_000
_OUTCOMES = ("allowed", "denied", "never", "replayed", "mismatch")
_CONFIRM: tuple[Literal["confirmed", "lapsed", "unknown"], ...] = ("confirmed", "lapsed", "unknown")
_REFUND: tuple[Literal["refunded", "lapsed", "unknown"], ...] = ("refunded", "lapsed", "unknown")


@dataclass(frozen=True)
class CapUsage:
    """How a policy stands, right after what was asked."""

    policy: str
    #: gcra: the burst. None: unlimited.
    limit: int | None
    #: gcra: what of the burst is used up, rounded up.
    used: int
    #: What could be sent now; of `unique`: to how many new recipients. None: unlimited.
    remaining: int | None
    #: fixed: the window's end. rolling, unique: when the oldest counted send leaves. gcra: when the burst is whole again.
    #: None: nothing is used.
    reset_at: datetime | None


@dataclass(frozen=True)
class Allowed:
    """Send.

    `allowed`: it is counted. `replayed`: this send was allowed before, by another call or by a try of this one whose answer was
    lost, and is counted once; `usage` is that first answer. It does not say that it was sent: that you know best.
    """

    allowed: ClassVar[Literal[True]] = True
    outcome: Literal["allowed", "replayed"]
    #: One for each policy, in the order they were named; none when it failed open.
    usage: tuple[CapUsage, ...]
    #: `reserved`: counted until `reserved_until`, unless confirmed before.
    state: Literal["reserved", "committed"]
    reserved_until: datetime | None
    #: Valkey could not be reached and the policies are `fail_open`: whether it was counted is not known.
    failed_open: bool


@dataclass(frozen=True)
class Denied:
    """Not now: `denied_by` has no room for `retry_after` (exact, rounded up, ≥ 1 ms). Nothing was counted."""

    allowed: ClassVar[Literal[False]] = False
    outcome: ClassVar[Literal["denied"]] = "denied"
    denied_by: str
    retry_after: timedelta


@dataclass(frozen=True)
class Never:
    """Not ever: `n` is more than `denied_by` allows at all."""

    allowed: ClassVar[Literal[False]] = False
    outcome: ClassVar[Literal["never"]] = "never"
    denied_by: str


@dataclass(frozen=True)
class SendMismatch:
    """The send_id was used with another n, recipient, sender, mode or other policies. Nothing was counted."""

    allowed: ClassVar[Literal[False]] = False
    outcome: ClassVar[Literal["mismatch"]] = "mismatch"


ConsumeResult = Allowed | Denied | Never | SendMismatch


@dataclass(frozen=True)
class ConfirmResult:
    """`confirmed`: counted for good, also when it was already. `lapsed`: the reservation had run out or was refunded.
    `unknown`: no such send is remembered."""

    outcome: Literal["confirmed", "lapsed", "unknown"]


@dataclass(frozen=True)
class RefundResult:
    """`refunded`: given back, also when it had been before (only the first counts). `lapsed`: the reservation had run out.
    `unknown`: no such send is remembered."""

    outcome: Literal["refunded", "lapsed", "unknown"]


@dataclass(frozen=True)
class PolicyPeek:
    """What `consume` would find of one policy."""

    usage: CapUsage
    #: `n` is more than it allows at all.
    never: bool
    #: How long `n` would have to wait; 0: not at all.
    retry_after: timedelta
    #: How long the `unit`-th send would have to wait, if asked for. None: longer than 400 days.
    unit_after: timedelta | None


@dataclass(frozen=True)
class PeekResult:
    """What `consume` would find."""

    #: One for each policy, in the order they were named.
    policies: tuple[PolicyPeek, ...]
    #: Until when the recipient's service window is open; None: it is closed.
    service_window_until: datetime | None


def consume(
    namespace: str,
    policies: str | Sequence[str],
    send_id: str,
    recipient: str | None,
    sender: str | None,
    n: int | None,
    reserve: timedelta | bool,
) -> Call[ConsumeResult]:
    """Consume."""
    request = pb.ConsumeRequest(
        namespace=namespace,
        send_id=limits.text("send_id", send_id),
        policies=limits.names("policies", policies, POLICIES_MAX, 128),
        **_who(recipient, sender, n),
    )
    if reserve is not False:
        request.mode = pb.ConsumeRequest.MODE_RESERVE
    if isinstance(reserve, timedelta):
        request.reserve_ttl.CopyFrom(wire.to_duration(limits.span("reserve_ttl", reserve, limits.DAY) or reserve))
    return call(_SERVICE, "Consume", request, pb.ConsumeResponse, _consumed, writes=True)


def confirm(namespace: str, send_id: str) -> Call[ConfirmResult]:
    """Confirm."""
    request = pb.ConfirmRequest(namespace=namespace, request_id=str(uuid.uuid4()), send_id=limits.text("send_id", send_id))

    def read(answer: pb.ConfirmResponse) -> ConfirmResult:
        return ConfirmResult(wire.word(_CONFIRM, answer.outcome))

    return call(_SERVICE, "Confirm", request, pb.ConfirmResponse, read, writes=True)


def refund(namespace: str, send_id: str) -> Call[RefundResult]:
    """Refund."""
    request = pb.RefundRequest(namespace=namespace, request_id=str(uuid.uuid4()), send_id=limits.text("send_id", send_id))

    def read(answer: pb.RefundResponse) -> RefundResult:
        return RefundResult(wire.word(_REFUND, answer.outcome))

    return call(_SERVICE, "Refund", request, pb.RefundResponse, read, writes=True)


def peek(
    namespace: str,
    policies: str | Sequence[str],
    recipient: str | None,
    sender: str | None,
    n: int | None,
    unit: int | None,
) -> Call[PeekResult]:
    """Peek."""
    request = pb.PeekRequest(
        namespace=namespace,
        policies=limits.names("policies", policies, POLICIES_MAX, 128),
        unit=0 if unit is None else limits.count("unit", unit, 1, UNIT_MAX),
        **_who(recipient, sender, n),
    )

    def read(answer: pb.PeekResponse) -> PeekResult:
        return PeekResult(tuple(map(_peek, answer.policies)), wire.instant(answer, "service_window_until"))

    return call(_SERVICE, "Peek", request, pb.PeekResponse, read, writes=False)


def note_inbound(namespace: str, recipient: str, sender: str | None) -> Call[datetime]:
    """NoteInbound."""
    request = pb.NoteInboundRequest(
        namespace=namespace,
        request_id=str(uuid.uuid4()),
        recipient=limits.text("recipient", recipient),
        sender="" if sender is None else limits.text("sender", sender),
    )
    return call(
        _SERVICE,
        "NoteInbound",
        request,
        pb.NoteInboundResponse,
        lambda a: wire.to_datetime(a.open_until),
        writes=True,
    )


def set_policy(namespace: str, name: str, rule: Rule | Preset, scope: Scope | None, fail_open: bool) -> Call[tuple[CapPolicy, bool]]:
    """SetPolicy: the policy, and whether there was none."""
    request = pb.SetPolicyRequest(namespace=namespace, request_id=str(uuid.uuid4()), policy=to_wire(name, rule, scope, fail_open))
    return call(_SERVICE, "SetPolicy", request, pb.SetPolicyResponse, lambda a: (from_wire(a.policy), a.created), writes=True)


def get_policy(namespace: str, name: str) -> Call[CapPolicy]:
    """GetPolicy."""
    request = pb.GetPolicyRequest(namespace=namespace, name=limits.text("name", name, 128))
    return call(_SERVICE, "GetPolicy", request, pb.GetPolicyResponse, lambda a: from_wire(a.policy), writes=False)


def list_policies(namespace: str) -> Call[tuple[list[CapPolicy], int]]:
    """ListPolicies: by name, and how many more cannot be opened."""
    request = pb.ListPoliciesRequest(namespace=namespace)

    def read(answer: pb.ListPoliciesResponse) -> tuple[list[CapPolicy], int]:
        return [from_wire(policy) for policy in answer.policies], answer.corrupt

    return call(_SERVICE, "ListPolicies", request, pb.ListPoliciesResponse, read, writes=False)


def delete_policy(namespace: str, name: str, revision: int | None) -> Call[bool]:
    """DeletePolicy."""
    request = pb.DeletePolicyRequest(namespace=namespace, name=limits.text("name", name, 128), revision=revision or 0)
    return call(_SERVICE, "DeletePolicy", request, pb.DeletePolicyResponse, lambda a: a.deleted, writes=True)


def _who(recipient: str | None, sender: str | None, n: int | None) -> dict[str, Any]:
    return wire.given(
        recipient=None if recipient is None else limits.text("recipient", recipient),
        sender=None if sender is None else limits.text("sender", sender),
        n=None if n is None else limits.count("n", n, 1, COUNT_MAX),
    )


def _consumed(answer: pb.ConsumeResponse) -> ConsumeResult:
    match wire.word(_OUTCOMES, answer.outcome):
        case "allowed" | "replayed" as outcome:
            return Allowed(
                outcome="allowed" if outcome == "allowed" else "replayed",
                usage=tuple(map(_usage, answer.usage)),
                # Failed open, it is in no state.
                state="reserved" if answer.state == pb.ConsumeResponse.SEND_STATE_RESERVED else "committed",
                reserved_until=wire.instant(answer, "reserved_until"),
                failed_open=answer.failed_open,
            )
        case "denied":
            return Denied(answer.denied_by, wire.to_timedelta(answer.retry_after))
        case "never":
            return Never(answer.denied_by)
        case _:
            return SendMismatch()


def _usage(usage: pb.CapUsage) -> CapUsage:
    unlimited = usage.limit == 0
    return CapUsage(
        policy=usage.policy,
        limit=None if unlimited else usage.limit,
        used=usage.used,
        remaining=None if unlimited else usage.remaining,
        reset_at=wire.instant(usage, "reset_at"),
    )


def _peek(peek: pb.CapPeek) -> PolicyPeek:
    return PolicyPeek(_usage(peek.usage), peek.never, wire.to_timedelta(peek.retry_after), wire.span(peek, "unit_after"))
