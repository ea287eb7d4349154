"""How much may be sent."""

import time
from datetime import timedelta

import pytest

import pannier
from pannier import Fixed, Gcra, Rolling, Unique, aio


def test_a_cap_allows_so_many_and_says_when(client: pannier.Pannier) -> None:
    client.caps.set_policy("daily", Rolling(limit=2, window=timedelta(hours=1)), scope="recipient")
    for n in range(2):
        match client.caps.consume("daily", send_id=f"s{n}", recipient="ana"):
            case pannier.Allowed(outcome="allowed", usage=(usage,)):
                assert (usage.policy, usage.limit, usage.used, usage.remaining) == ("daily", 2, n + 1, 1 - n)
            case other:
                pytest.fail(repr(other))
    match client.caps.consume("daily", send_id="s2", recipient="ana"):
        case pannier.Denied(denied_by="daily", retry_after=wait):
            assert timedelta(minutes=59) < wait <= timedelta(hours=1)
        case other:
            pytest.fail(repr(other))
    assert client.caps.consume("daily", send_id="s3", recipient="béa").allowed
    assert client.caps.consume("daily", send_id="s4", recipient="carl", n=3) == pannier.Never("daily")


def test_the_same_send_counts_once(client: pannier.Pannier) -> None:
    client.caps.set_policy("p", Fixed(limit=5))
    assert client.caps.consume("p", send_id="s").outcome == "allowed"
    assert client.caps.consume("p", send_id="s").outcome == "replayed"
    assert client.caps.consume("p", send_id="s", n=2) == pannier.SendMismatch()
    assert client.caps.refund("s").outcome == "refunded"
    assert client.caps.refund("nobody").outcome == "unknown"
    assert client.caps.consume("p", send_id="s").outcome == "allowed"


def test_a_reservation_is_confirmed_or_lapses(client: pannier.Pannier) -> None:
    client.caps.set_policy("p", Fixed(limit=2))
    kept = client.caps.consume("p", send_id="kept", reserve=True)
    assert isinstance(kept, pannier.Allowed) and kept.state == "reserved" and kept.reserved_until is not None
    assert client.caps.confirm("kept").outcome == "confirmed"
    assert client.caps.consume("p", send_id="gone", reserve=timedelta(milliseconds=700)).allowed
    assert not client.caps.consume("p", send_id="third").allowed
    time.sleep(0.75)
    assert client.caps.confirm("gone").outcome == "lapsed"
    assert client.caps.consume("p", send_id="third").allowed


def test_unique_recipients_and_the_service_window(client: pannier.Pannier) -> None:
    client.caps.set_policy("tier", Unique(limit=1))
    assert client.caps.consume("tier", send_id="1", recipient="ana").allowed
    assert not client.caps.consume("tier", send_id="2", recipient="bea").allowed
    open_until = client.caps.note_inbound("bea")
    assert client.caps.peek("tier", recipient="bea").service_window_until == open_until
    assert client.caps.consume("tier", send_id="2", recipient="bea").allowed


def test_a_peek_writes_nothing(client: pannier.Pannier) -> None:
    client.caps.set_policy("pair", Gcra(period=timedelta(seconds=6), burst=2))
    first = client.caps.peek("pair", n=3, unit=4)
    assert first == client.caps.peek("pair", n=3, unit=4)
    assert first.policies[0].never and first.policies[0].unit_after is not None
    assert timedelta(seconds=11) < first.policies[0].unit_after <= timedelta(seconds=12)


def test_policies_are_read_listed_changed_and_deleted(client: pannier.Pannier) -> None:
    made = client.caps.set_policy("day", Fixed(limit=3, time_zone="America/Mexico_City"), scope="pair", fail_open=True)
    assert made == client.caps.get_policy("day")
    assert made.rule == Fixed(limit=3, time_zone="America/Mexico_City") and made.scope == "pair" and made.fail_open
    assert client.caps.set_policy("tier", "meta_tier_2k").rule == Unique(limit=2000)
    assert client.caps.set_policy("pair", "meta_pair").rule == Gcra(period=timedelta(seconds=6), burst=45)
    assert client.caps.set_policy("free", Unique(limit=None)).rule == Unique(limit=None)
    assert [policy.name for policy in client.caps.list_policies()] == ["day", "free", "pair", "tier"]
    assert not client.caps.delete_policy("day", revision=made.revision + 1)
    assert client.caps.delete_policy("day", revision=made.revision)
    with pytest.raises(pannier.NotFoundError) as raised:
        client.caps.get_policy("day")
    assert raised.value.code == "NOT_FOUND" and raised.value.hint and "set_policy" in raised.value.hint


@pytest.mark.parametrize(
    ("field", "act"),
    [
        ("policies", lambda c: c.consume([], send_id="s")),
        ("policies[1]", lambda c: c.consume(["a", "a"], send_id="s")),
        ("send_id", lambda c: c.consume("p", send_id="")),
        ("recipient", lambda c: c.consume("p", send_id="s", recipient="x" * 513)),
        ("n", lambda c: c.consume("p", send_id="s", n=0)),
        ("reserve_ttl", lambda c: c.consume("p", send_id="s", reserve=timedelta(days=2))),
        ("unit", lambda c: c.peek("p", unit=0)),
        ("policy.name", lambda c: c.set_policy("", Fixed(limit=1))),
        ("policy.rolling.limit", lambda c: c.set_policy("p", Rolling(limit=129, window=timedelta(1)))),
        ("policy.fixed.time_zone", lambda c: c.set_policy("p", Fixed(limit=1, window=timedelta(1), time_zone="UTC"))),
        ("policy.fixed.time_zone", lambda c: c.set_policy("p", Fixed(limit=1, time_zone="Mars/Olympus"))),
        ("policy.gcra.period", lambda c: c.set_policy("p", Gcra(period=timedelta(0), burst=1))),
        ("policy.preset", lambda c: c.set_policy("p", "meta")),
        ("policy.scope", lambda c: c.set_policy("p", Fixed(limit=1), scope="all")),
        ("policy.algorithm", lambda c: c.set_policy("p", 3)),
    ],
)
def test_a_wrong_field_is_named(client: pannier.Pannier, field: str, act: object) -> None:
    assert callable(act)
    with pytest.raises(pannier.BadRequestError) as raised:
        act(client.caps)
    assert raised.value.field == field
    assert client.caps.list_policies() == []


async def test_the_same_with_asyncio(aclient: aio.Pannier) -> None:
    await aclient.caps.set_policy("p", Fixed(limit=1, window=timedelta(days=1)))
    assert (await aclient.caps.consume(["p"], send_id="1")).allowed
    assert not (await aclient.caps.consume(["p"], send_id="2")).allowed
    assert (await aclient.caps.refund("1")).outcome == "refunded"
    assert (await aclient.caps.consume(["p"], send_id="2", reserve=True)).allowed
    assert (await aclient.caps.confirm("2")).outcome == "confirmed"
    assert len((await aclient.caps.peek("p")).policies) == 1
    assert [policy.name for policy in await aclient.caps.list_policies()] == ["p"]
