"""What the README says: its Python is run, in order, as one program, and prints what the comments say."""

import os
import re
import subprocess
import sys
from pathlib import Path

from support import Sidecar

README = Path(__file__).resolve().parent.parent / "README.md"


def test_the_readme_runs_and_prints_what_it_says(sidecar: Sidecar, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 9
    program = tmp_path / "readme.py"
    program.write_text("\n".join(blocks))
    said = re.findall(r"print\(.*\)  # (.+)$", program.read_text(), re.MULTILINE)
    env = {**os.environ, "PANNIER_ADDRESS": sidecar.address}
    ran = subprocess.run([sys.executable, "-W", "error", str(program)], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == said
    assert ran.stderr == ""


def test_the_readme_is_typed(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "readme.py").write_text("\n".join(blocks))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(tmp_path / "readme.py")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
