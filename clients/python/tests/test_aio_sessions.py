"""Sessions with asyncio."""

import asyncio
import time
from datetime import timedelta

import pytest
from support import Sidecar

import pannier
from pannier import Put, aio

TTL = timedelta(seconds=3)


async def test_records_are_committed_read_listed_and_cleared(aclient: aio.Pannier) -> None:
    async with aclient.sessions.open("bøt") as session:
        done = await asyncio.gather(*(session.commit([Put("t", str(n), str(n))]) for n in range(100)))
        assert [one.revision for one in done] == list(range(1, 101))
        found = await session.get("t", ["5", "99", "none"])
        assert {key: one.text for key, one in found.items()} == {"5": "5", "99": "99"}
        assert len([one async for one in session.list("t")]) == 100
        cleared = await session.clear()
        assert session.incarnation == cleared.incarnation and await session.get("t", ["5"]) == {}
    info = await aclient.sessions.info("bøt")
    assert info is not None and info.lease is None
    assert [one.session async for one in aclient.sessions.list()] == ["bøt"]
    assert (await aclient.sessions.commit("bøt", [Put("t", "a", b"1")])).revision == info.revision + 1
    assert [one.value async for one in aclient.sessions.records("bøt")] == [b"1"]
    assert await aclient.sessions.delete("bøt", shred=True)


async def test_another_owner_takes_over(aclient: aio.Pannier) -> None:
    async with aclient.sessions.open("s", owner="a") as first:
        with pytest.raises(pannier.SessionHeldError):
            async with aclient.sessions.open("s", owner="b", on_held="fail"):
                pass
        async with aclient.sessions.open("s", owner="b", on_held="take_over") as second:
            await second.commit([Put("t", "a", b"2")])
            with pytest.raises(pannier.FencedError):
                await first.commit([Put("t", "a", b"1")])
            assert isinstance(first.lost, pannier.FencedError)


async def test_opening_can_be_cancelled(aclient: aio.Pannier) -> None:
    async with aclient.sessions.open("s", owner="a"):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(aclient.sessions.open("s", owner="b").__aenter__(), 0.3)
    async with aclient.sessions.open("s", owner="c", on_held="fail"):
        pass


async def test_cancelled_calls_break_nothing(aclient: aio.Pannier) -> None:
    async with aclient.sessions.open("s") as session:
        for n in range(20):
            calls = [asyncio.ensure_future(session.commit([Put("t", f"{n}-{m}", b"")])) for m in range(10)]
            reads = [asyncio.ensure_future(session.get("t", ["a"])) for _ in range(5)]
            await asyncio.sleep(0.001)
            for call in [*calls, *reads]:
                call.cancel()
            await asyncio.gather(*calls, *reads, return_exceptions=True)
        await session.commit([Put("t", "last", b"1")])
        assert (await session.get("t", ["last"]))["last"].value == b"1"
        assert session.lost is None


async def test_commits_go_on_in_order_over_killed_sidecars(sidecar: Sidecar) -> None:
    async with sidecar.aconnect() as client, client.sessions.open("s", lease_ttl=TTL) as session:
        over = False

        async def kill() -> None:
            while not over:
                await asyncio.sleep(0.5)
                await asyncio.to_thread(sidecar.restart)

        killer = asyncio.ensure_future(kill())
        began = time.monotonic()
        n = 0
        while time.monotonic() - began < 4:
            batch = [session.commit([Put("t", "counter", str(m)), Put("t", str(m), b"")]) for m in range(n + 1, n + 21)]
            done = await asyncio.gather(*batch)
            # A commit that is sent again gives the revision as it is then.
            assert done[-1].revision == n + 20
            n += 20
            assert (await session.get("t", ["counter"]))["counter"].text == str(n)
        over = True
        await killer
        assert session.revision == n and session.lost is None
        assert len([one async for one in session.list("t", ids_only=True)]) == n + 1
