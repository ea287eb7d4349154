"""One unary call: what is sent, how its answer is read, and when it is tried again. Pure: no I/O, no clock of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from google.protobuf.message import Message

from ..errors import PannierError
from . import faults
from .reasons import CALL_AGAIN, NO_ANSWER

T = TypeVar("T")
Answer = TypeVar("Answer", bound=Message)


@dataclass(frozen=True)
class Call(Generic[T]):
    """A call. The bytes are the same each time it is sent, and so is the request_id in them."""

    path: str
    request: bytes
    read: Callable[[bytes], T]
    #: It changes something: an answer that is lost leaves open whether it did.
    writes: bool


def call(service: str, method: str, request: Message, answer: type[Answer], read: Callable[[Answer], T], *, writes: bool) -> Call[T]:
    """A call of a method of `pannier.v1`."""
    path = f"/pannier.v1.{service}/{method}"
    return Call(path, request.SerializeToString(), lambda data: read(answer.FromString(data)), writes)


def backoff(attempt: int, base: float = 0.05, most: float = 2.0) -> float:
    """Seconds: exponential, with jitter over the upper half."""
    top = min(most, base * float(2 ** min(attempt, 16)))
    return random.uniform(top / 2, top)


@dataclass
class Tries:
    """The tries of one call. Each is made within what is left of the one deadline."""

    writes: bool
    timeout: float
    #: On the caller's monotonic clock.
    deadline: float
    attempt: int = 0
    last: PannierError | None = None
    uncertain: bool = field(default=False)

    def failed(self, error: PannierError, now: float) -> float:
        """How long to wait before the next try. Raises what the caller is to see if there is none."""
        if error.outcome_unknown or (error.reason in NO_ANSWER and not faults.never_sent(error)):
            self.uncertain = True
        wait = error.retry_after.total_seconds() if error.retry_after else backoff(self.attempt)
        if error.reason in CALL_AGAIN and now + wait < self.deadline:
            self.attempt += 1
            self.last = error
            return wait
        if error.reason == "DEADLINE_EXCEEDED":
            # By itself it says little: the reason of the try before it says more.
            error = faults.deadline_exceeded("the call", self.timeout, last=self.last)
        raise faults.unclear(error) if self.uncertain and self.writes and not error.outcome_unknown else error
