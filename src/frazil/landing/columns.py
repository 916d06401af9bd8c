"""The metadata columns of a landed row: where it came from, when, and what travelled beside its value.

| column             | type                                    | from                          |
|--------------------|-----------------------------------------|-------------------------------|
| `_topic`           | string                                  | topic name                    |
| `_kafka_partition` | int                                     | partition                     |
| `_offset`          | long                                    | offset                        |
| `_timestamp`       | timestamptz (microseconds)              | record timestamp, ms × 1000   |
| `_key`             | binary, or as the option `key` says     | record key, null stays null   |
| `_headers`         | list<struct<key: string, value: binary>>| headers in order, duplicates kept |

Not `_partition`: that name is one of Iceberg's own metadata columns, and Spark refuses to read a table that has it.
"""

from __future__ import annotations

from array import array
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from frazil.landing.decode import Rows
from frazil.records.tables import HEADERS

KEY: Final = "_key"
_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("_topic", pa.string()),
    ("_kafka_partition", pa.int32()),
    ("_offset", pa.int64()),
    ("_timestamp", pa.timestamp("us", tz="UTC")),
    (KEY, pa.binary()),
    ("_headers", HEADERS),
]
METADATA_SCHEMA: Final = pa.schema(_FIELDS)
METADATA_NAMES: Final = frozenset(METADATA_SCHEMA.names)
ICEBERG_NAMES: Final = frozenset(
    {
        "_file",
        "_pos",
        "_deleted",
        "_spec_id",
        "_partition",
        "_row_id",
        "_last_updated_sequence_number",
        "_change_type",
        "_change_ordinal",
        "_commit_snapshot_id",
    }
)
"""Iceberg's own metadata columns. A table with a column of such a name cannot be read by Spark, so value fields never make one."""
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999

_MILLIS: Final = pa.timestamp("ms", tz="UTC")
_MICROS: Final = pa.timestamp("us", tz="UTC")

Column: TypeAlias = "pa.Array[Any]"
_compute: Any = pc
_repeat: Any = pa.repeat


def metadata_arrays(rows: Rows, kept: Column | None) -> dict[str, Column]:
    """One array per metadata column, for the rows at the positions ``kept``, ascending; None: for all."""
    records = rows.records
    extra = {
        "_topic": _of_origins(rows, [origin.topic for origin in rows.origins], pa.string()),
        "_kafka_partition": _of_origins(rows, [int(origin.key.partition) for origin in rows.origins], pa.int32()),
        "_offset": records.column("offset"),
        "_timestamp": timestamp_array(records.column("timestamp_ms")),
        KEY: records.column("key"),
        "_headers": records.column("headers"),
    }
    return extra if kept is None else {name: column.take(kept) for name, column in extra.items()}


def _of_origins(rows: Rows, values: list[Any], kind: pa.DataType) -> Column:
    """A column that has one value for all rows of an origin."""
    runs: list[Column] = [_repeat(pa.scalar(value, kind), origin.rows) for value, origin in zip(values, rows.origins, strict=True)]
    return runs[0] if len(runs) == 1 else pa.concat_arrays([pa.array([], kind), *runs])


def long_array(values: array[int]) -> Column:
    """An int64 array over the same memory."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def is_time(value_ms: int) -> bool:
    """Whether a record's timestamp is a time in the years 1 to 9999: producers may write any 64 bits there."""
    return _FIRST_MS <= value_ms <= _LAST_MS


def rows_out_of_time(values_ms: Column) -> list[int]:
    """The rows whose timestamp ``_timestamp`` cannot hold."""
    if not len(values_ms):
        return []
    ends = _compute.min_max(values_ms)
    if is_time(ends["min"].as_py()) and is_time(ends["max"].as_py()):
        return []
    rows: list[int] = _compute.indices_nonzero(_outside(values_ms)).to_pylist()
    return rows


def timestamp_array(values_ms: Column) -> Column:
    """Milliseconds → timestamptz in microseconds. What is no time, and a record without a timestamp (−1), becomes null."""
    absent = _compute.or_(_outside(values_ms), _compute.equal(values_ms, -1))
    times: Column = _compute.if_else(absent, pa.scalar(None, pa.int64()), values_ms).view(_MILLIS)
    return times.cast(_MICROS)


def _outside(values_ms: Column) -> Column:
    outside: Column = _compute.or_(_compute.less(values_ms, _FIRST_MS), _compute.greater(values_ms, _LAST_MS))
    return outside
