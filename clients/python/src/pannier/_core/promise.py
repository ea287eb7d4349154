"""What an engine settles: the future of a thread or of a task, which may have been cancelled meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol


class Future(Protocol):
    """Of `concurrent.futures` or `asyncio`."""

    def done(self) -> bool:
        """It is settled."""

    def set_result(self, value: Any, /) -> None:
        """It succeeded."""

    def set_exception(self, error: Any, /) -> None:
        """It failed."""


class Promise:
    """Settled once, by an effect."""

    def __init__(self, future: Future, effects: Callable[[], deque[Callable[[], None]]]) -> None:
        self._future = future
        self._effects = effects
        self.settled = False

    def resolve(self, value: object) -> None:
        """It succeeded."""
        self._settle(partial(self._future.set_result, value))

    def reject(self, error: Exception) -> None:
        """It failed."""
        self._settle(partial(self._future.set_exception, error))

    def _settle(self, how: Callable[[], None]) -> None:
        if not self.settled:
            self.settled = True
            self._effects().append(partial(_unless_done, self._future, how))


def _unless_done(future: Future, how: Callable[[], None]) -> None:
    if not future.done():
        how()
