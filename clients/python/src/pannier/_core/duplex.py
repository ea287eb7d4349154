"""What drives a stream in both directions, and the next one when it breaks, and what it drives.

An engine knows what is to be said and what an answer means; it does no I/O and has no clock. A driver (threads in one client, tasks
in the other) owns the stream and calls the engine, one call at a time. What the engine wants done outside of itself, such as settling a
future, it leaves in `effects`, which the driver runs in order after each call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from ..errors import PannierError


class Engine(Protocol):
    """See the top of this file. Times are seconds of the driver's monotonic clock."""

    #: The method.
    path: str
    effects: deque[Callable[[], None]]
    #: This stream is of no more use, and why: the driver ends it.
    broken: PannierError | None

    @property
    def interval(self) -> float:
        """Seconds between two ticks, at most, as it is now."""

    def opening(self, now: float) -> None:
        """A new stream begins."""

    def next_message(self, now: float) -> bytes | None:
        """What is to be said next, if anything."""

    def sent(self, now: float) -> None:
        """What `next_message` gave last has left."""

    def on_message(self, data: bytes, now: float) -> None:
        """The sidecar said something."""

    def on_end(self, error: PannierError | None, now: float) -> float | None:
        """The stream has ended. How long until the next one; None: there is none."""

    def tick(self, now: float) -> None:
        """Time has passed."""
