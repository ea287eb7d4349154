"""An answer that is lost: the call is sent again under the same request id, and gives what it gave."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from support import LosingProxy, Sidecar, name

import pannier
from pannier import Fixed, Put, aio


@pytest.fixture
def proxy(sidecar: Sidecar) -> Iterator[LosingProxy]:
    """Before a sidecar of the test's own."""
    proxy = LosingProxy(sidecar)
    yield proxy
    proxy.stop()


def test_a_lost_answer_is_given_again(proxy: LosingProxy) -> None:
    with pannier.connect(proxy.address, namespace=name()) as client:
        client.caps.set_policy("p", Fixed(limit=5))
        proxy.lose_next()
        assert client.dedup.claim_once("k")
        proxy.lose_next()
        claim = client.dedup.claim("c", in_progress_ttl=timedelta(minutes=1))
        assert isinstance(claim, pannier.Claim) and claim.outcome == "new"
        proxy.lose_next()
        assert claim.complete("r").outcome == "completed"
        proxy.lose_next()
        advanced = client.conversations.advance("c", "s", expected_version=0)
        assert advanced.outcome == "advanced" and advanced.replayed
        proxy.lose_next()
        assert client.caps.consume("p", send_id="s").outcome == "replayed"
        proxy.lose_next()
        added = client.schedule.enqueue("q", "x")
        assert added.outcome == "created" and added.replayed
        proxy.lose_next()
        assert client.blobs.save("b", b"content").outcome == "saved"
        assert len(client.blobs.generations("b")) == 1
        proxy.lose_next()
        client.blobs.delete("b")
        assert client.blobs.stat("b").blob is None and len(list(client.blobs.deleted())) == 1
        with client.sessions.open("s") as session:
            proxy.lose_next()
            assert session.commit([Put("t", "a", b"1")]).revision == 1
            assert session.get("t", ["a"])["a"].value == b"1" and session.revision == 1
        stats = client.schedule.stats("q")
        assert stats is not None and stats.totals.created == 1
        assert client.caps.peek("p").policies[0].usage.used == 1
    assert proxy.broken == 9


async def test_a_lost_answer_is_given_again_with_asyncio(proxy: LosingProxy) -> None:
    async with aio.connect(proxy.address, namespace=name()) as client:
        proxy.lose_next()
        assert await client.dedup.claim_once("k")
        proxy.lose_next()
        assert (await client.schedule.enqueue("q", "x")).replayed
        async with client.sessions.open("s") as session:
            proxy.lose_next()
            assert (await session.commit([Put("t", "a", b"1")])).revision == 1
    assert proxy.broken == 3


def test_an_answer_that_stays_lost_says_that_it_may_have_been_done(proxy: LosingProxy, sidecar: Sidecar) -> None:
    with pannier.connect(proxy.address, namespace="n") as client, sidecar.connect(namespace="n") as other:
        proxy.lose_next()
        proxy.stop()
        with pytest.raises(pannier.UnavailableError) as raised:
            client.dedup.claim_once("k", timeout=timedelta(seconds=1))
        assert raised.value.outcome_unknown and raised.value.retryable
        assert not other.dedup.claim_once("k")
