"""What blocks, as a thread waits for it. The other client has the same names, for a task."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

sleep = time.sleep


def blocking(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs it."""
    return work(*args, **kwargs)
