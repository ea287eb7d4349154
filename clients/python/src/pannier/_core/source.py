"""What a save reads, piece by piece: a file, which must not change meanwhile, an open file object, or bytes. These calls block."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import threading
from pathlib import Path
from typing import BinaryIO

from .._gen import blob_pb2 as pb
from . import faults

#: A path, a file object open for reading bytes (it stays yours to close), or the bytes themselves.
BlobSource = str | os.PathLike[str] | BinaryIO | bytes

CHUNK = 256 * 1024


class Source:
    """The messages of a save, as often as it is tried."""

    def __init__(self, source: BlobSource) -> None:
        self._owned = False
        if isinstance(source, (bytes, bytearray, memoryview)):
            self._file: BinaryIO = io.BytesIO(source)
        elif isinstance(source, (str, os.PathLike)):
            self._file = self._opened(source)
        elif hasattr(source, "read"):
            self._file = source
        else:
            raise TypeError("pannier: what is saved must be a path, a file object open for bytes, or bytes")
        #: It can be read again from where it began.
        self.repeatable = self._file.seekable()
        self._from = self._file.tell() if self.repeatable else 0
        self._look: tuple[int, int] | None = None
        self._hash = hashlib.sha256()
        self._size = 0
        self._lock = threading.Lock()
        self._try = 0

    def _opened(self, path: str | os.PathLike[str]) -> BinaryIO:
        try:
            file = Path(path).open("rb")  # noqa: SIM115 # close() closes it
        except OSError as error:
            raise faults.make("INVALID_ARGUMENT", "SOURCE_UNREADABLE", f"cannot open {path}: {error.strerror}") from error
        self._owned = True
        return file

    def begin(self) -> int:
        """From the beginning. Gives the number of this try: gRPC may still be about to read for the one before."""
        with self._lock:
            if self.repeatable:
                self._file.seek(self._from)
            self._look = self._looks()
            self._hash = hashlib.sha256()
            self._size = 0
            self._try += 1
            return self._try

    def chunk(self, of: int) -> bytes | None:
        """The next message with a piece of ≤ 256 KiB; None at the end."""
        with self._lock:
            data = self._file.read(CHUNK) if of == self._try else b""
            if not isinstance(data, bytes):
                raise TypeError("pannier: a blob is made of bytes: open its file with 'rb'")
            if not data:
                return None
            self._hash.update(data)
            self._size += len(data)
        return pb.SaveBlobRequest(chunk=pb.BlobChunk(data=data)).SerializeToString()

    def finish(self) -> bytes:
        """The last message. Raises SourceError if the file is not what it was."""
        with self._lock:
            if self._look is not None and self._looks() != self._look:
                message = f"the file was changed while it was read ({self._look[0]} bytes, then {self._file_size()})"
                raise faults.make("ABORTED", "SOURCE_CHANGED", message)
            finish = pb.SaveBlobFinish(size=self._size, sha256=self._hash.digest())
        return pb.SaveBlobRequest(finish=finish).SerializeToString()

    def close(self) -> None:
        """Closes what it has opened."""
        with self._lock:
            self._try += 1
            if self._owned:
                self._file.close()

    def _looks(self) -> tuple[int, int] | None:
        """Size and time of change, of a file."""
        try:
            info = os.fstat(self._file.fileno())
        except (OSError, AttributeError):
            return None
        if self._owned and not stat.S_ISREG(info.st_mode):
            raise faults.make("INVALID_ARGUMENT", "SOURCE_UNREADABLE", "what is to be saved is not a regular file")
        return (info.st_size, info.st_mtime_ns) if stat.S_ISREG(info.st_mode) else None

    def _file_size(self) -> int:
        return os.fstat(self._file.fileno()).st_size
