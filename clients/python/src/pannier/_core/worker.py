"""The engine of a worker. It never stops by itself and never silently: whatever breaks, the next stream names the leases it still has,
and says again how jobs ended until the sidecar has confirmed it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from .._gen import schedule_pb2 as pb
from ..errors import ClosedError, PannierError
from . import faults, values, wire, work
from .call import backoff
from .reasons import STREAM_AGAIN
from .values import Value
from .work import JobCompleted, JobFailed, Lease, LeaseLost, StatusChanged, WorkerEvent, WorkerProblem, WorkerStatus

LEASES_MAX = 1000
SETTLES_MAX = 1000
PROGRESS_AT_ONCE = 100
#: One message's share of large results.
MESSAGE_BYTES = 1024 * 1024
#: For Welcome, at least.
WELCOME = 10.0
#: Between tries of what waiting does not cure, such as a wrong token.
SLOW = 30.0
AGAIN = 0.5


class Owner(Protocol):
    """Runs handlers."""

    def start(self, lease: Lease) -> None:
        """Runs the handler of a new job."""

    def abort(self, lease: Lease, reason: Exception) -> None:
        """Tells a handler to stop."""

    def tell(self, event: WorkerEvent) -> None:
        """Something happened."""


class WorkEngine:
    """See the top of this file, and duplex.Engine."""

    path = "/pannier.v1.ScheduleService/Work"

    def __init__(self, owner: Owner, hello: pb.WorkHello, concurrency: int) -> None:
        self.owner = owner
        self.hello = hello
        self.concurrency = concurrency
        self.lease = wire.to_timedelta(hello.lease).total_seconds()
        self.interval = min(0.5, self.lease / 12)
        self.effects: deque[Callable[[], None]] = deque()
        self.broken: PannierError | None = None
        self.status: WorkerStatus = "connecting"
        self.draining = False
        #: All that have not ended.
        self.leases: dict[tuple[str, int], Lease] = {}
        #: Their handlers have not returned, or not begun.
        self.running: dict[Lease, None] = {}
        #: Ended by their handlers, not confirmed by the sidecar.
        self.settling: dict[Lease, None] = {}
        self._unsent: list[Lease] = []
        self._refused: list[tuple[float, Lease]] = []
        self._progress: dict[Lease, None] = {}
        self._failures = 0
        # Of the present stream.
        self._streaming = self._welcome = self._greeted = self._quiet = self._leaving = self._drain_sent = self._beat = False
        self._opened_at = self._beat_at = self._last_beat = 0.0
        self._credit = self._received = self._received_sent = 0
        #: To be started when it was said that they have arrived; that is being said; and of a stream that broke meanwhile.
        self._starting: list[Lease] = []
        self._saying: list[Lease] = []
        self._unsure: list[Lease] = []

    # ---- What the worker asks and tells.

    @property
    def drained(self) -> bool:
        """Nothing is left to do, and nothing will come."""
        quiet = self._quiet or not self._streaming or not self._welcome
        return self.draining and quiet and not self.running and not self.settling

    def drain(self) -> None:
        """Asks for no more jobs."""
        self.draining = True
        self._set("draining")

    def close(self) -> None:
        """It is over."""
        self._set("closed")

    def note(self, lease: Lease, progress: bytes) -> None:
        """A handler says how far it is."""
        if lease.settle is None and not lease.lost:
            lease.progress = progress
            self._progress[lease] = None

    def done(self, lease: Lease, value: object) -> None:
        """A handler has returned."""
        result: Value = value  # type: ignore[assignment] # judged where it is encoded
        try:
            kept = values.encode_present("result", result, work.RESULT_MAX)
        except PannierError as error:
            # The work is done, and must not be done again for want of its result.
            self._tell(WorkerProblem(error))
            kept = b""
        lease.settle = work.done(lease, kept)
        self._ended(lease, value)

    def failed(self, lease: Lease, error: BaseException) -> None:
        """A handler has raised."""
        released = lease.aborted is not None and not lease.cancelled and self.draining
        lease.settle = work.failed(lease, error, released)
        self._ended(lease, error)

    def abort_all(self, reason: Exception) -> None:
        """Tells all handlers to stop."""
        for lease in self.running:
            self._abort(lease, reason)

    # ---- The stream.

    def opening(self, now: float) -> None:
        self.broken = None
        self._streaming = True
        self._welcome = self._greeted = self._quiet = self._leaving = self._drain_sent = self._beat = False
        self._opened_at = self._last_beat = now
        self._beat_at = 0.0
        self._credit = self._received = self._received_sent = 0
        self._unsent = list(self.settling)

    def next_message(self, now: float) -> bytes | None:
        request = pb.WorkRequest()
        if not self._greeted:
            self._greeted = True
            held = [lease for lease in [*self.running, *self.settling] if not lease.lost]
            request.hello.CopyFrom(self.hello)
            request.hello.held.extend(lease.ref for lease in held[:LEASES_MAX])
            return request.SerializeToString()
        self._write_settles(request)
        self._write_progress(request)
        if self._received > self._received_sent:
            request.received = self._received_sent = self._received
            self._saying, self._starting = self._starting, []
        if self.draining:
            request.draining = not self._drain_sent
            self._drain_sent = True
        elif not self._leaving:
            wanted = min(self.concurrency, LEASES_MAX - len(self.settling)) - len(self.running) - self._credit
            if wanted > 0:
                request.credit = wanted
                self._credit += wanted
        if self._beat:
            request.heartbeat, self._beat = True, False
            # Not from when it was due: a thread that keeps the process busy is no silence of the sidecar.
            self._beat_at = self._beat_at or now
        return request.SerializeToString() or None

    def sent(self, now: float) -> None:
        # Said before anything runs: a job that kills its process must have cost an attempt.
        begun, self._saying = self._saying, []
        for lease in begun:
            self._start(lease)

    def on_end(self, error: PannierError | None, now: float) -> float | None:
        self._streaming = False
        # Perhaps nobody heard that they arrived, and they have gone back: the next stream says which are still ours.
        self._unsure = [*self._unsure, *self._saying, *self._starting]
        self._saying, self._starting = [], []
        if isinstance(error, ClosedError):
            self.abort_all(error)
            return None
        known = error or faults.draining()
        if not self._drain_sent:
            self._tell(WorkerProblem(known))
        if not self.draining:
            self._set("connecting")
        pause = backoff(self._failures, 0.05, 2.0 if known.reason in STREAM_AGAIN else SLOW)
        self._failures += 1
        return pause

    def tick(self, now: float) -> None:
        for lease in self.running:
            # If the handler ends all the same, the sidecar decides.
            if now >= lease.held_until:
                self._abort(lease, faults.fenced("the lease could not be renewed: another worker may have the job"))
        due = [lease for at, lease in self._refused if at <= now]
        self._refused = [one for one in self._refused if one[0] > now]
        self._unsent += [lease for lease in due if lease in self.settling and lease not in self._unsent]
        if not self._streaming or not self._greeted:
            return
        if not self._welcome:
            if now - self._opened_at > max(WELCOME, self.lease):
                self.broken = faults.deadline_exceeded("the greeting of the sidecar", WELCOME)
        elif self._beat_at and now - self._beat_at > self.lease:
            self.broken = faults.deadline_exceeded("renewing leases", self.lease)
        elif now - self._last_beat >= self.lease / 3:
            self._last_beat = now
            self._beat = True

    # ---- What the sidecar says.

    def on_message(self, data: bytes, now: float) -> None:
        told = pb.WorkResponse.FromString(data)
        if told.HasField("welcome"):
            self._on_welcome(told.welcome)
        for job in told.jobs:
            self._on_job(job, now)
        for settled in told.settled:
            self._on_settled(settled)
        for ref in told.lease_lost:
            self._on_lost(self.leases.get((ref.queue, ref.fence)))
        for ref in told.cancel_requested:
            self._on_cancel(self.leases.get((ref.queue, ref.fence)))
        # Said by itself when the sidecar stops: then it is no answer to a drain, yet as true.
        self._quiet = self._quiet or told.quiet
        self._leaving = self._leaving or told.draining
        if told.renewed and self._beat_at:
            self._renew(lease for lease in self.running if lease.arrived <= self._beat_at)
            self._beat_at = 0.0
        for error in told.errors:
            self._on_refused(error, now)

    def _on_welcome(self, welcome: pb.WorkWelcome) -> None:
        self.lease = wire.to_timedelta(welcome.lease).total_seconds() or self.lease
        self._welcome = True
        self._failures = 0
        held = {(ref.queue, ref.fence) for ref in welcome.held}
        unsure, self._unsure = self._unsure, []
        for lease in unsure:
            if lease.key in held:
                self._start(lease)
            else:
                self._forget(lease)
        # Hello renewed what was held; what was not is said to be lost.
        self._renew(self.running, self._opened_at)
        if not self.draining:
            self._set("working")

    def _renew(self, leases: Iterable[Lease], since: float | None = None) -> None:
        for lease in leases:
            lease.held_until = max(lease.held_until, (self._beat_at if since is None else since) + self.lease)

    def _on_job(self, job: pb.WorkJob, now: float) -> None:
        self._credit -= 1
        if self.draining:
            # It has gone back: that it was not received was said with the drain, or will be.
            return
        # Those of several queues may overtake each other.
        self._received = max(self._received, job.delivery)
        lease = Lease(job, now, now + self.lease)
        self.leases[lease.key] = lease
        self.running[lease] = None
        self._starting.append(lease)

    def _start(self, lease: Lease) -> None:
        if lease.lost:
            self._forget(lease)
        else:
            self.effects.append(partial(self.owner.start, lease))

    def _on_settled(self, settled: pb.WorkSettled) -> None:
        lease = self.leases.get((settled.lease.queue, settled.lease.fence))
        if lease is None or lease.settle is None or lease.job is None:
            # Said twice, as what is sent again is.
            return
        self._forget(lease)
        verdict, job = lease.settle.nack, lease.job
        if settled.outcome not in (pb.SETTLE_OUTCOME_OK, pb.SETTLE_OUTCOME_ALREADY_DONE):
            self._tell(LeaseLost(job))
        elif verdict == pb.NACK_VERDICT_UNSPECIFIED:
            self._tell(JobCompleted(job, lease.ending))
        elif verdict != pb.NACK_VERDICT_RELEASE:
            retried = verdict == pb.NACK_VERDICT_RETRY and job.attempt < job.max_attempts and not lease.cancelled
            self._tell(JobFailed(job, lease.ending, retried))

    def _on_lost(self, lease: Lease | None) -> None:
        # Of one that is being settled the answer says more.
        if lease is None or lease.settle is not None or lease.lost:
            return
        self._abort(lease, faults.fenced("the lease has ended: another worker may have the job"))
        lease.lost = True
        if lease.job is None:
            self._forget(lease)
        else:
            self._tell(LeaseLost(lease.job))

    def _on_cancel(self, lease: Lease | None) -> None:
        if lease is not None and not lease.cancelled and lease.settle is None:
            lease.cancelled = True
            self._abort(lease, work.JobCancelledError("the job was cancelled"))

    def _on_refused(self, refused: pb.WorkError, now: float) -> None:
        self._tell(WorkerProblem(faults.make("UNKNOWN", refused.reason, refused.message)))
        lease = self.leases.get((refused.lease.queue, refused.lease.fence))
        if lease is None or lease.settle is None:
            return
        if refused.reason in STREAM_AGAIN:
            self._refused.append((now + backoff(0, AGAIN, AGAIN), lease))
        elif lease.refusals == 0:
            # It cannot be kept as it is; left open, the lease would be renewed for good.
            lease.refusals = 1
            lease.settle = work.failed(lease, work.FailJob(f"how the job ended was refused: {refused.message}"), False)
            self._unsent.append(lease)
        else:
            self._forget(lease)

    # ---- The rest.

    def _ended(self, lease: Lease, ending: object) -> None:
        self.running.pop(lease, None)
        if lease.lost:
            self._forget(lease)
        else:
            lease.ending = ending
            self.settling[lease] = None
            self._unsent.append(lease)

    def _forget(self, lease: Lease) -> None:
        self.leases.pop(lease.key, None)
        self.running.pop(lease, None)
        self.settling.pop(lease, None)
        self._progress.pop(lease, None)

    def _abort(self, lease: Lease, reason: Exception) -> None:
        if lease.aborted is None:
            lease.aborted = reason
            self.effects.append(partial(self.owner.abort, lease, reason))

    def _write_settles(self, request: pb.WorkRequest) -> None:
        written = size = 0
        # How far a job came is said before how it ended: in the message before.
        later = [lease for lease in self._unsent if lease in self._progress]
        now = [lease for lease in self._unsent if lease not in self._progress] if later else self._unsent
        for lease in now:
            if written == SETTLES_MAX or size > MESSAGE_BYTES:
                break
            written += 1
            if lease.settle is not None:
                size += len(lease.settle.result)
                request.settles.append(lease.settle)
        self._unsent = later + now[written:]

    def _write_progress(self, request: pb.WorkRequest) -> None:
        for lease in list(self._progress)[:PROGRESS_AT_ONCE]:
            del self._progress[lease]
            if lease.progress is not None and not lease.lost:
                request.progress.append(pb.WorkProgress(lease=lease.ref, progress=lease.progress))
            lease.progress = None

    def _set(self, status: WorkerStatus) -> None:
        if status != self.status:
            self.status = status
            self._tell(StatusChanged(status))

    def _tell(self, event: WorkerEvent) -> None:
        self.effects.append(partial(self.owner.tell, event))
