"""Where a fetch goes: a file gets its name only when every byte is there, verified and on disk. These calls block."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import BinaryIO, Protocol

from .._gen import blob_pb2 as pb
from . import blobs, faults
from .blobs import BlobInfo

#: A part of another process that seems to live: pids come again.
OLD = 24 * 60 * 60
_mine: set[str] = set()


class Sink(Protocol):
    """Takes what is fetched."""

    def write(self, data: bytes) -> None:
        """More of it."""

    def done(self) -> None:
        """That was all, and it is right."""

    def close(self) -> None:
        """Whatever happened."""


class Verified:
    """Reads the messages of a fetch. Only what was `finished` is whole."""

    def __init__(self) -> None:
        self.info: BlobInfo | None = None
        self._finished = False
        self._hash = hashlib.sha256()
        self._size = 0

    def take(self, message: bytes) -> bytes:
        """The bytes of a message, perhaps none. Raises CorruptBlobError."""
        part = pb.FetchBlobResponse.FromString(message)
        match part.WhichOneof("part"):
            case "info":
                self.info = blobs.info(part.info)
            case "chunk":
                data = part.chunk.data
                self._hash.update(data)
                self._size += len(data)
                return data
            case "finish":
                mine, told = self._hash.digest(), part.finish
                if self.info is None or {told.size, self.info.size} != {self._size} or {told.sha256, self.info.sha256} != {mine}:
                    raise faults.make("DATA_LOSS", "CORRUPT_BLOB", "what arrived is not what was stored")
                self._finished = True
        return b""

    def finished(self) -> BlobInfo:
        """What was fetched, whole."""
        if self.info is None or not self._finished:
            raise faults.make("UNAVAILABLE", "SIDECAR_UNREACHABLE", "the transfer broke off before its end")
        return self.info


class FileSink:
    """A path: its directory is made, what is there is replaced at one instant. Until then it is `path.part-…`, mode 0600."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if self._path.name in ("", ".", ".."):
            raise ValueError("pannier: the path of a fetch must name a file")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        sweep(self._path)
        self._part = self._path.with_name(f"{self._path.name}.part-{os.getpid()}-{secrets.token_hex(6)}")
        _mine.add(str(self._part))
        self._file = os.fdopen(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    def write(self, data: bytes) -> None:
        """More of it."""
        self._file.write(data)

    def done(self) -> None:
        """Names it."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._part.replace(self._path)
        # So that the name survives a power cut as well. Where directories cannot be opened, nothing can be done.
        with contextlib.suppress(OSError):
            directory = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def close(self) -> None:
        """Removes what did not get its name."""
        self._file.close()
        self._part.unlink(missing_ok=True)
        _mine.discard(str(self._part))


class OpenSink:
    """A file object, written as it comes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        """More of it."""
        self._file.write(data)

    def done(self) -> None:
        """Nothing is kept back."""
        self._file.flush()

    def close(self) -> None:
        """It is the caller's to close."""


def sweep(path: Path) -> None:
    """Removes what killed processes left beside `path`. Best effort."""
    name = re.compile(re.escape(path.name) + r"\.part-(\d+)-[0-9a-f]{12}(\.part-.*)?")
    with contextlib.suppress(OSError):
        for part in path.parent.iterdir():
            found = name.fullmatch(part.name)
            if found is None or str(part) in _mine:
                continue
            pid = int(found[1])
            if pid != os.getpid() and _lives(pid) and time.time() - part.stat().st_mtime < OLD:
                continue
            with contextlib.suppress(OSError):
                shutil.rmtree(part) if part.is_dir() else part.unlink()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
