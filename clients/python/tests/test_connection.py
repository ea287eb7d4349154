"""Finding the sidecar, its absence, its death, and what belongs to one process and one loop."""

import asyncio
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support import Sidecar, name

import pannier
from pannier import aio
from pannier._core.address import candidates

SOON = timedelta(milliseconds=400)


def test_the_sidecar_says_what_it_is(client: pannier.Pannier) -> None:
    info = client.server_info()
    assert info.topology == "embedded" and info.durability == "fsync" and info.uptime > timedelta()


async def test_the_sidecar_says_what_it_is_with_asyncio(aclient: aio.Pannier) -> None:
    assert (await aclient.server_info()).version


def test_no_sidecar_is_an_error_that_names_the_socket_and_the_command(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(pannier.UnavailableError) as raised:
        pannier.connect(f"unix:{tmp_path}/no.sock", ready_timeout=SOON)
    assert 0.3 < time.monotonic() - began < 3
    error = raised.value
    assert f"unix:{tmp_path}/no.sock" in str(error) and "pannier serve" in str(error)
    assert (error.code, error.reason, error.retryable) == ("UNAVAILABLE", "SIDECAR_UNREACHABLE", True)


async def test_no_sidecar_with_asyncio(tmp_path: Path) -> None:
    with pytest.raises(pannier.UnavailableError, match="pannier serve"):
        async with aio.connect(f"unix:{tmp_path}/no.sock", ready_timeout=SOON):
            pass


def test_connect_waits_for_a_sidecar_that_starts_later(sidecar: Sidecar) -> None:
    sidecar.kill9()
    threading.Timer(0.5, sidecar.start).start()
    with sidecar.connect() as client:
        assert client.dedup.claim_once("k")


def test_the_default_sockets_are_tried_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PANNIER_ADDRESS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    places = [place.target for place in candidates(None, uid=1234)]
    assert places == [f"unix:{tmp_path}/pannier/pannier.sock", "unix:/tmp/pannier-1234/pannier.sock"]
    monkeypatch.setenv("PANNIER_ADDRESS", "localhost:7070")
    assert [place.target for place in candidates(None)] == ["localhost:7070"]
    for wrong in ("localhost", "http://x", "unix:", "host:port"):
        with pytest.raises(ValueError, match=r"unix:/path|host:port"):
            pannier.connect(wrong)


def test_a_default_socket_in_a_directory_open_to_others_is_refused(
    shared: Sidecar, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PANNIER_ADDRESS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    directory = tmp_path / "pannier"
    directory.mkdir(mode=0o755)
    (directory / "pannier.sock").symlink_to(shared.socket)
    with pytest.raises(pannier.UnavailableError, match="open to others"):
        pannier.connect(ready_timeout=SOON)
    directory.chmod(0o700)
    with pannier.connect(namespace=name()) as client:
        assert client.dedup.claim_once("k")
        assert client.address == f"unix:{directory}/pannier.sock"


def test_a_killed_sidecar_is_waited_for_within_the_calls_deadline(sidecar: Sidecar) -> None:
    with sidecar.connect(timeout=timedelta(seconds=20)) as client:
        client.conversations.advance("c", "before", {"n": 1})
        sidecar.kill9()
        threading.Timer(0.3, sidecar.start).start()
        assert client.conversations.advance("c", "after").outcome == "advanced"
        assert dict(client.conversations.get("c").fields) == {"n": 1}


async def test_a_killed_sidecar_is_waited_for_with_asyncio(sidecar: Sidecar) -> None:
    async with sidecar.aconnect(timeout=timedelta(seconds=20)) as client:
        await client.conversations.advance("c", "before", {"n": 1})
        sidecar.kill9()
        calls = [asyncio.ensure_future(client.dedup.claim_once(f"k{n}")) for n in range(50)]
        await asyncio.sleep(0.3)
        sidecar.start()
        assert await asyncio.gather(*calls) == [True] * 50
        assert dict((await client.conversations.get("c")).fields) == {"n": 1}


def test_a_sidecar_that_is_gone_is_unavailable_and_never_a_no(sidecar: Sidecar) -> None:
    with sidecar.connect(timeout=timedelta(seconds=1)) as client:
        sidecar.kill9()
        acts: list[Callable[[], object]] = [lambda: client.dedup.claim_once("k"), lambda: client.conversations.get("c")]
        for act in acts:
            began = time.monotonic()
            with pytest.raises((pannier.UnavailableError, pannier.DeadlineExceededError)) as raised:
                act()
            assert time.monotonic() - began < 3
            assert raised.value.retryable


def test_a_sidecar_that_stands_still_is_a_deadline(sidecar: Sidecar) -> None:
    with sidecar.connect() as client:
        sidecar.signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(pannier.DeadlineExceededError) as raised:
            client.dedup.claim("k", timeout=timedelta(milliseconds=700))
        assert 0.6 < time.monotonic() - began < 2.7
        assert raised.value.outcome_unknown and raised.value.code == "DEADLINE_EXCEEDED"
        with pytest.raises(pannier.DeadlineExceededError) as raised:
            client.conversations.get("c", timeout=timedelta(milliseconds=300))
        assert not raised.value.outcome_unknown
        sidecar.signal(signal.SIGCONT)
        assert client.conversations.get("c").step == "idle"


async def test_a_sidecar_that_stands_still_is_a_deadline_with_asyncio(sidecar: Sidecar) -> None:
    async with sidecar.aconnect() as client:
        sidecar.signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(pannier.DeadlineExceededError):
            await client.dedup.claim("k", timeout=timedelta(milliseconds=700))
        assert 0.6 < time.monotonic() - began < 2.7
        sidecar.signal(signal.SIGCONT)
        assert (await client.conversations.get("c")).step == "idle"


async def test_a_cancelled_call_breaks_nothing(aclient: aio.Pannier) -> None:
    for _ in range(30):
        calls = [asyncio.ensure_future(aclient.conversations.advance("c", "s")) for _ in range(10)]
        await asyncio.sleep(0.002)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert all(call.cancelled() or call.exception() is None for call in calls)
    assert (await aclient.conversations.advance("c", "last")).outcome == "advanced"
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(aclient.conversations.advance("c", "late"), 0)
    assert await aclient.dedup.claim_once("k")


def test_another_loop_is_told_so(shared: Sidecar) -> None:
    client = shared.aconnect()
    loop = asyncio.new_event_loop()
    other = asyncio.new_event_loop()
    try:
        with pytest.raises(pannier.ClosedError) as raised:
            loop.run_until_complete(client.dedup.claim_once("k"))
        assert raised.value.reason == "NOT_CONNECTED"
        loop.run_until_complete(client.__aenter__())
        with pytest.raises(pannier.ClosedError, match="another event loop") as raised:
            other.run_until_complete(client.dedup.claim_once("k"))
        assert raised.value.reason == "WRONG_LOOP"
        assert loop.run_until_complete(client.dedup.claim_once("k"))
        loop.run_until_complete(client.close())
    finally:
        loop.close()
        other.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_is_told_so(client: pannier.Pannier) -> None:
    assert client.dedup.claim_once("k")
    receive, send = multiprocessing.Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        try:
            client.dedup.claim_once("k2")
            send.send("no error")
        except pannier.ClosedError as error:
            send.send(error.reason + " " + str(error.hint))
        finally:
            os._exit(0)
    assert receive.poll(10)
    said = receive.recv()
    os.waitpid(pid, 0)
    assert said.startswith("FORKED ") and "spawn" in said
    assert client.dedup.claim_once("k2")


def test_clients_are_not_pickled_and_errors_are(client: pannier.Pannier) -> None:
    for one in (client, client.dedup):
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(one)
    with pytest.raises(pannier.BadRequestError) as raised:
        client.dedup.claim("")
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is pannier.BadRequestError
    assert (again.field, str(again)) == ("key", str(raised.value))


def test_a_closed_client_says_so(shared: Sidecar) -> None:
    client = shared.connect()
    client.close()
    client.close()
    with pytest.raises(pannier.ClosedError) as raised:
        client.dedup.claim_once("k")
    assert (raised.value.reason, raised.value.retryable) == ("CLOSED", False)
    with pytest.raises(pannier.ClosedError):
        client.dedup.run("k", lambda _: None)


def test_closing_ends_calls_that_wait(sidecar: Sidecar) -> None:
    client = sidecar.connect()
    sidecar.signal(signal.SIGSTOP)
    errors: list[BaseException] = []

    def call() -> None:
        try:
            client.conversations.get("c", timeout=timedelta(seconds=30))
        except pannier.PannierError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(0.2)
    client.close()
    thread.join(5)
    assert [type(error) for error in errors] == [pannier.ClosedError]


async def test_closing_ends_calls_that_wait_with_asyncio(sidecar: Sidecar) -> None:
    client = await sidecar.aconnect().__aenter__()
    sidecar.signal(signal.SIGSTOP)
    call = asyncio.ensure_future(client.conversations.get("c", timeout=timedelta(seconds=30)))
    await asyncio.sleep(0.2)
    await client.close()
    with pytest.raises(pannier.ClosedError):
        await asyncio.wait_for(call, 5)


def test_threads_share_a_client(client: pannier.Pannier) -> None:
    won: list[bool] = []
    threads = [threading.Thread(target=lambda: won.append(client.dedup.claim_once("k"))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(won) == [False] * 15 + [True]


def test_wrong_options_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="namespace"):
        pannier.connect(namespace="")
    with pytest.raises(ValueError, match="token or token_file"):
        pannier.connect("x:1", token="a", token_file="b")
    with pytest.raises(TypeError, match="timedelta"):
        pannier.connect(timeout=3)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder, pytest.raises(FileNotFoundError):
        pannier.connect("x:1", token_file=f"{folder}/none")


async def test_generated_stubs_share_the_channel(client: pannier.Pannier, aclient: aio.Pannier) -> None:
    request = pannier.raw.dedup_pb2.ClaimRequest(namespace=client.namespace, request_id="0123456789abcdef", key="k", complete=True)
    new = pannier.raw.dedup_pb2.ClaimResponse.OUTCOME_NEW
    stubs: Any = pannier.raw.dedup_pb2_grpc  # generated without types
    stub = stubs.DedupServiceStub(client.raw_channel)
    assert stub.Claim(request, timeout=5, metadata=client.raw_metadata).outcome == new
    assert not client.dedup.claim_once("k")
    request.namespace = aclient.namespace
    stub = stubs.DedupServiceStub(aclient.raw_channel)
    assert (await stub.Claim(request, timeout=5, metadata=aclient.raw_metadata)).outcome == new
