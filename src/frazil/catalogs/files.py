"""One data file as the table's manifests describe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyiceberg import manifest as avro
from pyiceberg.typedef import Record

FORMAT_VERSION: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A stored Parquet file with its metrics; maps are by field id, bounds in Iceberg's single-value form."""

    path: str
    """Location, as manifests name it."""
    record_count: int
    size_bytes: int
    spec_id: int
    """The partition spec the file was written under; it is committed under that one, whatever the table's is by then (F45)."""
    partition: tuple[Any, ...] = ()
    content: int = 0
    """0 data, 1 position deletes, 2 equality deletes."""
    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_counts: Mapping[int, int] = field(default_factory=dict)
    nan_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()
    sort_order_id: int | None = None
    file_format: str = "PARQUET"
    equality_ids: tuple[int, ...] | None = None
    key_metadata: bytes | None = None

    def to_record(self) -> avro.DataFile:
        """As the manifest codec writes it."""
        record = avro.DataFile.from_args(
            _table_format_version=FORMAT_VERSION,
            content=avro.DataFileContent(self.content),
            file_path=self.path,
            file_format=avro.FileFormat(self.file_format),
            partition=Record(*self.partition),
            record_count=self.record_count,
            file_size_in_bytes=self.size_bytes,
            column_sizes=dict(self.column_sizes),
            value_counts=dict(self.value_counts),
            null_value_counts=dict(self.null_counts),
            nan_value_counts=dict(self.nan_counts),
            lower_bounds=dict(self.lower_bounds),
            upper_bounds=dict(self.upper_bounds),
            key_metadata=self.key_metadata,
            split_offsets=list(self.split_offsets),
            equality_ids=None if self.equality_ids is None else list(self.equality_ids),
            sort_order_id=self.sort_order_id,
        )
        record.spec_id = self.spec_id
        return record


def from_record(record: avro.DataFile, *, spec_id: int) -> DataFile:
    """As read from a manifest. Metrics a writer left out read as empty."""
    return DataFile(
        path=record.file_path,
        record_count=record.record_count,
        size_bytes=record.file_size_in_bytes,
        spec_id=spec_id,
        partition=tuple(record.partition[at] for at in range(len(record.partition))),
        content=int(record.content),
        column_sizes=record.column_sizes or {},
        value_counts=record.value_counts or {},
        null_counts=record.null_value_counts or {},
        nan_counts=record.nan_value_counts or {},
        lower_bounds=record.lower_bounds or {},
        upper_bounds=record.upper_bounds or {},
        split_offsets=tuple(record.split_offsets or ()),
        sort_order_id=record.sort_order_id,
        file_format=avro.FileFormat(record.file_format).value,
        equality_ids=None if record.equality_ids is None else tuple(record.equality_ids),
        key_metadata=record.key_metadata,
    )
