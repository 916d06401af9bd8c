"""Rows read from files go by field id at every depth: what a rewrite reads is what every reader reads (F31, F94)."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.catalogs.keys import read_by_id
from frazil.catalogs.schema import to_arrow


def field(number: int, name: str, kind: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "type": kind, "required": False}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def listed(number: int, kind: Any) -> dict[str, Any]:
    return {"type": "list", "element-id": number, "element": kind, "element-required": False}


def mapped(key: int, value: int, kind: Any) -> dict[str, Any]:
    return {"type": "map", "key-id": key, "key": "string", "value-id": value, "value": kind, "value-required": False}


def file_of(schema: pa.Schema, rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), out)
    return out.getvalue()


def test_f31_a_nested_field_that_was_dropped_and_came_back_has_not_its_old_values() -> None:
    before = struct(field(2, "id", "int"), field(3, "d", "long"))
    after = struct(field(2, "key", "long"), field(9, "d", "long"), field(10, "e", "string"))
    old = to_arrow({"fields": [field(1, "c", before), field(4, "l", listed(5, {**before})), field(6, "m", mapped(7, 8, before))]})
    new = to_arrow({"fields": [field(1, "cc", after), field(4, "l", listed(5, after)), field(6, "m", mapped(7, 8, after))]})
    one = {"id": 1, "d": 2}
    data = file_of(old, [{"c": one, "l": [one, None], "m": [("k", one)]}, {"c": None, "l": None, "m": None}])
    wanted = {"key": 1, "d": None, "e": None}
    assert read_by_id(data, new, "f").to_pylist() == [
        {"cc": wanted, "l": [wanted, None], "m": [("k", wanted)]},
        {"cc": None, "l": None, "m": None},
    ]
    assert read_by_id(data, old, "f").to_pylist()[0]["c"] == one


def test_a_nested_field_that_was_dropped_does_not_stop_a_rewrite() -> None:
    old = to_arrow({"fields": [field(1, "c", struct(field(2, "a", "int"), field(3, "b", "int")))]})
    new = to_arrow({"fields": [field(1, "c", struct(field(2, "a", "int")))]})
    assert read_by_id(file_of(old, [{"c": {"a": 1, "b": 2}}]), new, "f").to_pylist() == [{"c": {"a": 1}}]
