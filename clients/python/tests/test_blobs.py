"""Archives and other large state."""

import hashlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support import LosingProxy, Sidecar

import pannier
from pannier import aio

NAME = "RemoteAuth-böt/1 *{}:✓"
LARGE = 20 * 1024 * 1024


def content(size: int) -> bytes:
    """Bytes that do not repeat."""
    return hashlib.shake_256(size.to_bytes(8, "big")).digest(size)


def test_twenty_megabytes_go_out_and_come_back(client: pannier.Pannier, tmp_path: Path) -> None:
    data = content(LARGE)
    source = tmp_path / "in.zip"
    source.write_bytes(data)
    saved = client.blobs.save(NAME, source, labels={"kind": "zip"})
    assert (saved.outcome, saved.durability) == ("saved", "fsync")
    assert (saved.blob.size, saved.blob.sha256, saved.blob.state) == (LARGE, hashlib.sha256(data).digest(), "current")
    assert dict(saved.blob.labels) == {"kind": "zip"}
    target = tmp_path / "new/folder/out.zip"
    assert client.blobs.fetch(NAME, target) == saved.blob
    assert target.read_bytes() == data and target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["out.zip"]
    assert client.blobs.save(NAME, str(source)).outcome == "unchanged"
    assert client.blobs.stat(NAME).uploads == 0


async def test_twenty_megabytes_with_asyncio(aclient: aio.Pannier, tmp_path: Path) -> None:
    data = content(LARGE)
    with io.BytesIO(data) as file:
        saved = await aclient.blobs.save(NAME, file)
    assert saved.outcome == "saved" and saved.blob.size == LARGE
    info = await aclient.blobs.fetch(NAME, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == data and info == saved.blob
    assert b"".join([chunk async for chunk in aclient.blobs.read(NAME)]) == data
    assert (await aclient.blobs.save(NAME, data)).outcome == "unchanged"
    assert [one.blob async for one in aclient.blobs.list()] == [NAME]
    assert await aclient.blobs.delete(NAME)
    assert [one.blob async for one in aclient.blobs.deleted()] == [NAME]
    assert (await aclient.blobs.restore(NAME)).generation == saved.blob.generation


def test_file_objects_are_read_from_where_they_stand_and_written(client: pannier.Pannier, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        file.seek(4)
        assert client.blobs.save("b", file).blob.size == 6
        assert not file.closed
    out = io.BytesIO()
    client.blobs.fetch("b", out)
    assert out.getvalue() == b"456789"
    assert b"".join(client.blobs.read("b")) == b"456789"
    client.blobs.save("empty", b"")
    assert b"".join(client.blobs.read("empty")) == b""
    with path.open("r") as text, pytest.raises(TypeError, match="rb"):
        client.blobs.save("t", text)  # type: ignore[arg-type]


def test_a_pipe_is_read_once(client: pannier.Pannier) -> None:
    reader, writer = os.pipe()

    def write() -> None:
        with os.fdopen(writer, "wb") as file:
            for _ in range(8):
                file.write(b"x" * 100_000)
                time.sleep(0.01)

    threading.Thread(target=write).start()
    with os.fdopen(reader, "rb") as file:
        assert client.blobs.save("pipe", file).blob.size == 800_000


def test_generations_are_kept_rolled_back_deleted_and_restored(client: pannier.Pannier) -> None:
    saved = [client.blobs.save("b", f"content {n}".encode()).blob for n in range(3)]
    assert [one.generation for one in client.blobs.generations("b")] == [one.generation for one in reversed(saved)]
    assert client.blobs.rollback("b", saved[0].generation).state == "current"
    assert b"".join(client.blobs.read("b")) == b"content 0"
    assert b"".join(client.blobs.read("b", generation=saved[2].generation)) == b"content 2"
    assert client.blobs.delete("b") and not client.blobs.delete("b")
    assert client.blobs.stat("b").blob is None
    with pytest.raises(pannier.NotFoundError):
        list(client.blobs.read("b"))
    client.blobs.save("b", b"another")
    with pytest.raises(pannier.WrongStateError):
        client.blobs.restore("b")
    client.blobs.restore("b", replace=True)
    assert b"".join(client.blobs.read("b")) == b"content 0"
    assert client.blobs.delete("b", shred=True)
    assert list(client.blobs.deleted()) == []
    client.blobs.save("b", b"1")
    with pytest.raises(pannier.GenerationGoneError):
        client.blobs.rollback("b", 1)


def test_a_file_that_changes_while_it_is_read_is_not_stored(client: pannier.Pannier, tmp_path: Path) -> None:
    path = tmp_path / "changing"
    path.write_bytes(content(3_000_000))

    class Changing(io.FileIO):
        reads = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.reads += 1
            if self.reads == 3:
                with path.open("ab") as file:
                    file.write(b"more")
            return super().read(size) or b""

    with Changing(path) as changing, pytest.raises(pannier.SourceError) as raised:
        client.blobs.save("b", changing)
    assert raised.value.reason == "SOURCE_CHANGED" and raised.value.hint
    assert client.blobs.stat("b").blob is None
    with pytest.raises(pannier.SourceError) as raised:
        client.blobs.save("b", tmp_path / "none")
    assert raised.value.reason == "SOURCE_UNREADABLE"
    with pytest.raises(pannier.SourceError):
        client.blobs.save("b", tmp_path)


def test_a_transfer_that_is_broken_off_begins_anew(sidecar: Sidecar, tmp_path: Path) -> None:
    data = content(LARGE)
    proxy = LosingProxy(sidecar)
    try:
        with pannier.connect(proxy.address) as client:
            proxy.break_after(5_000_000)
            saved = client.blobs.save("b", data)
            assert saved.outcome == "saved" and proxy.broken == 1
            assert len(client.blobs.generations("b")) == 1
            proxy.break_after(5_000_000)
            client.blobs.fetch("b", tmp_path / "out")
            assert (tmp_path / "out").read_bytes() == data and proxy.broken == 2
            assert [path.name for path in tmp_path.iterdir()] == ["out"]
            proxy.break_after(5_000_000)
            with pytest.raises(pannier.UnavailableError):
                client.blobs.fetch("b", io.BytesIO())
    finally:
        proxy.stop()


MEASURE = """
import asyncio, sys, pannier
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) // 1024
async def tasks():
    async with pannier.aio.connect(sys.argv[1]) as client:
        await client.blobs.save("tasks", sys.argv[2], labels={"n": "2"})
        await client.blobs.fetch("tasks", sys.argv[2] + ".2")
with pannier.connect(sys.argv[1]) as client:
    before = peak()
    client.blobs.save("threads", sys.argv[2])
    client.blobs.fetch("threads", sys.argv[2] + ".1")
asyncio.run(tasks())
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process's memory is read from /proc")
def test_memory_stays_bounded(sidecar: Sidecar, tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    command = [sys.executable, "-c", MEASURE, sidecar.address, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert int(ran.stdout) < 24, "MiB, of a blob of 64"
    assert (tmp_path / "large.1").stat().st_size == (tmp_path / "large.2").stat().st_size == 64 * 1024 * 1024


def test_a_corrupted_transfer_gets_no_name(client: pannier.Pannier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client.blobs.save("b", content(2_000_000))
    (tmp_path / "out").write_bytes(b"the one before")
    download = type(client.blobs._connection).download

    def corrupted(*args: Any) -> Iterator[bytes]:
        for n, message in enumerate(download(*args)):
            yield message[:-1] + bytes([message[-1] ^ 1]) if n == 3 else message

    monkeypatch.setattr(type(client.blobs._connection), "download", corrupted)
    with pytest.raises(pannier.CorruptBlobError) as raised:
        client.blobs.fetch("b", tmp_path / "out")
    assert (raised.value.code, raised.value.retryable) == ("DATA_LOSS", False)
    assert (tmp_path / "out").read_bytes() == b"the one before"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_killed_process_left_is_swept(client: pannier.Pannier, tmp_path: Path) -> None:
    client.blobs.save("b", b"content")
    dead = tmp_path / f"out.part-{2**22 + 1}-0123456789ab"
    alive = tmp_path / f"out.part-{os.getppid()}-0123456789ab"
    for path in (dead, alive, tmp_path / "out.part-of-mine"):
        path.write_bytes(b"")
    client.blobs.fetch("b", tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"out", alive.name, "out.part-of-mine"}


def test_a_transfer_of_a_still_sidecar_ends_by_its_timeout(sidecar: Sidecar) -> None:
    with sidecar.connect() as client:
        sidecar.signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(pannier.DeadlineExceededError):
            client.blobs.save("b", content(1_000_000), timeout=timedelta(milliseconds=700))
        assert time.monotonic() - began < 2.7
        sidecar.signal(signal.SIGCONT)


@pytest.mark.parametrize(
    ("field", "act"),
    [
        ("blob", lambda b: b.save("", b"x")),
        ("blob", lambda b: b.save("x" * 257, b"x")),
        ("header.content_digest", lambda b: b.save("b", b"x", content_digest=b"x" * 65)),
        ("generation", lambda b: b.rollback("b", 0)),
        ("blob", lambda b: b.stat("")),
    ],
)
def test_a_wrong_field_is_named(client: pannier.Pannier, field: str, act: object) -> None:
    assert callable(act)
    with pytest.raises(pannier.BadRequestError) as raised:
        act(client.blobs)
    assert raised.value.field == field
