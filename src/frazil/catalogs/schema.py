"""Arrow schema ↔ Iceberg schema (JSON, with field ids), and add-only evolution with the widenings Iceberg allows.

Field ids are given out once and never again; a column is found by name here and by id in files. Timestamps are microseconds, as
format version 2 knows no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from frazil.catalogs.arrow import ArrowField, ArrowType, IcebergType
from frazil.catalogs.metadata_json import current_schema
from frazil.catalogs.port import JsonObject, LoadedTable
from frazil.kit.errors import Refused

FIELD_ID: Final = b"PARQUET:field_id"
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_FIXED: Final = re.compile(r"fixed\[(\d+)\]")
_PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.uuid(),
}
_WIDENS: Final = {("int", "long"), ("float", "double")}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """A schema that adds to the one it was planned on; committed together with the files written by it."""

    schema: JsonObject
    base_schema_id: int
    base_last_column_id: int

    def requirements(self) -> list[JsonObject]:
        """What must still hold: nobody else changed the schema or took field ids."""
        return [
            {"type": "assert-current-schema-id", "current-schema-id": self.base_schema_id},
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": self.base_last_column_id},
        ]

    def updates(self) -> list[JsonObject]:
        """The change itself."""
        return [{"action": "add-schema", "schema": self.schema}, {"action": "set-current-schema", "schema-id": -1}]


class _Ids:
    """Gives out field ids above those ever used."""

    def __init__(self, last: int) -> None:
        self.last = last

    def next(self) -> int:
        self.last += 1
        return self.last


def new_schema(schema: pa.Schema) -> JsonObject:
    """An Iceberg schema with fresh ids: a struct's own fields first, then what is nested in them, as other writers number."""
    return {"type": "struct", "schema-id": 0, "fields": _new_fields(list(schema), _Ids(0), "")}


def arrow_schema(table: LoadedTable, change: SchemaChange | None = None) -> pa.Schema:
    """The Arrow schema rows of the table have, with Parquet field ids; with ``change``, after it."""
    return to_arrow(change.schema if change else current_schema(table.metadata))


def to_arrow(schema: JsonObject) -> pa.Schema:
    """Iceberg schema → Arrow schema with Parquet field ids."""
    return pa.schema([_arrow_field(field) for field in schema["fields"]])


NO_RENAMES: Final[Mapping[str, str]] = {}


def plan_schema(table: LoadedTable, wanted: pa.Schema, renames: Mapping[str, str] = NO_RENAMES) -> SchemaChange | None:
    """What must be added to the table's schema so that rows of ``wanted`` fit; None when they already do.

    New columns and nested fields become optional. int→long, float→double and a larger decimal precision are widened in place;
    a narrower incoming type keeps the wider one. Raises Refused for any other difference.

    ``renames``: from old names, in lower case, to new ones; such a column of the top level keeps its field id, so files stay as they are.
    """
    current = current_schema(table.metadata)
    ids = _Ids(int(table.metadata["last-column-id"]))
    fields = _merge_fields(_rename_fields(current["fields"], renames), list(wanted), ids, "")
    if fields is current["fields"]:
        return None
    schema_id = max(int(item["schema-id"]) for item in table.metadata["schemas"]) + 1
    return SchemaChange(
        schema={**current, "schema-id": schema_id, "fields": fields},
        base_schema_id=int(current["schema-id"]),
        base_last_column_id=int(table.metadata["last-column-id"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One primitive column of a schema."""

    field_id: int
    path: tuple[str, ...]
    """Arrow field names from the top."""
    parquet_path: str
    """``path_in_schema`` of the Parquet column."""
    type: str
    repeated: bool
    """Inside a list or map: has no bounds."""


def leaves(fields: Sequence[JsonObject], path: tuple[str, ...] = (), *, repeated: bool = False) -> Iterator[Leaf]:
    """Every primitive column, depth first."""
    for field in fields:
        yield from _leaves_of(field["id"], (*path, field["name"]), field["type"], repeated=repeated)


def _leaves_of(field_id: int, path: tuple[str, ...], kind: IcebergType, *, repeated: bool) -> Iterator[Leaf]:
    if isinstance(kind, str):
        yield Leaf(field_id=field_id, path=path, parquet_path=".".join(path), type=kind, repeated=repeated)
    elif kind["type"] == "struct":
        yield from leaves(kind["fields"], path, repeated=repeated)
    elif kind["type"] == "list":
        yield from _leaves_of(kind["element-id"], (*path, "list", "element"), kind["element"], repeated=True)
    else:
        yield from _leaves_of(kind["key-id"], (*path, "key_value", "key"), kind["key"], repeated=True)
        yield from _leaves_of(kind["value-id"], (*path, "key_value", "value"), kind["value"], repeated=True)


# --- Iceberg → Arrow ---------------------------------------------------------------------------------------------------


def _arrow_field(field: JsonObject) -> ArrowField:
    return _field_with_id(field["name"], arrow_type(field["type"]), field["id"], required=field["required"])


def _field_with_id(name: str, kind: ArrowType, field_id: int, *, required: bool) -> ArrowField:
    return pa.field(name, kind, nullable=not required, metadata={FIELD_ID: str(field_id)})


def arrow_type(kind: IcebergType) -> ArrowType:
    """Iceberg type → Arrow type. Raises Refused for one that we do not write."""
    if isinstance(kind, str):
        if kind in _PRIMITIVES:
            return _PRIMITIVES[kind]
        if found := _DECIMAL.fullmatch(kind):
            return pa.decimal128(int(found.group(1)), int(found.group(2)))
        if found := _FIXED.fullmatch(kind):
            return pa.binary(int(found.group(1)))
        raise Refused(f"Iceberg type {kind!r} is not supported")
    if kind["type"] == "struct":
        return pa.struct([_arrow_field(field) for field in kind["fields"]])
    if kind["type"] == "list":
        return pa.list_(_field_with_id("element", arrow_type(kind["element"]), kind["element-id"], required=kind["element-required"]))
    build: Any = pa.map_
    return build(
        _field_with_id("key", arrow_type(kind["key"]), kind["key-id"], required=True),
        _field_with_id("value", arrow_type(kind["value"]), kind["value-id"], required=kind["value-required"]),
    )


# --- Arrow → Iceberg ---------------------------------------------------------------------------------------------------


def _new_fields(fields: Sequence[ArrowField], ids: _Ids, where: str, *, optional: bool = False) -> list[JsonObject]:
    _check_names(fields, where)
    numbered = [(ids.next(), field) for field in fields]
    return [
        {
            "id": field_id,
            "name": field.name,
            "required": not field.nullable and not optional,
            "type": _new_type(field.type, ids, f"{where}{field.name}"),
        }
        for field_id, field in numbered
    ]


def _new_type(kind: ArrowType, ids: _Ids, where: str) -> IcebergType:
    if pa.types.is_dictionary(kind):
        return _new_type(kind.value_type, ids, where)
    if pa.types.is_struct(kind):
        if kind.num_fields == 0:
            raise Refused(f"column {where}: a struct without fields cannot be stored in Parquet")
        return {"type": "struct", "fields": _new_fields([kind.field(at) for at in range(kind.num_fields)], ids, f"{where}.")}
    if _is_list(kind):
        element_id = ids.next()
        element = _new_type(kind.value_type, ids, f"{where}.element")
        return {"type": "list", "element-id": element_id, "element": element, "element-required": not kind.value_field.nullable}
    if pa.types.is_map(kind):
        key_id, value_id = ids.next(), ids.next()
        key = _new_type(kind.key_type, ids, f"{where}.key")
        value = _new_type(kind.item_type, ids, f"{where}.value")
        required = not kind.item_field.nullable
        return {"type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value, "value-required": required}
    return primitive_name(kind, where)


def _is_list(kind: ArrowType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


_SIMPLE: Final = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "int"),
    (pa.types.is_int16, "int"),
    (pa.types.is_int32, "int"),
    (pa.types.is_uint8, "int"),
    (pa.types.is_uint16, "int"),
    (pa.types.is_uint32, "long"),
    (pa.types.is_int64, "long"),
    (pa.types.is_float16, "float"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_date32, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
)


def primitive_name(kind: ArrowType, where: str) -> str:
    """Arrow primitive → Iceberg's name of it. Raises Refused naming ``where`` for one Iceberg has no place for."""
    for test, name in _SIMPLE:
        if test(kind):
            return name
    if kind == pa.uuid():
        return "uuid"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    if pa.types.is_decimal(kind) and kind.precision <= 38 and kind.scale >= 0:
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed[{kind.byte_width}]"
    raise Refused(f"column {where}: Arrow type {kind} has no Iceberg type (format version 2); cast it first")


def _check_names(fields: Sequence[ArrowField], where: str) -> None:
    seen: set[str] = set()
    for field in fields:
        if field.name in seen or not field.name:
            raise Refused(f"column {where}{field.name!r}: names must be unique and not empty")
        seen.add(field.name)


# --- evolution ---------------------------------------------------------------------------------------------------------


def _rename_fields(have: Sequence[JsonObject], renames: Mapping[str, str]) -> Sequence[JsonObject]:
    """``have`` itself when nothing is called otherwise."""
    if not any(field["name"].lower() in renames for field in have):
        return have
    return [{**field, "name": renames.get(field["name"].lower(), field["name"])} for field in have]


def _merge_fields(have: Sequence[JsonObject], wanted: Sequence[ArrowField], ids: _Ids, where: str) -> Sequence[JsonObject]:
    """``have`` itself when nothing changes."""
    _check_names(wanted, where)
    by_name = {field["name"]: at for at, field in enumerate(have)}
    merged = list(have)
    changed = False
    fresh: list[ArrowField] = []
    for field in wanted:
        at = by_name.get(field.name)
        if at is None:
            fresh.append(field)
            continue
        kind = _merge_type(have[at]["type"], field.type, ids, f"{where}{field.name}")
        if kind is not have[at]["type"]:
            merged[at] = {**have[at], "type": kind}
            changed = True
    if fresh:
        merged += _new_fields(fresh, ids, where, optional=True)
    return merged if changed or fresh else have


def _merge_type(have: IcebergType, wanted: ArrowType, ids: _Ids, where: str) -> IcebergType:
    if pa.types.is_dictionary(wanted):
        return _merge_type(have, wanted.value_type, ids, where)
    if pa.types.is_null(wanted):
        return have
    if isinstance(have, str):
        return _widen(have, "a nested value" if pa.types.is_nested(wanted) else primitive_name(wanted, where), where)
    if have["type"] == "struct" and pa.types.is_struct(wanted):
        fields = _merge_fields(have["fields"], [wanted.field(at) for at in range(wanted.num_fields)], ids, f"{where}.")
        return have if fields is have["fields"] else {**have, "fields": fields}
    if have["type"] == "list" and _is_list(wanted):
        element = _merge_type(have["element"], wanted.value_type, ids, f"{where}.element")
        return have if element is have["element"] else {**have, "element": element}
    if have["type"] == "map" and pa.types.is_map(wanted):
        _merge_type(have["key"], wanted.key_type, _Ids(0), f"{where}.key")
        value = _merge_type(have["value"], wanted.item_type, ids, f"{where}.value")
        return have if value is have["value"] else {**have, "value": value}
    raise Refused(f"column {where}: the table has {have['type']}, rows bring {wanted}; only additions are made by themselves")


def _widen(have: str, wanted: str, where: str) -> str:
    if have == wanted or (wanted, have) in _WIDENS:
        return have
    if (have, wanted) in _WIDENS:
        return wanted
    have_decimal, wanted_decimal = _DECIMAL.fullmatch(have), _DECIMAL.fullmatch(wanted)
    if have_decimal and wanted_decimal and have_decimal.group(2) == wanted_decimal.group(2):
        return have if int(have_decimal.group(1)) >= int(wanted_decimal.group(1)) else wanted
    raise Refused(f"column {where}: the table has {have}, rows bring {wanted}; Iceberg cannot widen that")
