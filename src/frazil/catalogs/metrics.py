"""What a data file's entry says about its columns: sizes, counts and bounds, complete and never wrong, from the Parquet footer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq

from frazil.catalogs.bounds import Range
from frazil.catalogs.files import DataFile
from frazil.catalogs.parquet import Encoded
from frazil.catalogs.port import JsonObject
from frazil.catalogs.schema import Leaf, leaves
from frazil.catalogs.writeoptions import COUNTS_ONLY, metrics_lengths
from frazil.kit.errors import Refused


def describe(encoded: Encoded, schema: JsonObject, *, location: str, spec_id: int, lengths: Mapping[int, int] | None = None) -> DataFile:
    """The data file's entry, from the Parquet footer. Columns are matched by position: both sides list them depth first.

    ``lengths``: the columns to describe and how long their bounds may be, see ``metrics_lengths``; None: as without table properties.
    """
    metrics = _Metrics(list(leaves(schema["fields"])), metrics_lengths(schema, {}) if lengths is None else lengths)
    for at in range(encoded.metadata.num_row_groups):
        metrics.add(encoded.metadata.row_group(at))
    lower, upper = metrics.bounds()
    metrics.nulls |= {field_id: count for field_id, count in encoded.null_counts.items() if field_id in metrics.values}
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
            if field_id in metrics.values and count != metrics.values[field_id]
        },
        lower_bounds=lower,
        upper_bounds=upper,
        split_offsets=tuple(metrics.splits),
    )


class _Metrics:
    """Adds up the statistics of row groups."""

    def __init__(self, columns: Sequence[Leaf], lengths: Mapping[int, int]) -> None:
        self._size = len(columns)
        self._wanted = [(at, leaf) for at, leaf in enumerate(columns) if leaf.field_id in lengths]
        bounded = [leaf for _, leaf in self._wanted if not leaf.repeated and lengths[leaf.field_id] != COUNTS_ONLY]
        self._ranges = {leaf.field_id: Range(leaf.type, lengths[leaf.field_id]) for leaf in bounded}
        self._no_nulls: set[int] = set()
        self.sizes: dict[int, int] = {}
        self.values: dict[int, int] = {}
        self.nulls: dict[int, int] = {}
        self.splits: list[int] = []

    def add(self, group: pq.RowGroupMetaData) -> None:
        if group.num_columns != self._size:
            raise Refused(f"Parquet has {group.num_columns} columns, the schema {self._size}")
        first = group.column(0)
        start = first.dictionary_page_offset if first.has_dictionary_page else first.data_page_offset
        self.splits.append(int(start or 0))
        for at, leaf in self._wanted:
            chunk = group.column(at)
            self.sizes[leaf.field_id] = self.sizes.get(leaf.field_id, 0) + chunk.total_compressed_size
            if not leaf.repeated:
                self._add_counted(leaf.field_id, chunk)

    def _add_counted(self, field_id: int, chunk: pq.ColumnChunkMetaData) -> None:
        self.values[field_id] = self.values.get(field_id, 0) + chunk.num_values
        statistics: Any = chunk.statistics if chunk.is_stats_set else None
        if statistics is None or not statistics.has_null_count:
            self._no_nulls.add(field_id)
            self._ranges.pop(field_id, None)
            return
        self.nulls[field_id] = self.nulls.get(field_id, 0) + statistics.null_count
        found = self._ranges.get(field_id)
        if found is None:
            return
        if statistics.has_min_max:
            found.add(statistics.min_raw, statistics.max_raw)
        elif statistics.null_count < chunk.num_values:
            found.spoil()  # values too long for Parquet's statistics

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
