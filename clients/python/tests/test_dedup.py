"""A message is handled once, and not lost between the claim and the work."""

import asyncio
import time
from datetime import datetime, timedelta, timezone

import pytest

import pannier
from pannier import aio

KEY = "message:wamid.HBgL*{}:+49 ☎ Ünïcode/💬"


def test_claim_once_is_true_for_the_first_alone(client: pannier.Pannier) -> None:
    assert client.dedup.claim_once(KEY)
    assert not client.dedup.claim_once(KEY)
    assert client.dedup.claim_once(KEY + ".")


def test_a_key_is_free_again_when_its_time_has_passed(client: pannier.Pannier) -> None:
    assert client.dedup.claim_once("k", ttl=timedelta(milliseconds=50))
    time.sleep(0.06)
    assert client.dedup.claim_once("k")


def test_a_claim_is_in_progress_then_a_duplicate_with_its_result(client: pannier.Pannier) -> None:
    claim = client.dedup.claim("k", in_progress_ttl=timedelta(seconds=20))
    assert isinstance(claim, pannier.Claim)
    assert claim.claimed and claim.outcome == "new" and claim.fence > 0
    assert claim.expires_at is not None and claim.expires_at > datetime.now(timezone.utc)
    match client.dedup.claim("k"):
        case pannier.InProgress(retry_after=wait):
            assert timedelta() < wait <= timedelta(seconds=20, milliseconds=1)
        case other:
            pytest.fail(repr(other))
    assert claim.complete({"reply": "wamid.2", "n": 1}).outcome == "completed"
    assert claim.complete({"reply": "other"}).outcome == "completed"
    match client.dedup.claim("k"):
        case pannier.Duplicate(result={"reply": reply, "n": n}):
            assert (reply, n) == ("wamid.2", 1)
        case other:
            pytest.fail(repr(other))


def test_a_claim_whose_time_ran_out_is_taken_over_and_its_fence_is_refused(client: pannier.Pannier) -> None:
    first = client.dedup.claim("k", in_progress_ttl=timedelta(milliseconds=30))
    assert isinstance(first, pannier.Claim)
    time.sleep(0.04)
    second = client.dedup.claim("k")
    assert isinstance(second, pannier.Claim)
    assert second.outcome == "takeover" and second.fence > first.fence
    assert first.complete().outcome == "lease_lost"
    assert first.extend().outcome == "lease_lost"
    assert first.release().outcome == "lease_lost"
    assert second.extend(timedelta(seconds=3)).outcome == "extended"
    assert second.release().outcome == "released"
    assert client.dedup.claim("k").outcome == "new"


def test_another_fingerprint_is_a_mismatch(client: pannier.Pannier) -> None:
    client.dedup.claim("k", fingerprint="a")
    assert isinstance(client.dedup.claim("k", fingerprint=b"b"), pannier.ClaimMismatch)


def test_a_batch_is_judged_item_by_item(client: pannier.Pannier) -> None:
    items: list[str | pannier.ClaimItem] = ["a", pannier.ClaimItem(key="b", fingerprint="x"), "a"]
    assert [one.outcome for one in client.dedup.claim_batch(items)] == ["new", "new", "in_progress"]


def test_work_runs_once_and_duplicates_get_what_it_gave(client: pannier.Pannier) -> None:
    ran: list[int] = []

    def work(context: pannier.WorkContext) -> str:
        ran.append(context.fence)
        assert not context.takeover and not context.aborted
        return "answer"

    assert client.dedup.run("k", work, result=True) == pannier.Ran("completed", "answer")
    again = client.dedup.run("k", work, result=True)
    assert isinstance(again, pannier.Duplicate) and again.result == "answer"
    assert len(ran) == 1


def test_work_that_raises_gives_its_claim_back(client: pannier.Pannier) -> None:
    def work(context: pannier.WorkContext) -> None:
        raise LookupError("no such user")

    with pytest.raises(LookupError):
        client.dedup.run("k", work)
    assert client.dedup.claim("k").outcome == "new"


def test_long_work_keeps_its_claim_and_lost_work_is_told(client: pannier.Pannier) -> None:
    ttl = timedelta(milliseconds=900)

    def long(context: pannier.WorkContext) -> bool:
        return context.wait(2)

    assert client.dedup.run("long", long, in_progress_ttl=ttl) == pannier.Ran("completed", False)

    def lost(context: pannier.WorkContext) -> Exception | None:
        # Somebody completes it behind our back.
        client.dedup._grant(pannier._core.dedup.Granted("lost", "new", context.fence, None)).release()
        assert context.wait(5)
        return context.reason

    ran = client.dedup.run("lost", lost, in_progress_ttl=ttl)
    assert isinstance(ran, pannier.Ran)
    assert ran.outcome == "lease_lost" and isinstance(ran.value, pannier.FencedError)


def test_a_result_that_cannot_be_kept_is_an_error_but_the_work_is_not_done_again(client: pannier.Pannier) -> None:
    with pytest.raises(pannier.TooLargeError) as raised:
        client.dedup.run("k", lambda _: "x" * 5000, result=True)
    assert raised.value.field == "result"
    assert client.dedup.claim("k").outcome == "duplicate"


async def test_the_same_with_asyncio(aclient: aio.Pannier) -> None:
    assert await aclient.dedup.claim_once(KEY)
    assert not await aclient.dedup.claim_once(KEY)
    claim = await aclient.dedup.claim("k")
    assert isinstance(claim, aio.Claim)
    assert (await aclient.dedup.claim("k")).outcome == "in_progress"
    assert (await claim.complete(b"\x00\xff")).outcome == "completed"
    again = await aclient.dedup.claim("k")
    assert isinstance(again, pannier.Duplicate) and again.result == b"\x00\xff"

    async def work(context: aio.WorkContext) -> int:
        return context.fence

    ran = await aclient.dedup.run("run", work)
    assert isinstance(ran, pannier.Ran) and ran.outcome == "completed"
    assert (await aclient.dedup.run("run", work)).outcome == "duplicate"


async def test_work_is_cancelled_when_its_claim_is_lost(aclient: aio.Pannier) -> None:
    cancelled = asyncio.Event()

    async def work(context: aio.WorkContext) -> None:
        await aclient.dedup._grant(pannier._core.dedup.Granted("k", "new", context.fence, None)).release()
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(pannier.FencedError):
        await aclient.dedup.run("k", work, in_progress_ttl=timedelta(milliseconds=300))
    assert cancelled.is_set()


async def test_a_run_that_is_cancelled_gives_its_claim_back(aclient: aio.Pannier) -> None:
    begun = asyncio.Event()

    async def work(_: aio.WorkContext) -> None:
        begun.set()
        await asyncio.sleep(10)

    task = asyncio.ensure_future(aclient.dedup.run("k", work))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await aclient.dedup.claim("k")).outcome == "new"
