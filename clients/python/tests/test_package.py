"""The package as its users get it: built, installed into an empty environment, and used from there."""

import os
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from pathlib import Path

import pytest
from support import Sidecar

HERE = Path(__file__).resolve().parent.parent
USE = """
import sys, pathlib, pannier, google.protobuf, grpc
assert "site-packages" in pannier.__file__, pannier.__file__
assert (pathlib.Path(pannier.__file__).parent / "py.typed").exists()
with pannier.connect() as client:
    assert client.dedup.claim_once("wheel") and not client.dedup.claim_once("wheel")
    client.blobs.save("b", b"content")
    with client.sessions.open("s") as session:
        session.commit([pannier.Put("t", "a", b"1")])
print(google.protobuf.__version__, grpc.__version__)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the source distribution."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(HERE)], check=True, timeout=100)
    return {path.suffix: path for path in out.iterdir()}


def test_the_wheel_holds_the_package_and_nothing_else(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built[".whl"]) as wheel:
        names = wheel.namelist()
        metadata = next(name for name in names if name.endswith("/METADATA"))
        requires = [line for line in wheel.read(metadata).decode().splitlines() if line.startswith("Requires-Dist")]
    assert {name.split("/")[0] for name in names} == {"pannier", metadata.split("/")[0]}
    assert "pannier/py.typed" in names and "pannier/_gen/dedup_pb2.pyi" in names
    assert [line.split()[1].split(">")[0].split("<")[0] for line in requires] == ["grpcio", "protobuf"]
    with tarfile.open(built[".gz"]) as source:
        inside = {name.partition("/")[2] for name in source.getnames()}
    assert {"pyproject.toml", "README.md", "generate.py", "src/pannier/py.typed", "tests/support.py"} <= inside


@pytest.mark.slow
@pytest.mark.parametrize("pins", [[], ["grpcio==1.74.0", "protobuf==6.31.1"]], ids=["newest", "oldest"])
def test_the_wheel_works_in_an_empty_environment(built: dict[str, Path], shared: Sidecar, tmp_path: Path, pins: list[str]) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv/bin/python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    subprocess.run([*install, str(built[".whl"]), *pins], check=True, timeout=110)
    env = {**os.environ, "PANNIER_ADDRESS": shared.address}
    command = [python, "-W", "error", "-c", USE.replace('"wheel"', repr(f"wheel {pins}"))]
    ran = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    if pins:
        assert ran.stdout.split() == ["6.31.1", "1.74.0"]
        return
    # What a newcomer does next: the first program of the README, in a file of its own.
    (tmp_path / "bot.py").write_text((HERE / "README.md").read_text().split("```python\n")[1].split("```")[0])
    begun = time.monotonic()
    bot = subprocess.run([python, "bot.py"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    print(f"the README's bot.py from the wheel: {time.monotonic() - begun:.1f} s")
    assert (bot.returncode, bot.stdout) == (0, "awaiting_amount\n"), bot.stderr
