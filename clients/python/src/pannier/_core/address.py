"""Where the sidecar is: an address, `PANNIER_ADDRESS`, or the two default sockets, whose directories must be safe: a stranger
who can write there could pose as the sidecar."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_HOST_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:/\s]+):\d{1,5}")


@dataclass(frozen=True)
class Candidate:
    """One place to try."""

    #: As gRPC wants it: `unix:/path` or `host:port`.
    target: str
    #: A default socket: its directory is checked before every use.
    checked: bool

    @property
    def socket(self) -> str | None:
        """The socket's path, of a unix target."""
        return self.target[5:] if self.target.startswith("unix:") else None

    def refusal(self, uid: int) -> str | None:
        """Why it cannot be used now; None if it can be tried."""
        if not self.checked or self.socket is None:
            return None
        path = Path(self.socket)
        try:
            info = path.parent.lstat()
            if not stat.S_ISDIR(info.st_mode):
                return f"{path.parent} is not a real directory"
            if info.st_uid not in (uid, 0):
                return f"{path.parent} belongs to uid {info.st_uid}"
            if info.st_mode & 0o077:
                return f"{path.parent} is open to others (mode must be 0700)"
            return None if stat.S_ISSOCK(path.stat().st_mode) else f"{path} is not a socket"
        except FileNotFoundError:
            return "no such socket"
        except OSError as error:
            return f"cannot look at it ({error.strerror})"


def candidates(address: str | None, env: Mapping[str, str] = os.environ, uid: int | None = None) -> list[Candidate]:
    """The places to try, in order."""
    given = address or env.get("PANNIER_ADDRESS")
    if given:
        return [Candidate(_target(given), checked=False)]
    uid = uid if uid is not None else user()
    sockets = [f"/tmp/pannier-{uid}/pannier.sock"]
    runtime = env.get("XDG_RUNTIME_DIR")
    if runtime:
        sockets.insert(0, f"{runtime}/pannier/pannier.sock")
    return [Candidate(f"unix:{path}", checked=True) for path in sockets]


def user() -> int:
    """This process's uid."""
    if not hasattr(os, "getuid"):
        raise ValueError("pannier: no unix sockets here; give connect(address='host:port'), or run bot and sidecar in WSL2")
    return os.getuid()


def _target(address: str) -> str:
    if address.startswith("unix:") and len(address) > len("unix:"):
        path = address[5:]
        return "unix:" + ("/" + path.lstrip("/") if path.startswith("///") else path)
    if address.startswith(("/", "./")):
        return f"unix:{address}"
    if _HOST_PORT.fullmatch(address):
        return address
    raise ValueError("pannier: the address must be 'unix:/path/to/pannier.sock' or 'host:port'")
