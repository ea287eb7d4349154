"""What the sidecar says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, get_args

from .._gen import admin_pb2 as pb
from .._gen import session_pb2
from . import wire
from .call import Call, call

#: What "done" is worth. `memory`: in Valkey's memory. `aof`: in an append-only file flushed every second; a crash loses the
#: last second or two. `fsync`: flushed to disk before the reply. `replicas`: acknowledged by at least one replica.
Durability = Literal["unspecified", "memory", "aof", "fsync", "replicas"]
_DURABILITY: tuple[Durability, ...] = get_args(Durability)


def durability(number: session_pb2.Durability) -> Durability:
    """Its word."""
    return wire.word(_DURABILITY, number + 1)


@dataclass(frozen=True)
class ServerInfo:
    """Versions, topology, durability, key ids. Never a secret, an address with a password, or a name."""

    version: str
    #: `valkey` or `redis`.
    engine: str
    engine_version: str
    #: `embedded`, `standalone`, `sentinel` or `cluster`.
    topology: str
    #: The environment in key names.
    env: str
    durability: Durability
    #: The id of the key that seals new root keys.
    primary_key_id: int
    #: All ids of the keyring.
    key_ids: tuple[int, ...]
    #: Connections to Valkey.
    connections: int
    uptime: timedelta
    #: Sessions open now.
    attached_sessions: int
    #: Release of the time zone database.
    tzdb: str
    #: The database's own id.
    store_id: str


def server_info() -> Call[ServerInfo]:
    """ServerInfo."""

    def read(answer: pb.ServerInfoResponse) -> ServerInfo:
        return ServerInfo(
            version=answer.version,
            engine=answer.engine,
            engine_version=answer.engine_version,
            topology=answer.topology,
            env=answer.env,
            durability=durability(answer.durability),
            primary_key_id=answer.primary_key_id,
            key_ids=tuple(answer.key_ids),
            connections=answer.connections,
            uptime=wire.to_timedelta(answer.uptime),
            attached_sessions=answer.attached_sessions,
            tzdb=answer.tzdb,
            store_id=answer.store_id,
        )

    return call("AdminService", "ServerInfo", pb.ServerInfoRequest(), pb.ServerInfoResponse, read, writes=False)
