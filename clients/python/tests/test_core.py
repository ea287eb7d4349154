"""What needs no sidecar: values, errors, tries, the order of commits, a worker's engine."""

import collections
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as Packed

import pannier
from pannier._core import acknowledged, faults, values, wire
from pannier._core.call import Tries, backoff
from pannier._core.commits import CommitQueue, Write
from pannier._core.promise import Promise
from pannier._core.worker import WorkEngine
from pannier._core.workers import hello
from pannier._gen import schedule_pb2 as pb
from pannier._gen import status_pb2


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("text", b"text"),
        ("☂", "☂".encode()),
        (b"\x00\xff", b"\xff\x00\xff"),
        ({"a": [1, None, "ü"]}, b'\xfe{"a":[1,null,"\xc3\xbc"]}'),
        (1.5, b"\xfe1.5"),
        (True, b"\xfetrue"),
        (None, b"\xfenull"),
        ("\ud83d", b'\xfe"\\ud83d"'),
        (("a", 1), b'\xfe["a",1]'),
    ],
)
def test_values_are_kept_as_every_client_keeps_them(value: pannier.Value, kept: bytes) -> None:
    assert values.encode("f", value) == kept
    assert values.decode(kept) == (list(value) if isinstance(value, tuple) else value)


def test_what_others_wrote_is_given_as_it_is() -> None:
    assert values.decode(b"\xfenot json") == b"\xfenot json"
    assert values.decode(b"\x80 no text") == b"\x80 no text"
    assert values.encode_present("f", "", 10) == b'\xfe""' and values.decode_present(b'\xfe""') == ""
    assert values.encode_present("f", None, 10) == b"" and values.decode_present(b"") is None


def status(**info: str) -> bytes:
    """A status as the sidecar's trailers have it."""
    details = [
        status_pb2.ErrorInfo(reason="SESSION_HELD", domain="pannier", metadata=info),
        status_pb2.RetryInfo(retry_delay=wire.to_duration(timedelta(seconds=2))),
    ]
    packed = [Packed(type_url=f"type.googleapis.com/google.rpc.{type(one).__name__}", value=one.SerializeToString()) for one in details]
    return status_pb2.Status(code=9, message="held", details=packed).SerializeToString()


def test_an_error_says_what_the_sidecar_said() -> None:
    trailers = [("grpc-status-details-bin", status(owner="a", until="2026-11-29T20:00:00.5Z"))]
    error = faults.from_grpc(grpc.StatusCode.FAILED_PRECONDITION, "held", trailers)
    assert isinstance(error, pannier.SessionHeldError) and isinstance(error, pannier.PannierError)
    assert (error.code, error.reason, error.owner, error.retryable) == ("FAILED_PRECONDITION", "SESSION_HELD", "a", True)
    assert error.retry_after == timedelta(seconds=2) and error.until is not None and error.until.year == 2026
    assert error.hint is not None and error.hint in str(error) and not error.outcome_unknown
    bare = faults.from_grpc(grpc.StatusCode.INTERNAL, "RST_STREAM", [("grpc-status-details-bin", b"\xff")])
    assert isinstance(bare, pannier.UnavailableError) and bare.reason == "SIDECAR_UNREACHABLE"


def test_a_call_is_tried_again_within_its_deadline_and_tells_whether_it_may_have_been_done() -> None:
    refused = faults.make("UNAVAILABLE", "SIDECAR_UNREACHABLE", "failed to connect to all addresses; last error: …")
    reset = faults.make("UNAVAILABLE", "SIDECAR_UNREACHABLE", "recvmsg: Connection reset by peer")
    tries = Tries(writes=True, timeout=5, deadline=5)
    assert 0 < tries.failed(refused, 0) < 0.1
    with pytest.raises(pannier.UnavailableError) as raised:
        tries.failed(refused, 4.999)
    assert not raised.value.outcome_unknown
    tries = Tries(writes=True, timeout=5, deadline=5)
    tries.failed(reset, 0)
    with pytest.raises(pannier.BadRequestError) as wrong:
        tries.failed(faults.bad_field("f", "no"), 1)
    assert wrong.value.outcome_unknown and wrong.value.field == "f"
    late = faults.make("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "Deadline Exceeded")
    with pytest.raises(pannier.DeadlineExceededError, match="reset by peer"):
        tries.failed(late, 5)
    assert all(0.5 <= backoff(n) / min(2.0, 0.05 * 2**n) <= 1 for n in range(20))


def write() -> Write:
    """A commit."""
    nothing: collections.deque[Any] = collections.deque()
    promise = Promise(None, lambda: nothing)  # type: ignore[arg-type] # nobody waits
    return Write(lambda seq, ms, op: [], 1, promise, 1, 1)


def queued(number: int) -> tuple[CommitQueue, list[Write]]:
    """A queue with so many on their way."""
    queue = CommitQueue()
    queue.items = [write() for _ in range(number)]
    taken = [queue.take(64) for _ in range(number)]
    assert taken == queue.items and queue.take(64) is None
    return queue, list(queue.items)


def test_after_a_refusal_those_behind_move_up() -> None:
    queue, (a, b, c) = queued(3)
    queue.committed(a)
    queue.refused(b)
    queue.again(c)
    assert queue.take(64) is None
    assert queue.settle(1) == "send" and c.op_seq == 2 and queue.take(64) is c


def test_an_unknown_outcome_keeps_its_number() -> None:
    queue, (a, b, c) = queued(3)
    queue.unknown(a)
    queue.again(b)
    queue.again(c)
    assert queue.settle(None) == "send" and [one.op_seq for one in (a, b, c)] == [1, 2, 3]
    queue, (a, b) = queued(2)
    queue.refused(a)
    queue.unknown(b)
    assert queue.settle(None) == "reattach", "another number could apply it twice"
    assert queue.settle(-1) == "stale"


def test_after_a_broken_stream_what_was_applied_is_not_numbered_anew() -> None:
    queue, (a, b, c) = queued(3)
    queue.broken()
    queue.abandon(b)
    assert queue.reopened(1) and (a.op_seq, c.op_seq) == (1, 2) and b not in queue.items
    assert [queue.take(64), queue.take(64)] == [a, c]
    queue.committed(a)
    queue.broken()
    assert not queue.reopened(0), "the store is behind what it acknowledged"


class Owner:
    """What a worker's engine wants."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.aborted: list[int] = []
        self.told: list[pannier.WorkerEvent] = []

    def start(self, lease: Any) -> None:
        """A job."""
        self.started.append(lease.told.number)

    def abort(self, lease: Any, reason: Exception) -> None:
        """A handler."""
        self.aborted.append(lease.told.number)

    def tell(self, event: pannier.WorkerEvent) -> None:
        """An event."""
        self.told.append(event)


def engine() -> tuple[WorkEngine, Owner]:
    """One with a stream that was greeted."""
    owner = Owner()
    made = WorkEngine(owner, hello("n", "q", None, timedelta(seconds=30)), 3)
    made.opening(0)
    first = pb.WorkRequest.FromString(made.next_message(0) or b"")
    assert first.hello.queues == ["q"] and not first.credit
    made.sent(0)
    made.on_message(pb.WorkResponse(welcome=pb.WorkWelcome(lease=wire.to_duration(timedelta(seconds=30)))).SerializeToString(), 0)
    return made, owner


def run(made: WorkEngine) -> None:
    """What it wants done."""
    while made.effects:
        made.effects.popleft()()


def jobs(*numbers: int) -> bytes:
    """Jobs that come."""
    told = [pb.WorkJob(queue="q", number=n, fence=n, delivery=n, attempt=1, max_attempts=3) for n in numbers]
    return pb.WorkResponse(jobs=told).SerializeToString()


def test_a_job_begins_when_it_was_said_that_it_has_come() -> None:
    made, owner = engine()
    assert pb.WorkRequest.FromString(made.next_message(1) or b"").credit == 3
    made.sent(1)
    made.on_message(jobs(1, 2), 1)
    run(made)
    assert owner.started == []
    said = pb.WorkRequest.FromString(made.next_message(1) or b"")
    assert said.received == 2
    run(made)
    assert owner.started == []
    made.sent(1)
    run(made)
    assert owner.started == [1, 2] and made.next_message(1) is None


def test_a_job_that_came_as_the_stream_broke_begins_only_if_it_is_still_ours() -> None:
    made, owner = engine()
    made.next_message(1)
    made.on_message(jobs(1, 2), 1)
    assert made.on_end(faults.draining(), 1) is not None
    made.opening(2)
    greeting = pb.WorkRequest.FromString(made.next_message(2) or b"")
    assert [ref.number for ref in greeting.hello.held] == [1, 2]
    held = pb.WorkWelcome(lease=wire.to_duration(timedelta(seconds=30)), held=greeting.hello.held[:1])
    made.on_message(pb.WorkResponse(welcome=held).SerializeToString(), 2)
    run(made)
    assert owner.started == [1] and len(made.running) == 1


def test_heartbeats_renew_and_their_absence_aborts() -> None:
    made, owner = engine()
    made.next_message(0)
    made.on_message(jobs(1), 0)
    made.next_message(0)
    made.sent(0)
    made.tick(10)
    assert pb.WorkRequest.FromString(made.next_message(10) or b"").heartbeat
    made.on_message(pb.WorkResponse(renewed=1).SerializeToString(), 10.1)
    made.tick(39)
    run(made)
    assert owner.aborted == []
    made.tick(40.5)
    run(made)
    assert owner.aborted == [1] and made.broken is None
    made.next_message(40.5)
    made.tick(75)
    assert made.broken is not None, "a stream that does not answer heartbeats is of no use"


def test_what_was_seen_is_remembered_for_one_life_of_a_session() -> None:
    place = ("unix:/x", "n", "s")
    acknowledged.opened(place, 7, 3)
    acknowledged.committed(place, 7, 5)
    acknowledged.committed(place, 6, 9)
    assert acknowledged.seen(place) == 5
    acknowledged.forget(place, 6)
    assert acknowledged.seen(place) == 5
    acknowledged.forget(place, None)
    assert acknowledged.seen(place) == 0


def test_everything_public_is_there_for_both() -> None:
    shared = set(pannier.__all__) - {"aio", "raw"}
    assert set(pannier.aio.__all__) == shared
    assert all(hasattr(pannier, name) and hasattr(pannier.aio, name) for name in shared)
