"""What the generated message modules stand on: message base class, layout tables, variable-length numbers, faults.

Readers are hostile-input safe: a length is compared with the bytes left before anything of that length is made, and every fault of a
reader ends as ``Corrupt`` naming struct, field and byte. Nothing here recurses; nesting is the fixed nesting of the message definitions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from frazil.kit.errors import Corrupt

Blob: TypeAlias = bytes | bytearray | memoryview
"""Record bytes: a reader gives a view into the frame, a writer takes any of the three and does not copy it."""
Int8: TypeAlias = int
Int16: TypeAlias = int
UInt16: TypeAlias = int
Int32: TypeAlias = int
UInt32: TypeAlias = int
Int64: TypeAlias = int
Uuid: TypeAlias = bytes
"""The numbers say which range the wire has room for; a uuid is 16 bytes."""
Put: TypeAlias = Callable[[Blob], None]

FAULTS = (IndexError, ValueError, struct.error)
"""What a reader may meet in bad bytes: past the end, a refused length (or broken UTF-8), too few bytes for a fixed field."""
_read_length = struct.Struct(">h").unpack_from
UUID_ZERO = bytes(16)
UVARINTS = tuple(bytes((n,)) for n in range(128))
"""The one-byte forms, which nearly all lengths are."""


class Message:
    """One Kafka struct: slots are the union of all versions' fields; fields a version does not carry are neither read nor written."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, name), getattr(other, name)) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # mutable value, as for a list

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(getattr(self, name))}' for name in self.__slots__)})"


def _same(left: object, right: object) -> bool:
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return list(left) == list(right)
    return left == right


def _shown(value: object) -> str:
    # Blobs are records or secrets (SASL): their size is all a log line should carry.
    return f"<{len(value)} bytes>" if isinstance(value, (bytes, bytearray, memoryview)) and len(value) != 16 else repr(value)


Reader: TypeAlias = Callable[[memoryview, int, int], tuple[Message, int]]
"""(frame, position, limit) → (message, position after it)."""
Writer: TypeAlias = Callable[..., None]
"""(message, put) → None; parts are handed to ``put`` in wire order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """One message in all its versions: how each is read and written."""

    name: str
    kind: type[Message]
    readers: Mapping[int, Reader]
    writers: Mapping[int, Writer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One Kafka API as Kafka 4.3 defines it. ``flexible_from`` is the first version with compact lengths and tagged fields."""

    key: int
    name: str
    version_min: int
    version_max: int
    flexible_from: int | None
    load: Callable[[], tuple[Layouts, Layouts]]
    """Imports the API's message module on first use and gives (request, response) layouts."""

    def request_header_version(self, version: int) -> int:
        """1, or 2 from the first flexible version on."""
        return 2 if self.flexible_from is not None and version >= self.flexible_from else 1

    def response_header_version(self, version: int) -> int:
        """0, or 1 from the first flexible version on; always 0 for ApiVersions (key 18, KIP-511), sent before versions are agreed."""
        return 1 if self.key != 18 and self.flexible_from is not None and version >= self.flexible_from else 0


def corrupt(struct_name: str, field: str, position: int, fault: Exception) -> Corrupt:
    """The fault of a reader in words: struct, field, byte position in the frame, why."""
    if isinstance(fault, UnicodeDecodeError):
        why = "text is not UTF-8"
    elif isinstance(fault, ValueError):
        why = str(fault)
    else:
        why = "the bytes end inside this field"
    return Corrupt(why, where=f"{struct_name}.{field} at byte {position}")


def bad_length(length: int, left: int) -> ValueError:
    """Why a length, element count or tag size was refused."""
    if length < 0:
        return ValueError("null or negative length where neither may be")
    return ValueError(f"length {length} cannot fit in the {left} bytes left")


def read_uvarint(buf: memoryview, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits (five bytes). IndexError at the end, ValueError when longer.

    Unrolled: record lengths take two to four bytes, and this is on the produce path.
    """
    first = buf[pos]
    if first < 128:
        return first, pos + 1
    value, byte = first & 0x7F, buf[pos + 1]
    if byte < 128:
        return value | byte << 7, pos + 2
    value, byte = value | (byte & 0x7F) << 7, buf[pos + 2]
    if byte < 128:
        return value | byte << 14, pos + 3
    value, byte = value | (byte & 0x7F) << 14, buf[pos + 3]
    if byte < 128:
        return value | byte << 21, pos + 4
    value, byte = value | (byte & 0x7F) << 21, buf[pos + 4]
    if byte < 16:
        return value | byte << 28, pos + 5
    raise ValueError("varint is longer than 32 bits")


def write_uvarint(value: int) -> bytes:
    """The shortest unsigned varint of ``value`` ≥ 0."""
    if value < 128:
        return UVARINTS[value]
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_string(buf: memoryview, pos: int, limit: int) -> tuple[str, int]:
    """A string behind an int16 length."""
    (n,) = _read_length(buf, pos)
    end = pos + 2 + n
    if n < 0 or end > limit:
        raise bad_length(n, limit - pos - 2)
    return buf[pos + 2 : end].tobytes().decode(), end


def read_compact_string(buf: memoryview, pos: int, limit: int) -> tuple[str, int]:
    """A string behind an unsigned varint of its length plus one."""
    n = buf[pos]
    pos += 1
    if n > 127:
        n, pos = read_uvarint(buf, pos - 1)
    end = pos + n - 1
    if n < 1 or end > limit:
        raise bad_length(n - 1, limit - pos)
    return buf[pos:end].tobytes().decode(), end


def read_compact_nullable_string(buf: memoryview, pos: int, limit: int) -> tuple[str | None, int]:
    """As ``read_compact_string``; length zero (in however many bytes) is null."""
    n, pos = read_uvarint(buf, pos)
    if n == 0:
        return None, pos
    end = pos + n - 1
    if end > limit:
        raise bad_length(n - 1, limit - pos)
    return buf[pos:end].tobytes().decode(), end


def skip_tags(buf: memoryview, pos: int, limit: int) -> int:
    """Step over a tagged-field section none of whose tags is known here (KIP-482). ``pos`` is at the count."""
    count, pos = read_uvarint(buf, pos)
    for _ in range(count):
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > limit:
            raise bad_length(size, limit - pos + size)
    return pos


def write_tags(tags: Sequence[tuple[int, bytes]], put: Put) -> None:
    """A tagged-field section; ``tags`` ascends. Fields holding defaults must not be in it: librdkafka before 2.2 mis-skips them."""
    put(write_uvarint(len(tags)))
    for tag, content in tags:
        put(write_uvarint(tag))
        put(write_uvarint(len(content)))
        put(content)
