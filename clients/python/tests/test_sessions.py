"""Sessions: one owner, commits in order, and what comes after a broken stream."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from support import LosingProxy, Sidecar, until

import pannier
from pannier import Attributes, Put

NAME = "bøt-1 *{}:📱"
TTL = timedelta(seconds=3)


def test_records_are_committed_read_listed_and_deleted(client: pannier.Pannier) -> None:
    with client.sessions.open(NAME) as session:
        assert session.created and session.durability == "fsync" and session.revision == 0 and session.lost is None
        done = session.commit(
            [
                Put("creds", "creds", '{"me":"ö"}', "json"),
                Put("pre-key", "1", b"\x00\xff"),
                Put("pre-key", "☂", "text"),
                Put("empty", "e", b""),
            ],
            attributes=Attributes(paired=True, next_pre_key_id=31, labels={"name": "Bøt"}),
        )
        assert (done.base_revision, done.revision, done.replayed, done.durability) == (0, 1, False, "fsync")
        records = session.get("pre-key", ["1", "☂", "none"])
        assert {key: (one.value, one.kind, one.revision) for key, one in records.items()} == {
            "1": (b"\x00\xff", "bytes", 1), "☂": (b"text", "text", 1),
        }  # fmt: skip
        assert session.get("pre-key", []) == {}
        many = session.get_many({"creds": ["creds"], "empty": ["e"]})
        assert {one.type: one.text for one in many} == {"creds": '{"me":"ö"}', "empty": ""}
        session.commit(deletes=[("pre-key", "1")])
        assert [one.id for one in session.list("pre-key")] == ["☂"]
        assert {one.type for one in session.list(ids_only=True)} == {"creds", "pre-key", "empty"}
        assert session.revision == 2
    info = client.sessions.info(NAME)
    assert info is not None and info.revision == 2 and info.lease is None
    assert info.attributes == Attributes(paired=True, next_pre_key_id=31, labels={"name": "Bøt"})
    assert [one.session for one in client.sessions.list()] == [NAME]
    with pytest.raises(pannier.ClosedError):
        session.get("creds", ["creds"])


def test_large_values_and_many_records(client: pannier.Pannier) -> None:
    large = bytes(range(256)) * 4 * 3000
    with client.sessions.open("s") as session:
        puts = [Put("big", "b", large), *(Put("k", f"{n:04}", b"x" * 3000) for n in range(1000))]
        assert session.commit(puts).revision == 1
        assert session.get("big", ["b"])["b"].value == large
        assert len(session.get("k", [f"{n:04}" for n in range(1000)])) == 1000
        assert sum(1 for _ in session.list()) == 1001
        with pytest.raises(pannier.TooLargeError):
            session.commit([Put("big", "b", b"x" * (16 * 1024 * 1024 + 1))])
        with pytest.raises(pannier.TooLargeError):
            session.commit([Put("big", str(n), b"x" * 12 * 1024 * 1024) for n in range(3)])
        with pytest.raises(pannier.TooLargeError):
            session.get("k", [str(n) for n in range(1001)])
    with pytest.raises(pannier.TooLargeError):
        list(client.sessions.records("s", "big"))


def test_compare_and_set(client: pannier.Pannier) -> None:
    with client.sessions.open("s") as session:
        session.commit([Put("t", "a", b"1", if_revision=0)])
        with pytest.raises(pannier.RevisionConflictError):
            session.commit([Put("t", "a", b"2", if_revision=0)])
        with pytest.raises(pannier.RevisionConflictError):
            session.commit([Put("t", "b", b"2")], expected_revision=7)
        # A number is used up only by what was applied.
        assert session.commit([Put("t", "b", b"3")], expected_revision=1).revision == 2


def test_another_owner_fails_waits_or_takes_over(shared: Sidecar) -> None:
    with shared.connect(namespace="owners") as client:
        events: list[pannier.SessionEvent] = []
        with client.sessions.open("s", owner="a", on_event=events.append) as first:
            with pytest.raises(pannier.SessionHeldError) as raised, client.sessions.open("s", owner="b", on_held="fail"):
                pass
            assert raised.value.owner == "a" and raised.value.until is not None
            with pytest.raises(pannier.SessionHeldError), client.sessions.open("s", owner="b", wait_timeout=timedelta(milliseconds=200)):
                pass
            with client.sessions.open("s", owner="b", on_held="take_over") as second:
                second.commit([Put("t", "a", b"second")])
                until(lambda: first.lost)
                with pytest.raises(pannier.FencedError):
                    first.commit([Put("t", "a", b"first")])
                assert second.get("t", ["a"])["a"].value == b"second" and second.fence > first.fence
        assert any(isinstance(event, pannier.SessionLost) for event in events)


def test_who_waits_gets_it_when_it_is_released(client: pannier.Pannier) -> None:
    with ThreadPoolExecutor() as pool:
        with client.sessions.open("s", owner="a") as first:
            first.commit([Put("t", "a", b"1")])

            def wait() -> bytes:
                with client.sessions.open("s", owner="b") as second:
                    return second.get("t", ["a"])["a"].value

            waiting = pool.submit(wait)
            time.sleep(0.3)
            assert not waiting.done()
        assert waiting.result(10) == b"1"


def test_a_deleted_session_is_lost_and_can_be_restored(client: pannier.Pannier) -> None:
    with client.sessions.open("s") as session:
        session.commit([Put("t", "a", b"1")])
        assert client.sessions.delete("s") and not client.sessions.delete("s")
        until(lambda: session.lost)
        with pytest.raises(pannier.FencedError, match="deleted"):
            session.get("t", ["a"])
    assert client.sessions.info("s") is None
    archives = list(client.sessions.deleted("s"))
    assert [one.revision for one in archives] == [1]
    assert client.sessions.restore("s").revision >= 1
    with pytest.raises(pannier.NotFoundError):
        client.sessions.restore("none")
    assert client.sessions.get("s", {"t": ["a", "b"]}).records[0].value == b"1"
    assert client.sessions.delete("s", shred=True)
    with pytest.raises(pannier.NotFoundError):
        client.sessions.get("s", {"t": ["a"]})
    with pytest.raises(pannier.NotFoundError), client.sessions.open("s", must_exist=True):
        pass


def test_clear_keeps_the_lease_and_an_archive(client: pannier.Pannier) -> None:
    with client.sessions.open("s") as session:
        session.commit([Put("t", "a", b"1")])
        before = session.incarnation
        cleared = session.clear()
        assert cleared.incarnation == session.incarnation > before
        assert session.get("t", ["a"]) == {}
        assert session.commit([Put("t", "b", b"2")]).revision == cleared.revision + 1
    assert [one.incarnation for one in client.sessions.deleted("s")] == [before]


def test_commits_without_a_lease(client: pannier.Pannier) -> None:
    with client.sessions.open("s") as session:
        session.commit([Put("t", "a", b"1")])
        with pytest.raises(pannier.SessionHeldError):
            client.sessions.commit("s", [Put("t", "a", b"2")])
        assert client.sessions.commit("s", [Put("t", "a", b"2")], fence=session.fence).revision == 2
        assert session.get("t", ["a"])["a"].value == b"2"
        assert client.sessions.break_lease("s")
        until(lambda: session.lost)
    assert client.sessions.commit("s", deletes=[("t", "a")], expected_revision=2).revision == 3
    assert list(client.sessions.records("s")) == []
    with pytest.raises(pannier.NotFoundError):
        client.sessions.commit("none", [Put("t", "a", b"2")])


def test_old_state_is_noticed(client: pannier.Pannier) -> None:
    with client.sessions.open("s") as session:
        session.commit([Put("t", "a", b"1")])
    with pytest.raises(pannier.StaleStateError), client.sessions.open("s", min_revision=2):
        pass


def test_commits_go_on_in_order_over_killed_sidecars(sidecar: Sidecar) -> None:
    with sidecar.connect() as client, client.sessions.open("s", lease_ttl=TTL) as session:
        stop = threading.Event()

        def kill() -> None:
            while not stop.wait(0.5):
                sidecar.restart()

        killer = threading.Thread(target=kill)
        killer.start()
        began = time.monotonic()
        n = 0
        while time.monotonic() - began < 4:
            n += 1
            committed = session.commit([Put("t", "counter", str(n)), Put("t", f"{n}", b"")])
            assert committed.revision == n
            assert session.get("t", ["counter"])["counter"].text == str(n)
        stop.set()
        killer.join(30)
        assert session.revision == n and session.lost is None
        assert {one.id for one in session.list("t", ids_only=True)} == {"counter", *map(str, range(1, n + 1))}
        assert n > 20


def test_pipelined_commits_keep_their_order_over_broken_streams(sidecar: Sidecar) -> None:
    proxy = LosingProxy(sidecar)
    with pannier.connect(proxy.address) as client, client.sessions.open("s", lease_ttl=TTL) as session:
        revisions = []
        with ThreadPoolExecutor(32) as pool:
            for begin in range(0, 400, 100):
                proxy.break_after(3000)
                commits = [pool.submit(session.commit, [Put("t", str(n), b"x" * 100)]) for n in range(begin, begin + 100)]
                revisions += [commit.result(30).revision for commit in commits]
        assert max(revisions) == session.revision == 400
        assert sum(1 for _ in session.list("t", ids_only=True)) == 400
        assert proxy.broken >= 3
    proxy.stop()


def test_a_session_taken_while_the_sidecar_was_away_is_lost(sidecar: Sidecar) -> None:
    proxy = LosingProxy(sidecar)
    with (
        pannier.connect(proxy.address, namespace="n") as client,
        sidecar.connect(namespace="n") as other,
        client.sessions.open("s", owner="a") as first,
    ):
        first.commit([Put("t", "a", b"1")])
        proxy.stop()
        proxy.break_after(1)
        with pytest.raises(pannier.DeadlineExceededError):
            first.commit([Put("t", "a", b"2")], timeout=timedelta(milliseconds=300))
        with other.sessions.open("s", owner="b", on_held="take_over") as second:
            second.commit([Put("t", "a", b"b")])
            proxy.again()
            until(lambda: first.lost)
            assert isinstance(first.lost, pannier.FencedError)
            assert second.get("t", ["a"])["a"].value == b"b"


def test_a_still_sidecar_is_a_deadline_for_each_call(sidecar: Sidecar) -> None:
    with sidecar.connect() as client, client.sessions.open("s") as session:
        sidecar.signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(pannier.DeadlineExceededError) as raised:
            session.commit([Put("t", "a", b"1")], timeout=timedelta(milliseconds=500))
        assert raised.value.outcome_unknown
        with pytest.raises(pannier.DeadlineExceededError):
            session.get("t", ["a"], timeout=timedelta(milliseconds=300))
        assert time.monotonic() - began < 3
        sidecar.signal(signal.SIGCONT)
        done = session.commit([Put("t", "b", b"2")])
        assert done.revision in (1, 2)


@pytest.mark.parametrize(
    ("field", "act"),
    [
        ("session", lambda s: s.open("")),
        ("owner", lambda s: s.open("s", owner="")),
        ("on_held", lambda s: s.open("s", on_held="hope")),
        ("lease_ttl", lambda s: s.open("s", lease_ttl=timedelta(seconds=1))),
        ("wait_timeout", lambda s: s.open("s", wait_timeout=timedelta(minutes=11))),
        ("min_revision", lambda s: s.open("s", min_revision=-1)),
        ("puts[1].record.type", lambda s: s.commit("s", [Put("a", "b", b""), Put("x" * 129, "b", b"")])),
        ("puts[0].record.kind", lambda s: s.commit("s", [Put("a", "b", b"", "pickle")])),  # type: ignore[arg-type]
        ("puts[0].record.value", lambda s: s.commit("s", [Put("a", "b", 3)])),  # type: ignore[arg-type]
        ("deletes[0].id", lambda s: s.commit("s", deletes=[("a", "")])),
        ("queries[0].ids[1]", lambda s: s.get("s", {"a": ["b", ""]})),
    ],
)
def test_a_wrong_field_is_named(client: pannier.Pannier, field: str, act: object) -> None:
    assert callable(act)
    with pytest.raises(pannier.BadRequestError) as raised:
        act(client.sessions)
    assert raised.value.field == field


def test_a_closed_client_releases_its_sessions(shared: Sidecar) -> None:
    client = shared.connect(namespace="closing")
    session = client.sessions.open("s", owner="a").__enter__()
    client.close()
    assert isinstance(session.lost, pannier.ClosedError)
    with shared.connect(namespace="closing") as other, other.sessions.open("s", owner="b", on_held="fail"):
        pass
