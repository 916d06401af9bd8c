"""Change events of a slice: out of their envelopes before they are decoded, and the last one of each key after that. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalogs.keys import ascending, storage
from frazil.kit.errors import Refused
from frazil.landing.columns import long_array
from frazil.landing.decode import Rows
from frazil.landing.envelope import envelope_columns, take_rows
from frazil.landing.upsert import OFFSET, Envelope, Upsert, check_key_types
from frazil.schemas import Decoded as DecodedValues
from frazil.schemas import DecodeOptions, Decoder, Reject, decoder_for
from frazil.schemas.envelopes import Opened, is_delete, is_known, open_debezium, unwrapped
from frazil.schemas.port import clip

AT: Final = "__at"
"""Where the event was among the records of the slice."""
ROW: Final = "__row"
"""Its row in the converted table, −1 for an event without row."""
DELETED: Final = "__deleted"
ORDER: Final = "__order"
_PARTITION: Final = "__partition"
_N: Final = "__n"
_compute: Any = pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What the records of a landing tell about rows."""

    table: str
    envelope: Envelope | None
    upsert: Upsert | None
    value: str = "json"
    declared: bool = False

    @property
    def by_columns(self) -> bool:
        """Whether Debezium's envelope is decoded as columns, and not cut open before that."""
        return self.envelope is not None and self.envelope.debezium and (self.value != "json" or self.declared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Records before decoding: what to decode, what is no row whatever it holds, and the tombstones that are looked at apart."""

    values: Any
    operations: Any
    """The word of each event in Debezium's envelope; else None."""
    rejects: Mapping[int, Reject]
    aside: array[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapsed:
    """What is left of a slice when of each key only the last event counts."""

    rows: pa.Table
    """To be written."""
    keys: pa.Table
    """Every key that was touched, once: rows with it, from before, are no longer."""


def split(rows: Rows, changes: Changes) -> Split:
    """Takes rows out of their envelopes and tombstones aside."""
    values: Any = rows.records.column("value")
    opened = _opened(values, changes)
    rejects = {reject.row: reject for reject in opened.rejects} if opened is not None else {}
    aside: array[int] = array("q")
    if changes.upsert is not None and values.null_count:
        tombstones = array("q", _compute.indices_nonzero(values.is_null()).to_pylist())
        if changes.upsert.tombstones:
            aside = tombstones
        elif changes.envelope is not None and changes.envelope.debezium:
            aside = tombstones  # the event that deletes came before; record_events makes nothing of these
        else:
            why = "the record has no value; with upsert.deletes=tombstone it would delete the row of its key"
            rejects |= {row: Reject(row=row, code="null-value", why=why) for row in tombstones}
    return Split(
        values=values if opened is None else opened.values,
        operations=None if opened is None else opened.operations,
        rejects=rejects,
        aside=aside,
    )


def _opened(values: Any, changes: Changes) -> Opened | None:  # noqa: ANN401 - an Arrow array
    inside = changes.envelope is not None and changes.envelope.debezium and not changes.by_columns
    return open_debezium(values) if inside else None


def with_operation(columns: pa.Schema | None, decoder: Decoder, changes: Changes | None) -> pa.Schema | None:
    """The columns to decode: those of the table, and where events are flat and it is none of these, the field with the operation."""
    field = changes.envelope.field if changes is not None and changes.envelope is not None else ""
    known = columns if columns is not None else decoder.schema
    if changes is not None and changes.by_columns and known is not None:
        return envelope_columns(known, json=changes.value in ("json", "json-schema"))
    if not field or known is None or field in known.names:
        return columns
    return known.append(pa.field(field, pa.string()))


def take_operations(result: DecodedValues, parted: Split, changes: Changes, columns: pa.Schema | None) -> tuple[DecodedValues, Any]:
    """The word of each row, and the rows that have a known one; the others are rejects. ``columns``: those that are to be left."""
    if changes.envelope is None:
        return result, None
    if changes.by_columns:
        return take_rows(result, parted.values)
    if changes.envelope.debezium:
        return result, parted.operations.take(long_array(result.rows)) if len(result.rows) else parted.operations.slice(0, 0)
    field, batch = changes.envelope.field, result.batch
    words: Any = batch.column(field) if field in batch.schema.names else pa.nulls(len(result.rows), pa.string())
    if not pa.types.is_string(words.type):
        raise Refused(f"landing {changes.table}: envelope=op:{field}: the column is {words.type}, operations are words")
    if columns is not None and field not in columns.names and field in batch.schema.names:
        batch = batch.drop_columns([field])
    known = is_known(words)
    if _compute.all(known, min_count=0).as_py():
        return replace(result, batch=batch), words
    bad = _compute.indices_nonzero(_compute.invert(known)).to_pylist()
    found = words.take(pa.array(bad, pa.int64())).to_pylist()
    rejects = [_bad_word(result.rows[row], field, word) for row, word in zip(bad, found, strict=True)]
    kept = _compute.indices_nonzero(known)
    rows = array("q", [result.rows[row] for row in kept.to_pylist()])
    every = tuple(sorted([*result.rejects, *rejects], key=lambda reject: reject.row))
    return replace(result, batch=batch.take(kept), rows=rows, rejects=every), words.take(kept)


def _bad_word(row: int, field: str, word: str | None) -> Reject:
    if word is None:
        return Reject(row=row, code="no-operation", why=f"the event has no field {field!r} that says what happened to the row")
    return Reject(row=row, code="operation", why=clip(f"{field} is {word!r}, which no operation is called"))


def without_null_keys(result: DecodedValues, operations: Any, changes: Changes) -> tuple[DecodedValues, Any]:  # noqa: ANN401 - Arrow
    """Rows that do not say which row they are become rejects. ``operations``: of the rows, None or as they are left."""
    upsert = changes.upsert
    if upsert is None:
        return result, operations
    bad: Any = None
    names = upsert.keys if upsert.by_offset else (*upsert.keys, upsert.order)
    for name in names:
        if name not in result.batch.schema.names:
            missing: Any = _all(len(result.rows))
        else:
            missing = result.batch.column(name).is_null()
        bad = missing if bad is None else _compute.or_(bad, missing)
    if bad is None or not _compute.any(bad, min_count=0).as_py():
        return result, operations
    at = _compute.indices_nonzero(bad).to_pylist()
    why = f"one of {', '.join(names)} is missing or null: the event does not say which row it is about"
    rejects = sorted(
        [*result.rejects, *(Reject(row=result.rows[row], code="required", why=why) for row in at)], key=lambda reject: reject.row
    )
    kept = _compute.indices_nonzero(_compute.invert(bad))
    rows = array("q", [result.rows[row] for row in kept.to_pylist()])
    left = replace(result, batch=result.batch.take(kept), rows=rows, rejects=tuple(rejects))
    return left, None if operations is None else operations.take(kept)


def _all(count: int) -> Any:  # noqa: ANN401 - an Arrow array
    repeat: Any = pa.repeat
    return repeat(pa.scalar(True), count)  # noqa: FBT003 - Arrow's signature


def record_events(
    rows: Rows,
    result: DecodedValues,
    parted: Split,
    operations: Any,  # noqa: ANN401 - an Arrow array
    changes: Changes,
) -> tuple[pa.Table, list[Reject]]:
    """One line per event, in the order of the records: its key columns, ``ROW``, ``DELETED``, ``AT``; and tombstones that have no key."""
    upsert = changes.upsert
    assert upsert is not None
    schema = result.batch.schema
    if any(name not in schema.names for name in upsert.keys):
        return pa.table({name: pa.array([], pa.int64()) for name in (*upsert.keys, ROW, AT)}), []
    check_key_types(changes.table, upsert, schema)
    at = long_array(result.rows) if len(result.rows) else pa.array([], pa.int64())
    columns: dict[str, Any] = {name: result.batch.column(name) for name in upsert.keys}
    columns[ROW] = ascending(len(result.rows))
    columns[DELETED] = _none(len(at)) if operations is None else is_delete(operations)
    columns[AT] = at
    if not upsert.by_offset:
        columns[ORDER] = result.batch.column(upsert.order)
    events = storage(pa.table(columns))
    rejects: list[Reject] = []
    if upsert.tombstones and len(parted.aside):
        tombstones, rejects = _tombstones(rows, parted.aside, changes, pa.schema([schema.field(name) for name in upsert.keys]))
        events = pa.concat_tables([events, tombstones]).sort_by(AT)
    if len(rows.origins) > 1 and upsert.by_offset:
        partitions = _partitions(rows)
        events = events.append_column(_PARTITION, partitions.take(events.column(AT).combine_chunks()))
    return events, rejects


def _none(count: int) -> Any:  # noqa: ANN401 - an Arrow array
    repeat: Any = pa.repeat
    return repeat(pa.scalar(False), count)  # noqa: FBT003 - Arrow's signature


def _partitions(rows: Rows) -> Any:  # noqa: ANN401 - an Arrow array
    repeat: Any = pa.repeat
    return pa.concat_arrays([repeat(pa.scalar(int(origin.key.partition), pa.int32()), origin.rows) for origin in rows.origins])


def _tombstones(rows: Rows, aside: array[int], changes: Changes, keys: pa.Schema) -> tuple[pa.Table, list[Reject]]:
    """Events that delete, by the keys of their records."""
    upsert = changes.upsert
    assert upsert is not None
    at = long_array(aside)
    raw: Any = rows.records.column("key").take(at)
    decoded = _decode_keys(raw, upsert, keys, changes.table)
    # A record without key, or with one that is no key of the table.
    rejects = [replace(reject, row=aside[reject.row], why=f"record key: {reject.why}") for reject in decoded.rejects]
    filled: Any = None
    for column in decoded.batch.columns:
        filled = column.is_valid() if filled is None else _compute.and_(filled, column.is_valid())
    batch, places = decoded.batch, at.take(long_array(decoded.rows)) if len(decoded.rows) else at.slice(0, 0)
    if not _compute.all(filled, min_count=0).as_py():
        why = "record key: it does not have all key columns of the table"
        missing: list[Any] = places.filter(_compute.invert(filled)).to_pylist()
        rejects += [Reject(row=row, code="required", why=why) for row in missing]
        batch, places = batch.filter(filled), places.filter(filled)
    repeat: Any = pa.repeat
    columns: dict[str, Any] = dict(zip(keys.names, batch.columns, strict=True))
    columns[ROW] = repeat(pa.scalar(-1, pa.int64()), len(places))
    columns[DELETED] = _all(len(places))
    columns[AT] = places
    return storage(pa.table(columns)), rejects


_TAKEN: Final = {
    "string": (pa.string(),),
    "int": (pa.int32(), pa.int64()),
    "long": (pa.int64(),),
}


def _decode_keys(raw: Any, upsert: Upsert, keys: pa.Schema, table: str) -> DecodedValues:  # noqa: ANN401 - an Arrow array
    options = DecodeOptions(null_value_rows=False)
    if upsert.record_key == "json":
        optional = pa.schema([field.with_nullable(True) for field in keys])  # noqa: FBT003 - Arrow's signature
        keys_in_json: Any = unwrapped(raw)
        return decoder_for("json", optional, options).decode(keys_in_json, optional)
    kind = keys.types[0]
    if kind not in _TAKEN[upsert.record_key]:
        raise Refused(f"landing {table}: record keys are {upsert.record_key}, the key column {keys.names[0]} is {kind}")
    decoded = decoder_for(upsert.record_key, None, options).decode(raw)
    return replace(decoded, batch=pa.RecordBatch.from_arrays([decoded.batch.column(0).cast(kind)], names=keys.names))


# --- the last event of each key ----------------------------------------------------------------------------------------


def collapse(events: pa.Table, rows: pa.Table, changes: Changes) -> Collapsed:
    """Of each key the last event counts, by place or by order. Raises Refused for a key in two partitions, whose offsets say nothing."""
    upsert = changes.upsert
    assert upsert is not None
    names = list(upsert.keys)
    if not events.num_rows:
        return Collapsed(rows=rows.slice(0, 0), keys=events.select(names))
    if not upsert.by_offset:
        events = events.sort_by([(ORDER, "ascending"), (AT, "ascending")])
    last = _last(events, names, changes)
    if len(last) < events.num_rows:
        events = events.take(last)
    wanted = events.filter(_compute.invert(events.column(DELETED))).column(ROW).combine_chunks()
    if len(wanted) < rows.num_rows:
        rows = rows.take(wanted.take(_compute.array_sort_indices(wanted)))
    extra = [] if upsert.by_offset else [ORDER, ROW]
    return Collapsed(rows=rows, keys=events.select([*names, *extra]))


def _last(events: pa.Table, names: list[str], changes: Changes) -> Any:  # noqa: ANN401 - an Arrow array
    numbered = events.append_column(_N, ascending(events.num_rows))
    wanted: list[Any] = [(_N, "max")]
    with_partition = _PARTITION in events.column_names
    if with_partition:
        wanted += [(_PARTITION, "min"), (_PARTITION, "max")]
    groups = numbered.group_by(names, use_threads=False).aggregate(wanted)
    if with_partition:
        strays = groups.filter(_compute.not_equal(groups.column(f"{_PARTITION}_min"), groups.column(f"{_PARTITION}_max")))
        if strays.num_rows:
            _stray(strays.slice(0, 1).to_pylist()[0], names, changes)
    return groups.column(f"{_N}_max").combine_chunks()


def _stray(found: Mapping[str, Any], names: list[str], changes: Changes) -> None:
    key = ", ".join(f"{name}={found[name]!r}"[:100] for name in names)
    raise Refused(
        f"landing {changes.table}: events of {key} are in partitions {found[f'{_PARTITION}_min']} and {found[f'{_PARTITION}_max']}, so "
        f"upsert.order={OFFSET} cannot tell which is newer; produce a key always to one partition, or give upsert.order=COLUMN (R23)"
    )
