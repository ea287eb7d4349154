# Made from ../aio/_conversations.py by generate.py: change it there.
"""Where each chat is: a step and a few fields, with a sliding time to live, a ceiling if wanted, and compare-and-set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from .._core import conversations as core
from .._core.conversations import AdvanceResult, Conversation, ConversationSummary
from .._core.values import Value
from ._connection import Connection


class Conversations:
    """Conversations. Ids: 1..512 bytes of UTF-8, any characters.

    Errors of every call: BadRequestError, UnavailableError, DeadlineExceededError, KeyMismatchError, CorruptRecordError
    (never the same as idle), ExhaustedError (nothing was written).
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, id: str, *, timeout: timedelta | None = None) -> Conversation:
        """Reads a conversation; does not touch its time to live."""
        return self._connection.call(core.get(self._connection.namespace, id), timeout)

    def advance(
        self,
        id: str,
        step: str | None = None,
        fields: Mapping[str, Value] | None = None,
        *,
        ttl: timedelta | None = None,
        max_age: timedelta | None = None,
        expected_version: int | None = None,
        expected_steps: Sequence[str] | None = None,
        unset: Iterable[str] = (),
        replace: bool = False,
        timeout: timedelta | None = None,
    ) -> AdvanceResult:
        """Changes a conversation, or begins one. Changes at the same time are all kept, one after the other.

        `step`: 1..128 bytes; None: it stays ("idle" when the conversation begins). `fields` are set, the others stay unless
        `replace`; a name has 1..128 bytes, a value is a text, bytes or anything of JSON and comes back as what it was; ≤ 1 000
        fields, ≤ 256 KiB names and values together (TooLargeError). `unset`: fields to take away.
        `ttl`: silence after which it is idle, 1 ms..400 days, default 30 min. `max_age`: the ceiling, counted from its start;
        default as it was. `expected_version`: the version that was read, another → `conflict`; 0: it must be idle.
        `expected_steps`: 1..32 steps, the current one is none of them → `conflict`; "idle" stands for a conversation that does
        not exist, too. Not both.
        """
        call = core.advance(
            self._connection.namespace,
            id,
            step,
            fields,
            ttl=ttl,
            max_age=max_age,
            expected_version=expected_version,
            expected_steps=expected_steps,
            unset=unset,
            replace=replace,
        )
        return self._connection.call(call, timeout)

    def touch(self, id: str, *, ttl: timedelta | None = None, timeout: timedelta | None = None) -> Conversation:
        """Lets the time to live begin anew without a change: `ttl` 1 ms..400 days, default 30 min. An idle one stays so."""
        return self._connection.call(core.touch(self._connection.namespace, id, ttl), timeout)

    def reset(self, id: str, *, timeout: timedelta | None = None) -> bool:
        """Ends a conversation: it is idle at once. False if it was so."""
        return self._connection.call(core.reset(self._connection.namespace, id), timeout)

    def list(self) -> Iterator[ConversationSummary]:
        """The conversations of the namespace, in no order, for a person who looks: it walks the whole keyspace, and what
        changes meanwhile may be missed or come twice."""
        cursor = ""
        while True:
            found, cursor = self._connection.call(core.page(self._connection.namespace, cursor))
            for one in found:
                yield one
            if not cursor:
                return
