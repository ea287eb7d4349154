"""One table of scenarios, run over every client: the same calls have the same outcomes. See tests/parity/README.md."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from parity_calls import CALLS, fields
from support import ROOT, Sidecar

import pannier

TABLE: list[dict[str, Any]] = json.loads((ROOT / "tests/parity/scenarios.json").read_text())["scenarios"]
SCENARIO = {"name", "steps"}
STEP = {"call", "with", "gives", "error", "as", "not_in"}
#: What is the caller's own, to the letter.
OPAQUE = {"fields", "payload", "result", "labels"}
HEX = {"sha256", "content_digest"}
ran: set[tuple[str, str]] = set()


@pytest.mark.parametrize("scenario", TABLE, ids=lambda one: str(one["name"]))
def test_sync(shared: Sidecar, scenario: dict[str, Any]) -> None:
    async def pause(seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 # there is no loop

    with shared.connect() as client:
        try:
            play(client, scenario, pause).send(None)
        except StopIteration:
            ran.add(("sync", scenario["name"]))
        else:
            pytest.fail("a call of the client for threads cannot be awaited")


@pytest.mark.parametrize("scenario", TABLE, ids=lambda one: str(one["name"]))
async def test_aio(shared: Sidecar, scenario: dict[str, Any]) -> None:
    async with shared.aconnect() as client:
        await play(client, scenario, asyncio.sleep)
    ran.add(("aio", scenario["name"]))


def test_every_scenario_was_run(request: pytest.FixtureRequest) -> None:
    if request.config.option.keyword or "::" in str(request.config.args):
        pytest.skip("only a part was asked for")
    assert ran == {(client, scenario["name"]) for client in ("sync", "aio") for scenario in TABLE}
    assert len(ran) == 2 * len(TABLE) > 0


async def play(client: Any, scenario: dict[str, Any], pause: Callable[[float], Awaitable[None]]) -> None:
    assert scenario.keys() == SCENARIO and scenario["steps"]
    objects: dict[str, Any] = {}
    results: dict[str, Any] = {}
    for number, step in enumerate(scenario["steps"]):
        if step.keys() == {"wait_ms"}:
            await pause(step["wait_ms"] / 1000)
            continue
        where = f"step {number}: {step}"
        assert step.keys() <= STEP and ("gives" in step) != ("error" in step), where
        if "python" in step.get("not_in", []):
            continue
        given = said(step.get("with", {}), results)
        try:
            answer = await CALLS[step["call"]](client, given, objects)
        except pannier.PannierError as error:
            assert "error" in step, f"{where}\n{error!r}"
            found = {"reason": error.reason, **({} if error.field is None else {"field": error.field})}
            assert found == step["error"], f"{where}\n{error!r}"
            continue
        result = plain(answer)
        assert "gives" in step, f"{where}\n{result}"
        wrong = list(differences(wanted(step["gives"], results), result, ""))
        assert not wrong, f"{where}\n{wrong}\n{result}"
        if "as" in step:
            objects[step["as"]], results[step["as"]] = answer, result


def said(value: Any, results: dict[str, Any]) -> Any:
    """An argument of the table."""
    if isinstance(value, list):
        return [said(one, results) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"repeat", "times"}:
        return value["repeat"] * value["times"]
    if value.keys() == {"bytes"}:
        return bytes.fromhex(value["bytes"])
    if value.keys() == {"ref"}:
        return at(results, value["ref"])
    return {name: said(one, results) for name, one in value.items()}


def wanted(value: Any, results: dict[str, Any]) -> Any:
    """An expectation of the table, with what earlier steps gave."""
    if isinstance(value, list):
        return [wanted(one, results) for one in value]
    if not isinstance(value, dict):
        return value
    return at(results, value["ref"]) if value.keys() == {"ref"} else {name: wanted(one, results) for name, one in value.items()}


def at(results: dict[str, Any], path: str) -> Any:
    found: Any = results
    for name in path.split("."):
        found = found[name]
    return found


def plain(value: Any, name: str = "") -> Any:
    """An answer as the table has it."""
    if isinstance(value, (bytes, bytearray)):
        if name == "value":
            return value.decode()
        return value.hex() if name in HEX else {"bytes": value.hex()}
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(one, name) for one in value]
    if name in OPAQUE:
        return {key: plain(one, name) for key, one in value.items()}
    known = value if isinstance(value, dict) else fields(value)
    made: dict[str, Any] = {}
    for key, one in known.items():
        if isinstance(one, timedelta):
            # As JSON has it: 0.5 and 1000, not 1000.0.
            made[f"{key}_ms"] = (
                one // timedelta(milliseconds=1) if one % timedelta(milliseconds=1) == timedelta() else one / timedelta(milliseconds=1)
            )
        elif key in ("rule", "usage") and not isinstance(one, (list, tuple)):
            # Here a part of its own; the table has it beside the rest.
            made.update(plain(one))
            if key == "rule":
                made["algorithm"] = type(one).__name__.lower()
        else:
            made[key] = plain(one, key)
    return made


def differences(want: Any, have: Any, path: str) -> Iterator[str]:
    """Where what came is not what the table says. What the table does not name is not compared."""
    if isinstance(want, dict):
        keys = want.keys()
        if keys == {"exactly"}:
            if json.dumps(want["exactly"], sort_keys=True) != json.dumps(have, sort_keys=True):
                yield f"{path}: {have!r}, not exactly {want['exactly']!r}"
        elif keys == {"any"}:
            if have is None:
                yield f"{path}: is missing"
        elif keys == {"contains"}:
            if not isinstance(have, str) or want["contains"] not in have:
                yield f"{path}: {have!r} does not contain {want['contains']!r}"
        elif "least" in keys:
            if not isinstance(have, (int, float)) or isinstance(have, bool) or not want["least"] <= have <= want.get("most", have):
                yield f"{path}: {have!r} is not within {want}"
        elif not isinstance(have, dict):
            yield f"{path}: {have!r} is not {want!r}"
        else:
            for name, one in want.items():
                yield from differences(one, have.get(name), f"{path}.{name}")
    elif isinstance(want, list):
        if not isinstance(have, list) or len(have) != len(want):
            yield f"{path}: {have!r} has not {len(want)} items"
        else:
            for n, one in enumerate(want):
                yield from differences(one, have[n], f"{path}[{n}]")
    elif want != have or isinstance(want, bool) != isinstance(have, bool):
        yield f"{path}: {have!r}, not {want!r}"
