"""Makes the checked-in code that has another source, with the pinned tools of requirements-dev.txt.

python generate.py [--check]

- `src/pannier/_gen` from `../../proto`: messages, their types, and stubs.
- `src/pannier/_sync` from `src/pannier/aio`: what both clients do in the same steps is written once, with `await`.

`--check` writes nothing and fails if what is checked in differs.
"""

import re
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
PACKAGE = HERE / "src" / "pannier"
GEN = PACKAGE / "_gen"
SYNC = PACKAGE / "_sync"
AIO = PACKAGE / "aio"
# Written by hand on both sides: threads here, tasks there.
BY_HAND = {"__init__.py", "_io.py", "_channel.py", "_duplex.py", "_work.py", "_keeper.py"}

NOTE = "# Made from ../aio/{name} by generate.py: change it there.\n"
WORDS = [
    (r"\basync def\b", "def"),
    (r"\basync with\b", "with"),
    (r"\basync for\b", "for"),
    (r"\bawait ", ""),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsyncIterable\b", "Iterable"),
    (r"\bAsyncGenerator\[(\w+), None\]", r"Generator[\1, None, None]"),
    (r"\bAsyncGenerator\b", "Generator"),
    (r"\baclosing\b", "closing"),
    (r"\baclose\b", "close"),
    (r"\bpannier\.aio\b", "pannier"),
    (r"^import grpc\.aio\n", ""),
    (r"\bgrpc\.aio\.", "grpc."),
    (r"`async with ", "`with "),
]


def generated() -> dict[Path, str]:
    """All files as they should be."""
    with tempfile.TemporaryDirectory() as scratch:
        protoc(Path(scratch))
        made = {GEN / path.name: flat(path.read_text()) for path in sorted(Path(scratch).glob("pannier/v1/*"))}
    made[GEN / "__init__.py"] = '"""Messages and stubs, generated from `proto/` by generate.py."""\n'
    for path in sorted(AIO.glob("*.py")):
        if path.name not in BY_HAND:
            made[SYNC / path.name] = without_await(path)
    return made


def protoc(out: Path) -> None:
    """Runs the compiler that comes with grpcio-tools."""
    names = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("pannier/v1/*.proto"))
    include = str(files("grpc_tools") / "_proto")
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"-I{include}"]
    command += [f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python")]
    subprocess.run([*command, *names], check=True)


def flat(code: str) -> str:
    """The protos' package is that of this client: their modules must not be looked for in it."""
    return re.sub(r"^from pannier\.v1 import ", "from pannier._gen import ", code, flags=re.MULTILINE)


def without_await(path: Path) -> str:
    """The same code for a caller that blocks, formatted."""
    code = path.read_text()
    for pattern, word in WORDS:
        code = re.sub(pattern, word, code, flags=re.MULTILINE)
    command = [sys.executable, "-m", "ruff", "check", "--quiet", "--select", "I", "--fix", "--stdin-filename"]
    target = str(SYNC / path.name)
    for step in ([*command, target, "-"], [sys.executable, "-m", "ruff", "format", "--stdin-filename", target, "-"]):
        code = subprocess.run(step, input=code, stdout=subprocess.PIPE, text=True, check=True, cwd=HERE).stdout
    return NOTE.format(name=path.name) + code


def main() -> int:
    """Writes, or checks."""
    made = generated()
    by_hand = {SYNC / name for name in BY_HAND}
    there = {*GEN.glob("*.py*"), *SYNC.glob("*.py")} - by_hand
    stale = [path for path in made if not path.exists() or path.read_text() != made[path]]
    stale += [path for path in there if path not in made]
    if "--check" in sys.argv:
        for path in stale:
            print(f"not current: {path.relative_to(HERE)} (run `make clients`)", file=sys.stderr)
        if not stale:
            print(f"generated code is current ({len(made)} files)")
        return 1 if stale else 0
    for path in stale:
        if path in made:
            path.write_text(made[path])
        else:
            path.unlink()
    print(f"{len(made)} files, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
