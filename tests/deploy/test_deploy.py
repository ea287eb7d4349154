"""The files in deploy/, as far as they can be judged without a container engine: by the linters and schemas of what reads them, by what
they must promise, and by running the binary as each of them would."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import jsonschema
import kubernetes_validate.utils
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "docker/Dockerfile"
UNIT = DEPLOY / "systemd/pannier.service"


def run(command, **options):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=120, **options)


def instructions():
    """The Dockerfile's, without comments, each on one line."""
    text = re.sub(r"\\\n", " ", DOCKERFILE.read_text())
    lines = [line.strip() for line in text.splitlines()]
    return [tuple(line.split(maxsplit=1)) for line in lines if line and not line.startswith("#")]


@pytest.fixture
def place():
    """A directory for this user alone whose name is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="pannier-", dir="/tmp") as path:
        yield Path(path)


@contextlib.contextmanager
def served(binary, arguments, environment, ready):
    """The sidecar with these arguments, from SERVING to its orderly end."""
    process = subprocess.Popen([str(binary), *arguments], env={"PATH": os.environ["PATH"], **environment}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until = time.monotonic() + 30
        while run(ready, env={"PATH": os.environ["PATH"], **environment}).returncode != 0:
            assert process.poll() is None, process.stdout.read()
            assert time.monotonic() < until, "not ready in 30 s"
            time.sleep(0.05)
        yield process
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=27)
        assert process.returncode == 0, output
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@contextlib.contextmanager
def valkey(server, directory, *settings):
    path = directory / "v.sock"
    process = subprocess.Popen([server, *settings, "--port", "0", "--unixsocket", str(path), "--dir", str(directory)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 10
        while not path.exists():
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.02)
        yield f"unix://{path}", path
    finally:
        process.kill()
        process.wait()


# --- the image


def test_the_dockerfile_has_no_known_fault(tools):
    checked = run([tools / "bin/hadolint", DOCKERFILE])
    assert checked.returncode == 0, checked.stdout
    # The linter does find faults.
    bad = subprocess.run([tools / "bin/hadolint", "-"], input="FROM debian\nRUN cd /tmp && sudo ls\n", text=True, stdout=subprocess.PIPE)
    assert bad.returncode == 1 and "DL3006" in bad.stdout


def test_the_image_runs_as_nobody_and_is_healthy_by_our_own_word(binary):
    steps = instructions()
    last_stage = steps[max(at for at, step in enumerate(steps) if step[0] == "FROM"):]
    last = dict(last_stage)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last["USER"]), "a numeric user, which runAsNonRoot can see"
    assert "distroless" in last["FROM"] and not any(step[0] == "RUN" for step in last_stage)
    _, check = last["HEALTHCHECK"].split("CMD ")
    assert json.loads(check) == json.loads(last["ENTRYPOINT"]) + ["healthcheck"]
    assert last["STOPSIGNAL"] == "SIGTERM"
    assert run([binary, "healthcheck", "--help"]).returncode == 0
    assert not re.search(r"(?i)(password|secret|token)=", DOCKERFILE.read_text())


def test_the_image_builds_as_make_does_from_what_it_is_given(place):
    build = next(words for name, words in instructions() if name == "RUN")
    made = re.findall(r"cargo build .*", (ROOT / "Makefile").read_text())
    assert re.search(r"cargo build --locked --release", build) and set(made) == {"cargo build --locked --release"}
    # The context, as .dockerignore leaves it, is a whole crate.
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for pattern in kept:
        found = list(ROOT.glob(pattern))
        assert found, pattern
        for path in found:
            to = place / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(path, to) if path.is_dir() else shutil.copy(path, to)
    checked = run(["cargo", "metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"], cwd=place)
    assert checked.returncode == 0, checked.stdout
    used = set(re.findall(r'include_(?:str|bytes)!\("((?:\.\./)+[^"]+)"\)', "".join(p.read_text() for p in (ROOT / "src").rglob("*.rs"))))
    outside = {path for path in used if not any((place / "src").rglob(Path(path).name)) and not (place / path.replace("../", "")).exists()}
    assert not outside, "the source includes a file that the image is not built with"


# --- compose


def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_the_compose_file_follows_the_specification(tools):
    schema = json.loads((tools / "compose/config/compose_spec.json").read_text())
    validator = jsonschema.Draft7Validator(schema)
    # The schema at hand is older than these two.
    value = compose()
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*", value.pop("name"))
    assert value["services"]["bot"]["depends_on"]["pannier"].pop("restart") is False
    assert [error.message for error in validator.iter_errors(value)] == []
    value["services"]["pannier"]["helthcheck"] = {}
    assert list(validator.iter_errors(value)), "the schema finds a slip"


def test_the_compose_file_shares_a_socket_and_no_secret():
    services, declared = compose()["services"], compose()
    bot, sidecar, database = services["bot"], services["pannier"], services["valkey"]
    at = re.search(r"PANNIER_SOCKET=(\S+)", dict(instructions())["ENV"])[1]
    assert bot["environment"]["PANNIER_ADDRESS"] == f"unix:{at}"
    [mount] = bot["volumes"]
    assert (mount["source"], mount["target"]) == ("socket", "/run/pannier") and mount["volume"]["nocopy"]
    assert sidecar["volumes"] == ["socket:/run/pannier"] and at.startswith("/run/pannier/socket/")
    assert bot["user"] == dict(instructions())["USER"], "the socket is for one user"
    assert bot["depends_on"]["pannier"]["condition"] == sidecar["depends_on"]["valkey"]["condition"] == "service_healthy"
    assert sidecar["healthcheck"]["test"][1:] == ["/usr/local/bin/pannier", "healthcheck"]
    assert "ports" not in sidecar and "ports" not in database, "nothing is published"
    assert set(sidecar["secrets"]) | set(database["secrets"]) == set(declared["secrets"])
    assert all("file" in secret for secret in declared["secrets"].values())
    assert int(sidecar["stop_grace_period"].rstrip("s")) > 25
    assert {"data:/data"} == set(database["volumes"]) and set(declared["volumes"]) == {"socket", "data"}


def test_the_sidecar_of_the_compose_file_serves_with_a_password_from_a_file(binary, valkey_server, place):
    services = compose()["services"]
    (place / "secrets").mkdir(mode=0o700)
    password = place / "secrets/valkey-password"
    password.write_text("a-long-password\n")
    password.chmod(0o600)
    keyring = place / "secrets/keyring.toml"
    assert run([binary, "keys", "init", "--keyring", keyring]).returncode == 0
    # The database, as its shell starts it.
    script = services["valkey"]["entrypoint"][2]
    conf, settings = place / "valkey.conf", re.search(r"/tmp/valkey.conf\s+(--.*)$", script)[1].split()
    made = script[: script.index("chown")].replace("/tmp/valkey.conf", str(conf)).replace("/run/secrets", str(place / "secrets"))
    assert run(["sh", "-c", made.rstrip().removesuffix("&&")]).returncode == 0
    assert stat.S_IMODE(conf.stat().st_mode) == 0o600
    directory = place / "data"
    directory.mkdir()
    with valkey(valkey_server, directory, str(conf), *settings) as (url, _):
        replaced = {"/run/secrets": str(place / "secrets"), "valkey://valkey:6379": url, "0.0.0.0:9464": "127.0.0.1:0"}
        environment = {}
        for name, value in services["pannier"]["environment"].items():
            for before, after in replaced.items():
                value = value.replace(before, after)
            environment[name] = value
        (place / "run").mkdir(mode=0o700)
        environment |= {"PANNIER_SOCKET": str(place / "run/pannier.sock"), "PANNIER_DATA_DIR": str(place)}
        ready = [binary, *services["pannier"]["healthcheck"]["test"][2:]]
        with served(binary, [*services["pannier"]["command"], "--init"], environment, ready):
            pass
        # Once only.
        with served(binary, services["pannier"]["command"], environment, ready):
            pass


# --- Kubernetes


def manifests(name="bot.yaml", **changes):
    text = (DEPLOY / "kubernetes" / name).read_text()
    for before, after in changes.items():
        text = text.replace(before, after)
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize("version", ["1.29", "newest"])
def test_the_manifests_follow_the_schema(version):
    version = max(kubernetes_validate.utils.all_versions(), key=lambda one: tuple(map(int, one.split(".")))) if version == "newest" else version
    files = sorted(path.name for path in (DEPLOY / "kubernetes").glob("*.yaml"))
    assert files == ["bot.yaml", "secret.yaml"]
    for name in files:
        for manifest in manifests(name):
            kubernetes_validate.validate(manifest, version, strict=True)
    broken = manifests()[0]
    broken["spec"]["template"]["spec"]["initContainers"][0]["startupProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, version, strict=True)


def test_the_sidecar_starts_before_the_bot_and_ends_after_it():
    pod = manifests()[0]["spec"]["template"]["spec"]
    [sidecar], [bot] = pod["initContainers"], pod["containers"]
    assert sidecar["restartPolicy"] == "Always", "else the pod would wait for its end"
    assert sidecar["startupProbe"]["exec"]["command"] == ["/usr/local/bin/pannier", "healthcheck"]
    assert sidecar["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert sidecar["livenessProbe"]["httpGet"]["path"] == "/livez", "one that asked Valkey would restart the sidecar for nothing"
    assert pod["terminationGracePeriodSeconds"] > 25
    assert manifests()[0]["spec"]["strategy"]["type"] == "Recreate"
    [shared] = [volume["name"] for volume in pod["volumes"] if "emptyDir" in volume]
    for container in (sidecar, bot):
        assert shared in {mount["name"] for mount in container["volumeMounts"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
    variables = {variable["name"]: variable["value"] for variable in bot["env"] + sidecar["env"]}
    assert variables["PANNIER_ADDRESS"] == "unix:" + variables["PANNIER_SOCKET"]
    # Group-readable, by the group that the pod runs with, and by nobody else.
    [secret] = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    assert secret["defaultMode"] == 0o440
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"] != 0
    assert secret["secretName"] == manifests("secret.yaml")[0]["metadata"]["name"]
    names = {flag.split("/etc/pannier/")[1] for flag in sidecar["args"] if "/etc/pannier/" in flag}
    assert names == set(manifests("secret.yaml")[0]["stringData"])


@pytest.mark.parametrize("flag, url", [
    (None, "valkeys://:p@valkey.internal:6379"),
    ("--sentinel=mymaster", "valkey://:p@sentinel-0:26379,sentinel-1:26379,sentinel-2:26379"),
    ("--cluster", "valkeys://:p@node-0:6379,node-1:6379"),
])
def test_the_flags_of_the_manifest_are_taken(binary, place, flag, url):
    [sidecar] = manifests(**({f"# - {flag}": f"- {flag}"} if flag else {}))[0]["spec"]["template"]["spec"]["initContainers"]
    assert flag is None or flag in sidecar["args"]
    (place / "valkey-url").write_text(url)
    assert run([binary, "keys", "init", "--keyring", place / "keyring.toml"]).returncode == 0
    arguments = [word.replace("/etc/pannier", str(place)) for word in sidecar["args"]]
    checked = run([binary, *arguments, "--check-config"], env={"PATH": os.environ["PATH"], "HOME": str(place)})
    assert checked.returncode == 0, checked.stdout
    assert ":p@" not in checked.stdout


def test_the_sidecar_of_the_manifest_serves_in_a_volume_that_is_open_to_all(binary, valkey_server, place):
    """As a user that is not the secret's owner, with the secret's mode, below an emptyDir of mode 0777."""
    pod = manifests()[0]["spec"]["template"]["spec"]
    [sidecar] = pod["initContainers"]
    user, group = pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]
    secret, volume, data = place / "secret", place / "run", place / "data"
    for directory in (secret, volume, data):
        directory.mkdir()
    assert run([binary, "keys", "init", "--keyring", secret / "keyring.toml"]).returncode == 0
    become = []
    if os.geteuid() == 0:
        place.chmod(0o711)
        volume.chmod(0o777)
        data.chmod(0o700)
        os.chown(data, user, group)
        become = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]
        copy = place / "pannier"
        shutil.copy(binary, copy)
        copy.chmod(0o755)
        binary = copy
    with valkey(valkey_server, data, "--appendonly", "yes", "--unixsocketperm", "777") as (url, path):
        (secret / "valkey-url").write_text(url)
        if become:
            data.chmod(0o711)
            for name in ("keyring.toml", "valkey-url"):
                os.chown(secret / name, 0, group)
                (secret / name).chmod(pod["volumes"][1]["secret"]["defaultMode"])
        arguments = [word.replace("/etc/pannier", str(secret)).replace("0.0.0.0:9464", "127.0.0.1:0") for word in sidecar["args"]]
        variables = {v["name"]: v["value"].replace("/run/pannier", str(volume)) for v in sidecar["env"]}
        environment = {**variables, "HOME": str(place)}
        command, *first = [*become, str(binary), *arguments]
        with served(command, [*first, "--init"], environment, [*become, binary, "healthcheck"]):
            directory = Path(variables["PANNIER_SOCKET"]).parent
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700
            assert stat.S_IMODE(Path(variables["PANNIER_SOCKET"]).stat().st_mode) == 0o600


# --- systemd


def unit(binary, place):
    """The unit with the binary that was built and directories of the test's own."""
    text = UNIT.read_text().replace("/usr/local/bin/pannier", str(binary))
    return text.replace("/run/pannier", str(place / "run")).replace("/var/lib/pannier", str(place / "data"))


def test_systemd_accepts_the_unit(systemd_analyze, binary, place):
    path = place / "pannier.service"
    path.write_text(unit(binary, place))
    checked = run([systemd_analyze, "verify", path])
    assert checked.returncode == 0 and "pannier.service" not in checked.stdout, checked.stdout
    path.write_text(unit(binary, place).replace("RestartSec", "RestartSecs"))
    assert "RestartSecs" in run([systemd_analyze, "verify", path]).stdout, "it does find a slip"


def test_the_unit_is_hardened(systemd_analyze, binary, place):
    path = place / "pannier.service"
    path.write_text(unit(binary, place))
    checked = run([systemd_analyze, "security", "--offline=yes", "--threshold=30", path])
    assert checked.returncode == 0, checked.stdout


def test_the_user_of_the_unit_is_made(place):
    sysusers = shutil.which("systemd-sysusers")
    if not sysusers:
        pytest.skip("NO systemd-sysusers: apt-get install systemd")
    (place / "etc").mkdir()
    checked = run([sysusers, "--root", place, DEPLOY / "systemd/pannier.sysusers.conf"])
    assert checked.returncode == 0, checked.stdout
    assert "pannier:" in (place / "etc/passwd").read_text()


def test_the_binary_runs_as_the_unit_runs_it(binary, valkey_server, place):
    settings = dict(re.findall(r"^(\w+)=(.*)$", unit(binary, place), re.MULTILINE))
    assert settings["Type"] == "exec", "it says nothing to systemd"
    assert int(settings["TimeoutStopSec"]) > 25
    for directory, mode in (("run", settings["RuntimeDirectoryMode"]), ("data", settings["StateDirectoryMode"])):
        (place / directory).mkdir()
        (place / directory).chmod(int(mode, 8))
    command, *arguments = shlex.split(settings["ExecStart"])
    name, value = settings["Environment"].split("=")
    environment = {name: value, "PANNIER_VALKEY_SERVER": valkey_server, "PANNIER_SOCKET": str(place / "run/pannier.sock")}
    with served(command, arguments, environment, [command, "healthcheck"]) as process:
        # ExecReload: it stays, and serves.
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert run([command, "healthcheck"], env=environment).returncode == 0
        assert (place / "data/keyring.toml").exists()
    assert not list((place / "run").glob("*.sock")), "nothing is left behind"
    # Configuration errors are not tried again.
    refused = run([command, "serve", "--valkey-url", "http://x", "--env", "x"])
    assert str(refused.returncode) in settings["RestartPreventExitStatus"].split(), refused.stdout
