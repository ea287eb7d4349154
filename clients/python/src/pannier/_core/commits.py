"""The order of commits and their numbers (op_seq). Pure.

Only an applied commit uses up its number. So after a refusal those behind it, which came back OUT_OF_ORDER, move up; and a commit whose
outcome is unknown keeps its number and is sent again under it, which the sidecar answers as `replayed` if it had been applied. A number
may not pass to another commit while a copy of the old one may still be on its way: then only a new fence (another Open) makes it safe,
and `settle` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..errors import PannierError
from .promise import Promise


@dataclass(eq=False)
class Write:
    """A Commit or Clear until it is settled. Times are of the driver's clock."""

    #: The messages under a seq, with a timeout in ms and an op_seq.
    encode: Callable[[int, int, int], list[bytes]]
    size: int
    promise: Promise
    timeout: float
    deadline: float
    #: 0 until it is first sent.
    op_seq: int = 0
    #: On the present stream.
    seq: int = 0
    #: Then the stream counts as dead, if there was no answer.
    answer_by: float = 0.0
    #: On its way on this stream: an answer is due.
    sent: bool = False
    #: It was sent once and may have been applied.
    uncertain: bool = False
    #: Nobody waits for it any more; it stays only for its number.
    abandoned: bool = False
    #: Why the last try failed.
    last: PannierError | None = None


class CommitQueue:
    """Commits in the order they were asked for."""

    def __init__(self) -> None:
        #: Oldest first; those sent come before those not sent, unless `held`.
        self.items: list[Write] = []
        #: The highest number acknowledged.
        self.applied = 0
        #: The highest number known to be used: at the last Open the sidecar had applied this one, acknowledged or not.
        self.known = 0
        self.in_flight = 0
        #: Nothing more may be sent until what is on its way is answered and the numbers are right again.
        self.held = False
        self._next = 1
        #: Of `items`: how many at its front have been sent.
        self._sent = 0

    def take(self, limit: int) -> Write | None:
        """The next to send, if any: it then counts as sent."""
        if self.held or self.in_flight >= limit or self._sent >= len(self.items):
            return None
        item = self.items[self._sent]
        item.op_seq = item.op_seq or self._next
        self._next = max(self._next, item.op_seq + 1)
        item.sent = True
        self.in_flight += 1
        self._sent += 1
        return item

    def committed(self, item: Write) -> None:
        """It is in."""
        self.applied = max(self.applied, item.op_seq)
        self.known = max(self.known, item.op_seq)
        self._answered(item)
        self._remove(item)

    def refused(self, item: Write) -> None:
        """It was refused for good: its number is free."""
        self._answered(item)
        self._remove(item)
        self.held = True

    def again(self, item: Write) -> None:
        """It was not written, and is to be sent again."""
        self._answered(item)
        item.uncertain = False
        self.held = True

    def unknown(self, item: Write) -> None:
        """It may have been written, and is to be sent again under the same number."""
        self._answered(item)
        item.uncertain = True
        self.held = True

    def abandon(self, item: Write) -> bool:
        """Its caller gave up. True if it could be taken out without a trace; else its number is unclear until a new Open."""
        if not item.sent and not item.uncertain:
            self._remove(item)
            # Those behind were numbered after it.
            self.held = self.held or item.op_seq != 0
            return True
        item.abandoned = True
        return False

    def settle(self, last: int | None) -> Literal["send", "reattach", "stale"]:
        """Puts the numbers right, once `in_flight` is 0 after being held. `last`: what OUT_OF_ORDER said the sidecar has, if it did."""
        if last is not None and last < self.applied:
            return "stale"
        if any(item.abandoned for item in self.items):
            return "reattach"
        number = self.known
        for item in self.items:
            if item.op_seq == 0:
                break
            if item.uncertain and item.op_seq <= self.known:
                # In already: it only waits for its answer.
                continue
            number += 1
            if item.uncertain and item.op_seq != number:
                return "reattach"
            item.op_seq = number
        self._release(number + 1)
        return "send"

    def broken(self) -> None:
        """The stream broke: what was on its way may have been applied."""
        for item in self.items:
            item.uncertain = item.uncertain or item.sent
            item.sent = False
        self.in_flight = 0
        self.held = True

    def reopened(self, last: int) -> bool:
        """A new Open succeeded; no copy of an old message can be applied any more. `last`: the number the sidecar applied last.

        False: it is behind what was acknowledged.
        """
        if last < self.applied:
            return False
        for item in [one for one in self.items if one.abandoned]:
            self._remove(item)
        self.known = number = last
        for item in self.items:
            if item.op_seq == 0:
                break
            if item.uncertain and item.op_seq <= last:
                # In already: it is sent again all the same, for its answer.
                continue
            number += 1
            item.op_seq = number
            item.uncertain = False
        self._release(number + 1)
        return True

    def _release(self, after: int) -> None:
        self._next = after
        self._sent = 0
        self.held = False

    def _answered(self, item: Write) -> None:
        if item.sent:
            item.sent = False
            self.in_flight -= 1

    def _remove(self, item: Write) -> None:
        if item in self.items:
            at = self.items.index(item)
            del self.items[at]
            if at < self._sent:
                self._sent -= 1
