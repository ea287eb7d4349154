"""What deploy/ is checked with, installed once into the cache; and the binary that is deployed."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
REQUIREMENTS = Path(__file__).parent / "requirements.txt"


def pytest_configure():
    stamp = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pannier"
    tools = cache / f"deploy-{stamp}"
    if not tools.is_dir():
        unfinished = cache / f"deploy-{stamp}.{os.getpid()}"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary", ":all:", "--target", str(unfinished), "--requirement", str(REQUIREMENTS)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=300)
        unfinished.rename(tools)
    sys.path.append(str(tools))
    os.environ["PANNIER_DEPLOY_TOOLS"] = str(tools)


@pytest.fixture(scope="session")
def tools():
    return Path(os.environ["PANNIER_DEPLOY_TOOLS"])


@pytest.fixture(scope="session")
def binary():
    path = Path(os.environ.get("PANNIER_BIN") or ROOT / "target/debug/pannier")
    assert path.exists(), f"{path}: build it, or say in PANNIER_BIN where it is"
    return path


@pytest.fixture(scope="session")
def valkey_server():
    found = subprocess.run([ROOT / "scripts/valkey"], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    assert found.returncode == 0
    return found.stdout.strip()


@pytest.fixture(scope="session")
def systemd_analyze():
    if not shutil.which("systemd-analyze") and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "systemd"],
                       stdin=subprocess.DEVNULL, timeout=300)
    found = shutil.which("systemd-analyze")
    if not found:
        pytest.skip("NO systemd-analyze, the unit is not verified: apt-get install systemd")
    return found
