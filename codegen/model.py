"""A message definition as values: version ranges, fields, structs, sizes."""

from __future__ import annotations

import json
import keyword
import re
from dataclasses import dataclass
from typing import Any

FIXED = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d", "uuid": "16s"}
SIZES = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16}
TYPES = {
    "bool": "bool", "int8": "Int8", "int16": "Int16", "uint16": "UInt16", "int32": "Int32", "uint32": "UInt32", "int64": "Int64",
    "float64": "float", "uuid": "Uuid", "string": "str", "bytes": "bytes", "records": "Blob",
}  # fmt: skip
"""Kafka type → the name in ``frazil.wire.layout`` or built-in that says what a Python value must be."""
_LAST = 32767
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range; empty when low > high."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __str__(self) -> str:
        return f"{self.low}+" if self.high == _LAST else str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


def parse_versions(text: str) -> Versions:
    """``3+``, ``0-12``, ``5`` or ``none``."""
    if text == "none":
        return Versions(1, 0)
    if text.endswith("+"):
        return Versions(int(text[:-1]), _LAST)
    low, _, high = text.partition("-")
    return Versions(int(low), int(high or low))


def snake(name: str) -> str:
    """``TopicData`` → ``topic_data``."""
    word = _WORD.sub("_", name).lower()
    return word + "_" if keyword.iskeyword(word) else word


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a struct. ``type`` is the element type for arrays."""

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: str

    @property
    def is_struct(self) -> bool:
        return self.type[0].isupper()

    @property
    def python_type(self) -> str:
        base = self.type if self.is_struct else TYPES[self.type]
        if self.is_array:
            base = f"Sequence[{base}]"
        optional = self.nullable.low <= self.nullable.high or (self.is_struct and not self.is_array)
        return f"{base} | None" if optional else base


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """One struct and its fields in wire order."""

    name: str
    fields: tuple[Field, ...]

    def present(self, version: int) -> list[Field]:
        return [f for f in self.fields if version in f.versions and version not in f.tagged]

    def tagged(self, version: int) -> list[Field]:
        return sorted((f for f in self.fields if version in f.versions and version in f.tagged), key=lambda f: f.tag)

    def unread(self, version: int) -> list[Field]:
        """Fields that keep their default unless a tag brings them."""
        return [f for f in self.fields if version not in f.versions or version in f.tagged]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSpec:
    """One message: its structs, inner ones first, itself last."""

    name: str
    api_key: int | None
    versions: Versions
    flexible: Versions
    structs: tuple[Struct, ...]

    def struct(self, name: str) -> Struct:
        return next(s for s in self.structs if s.name == name)


def parse_message(definition: dict[str, Any]) -> MessageSpec:
    """A parsed JSON definition as a MessageSpec."""
    structs: dict[str, Struct] = {}
    for common in definition.get("commonStructs", []):
        _add_struct(common["name"], common["fields"], structs)
    _add_struct(definition["name"], definition["fields"], structs)
    return MessageSpec(
        name=definition["name"],
        api_key=definition.get("apiKey"),
        versions=parse_versions(definition["validVersions"]),
        flexible=parse_versions(definition["flexibleVersions"]),
        structs=tuple(structs.values()),
    )


def _add_struct(name: str, fields: list[dict[str, Any]], structs: dict[str, Struct]) -> None:
    for raw in fields:
        if "fields" in raw:
            _add_struct(raw["type"].removeprefix("[]"), raw["fields"], structs)
    if name in structs:
        raise SystemExit(f"struct {name} is defined twice in one message")
    structs[name] = Struct(name=name, fields=tuple(_parse_field(raw) for raw in fields))


def _parse_field(raw: dict[str, Any]) -> Field:
    none = Versions(1, 0)
    field = Field(
        name=snake(raw["name"]),
        type=raw["type"].removeprefix("[]"),
        is_array=raw["type"].startswith("[]"),
        versions=parse_versions(raw["versions"]),
        nullable=parse_versions(raw["nullableVersions"]) if "nullableVersions" in raw else none,
        tagged=parse_versions(raw["taggedVersions"]) if "taggedVersions" in raw else none,
        tag=raw.get("tag", -1),
        default=_default(raw),
    )
    if field.is_struct and not field.is_array and field.tag < 0:
        raise SystemExit(f"{raw['name']}: struct fields outside tags are not supported")
    return field


def _default(raw: dict[str, Any]) -> str:
    """The default value as Python source."""
    kind, given = raw["type"], raw.get("default")
    if given == "null" or kind == "records" or kind[0].isupper():
        return "None"
    if kind.startswith("[]"):
        return "()"
    if kind == "string":
        return json.dumps(given or "")
    if kind == "bytes":
        return 'b""'
    if kind == "uuid":
        return "UUID_ZERO"
    if kind == "bool":
        return str(str(given).lower() == "true")
    return str(int(str(given or 0), 0))


def bytes_min(spec: MessageSpec, field: Field, version: int) -> int:
    """The fewest bytes one element of an array field takes; what a claimed count is measured against."""
    flexible = version in spec.flexible
    if not field.is_struct:
        return SIZES.get(field.type) or (1 if flexible else 2 if field.type == "string" else 4)
    inner = spec.struct(field.type)
    total = 1 if flexible else 0
    for f in inner.present(version):
        total += (1 if flexible else 4) if f.is_array else bytes_min(spec, f, version)
    return total
