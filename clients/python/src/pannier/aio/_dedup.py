"""A message is handled once, and not lost between the claim and the work."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Literal

from .._core import dedup as core
from .._core.dedup import (
    ClaimItem,
    ClaimMismatch,
    CompleteResult,
    Duplicate,
    ExtendResult,
    InProgress,
    Ran,
    ReleaseResult,
)
from .._core.values import Value
from ._connection import Connection
from ._keeper import Keepers, Result, Work


class Claim:
    """The key is yours: do the work, then `complete`; or `release` if it failed and is to be tried again."""

    __match_args__ = ("outcome", "fence", "expires_at")
    #: Tells it from the other results without a look at `outcome`.
    claimed: ClassVar[Literal[True]] = True

    def __init__(self, connection: Connection, granted: core.Granted) -> None:
        self._connection = connection
        self.key = granted.key
        #: `takeover`: an earlier claimer's time ran out; its work may have been done in part.
        self.outcome: Literal["new", "takeover"] = granted.outcome
        #: Names this claim; rising, never used twice for a key. For stores that can refuse an older one.
        self.fence = granted.fence
        #: When another may take it over. By the server's clock.
        self.expires_at: datetime | None = granted.expires_at

    async def complete(
        self, result: Value = None, *, retention: timedelta | None = None, timeout: timedelta | None = None
    ) -> CompleteResult:
        """The work is done: from now on the key is a duplicate. Repeating it gives `completed` again.

        `result` (≤ 4 KiB; a text, bytes or JSON) is what duplicates get. `retention`: counted from now, 1 ms..400 days;
        default what the claim was given. Raises BadRequestError, TooLargeError, UnavailableError, DeadlineExceededError.
        """
        call = core.complete(self._connection.namespace, self.key, self.fence, result, retention)
        return await self._connection.call(call, timeout)

    async def extend(self, in_progress_ttl: timedelta | None = None, *, timeout: timedelta | None = None) -> ExtendResult:
        """More time for the work, counted from now: 1 ms..24 h, default 30 s. Also after its time has run out, if nobody
        has taken it over."""
        call = core.extend(self._connection.namespace, self.key, self.fence, in_progress_ttl)
        return await self._connection.call(call, timeout)

    async def release(self, *, timeout: timedelta | None = None) -> ReleaseResult:
        """Gives the key back: it is free at once."""
        call = core.release(self._connection.namespace, self.key, self.fence)
        return await self._connection.call(call, timeout)

    def __repr__(self) -> str:
        return f"Claim(outcome={self.outcome!r}, fence={self.fence})"


#: What became of a claim; `claimed` and `outcome` tell them apart, and so does `match`.
ClaimResult = Claim | InProgress | Duplicate | ClaimMismatch


class Dedup:
    """Claims. A key is free, in progress (until its time runs out) or done (until its retention ends).

    Keys: 1..512 bytes of UTF-8, any characters. WhatsApp reuses a message's id for its statuses: put the kind and the status
    into the key, such as `status:wamid.X:read`. A "no" is an outcome; an error means that it could not be decided:
    BadRequestError, UnavailableError, DeadlineExceededError, ExhaustedError (Valkey is full; nothing was written).
    """

    def __init__(self, connection: Connection, keepers: Keepers) -> None:
        self._connection = connection
        self._keepers = keepers

    def _grant(self, granted: core.Granted) -> Claim:
        return Claim(self._connection, granted)

    async def claim_once(self, key: str, *, ttl: timedelta | None = None, timeout: timedelta | None = None) -> bool:
        """At most once, in one call: True for the first of a key, False for all others until `ttl` has passed.

        As `SET key 1 NX EX`: the message counts as handled from now on, also if this process dies at the next line; `run`
        or `claim` where it must not be lost. `ttl`: 1 ms..400 days, default 8 days.
        """
        call = core.claim(self._connection.namespace, key, None, None, ttl, True, self._grant)
        return (await self._connection.call(call, timeout)).outcome == "new"

    async def claim(
        self,
        key: str,
        *,
        fingerprint: str | bytes | None = None,
        in_progress_ttl: timedelta | None = None,
        retention: timedelta | None = None,
        timeout: timedelta | None = None,
    ) -> ClaimResult:
        """Claims a key: at least once. Whoever has it completes or releases it, else another takes over when its time ends.

        `fingerprint`: ≤ 512 bytes that are equal when the content is; the key claimed before with another one gives
        ClaimMismatch. `in_progress_ttl`: how long the work may take before another may take over, 1 ms..24 h, default 30 s.
        `retention`: how long the key is a duplicate once done, 1 ms..400 days, default 8 days: the Cloud API redelivers for
        up to 7.
        """
        namespace = self._connection.namespace
        call = core.claim(namespace, key, fingerprint, in_progress_ttl, retention, False, self._grant)
        return await self._connection.call(call, timeout)

    async def claim_batch(
        self,
        items: Sequence[str | ClaimItem],
        *,
        in_progress_ttl: timedelta | None = None,
        retention: timedelta | None = None,
        timeout: timedelta | None = None,
    ) -> list[ClaimResult]:
        """Claims 1..100 keys, each judged by itself, in order: the same key twice gives `new`, then `in_progress`.

        The answers are in the order of `items`. Sent again as a whole when its answer is lost, which is safe.
        """
        call = core.claim_batch(self._connection.namespace, items, in_progress_ttl, retention, self._grant)
        return await self._connection.call(call, timeout)

    async def run(
        self,
        key: str,
        work: Work[Result],
        *,
        result: bool = False,
        fingerprint: str | bytes | None = None,
        in_progress_ttl: timedelta | None = None,
        retention: timedelta | None = None,
        timeout: timedelta | None = None,
    ) -> Ran[Result] | InProgress | Duplicate | ClaimMismatch:
        """Claims, runs `work(context)`, and completes; a key that is not free runs nothing and says why.

        While `work` runs its claim is extended; when it raises, the claim is released, so that the next delivery runs it again, and the
        exception goes on. When the claim is lost or cannot be kept, another may be at it, and the work is told: in a thread its context
        aborts; a task is cancelled, and this raises FencedError. A process that dies is taken over after `in_progress_ttl`. `result`:
        duplicates get what `work` gave (≤ 4 KiB). The other options are those of `claim`.
        """
        self._keepers.check()
        claimed = await self.claim(key, fingerprint=fingerprint, in_progress_ttl=in_progress_ttl, retention=retention, timeout=timeout)
        if not isinstance(claimed, Claim):
            return claimed
        return await self._keepers.run(claimed, work, in_progress_ttl, retention, result)
