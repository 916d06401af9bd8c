"""Every Avro type: a schema, values as a program has them, the column it gets and the values a reader of the table must see.

``docs/avro.md`` prints the table; ``tests/unit/landing/test_landing_by_schema.py`` takes the same rows to the table and back.
"""

from __future__ import annotations

import datetime
import decimal
import io
import json
import uuid
from dataclasses import dataclass
from typing import Any

import fastavro

UTC = datetime.UTC
A_UUID = uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
NODE = {"type": "record", "name": "Node", "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "Node"]}]}
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "double"}, {"name": "y", "type": ["null", "double"]}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    schema: Any
    written: tuple[Any, ...]
    column: str
    """Its type as in a column declaration; empty: no column."""
    read: tuple[Any, ...]
    about: str = ""


def logical(kind: str, logical_name: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_name, **more}


def same(schema: Any, column: str, *values: Any, about: str = "") -> Case:
    return Case(schema=schema, written=values, column=column, read=values, about=about)


def day(year: int, month: int = 1, number: int = 1) -> datetime.date:
    return datetime.date(year, month, number)


def at(*parts: int, zone: datetime.tzinfo | None = UTC) -> datetime.datetime:
    return datetime.datetime(*parts, tzinfo=zone)  # type: ignore[arg-type,misc]


CASES = (
    Case(schema="null", written=(None,), column="", read=(), about="only null: no column"),
    same("boolean", "boolean", True, False),
    same("int", "int", -(2**31), 0, 2**31 - 1),
    same("long", "long", -(2**63), 2**53 + 1, 2**63 - 1),
    same("float", "float", 0.5, -1.25, float("inf")),
    same("double", "double", 0.1, -0.0, 1e308, float("-inf")),
    same("bytes", "binary", b"", b"\x00\xff"),
    same("string", "string", "", "a\0b", "日本"),
    same({"type": "enum", "name": "Suit", "symbols": ["SPADES", "HEARTS"]}, "string", "HEARTS", "SPADES", about="the symbol"),
    same({"type": "fixed", "name": "Four", "size": 4}, "fixed(4)", b"\x00\x01\x02\xff"),
    same({"type": "array", "items": "long"}, "list<long>", [], [1, 2]),
    same({"type": "array", "items": ["null", "string"]}, "list<string>", ["a", None]),
    Case(
        schema={"type": "map", "values": "double"},
        written=({}, {"1": 1.5}),
        column="map<string, double>",
        read=([], [("1", 1.5)]),
    ),
    same(POINT, "struct<x: double, y: double>", {"x": 1.5, "y": None}, {"x": 0.0, "y": 2.0}),
    same(["null", "long"], "long", None, 5, about="optional, as every column is"),
    same(["long"], "long", 5),
    Case(
        schema=["null", "int", "string"],
        written=(None, 5, "five"),
        column="struct<int: int, string: string>",
        read=(None, {"int": 5, "string": None}, {"int": None, "string": "five"}),
        about="one field per branch; the one that was written is set",
    ),
    Case(
        schema=NODE,
        written=({"v": 1, "next": {"v": 2, "next": {"v": 3, "next": None}}}, {"v": 4, "next": None}),
        column="struct<v: int, next: string>",
        read=({"v": 1, "next": '{"v":2,"next":{"v":3,"next":null}}'}, {"v": 4, "next": None}),
        about="a type within itself is JSON text from there on",
    ),
    Case(
        schema={"type": "record", "name": "Nothing", "fields": []},
        written=({},),
        column="string",
        read=("{}",),
        about="a record without fields is JSON text: no file format holds an empty struct",
    ),
    same(logical("int", "date"), "date", day(1), day(1969, 12, 31), day(2025, 7, 1), day(9999, 12, 31)),
    same(logical("int", "time-millis"), "time", datetime.time(0), datetime.time(23, 59, 59, 999000)),
    same(logical("long", "time-micros"), "time", datetime.time(23, 59, 59, 999999)),
    same(logical("long", "timestamp-millis"), "timestamptz", at(1969, 12, 31, 23, 59, 59, 999000), at(2025, 7, 1)),
    same(logical("long", "timestamp-micros"), "timestamptz", at(1900, 1, 1, 0, 0, 0, 1), at(9999, 12, 31, 23, 59, 59, 999999)),
    same(logical("long", "local-timestamp-millis"), "timestamp", at(1969, 12, 31, 23, 59, 59, 999000, zone=None)),
    same(logical("long", "local-timestamp-micros"), "timestamp", at(1, 1, 1, zone=None), at(2025, 7, 1, 1, 2, 3, 4, zone=None)),
    same(logical("long", "timestamp-nanos"), "long", 1, -1, 2**62, about="nanoseconds since 1970: tables of version 2 hold no nanoseconds"),
    same(logical("long", "local-timestamp-nanos"), "long", 1_764_500_000_000_000_001),
    Case(schema=logical("string", "uuid"), written=(str(A_UUID),), column="uuid", read=(A_UUID,)),
    Case(schema=logical("fixed", "uuid", name="U", size=16), written=(A_UUID.bytes,), column="uuid", read=(A_UUID,)),
    same(logical("bytes", "decimal", precision=10, scale=2), "decimal(10,2)", decimal.Decimal("-12345678.91"), decimal.Decimal("0.00")),
    same(logical("fixed", "decimal", name="D", size=16, precision=38, scale=4), "decimal(38,4)", decimal.Decimal("9" * 34 + ".0001")),
    Case(
        schema=logical("bytes", "decimal", precision=50, scale=2),
        written=(decimal.Decimal("-" + "9" * 48 + ".01"),),
        column="string",
        read=("-" + "9" * 48 + ".01",),
        about="more than 38 digits: all digits as text",
    ),
    same(logical("fixed", "duration", name="Span", size=12), "fixed(12)", b"\x01" * 12, about="months, days, milliseconds as they are"),
    same(logical("long", "made-up"), "long", 7, about="an unknown logical type is left out, as Avro asks"),
)


def titled(case: Case) -> str:
    return json.dumps(case.schema)[:60]


def record_of(schema: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": "v", "type": schema}]}


def body(schema: Any, value: Any) -> bytes:
    """Avro's bytes by fastavro, an implementation that shares nothing with ours."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + body(schema, value)


def table() -> str:
    """The type table of the page."""
    lines = ["| Avro | column | |", "| --- | --- | --- |"]
    for case in CASES:
        lines.append(f"| `{_short(case.schema)}` | {f'`{case.column}`' if case.column else '–'} | {case.about} |")
    return "\n".join(lines) + "\n"


def _short(schema: Any) -> str:
    return json.dumps(schema).replace('"', "").replace("|", "/")
