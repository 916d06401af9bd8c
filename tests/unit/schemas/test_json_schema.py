"""JSON values with a schema id: what the schema types, what the values tell, and whose fault costs whom."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from frazil.schemas import DecodeOptions, decoder_for, evolve, parse_columns
from frazil.schemas.ddl import describe
from frazil.schemas.framing import FramedDecoder, Unknown, WriterSchema
from frazil.schemas.policy import Policy

OPTIONS = DecodeOptions(reserved=frozenset({"_offset"}))


def framed(schema_id: int, value: object) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + (value if isinstance(value, bytes) else json.dumps(value).encode())


def learnt(schemas: dict[int, Any], declared: tuple[str, ...] = (), references: tuple[tuple[str, str], ...] = ()) -> FramedDecoder:
    decoder = decoder_for("json-schema", parse_columns(declared) if declared else None, OPTIONS)
    assert isinstance(decoder, FramedDecoder)
    decoder.learn({n: WriterSchema(kind="JSON", text=json.dumps(form), references=references) for n, form in schemas.items()})
    return decoder


def columns(form: Any, value: object = None, references: tuple[tuple[str, str], ...] = ()) -> tuple[str, ...]:
    schema = {"type": "object", "properties": {"v": form}}
    decoded = learnt({1: schema}, references=references).decode([framed(1, {} if value is None else {"v": value})])
    assert not decoded.rejects
    return describe(decoded.batch.schema)


POINT = {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": ["null", "integer"]}}}


@pytest.mark.parametrize(
    ("form", "column"),
    [
        ({"type": "boolean"}, "boolean"),
        ({"type": "integer"}, "long"),
        ({"type": "number"}, "double"),
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "date-time"}, "timestamptz"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "uuid"}, "uuid"),
        ({"type": "string", "format": "time"}, "string"),
        ({"type": ["integer", "null"]}, "long"),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, "string"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "double"),
        ({"type": "array", "items": {"type": "integer"}}, "list<long>"),
        (POINT, "struct<x: double, y: long>"),
        ({"type": "array", "items": POINT}, "list<struct<x: double, y: long>>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "map<string, double>"),
        ({"$ref": "point.json"}, "struct<x: double, y: long>"),
        ({"$ref": "point.json#/properties/y"}, "long"),
    ],
    ids=str,
)
def test_a_schema_types_its_column_before_any_value(form: Any, column: str) -> None:
    assert columns(form, references=(("point.json", json.dumps(POINT)),)) == (f"v {column}",)


@pytest.mark.parametrize(
    "form",
    [
        {},
        True,
        {"type": ["integer", "string"]},
        {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        {"type": "object"},
        {"type": "array"},
        {"$ref": "#/nowhere"},
        {"$ref": "#/properties/v"},
        {"$ref": 5},
        {"type": 5},
        {"enum": [1, 2]},
    ],
    ids=str,
)
def test_where_a_schema_says_nothing_the_values_do(form: Any) -> None:
    assert columns(form) == ()
    assert columns(form, 5) == ("v long",)


def test_references_within_the_schema() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/id"}, "b": {"$ref": "#/definitions/x~1y"}},
        "$defs": {"id": {"type": "integer"}},
        "definitions": {"x/y": {"type": "string"}},
    }
    assert describe(learnt({1: schema}).decode([framed(1, {})]).batch.schema) == ("a long", "b string")


def test_a_schema_within_itself_ends() -> None:
    schema = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#"}}}
    decoded = learnt({1: schema}).decode([framed(1, {"v": 1, "next": {"v": 2}})])
    assert not decoded.rejects
    assert decoded.batch.to_pylist()[0]["next"]["v"] == 2


def test_the_order_of_records_does_not_decide_types() -> None:
    schema = {"type": "object", "properties": {"price": {"type": "number"}, "at": {"type": "string", "format": "date-time"}}}
    decoded = learnt({1: schema}).decode([framed(1, {"price": 1}), framed(1, {"price": 1.5, "at": "2025-07-01T00:00:00Z", "more": True})])
    assert describe(decoded.batch.schema) == ("price double", "at timestamptz", "more boolean")


def test_tables_grow_and_old_writers_go_on() -> None:
    old = {"type": "object", "properties": {"a": {"type": "integer"}}}
    new = {"type": "object", "properties": {"A": {"type": "integer"}, "b": {"type": "string"}, "_offset": {"type": "integer"}}}
    decoder = learnt({1: old, 2: new})
    now = decoder.decode([framed(1, {"a": 1})]).batch.schema
    decoded = decoder.decode([framed(1, {"a": 2}), framed(2, {"A": 3, "b": "x", "_offset": 9})], now)
    assert describe(decoded.batch.schema) == ("a long", "b string", "_offset_ long")
    assert decoded.additions is not None and evolve(now, decoded.additions) == decoded.batch.schema
    assert decoded.batch.to_pylist() == [{"a": 2, "b": None, "_offset_": None}, {"a": 3, "b": "x", "_offset_": 9}]


def test_a_bad_record_costs_itself_and_nobody_else() -> None:
    decoder = learnt({})
    decoder.learn(
        {
            1: WriterSchema(kind="JSON", text='{"properties": {"a": {"type": "integer"}}}'),
            2: Unknown(code="unknown-schema", why="no 2"),
            3: WriterSchema(kind="AVRO", text='"string"'),
            4: WriterSchema(kind="JSON", text="no json"),
        }
    )
    good = framed(1, {"a": 1})
    bad = [
        b"{}",
        framed(2, {}),
        framed(3, {}),
        framed(4, {}),
        framed(1, b"{"),
        framed(1, b""),
        framed(1, {"a": "x"}),
        framed(1, {"a": 1.5}),
    ]
    decoded = decoder.decode([good, *bad, None, good])
    codes = ["not-framed", "unknown-schema", "bad-schema", "bad-schema", "not-json", "empty", "wrong-type", "not-exact"]
    assert [(reject.row, reject.code) for reject in decoded.rejects] == list(enumerate(codes, start=1))
    assert list(decoded.rows) == [0, 9, 10]
    assert decoded.batch.to_pylist() == [{"a": 1}, {"a": None}, {"a": 1}]


def test_declared_columns_are_the_columns() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    decoded = learnt({1: schema}, ("a long",)).decode([framed(1, {"a": 1, "b": "x"}), framed(1, {"a": "x"})])
    assert decoded.additions is None
    assert decoded.batch.to_pylist() == [{"a": 1}]
    assert [reject.code for reject in decoded.rejects] == ["wrong-type"]


def test_a_schema_that_asks_for_too_much_types_nothing_and_ends() -> None:
    form: Any = {"type": "integer"}
    definitions = {}
    for level in range(40):
        definitions[f"d{level}"] = {"type": "object", "properties": {"a": form, "b": form}}
        form = {"$ref": f"#/definitions/d{level}"}
    decoded = learnt({1: {"properties": {"v": form}, "definitions": definitions}}).decode([framed(1, {"w": 1})])
    assert describe(decoded.batch.schema) == ("w long",)


def test_the_page_names_every_format() -> None:
    page = (pathlib.Path(__file__).parents[3] / "docs" / "json-schema.md").read_text()
    assert "`format: date-time`, `date`, `uuid` | `timestamptz`, `date`, `uuid`" in page


def test_f37_policies_hold_for_columns_that_a_schema_types() -> None:
    old = {"type": "object", "properties": {"v": {"type": "integer"}, "user": {"type": "string"}}}
    new = {
        "type": "object",
        "properties": {"v": {"type": "string", "format": "date"}, "user": {"type": "string"}, "w": {"type": "boolean"}},
    }

    def decoder(**policy: Any) -> FramedDecoder:
        found = decoder_for("json-schema", None, DecodeOptions(policy=Policy(**policy)))
        assert isinstance(found, FramedDecoder)
        found.learn({n: WriterSchema(kind="JSON", text=json.dumps(form)) for n, form in ((1, old), (2, new))})
        return found

    first = b'\0\0\0\0\1{"v":1,"user":"ann"}'
    later = b'\0\0\0\0\2{"v":"2025-07-01","user":"bob","w":true}'
    beside = decoder(conflict="suffix")
    had = beside.decode([first]).batch.schema
    decoded = beside.decode([later, first], had)
    assert describe(decoded.batch.schema) == ("v long", "user string", "w boolean", "v__string string")
    assert [row["v__string"] for row in decoded.batch.to_pylist()] == ["2025-07-01", None]
    closed = decoder(unknown="ignore").decode([later.replace(b'"2025-07-01"', b"2")], had)
    assert (describe(closed.batch.schema), closed.batch.to_pylist()) == (("v long", "user string"), [{"v": 2, "user": "bob"}])
    kept = decoder(unknown="ignore", overflow="_extra").decode([later.replace(b'"2025-07-01"', b"2")], had)
    assert kept.batch.to_pylist() == [{"v": 2, "user": "bob", "_extra": '{"w":true}'}]
    assert kept.additions is not None and kept.additions.names == ["_extra"]
    renamed = decoder(renames={"user": "customer"}).decode([first])
    assert describe(renamed.batch.schema) == ("v long", "customer string")
