"""A slice's rows → the rows of each table of a route. Pure, for the offload; nothing is done per record in Python but for dead letters."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.kit.names import PartitionKey
from frazil.landing.columns import long_array
from frazil.landing.decode import Origin, Rows
from frazil.landing.routevalues import Texts
from frazil.landing.routing import Place, Places

_NOWHERE: Final = -1
_compute: Any = pc
_repeat: Any = pa.repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """``at``: by table, the positions of its rows, ascending. ``letters``: position, code and reason of rows that no table takes."""

    at: Mapping[str, Any]
    letters: Sequence[tuple[int, str, str]]


def values_of(texts: Texts) -> list[str]:
    """The different texts of a slice, in order of appearance."""
    found: list[str] = texts.texts.unique().drop_null().to_pylist()
    return found


def sort_rows(texts: Texts, places: Places) -> Sorted:
    """Where each row goes. ``places`` knows the claims on all tables of ``values_of(texts)``."""
    coded = texts.texts.dictionary_encode()
    answers: list[Place] = [places.find(value) for value in coded.dictionary.to_pylist()]
    none = places.find(None)
    tables = sorted({place.table for place in (*answers, none) if place.table})
    numbers = {table: number for number, table in enumerate(tables)}
    ids = pa.array([numbers.get(place.table, _NOWHERE) for place in answers], pa.int32()).take(coded.indices)
    ids = _compute.fill_null(ids, numbers.get(none.table, _NOWHERE))
    refused = {reject.row: (reject.code, reject.why) for reject in texts.rejects}
    if refused:
        mask = pa.array([row in refused for row in range(len(ids))])
        ids = _compute.if_else(mask, _NOWHERE, ids)
    order = _compute.array_sort_indices(ids)  # stable: rows of a table stay in order
    at, begin = {}, 0
    letters: list[tuple[int, str, str]] = []
    runs = _compute.run_end_encode(ids.take(order))
    for number, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        rows = order.slice(begin, end - begin)
        begin = end
        if number == _NOWHERE:
            letters = [(row, *_verdict(row, code, refused, answers, none)) for row, code in _coded(rows, coded.indices)]
        else:
            at[tables[number]] = rows.cast(pa.int64())
    return Sorted(at=at, letters=letters)


def _coded(rows: Any, codes: Any) -> list[tuple[int, int | None]]:  # noqa: ANN401 - Arrow arrays
    return list(zip(rows.to_pylist(), codes.take(rows).to_pylist(), strict=True))


def _verdict(row: int, code: int | None, refused: Mapping[int, tuple[str, str]], answers: Sequence[Place], none: Place) -> tuple[str, str]:
    if row in refused:
        return refused[row]
    place = none if code is None else answers[code]
    return place.code, place.why


def rows_at(rows: Rows, at: Any) -> Rows:  # noqa: ANN401 - an Arrow array
    """The rows at the positions ``at``, ascending."""
    if len(at) == len(rows):
        return rows
    whose = pa.concat_arrays(
        [pa.array([], pa.int32()), *(_repeat(pa.scalar(n, pa.int32()), one.rows) for n, one in enumerate(rows.origins))]
    )
    runs = _compute.run_end_encode(whose.take(at))
    origins, begin = [], 0
    for number, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        origin = rows.origins[number]
        origins.append(Origin(key=origin.key, topic=origin.topic, rows=end - begin))
        begin = end
    return Rows(origins=tuple(origins), records=rows.records.take(at))


def first_offsets(rows: Rows) -> dict[PartitionKey, int]:
    """The lowest offset of each partition."""
    found: dict[PartitionKey, int] = {}
    offsets = rows.records.column("offset")
    for origin, begin in _begins(rows):
        first = int(offsets[begin].as_py() or 0)
        found[origin.key] = min(first, found.get(origin.key, first))
    return found


def above(rows: Rows, marks: Mapping[PartitionKey, int]) -> Rows:
    """The rows whose offset is at least their partition's mark: what a table has already is below its own progress (R07)."""
    offsets = rows.records.column("offset")
    late = [(begin, origin) for origin, begin in _begins(rows) if marks.get(origin.key, 0) > offsets[begin].as_py()]
    if not late:
        return rows
    below: set[int] = set()
    for begin, origin in late:
        part = _compute.less(offsets.slice(begin, origin.rows), marks[origin.key])
        below.update(begin + row for row in _compute.indices_nonzero(part).to_pylist())
    return rows_at(rows, long_array(array("q", [row for row in range(len(rows)) if row not in below])))


def _begins(rows: Rows) -> list[tuple[Origin, int]]:
    ends = list(accumulate(origin.rows for origin in rows.origins))
    return [(origin, end - origin.rows) for origin, end in zip(rows.origins, ends, strict=True)]
