"""How a connection is made: channel options, TLS, the token."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import grpc

#: PEM, or the path of a file with it.
Pem = bytes | str | os.PathLike[str]

_MESSAGE_MAX = 8 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Tls:
    """TLS over TCP. Each of the three is PEM as bytes, or a path."""

    #: Who signed the sidecar's certificate. None: the system's roots.
    ca: Pem | None = None
    #: The client's certificate and key, both or neither.
    cert: Pem | None = None
    key: Pem | None = None
    #: The name in the sidecar's certificate. None: the address's host.
    server_name: str | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("pannier: Tls needs both cert and key, or neither")


@dataclass(frozen=True)
class Dial:
    """Everything that `connect` was told about the way to the sidecar."""

    tls: Tls | None
    token: str | None

    def options(self, target: str) -> list[tuple[str, object]]:
        """Channel options. They are none of the application's business."""
        options: list[tuple[str, object]] = [
            ("grpc.enable_retries", 0),
            ("grpc.enable_http_proxy", 0),
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", 2_000),
            ("grpc.max_reconnect_backoff_ms", 1_000),
            # A sidecar that stands still is noticed after 15 s, also by a stream that waits.
            ("grpc.keepalive_time_ms", 10_000),
            ("grpc.keepalive_timeout_ms", 5_000),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.max_receive_message_length", _MESSAGE_MAX),
            ("grpc.max_send_message_length", _MESSAGE_MAX),
        ]
        if target.startswith("unix:"):
            # Without it the path would be the authority, which no HTTP/2 server takes.
            options.append(("grpc.default_authority", "localhost"))
        if self.tls and self.tls.server_name:
            options.append(("grpc.ssl_target_name_override", self.tls.server_name))
        return options

    def credentials(self) -> grpc.ChannelCredentials | None:
        """None: no TLS."""
        if self.tls is None:
            return None
        return grpc.ssl_channel_credentials(_pem(self.tls.ca), _pem(self.tls.key), _pem(self.tls.cert))

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Of every call."""
        return () if self.token is None else (("authorization", f"Bearer {self.token}"),)


def dial(tls: bool | Tls, token: str | None, token_file: str | os.PathLike[str] | None) -> Dial:
    """Checks and reads what `connect` was given."""
    if token is not None and token_file is not None:
        raise ValueError("pannier: give token or token_file, not both")
    if token is None:
        file = token_file or os.environ.get("PANNIER_TOKEN_FILE")
        token = Path(file).read_text().strip() if file else None
    if token is not None and (not token or not token.isascii() or not token.isprintable()):
        raise ValueError("pannier: a token is printable ASCII, and not empty")
    return Dial(Tls() if tls is True else tls or None, token)


def _pem(value: Pem | None) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else Path(value).read_bytes()
