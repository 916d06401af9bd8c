"""The columns that a metastore shows for an Iceberg table, and what of them fits in. Pure.

The truth is the table's metadata file; engines read that. These columns are for people and for engines that list tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from frazil.catalogs.metadata_json import current_schema
from frazil.catalogs.port import JsonObject

IcebergType = Any
_DECIMAL: Final = "decimal("
_NAMES: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "time": "string",
    "timestamp": "timestamp",
    "timestamp_ns": "timestamp",
    "timestamptz": "timestamp",
    "timestamptz_ns": "timestamp",
    "string": "string",
    "uuid": "string",
    "binary": "binary",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a metastore takes; what is longer is left out, never cut in a way that changes its meaning."""

    comment: int = 255
    """Characters of a column's comment; a longer one is cut."""
    name: int = 128
    type_text: int = 4000
    """Characters of a type; a column of a longer one is not shown."""
    total: int = 200_000
    """Characters of all columns; those after it are not shown."""
    zoned: str = "timestamp"
    """What a timestamp with time zone is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column as the metastore shows it."""

    name: str
    type_text: str
    comment: str
    field_id: int
    required: bool


def shown_columns(metadata: JsonObject, limits: Limits) -> tuple[Column, ...]:
    """The columns of the current schema that fit, in order (F60)."""
    found: list[Column] = []
    names: set[str] = set()
    room = limits.total
    for field in current_schema(metadata)["fields"]:
        text = hive_type(field["type"], zoned=limits.zoned)
        column = Column(
            name=str(field["name"]),
            type_text=text,
            comment=str(field.get("doc") or "")[: limits.comment],
            field_id=int(field["id"]),
            required=bool(field["required"]),
        )
        low = column.name.lower()  # metastores do not tell cases apart
        if len(column.name) > limits.name or len(text) > limits.type_text or low in names:
            continue
        names.add(low)
        room -= len(column.name) + len(text) + len(column.comment)
        if room < 0:
            break
        found.append(column)
    return tuple(found)


def hive_type(kind: IcebergType, *, zoned: str = "timestamp") -> str:
    """Iceberg type → the type's text in Hive's words; what Hive has no word for is ``string``."""
    if isinstance(kind, str):
        if kind.startswith(_DECIMAL):
            return kind.replace(" ", "")
        if kind.startswith("fixed["):
            return "binary"
        return zoned if kind.startswith("timestamptz") else _NAMES.get(kind, "string")
    if kind["type"] == "struct":
        fields = [f"{field['name']}:{hive_type(field['type'], zoned=zoned)}" for field in kind["fields"]]
        return f"struct<{','.join(fields)}>"
    if kind["type"] == "list":
        return f"array<{hive_type(kind['element'], zoned=zoned)}>"
    return f"map<{hive_type(kind['key'], zoned=zoned)},{hive_type(kind['value'], zoned=zoned)}>"
