"""What `connect` was told, checked before anything is opened."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

from ..errors import PannierError
from . import faults, limits
from .address import Candidate, candidates
from .dial import Dial, Tls, dial

HEALTH = "/grpc.health.v1.Health/Check"
#: HealthCheckResponse{status: SERVING}.
SERVING = b"\x08\x01"
#: One probe of a sidecar that may not be there.
PROBE = 1.0
PAUSE = 0.05


@dataclass(frozen=True)
class Settings:
    """Times are seconds."""

    places: list[Candidate]
    dial: Dial
    namespace: str
    timeout: float
    ready_timeout: float

    def not_there(self, why: dict[str, str]) -> PannierError:
        """No sidecar came in time: names each place, and what to do."""
        tried = ", ".join(f"{place.target} ({why.get(place.target, 'not tried')})" for place in self.places)
        message = (
            f"no sidecar is ready after {self.ready_timeout:g} s; tried {tried}. Start one with `pannier serve`, or set PANNIER_ADDRESS"
        )
        return faults.make("UNAVAILABLE", "SIDECAR_UNREACHABLE", message)


def settings(
    address: str | None,
    token: str | None,
    token_file: str | os.PathLike[str] | None,
    tls: bool | Tls,
    namespace: str,
    timeout: timedelta | None,
    ready_timeout: timedelta | None,
) -> Settings:
    """Checks them. Raises TypeError or ValueError."""
    if not isinstance(namespace, str) or not 1 <= len(namespace.encode()) <= 128:
        raise ValueError("pannier: namespace must be a str of 1..128 bytes")
    return Settings(
        places=candidates(address),
        dial=dial(tls, token, token_file),
        namespace=namespace,
        timeout=limits.seconds("timeout", timeout, 5.0),
        ready_timeout=limits.seconds("ready_timeout", ready_timeout, 30.0),
    )
