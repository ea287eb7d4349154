"""How much may be sent. A send is counted against one or several policies, all or nothing, and once however often it is tried."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from .._core import caps as core
from .._core import faults
from .._core.caps import ConfirmResult, ConsumeResult, PeekResult, RefundResult
from .._core.policies import CapPolicy, Preset, Rule, Scope
from ._connection import Connection


class Caps:
    """Caps. `recipient`, `sender`, `send_id`: 1..512 bytes of UTF-8, any characters.

    Errors of every call: BadRequestError, NotFoundError (no policy of that name), UnavailableError (Valkey is away and not
    every policy is `fail_open`), DeadlineExceededError, ExhaustedError.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def consume(
        self,
        policies: str | Sequence[str],
        *,
        send_id: str,
        recipient: str | None = None,
        sender: str | None = None,
        n: int | None = None,
        reserve: timedelta | bool = False,
        timeout: timedelta | None = None,
    ) -> ConsumeResult:
        """Asks for leave to send, and counts it when it is given. A denial uses nothing up.

        `policies`: 1..8 names, none twice; all are checked, then all counted, in one step. `send_id` names the send over all its
        tries: the id of the outgoing message or job; the same one is counted once. It is remembered for 48 h, or the longest
        window of its policies where that is longer, but for 8 days at most. `recipient` is needed by the scopes recipient and
        pair and by `Unique`, `sender` by sender and pair. `n`: how much it counts, 1..1 000 000 000, default 1. `reserve`:
        count it only for so long, unless `confirm` comes before: 1 ms..24 h, or True for 60 s.
        """
        call = core.consume(self._connection.namespace, policies, send_id, recipient, sender, n, reserve)
        return await self._connection.call(call, timeout)

    async def confirm(self, send_id: str, *, timeout: timedelta | None = None) -> ConfirmResult:
        """Makes a reservation final."""
        return await self._connection.call(core.confirm(self._connection.namespace, send_id), timeout)

    async def refund(self, send_id: str, *, timeout: timedelta | None = None) -> RefundResult:
        """Gives back exactly what a send took, once: as far as its window still holds it. The send_id is free then."""
        return await self._connection.call(core.refund(self._connection.namespace, send_id), timeout)

    async def peek(
        self,
        policies: str | Sequence[str],
        *,
        recipient: str | None = None,
        sender: str | None = None,
        n: int | None = None,
        unit: int | None = None,
        timeout: timedelta | None = None,
    ) -> PeekResult:
        """What `consume` would find; writes nothing. `unit`: also when the unit-th single send from now could go
        (1..1 000 000)."""
        call = core.peek(self._connection.namespace, policies, recipient, sender, n, unit)
        return await self._connection.call(call, timeout)

    async def note_inbound(self, recipient: str, *, sender: str | None = None, timeout: timedelta | None = None) -> datetime:
        """A message came in: for 24 h from now, sends to this recipient are answers and count for no `Unique` policy.

        `sender`: to which number, if `consume` names senders; the window holds for sends that name the same one. Gives until
        when it is open.
        """
        return await self._connection.call(core.note_inbound(self._connection.namespace, recipient, sender), timeout)

    async def set_policy(
        self,
        name: str,
        rule: Rule | Preset,
        *,
        scope: Scope | None = None,
        fail_open: bool = False,
        timeout: timedelta | None = None,
    ) -> CapPolicy:
        """Makes a policy or changes it; holds at once for every sidecar.

        `name`: 1..128 bytes. `rule`: a Fixed, Rolling, Gcra or Unique, or the name of a preset (which has its own scope).
        `scope`: default namespace. `fail_open`: while Valkey cannot be reached, send rather than wait. A new limit keeps what
        was counted; another algorithm, window, period, time zone or scope begins anew. At most 1 000 a namespace
        (ExhaustedError).
        """
        call = core.set_policy(self._connection.namespace, name, rule, scope, fail_open)
        return (await self._connection.call(call, timeout))[0]

    async def get_policy(self, name: str, *, timeout: timedelta | None = None) -> CapPolicy:
        """Reads a policy. Raises NotFoundError."""
        return await self._connection.call(core.get_policy(self._connection.namespace, name), timeout)

    async def list_policies(self, *, timeout: timedelta | None = None) -> list[CapPolicy]:
        """The policies of the namespace, by name. Raises CorruptRecordError if some cannot be opened."""
        policies, corrupt = await self._connection.call(core.list_policies(self._connection.namespace), timeout)
        if corrupt:
            raise faults.corrupt(corrupt, "cap policy")
        return policies

    async def delete_policy(self, name: str, *, revision: int | None = None, timeout: timedelta | None = None) -> bool:
        """Takes a policy away; False if there was none, or not of that `revision`. Its counters run out by themselves."""
        return await self._connection.call(core.delete_policy(self._connection.namespace, name, revision), timeout)
