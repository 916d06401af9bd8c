"""Random Avro schemas, and random values of them as bytes, in every form the encoding has."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.differential.written_tables import Table, random_table, spoilt

from frazil.schemas.avro.tree import Node, parse
from frazil.schemas.framing import Found, Unknown, WriterSchema
from frazil.schemas.unfit import Unfit

_NAMES = ("a", "b", "c", "d", "A", "é", "_offset", "x.y", "string", "value")
_TEXTS = ("", "x", "plain words", "größer", "東京", "a" * 70, "é" * 40, "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "\x00")
_LOGICALS: Sequence[dict[str, Any]] = (
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-nanos"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
    {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 5},
)
_PARTS_MAX = 300
_PLAIN = ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "string", "long")


class Schemas:
    """Makes one schema; names are numbered, so that none comes twice."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._defined: list[str] = []

    def _name(self) -> str:
        name = f"N{len(self._defined)}"
        self._defined.append(name)
        return name

    def record(self, depth: int) -> dict[str, Any]:
        """A record of up to six fields."""
        chance = self._chance
        form: dict[str, Any] = {"type": "record", "name": self._name(), "fields": []}
        names = chance.sample(_NAMES, chance.randint(0 if chance.random() < 0.1 else 1, 6))
        if "a" in names and "A" in names and chance.random() < 0.8:
            names.remove("A")
        form["fields"] = [{"name": name, "type": self.type(depth + 1)} for name in names]
        if chance.random() < 0.1 and form["fields"]:
            form["fields"][0]["aliases"] = chance.sample(_NAMES, 2)
        return form

    def type(self, depth: int) -> Any:
        """Any type."""
        chance = self._chance
        way = chance.random()
        if way < 0.35 or depth > 4:
            return chance.choice(_PLAIN)
        if way < 0.5:
            return chance.choice(_LOGICALS)
        if way < 0.65:
            return self._union(depth)
        if way < 0.73:
            return {"type": "array", "items": self.type(depth + 1)}
        if way < 0.79:
            return {"type": "map", "values": self.type(depth + 1)}
        if way < 0.84:
            symbols = chance.sample(("RED", "GREEN", "BLUE", "X" * 40), chance.randint(1, 4))
            return {"type": "enum", "name": self._name(), "symbols": symbols}
        if way < 0.9:
            return self._fixed()
        if way < 0.92 and self._defined:
            return chance.choice(self._defined)
        return self.record(depth)

    def _fixed(self) -> dict[str, Any]:
        chance = self._chance
        form: dict[str, Any] = {"type": "fixed", "name": self._name(), "size": chance.choice((0, 1, 4, 16, 16, 20))}
        way = chance.random()
        if way < 0.3:
            return {**form, "logicalType": "uuid"}
        if way < 0.6:
            return {**form, "logicalType": "decimal", "precision": chance.choice((5, 20, 38)), "scale": chance.randint(0, 5)}
        return form

    def _union(self, depth: int) -> list[Any]:
        chance = self._chance
        if chance.random() < 0.6:
            inner = self.type(depth + 1)
            parts = [inner] if isinstance(inner, list) or inner == "null" else ["null", inner]
        else:
            parts = [*chance.sample(("null", "boolean", "int", "long", "string", "double"), chance.randint(1, 4)), self.type(depth + 1)]
        flat = [part for part in parts if not isinstance(part, list) and (part != "null" or chance.random() < 0.9)]
        chance.shuffle(flat)
        return list({json.dumps(part): part for part in flat}.values()) or ["null"]


def random_node(chance: random.Random) -> tuple[str, Node]:
    """A schema that can be parsed, as text and tree."""
    while True:
        schemas = Schemas(chance)
        text = json.dumps(schemas.record(0) if chance.random() < 0.9 else schemas.type(0))
        try:
            return text, parse(text)
        except Unfit:
            continue


def zigzag(number: int) -> bytes:
    return varint((number << 1) ^ (number >> 63))


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def random_number(chance: random.Random, bits: int) -> int:
    """Small ones often, and those at the borders of types."""
    way = chance.random()
    if way < 0.4:
        return chance.randint(-3, 100)
    if way < 0.6:
        return max(
            -(1 << bits - 1), min((1 << bits - 1) - 1, chance.choice((1, -1)) * (1 << chance.randrange(bits)) + chance.randint(-2, 2))
        )
    return chance.randint(-(1 << bits - 1), (1 << bits - 1) - 1) >> chance.randrange(bits)


_TIMES = {
    "date": (-719_162, 2_932_896),
    "time-millis": (0, 86_399_999),
    "time-micros": (0, 86_399_999_999),
    "millis": (-62_135_596_800_000, 253_402_300_799_999),
    "micros": (-62_135_596_800_000_000, 253_402_300_799_999_999),
    "nanos": (-(1 << 63), (1 << 63) - 1),
}


class Encoder:
    """Random data of a type."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._left = 0

    def datum(self, node: Node) -> bytes:
        """Of at most _PARTS_MAX parts; a type that never ends is cut there."""
        self._left = _PARTS_MAX
        return self.value(node)

    def value(self, node: Node, depth: int = 0) -> bytes:
        """A part of a datum."""
        chance = self._chance
        self._left -= 1
        match node.kind:
            case "record":
                return b"" if self._left < 0 else b"".join(self.value(inner, depth + 1) for _, inner in node.fields)
            case "union":
                nulls = [at for at, one in enumerate(node.inner) if one.kind == "null"]
                at = nulls[0] if nulls and (depth > 6 or chance.random() < 0.3) else chance.randrange(len(node.inner))
                return zigzag(at) + self.value(node.inner[at], depth + 1)
            case "array":
                return self._blocks([self.value(node.inner[0], depth + 2) for _ in range(self._count(depth))])
            case "map":
                keys = chance.choices(_TEXTS, k=1) if chance.random() < 0.05 else chance.sample(_TEXTS, self._count(depth))
                if chance.random() < 0.1:
                    keys = [f"k{number}" for number in range(chance.randint(9, 20))]
                keys = keys * 2 if chance.random() < 0.03 else keys
                return self._blocks([self._sized(key.encode()) + self.value(node.inner[0], depth + 2) for key in keys])
            case "int" | "long":
                return zigzag(self._whole(node))
            case "boolean":
                return bytes([chance.randrange(2)])
            case "float":
                return struct.pack("<f", chance.choice((0.5, -0.0, float("inf"), float("nan"), chance.gauss(0, 1e9))))
            case "double":
                return struct.pack("<d", chance.choice((0.5, -0.0, float("inf"), float("nan"), chance.gauss(0, 1e9), 1e300, 3.0)))
            case "enum":
                return zigzag(chance.randrange(len(node.symbols)))
            case "fixed":
                return self._digits(node.size) if node.logical == "decimal" else chance.randbytes(node.size)
            case "bytes":
                return self._sized(self._digits(chance.choice((0, 1, 2, 3, 4, 8, 15, 16, 17, 30))))
            case "string":
                return self._sized(self._text(node))
            case _:
                return b""

    def _count(self, depth: int) -> int:
        return 0 if depth > 8 else self._chance.choice((0, 0, 1, 2, 3))

    def _text(self, node: Node) -> bytes:
        chance = self._chance
        if node.logical == "uuid" and chance.random() < 0.9:
            return _TEXTS[7].encode()
        return chance.choice((b"\xff", b"\xc3", b"x" * 80 + b"\xe9")) if chance.random() < 0.01 else chance.choice(_TEXTS).encode()

    def _digits(self, size: int) -> bytes:
        """A number of few digits more often than chance would have it."""
        if size and self._chance.random() < 0.7:
            number = self._chance.choice((1, -1)) * self._chance.randrange(10 ** min(size, 9)) >> 8 * max(0, 4 - size)
            return number.to_bytes(size, signed=True)
        return self._chance.randbytes(size)

    def _whole(self, node: Node) -> int:
        chance = self._chance
        bounds = _TIMES.get(node.logical) or _TIMES.get(node.logical.rpartition("-")[2])
        if bounds is None:
            return random_number(chance, 32 if node.kind == "int" else 64)
        way = chance.random()
        if way < 0.04:
            number = chance.choice(bounds) + chance.randint(-2, 2)
        else:
            number = chance.randint(*bounds)
            number = number - number % 1000 if node.logical.endswith("nanos") and way < 0.9 else number
        return max(-(1 << 63), min((1 << 63) - 1, number))

    def _sized(self, data: bytes) -> bytes:
        return zigzag(len(data)) + data

    def _blocks(self, items: list[bytes]) -> bytes:
        """In one block or more, with their sizes or without."""
        chance, found, begin = self._chance, b"", 0
        while begin < len(items):
            count = chance.randint(1, len(items) - begin)
            part = b"".join(items[begin : begin + count])
            found += zigzag(-count) + zigzag(len(part)) + part if chance.random() < 0.3 else zigzag(count) + part
            begin += count
        return found + b"\x00"


def random_slice(chance: random.Random, rows: int) -> Table:
    """A table, what the registry knows, and values of up to three schemas."""
    known = [random_node(chance) for _ in range(chance.randint(1, 3))]
    table = random_table(chance, [node for _, node in known])
    found: dict[int, Found] = {number: Unknown(code="unknown-schema", why="no such schema") for number in (1, 2, 3, 4, 99)}
    found.update((number, WriterSchema(kind="AVRO", text=text)) for number, (text, _) in enumerate(known, 1))
    if chance.random() < 0.5:
        found[4] = WriterSchema(kind="JSON", text="{}")
    encoder = Encoder(chance)
    values: list[bytes | None] = []
    for _ in range(rows):
        number = chance.randint(1, len(known))
        values.append(bytes([0, 0, 0, 0, number]) + encoder.datum(known[number - 1][1]))
    return replace(table, found=found, values=spoilt(chance, values, chance.choice((0.0, 0.05, 0.4))))
