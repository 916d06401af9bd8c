"""Column bounds in Iceberg's single-value serialization, from the raw statistics of Parquet (pure).

A bound that is not certain is left out: a wrong one hides rows from every reader that prunes (F45, READ).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

LENGTH_MAX: Final = 16
"""Code points (string) or bytes (binary) kept; Iceberg's default ``truncate(16)``."""
_CODE_POINT_MAX: Final = 0x10FFFF
_SURROGATE_FIRST: Final = 0xD800
_SURROGATE_LAST: Final = 0xDFFF
_Pair = Callable[[Any, Any, int], tuple[bytes | None, bytes | None]]
"""From the smallest and largest raw value, and the length to keep, to the bounds."""


def lower_text(value: str, length: int = LENGTH_MAX) -> str:
    """The largest text of at most ``length`` code points that is not above ``value``."""
    return value[:length]


def upper_text(value: str, length: int = LENGTH_MAX) -> str | None:
    """A text of at most ``length`` code points that is not below ``value``; None when there is none.

    The successor of U+D7FF is U+E000: the code points between are surrogates, which UTF-8 cannot hold.
    """
    if len(value) <= length:
        return value
    kept = value[:length]
    for at in range(length - 1, -1, -1):
        following = ord(kept[at]) + 1
        if _SURROGATE_FIRST <= following <= _SURROGATE_LAST:
            following = _SURROGATE_LAST + 1
        if following <= _CODE_POINT_MAX:
            return kept[:at] + chr(following)
    return None


def lower_binary(value: bytes, length: int = LENGTH_MAX) -> bytes:
    """The largest value of at most ``length`` bytes that is not above ``value``."""
    return value[:length]


def upper_binary(value: bytes, length: int = LENGTH_MAX) -> bytes | None:
    """A value of at most ``length`` bytes that is not below ``value``; None when there is none."""
    if len(value) <= length:
        return value
    kept = value[:length].rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None


def decimal_bytes(unscaled: int) -> bytes:
    """Shortest two's complement, big-endian."""
    return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)


def _text_pair(low: bytes, high: bytes, length: int) -> tuple[bytes | None, bytes | None]:
    try:
        upper = upper_text(high.decode(), length)
        return lower_text(low.decode(), length).encode(), None if upper is None else upper.encode()
    except UnicodeDecodeError:
        return None, None


def _binary_pair(low: bytes, high: bytes, length: int) -> tuple[bytes | None, bytes | None]:
    return lower_binary(low, length), upper_binary(high, length)


def _packed(form: str) -> _Pair:
    pack = struct.Struct(form).pack
    return lambda low, high, _: (pack(low), pack(high))


def _decimal_pair(low: Any, high: Any, _: int) -> tuple[bytes | None, bytes | None]:  # noqa: ANN401 - int or bytes, as Parquet stores it
    return decimal_bytes(low), decimal_bytes(high)


def _plain_pair(low: bytes, high: bytes, _: int) -> tuple[bytes | None, bytes | None]:
    return low, high


# No uuid: readers do not agree on its order (see ``parquet.encode_files``).
_PAIRS: Final[dict[str, _Pair]] = {
    "boolean": _packed("<?"),
    "int": _packed("<i"),
    "date": _packed("<i"),
    "long": _packed("<q"),
    "time": _packed("<q"),
    "timestamp": _packed("<q"),
    "timestamptz": _packed("<q"),
    "float": _packed("<f"),
    "double": _packed("<d"),
    "string": _text_pair,
    "binary": _binary_pair,
}


class Range:
    """Gathers the smallest and largest raw value of one column over row groups."""

    __slots__ = ("_decimal", "_high", "_length", "_low", "_pair", "_sure")

    def __init__(self, iceberg_type: str, length: int = LENGTH_MAX) -> None:
        self._length = length
        self._decimal = iceberg_type.startswith("decimal")
        pair = _decimal_pair if self._decimal else _PAIRS.get(iceberg_type)
        self._pair = _plain_pair if pair is None and iceberg_type.startswith("fixed") else pair
        self._low: Any = None
        self._high: Any = None
        self._sure = self._pair is not None

    def add(self, low: Any, high: Any) -> None:  # noqa: ANN401 - raw Parquet values of one type
        """One row group's smallest and largest value."""
        if self._decimal and isinstance(low, bytes):
            low, high = int.from_bytes(low, "big", signed=True), int.from_bytes(high, "big", signed=True)
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)

    def spoil(self) -> None:
        """A row group holds values but no statistics: nothing is known about the file."""
        self._sure = False

    def bounds(self) -> tuple[bytes | None, bytes | None]:
        """Lower and upper bound, None for one that is not known."""
        if not self._sure or self._pair is None or self._low is None:
            return None, None
        return self._pair(self._low, self._high, self._length)
