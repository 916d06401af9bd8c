"""Protobuf's part of ``avro.written``: a file, which of its messages a value is, and the message as a tree and a plan."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from frazil.schemas.avro.tree import Node, bad_schema
from frazil.schemas.avro.written import Choose, Writer
from frazil.schemas.framing import PREFIX_BYTES, WriterSchema
from frazil.schemas.port import DecodeOptions
from frazil.schemas.protobuf.known import TIMESTAMP, WELL_KNOWN, WRAPPERS
from frazil.schemas.protobuf.program import protobuf_program
from frazil.schemas.protobuf.text import Field, File, Message, read_file
from frazil.schemas.protobuf.wire import I32, I64, LEN, VARINT, Convert, Plan, Slot, broken, read_message
from frazil.schemas.unfit import Unfit
from frazil.schemas.varints import unzigzag, varint

_INDEXES_MAX: Final = 32
_INT32: Final = 1 << 31
_UINT64_BYTES: Final = 9
_NANOS: Final = 1_000_000_000


def compile_protobuf(schema_id: int, found: WriterSchema, options: DecodeOptions) -> Choose:
    """See ``avro.written.Compile``."""
    names: dict[str, Message | dict[int, str]] = dict(read_file(WELL_KNOWN).names)
    for _, text in found.references:
        names.update(read_file(text).names)
    file = read_file(found.text)
    names.update(file.names)
    writers: dict[tuple[int, ...], Writer | Unfit] = {}

    def choose(value: bytes) -> tuple[Writer, int]:
        path, at = _indexes(value)
        writer = writers.get(path)
        if writer is None:
            writer = writers[path] = _writer(schema_id, path, file, names, options.depth_max)
        if isinstance(writer, Unfit):
            raise Unfit(writer.code, writer.why)
        return writer, at

    return choose


def _writer(
    schema_id: int, path: tuple[int, ...], file: File, names: Mapping[str, Message | dict[int, str]], depth_max: int
) -> Writer | Unfit:
    messages = file.messages
    message = None
    for index in path:
        if not 0 <= index < len(messages):
            return broken(f"schema {schema_id} has no message at {list(path)}")
        message = messages[index]
        messages = message.messages
    if message is None:
        return broken("no message is named")
    try:
        node, plan = _Build(names).message(message)
    except Unfit as verdict:
        return Unfit(verdict.code, f"schema {schema_id}: {verdict.why}")
    return Writer(
        key=(schema_id, *path),
        node=node,
        read=lambda data, at: read_message(plan, data[at:], depth_max),
        program=partial(protobuf_program, plan),
    )


def _indexes(value: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of the file: the way down from the outermost, and where its bytes begin. A single zero is the first message."""
    try:
        count, at = _zigzag(value, PREFIX_BYTES)
        if not count:
            return (0,), at
        if not 0 < count <= _INDEXES_MAX:
            raise broken(f"{count} message indexes")
        path = []
        for _ in range(count):
            index, at = _zigzag(value, at)
            path.append(index)
    except IndexError:
        raise broken("the bytes end within the message indexes") from None
    except OverflowError:
        raise broken("a number of more than 64 bits") from None
    return tuple(path), at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number, at = varint(data, at)
    return unzigzag(number), at


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _int32(number: int) -> int:
    value = _signed(number)
    if not -_INT32 <= value < _INT32:
        raise broken(f"{value} where a number of 32 bits should be")
    return value


def _uint32(number: int) -> int:
    if number >> 32:
        raise broken(f"{number} where a number of 32 bits should be")
    return number


def _uint64(number: int) -> bytes:
    return number.to_bytes(_UINT64_BYTES, "big")


def _bool(number: int) -> bool:
    if number > 1:
        raise broken(f"{number} where a bool should be")
    return number == 1


def _string(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Unfit("not-utf8", f"a string whose byte {error.start} is not UTF-8") from None


def _unpack(form: str) -> Convert:
    unpack = struct.Struct(form).unpack
    return lambda data: unpack(data)[0]


def _u64() -> Node:
    return Node(kind="fixed", size=_UINT64_BYTES, logical="decimal", precision=20)


_SCALARS: Final[dict[str, tuple[int, Convert, str, Any]]] = {
    "double": (I64, _unpack("<d"), "double", 0.0),
    "float": (I32, _unpack("<f"), "float", 0.0),
    "int32": (VARINT, _int32, "int", 0),
    "sint32": (VARINT, lambda number: _int32(unzigzag(number) & (1 << 64) - 1), "int", 0),
    "sfixed32": (I32, _unpack("<i"), "int", 0),
    "uint32": (VARINT, _uint32, "long", 0),
    "fixed32": (I32, _unpack("<I"), "long", 0),
    "int64": (VARINT, _signed, "long", 0),
    "sint64": (VARINT, unzigzag, "long", 0),
    "sfixed64": (I64, _unpack("<q"), "long", 0),
    "uint64": (VARINT, _uint64, "uint64", _uint64(0)),
    "fixed64": (I64, lambda data: _uint64(int.from_bytes(data, "little")), "uint64", _uint64(0)),
    "bool": (VARINT, _bool, "boolean", False),
    "string": (LEN, _string, "string", ""),
    "bytes": (LEN, bytes, "bytes", b""),
}
"""Type to wire type, conversion, the tree's word for it, and the default."""


class _Build:
    """Trees and plans of messages, one each, so that a message may contain itself."""

    def __init__(self, names: Mapping[str, Message | dict[int, str]]) -> None:
        self._names = names
        self._made: dict[str, tuple[Node, Plan]] = {}

    def message(self, message: Message) -> tuple[Node, Plan]:
        """Raises Unfit with code bad-schema."""
        made = self._made.get(message.name)
        if made is not None:
            return made
        node, plan = Node(kind="record", name=message.name), Plan(name=message.name)
        self._made[message.name] = (node, plan)
        rivals: dict[str, list[int]] = {}
        for at, field in enumerate(message.fields):
            if field.oneof:
                rivals.setdefault(field.oneof, []).append(at)
        for at, field in enumerate(message.fields):
            inner, slot, absent = self._field(field, message.name, at)
            slot.rivals = tuple(other for other in rivals.get(field.oneof, ()) if other != at)
            node.fields.append((field.name, inner))
            plan.slots[field.number] = slot
            plan.absent.append(absent)
            if field.label == "required":
                plan.required.append(at)
        return node, plan

    def _field(self, field: Field, scope: str, at: int) -> tuple[Node, Slot, Any]:
        node, slot, default = self._type(field.type, scope, at)
        if field.label == "map":
            _, key, key_default = self._type(field.key, scope, 0)
            plain = key.convert
            key.convert = lambda raw: _key_text(plain(raw))
            slot.at = 1
            entry = Plan(name=f"{scope}.{field.name}", slots={1: key, 2: slot}, absent=[_key_text(key_default), default])
            return Node(kind="map", inner=[node]), Slot(at=at, wire=LEN, repeated=True, inner=entry, pairs=True), []
        if field.label == "repeated":
            slot.repeated = True
            return Node(kind="array", inner=[node]), slot, []
        return node, slot, None if field.presence else default

    def _type(self, name: str, scope: str, at: int) -> tuple[Node, Slot, Any]:
        """Tree, slot and default of one value."""
        if name in _SCALARS:
            wire, convert, kind, default = _SCALARS[name]
            return _u64() if kind == "uint64" else Node(kind=kind), Slot(at=at, wire=wire, convert=convert, word=name), default
        full, found = self._resolve(name, scope)
        if isinstance(found, dict):
            symbols = found
            node = Node(kind="enum", name=full, symbols=tuple(symbols.values()))
            slot = Slot(at=at, wire=VARINT, convert=lambda number: _symbol(symbols, number), word="enum", symbols=symbols)
            return node, slot, _symbol(symbols, 0)
        node, plan = self.message(found)
        slot = Slot(at=at, wire=LEN, inner=plan, word="message")
        if full == TIMESTAMP:
            node = Node(kind="long", logical="proto-timestamp-nanos")
            slot.word, slot.after = "timestamp", lambda value: value[0] * _NANOS + value[1]
        elif full in WRAPPERS:
            node = node.fields[0][1]
            slot.word, slot.after = "wrapper", lambda value: value[0]
        return node, slot, None

    def _resolve(self, name: str, scope: str) -> tuple[str, Message | dict[int, str]]:
        """From the innermost scope outwards, as the language says."""
        if name.startswith("."):
            scope, name = "", name[1:]
        while True:
            full = f"{scope}.{name}" if scope else name
            found = self._names.get(full)
            if found is not None:
                return full, found
            if not scope:
                raise bad_schema(f"the type {name[:100]!r} is not defined")
            scope = scope.rpartition(".")[0]


def _symbol(symbols: Mapping[int, str], number: int) -> str:
    """The name of an enum's value; one without a name is its number as text, for it may be a newer writer's."""
    value = _signed(number)
    return symbols.get(value, str(value))


def _key_text(key: object) -> str:
    """A map's key as the text that a table's map has."""
    if isinstance(key, bytes):
        return str(int.from_bytes(key, "big"))
    return str(key).lower() if isinstance(key, bool) else str(key)
