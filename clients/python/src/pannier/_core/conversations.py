"""Conversations: where each chat is, and the calls."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from .._gen import conversation_pb2 as pb
from . import limits, values, wire
from .call import Call, call
from .faults import bad_field, too_large
from .values import Value

_SERVICE = "ConversationService"
NAME_MAX = 128
FIELDS_MAX = 1000
FIELDS_BYTES_MAX = 256 * 1024
STEPS_MAX = 32
_OUTCOMES: tuple[Literal["advanced", "conflict", "ceiling"], ...] = ("advanced", "conflict", "ceiling")


@dataclass(frozen=True)
class Conversation:
    """Where a chat is. One that is missing, silent for its `ttl` or past its ceiling is idle: `exists` False, never an error."""

    exists: bool
    #: "idle" when it does not exist.
    step: str
    #: What was set so far.
    fields: Mapping[str, Any] = field(repr=False)
    #: Rises with every change, never used twice for an id. 0: idle.
    version: int
    started_at: datetime | None
    #: The last `advance`.
    updated_at: datetime | None
    #: Idle from then on, unless something happens before. By the server's clock.
    expires_at: datetime | None
    #: The ceiling: idle from then on whatever happens. None: no `max_age` was given.
    ends_at: datetime | None


@dataclass(frozen=True)
class AdvanceResult:
    """What became of it, and the state as it is now.

    `advanced`: written. `conflict`: what was expected does not hold; nothing was written. `ceiling`: the conversation had
    reached `max_age` and was ended; nothing was written, the next `advance` begins a new one.
    """

    outcome: Literal["advanced", "conflict", "ceiling"]
    state: Conversation
    #: An earlier try of this very call had done it; `state` may have others' changes, too.
    replayed: bool


@dataclass(frozen=True)
class ConversationSummary:
    """A conversation in a listing: without the values of its fields."""

    id: str = field(repr=False)
    step: str
    version: int
    started_at: datetime | None
    updated_at: datetime | None
    expires_at: datetime | None
    ends_at: datetime | None
    #: How many fields there are.
    fields: int
    #: Bytes of their names and values.
    bytes: int


def get(namespace: str, id: str) -> Call[Conversation]:
    """GetConversation."""
    request = pb.GetConversationRequest(namespace=namespace, id=limits.text("id", id))
    return call(_SERVICE, "GetConversation", request, pb.GetConversationResponse, lambda a: _state(a.state), writes=False)


def advance(
    namespace: str,
    id: str,
    step: str | None,
    fields: Mapping[str, Value] | None,
    *,
    ttl: timedelta | None,
    max_age: timedelta | None,
    expected_version: int | None,
    expected_steps: Sequence[str] | None,
    unset: Iterable[str],
    replace: bool,
) -> Call[AdvanceResult]:
    """Advance."""
    if expected_version is not None and expected_steps is not None:
        raise bad_field("expected_steps", "cannot be given with `expected_version`")
    request = pb.AdvanceRequest(
        namespace=namespace,
        request_id=str(uuid.uuid4()),
        id=limits.text("id", id),
        set=_fields(fields or {}),
        unset=_unset(unset, fields or {}),
        replace=replace,
    )
    if step is not None:
        request.step = limits.text("step", step, NAME_MAX)
    if ttl is not None:
        request.ttl.CopyFrom(wire.to_duration(limits.span("ttl", ttl) or ttl))
    if max_age is not None:
        request.max_age.CopyFrom(wire.to_duration(limits.span("max_age", max_age) or max_age))
    if expected_version is not None:
        request.expected_version = limits.count("expected_version", expected_version, 0, 2**63 - 1)
    if expected_steps is not None:
        steps = [expected_steps] if isinstance(expected_steps, str) else list(expected_steps)
        if not 1 <= len(steps) <= STEPS_MAX:
            raise bad_field("expected_steps", f"must be 1..{STEPS_MAX}")
        named = [limits.text(f"expected_steps.steps[{n}]", one, NAME_MAX) for n, one in enumerate(steps)]
        request.expected_steps.CopyFrom(pb.ExpectedSteps(steps=named))

    def read(answer: pb.AdvanceResponse) -> AdvanceResult:
        return AdvanceResult(wire.word(_OUTCOMES, answer.outcome), _state(answer.state), answer.replayed)

    return call(_SERVICE, "Advance", request, pb.AdvanceResponse, read, writes=True)


def touch(namespace: str, id: str, ttl: timedelta | None) -> Call[Conversation]:
    """TouchConversation."""
    request = pb.TouchConversationRequest(namespace=namespace, request_id=str(uuid.uuid4()), id=limits.text("id", id))
    if ttl is not None:
        request.ttl.CopyFrom(wire.to_duration(limits.span("ttl", ttl) or ttl))
    return call(_SERVICE, "TouchConversation", request, pb.TouchConversationResponse, lambda a: _state(a.state), writes=True)


def reset(namespace: str, id: str) -> Call[bool]:
    """ResetConversation."""
    request = pb.ResetConversationRequest(namespace=namespace, request_id=str(uuid.uuid4()), id=limits.text("id", id))
    return call(_SERVICE, "ResetConversation", request, pb.ResetConversationResponse, lambda a: a.existed, writes=True)


def page(namespace: str, cursor: str) -> Call[tuple[list[ConversationSummary], str]]:
    """A page of ListConversations, and the cursor of the next."""
    request = pb.ListConversationsRequest(namespace=namespace, cursor=cursor, limit=1000)

    def read(answer: pb.ListConversationsResponse) -> tuple[list[ConversationSummary], str]:
        return [_summary(one) for one in answer.conversations], answer.cursor

    return call(_SERVICE, "ListConversations", request, pb.ListConversationsResponse, read, writes=False)


def _fields(fields: Mapping[str, Value]) -> dict[str, bytes]:
    if len(fields) > FIELDS_MAX:
        raise too_large("set", f"must be at most {FIELDS_MAX} fields")
    kept = {limits.text("set", name, NAME_MAX): values.encode("set", value) for name, value in fields.items()}
    if sum(len(name.encode()) + len(value) for name, value in kept.items()) > FIELDS_BYTES_MAX:
        raise too_large("set", "must be at most 256 KiB, names and values together")
    return kept


def _unset(unset: Iterable[str], fields: Mapping[str, Value]) -> list[str]:
    names = [unset] if isinstance(unset, str) else list(unset)
    if len(names) > FIELDS_MAX:
        raise too_large("unset", f"must be at most {FIELDS_MAX}")
    for name in names:
        if limits.text("unset", name, NAME_MAX) in fields:
            raise bad_field("unset", "names a field that is also set")
    return names


def _state(state: pb.ConversationState) -> Conversation:
    return Conversation(
        exists=state.exists,
        step=state.step if state.exists else "idle",
        fields={name: values.decode(value) for name, value in state.fields.items()},
        version=state.version,
        started_at=wire.instant(state, "started_at"),
        updated_at=wire.instant(state, "updated_at"),
        expires_at=wire.instant(state, "expires_at"),
        ends_at=wire.instant(state, "ends_at"),
    )


def _summary(one: pb.ConversationSummary) -> ConversationSummary:
    return ConversationSummary(
        id=one.id,
        step=one.step,
        version=one.version,
        started_at=wire.instant(one, "started_at"),
        updated_at=wire.instant(one, "updated_at"),
        expires_at=wire.instant(one, "expires_at"),
        ends_at=wire.instant(one, "ends_at"),
        fields=one.fields,
        bytes=one.bytes,
    )
