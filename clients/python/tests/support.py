"""The built sidecar with a Valkey of its own, killed and started again at will. Nothing here stands in for either."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pannier

ROOT = Path(__file__).resolve().parents[3]


def binary() -> str:
    """$PANNIER_BIN, or what cargo has built."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    places = [os.environ.get("PANNIER_BIN"), str(target / "release/pannier"), str(target / "debug/pannier")]
    for place in places:
        if place and Path(place).exists():
            return place
    raise RuntimeError("there is no pannier binary: run `cargo build`, or set PANNIER_BIN")


class Sidecar:
    """One sidecar, with its embedded Valkey, in a temporary directory."""

    def __init__(self, *args: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pannier-py-"))
        (self.folder / "run").mkdir(mode=0o700)
        (self.folder / "data").mkdir(mode=0o700)
        self.socket = self.folder / "run/pannier.sock"
        self.address = f"unix:{self.socket}"
        self.args = args
        self.start()

    def start(self) -> None:
        """Starts it; clients wait until it serves."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("PANNIER_")}
        if "PANNIER_VALKEY_SERVER" in os.environ:
            env["PANNIER_VALKEY_SERVER"] = os.environ["PANNIER_VALKEY_SERVER"]
        command = [binary(), "serve", "--data-dir", str(self.folder / "data"), "--socket", str(self.socket)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([*command, *self.args], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)

    def connect(self, **options: Any) -> pannier.Pannier:
        """A client of its own namespace, unless told otherwise."""
        return pannier.connect(self.address, **{"namespace": name(), **options})

    def aconnect(self, **options: Any) -> pannier.aio.Pannier:
        """The same for asyncio, not entered yet."""
        return pannier.aio.connect(self.address, **{"namespace": name(), **options})

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal; of SIGSTOP it waits until all of it stands still."""
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def kill9(self) -> None:
        """Kills it; its Valkey with it, which it starts again."""
        self.process.kill()
        self.process.wait(10)

    def restart(self) -> None:
        """Kills it and starts the next one."""
        self.kill9()
        self.start()

    def logs(self) -> str:
        """What it has written."""
        return (self.folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        """Ends it in order, so that its Valkey ends, too: of one that was killed the next one takes it over first."""
        if self.process.poll() is not None:
            self.start()
            pannier.connect(self.address).close()
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill9()
        shutil.rmtree(self.folder, ignore_errors=True)


def name() -> str:
    """One that nobody has used."""
    return uuid.uuid4().hex[:12]


def until(done: Callable[[], object], seconds: float = 20, what: str = "it") -> None:
    """Waits until it is so."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"{what} did not come about within {seconds} s"
        time.sleep(0.02)


class LosingProxy:
    """A socket before the sidecar's that breaks a connection: when so much has gone through it, or instead of an answer."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._target = str(sidecar.socket)
        self.socket = sidecar.folder / "run/proxy.sock"
        self.address = f"unix:{self.socket}"
        self.broken = 0
        self._left: int | None = None
        self._losing = False
        self._lock = threading.Lock()
        self.again()

    def again(self) -> None:
        """Takes connections."""
        self.socket.unlink(missing_ok=True)
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(self.socket))
        self._server.listen(16)
        threading.Thread(target=self._accept, args=[self._server], daemon=True).start()

    def break_after(self, size: int) -> None:
        """Breaks the connection over which the next so many bytes went."""
        with self._lock:
            self._left = size

    def lose_next(self) -> None:
        """What the client says arrives; the next answer does not, and the connection breaks."""
        with self._lock:
            self._losing = True

    def stop(self) -> None:
        """Takes no more."""
        self.socket.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                server.connect(self._target)
            except OSError:
                # Not there yet.
                client.close()
                continue
            for pair in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if self._breaks(len(data)) or (answers and self._loses(data)):
                    break
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _loses(self, frames: bytes) -> bool:
        """They hold an HTTP/2 DATA frame; they begin with a frame, as what a server writes at once does."""
        with self._lock:
            at = 0
            while self._losing and at + 9 <= len(frames):
                if frames[at + 3] == 0:
                    self._losing = False
                    self.broken += 1
                    return True
                at += 9 + int.from_bytes(frames[at : at + 3], "big")
            return False

    def _breaks(self, size: int) -> bool:
        with self._lock:
            if self._left is None:
                return False
            self._left -= size
            if self._left > 0:
                return False
            self._left = None
            self.broken += 1
            return True
