"""Brings Arrow rows into exactly the shape of a table's schema: order, widened types, missing optional fields as nulls.

Never loses data in silence: a column the schema does not have, a value that does not fit its type or a null in a required column
is refused. Fields of structs are found by name in rows that were made here, and by field id in rows from files: there a name may belong
to another field by now, and a field that the schema does not have was dropped.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalogs.arrow import ArrowArray, ArrowField, ArrowType
from frazil.catalogs.schema import FIELD_ID
from frazil.kit.errors import Refused


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """``rows`` with exactly the columns and types of ``schema``. Raises Refused naming the column."""
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    names = set(schema.names)
    for name in rows.column_names:
        if name not in names:
            raise Refused(f"column {name}: the table has no such column; plan a schema change first")
    combined = rows.combine_chunks()
    columns = []
    for field in schema:
        at = combined.schema.get_field_index(field.name)
        given = _one_chunk(combined.column(at)) if at >= 0 else None
        columns.append(_conform(given, field, rows.num_rows, field.name))
    return pa.Table.from_arrays(columns, schema=schema)


def _one_chunk(column: ArrowArray) -> ArrowArray:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _conform(array: ArrowArray, field: ArrowField, length: int, where: str) -> ArrowArray:
    if array is None or pa.types.is_null(array.type):
        if not field.nullable and length:
            raise Refused(f"column {where}: required, but the rows do not have it")
        return pa.nulls(length, field.type)
    if not field.nullable and array.null_count:
        raise Refused(f"column {where}: required, but {array.null_count} rows are null")
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_struct(field.type) and pa.types.is_struct(array.type):
        return _conform_struct(array, field.type, where)
    if pa.types.is_map(field.type) and pa.types.is_map(array.type):
        return _conform_map(array, field.type, where)
    if pa.types.is_list(field.type) and pa.types.is_nested(array.type) and not pa.types.is_struct(array.type):
        return _conform_list(array, field.type, where)
    return _cast(array, field.type, where)


def _cast(array: ArrowArray, kind: ArrowType, where: str) -> ArrowArray:
    if array.type.equals(kind):
        return array
    if not _same_family(array.type, kind):
        raise Refused(f"column {where}: {array.type} does not go into {kind}")
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Refused(f"column {where}: {error}") from error


_FAMILIES = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    pa.types.is_time,
    lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
    lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind),
)


def _same_family(have: ArrowType, wanted: ArrowType) -> bool:
    """A long never becomes text and a text never a number: such conversions belong to whoever knows what the text means."""
    if have == pa.uuid() or wanted == pa.uuid():
        return bool(pa.types.is_fixed_size_binary(have) or pa.types.is_fixed_size_binary(wanted))
    if pa.types.is_timestamp(have) and pa.types.is_timestamp(wanted):
        return (have.tz is None) == (wanted.tz is None)
    return any(test(have) and test(wanted) for test in _FAMILIES)


def _conform_struct(array: ArrowArray, kind: ArrowType, where: str) -> ArrowArray:
    fields: list[ArrowField] = [kind.field(at) for at in range(kind.num_fields)]
    given: list[ArrowField] = [array.type.field(at) for at in range(array.type.num_fields)]
    by_id = all(_id_of(field) for field in (*fields, *given))
    have = {_id_of(field) if by_id else field.name: at for at, field in enumerate(given)}
    if not by_id:
        for name in have:
            if kind.get_field_index(name) < 0:
                raise Refused(f"column {where}.{name}: the table has no such field; plan a schema change first")
    mask = array.is_null() if array.null_count else None
    children = []
    for field in fields:
        at = have.get(_id_of(field) if by_id else field.name)
        # field() keeps a child's own slots, sliced as the parent is; slots under a null parent are masked below.
        child = None if at is None else array.field(at)
        required = not field.nullable
        if required and mask is not None:
            field = field.with_nullable(nullable=True)
        children.append(_conform(child, field, len(array), f"{where}.{field.name}"))
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _id_of(field: ArrowField) -> str:
    """The field id that a file or a schema gives; empty in rows that were made here."""
    return str((field.metadata or {}).get(FIELD_ID, b""), "ascii")


def _conform_list(array: ArrowArray, kind: ArrowType, where: str) -> ArrowArray:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    build: Any = pa.ListArray.from_arrays
    offsets, values = _offsets_and_values(array.offsets, array.values)
    element = _conform(values, kind.value_field, len(values), f"{where}.element")
    mask = array.is_null() if array.null_count else None
    return build(offsets, element, type=kind, mask=mask)


def _conform_map(array: ArrowArray, kind: ArrowType, where: str) -> ArrowArray:
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    build: Any = pa.MapArray.from_arrays
    keys = _conform(array.keys.slice(first, last - first), kind.key_field, last - first, f"{where}.key")
    values = _conform(array.items.slice(first, last - first), kind.item_field, last - first, f"{where}.value")
    offsets = pc.subtract(array.offsets, pa.scalar(first, pa.int32()))
    mask = array.is_null() if array.null_count else None
    return build(offsets, keys, values, type=kind, mask=mask)


def _offsets_and_values(offsets: ArrowArray, values: ArrowArray) -> tuple[ArrowArray, ArrowArray]:
    """Offsets from 0 and just the values they span; a sliced array carries the values of its whole parent."""
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    return pc.subtract(offsets, pa.scalar(first, pa.int32())), values.slice(first, last - first)
