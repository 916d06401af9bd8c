"""Random .proto files, and random messages of them as bytes, in every form the wire has."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field, replace

from tests.differential.avro_values import random_number, varint
from tests.differential.written_tables import Table, random_table, spoilt

from frazil.schemas.avro.tree import Node
from frazil.schemas.framing import Found, Unknown, WriterSchema
from frazil.schemas.port import DecodeOptions
from frazil.schemas.protobuf.schemas import compile_protobuf
from frazil.schemas.unfit import Unfit

_MASK = (1 << 64) - 1
_VARINTS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool")
_FIXED32, _FIXED64 = ("fixed32", "sfixed32", "float"), ("fixed64", "sfixed64", "double")
_SCALARS = (*_VARINTS, *_FIXED32, *_FIXED64, "string", "bytes", "string", "int64")
_KEYS = ("string", "string", "int32", "bool", "uint64", "sint64", "fixed32", "sfixed64")
_WRAPPED = {"Int64Value": "int64", "StringValue": "string", "BoolValue": "bool", "DoubleValue": "double", "UInt64Value": "uint64"}
_TEXTS = ("", "x", "plain words", "größer", "東京", "é" * 40)
_SYMBOLS = {"NONE": 0, "RED": 1, "FAR": 1000, "BELOW": -1}
_TIME = "google.protobuf.Timestamp"
_LEFT = 200


@dataclass(kw_only=True)
class Field:
    label: str
    type: str
    name: str
    number: int
    key: str = ""
    oneof: bool = False


@dataclass(kw_only=True)
class Message:
    name: str
    fields: list[Field] = field(default_factory=list)


class File:
    """A random file: some messages that refer to each other, and an enum."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.proto3 = chance.random() < 0.7
        self.messages = {f"M{number}": Message(name=f"M{number}") for number in range(chance.randint(1, 3))}
        for message in self.messages.values():
            self._fill(message)

    def _fill(self, message: Message) -> None:
        chance = self._chance
        count = chance.randint(0 if chance.random() < 0.1 else 1, 7)
        numbers = chance.sample((1, 2, 3, 4, 5, 15, 16, 127, 128, 3000, 536_870_911), count)
        oneof = chance.random() < 0.3
        for at, number in enumerate(numbers):
            one = Field(label="", type=self._type(message.name), name=chance.choice("ab") + str(at), number=number)
            way = chance.random()
            if oneof and at < 3:
                one.oneof = True
            elif way < 0.2:
                one.label = "repeated"
            elif way < 0.35:
                one.label, one.key = "map", chance.choice(_KEYS)
            elif not self.proto3:
                one.label = "required" if way > 0.93 else "optional"
            elif way < 0.5:
                one.label = "optional"
            if at == 5:
                one.name = message.fields[0].name.upper() if chance.random() < 0.2 else "_offset"
            message.fields.append(one)

    def _type(self, inside: str) -> str:
        chance = self._chance
        way = chance.random()
        if way < 0.6:
            return chance.choice(_SCALARS)
        if way < 0.7:
            return "E"
        if way < 0.77:
            return _TIME
        if way < 0.85:
            return "google.protobuf." + chance.choice(tuple(_WRAPPED))
        others = [name for name in self.messages if name > inside]
        return chance.choice(others) if others and chance.random() < 0.93 else inside if way < 0.88 else "int32"

    def text(self) -> str:
        """The file as its author would write it."""
        parts = ['syntax = "proto3";' if self.proto3 else 'syntax = "proto2";']
        parts.append("enum E { " + " ".join(f"{name} = {number};" for name, number in _SYMBOLS.items()) + " }")
        for message in self.messages.values():
            plain = [self._line(one) for one in message.fields if not one.oneof]
            chosen = [self._line(one) for one in message.fields if one.oneof]
            parts.append(f"message {message.name} {{ {' '.join(plain)} {'oneof choice { ' + ' '.join(chosen) + ' }' if chosen else ''} }}")
        return "\n".join(parts)

    @staticmethod
    def _line(one: Field) -> str:
        if one.label == "map":
            return f"map<{one.key}, {one.type}> {one.name} = {one.number};"
        return f"{one.label} {one.type} {one.name} = {one.number};".lstrip()


def wire_of(type_: str) -> int:
    """The wire type of a type."""
    return 0 if type_ in _VARINTS or type_ == "E" else 5 if type_ in _FIXED32 else 1 if type_ in _FIXED64 else 2


def tagged(number: int, wire: int, body: bytes) -> bytes:
    return varint(number << 3 | wire) + body


class Encoder:
    """Random messages of a file."""

    def __init__(self, chance: random.Random, file: File) -> None:
        self._chance = chance
        self._file = file
        self._left = 0
        self._odd = 0.0

    def whole(self, message: Message) -> bytes:
        """One message; one in ten has parts in forms that few writers make."""
        self._left, self._odd = _LEFT, 0.15 if self._chance.random() < 0.1 else 0.0
        return self.message(message)

    def _strange(self) -> bool:
        return self._odd > 0 and self._chance.random() < self._odd

    def message(self, message: Message) -> bytes:
        """The fields of a message, mostly in their order."""
        chance = self._chance
        self._left -= 1
        parts: list[bytes] = []
        chosen = False
        for one in sorted(message.fields, key=lambda one: one.number):
            if one.oneof and (chosen or chance.random() < 0.5) and not self._strange():
                continue
            chosen = chosen or one.oneof
            if one.label != "required" and chance.random() < 0.25:
                continue
            parts += self.field(one)
            if self._strange():
                parts += self.field(one)
        if self._strange():
            parts.append(tagged(chance.choice((77, 200)), 0, b"\x01"))
        if self._strange() or chance.random() < 0.05:
            chance.shuffle(parts)
        return b"".join(parts)

    def field(self, one: Field) -> list[bytes]:
        """A field's parts on the wire."""
        chance = self._chance
        wire = wire_of(one.type)
        if self._strange():
            wire = chance.choice((0, 1, 2, 5))
        if one.label == "map":
            return [tagged(one.number, 2, self.sized(self.entry(one))) for _ in range(self._count())]
        if one.label != "repeated":
            return [tagged(one.number, wire, self.value(one.type))]
        values = [self.value(one.type) for _ in range(self._count())]
        if wire_of(one.type) != 2 and chance.random() < 0.7:
            return [tagged(one.number, 2, self.sized(b"".join(values)))] if values else []
        return [tagged(one.number, wire, value) for value in values]

    def _count(self) -> int:
        return 0 if self._left < 0 else self._chance.choice((0, 1, 1, 2, 3))

    def entry(self, one: Field) -> bytes:
        """Key and value of a map."""
        key = tagged(1, wire_of(one.key), self.value(one.key))
        value = tagged(2, wire_of(one.type), self.value(one.type))
        way = self._chance.random()
        return key + value if way < 0.85 else value + key if way < 0.9 else key if way < 0.95 else value

    @staticmethod
    def sized(data: bytes) -> bytes:
        return varint(len(data)) + data

    def value(self, type_: str) -> bytes:
        """A value without its tag."""
        chance = self._chance
        self._left -= 1
        if type_ in _VARINTS or type_ == "E":
            return varint(self._whole(type_) & _MASK)
        if type_ == "float":
            return struct.pack("<f", chance.choice((0.0, -0.0, 1.5, float("nan"), float("inf"), chance.gauss(0, 1e6))))
        if type_ == "double":
            return struct.pack("<d", chance.choice((0.0, -0.0, 1.5, float("nan"), float("inf"), chance.gauss(0, 1e6))))
        if type_ in (*_FIXED32, *_FIXED64):
            return chance.randbytes(4 if type_ in _FIXED32 else 8)
        if type_ == "string":
            return self.sized(b"\xff\xfe" if self._strange() else chance.choice(_TEXTS).encode())
        if type_ == "bytes":
            return self.sized(chance.randbytes(chance.choice((0, 1, 5, 16))))
        if type_ == _TIME:
            return self.sized(self._time())
        if type_.startswith("google"):
            inner = _WRAPPED[type_.rpartition(".")[2]]
            full = tagged(1, wire_of(inner), self.value(inner))
            return self.sized(b"" if chance.random() < 0.2 else full * (2 if self._strange() else 1))
        return self.sized(b"" if self._left < 0 else self.message(self._file.messages[type_]))

    def _time(self) -> bytes:
        chance = self._chance
        seconds = chance.choice((-62_135_596_800, 253_402_300_799, 253_402_300_800, 1 << 62, 0, *(chance.randrange(2_000_000_000),) * 12))
        nanos = chance.choice((0, 1000 * chance.randrange(1_000_000), 1000 * chance.randrange(1_000_000), 7, -1000))
        parts = (tagged(1, 0, varint(seconds & _MASK)), tagged(2, 0, varint(nanos & _MASK)))
        return b"".join(part for part in parts if chance.random() < 0.9)

    def _whole(self, type_: str) -> int:
        chance = self._chance
        if type_ == "bool":
            return 2 if self._strange() else chance.randrange(2)
        if type_ == "E":
            return chance.choice((0, 0, 1, 1, 1000, -1, 5, -7))
        number = random_number(chance, 64 if type_.endswith("64") or self._strange() else 32)
        if type_.startswith("uint"):
            return abs(number)
        return (number << 1) ^ (number >> 63) if type_.startswith("sint") else number


def nodes_of(found: WriterSchema, path: bytes) -> list[Node]:
    """The tree of a message; none when it cannot be read."""
    try:
        return [compile_protobuf(1, found, DecodeOptions())(b"\0\0\0\0\1" + path)[0].node]
    except Unfit:
        return []


def random_slice(chance: random.Random, rows: int) -> Table:
    """A table, what the registry knows, and values of up to three files."""
    files = [File(chance) for _ in range(chance.randint(1, 3))]
    found: dict[int, Found] = {number: Unknown(code="unknown-schema", why="no such schema") for number in (1, 2, 3, 4, 99)}
    nodes: list[Node] = []
    for number, file in enumerate(files, 1):
        schema = WriterSchema(kind="PROTOBUF", text=file.text())
        found[number] = schema
        nodes += nodes_of(schema, b"\0")
    table = random_table(chance, nodes)
    encoders = [Encoder(chance, file) for file in files]
    values: list[bytes | None] = []
    for _ in range(rows):
        number = chance.randrange(len(files))
        index = chance.randrange(len(files[number].messages)) if chance.random() < 0.2 else 0
        path = chance.choice((b"\0", b"\x02\0", b"\x82\0\0")) if not index else b"\x02" + varint(index << 1)
        if chance.random() < 0.01:
            path = chance.choice((b"\x02\x7e", b"\x01\0", b"\x04\0\0", b"\x7e", b""))
        body = encoders[number].whole(files[number].messages[f"M{index}"])
        values.append(bytes([0, 0, 0, 0, number + 1]) + path + body)
    return replace(table, found=found, values=spoilt(chance, values, chance.choice((0.0, 0.05, 0.4))))
