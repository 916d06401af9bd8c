"""Python values, already fitted to their type, into Arrow arrays. Nothing is guessed: the type is always given."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

AnyArray: TypeAlias = "pa.Array[Any]"
AnyField: TypeAlias = "pa.Field[Any]"
BinaryColumn: TypeAlias = "pa.BinaryArray | pa.LargeBinaryArray"


def column_of(values: Sequence[bytes | None] | BinaryColumn) -> BinaryColumn:
    """Values of records as an Arrow array; such a one is taken as it is."""
    return values if isinstance(values, (pa.BinaryArray, pa.LargeBinaryArray)) else pa.array(values, pa.binary())


def bytes_of(column: BinaryColumn) -> int:
    """Bytes of all values."""
    return int(pc.sum(pc.binary_length(column)).as_py() or 0)


def long_array(numbers: array[int]) -> AnyArray:
    """Row numbers as Arrow takes them, without a copy."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def map_type(key: pa.DataType | AnyField, value: AnyField) -> pa.DataType:
    """A map type from fields; the stubs of pyarrow know only types here."""
    return cast("pa.DataType", cast("Any", pa).map_(key, value))


def build(values: Sequence[object], arrow: pa.DataType) -> AnyArray:
    """The array of ``values``. Arrow makes no nested array of an extension type, so such a one is dressed afterwards."""
    plain = _storage(arrow)
    array = pa.array(values, plain)
    return array if plain == arrow else _dress(array, arrow)


def _storage(arrow: pa.DataType) -> pa.DataType:
    """``arrow`` with every extension type replaced by what it is stored as."""
    if isinstance(arrow, pa.BaseExtensionType):
        return arrow.storage_type
    if isinstance(arrow, pa.StructType):
        return pa.struct([_plain_field(field) for field in arrow])
    if isinstance(arrow, pa.ListType):
        return pa.list_(_plain_field(arrow.value_field))
    if isinstance(arrow, pa.LargeListType):
        return pa.large_list(_plain_field(arrow.value_field))
    if isinstance(arrow, pa.MapType):
        return map_type(_plain_field(arrow.key_field), _plain_field(arrow.item_field))
    return arrow


def _plain_field(field: AnyField) -> AnyField:
    return field.with_type(_storage(field.type))


def _dress(array: AnyArray, arrow: pa.DataType) -> AnyArray:
    """The same buffers under the real type."""
    if isinstance(arrow, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(arrow, array)
    if isinstance(array, pa.StructArray) and isinstance(arrow, pa.StructType):
        children = [_dress(array.field(position), field.type) for position, field in enumerate(arrow)]
        return pa.Array.from_buffers(arrow, len(array), array.buffers()[:1], array.null_count, children=children)
    if isinstance(arrow, pa.MapType) and isinstance(array, pa.MapArray):
        pairs = pa.struct([arrow.key_field, arrow.item_field])
        entries = pa.StructArray.from_arrays([array.keys, _dress(array.items, arrow.item_type)], fields=list(pairs))
        return pa.Array.from_buffers(arrow, len(array), array.buffers()[:2], array.null_count, children=[entries])
    if isinstance(arrow, (pa.ListType, pa.LargeListType)) and isinstance(array, (pa.ListArray, pa.LargeListArray)):
        child = _dress(array.values, arrow.value_type)
        return pa.Array.from_buffers(arrow, len(array), array.buffers()[:2], array.null_count, children=[child])
    return array


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of several with one schema; the stubs of pyarrow do not know how."""
    return cast("pa.RecordBatch", cast("Any", pa).concat_batches(list(batches)))


def batch_of(arrays: Sequence[AnyArray], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch of ``rows`` rows, also when there are no columns."""
    if arrays:
        return pa.RecordBatch.from_arrays(list(arrays), schema=schema)
    return pa.RecordBatch.from_struct_array(cast("pa.StructArray", pa.array([{}] * rows, pa.struct([])))).replace_schema_metadata(
        schema.metadata
    )
