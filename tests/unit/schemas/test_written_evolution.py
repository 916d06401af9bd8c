"""Columns that follow writers' schemas under each policy: Avro and Protobuf, F31, F33, F37, F41, F49, F60, F94."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.schemas.avro_cases import framed, logical, record_of

from frazil.schemas import DecodeOptions, decoder_for, evolve
from frazil.schemas.ddl import describe
from frazil.schemas.framing import FramedDecoder, WriterSchema
from frazil.schemas.policy import Policy

SUFFIX = DecodeOptions(policy=Policy(conflict="suffix"))


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def list_of(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "record", "name": "I", "fields": [{"name": "x", "type": kind}]}}


class Table:
    """What a table is after the slices it has taken: columns, rows as dicts, dead letters by record number and code."""

    def __init__(self, options: DecodeOptions, schemas: Sequence[Any], *, kind: str = "avro", use_kernel: bool = True) -> None:
        decoder = decoder_for(kind, None, replace(options, use_kernel=use_kernel))
        assert isinstance(decoder, FramedDecoder)
        word = {"avro": "AVRO", "protobuf": "PROTOBUF"}[kind]
        texts = [schema if isinstance(schema, str) else json.dumps(schema) for schema in schemas]
        decoder.learn({number: WriterSchema(kind=word, text=text) for number, text in enumerate(texts, start=1)})
        self._decoder = decoder
        self.schema: pa.Schema | None = None
        self.rows: list[dict[str, Any]] = []
        self.dead: list[tuple[int, str]] = []
        self._seen = 0

    def take(self, *values: bytes | None) -> Table:
        decoded = self._decoder.decode(values, self.schema)
        before = pa.schema([]) if self.schema is None else self.schema
        self.schema = before if decoded.additions is None else evolve(before, decoded.additions)
        assert decoded.batch.schema.equals(self.schema)
        assert sorted([*decoded.rows, *(reject.row for reject in decoded.rejects)]) == list(range(len(values)))
        self.rows += decoded.batch.to_pylist()
        self.dead += [(self._seen + reject.row, reject.code) for reject in decoded.rejects]
        self._seen += len(values)
        return self

    @property
    def columns(self) -> list[str]:
        assert self.schema is not None
        return list(describe(self.schema))

    def of(self, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(row.get(name) for name in names) for row in self.rows]


ROADS = pytest.mark.parametrize("use_kernel", [False, True], ids=["twin", "kernel"])


@ROADS
@pytest.mark.parametrize("at_once", [False, True])
def test_f37_an_incompatible_change_and_old_writers_that_go_on(at_once: bool, use_kernel: bool) -> None:
    schemas = [record(qty="int"), record(qty="long"), record(qty="string")]
    history = [(1, 1), (2, 3_000_000_000), (1, 2), (3, "four"), (2, 5)]
    values = [framed(number, schemas[number - 1], {"qty": qty}) for number, qty in history]
    table = Table(SUFFIX, schemas, use_kernel=use_kernel)
    for part in [values] if at_once else [[value] for value in values]:
        table.take(*part)
    assert table.columns == ["qty long", "qty__string string"]
    assert table.of("qty", "qty__string") == [(1, None), (3_000_000_000, None), (2, None), (None, "four"), (5, None)]
    plain = Table(DecodeOptions(), schemas, use_kernel=use_kernel).take(*values)
    assert (plain.columns, plain.of("qty"), plain.dead) == (["qty long"], [(1,), (3_000_000_000,), (2,), (5,)], [(3, "wrong-type")])


@ROADS
def test_f31_columns_beside_have_the_widest_type_and_nested_ones_too(use_kernel: bool) -> None:
    old = record(v="string", s=record_of("string"), l=list_of("int"))
    new = record(v="int", s=record_of("float"), l=list_of("string"))
    newer = record(v="long", s={"type": "array", "items": "int"}, l="int")
    money = record(v=logical("bytes", "decimal", precision=4, scale=2), s="null", l="null")
    table = Table(SUFFIX, [old, new, newer, money], use_kernel=use_kernel)
    table.take(framed(1, old, {"v": "a", "s": {"v": "b"}, "l": [{"x": 1}]}))
    table.take(framed(2, new, {"v": 1, "s": {"v": 1.5}, "l": [{"x": "y"}]}), framed(3, newer, {"v": 2**40, "s": [1], "l": 7}))
    table.take(framed(4, money, {"v": Decimal("1.25"), "s": None, "l": None}), framed(1, old, {"v": "late", "s": {"v": "b"}, "l": []}))
    assert table.columns == [
        "v string",
        "s struct<v: string, v__double: double>",
        "l list<struct<x: int, x__string: string>>",
        "v__long long",
        "s__list_long list<long>",
        "l__long long",
        "v__decimal_2 decimal(38,2)",
    ]
    assert not table.dead
    assert table.of("v", "v__long", "v__decimal_2") == [
        ("a", None, None), (None, 1, None), (None, 2**40, None), (None, None, Decimal("1.25")), ("late", None, None),
    ]  # fmt: skip
    assert table.of("s", "s__list_long", "l__long")[1:3] == [({"v": None, "v__double": 1.5}, None, None), (None, [1], 7)]


@ROADS
def test_f94_an_avro_alias_goes_on_in_the_column_it_had(use_kernel: bool) -> None:
    old = record(user="string", inner=record_of("int"))
    aliased = {"name": "customer", "type": "string", "aliases": ["client", "user"]}
    inner = {"type": "record", "name": "Row", "fields": [{"name": "w", "type": ["null", "long"], "aliases": ["v"]}]}
    new = {"type": "record", "name": "R", "fields": [aliased, {"name": "inner", "type": inner}]}
    table = Table(DecodeOptions(), [old, new], use_kernel=use_kernel)
    table.take(framed(1, old, {"user": "ann", "inner": {"v": 1}})).take(framed(2, new, {"customer": "bob", "inner": {"w": 2**40}}))
    table.take(framed(1, old, {"user": "late", "inner": {"v": 3}}))
    assert table.columns == ["user string", "inner struct<v: long>"]
    assert table.of("user", "inner") == [("ann", {"v": 1}), ("bob", {"v": 2**40}), ("late", {"v": 3})]
    renamed = Table(DecodeOptions(policy=Policy(renames={"user": "customer"})), [old, new], use_kernel=use_kernel)
    renamed.take(framed(2, new, {"customer": "bob", "inner": {"w": 2}})).take(framed(1, old, {"user": "ann", "inner": {"v": 1}}))
    assert renamed.of("customer") == [("bob",), ("ann",)]
    assert renamed.columns[0] == "customer string"


def test_f41_an_alias_that_another_field_has_is_that_fields() -> None:
    both = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "b", "type": "int", "aliases": ["a"]},
            {"name": "a", "type": "int"},
            {"name": "c", "type": "int", "aliases": ["a"]},
        ],
    }
    old = record(a="int")
    table = Table(DecodeOptions(), [old, both]).take(framed(1, old, {"a": 1})).take(framed(2, both, {"b": 2, "a": 3, "c": 4}))
    assert table.of("a", "b", "c") == [(1, None, None), (3, 2, 4)]


@ROADS
def test_f49_versions_in_turns_are_one_batch(use_kernel: bool) -> None:
    old, new = record(a="int"), record(a="int", b=["null", "string"])
    values = [framed(1, old, {"a": at}) if at % 2 else framed(2, new, {"a": at, "b": "x"}) for at in range(2_000)]
    table = Table(DecodeOptions(), [old, new], use_kernel=use_kernel).take(*values)
    assert table.of("a", "b") == [(at, None if at % 2 else "x") for at in range(2_000)]


@ROADS
def test_f60_what_is_beyond_the_cap_is_json_text(use_kernel: bool) -> None:
    options = DecodeOptions(columns_max=4, policy=Policy(overflow="_extra"))
    first = record(a="int", s=record_of("int"))
    wide = record(a="int", s={**record(v="int", w="string"), "name": "Row"}, **{f"k{at}": ["null", "double"] for at in range(4000)})
    values = {"a": 2, "s": {"v": 3, "w": "x"}, **{f"k{at}": at / 2 if at % 2 else None for at in range(4000)}}
    table = Table(options, [first, wide], use_kernel=use_kernel).take(framed(1, first, {"a": 1, "s": {"v": 2}}))
    table.take(framed(2, wide, values), framed(1, first, {"a": 5, "s": {"v": 6}}))
    assert table.columns == ["_extra string", "a int", "s struct<v: int, w: string>"]
    rest = json.loads(table.rows[1]["_extra"])
    assert rest == {f"k{at}": at / 2 for at in range(4000) if at % 2}
    assert table.of("a", "s", "_extra")[::2] == [(1, {"v": 2}, None), (5, {"v": 6, "w": None}, None)]
    narrow = Table(replace(options, columns_max=3), [first, wide]).take(framed(1, first, {"a": 1, "s": {"v": 2}}))
    narrow.take(framed(2, wide, {**values, **{f"k{at}": None for at in range(4000)}}))
    assert narrow.of("s", "_extra") == [({"v": 2}, None), ({"v": 3}, '{"s":{"v":3,"w":"x"}}')], (
        "a struct with a part too many is kept whole"
    )


@ROADS
@pytest.mark.parametrize("unknown", ["ignore", "deadletter"])
def test_unknown_fields_of_schemas(unknown: str, use_kernel: bool) -> None:
    old, new = record(a="int"), record(a="long", b=["null", "string"])
    table = Table(DecodeOptions(policy=Policy(unknown=unknown)), [old, new], use_kernel=use_kernel).take(framed(1, old, {"a": 1}))
    table.take(framed(2, new, {"a": 2, "b": None}), framed(2, new, {"a": 3, "b": "x"}))
    assert table.columns == ["a int"]
    assert table.of("a") == [(1,), (2,), (3,)][: 3 if unknown == "ignore" else 2]
    assert table.dead == ([] if unknown == "ignore" else [(2, "unknown-field")])


def proto(body: str) -> str:
    return f'syntax = "proto3"; message M {{ {body} }}'


def varint_field(number: int, value: int) -> bytes:
    assert value < 128
    return bytes((number << 3, value))


def text_field(number: int, text: str) -> bytes:
    return bytes((number << 3 | 2, len(text))) + text.encode()


def message(schema_id: int, body: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + b"\0" + body


@ROADS
def test_f37_protobuf_a_changed_type_has_a_column_beside(use_kernel: bool) -> None:
    schemas = [proto("int32 qty = 1;"), proto("string qty = 1;"), proto("int64 qty = 1; string more = 2;")]
    table = Table(SUFFIX, schemas, kind="protobuf", use_kernel=use_kernel)
    table.take(message(1, varint_field(1, 7))).take(message(2, text_field(1, "x")), message(3, varint_field(1, 9) + text_field(2, "y")))
    table.take(message(1, varint_field(1, 8)))
    assert table.columns == ["qty long", "qty__string string", "more string"]
    assert table.of("qty", "qty__string", "more") == [(7, None, None), (None, "x", None), (9, None, "y"), (8, None, None)]


def test_the_same_schemas_in_another_cut_are_the_same_rows() -> None:
    schemas: list[Mapping[str, Any]] = [record(a="int"), record(a="string", b="int"), record(b="double"), record(a="long")]
    data = [{"a": 1}, {"a": "x", "b": 2}, {"b": 2.5}, {"a": 2**40}]
    values = [framed(at % 4 + 1, schemas[at % 4], data[at % 4]) for at in range(12)]
    whole = Table(SUFFIX, schemas).take(*values)
    for cut in range(1, 12):
        parts = Table(SUFFIX, schemas).take(*values[:cut]).take(*values[cut:])
        names = parts.schema.names if parts.schema is not None else []
        assert parts.of(*names) == whole.of(*names) and parts.columns == whole.columns
