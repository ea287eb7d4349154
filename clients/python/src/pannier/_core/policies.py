"""Policies of caps, as an application writes and reads them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from .._gen import cap_pb2 as pb
from . import limits, wire
from .faults import bad_field

#: What a policy counts apart: everything together, each sender, each recipient, or each pair.
Scope = Literal["namespace", "sender", "recipient", "pair"]

#: Published limits of Meta's Cloud API, as of 2026-11-29; they stand for rule and scope.
#: `meta_throughput`: 80 messages per second of one business phone number (rolling, by sender). Meta counts what comes in, too,
#: and raises eligible numbers to 1 000 by itself. https://developers.facebook.com/docs/whatsapp/throughput
#: `meta_pair`: one message per 6 s to the same user, up to 45 at once on credit (gcra, by pair); error 131056.
#: `meta_tier_…`: different users per rolling 24 h to whom a portfolio sends outside their service windows (unique, by
#: namespace). New portfolios begin at 250. https://developers.facebook.com/docs/whatsapp/messaging-limits
Preset = Literal[
    "meta_throughput",
    "meta_pair",
    "meta_tier_250",
    "meta_tier_2k",
    "meta_tier_10k",
    "meta_tier_100k",
    "meta_tier_unlimited",
]

COUNT_MAX = 1_000_000_000
ROLLING_MAX = 128
_SCOPES: tuple[Scope, ...] = get_args(Scope)
_PRESETS: tuple[Preset, ...] = get_args(Preset)


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """At most `limit` (1..1 000 000 000) in each window."""

    limit: int
    #: 1 ms..400 days; begins at multiples of its length since the Unix epoch (UTC). None: a civil day.
    window: timedelta | None = None
    #: Of the civil day, an IANA name such as "America/Mexico_City": from midnight to midnight, 23 or 25 h where the clock
    #: changes. None: UTC. Not with `window`.
    time_zone: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rolling:
    """At most `limit` (1..128; above, use Gcra) in any span of `window` (1 ms..400 days), exactly."""

    limit: int
    window: timedelta


@dataclass(frozen=True, kw_only=True)
class Gcra:
    """One per `period` (1 µs..400 days), `burst` (1..1 000 000 000) at once; burst × period ≤ 400 days."""

    period: timedelta
    burst: int


@dataclass(frozen=True, kw_only=True)
class Unique:
    """At most `limit` different recipients in any span of `window`, each by the last send to it that a business began."""

    #: 1..1 000 000 000. None: nothing is denied, recipients are still counted.
    limit: int | None
    #: 1 ms..400 days.
    window: timedelta = timedelta(days=1)


Rule = Fixed | Rolling | Gcra | Unique


@dataclass(frozen=True)
class CapPolicy:
    """A policy as it is stored; presets are spelled out."""

    name: str
    rule: Rule
    scope: Scope
    #: While Valkey cannot be reached, send rather than wait.
    fail_open: bool
    #: Rises with every change, never used twice.
    revision: int
    updated_at: datetime | None
    #: It came from `--cap-policies`, and nobody has changed it since.
    from_config: bool


def to_wire(name: str, rule: Rule | Preset, scope: Scope | None, fail_open: bool) -> pb.CapPolicy:
    """A policy for the sidecar."""
    policy = pb.CapPolicy(name=limits.text("policy.name", name, 128), fail_open=fail_open)
    if isinstance(rule, str):
        if scope is not None:
            raise bad_field("policy.scope", "cannot be given with a preset, which has its own")
        policy.preset = limits.number_of("policy.preset", _PRESETS, rule)  # type: ignore[assignment] # an enum's number
        return policy
    policy.scope = limits.number_of("policy.scope", _SCOPES, scope or "namespace")  # type: ignore[assignment] # an enum's number
    if isinstance(rule, Fixed):
        if rule.window is not None and rule.time_zone is not None:
            raise bad_field("policy.fixed.time_zone", "cannot be given with `window`")
        limit = limits.count("policy.fixed.limit", rule.limit, 1, COUNT_MAX)
        policy.fixed.CopyFrom(pb.FixedWindow(limit=limit, time_zone=rule.time_zone or ""))
        if rule.window is not None:
            policy.fixed.window.CopyFrom(wire.to_duration(limits.span("policy.fixed.window", rule.window) or rule.window))
    elif isinstance(rule, Rolling):
        limit = limits.count("policy.rolling.limit", rule.limit, 1, ROLLING_MAX)
        window = limits.span("policy.rolling.window", rule.window) or rule.window
        policy.rolling.CopyFrom(pb.RollingWindow(limit=limit, window=wire.to_duration(window)))
    elif isinstance(rule, Gcra):
        if not isinstance(rule.period, timedelta) or not wire.MICROSECOND <= rule.period <= limits.LONGEST:
            raise bad_field("policy.gcra.period", "must be a timedelta of 1 µs..400 days")
        burst = limits.count("policy.gcra.burst", rule.burst, 1, COUNT_MAX)
        policy.gcra.CopyFrom(pb.Gcra(period=wire.to_duration(rule.period), burst=burst))
    elif isinstance(rule, Unique):
        unlimited = rule.limit is None
        limit = 0 if rule.limit is None else limits.count("policy.unique.limit", rule.limit, 1, COUNT_MAX)
        window = limits.span("policy.unique.window", rule.window) or rule.window
        policy.unique.CopyFrom(pb.UniqueRecipients(limit=limit, window=wire.to_duration(window), unlimited=unlimited))
    else:
        raise bad_field("policy.algorithm", "must be a Fixed, Rolling, Gcra, Unique or the name of a preset")
    return policy


def from_wire(policy: pb.CapPolicy) -> CapPolicy:
    """A policy from the sidecar."""
    return CapPolicy(
        name=policy.name,
        rule=_rule(policy),
        scope=wire.word(_SCOPES, policy.scope),
        fail_open=policy.fail_open,
        revision=policy.revision,
        updated_at=wire.instant(policy, "updated_at"),
        from_config=policy.from_config,
    )


def _rule(policy: pb.CapPolicy) -> Rule:
    match policy.WhichOneof("algorithm"):
        case "fixed":
            window = wire.span(policy.fixed, "window")
            zone = None if window else policy.fixed.time_zone or "UTC"
            return Fixed(limit=policy.fixed.limit, window=window, time_zone=zone)
        case "rolling":
            return Rolling(limit=policy.rolling.limit, window=wire.to_timedelta(policy.rolling.window))
        case "gcra":
            return Gcra(period=wire.to_timedelta(policy.gcra.period), burst=policy.gcra.burst)
        case "unique":
            window = wire.span(policy.unique, "window") or limits.DAY
            return Unique(limit=None if policy.unique.unlimited else policy.unique.limit, window=window)
        case _:
            raise bad_field("policy.algorithm", "is one that this client does not know: upgrade it")
