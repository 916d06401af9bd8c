"""Protobuf: what the wire format lets one message read of another (protobuf.dev, "Updating A Message Type"). Messages are known by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from frazil.schemas.framing import WriterSchema
from frazil.schemas.protobuf.text import Field, File, Message, read_file

_ALIKE: Final[Mapping[str, str]] = {
    "int32": "varint", "uint32": "varint", "int64": "varint", "uint64": "varint", "bool": "varint",
    "sint32": "zigzag", "sint64": "zigzag",
    "fixed32": "fixed32", "sfixed32": "fixed32",
    "fixed64": "fixed64", "sfixed64": "fixed64",
    "string": "text", "bytes": "text",
    "float": "float", "double": "double",
}  # fmt: skip


def unreadable_protobuf(reader: WriterSchema, writer: WriterSchema) -> list[str]:
    """See ``levels.Unreadable``."""
    new, old = read_file(reader.text), read_file(writer.text)
    found: list[str] = []
    for name, message in old.names.items():
        if not isinstance(message, Message):
            continue
        other = new.names.get(name)
        found += _message(other, message, new, old) if isinstance(other, Message) else [f"message {name} is gone"]
    return found


def _message(reader: Message, writer: Message, new: File, old: File) -> list[str]:
    written = {field.number: field for field in writer.fields}
    found: list[str] = []
    for field in reader.fields:
        before = written.get(field.number)
        if before is None:
            if field.label == "required":
                found.append(f"{reader.name}.{field.name} ({field.number}) is required and was not written")
            continue
        kinds = _kind(field, new), _kind(before, old)
        if kinds[0] != kinds[1]:
            found.append(f"{reader.name}: field {field.number} is {_show(field)}, was {_show(before)}")
        if field.label == "required" and before.label != "required":
            found.append(f"{reader.name}.{field.name} ({field.number}) is required and may be absent")
    return found + _oneofs(reader, writer)


def _oneofs(reader: Message, writer: Message) -> list[str]:
    """Fields that were apart cannot come together in a oneof: of two that were written one would be lost."""
    groups: dict[str, list[Field]] = {}
    apart = {field.number: field.oneof or str(field.number) for field in writer.fields}
    for field in reader.fields:
        if field.oneof and field.number in apart:
            groups.setdefault(field.oneof, []).append(field)
    return [
        f"{reader.name}: oneof {name} takes in fields that could be written together"
        for name, fields in groups.items()
        if len({apart[field.number] for field in fields}) > 1
    ]


def _kind(field: Field, file: File) -> tuple[str, str, str]:
    """What the bytes of a field are: one value, several, or a map."""
    label = field.label if field.label in ("repeated", "map") else ""
    return label, _ALIKE.get(field.key, ""), _type(field.type, file)


def _type(name: str, file: File) -> str:
    if name in _ALIKE:
        return _ALIKE[name]
    short = name.rpartition(".")[2]
    enums = [full for full, what in file.names.items() if full.rpartition(".")[2] == short and isinstance(what, dict)]
    return "varint" if enums else short


def _show(field: Field) -> str:
    return f"map<{field.key}, {field.type}>" if field.label == "map" else f"{field.label} {field.type}".strip()
