"""Debezium's envelope where values have columns: decoded with the row inside ``before`` and ``after``, which is then the row. Pure.

For Avro, Protobuf, JSON Schema, and JSON with declared columns. JSON without declared columns goes through ``schemas/envelopes.py``, which
leaves out of the inference what only the envelope has.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.schemas import Decoded as DecodedValues
from frazil.schemas import Reject
from frazil.schemas.envelopes import TRUNCATE, is_delete, is_known, why_truncated
from frazil.schemas.port import clip

OP: Final = "op"
BEFORE: Final = "before"
AFTER: Final = "after"
PAYLOAD: Final = "payload"
_compute: Any = pc


def envelope_columns(row: pa.Schema, *, json: bool) -> pa.Schema:
    """The columns of an envelope around such rows. JSON may have it as ``payload`` beside a ``schema``."""
    kind = pa.struct([field.with_nullable(True) for field in row])  # noqa: FBT003 - Arrow's signature
    fields = [pa.field(OP, pa.string()), pa.field(BEFORE, kind), pa.field(AFTER, kind)]
    return pa.schema([*fields, pa.field(PAYLOAD, pa.struct(fields))] if json else fields)


def take_rows(result: DecodedValues, values: Any) -> tuple[DecodedValues, Any]:  # noqa: ANN401 - Arrow
    """Rows out of decoded envelopes, with the word of each; events that say no row are rejects. ``values``: the slice's, null: tombstone.

    A tombstone that was decoded is a row of nulls without a word.
    """
    words, rows = _parts(result.batch)
    known = is_known(words)
    absent = values.take(pa.array(result.rows, pa.int64())).is_null() if values.null_count else _none(len(result.rows))
    good = _compute.or_(absent, _compute.and_(known, rows.is_valid()))
    if not _compute.all(good, min_count=0).as_py():
        at = _compute.indices_nonzero(_compute.invert(good)).to_pylist()
        found = words.take(pa.array(at, pa.int64())).to_pylist()
        rejects = [_verdict(result.rows[row], word, known=bool(known[row].as_py())) for row, word in zip(at, found, strict=True)]
        kept = _compute.indices_nonzero(good)
        words, rows = words.take(kept), rows.take(kept)
        every = tuple(sorted([*result.rejects, *rejects], key=lambda reject: reject.row))
        result = replace(result, rows=array("q", [result.rows[row] for row in kept.to_pylist()]), rejects=every)
    fields: list[Any] = [rows.type.field(at).with_nullable(True) for at in range(rows.type.num_fields)]  # noqa: FBT003 - Arrow's signature
    batch = pa.RecordBatch.from_arrays(rows.flatten(), schema=pa.schema(fields))
    return replace(result, batch=batch), words


def _none(count: int) -> Any:  # noqa: ANN401 - an Arrow array
    repeat: Any = pa.repeat
    return repeat(pa.scalar(False), count)  # noqa: FBT003 - Arrow's signature


def _parts(batch: pa.RecordBatch) -> tuple[Any, Any]:
    """The words, and the row of each event: what it was for a delete, what it is else."""
    words, before, after = (_column(batch, name) for name in (OP, BEFORE, AFTER))
    payload = _column(batch, PAYLOAD)
    if payload is not None and payload.null_count < len(payload):
        inside = {payload.type.field(at).name: child for at, child in enumerate(payload.flatten())}
        wrapped = payload.is_valid()
        words = _either(wrapped, inside.get(OP), words)
        before, after = _either(wrapped, inside.get(BEFORE), before), _either(wrapped, inside.get(AFTER), after)
    count = batch.num_rows
    if words is None or not pa.types.is_string(words.type):
        words = pa.nulls(count, pa.string())
    rows = _either(is_delete(words), before, after)
    return words, pa.nulls(count, pa.struct([])) if rows is None else rows


def _column(batch: pa.RecordBatch, name: str) -> Any:  # noqa: ANN401 - an Arrow array
    return batch.column(name) if name in batch.schema.names else None


def _either(mask: Any, one: Any, other: Any) -> Any:  # noqa: ANN401 - Arrow arrays
    if one is None and other is None:
        return None
    if one is None or pa.types.is_null(one.type):
        one = pa.nulls(len(mask), other.type)
    if other is None or pa.types.is_null(other.type):
        other = pa.nulls(len(mask), one.type)
    return _compute.if_else(mask, one, other if other.type == one.type else other.cast(one.type))


def _verdict(row: int, word: str | None, *, known: bool) -> Reject:
    if word is None:
        return Reject(row=row, code="no-operation", why="the event has no field 'op' that says what happened to the row")
    if word == TRUNCATE:
        return Reject(row=row, code="operation", why=why_truncated())
    if not known:
        return Reject(row=row, code="operation", why=clip(f"op is {word!r}, which no operation is called"))
    return Reject(row=row, code="no-row", why=clip(f"op is {word}, and there is no row in the event"))
