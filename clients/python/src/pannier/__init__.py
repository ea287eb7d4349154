"""Client of the Pannier sidecar, for threads: `with pannier.connect() as client:`. For asyncio: `pannier.aio`."""

from __future__ import annotations

import os
from datetime import timedelta

from . import aio, raw
from ._core import exports as _exports
from ._core.exports import *  # noqa: F403
from ._core.settings import settings as _settings
from ._sync._blobs import Blobs
from ._sync._caps import Caps
from ._sync._client import Pannier
from ._sync._conversations import Conversations
from ._sync._crons import Crons
from ._sync._dedup import Claim, ClaimResult, Dedup
from ._sync._keeper import WorkContext
from ._sync._schedule import Schedule
from ._sync._session import Session
from ._sync._sessions import Sessions
from ._sync._work import Handler, Job, Worker, WorkerFunction, worker

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
    "aio",
    "connect",
    "raw",
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
    """Connects to the sidecar and waits until it is ready. Threads may share the client; a forked process may not.

    `address`: `unix:/path/to/pannier.sock` or `host:port`. Default: `$PANNIER_ADDRESS`, else the sidecar's default socket
    (`$XDG_RUNTIME_DIR/pannier/pannier.sock`, then `/tmp/pannier-<uid>/pannier.sock`), whose directory must belong to this user
    or root and be closed to others. `token`, `token_file`: for TCP; default the content of the file that
    `$PANNIER_TOKEN_FILE` names, if set. `tls`: True with the system's roots, or a Tls. `namespace`: the bot, number or tenant,
    ≤ 128 bytes. `timeout`: of one call, retries included, default 5 s. `ready_timeout`: how long to wait for a sidecar that is
    not there or not ready, default 30 s.

    Raises TypeError or ValueError for a wrong option; UnavailableError, which names the places that were tried, when no sidecar
    came in time; AccessError for a wrong token.
    """
    return Pannier(_settings(address, token, token_file, tls, namespace, timeout, ready_timeout)).__enter__()
