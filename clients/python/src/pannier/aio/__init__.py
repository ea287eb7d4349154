"""The asyncio client of the Pannier sidecar: `async with pannier.aio.connect() as client:`."""

from __future__ import annotations

import os
from datetime import timedelta

from .._core import exports as _exports
from .._core.exports import *  # noqa: F403
from .._core.settings import settings as _settings
from ._blobs import Blobs
from ._caps import Caps
from ._client import Pannier
from ._conversations import Conversations
from ._crons import Crons
from ._dedup import Claim, ClaimResult, Dedup
from ._keeper import WorkContext
from ._schedule import Schedule
from ._session import Session
from ._sessions import Sessions
from ._work import Handler, Job, Worker, WorkerFunction, worker

__all__ = [
    "Blobs",
    "Caps",
    "Claim",
    "ClaimResult",
    "Conversations",
    "Crons",
    "Dedup",
    "Handler",
    "Job",
    "Pannier",
    "Schedule",
    "Session",
    "Sessions",
    "WorkContext",
    "Worker",
    "WorkerFunction",
    "connect",
    "worker",
]
__all__ += _exports.__all__


def connect(
    address: str | None = None,
    *,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    tls: bool | Tls = False,  # noqa: F405
    namespace: str = "default",
    timeout: timedelta | None = None,
    ready_timeout: timedelta | None = None,
) -> Pannier:
    """A client that connects when it is entered, and waits then until the sidecar is ready.

    `address`: `unix:/path/to/pannier.sock` or `host:port`. Default: `$PANNIER_ADDRESS`, else the sidecar's default socket
    (`$XDG_RUNTIME_DIR/pannier/pannier.sock`, then `/tmp/pannier-<uid>/pannier.sock`), whose directory must belong to this user
    or root and be closed to others. `token`, `token_file`: for TCP; default the content of the file that
    `$PANNIER_TOKEN_FILE` names, if set. `tls`: True with the system's roots, or a Tls. `namespace`: the bot, number or tenant,
    ≤ 128 bytes. `timeout`: of one call, retries included, default 5 s. `ready_timeout`: how long to wait for a sidecar that is
    not there or not ready, default 30 s.

    Raises TypeError or ValueError for a wrong option; on entering UnavailableError, which names the places that were tried,
    when no sidecar came in time, and AccessError for a wrong token.
    """
    return Pannier(_settings(address, token, token_file, tls, namespace, timeout, ready_timeout))
