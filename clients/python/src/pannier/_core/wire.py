"""Times as the wire has them. Instants are aware and UTC; durations are `timedelta`, which has microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

UTC = timezone.utc
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

Word = TypeVar("Word", bound=str)


def to_duration(value: timedelta) -> Duration:
    """A duration for a request."""
    seconds, micros = divmod(value // MICROSECOND, 1_000_000)
    return Duration(seconds=seconds, nanos=micros * 1000)


def to_timedelta(value: Duration) -> timedelta:
    """A duration of an answer; what is below a microsecond is rounded up, so that waiting for it suffices."""
    return timedelta(seconds=value.seconds, microseconds=-(-value.nanos // 1000))


def to_timestamp(value: datetime) -> Timestamp:
    """An instant for a request."""
    since = to_duration(value - EPOCH)
    return Timestamp(seconds=since.seconds, nanos=since.nanos)


def to_datetime(value: Timestamp) -> datetime:
    """An instant of an answer."""
    return EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)


def instant(message: Message, field: str) -> datetime | None:
    """An instant that may not be there."""
    if not message.HasField(field):
        return None
    stamp: Timestamp = getattr(message, field)
    return to_datetime(stamp)


def span(message: Message, field: str) -> timedelta | None:
    """A duration that may not be there."""
    if not message.HasField(field):
        return None
    value: Duration = getattr(message, field)
    return to_timedelta(value)


def word(words: Sequence[Word], number: int) -> Word:
    """An enum's word; `words` begins with number 1."""
    if 1 <= number <= len(words):
        return words[number - 1]
    raise ValueError("an outcome that this client does not know: upgrade it")


def given(**fields: Any) -> dict[str, Any]:
    """What is not None, for a message's constructor."""
    return {name: value for name, value in fields.items() if value is not None}
