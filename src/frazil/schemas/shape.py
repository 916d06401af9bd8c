"""Iceberg's types as a small tree, read from an Arrow schema. Arrow carries types between rooms; rules are kept on this tree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.schemas.arrays import AnyField


class Kind(Enum):
    """The types a column can have; the value is the word used in column declarations."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    STRING = "string"
    UUID = "uuid"
    BINARY = "binary"
    FIXED = "fixed"
    LIST = "list"
    STRUCT = "struct"
    MAP = "map"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A named place for a value: a column, a struct field, a list's element or a map's value."""

    name: str
    shape: Shape
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One type. ``members``: the fields of a struct, the one element of a list, the one value of a map."""

    kind: Kind
    arrow: pa.DataType
    members: tuple[Member, ...] = ()


_UTC_NAMES = ("UTC", "+00:00", "Etc/UTC", "Z")

_PLAIN = {
    pa.bool_(): Kind.BOOLEAN,
    pa.int32(): Kind.INT,
    pa.int64(): Kind.LONG,
    pa.float32(): Kind.FLOAT,
    pa.float64(): Kind.DOUBLE,
    pa.date32(): Kind.DATE,
    pa.time64("us"): Kind.TIME,
    pa.timestamp("us"): Kind.TIMESTAMP,
    pa.string(): Kind.STRING,
    pa.large_string(): Kind.STRING,
    pa.uuid(): Kind.UUID,
    pa.binary(): Kind.BINARY,
    pa.large_binary(): Kind.BINARY,
}


def shape_of(arrow: pa.DataType, where: str) -> Shape:
    """The shape of an Arrow type. Raises Refused, naming ``where``, for a type without Iceberg counterpart."""
    kind = _PLAIN.get(arrow)
    if kind is not None:
        return Shape(kind=kind, arrow=arrow)
    if isinstance(arrow, pa.TimestampType) and arrow.unit == "us" and arrow.tz in _UTC_NAMES:
        return Shape(kind=Kind.TIMESTAMPTZ, arrow=arrow)
    if isinstance(arrow, pa.Decimal128Type) and 0 <= arrow.scale <= arrow.precision:
        return Shape(kind=Kind.DECIMAL, arrow=arrow)
    if pa.types.is_fixed_size_binary(arrow):
        return Shape(kind=Kind.FIXED, arrow=arrow)
    if isinstance(arrow, (pa.ListType, pa.LargeListType)):
        return Shape(kind=Kind.LIST, arrow=arrow, members=(member_of(arrow.value_field, f"{where}[]"),))
    if isinstance(arrow, pa.StructType):
        return Shape(kind=Kind.STRUCT, arrow=arrow, members=tuple(member_of(field, f"{where}.{field.name}") for field in arrow))
    if isinstance(arrow, pa.MapType) and _PLAIN.get(arrow.key_type) is Kind.STRING:
        return Shape(kind=Kind.MAP, arrow=arrow, members=(member_of(arrow.item_field, f"{where}{{}}"),))
    raise Refused(f"column {where}: type {arrow} has no place in a Frazil table; change the column to one of the documented types")


def member_of(field: AnyField, where: str = "") -> Member:
    """The member of an Arrow field; ``where`` is its path, for the error."""
    return Member(name=field.name, shape=shape_of(field.type, where or field.name), required=not field.nullable)
