"""Rows → one Parquet file in the object store, described as a data file of the table.

Own writer rather than the library's, because the metrics must be complete and never wrong, and because its options are worth 10 to 30 %
of the whole path: zstd level 1, no dictionary except where it pays, delta encoding for counters and times.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.catalogs.arrow import ArrowArray
from frazil.catalogs.bounds import Range
from frazil.catalogs.conform import conform
from frazil.catalogs.files import DataFile
from frazil.catalogs.locations import Locations
from frazil.catalogs.metadata_json import check_format, current_schema
from frazil.catalogs.port import CatalogDeps, JsonObject, LoadedTable
from frazil.catalogs.schema import Leaf, SchemaChange, leaves, to_arrow
from frazil.kit.chance import UlidSource
from frazil.kit.errors import Refused

DELTA_PROPERTY: Final = "frazil.parquet.delta"
"""Table property: ``false`` for readers that do not know DELTA_BINARY_PACKED (Iceberg's Java reader before 1.10 when vectorized)."""
ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
"""Bound of one row group, in bytes of Arrow memory: what a writer and each reader must hold at once."""
ROW_GROUP_ROWS_MAX: Final = 1_048_576
METRICS_COLUMNS_MAX: Final = 100
"""Columns that get counts and bounds; Iceberg's default, so that a very wide table does not make every manifest huge (F60)."""
_SAMPLE_SLICES: Final = 4
_SAMPLE_SLICE_ROWS: Final = 1_000
_VALUES_PER_ENTRY: Final = 20
"""A dictionary pays when each of its entries stands for this many values of the sample."""
_NO_DICTIONARY: Final = frozenset({"boolean", "float", "double", "time", "timestamp", "timestamptz", "uuid"})
"""Bits need none; times and random ids hardly ever come twice. By a dictionary of floats Iceberg's Java reader skips row groups with its
own order, in which −0.0 is less than 0.0; Spark, for which they are equal, would not find one by the other."""
_DELTA_TYPES: Final = frozenset({"int", "long", "date", "time", "timestamp", "timestamptz"})
_FLOATS: Final = frozenset({"float", "double"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoded:
    data: memoryview
    metadata: pq.FileMetaData
    nan_counts: Mapping[int, int]
    null_counts: Mapping[int, int]
    """Of columns without Parquet statistics."""


class FileWriter:
    """Writes data files. Encoding runs in the offload; one instance may serve many tables."""

    def __init__(self, deps: CatalogDeps) -> None:
        self._deps = deps
        self._locations = Locations(deps.objects)
        self._names = UlidSource(deps.chance)

    async def write(self, table: LoadedTable, rows: pa.Table, *, change: SchemaChange | None = None) -> tuple[DataFile, ...]:
        """Stores ``rows`` under names never used before. With ``change`` they have the schema after it.

        Raises Refused when the rows do not fit the schema or are none; RetryLater or OutcomeUnknown of the store pass through, and
        writing again is safe: an object left behind is nobody's.
        """
        if rows.num_rows == 0:
            raise Refused("a data file needs rows")
        check_format(table.ident, table.metadata)
        spec_id = int(table.metadata["default-spec-id"])
        if any(spec["fields"] for spec in table.metadata["partition-specs"] if spec["spec-id"] == spec_id):
            raise Refused(f"table {table.ident} is partitioned; only unpartitioned tables are written for now")
        schema = change.schema if change else current_schema(table.metadata)
        delta = str(table.metadata.get("properties", {}).get(DELTA_PROPERTY, "true")).lower() != "false"
        encoded = await self._deps.offload.run(lambda: encode(rows, schema, delta=delta))
        ulid = self._names.next(self._deps.clock.now_ms())
        location = f"{table.location}/data/{ulid}.parquet"
        await self._deps.objects.put_if_absent(self._locations.key_of(location), encoded.data)
        return (describe(encoded, schema, location=location, spec_id=spec_id),)


def encode(rows: pa.Table, schema: JsonObject, *, delta: bool) -> _Encoded:
    """``rows`` as Parquet bytes in the shape of ``schema``.

    Two kinds of columns get no smallest and largest value, because readers do not agree on the order, and one that prunes by another
    order loses rows: a column with NaN (DuckDB and Spark order it above all numbers, the bounds leave it out), and uuid (Iceberg's Java
    library compares two signed longs, apache/iceberg#14216; everybody else bytes).
    """
    shaped = conform(rows, to_arrow(schema))
    columns = list(leaves(schema["fields"]))
    sample = _sample(shaped)
    dictionary = [leaf.parquet_path for leaf in columns if _has_few_values(sample, leaf)]
    counters = [leaf.parquet_path for leaf in columns if delta and leaf.type in _DELTA_TYPES]
    encodings = {path: "DELTA_BINARY_PACKED" for path in counters if path not in dictionary}
    nans = _nan_counts(shaped, columns)
    silent = [leaf for leaf in columns if leaf.type == "uuid" or nans.get(leaf.field_id)]
    sink = pa.BufferOutputStream()
    open_writer: Any = pq.ParquetWriter
    with open_writer(
        sink,
        shaped.schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=dictionary or False,
        column_encoding=encodings or None,
        store_decimal_as_integer=True,
        write_statistics=[leaf.parquet_path for leaf in columns if leaf not in silent] if silent else True,
    ) as writer:
        per_row = max(1, shaped.nbytes // shaped.num_rows)
        writer.write_table(shaped, row_group_size=max(1, min(ROW_GROUP_ROWS_MAX, ROW_GROUP_BYTES // per_row)))
    data = sink.getvalue()
    nulls = {leaf.field_id: int(_column(shaped, leaf.path).null_count) for leaf in silent if not leaf.repeated}
    return _Encoded(data=memoryview(data), metadata=pq.read_metadata(io.BytesIO(_footer(data))), nan_counts=nans, null_counts=nulls)


def _footer(data: pa.Buffer) -> bytes:
    """The file's magic and footer alone are enough to read its metadata: column chunks are not looked at."""
    view = memoryview(data)
    length = int.from_bytes(view[-8:-4], "little")
    return bytes(view[:4]) + bytes(view[-(length + 8) :])


def describe(encoded: _Encoded, schema: JsonObject, *, location: str, spec_id: int) -> DataFile:
    """The data file's entry, from the Parquet footer. Columns are matched by position: both sides list them depth first."""
    columns = list(leaves(schema["fields"]))
    counted = {leaf.field_id for leaf in columns[:METRICS_COLUMNS_MAX] if not leaf.repeated}
    metrics = _Metrics(columns, counted)
    for at in range(encoded.metadata.num_row_groups):
        metrics.add(encoded.metadata.row_group(at))
    lower, upper = metrics.bounds()
    metrics.nulls |= {field_id: count for field_id, count in encoded.null_counts.items() if field_id in counted}
    return DataFile(
        path=location,
        record_count=encoded.metadata.num_rows,
        size_bytes=len(encoded.data),
        spec_id=spec_id,
        column_sizes=metrics.sizes,
        value_counts=metrics.values,
        null_counts=metrics.nulls,
        nan_counts={
            # Not for a column that is all NaN: by it Spark's reader skips the file for ``x > 5``, and Spark itself says NaN is above 5.
            field_id: count
            for field_id, count in encoded.nan_counts.items()
            if field_id in counted and count != metrics.values.get(field_id)
        },
        lower_bounds=lower,
        upper_bounds=upper,
        split_offsets=tuple(metrics.splits),
    )


class _Metrics:
    """Adds up the statistics of row groups."""

    def __init__(self, columns: Sequence[Leaf], counted: set[int]) -> None:
        self._columns = columns
        self._counted = counted
        self._ranges = {leaf.field_id: Range(leaf.type) for leaf in columns if leaf.field_id in counted}
        self._no_nulls: set[int] = set()
        self.sizes: dict[int, int] = {}
        self.values: dict[int, int] = {}
        self.nulls: dict[int, int] = {}
        self.splits: list[int] = []

    def add(self, group: pq.RowGroupMetaData) -> None:
        if group.num_columns != len(self._columns):
            raise Refused(f"Parquet has {group.num_columns} columns, the schema {len(self._columns)}")
        first = group.column(0)
        start = first.dictionary_page_offset if first.has_dictionary_page else first.data_page_offset
        self.splits.append(int(start or 0))
        for at, leaf in enumerate(self._columns):
            chunk = group.column(at)
            self.sizes[leaf.field_id] = self.sizes.get(leaf.field_id, 0) + chunk.total_compressed_size
            if leaf.field_id in self._counted:
                self._add_counted(leaf.field_id, chunk)

    def _add_counted(self, field_id: int, chunk: pq.ColumnChunkMetaData) -> None:
        self.values[field_id] = self.values.get(field_id, 0) + chunk.num_values
        statistics: Any = chunk.statistics if chunk.is_stats_set else None
        if statistics is None or not statistics.has_null_count:
            self._no_nulls.add(field_id)
            self._ranges[field_id].spoil()
            return
        self.nulls[field_id] = self.nulls.get(field_id, 0) + statistics.null_count
        if statistics.has_min_max:
            self._ranges[field_id].add(statistics.min_raw, statistics.max_raw)
        elif statistics.null_count < chunk.num_values:
            # Values too long for Parquet's statistics.
            self._ranges[field_id].spoil()

    def bounds(self) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """Lower and upper bounds by field id."""
        for field_id in self._no_nulls:
            self.nulls.pop(field_id, None)
        lower: dict[int, bytes] = {}
        upper: dict[int, bytes] = {}
        for field_id, found in self._ranges.items():
            low, high = found.bounds()
            if low is not None:
                lower[field_id] = low
            if high is not None:
                upper[field_id] = high
        return lower, upper


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
    counts: dict[int, int] = {}
    for leaf in columns:
        if leaf.type in _FLOATS and not leaf.repeated:
            add: Any = pc.sum
            found = add(pc.is_nan(_column(rows, leaf.path))).as_py()
            counts[leaf.field_id] = int(found or 0)
    return counts
