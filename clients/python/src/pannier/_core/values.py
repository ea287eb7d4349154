"""What a payload, a conversation's field or a result can be, and how it is kept as bytes: as every Pannier client keeps it.

A text is its UTF-8, so that whoever looks from elsewhere sees it as it is. What is no text begins with a byte that no UTF-8
has: 0xFE and JSON, or 0xFF and bytes. So everything comes back as what it was. Nothing is ever pickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .faults import bad_field, too_large

#: A text, bytes, or anything of JSON (a tuple comes back as a list).
Value = str | bytes | bytearray | memoryview | int | float | bool | None | Mapping[str, Any] | Sequence[Any]

_JSON_MARK = 0xFE
_BYTES_MARK = 0xFF


def encode(field: str, value: Value, most: int | None = None) -> bytes:
    """A value as it is kept."""
    kept = _encoded(field, value)
    if most is not None and len(kept) > most:
        raise too_large(field, f"must be at most {most} bytes; it has {len(kept)}")
    return kept


def encode_present(field: str, value: Value, most: int) -> bytes:
    """The same of a value that is there: an empty text would look like none. None is no value: no bytes."""
    if value is None:
        return b""
    return b'\xfe""' if value == "" and isinstance(value, str) else encode(field, value, most)


def _encoded(field: str, value: Value) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            return bytes([_JSON_MARK]) + json.dumps(value).encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes([_BYTES_MARK]) + bytes(value)
    try:
        _check_keys(value)
        return bytes([_JSON_MARK]) + _json(value)
    except (TypeError, ValueError, RecursionError) as why:
        raise bad_field(field, f"must be a str, bytes or JSON ({why})") from None


def _json(value: object) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:
        # Half a surrogate pair has no UTF-8, but an escape.
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _check_keys(value: object) -> None:
    """json.dumps makes texts of keys that are none, which would not come back as what they were."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a key must be a str, not {type(key).__name__}")
            _check_keys(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _check_keys(inner)


def decode(kept: bytes) -> Any:
    """The value of kept bytes."""
    if kept[:1] == b"\xff":
        return kept[1:]
    try:
        # Written by something else, what follows the mark may be anything: given out as it is.
        return json.loads(kept[1:]) if kept[:1] == b"\xfe" else kept.decode()
    except ValueError:
        return kept


def decode_present(kept: bytes) -> Any:
    """What `encode_present` has encoded; None for no bytes."""
    return decode(kept) if kept else None
