"""What tells a thread that what it does is not wanted any more. A thread cannot be stopped; it can look, or wait here."""

from __future__ import annotations

import threading


class Abort:
    """Aborted once, with a reason."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._reason: Exception | None = None

    @property
    def aborted(self) -> bool:
        """Stop as soon as you can."""
        return self._event.is_set()

    @property
    def reason(self) -> Exception | None:
        """Why; None while it is not aborted."""
        return self._reason

    def wait(self, seconds: float | None = None) -> bool:
        """Sleeps for so long, or until it is aborted: True then."""
        return self._event.wait(seconds)

    def check(self) -> None:
        """Raises the reason, if it is aborted."""
        if self._reason is not None:
            raise self._reason

    def abort(self, reason: Exception) -> None:
        """Called by the client."""
        if self._reason is None:
            self._reason = reason
            self._event.set()
