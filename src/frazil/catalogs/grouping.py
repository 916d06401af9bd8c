"""Rows → partitions: which rows go into which file, and in what order. Whole columns at a time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalogs.arrow import ArrowArray
from frazil.catalogs.layout import Source, bound_fields
from frazil.catalogs.port import JsonObject
from frazil.catalogs.transforms import Keys, Transform, keys_of

_CODES_MAX: Final = 2**62
_compute: Any = pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The rows of one partition: a stretch of the ordered rows."""

    partition: tuple[Any, ...]
    start: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """All partitions of some rows, in the order in which they first appear."""

    groups: tuple[Group, ...]
    order: ArrowArray | None
    """uint64 positions of the rows in the order of the groups, sorted within each; None: they are in that order already."""


def group_rows(rows: pa.Table, schema: JsonObject, spec: JsonObject, order: JsonObject) -> Grouping:
    """Partitions of ``rows``, which have the shape of ``schema`` and are at least one. Raises Refused for one that cannot be written."""
    keys = [keys_of(transform, source.type, _column(rows, source)) for source, transform in bound_fields(spec["fields"], schema)]
    codes = _codes([key.array for key in keys], rows.num_rows)
    starts, counts, firsts = _stretches(codes, rows.num_rows)
    values = [_values(key, firsts) for key in keys]
    partitions = list(zip(*values, strict=True)) if values else [()]
    groups = tuple(
        Group(partition=partition, start=start, rows=count) for partition, start, count in zip(partitions, starts, counts, strict=True)
    )
    return Grouping(groups=groups, order=_positions(codes, rows, bound_fields(order["fields"], schema), order["fields"]))


def _column(rows: pa.Table, source: Source) -> ArrowArray:
    """One array; within structs nulls of the parents are nulls of it."""
    column = rows.column(rows.schema.get_field_index(source.path[0]))
    for name in source.path[1:]:
        column = _compute.struct_field(column, [column.type.get_field_index(name)])
    return _one(column)


def _one(column: ArrowArray) -> ArrowArray:
    chunks = column.chunks
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.array([], column.type)


def _codes(keys: Sequence[ArrowArray], count: int) -> ArrowArray | None:
    """A number per row: 0 for the partition that comes first, 1 for the next new one. None: all rows are in one."""
    code: Any = None
    size = 1
    for key in keys:
        encoded = _encoded(key)
        width = len(encoded.dictionary)
        if width < 2:
            continue
        if size * width > _CODES_MAX:
            again = _encoded(code)
            code, size = again.indices.cast(pa.int64()), len(again.dictionary)
        wide = encoded.indices.cast(pa.int64())
        code = wide if code is None else _compute.add(_compute.multiply(code, width), wide)
        size *= width
    if code is None:
        return None
    codes = _encoded(code)
    return codes.indices if len(codes.dictionary) > 1 and count > 1 else None


def _encoded(array: ArrowArray) -> ArrowArray:
    if pa.types.is_null(array.type):
        array = array.cast(pa.int32())
    return _compute.dictionary_encode(array, null_encoding="encode")


def _stretches(codes: ArrowArray | None, count: int) -> tuple[list[int], list[int], ArrowArray]:
    """Where each group starts in the ordered rows, its rows, and the position of its first row as the rows came."""
    if codes is None:
        return [0], [count], pa.array([0], pa.int64())
    table = pa.table({"code": codes, "at": _compute.subtract(_compute.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count)), 1)})
    found = table.group_by("code", use_threads=False).aggregate([("at", "min"), ("at", "count")]).sort_by("code")
    sizes = found.column("at_count")
    starts: list[int] = _compute.subtract(_compute.cumulative_sum(sizes), sizes).to_pylist()
    counts: list[int] = _one(sizes).to_pylist()
    return starts, counts, _one(found.column("at_min"))


def _values(keys: Keys, firsts: ArrowArray) -> list[Any]:
    return [None if key is None else keys.value_of(key) for key in keys.array.take(firsts).to_pylist()]


def _positions(
    codes: ArrowArray | None, rows: pa.Table, sort: Sequence[tuple[Source, Transform]], fields: Sequence[JsonObject]
) -> ArrowArray | None:
    columns: dict[str, ArrowArray] = {}
    keys: list[tuple[str, str]] = []
    if codes is not None and (sort or not _grows(codes)):
        columns["code"] = codes
        keys.append(("code", "ascending"))
    for (source, transform), field in zip(sort, fields, strict=True):
        key = _sortable(keys_of(transform, source.type, _column(rows, source)).array, source, transform)
        ascending = field["direction"] == "asc"
        if key.null_count:
            # Arrow has one place for nulls of all keys; Iceberg one for each.
            columns[f"null{len(keys)}"] = key.is_null()
            keys.append((f"null{len(keys)}", "descending" if field["null-order"] == "nulls-first" else "ascending"))
        columns[f"key{len(keys)}"] = key
        keys.append((f"key{len(keys)}", "ascending" if ascending else "descending"))
    if not keys:
        return None
    order = _compute.sort_indices(pa.table(columns), sort_keys=keys)  # stable: equal rows stay in the order of their offsets
    return None if _grows(order) else order


def _sortable(key: ArrowArray, source: Source, transform: Transform) -> ArrowArray:
    """Keys in Iceberg's order: −0.0 before 0.0, NaN above all numbers."""
    if pa.types.is_null(key.type):
        return key.cast(pa.int32())
    if transform.name != "identity" or source.type not in ("float", "double"):
        return key
    # The bits of negative floats fall as the floats grow.
    smallest = pa.scalar(-(2**31) if source.type == "float" else -(2**63), key.type)
    return pc.if_else(_compute.less(key, 0), _compute.subtract(smallest, _compute.add(key, 1)), key)


def _grows(values: ArrowArray) -> bool:
    """Whether no value is below the one before it."""
    if len(values) < 2:
        return True
    return bool(_compute.all(_compute.greater_equal(values.slice(1), values.slice(0, len(values) - 1))).as_py())
