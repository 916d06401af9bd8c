"""The metadata columns of a landed row: where it came from, when, and what travelled beside its value.

| column             | type                                    | from                          |
|--------------------|-----------------------------------------|-------------------------------|
| `_topic`           | string                                  | topic name                    |
| `_kafka_partition` | int                                     | partition                     |
| `_offset`          | long                                    | offset                        |
| `_timestamp`       | timestamptz (microseconds)              | record timestamp, ms × 1000   |
| `_key`             | binary                                  | record key, null stays null   |
| `_headers`         | list<struct<key: string, value: binary>>| headers in order, duplicates kept |

Not `_partition`: that name is one of Iceberg's own metadata columns, and Spark refuses to read a table that has it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from frazil.landing.decode import Rows

HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", HEADER))
_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("_topic", pa.string()),
    ("_kafka_partition", pa.int32()),
    ("_offset", pa.int64()),
    ("_timestamp", pa.timestamp("us", tz="UTC")),
    ("_key", pa.binary()),
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

Column: TypeAlias = "pa.Array[Any]"
Headers: TypeAlias = Sequence[tuple[tuple[str, bytes | None], ...]]


def metadata_arrays(rows: Rows) -> dict[str, Column]:
    """One array per metadata column, all as long as ``rows``."""
    origin_of_row = array("q")
    for number, origin in enumerate(rows.origins):
        origin_of_row.extend(array("q", (number,)) * origin.rows)
    at = long_array(origin_of_row)
    return {
        "_topic": pa.array([origin.topic for origin in rows.origins], pa.string()).take(at),
        "_kafka_partition": pa.array([origin.key.partition for origin in rows.origins], pa.int32()).take(at),
        "_offset": long_array(rows.offsets),
        "_timestamp": timestamp_array(rows.timestamps_ms),
        "_key": pa.array(rows.keys, pa.binary()),
        "_headers": headers_array(rows.headers),
    }


def long_array(values: array[int]) -> Column:
    """An int64 array over the same memory."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def is_time(value_ms: int) -> bool:
    """Whether a record's timestamp is a time in the years 1 to 9999: producers may write any 64 bits there."""
    return _FIRST_MS <= value_ms <= _LAST_MS


def rows_out_of_time(values_ms: array[int]) -> list[int]:
    """The rows whose timestamp ``_timestamp`` cannot hold."""
    if not values_ms or (is_time(min(values_ms)) and is_time(max(values_ms))):
        return []
    return [row for row, value in enumerate(values_ms) if not is_time(value)]


def timestamp_array(values_ms: array[int]) -> Column:
    """Milliseconds → timestamptz in microseconds. What is no time, and a record without a timestamp (−1), becomes null."""
    if rows_out_of_time(values_ms):
        values_ms = array("q", [value if is_time(value) else -1 for value in values_ms])
    micros = array("q", [value * 1000 for value in values_ms])
    valid = None if -1 not in values_ms else pa.array([value != -1 for value in values_ms], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), len(micros), [valid, pa.py_buffer(micros)])


def headers_array(headers: Headers) -> Column:
    """Header tuples → list<struct>. Empty headers are an empty list, not null."""
    ends = array("i", bytes(4 * (len(headers) + 1)))
    names: list[str] = []
    values: list[bytes | None] = []
    if any(headers):
        for row, pairs in enumerate(headers, 1):
            for name, value in pairs:
                names.append(name)
                values.append(value)
            ends[row] = len(names)
    struct = pa.StructArray.from_arrays([pa.array(names, pa.string()), pa.array(values, pa.binary())], fields=list(HEADER))
    return pa.Array.from_buffers(HEADERS, len(headers), [None, pa.py_buffer(ends)], children=[struct])
