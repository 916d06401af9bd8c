"""Rows → Parquet bytes.

Own options rather than the library's, because they are worth 10 to 30 % of the whole path: zstd level 1, no dictionary except where it
pays, delta encoding for counters and times.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.catalogs.arrow import ArrowArray
from frazil.catalogs.conform import conform
from frazil.catalogs.port import JsonObject
from frazil.catalogs.schema import Leaf, leaves, to_arrow
from frazil.catalogs.writeoptions import WriteOptions

ROW_GROUP_ROWS_MAX: Final = 1_048_576
_SAMPLE_SLICES: Final = 4
_SAMPLE_SLICE_ROWS: Final = 1_000
_VALUES_PER_ENTRY: Final = 20
"""A dictionary pays when each of its entries stands for this many values of the sample."""
_NO_DICTIONARY: Final = frozenset({"boolean", "float", "double", "time", "timestamp", "timestamptz", "uuid"})
"""Bits need none; times and random ids hardly ever come twice. By a dictionary of floats Iceberg's Java reader skips row groups with its
own order, in which −0.0 is less than 0.0; Spark, for which they are equal, would not find one by the other."""
_DELTA_TYPES: Final = frozenset({"int", "long", "date", "time", "timestamp", "timestamptz"})
_FLOATS: Final = frozenset({"float", "double"})
_MANY_FILES: Final = 64
_CHUNK_BYTES_MIN: Final = 256
"""Below, on average, compressing a column of a file costs as much time as all else and saves nothing."""
_compute: Any = pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """One file's bytes and footer."""

    data: memoryview
    metadata: pq.FileMetaData
    nan_counts: Mapping[int, int]
    null_counts: Mapping[int, int]
    """Of columns without Parquet statistics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is the same for all files made of the same rows."""

    columns: Sequence[Leaf]
    dictionary: Sequence[str]
    encodings: Mapping[str, str]
    nan_columns: Sequence[Leaf]
    """Floats with a NaN somewhere."""
    row_bytes: int
    """Of Arrow memory, on average."""
    options: WriteOptions
    many: bool = False
    """So many files are made that each should cost little."""


def plan_recipe(shaped: pa.Table, schema: JsonObject, options: WriteOptions, *, files: int = 1) -> Recipe:
    """Decides from a sample of ``shaped``, which has the shape of ``schema`` and is not empty. ``files``: how many it will be at least."""
    columns = list(leaves(schema["fields"]))
    sample = _sample(shaped)
    dictionary = [leaf.parquet_path for leaf in columns if _has_few_values(sample, leaf)]
    counters = [leaf.parquet_path for leaf in columns if options.delta and leaf.type in _DELTA_TYPES]
    nans = _nan_counts(shaped, [leaf for leaf in columns if leaf.type in _FLOATS and not leaf.repeated])
    return Recipe(
        columns=columns,
        dictionary=dictionary,
        encodings={path: "DELTA_BINARY_PACKED" for path in counters if path not in dictionary},
        nan_columns=[leaf for leaf in columns if nans.get(leaf.field_id)],
        row_bytes=max(1, shaped.nbytes // shaped.num_rows),
        options=options,
        many=files > _MANY_FILES,
    )


def encode(rows: pa.Table, schema: JsonObject, *, delta: bool = True) -> Encoded:
    """``rows`` as one file in the shape of ``schema``."""
    shaped = conform(rows, to_arrow(schema))
    (encoded,) = encode_files(shaped, plan_recipe(shaped, schema, WriteOptions(delta=delta, target_bytes=1 << 62)))
    return encoded


def encode_files(shaped: pa.Table, recipe: Recipe) -> Iterator[Encoded]:
    """``shaped`` as files of at most about the target size; usually one."""
    options = recipe.options
    if shaped.num_rows * recipe.row_bytes <= options.target_bytes:
        yield _encoded(shaped, recipe, [shaped.num_rows], max(1, min(ROW_GROUP_ROWS_MAX, options.row_group_bytes // recipe.row_bytes)))[0]
        return
    # Row groups smaller than the target, so that there are places to cut; a group's size is known when it is written.
    step = max(1, min(ROW_GROUP_ROWS_MAX, min(options.row_group_bytes, options.target_bytes // 4) // recipe.row_bytes))
    at = 0
    while at < shaped.num_rows:
        left = shaped.num_rows - at
        encoded, rows = _encoded(shaped.slice(at), recipe, [*[step] * (left // step), *([left % step] if left % step else [])], step)
        at += rows
        yield encoded


def _encoded(shaped: pa.Table, recipe: Recipe, pieces: Sequence[int], group_rows: int) -> tuple[Encoded, int]:
    """One file of as many of the pieces, each so many rows, as fit the target; and its rows.

    Two kinds of columns get no smallest and largest value, because readers do not agree on the order, and one that prunes by another
    order loses rows: a column with NaN (DuckDB and Spark order it above all numbers, the bounds leave it out), and uuid (Iceberg's Java
    library compares two signed longs, apache/iceberg#14216; everybody else bytes).
    """
    nans = _nan_counts(shaped, recipe.nan_columns) if recipe.nan_columns else {}
    silent = [leaf for leaf in recipe.columns if leaf.type == "uuid" or nans.get(leaf.field_id)]
    sink = pa.BufferOutputStream()
    tiny = recipe.many and shaped.num_rows * recipe.row_bytes < _CHUNK_BYTES_MIN * len(recipe.columns)
    open_writer: Any = pq.ParquetWriter
    rows = 0
    with open_writer(
        sink,
        shaped.schema,
        compression="none" if tiny else recipe.options.codec,
        compression_level=None if tiny else recipe.options.level,
        store_schema=not recipe.many,
        use_dictionary=list(recipe.dictionary) or False,
        column_encoding=dict(recipe.encodings) or None,
        store_decimal_as_integer=True,
        write_statistics=[leaf.parquet_path for leaf in recipe.columns if leaf not in silent] if silent else True,
    ) as writer:
        for number, piece in enumerate(pieces, 1):
            writer.write_table(shaped if len(pieces) == 1 else shaped.slice(rows, piece), row_group_size=group_rows)
            rows += piece
            if sink.tell() // number * (number + 1) > recipe.options.target_bytes:
                break
    written = shaped.slice(0, rows)
    if len(pieces) > 1 and nans:
        nans = _nan_counts(written, recipe.nan_columns)
    counted = {leaf.field_id: 0 for leaf in recipe.columns if leaf.type in _FLOATS and not leaf.repeated} | dict(nans)
    data = sink.getvalue()
    nulls = {leaf.field_id: int(_column(written, leaf.path).null_count) for leaf in silent if not leaf.repeated}
    metadata = pq.read_metadata(io.BytesIO(_footer(data)))
    return Encoded(data=memoryview(data), metadata=metadata, nan_counts=counted, null_counts=nulls), rows


def _footer(data: pa.Buffer) -> bytes:
    """The file's magic and footer alone are enough to read its metadata: column chunks are not looked at."""
    view = memoryview(data)
    length = int.from_bytes(view[-8:-4], "little")
    return bytes(view[:4]) + bytes(view[-(length + 8) :])


def _column(rows: pa.Table, path: tuple[str, ...]) -> ArrowArray:
    """A leaf inside structs, nulls of its parents included."""
    column = rows.column(rows.schema.get_field_index(path[0]))
    for name in path[1:]:
        column = pc.struct_field(column, [column.type.get_field_index(name)])
    return column


def _sample(rows: pa.Table) -> pa.Table:
    """Rows from several places: partitions of a topic stand one after the other, and each may look different."""
    step = rows.num_rows // _SAMPLE_SLICES
    if step <= _SAMPLE_SLICE_ROWS:
        return rows.slice(0, _SAMPLE_SLICES * _SAMPLE_SLICE_ROWS)
    return pa.concat_tables([rows.slice(at * step, _SAMPLE_SLICE_ROWS) for at in range(_SAMPLE_SLICES)])


def _has_few_values(sample: pa.Table, leaf: Leaf) -> bool:
    """Whether a dictionary pays."""
    if leaf.type in _NO_DICTIONARY or leaf.type.startswith("fixed"):
        return False
    values = _values(sample.column(leaf.path[0]), leaf.path[1:])
    filled = len(values) - values.null_count
    if filled < 2 * _VALUES_PER_ENTRY:
        return False
    distinct: Any = pc.count_distinct(values).as_py()
    return bool(distinct * _VALUES_PER_ENTRY <= filled)


def _values(column: ArrowArray, path: tuple[str, ...]) -> ArrowArray:
    """The values of a leaf, also of one inside lists and maps: one after the other, without regard to rows."""
    while path:
        if pa.types.is_struct(column.type):
            column = pc.struct_field(column, [column.type.get_field_index(path[0])])
            path = path[1:]
        elif pa.types.is_map(column.type):
            column = pa.chunked_array(
                [chunk.keys if path[1] == "key" else chunk.items for chunk in column.chunks],
                column.type.key_type if path[1] == "key" else column.type.item_type,
            )
            path = path[2:]
        else:
            column = pc.list_flatten(column)
            path = path[2:]
    return column


def _nan_counts(rows: pa.Table, columns: Sequence[Leaf]) -> dict[int, int]:
    return {leaf.field_id: int(_compute.sum(_compute.is_nan(_column(rows, leaf.path))).as_py() or 0) for leaf in columns}
