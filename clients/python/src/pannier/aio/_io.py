"""What blocks, as a task waits for it. The other client has the same names, for a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

sleep = asyncio.sleep


async def blocking(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs what blocks, such as a read of a file, beside the loop."""
    return await asyncio.to_thread(work, *args, **kwargs)
