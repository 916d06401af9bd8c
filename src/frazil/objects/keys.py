"""Which keys every store can hold, and the byte buffers of an object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from frazil.kit.errors import Refused

KEY_BYTES_MAX: Final = 1024
"""S3's limit."""
COMPONENT_BYTES_MAX: Final = 255
"""A file name's limit on Linux."""
RESERVED: Final = ".frazil"
"""First component that stores keep for themselves (half-written files)."""

Data = bytes | bytearray | memoryview | Sequence[bytes | memoryview]


def check_key(key: str) -> None:
    """Raises Refused unless ``key`` can be an object in every store and cannot leave the store's root."""
    why = _fault(key.split("/"), key)
    if why:
        raise Refused(f"object key {key[:200]!r}: {why}")


def check_prefix(prefix: str) -> None:
    """Raises Refused unless keys can start with ``prefix``; the empty prefix is every key."""
    *whole, last = prefix.split("/")
    why = _fault([*whole, f"x{last}"], prefix)  # the last component may be the beginning of any name
    if why:
        raise Refused(f"object prefix {prefix[:200]!r}: {why}")


def _fault(components: list[str], text: str) -> str:
    try:
        sizes = [len(component.encode()) for component in components]
    except UnicodeEncodeError:
        return "is not UTF-8 text"
    if "\0" in text:
        return "contains NUL"
    if sum(sizes) + len(sizes) - 1 > KEY_BYTES_MAX:
        return f"longer than {KEY_BYTES_MAX} bytes"
    if max(sizes) > COMPONENT_BYTES_MAX:
        return f"a component is longer than {COMPONENT_BYTES_MAX} bytes"
    if min(sizes) == 0:
        return "has an empty component (leading, trailing or double '/')"
    if "." in components or ".." in components:
        return "has a component '.' or '..'"
    if components[0] == RESERVED:
        return f"{RESERVED}/ belongs to the store itself"
    return ""


def buffers(data: Data) -> list[memoryview]:
    """The object's bytes as flat views, in order; nothing is copied."""
    parts = (data,) if isinstance(data, bytes | bytearray | memoryview) else data
    return [view for part in parts if (view := memoryview(part).cast("B"))]
