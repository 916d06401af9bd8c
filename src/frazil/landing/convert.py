"""Stage convert: decoded rows → the typed rows of one table, and the records that have no place in it. Pure, for the offload."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa

from frazil.kit.names import PartitionKey
from frazil.landing.changes import Changes, Split, record_events, split, take_operations, with_operation, without_null_keys
from frazil.landing.columns import KEY, METADATA_NAMES, METADATA_SCHEMA, is_time, long_array, metadata_arrays, rows_out_of_time
from frazil.landing.decode import Decoded, Rows
from frazil.landing.upsert import OPERATION
from frazil.schemas import Decoded as DecodedValues
from frazil.schemas import Decoder, Reject

BATCH_CODE_PREFIX: Final = "batch-"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One record, or one whole batch (``last_offset`` > ``offset`` or no key), that the table cannot take, with its bytes."""

    key: PartitionKey
    topic: str
    offset: int
    last_offset: int
    timestamp_ms: int
    record_key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    code: str
    why: str
    target_uuid: str = ""
    """Of the table that could not take it, where one slice goes to several (a route's); empty: the table of the burial."""
    target_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """``rows`` has the table's value columns (with additions) and, if wished, the metadata columns."""

    rows: pa.Table
    values: pa.Schema
    """The value columns alone: what a table made for these rows starts with."""
    letters: tuple[DeadLetter, ...]
    events: pa.Table | None = None
    """Of a table with one row per key: what happened, record by record (``changes.record_events``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a table takes values: its decoder, its value columns now (None: no table yet), and whether it has metadata columns."""

    decoder: Decoder
    columns: pa.Schema | None
    metadata_columns: bool
    key: Decoder | None = None
    """What keys are, when ``_key`` is not to be their bytes: a decoder with one column."""
    changes: Changes | None = None
    """Records are events: in an envelope, or about the row of a key."""

    @property
    def wanted(self) -> pa.Schema | None:
        """The columns that values may fill; None: whatever they hold."""
        return self.columns if self.columns is not None else self.decoder.schema

    @property
    def with_operation(self) -> bool:
        """Whether the table has the column that says what happened: it keeps every event of an envelope."""
        return self.changes is not None and self.changes.upsert is None and self.changes.envelope is not None


def value_columns(table: pa.Schema, *, metadata_columns: bool, only: Sequence[str] | None = None, operation: bool = False) -> pa.Schema:
    """The columns of ``table`` that values fill: all but the metadata columns; with ``only``, just those that are declared."""
    wanted = None if only is None else {name.lower() for name in only}
    kept = [
        field
        for field in table
        if not (metadata_columns and field.name in METADATA_NAMES)
        and not (operation and field.name == OPERATION)
        and (wanted is None or field.name.lower() in wanted)
    ]
    return pa.schema(kept)


def full_schema(values: pa.Schema, *, metadata_columns: bool, key: Decoder | None = None, operation: bool = False) -> pa.Schema:
    """The columns of a table that holds ``values``: value columns first, metadata columns after them, ``_key`` as ``key`` has it."""
    if operation:
        values = values.append(pa.field(OPERATION, pa.string()))
    if not metadata_columns:
        return values
    made = key.schema if key is not None else None
    extra = (
        METADATA_SCHEMA if made is None else [field.with_type(made.types[0]) if field.name == KEY else field for field in METADATA_SCHEMA]
    )
    return pa.schema([*values, *extra])


def convert(decoded: Decoded, shape: Shape) -> Converted:
    """Typed rows and dead letters of one slice."""
    rows = decoded.rows
    keys = _keys(shape, rows)
    parted = None if shape.changes is None else split(rows, shape.changes)
    result = _decode_fit(shape, rows, keys, parted)
    events, operations = None, None
    if shape.changes is not None and parted is not None:
        result, operations = take_operations(result, parted, shape.changes, shape.wanted)
        if shape.changes.upsert is not None:
            result, operations = without_null_keys(result, operations, shape.changes)
            events, more = record_events(rows, result, parted, operations, shape.changes)
            result = replace(result, rejects=tuple(sorted([*result.rejects, *more], key=lambda reject: reject.row)))
    columns: dict[str, Any] = dict(zip(result.batch.schema.names, result.batch.columns, strict=True))
    kept = long_array(result.rows) if len(result.rows) < len(rows) else None
    if shape.with_operation:
        columns[OPERATION] = operations
    if shape.metadata_columns:
        columns.update(metadata_arrays(rows, kept))
        if keys is not None:
            columns[KEY] = _keys_of(keys, result.rows)
    schema = full_schema(result.batch.schema, metadata_columns=shape.metadata_columns, key=shape.key, operation=shape.with_operation)
    table = pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
    letters = record_letters(rows, [(reject.row, reject.code, reject.why) for reject in result.rejects]) + batch_letters(decoded)
    return Converted(rows=table, values=result.batch.schema, letters=letters, events=events)


def _keys(shape: Shape, rows: Rows) -> DecodedValues | None:
    """The keys as their column has them; None when they are just bytes."""
    keys: Any = rows.records.column("key")
    return shape.key.decode(keys) if shape.key is not None and shape.metadata_columns else None


def _keys_of(keys: DecodedValues, kept: array[int]) -> Any:  # noqa: ANN401 - an Arrow array
    """The keys of the rows ``kept``; none of them is one whose key was a reject."""
    place = {row: at for at, row in enumerate(keys.rows)} if keys.rejects else None
    at = kept if place is None else array("q", [place[row] for row in kept])
    return keys.batch.column(0).take(long_array(at))


def _decode_fit(shape: Shape, rows: Rows, keys: DecodedValues | None, parted: Split | None) -> DecodedValues:
    """Decodes all rows but those whose timestamp or key has no place in the column ``_timestamp`` or ``_key``; they are rejects.

    Tombstones that were taken aside are neither rows nor rejects.
    """
    values: Any = rows.records.column("value") if parted is None else parted.values
    outside = rows_out_of_time(rows.records.column("timestamp_ms")) if shape.metadata_columns else []
    unfit = {reject.row: replace(reject, why=f"key: {reject.why}") for reject in (keys.rejects if keys is not None else ())}
    unfit |= {row: Reject(row=row, code="out-of-range", why="the record's timestamp is outside the years 1 to 9999") for row in outside}
    columns = with_operation(shape.columns, shape.decoder, shape.changes)
    aside: frozenset[int] = frozenset()
    if parted is not None:
        unfit |= parted.rejects
        aside = frozenset(parted.aside)
    if not unfit and not aside:
        return shape.decoder.decode(values, columns)
    inside = array("q", [row for row in range(len(rows)) if row not in unfit and row not in aside])
    result = shape.decoder.decode(values.take(long_array(inside)), columns)
    rejects = [replace(reject, row=inside[reject.row]) for reject in result.rejects]
    rejects += [reject for row, reject in unfit.items() if row not in aside or parted is None]
    rejects.sort(key=lambda reject: reject.row)
    return replace(result, rows=array("q", [inside[row] for row in result.rows]), rejects=tuple(rejects))


def record_letters(rows: Rows, rejects: Sequence[tuple[int, str, str]]) -> tuple[DeadLetter, ...]:
    """The letters of single records: position in ``rows``, code and reason of each."""
    if not rejects:
        return ()
    ends = list(accumulate(origin.rows for origin in rows.origins))
    records = rows.records.take(long_array(array("q", [row for row, _, _ in rejects]))).to_pylist()
    letters = []
    for (row, code, why), record in zip(rejects, records, strict=True):
        origin = rows.origins[bisect_right(ends, row)]
        time_ms = record["timestamp_ms"]
        letters.append(
            DeadLetter(
                key=origin.key,
                topic=origin.topic,
                offset=record["offset"],
                last_offset=record["offset"],
                timestamp_ms=time_ms if is_time(time_ms) else -1,
                record_key=record["key"],
                value=record["value"],
                headers=tuple((header["key"], header["value"]) for header in record["headers"]),
                code=code,
                why=why if is_time(time_ms) else f"{why} (timestamp {time_ms})",
            )
        )
    return tuple(letters)


def batch_letters(decoded: Decoded) -> tuple[DeadLetter, ...]:
    """The letters of whole batches that nobody can decode."""
    return tuple(
        DeadLetter(
            key=bad.key,
            topic=bad.topic,
            offset=bad.fault.first_offset,
            last_offset=bad.fault.last_offset,
            timestamp_ms=-1,
            record_key=None,
            value=bad.fault.raw,
            headers=(),
            code=BATCH_CODE_PREFIX + bad.fault.code,
            why=bad.fault.why,
        )
        for bad in decoded.bad_batches
    )
