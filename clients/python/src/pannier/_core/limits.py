"""What a request may hold, judged here as the sidecar judges it: the same error, naming the field, without the way there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from .faults import bad_field, too_large
from .wire import EPOCH, UTC

DAY = timedelta(days=1)
#: The longest of most durations.
LONGEST = timedelta(days=400)
#: To the end of the year 9999.
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
ZERO = timedelta()

Word = TypeVar("Word", bound=str)


def text(field: str, value: str, most: int = 512) -> str:
    """A text of 1..`most` bytes of UTF-8."""
    if not isinstance(value, str):
        raise bad_field(field, f"must be a str, not {type(value).__name__}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise bad_field(field, "must be well-formed Unicode") from None
    if size == 0:
        raise bad_field(field, f"must not be empty (1..{most} bytes)")
    if size > most:
        raise bad_field(field, f"must be at most {most} bytes")
    return value


def span(field: str, value: timedelta | None, most: timedelta = LONGEST, least: timedelta = MILLISECOND) -> timedelta | None:
    """Whole milliseconds of `least`..`most`; None stays so."""
    if value is None:
        return None
    if not isinstance(value, timedelta):
        raise bad_field(field, f"must be a timedelta, not {type(value).__name__}")
    if value % MILLISECOND or not least <= value <= most:
        raise bad_field(field, f"must be whole milliseconds of {_shown(least)}..{_shown(most)}")
    return value


def _shown(value: timedelta) -> str:
    if value < timedelta(seconds=1):
        return f"{value // MILLISECOND} ms"
    return f"{value // timedelta(seconds=1)} s" if value <= timedelta(minutes=10) else f"{value / DAY:g} days"


def moment(field: str, value: datetime | None) -> datetime | None:
    """An aware instant until the end of 9999; what is before 1970 counts as long past."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise bad_field(field, f"must be a datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise bad_field(field, "must be aware: give it a tzinfo, such as datetime.now(timezone.utc)")
    if value > LATEST:
        raise bad_field(field, "must be before the end of the year 9999")
    value = max(value.astimezone(UTC), EPOCH)
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def count(field: str, value: int, least: int, most: int) -> int:
    """A whole number."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise bad_field(field, f"must be a whole number of {least}..{most}")


def batch(field: str, size: int, most: int) -> None:
    """How many there are in a batch."""
    if size == 0:
        raise bad_field(field, f"must not be empty (1..{most})")
    if size > most:
        raise too_large(field, f"must be at most {most}")


def names(field: str, value: str | Sequence[str], most: int, size: int = 512) -> list[str]:
    """One name or several, none twice."""
    given = [value] if isinstance(value, str) else list(value)
    if not 1 <= len(given) <= most:
        raise bad_field(field, f"must be 1..{most}")
    for n, name in enumerate(given):
        text(f"{field}[{n}]", name, size)
        if name in given[:n]:
            raise bad_field(f"{field}[{n}]", "is there twice")
    return given


def number_of(field: str, words: Sequence[Word], word: Word) -> int:
    """A word's number on the wire; `words` begins with number 1."""
    if word not in words:
        raise bad_field(field, f"must be one of {', '.join(words)}")
    return words.index(word) + 1


def seconds(field: str, value: timedelta | None, default: float) -> float:
    """A timeout of this client in seconds: 1 ms or more."""
    if value is None:
        return default
    if not isinstance(value, timedelta):
        raise TypeError(f"{field} must be a timedelta, such as timedelta(seconds=5), not {type(value).__name__}")
    if value < MILLISECOND:
        raise ValueError(f"{field} must be at least 1 ms")
    return value.total_seconds()
