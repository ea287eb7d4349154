"""What this process has seen stored, by session: no store may be behind it. It belongs to one life of a session (an incarnation): a
deletion by this process ends it, and what a handle on the old one still learns goes nowhere."""

from __future__ import annotations

import threading
from collections import OrderedDict

#: Of sessions opened last.
MOST = 10_000

#: The sidecar's address, the namespace, the session.
Place = tuple[str, str, str]

_lock = threading.Lock()
_all: OrderedDict[Place, tuple[int, int]] = OrderedDict()


def seen(place: Place) -> int:
    """The revision that the store must have reached."""
    with _lock:
        return _all.get(place, (0, 0))[1]


def opened(place: Place, incarnation: int, revision: int) -> None:
    """A session was opened, or cleared."""
    with _lock:
        _all[place] = (incarnation, revision)
        _all.move_to_end(place)
        while len(_all) > MOST:
            _all.popitem(last=False)


def committed(place: Place, incarnation: int, revision: int) -> None:
    """A commit was acknowledged."""
    with _lock:
        known = _all.get(place)
        if known is not None and known[0] == incarnation and known[1] < revision:
            _all[place] = (incarnation, revision)


def forget(place: Place, incarnation: int | None) -> None:
    """It was deleted: all of it, or one incarnation."""
    with _lock:
        if incarnation is None or _all.get(place, (0, 0))[0] == incarnation:
            _all.pop(place, None)
