"""Where each chat is."""

import asyncio
import math
import time
from datetime import timedelta

import pytest

import pannier
from pannier import aio

CHAT = "49170‮1234567@s.whatsapp.net 🧺"


def test_what_was_set_comes_back_as_what_it_was(client: pannier.Pannier) -> None:
    fields: dict[str, pannier.Value] = {
        "text": "¡Hola! 👋", "empty": "", "bytes": b"\x00\xfe\xff", "int": 2**60, "float": 1.5, "yes": True, "none": None,
        "list": [1, "zwei", {"drei": 3}], "map": {"ключ": "значение"}, "half": "\ud83d", "nested": {"half": "\ud83d"},
    }  # fmt: skip
    done = client.conversations.advance(CHAT, "awaiting_amount", fields)
    assert done.outcome == "advanced" and not done.replayed
    state = client.conversations.get(CHAT)
    assert state == done.state
    assert state.exists and state.step == "awaiting_amount" and dict(state.fields) == fields
    assert state.started_at is not None and state.expires_at is not None and state.ends_at is None
    assert state.expires_at - state.started_at == timedelta(minutes=30)


def test_an_unknown_chat_is_idle(client: pannier.Pannier) -> None:
    state = client.conversations.get("nobody")
    assert (state.exists, state.step, dict(state.fields), state.version) == (False, "idle", {}, 0)
    assert not client.conversations.reset("nobody")


def test_of_two_changes_one_conflicts(client: pannier.Pannier) -> None:
    version = client.conversations.advance("c", "a").state.version
    assert client.conversations.advance("c", "b", expected_version=version).outcome == "advanced"
    match client.conversations.advance("c", "c", expected_version=version):
        case pannier.AdvanceResult(outcome="conflict", state=pannier.Conversation(step=step)):
            assert step == "b"
        case other:
            pytest.fail(repr(other))
    assert client.conversations.advance("c", "d", expected_steps=["a", "b"]).outcome == "advanced"
    assert client.conversations.advance("c", "e", expected_steps=["a", "b"]).outcome == "conflict"
    assert client.conversations.advance("new", "e", expected_version=0).outcome == "advanced"


def test_fields_stay_are_taken_away_and_replaced(client: pannier.Pannier) -> None:
    client.conversations.advance("c", "s", {"a": 1, "b": 2})
    assert dict(client.conversations.advance("c", fields={"c": 3}, unset=["a"]).state.fields) == {"b": 2, "c": 3}
    done = client.conversations.advance("c", fields={"d": 4}, replace=True)
    assert dict(done.state.fields) == {"d": 4} and done.state.step == "s"


def test_a_chat_ends_by_silence_at_its_ceiling_and_by_reset(client: pannier.Pannier) -> None:
    client.conversations.advance("silent", "s", ttl=timedelta(milliseconds=60))
    client.conversations.advance("old", "s", max_age=timedelta(milliseconds=60))
    before = client.conversations.advance("touched", "s", ttl=timedelta(seconds=20)).state
    touched = client.conversations.touch("touched", ttl=timedelta(minutes=5))
    assert before.expires_at is not None and touched.expires_at is not None and touched.updated_at == before.updated_at
    assert touched.expires_at - before.expires_at >= timedelta(minutes=4, seconds=40)
    time.sleep(0.08)
    assert not client.conversations.get("silent").exists
    assert client.conversations.advance("old", "t").outcome == "ceiling"
    assert client.conversations.advance("old", "t").outcome == "advanced"
    assert client.conversations.reset("old")
    assert not client.conversations.get("old").exists


def test_a_listing_finds_all(client: pannier.Pannier) -> None:
    for n in range(5):
        client.conversations.advance(f"c{n}", "s", {"a": "x" * n})
    found = {one.id: one for one in client.conversations.list()}
    assert set(found) == {f"c{n}" for n in range(5)}
    assert found["c3"].fields == 1 and found["c3"].step == "s"


@pytest.mark.parametrize(
    ("field", "act"),
    [
        ("id", lambda c: c.get("")),
        ("id", lambda c: c.get("x" * 513)),
        ("id", lambda c: c.get("half \ud83d")),
        ("step", lambda c: c.advance("c", "x" * 129)),
        ("set", lambda c: c.advance("c", "s", {"": 1})),
        ("set", lambda c: c.advance("c", "s", {"a": math.nan})),
        ("set", lambda c: c.advance("c", "s", {"a": {1: 2}})),
        ("set", lambda c: c.advance("c", "s", {"a": object()})),
        ("unset", lambda c: c.advance("c", "s", {"a": 1}, unset="a")),
        ("ttl", lambda c: c.advance("c", "s", ttl=timedelta(microseconds=1500))),
        ("ttl", lambda c: c.advance("c", "s", ttl=30)),
        ("ttl", lambda c: c.touch("c", ttl=timedelta(days=401))),
        ("max_age", lambda c: c.advance("c", "s", max_age=timedelta(0))),
        ("expected_steps", lambda c: c.advance("c", "s", expected_steps=[])),
        ("expected_steps", lambda c: c.advance("c", "s", expected_steps=["a"], expected_version=1)),
        ("expected_version", lambda c: c.advance("c", "s", expected_version=-1)),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_written(client: pannier.Pannier, field: str, act: object) -> None:
    assert callable(act)
    with pytest.raises(pannier.BadRequestError) as raised:
        act(client.conversations)
    assert (raised.value.field, raised.value.reason, raised.value.retryable) == (field, "BAD_FIELD", False)
    assert not client.conversations.get("c").exists


def test_too_much_is_too_large(client: pannier.Pannier) -> None:
    with pytest.raises(pannier.TooLargeError) as raised:
        client.conversations.advance("c", "s", {"a": b"x" * 256 * 1024})
    assert raised.value.field == "set"


def test_an_unknown_option_is_a_type_error(client: pannier.Pannier) -> None:
    with pytest.raises(TypeError, match="timeout must be a timedelta"):
        client.conversations.get("c", timeout=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        client.conversations.advance("c", "s", tll=timedelta(1))  # type: ignore[call-arg]


async def test_changes_at_once_are_all_kept(aclient: aio.Pannier) -> None:
    await asyncio.gather(*(aclient.conversations.advance("c", fields={f"f{n}": n}) for n in range(20)))
    state = await aclient.conversations.get("c")
    assert dict(state.fields) == {f"f{n}": n for n in range(20)}
    assert [one.id async for one in aclient.conversations.list()] == ["c"]
    assert (await aclient.conversations.touch("c")).version == state.version
    assert await aclient.conversations.reset("c")
