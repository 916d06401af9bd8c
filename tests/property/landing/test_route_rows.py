"""Rows of a slice → rows of each table: by whole columns, and equal to doing it record by record."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.landing.decode import Origin, Rows
from frazil.landing.routesplit import above, first_offsets, rows_at, sort_rows, values_of
from frazil.landing.routevalues import HeaderReader, Texts
from frazil.landing.routing import Places, Route, clean
from frazil.records.tables import RECORD_SCHEMA
from frazil.schemas import Reject

VALUES = st.one_of(st.none(), st.sampled_from(["a", "b", "B", "c d", "c_d", "", "f", "x" * 200]), st.text(max_size=3))
SLICES = st.lists(st.lists(VALUES, min_size=1, max_size=6), max_size=5)


def flat(slices: list[list[Any]]) -> list[Any]:
    return [value for part in slices for value in part]


def headers(value: str | None) -> list[dict[str, Any]]:
    return [] if value is None else [{"key": "h", "value": b"old"}, {"key": "h", "value": value.encode()}]


def key(number: int) -> PartitionKey:
    return PartitionKey(TopicId(b"t" * 16), PartitionId(number))


def rows_of(slices: list[list[Any]]) -> Rows:
    count = sum(map(len, slices))
    origins = tuple(Origin(key=key(number), topic="t", rows=len(part)) for number, part in enumerate(slices))
    columns = {
        "offset": [10 * number + at for number, part in enumerate(slices) for at in range(len(part))],
        "timestamp_ms": [0] * count,
        "key": [None] * count,
        "value": [b"v"] * count,
        "headers": [headers(value) for value in flat(slices)],
    }
    return Rows(origins=origins, records=pa.RecordBatch.from_pydict(columns, schema=RECORD_SCHEMA))


def places(tables_max: int, default: str) -> Places:
    route = Route(by="header", name="h", pattern="l.e_{}", fixed={"f": "l.fixed"}, default=default, tables_max=tables_max)
    return Places(route=route, home="l.r_dead", taken=lambda table: "somebody" if table == "l.e_c_d" else "")


def claim_all(found: Places, values: list[str]) -> None:
    for value in values:
        place = found.find(value)
        if place.table and place.table not in found.claims:
            found.claim(place.table, place.value)


@given(slices=SLICES, tables_max=st.integers(1, 4), default=st.sampled_from(["", "l.rest"]), bad=st.sets(st.integers(0, 20)))
def test_every_row_is_in_the_one_place_of_its_value(slices: list[list[Any]], tables_max: int, default: str, bad: set[int]) -> None:
    rows, values = rows_of(slices), flat(slices)
    read = HeaderReader("h").read(rows)
    assert read.texts.to_pylist() == values and not read.rejects
    rejects = tuple(Reject(row=row, code="not-json", why="") for row in sorted(bad) if row < len(values))
    texts = Texts(texts=pa.array([None if row in bad else value for row, value in enumerate(values)], pa.string()), rejects=rejects)
    chosen = places(tables_max, default)
    claim_all(chosen, values_of(texts))
    found = sort_rows(texts, chosen)
    assert sorted([row for at in found.at.values() for row in at.to_pylist()] + [row for row, _, _ in found.letters]) == list(
        range(len(values))
    )
    for table, at in found.at.items():
        assert at.to_pylist() == sorted(at.to_pylist())
        assert all(row not in bad and chosen.find(values[row]).table == table for row in at.to_pylist())
        part = rows_at(rows, at)
        assert part.records.column("offset").to_pylist() == rows.records.column("offset").take(at).to_pylist()
        assert sum(origin.rows for origin in part.origins) == len(part) == len(at)
    for row, code, _ in found.letters:
        assert code == ("not-json" if row in bad else chosen.find(values[row]).code)


@given(values=st.lists(st.text(max_size=4), max_size=30), tables_max=st.integers(1, 6))
def test_f44_a_table_is_named_for_one_value_and_a_value_keeps_its_table(values: list[str], tables_max: int) -> None:
    found = places(tables_max, "")
    owners: dict[str, str] = {}
    for value in values:
        claim_all(found, [value])
        place = found.find(value)
        if place.table and place.value is not None:
            assert owners.setdefault(place.table, value) == value
            assert place.table == f"l.e_{clean(value)}" and place.table == place.table.lower() and place.table.isascii()
    assert len(found.claims) <= tables_max
    assert all(found.find(value).table == table for table, value in owners.items())


@given(slices=SLICES, marks=st.dictionaries(st.integers(0, 5), st.integers(0, 60), max_size=5))
def test_r07_rows_below_a_tables_own_progress_are_left_out_and_no_others(slices: list[list[Any]], marks: dict[int, int]) -> None:
    rows = rows_of(slices)
    left = above(rows, {key(number): at for number, at in marks.items()})
    every = [(number, 10 * number + at) for number, part in enumerate(slices) for at in range(len(part))]
    offsets = [offset for number, offset in every if offset >= marks.get(number, 0)]
    assert left.records.column("offset").to_pylist() == offsets
    assert sum(origin.rows for origin in left.origins) == len(offsets)
    assert first_offsets(left) == {key(number): min(o for o in offsets if o // 10 == number) for number in {o // 10 for o in offsets}}
