"""Avro's binary encoding to Python values, one closure per type, built once per schema (specification, "Binary Encoding").

A reader takes bytes and a position and returns the value and the position behind it. Values are raw: an int for every logical
type above int and long, bytes for decimals. A record is the list of its fields' values in their order; a union with one branch
beside null is that value or None, any other is ``(branch number, value)`` or None; a map is a list of pairs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from frazil.schemas.avro.tree import Node, bad_schema
from frazil.schemas.unfit import Unfit
from frazil.schemas.varints import unzigzag, varint

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
DatumReader: TypeAlias = Callable[[bytes, int], object]

_INT: Final = (-(1 << 31), (1 << 31) - 1)
_unpack_float = struct.Struct("<f").unpack_from
_unpack_double = struct.Struct("<d").unpack_from


def not_avro(why: str) -> Unfit:
    """The verdict on bytes."""
    return Unfit("not-avro", why)


def datum_reader(node: Node, depth_max: int) -> DatumReader:
    """Reads one whole datum from a position to the end of the bytes; raises Unfit. Not for two threads at once."""
    build = _Build(depth_max)
    read = build.reader(node)

    def whole(data: bytes, at: int) -> object:
        build.depth = 0
        try:
            value, end = read(data, at)
        except (IndexError, struct.error):
            raise not_avro("the bytes end within the datum") from None
        except OverflowError:
            raise not_avro("a number of more than 64 bits") from None
        if end != len(data):
            raise not_avro(f"{len(data) - end} bytes behind the datum" if end < len(data) else "the bytes end within the datum")
        return value

    return whole


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 128:  # without a call, as most numbers are
        return (byte >> 1) ^ -(byte & 1), at + 1
    number, at = varint(data, at)
    return unzigzag(number), at


def _int(data: bytes, at: int) -> tuple[int, int]:
    number, at = _long(data, at)
    if not _INT[0] <= number <= _INT[1]:
        raise not_avro(f"{number} where an int of 32 bits should be")
    return number, at


def _null(_: bytes, at: int) -> tuple[None, int]:
    return None, at


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    byte = data[at]
    if byte > 1:
        raise not_avro(f"byte {byte} where a boolean should be")
    return byte == 1, at + 1


def _float(data: bytes, at: int) -> tuple[float, int]:
    return _unpack_float(data, at)[0], at + 4


def _double(data: bytes, at: int) -> tuple[float, int]:
    return _unpack_double(data, at)[0], at + 8


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise not_avro(f"a length of {size} where {len(data) - at} bytes are left")
    return data[at:end], end


def _string(data: bytes, at: int) -> tuple[str, int]:
    found, end = _bytes(data, at)
    try:
        return found.decode(), end
    except UnicodeDecodeError as error:
        raise Unfit("not-utf8", f"a string whose byte {error.start} is not UTF-8") from None


_PLAIN: Final[dict[str, Read]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}


class _Build:
    """Readers of one schema, one per named type, so that a schema that names a type a thousand times is compiled once."""

    def __init__(self, depth_max: int) -> None:
        self.depth = 0
        self._depth_max = depth_max
        self._records: dict[int, Read] = {}
        self._under_way: set[int] = set()

    def reader(self, node: Node) -> Read:
        """The reader of a type."""
        match node.kind:
            case "record":
                return self._record(node)
            case "enum":
                return _enum(node.symbols)
            case "fixed":
                return _fixed(node.size)
            case "array":
                return _array(self.reader(node.inner[0]), node.inner[0])
            case "map":
                return _map(self.reader(node.inner[0]))
            case "union":
                return _union([self.reader(branch) for branch in node.inner], node)
            case _:
                return _PLAIN[node.kind]

    def _record(self, node: Node) -> Read:
        known = self._records.get(id(node))
        if known is not None:
            return known
        if id(node) in self._under_way:
            return self._later(node)
        self._under_way.add(id(node))
        reads = [self.reader(inner) for _, inner in node.fields]
        self._under_way.discard(id(node))

        def record(data: bytes, at: int) -> tuple[list[Any], int]:
            values = []
            for read in reads:
                value, at = read(data, at)
                values.append(value)
            return values, at

        self._records[id(node)] = record
        return record

    def _later(self, node: Node) -> Read:
        """A type within itself: found when it is first read, and counted, because data can nest it without end."""

        def within(data: bytes, at: int) -> tuple[Any, int]:
            self.depth += 1
            if self.depth > self._depth_max:
                raise Unfit("too-deep", f"{node.name} is nested in itself more than {self._depth_max} times")
            found = self._records[id(node)](data, at)
            self.depth -= 1
            return found

        return within


def _enum(symbols: Sequence[str]) -> Read:
    def enum(data: bytes, at: int) -> tuple[str, int]:
        number, at = _long(data, at)
        if not 0 <= number < len(symbols):
            raise not_avro(f"symbol {number} of an enum of {len(symbols)}")
        return symbols[number], at

    return enum


def _fixed(size: int) -> Read:
    def fixed(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        if end > len(data):
            raise not_avro("the bytes end within the datum")
        return data[at:end], end

    return fixed


def _block(data: bytes, at: int) -> tuple[int, int]:
    """The number of items of the next block; a negative one is followed by the block's size in bytes."""
    count, at = _long(data, at)
    if count < 0:
        count = -count
        _, at = _long(data, at)
    if count > len(data) - at:
        raise not_avro(f"a block of {count} items where {len(data) - at} bytes are left")
    return count, at


def _array(read: Read, item: Node) -> Read:
    if _can_be_empty(item, {}):
        raise bad_schema("an array whose items have no bytes: its length would be anything")

    def array(data: bytes, at: int) -> tuple[list[Any], int]:
        values = []
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                value, at = read(data, at)
                values.append(value)
            count, at = _block(data, at)
        return values, at

    return array


def _can_be_empty(node: Node, known: dict[int, bool]) -> bool:
    """Whether a datum of the type may have no bytes at all. ``known``: records looked at before."""
    if node.kind != "record":
        return node.kind == "null" or (node.kind == "fixed" and node.size == 0)
    if id(node) not in known:
        known[id(node)] = True
        known[id(node)] = all(_can_be_empty(inner, known) for _, inner in node.fields)
    return known[id(node)]


def _map(read: Read) -> Read:
    def pairs(data: bytes, at: int) -> tuple[list[tuple[str, Any]], int]:
        found: list[tuple[str, Any]] = []
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                key, at = _string(data, at)
                value, at = read(data, at)
                found.append((key, value))
            count, at = _block(data, at)
        if len({key for key, _ in found}) != len(found):
            raise Unfit("duplicate-key", "a map has the same key twice")
        return found, at

    return pairs


def _union(reads: Sequence[Read], node: Node) -> Read:
    kinds = [branch.kind for branch in node.inner]
    tagged = len(kinds) - kinds.count("null") > 1
    count = len(reads)

    def union(data: bytes, at: int) -> tuple[Any, int]:
        number, at = _long(data, at)
        if not 0 <= number < count:
            raise not_avro(f"branch {number} of a union of {count}")
        value, at = reads[number](data, at)
        return ((number, value) if tagged and kinds[number] != "null" else value), at

    return union
