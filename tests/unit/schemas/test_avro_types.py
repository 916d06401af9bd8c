"""Avro values in typed columns: every type, and what is judged value by value."""

from __future__ import annotations

import decimal
import json
import math
import pathlib
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.schemas.avro_cases import CASES, Case, framed, record_of, table, titled

from frazil.schemas import Decoded, DecodeOptions, decoder_for, evolve, parse_columns
from frazil.schemas.avro.schemas import compile_avro
from frazil.schemas.avro.written import WrittenDecoder
from frazil.schemas.ddl import describe
from frazil.schemas.framing import FRAMED_CODES, FramedDecoder, Unknown, WriterSchema, ids_of

OPTIONS = DecodeOptions()
PAGE = pathlib.Path(__file__).parents[3] / "docs" / "avro.md"


def avro(schemas: dict[int, Any], declared: pa.Schema | None = None, options: DecodeOptions = OPTIONS) -> FramedDecoder:
    decoder = decoder_for("avro", declared, options)
    assert isinstance(decoder, FramedDecoder)
    decoder.learn({number: WriterSchema(kind="AVRO", text=json.dumps(schema)) for number, schema in schemas.items()})
    return decoder


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def verdicts(decoded: Decoded) -> list[tuple[int, str]]:
    return [(reject.row, reject.code) for reject in decoded.rejects]


@pytest.mark.parametrize("case", CASES, ids=titled)
def test_f41_a_type_has_its_column_and_its_values(case: Case) -> None:
    schema = record_of(case.schema)
    decoded = avro({1: schema}).decode([framed(1, schema, {"v": value}) for value in case.written])
    assert not decoded.rejects
    assert describe(decoded.batch.schema) == ((f"v {case.column}",) if case.column else ())
    if case.column:
        assert decoded.batch.column("v").to_pylist() == list(case.read)


@pytest.mark.parametrize("case", [case for case in CASES if case.column], ids=titled)
def test_the_columns_of_a_schema_can_be_declared_too(case: Case) -> None:
    schema = record_of(case.schema)
    decoded = avro({1: schema}, parse_columns([f"v {case.column}"])).decode([framed(1, schema, {"v": value}) for value in case.written])
    assert not decoded.rejects
    assert decoded.additions is None
    assert decoded.batch.column("v").to_pylist() == list(case.read)


def test_nan_stays_nan() -> None:
    decoded = avro({1: record(v="double")}).decode([framed(1, record(v="double"), {"v": math.nan})])
    assert math.isnan(decoded.batch.column("v")[0].as_py())


def test_a_schema_that_is_no_record_fills_the_column_value() -> None:
    decoded = avro({1: "string"}).decode([framed(1, "string", "x"), None])
    assert decoded.batch.to_pylist() == [{"value": "x"}, {"value": None}]


def test_columns_grow_and_widen_with_the_writers_and_old_writers_go_on() -> None:
    old = record(a="int", s={"type": "record", "name": "S", "fields": [{"name": "x", "type": "float"}]})
    new = record(
        a=["null", "long"],
        b={"type": "string", "default": "d"},
        s={"type": "record", "name": "S", "fields": [{"name": "x", "type": "double"}, {"name": "y", "type": "int", "default": 0}]},
    )
    decoder = avro({1: old, 2: new})
    first = decoder.decode([framed(1, old, {"a": 1, "s": {"x": 0.5}})])
    table_now = first.batch.schema
    values = [
        framed(2, new, {"a": 2**40, "b": "x", "s": {"x": 0.1, "y": 3}}),
        framed(1, old, {"a": 7, "s": {"x": 1.5}}),
        framed(2, new, {"a": None, "b": "", "s": {"x": 0.0, "y": 0}}),
    ]
    decoded = decoder.decode(values, table_now)
    assert describe(decoded.batch.schema) == ("a long", "s struct<x: double, y: int>", "b string")
    assert decoded.additions is not None
    assert evolve(table_now, decoded.additions) == decoded.batch.schema
    assert decoded.batch.to_pylist() == [
        {"a": 2**40, "s": {"x": 0.1, "y": 3}, "b": "x"},
        {"a": 7, "s": {"x": 1.5, "y": None}, "b": None},
        {"a": None, "s": {"x": 0.0, "y": 0}, "b": ""},
    ]
    assert decoder.decode(values, decoded.batch.schema).additions is None


def test_a_field_whose_type_changed_costs_only_the_records_that_do_not_fit() -> None:
    old, new = record(a="long", b="int"), record(a=["null", "string"], b="int")
    decoder = avro({1: old, 2: new})
    decoded = decoder.decode([framed(1, old, {"a": 1, "b": 1}), framed(2, new, {"a": "x", "b": 2}), framed(2, new, {"a": None, "b": 3})])
    assert verdicts(decoded) == [(1, "wrong-type")]
    assert decoded.rejects[0].why.startswith("a: ")
    assert decoded.batch.to_pylist() == [{"a": 1, "b": 1}, {"a": None, "b": 3}]


def test_a_union_in_a_column_of_one_of_its_branches_lands_where_it_fits() -> None:
    new = record(a=["null", "int", "string"])
    decoder = avro({1: record(a="long"), 2: new})
    values = [framed(1, record(a="long"), {"a": 1}), *(framed(2, new, {"a": value}) for value in (2, "x", None))]
    decoded = decoder.decode(values)
    assert verdicts(decoded) == [(2, "wrong-type")]
    assert decoded.batch.column("a").to_pylist() == [1, 2, None]


def test_a_plain_value_lands_in_the_union_column_it_became() -> None:
    union = record(a=["int", "string"])
    decoded = avro({1: union, 2: record(a="int")}).decode([framed(1, union, {"a": "x"}), framed(2, record(a="int"), {"a": 5})])
    assert decoded.batch.column("a").to_pylist() == [{"int": None, "string": "x"}, {"int": 5, "string": None}]


def test_nothing_nested_is_left_out_in_silence() -> None:
    """A field that cannot join its struct (the struct has another type for its neighbour) has no column: its records are rejects."""
    old = record(s={"type": "record", "name": "S", "fields": [{"name": "x", "type": "int"}]})
    new = record(s={"type": "record", "name": "S", "fields": [{"name": "x", "type": "string"}, {"name": "y", "type": ["null", "int"]}]})
    decoder = avro({1: old, 2: new})
    decoded = decoder.decode([framed(1, old, {"s": {"x": 1}}), framed(2, new, {"s": {"x": "1", "y": 5}})])
    assert verdicts(decoded) == [(1, "wrong-type")]


@pytest.mark.parametrize(
    ("column", "kind", "value", "code"),
    [
        ("int", "long", 2**31, "out-of-range"),
        ("double", "long", 2**53 + 1, "not-exact"),
        ("float", "double", 0.1, "not-exact"),
        ("float", "double", 1e39, "out-of-range"),
        ("decimal(4,2)", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}, decimal.Decimal("1.005"), "not-exact"),
        ("decimal(4,2)", "int", 100, "out-of-range"),
        ("fixed(3)", {"type": "fixed", "name": "F", "size": 4}, b"1234", "wrong-type"),
        ("timestamptz", "long", 5, "wrong-type"),
        ("timestamp", {"type": "long", "logicalType": "timestamp-micros"}, 5, "wrong-type"),
        ("timestamptz", {"type": "long", "logicalType": "timestamp-millis"}, 2**62, "out-of-range"),
        ("timestamptz", {"type": "long", "logicalType": "timestamp-nanos"}, 1, "not-exact"),
        ("date", {"type": "int", "logicalType": "date"}, 2**31 - 1, "out-of-range"),
        ("time", {"type": "int", "logicalType": "time-millis"}, 86_400_000, "out-of-range"),
        ("uuid", {"type": "string", "logicalType": "uuid"}, "no uuid", "bad-text"),
        ("long not null", ["null", "long"], None, "required"),
        ("string", "int", 5, "wrong-type"),
    ],
)
def test_f41_what_does_not_fit_exactly_is_a_reject(column: str, kind: Any, value: Any, code: str) -> None:
    raw = kind["type"] if isinstance(kind, dict) and isinstance(value, int) else kind  # fastavro has no dates beyond the calendar
    decoded = avro({1: record(v=kind)}, parse_columns([f"v {column}"])).decode([framed(1, record(v=raw), {"v": value})])
    assert verdicts(decoded) == [(0, code)]


def test_a_timestamp_in_nanoseconds_fits_a_declared_column_when_it_is_exact() -> None:
    kind = {"type": "long", "logicalType": "timestamp-nanos"}
    decoded = avro({1: record(v=kind)}, parse_columns(["v timestamptz"])).decode([framed(1, record(v="long"), {"v": -1000})])
    assert decoded.batch.column("v").cast(pa.int64()).to_pylist() == [-1]


def test_names_are_those_of_json_values() -> None:
    schema = record(_offset="int", userId="int", USERID=["null", "int"])
    options = DecodeOptions(reserved=frozenset({"_offset"}))
    decoder = avro({1: schema, 2: record(USERID="int")}, options=options)
    decoded = decoder.decode([framed(2, record(USERID="int"), {"USERID": 5})], parse_columns(["userid int"]))
    assert decoded.batch.to_pylist() == [{"userid": 5}]
    decoded = decoder.decode([framed(1, schema, {"_offset": 1, "userId": 2, "USERID": 3})])
    assert verdicts(decoded) == [(0, "ambiguous-name")]
    assert decoded.batch.schema.names == ["_offset_", "userId"]


def test_a_slice_in_parts_is_the_slice_as_a_whole() -> None:
    """Parts bound memory; a schema that comes late makes the parts before it grow too. All types, so that all can be joined."""
    old = record(a="int")
    new = {"type": "record", "name": "All", "fields": [{"name": f"c{at}", "type": case.schema} for at, case in enumerate(CASES)]}
    values: list[bytes | None] = [framed(1, old, {"a": at}) for at in range(5)]
    values += [framed(2, new, {f"c{at}": case.written[0] for at, case in enumerate(CASES)}), None, b"junk"]
    values += [framed(1, old, {"a": 9}), framed(1, record(a="long"), {"a": 2**40})]
    whole = avro({1: old, 2: new}).decode(values)
    for rows in (1, 2, 3, 7):
        decoder = WrittenDecoder(None, OPTIONS, "AVRO", compile_avro, part_rows=rows)
        decoder.learn({n: WriterSchema(kind="AVRO", text=json.dumps(form)) for n, form in ((1, old), (2, new))})
        parts = decoder.decode(values)
        assert (parts.batch.schema, parts.rows, parts.rejects, parts.additions) == (
            whole.batch.schema,
            whole.rows,
            whole.rejects,
            whole.additions,
        )
        assert parts.batch.to_pylist() == whole.batch.to_pylist()


BAD = {
    "empty": (b"", "not-framed"),
    "no magic": (b"\x01\0\0\0\x01\x02", "not-framed"),
    "short": (b"\0\0\0\0", "not-framed"),
    "no such schema": (b"\0\0\0\0\x09\x02", "unknown-schema"),
    "nothing behind the id": (b"\0\0\0\0\x01", "not-avro"),
    "cut": (b"\0\0\0\0\x01\x06ab", "not-avro"),
    "more behind": (b"\0\0\0\0\x01\x02a\0", "not-avro"),
    "negative length": (b"\0\0\0\0\x01\x01", "not-avro"),
    "number without end": (b"\0\0\0\0\x01" + b"\xff" * 20, "not-avro"),
    "not UTF-8": (b"\0\0\0\0\x01\x02\xff", "not-utf8"),
    "too large": (b"\0\0\0\0\x01" + bytes(200), "too-large"),
}


def test_a_bad_record_costs_itself_and_nobody_else() -> None:
    good = framed(1, record(a="string"), {"a": "x"})
    values = [good]
    for value, _ in BAD.values():
        values += [value, good]
    decoder = avro({1: record(a="string")}, options=DecodeOptions(value_bytes_max=100))
    decoder.learn({1: WriterSchema(kind="AVRO", text=json.dumps(record(a="string"))), 9: Unknown(code="unknown-schema", why="no 9")})
    decoded = decoder.decode(values)
    assert [code for _, code in verdicts(decoded)] == [code for _, code in BAD.values()]
    assert list(decoded.rows) == list(range(0, len(values), 2))
    assert decoded.batch.column("a").to_pylist() == ["x"] * len(decoded.rows)
    assert ids_of(pa.array(values, pa.binary())) == (1, 9)


BAD_SCHEMAS = [
    "no json",
    "{}",
    '"Missing"',
    "[]",
    '["int", "int"]',
    '[["int"], "string"]',
    '{"type": "record", "name": "R", "fields": 5}',
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
    '{"type": "record", "name": "R", "fields": [{"name": "", "type": "int"}]}',
    '{"type": "enum", "name": "E", "symbols": []}',
    '{"type": "fixed", "name": "F", "size": -1}',
    '{"type": "array", "items": "null"}',
    '{"type": "array"}',
    "[" * 100_000,
]


@pytest.mark.parametrize("text", BAD_SCHEMAS, ids=range(len(BAD_SCHEMAS)))
def test_a_schema_that_cannot_be_used_is_named_in_every_reject(text: str) -> None:
    decoder = avro({})
    decoder.learn({5: WriterSchema(kind="AVRO", text=text)})
    decoded = decoder.decode([b"\0\0\0\0\x05\x02", b"\0\0\0\0\x05"])
    assert verdicts(decoded) == [(0, "bad-schema"), (1, "bad-schema")]
    assert decoded.rejects[0].why.startswith("schema 5: ")


def test_types_come_from_references_too_also_when_two_names_mean_one_text() -> None:
    point = json.dumps({"type": "record", "name": "Point", "namespace": "geo", "fields": [{"name": "x", "type": "int"}]})
    line = {
        "type": "record",
        "name": "Line",
        "namespace": "geo",
        "fields": [{"name": "a", "type": "Point"}, {"name": "b", "type": "geo.Point"}],
    }
    decoder = avro({})
    decoder.learn({1: WriterSchema(kind="AVRO", text=json.dumps(line), references=(("geo.Point", point), ("Point", point)))})
    assert decoder.decode([b"\0\0\0\0\x01\x02\x04"]).batch.to_pylist() == [{"a": {"x": 1}, "b": {"x": 2}}]


def test_a_schema_of_another_kind_is_told_apart() -> None:
    decoder = avro({})
    decoder.learn({5: WriterSchema(kind="PROTOBUF", text="")})
    (reject,) = decoder.decode([b"\0\0\0\0\x05\x02"]).rejects
    assert (reject.code, "PROTOBUF" in reject.why) == ("bad-schema", True)


def test_a_schema_that_names_one_type_again_and_again_is_bounded() -> None:
    inner: Any = {"type": "record", "name": "L0", "fields": [{"name": "x", "type": "int"}]}
    for level in range(1, 25):
        inner = {"type": "record", "name": f"L{level}", "fields": [{"name": "a", "type": inner}, {"name": "b", "type": f"L{level - 1}"}]}
    decoder = avro({1: inner, 2: record(a="int")})
    decoded = decoder.decode([framed(2, record(a="int"), {"a": 1}), b"\0\0\0\0\x01" + bytes(2**24 // 64)])
    assert [code for _, code in verdicts(decoded)] in (["too-many-columns"], ["not-avro"])
    assert decoded.batch.to_pylist() == [{"a": 1}]


def test_a_record_nested_in_itself_without_end_is_too_deep() -> None:
    schema = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    decoded = avro({1: schema}).decode([b"\0\0\0\0\x01" + b"\x02" * 60 + b"\0", b"\0\0\0\0\x01" + b"\x02" * 100_000 + b"\0"])
    assert verdicts(decoded) == [(1, "too-deep")]


def test_a_block_that_promises_more_items_than_bytes_is_refused_at_once() -> None:
    schema = {"type": "array", "items": "int"}
    decoded = avro({1: schema}).decode([b"\0\0\0\0\x01" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"])
    assert verdicts(decoded) == [(0, "not-avro")]


def test_a_decimal_of_a_million_digits_is_a_reject_and_costs_nothing() -> None:
    wide, wider = ({"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": 2} for digits in (4000, 10**12))
    huge = b"\x7f" + bytes(400_000)
    for column in ((), ("v string",), ("v decimal(38,2)",)):
        declared = parse_columns(column) if column else None
        decoded = avro({1: record(v=wide)}, declared).decode(
            [framed(1, record(v="bytes"), {"v": huge}), framed(1, record(v="bytes"), {"v": b""})]
        )
        assert verdicts(decoded) == [(0, "out-of-range")]
    assert avro({1: record(v=wider)}).decode([framed(1, record(v="bytes"), {"v": huge})]).batch.to_pylist() == [{"v": huge}]


def test_f43_no_value_is_a_row_of_nulls_or_a_reject() -> None:
    assert avro({1: record(a="int")}).decode([framed(1, record(a="int"), {"a": 1}), None]).batch.to_pylist() == [{"a": 1}, {"a": None}]
    assert verdicts(avro({}, options=DecodeOptions(null_value_rows=False)).decode([None])) == [(0, "null-value")]


def test_the_page_has_every_type_and_every_code() -> None:
    page = PAGE.read_text()
    assert table() in page
    for code, meaning in FRAMED_CODES.items():
        if code == "not-protobuf":
            continue
        assert f"| `{code}` | {meaning} |" in page
