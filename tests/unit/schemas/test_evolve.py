from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.kit.errors import Refused
from frazil.schemas import DecodeOptions, decoder_for, evolve, parse_columns


def test_new_fields_come_last_and_optional() -> None:
    grown = evolve(parse_columns(["b long not null", "a long"]), parse_columns(["c string not null", "a long"]))
    assert grown == parse_columns(["b long not null", "a long", "c string"])


def test_nested() -> None:
    had = parse_columns(["s struct<a: long not null>", "l list<struct<a: long> not null>", "m map<string, struct<a: long>>"])
    seen = parse_columns(["s struct<b: struct<c: int>>", "l list<struct<b: int>>", "m map<string, struct<b: int>>"])
    assert evolve(had, seen) == parse_columns(
        [
            "s struct<a: long not null, b: struct<c: int>>",
            "l list<struct<a: long, b: int> not null>",
            "m map<string, struct<a: long, b: int>>",
        ]
    )


@pytest.mark.parametrize(
    ("had", "seen", "has"),
    [
        ("int", "long", "long"),
        ("long", "int", "long"),
        ("float", "double", "double"),
        ("decimal(9,2)", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(12,2)", "decimal(9,2)", "decimal(12,2)"),
        ("list<int>", "list<long>", "list<long>"),
    ],
)
def test_widening(had: str, seen: str, has: str) -> None:
    assert evolve(parse_columns([f"v {had}"]), parse_columns([f"v {seen}"])) == parse_columns([f"v {has}"])


@pytest.mark.parametrize(
    ("had", "seen"),
    [
        ("long", "double"), ("long", "string"), ("string", "timestamptz"), ("timestamp", "timestamptz"), ("decimal(9,2)", "decimal(9,3)"),
        ("fixed(2)", "fixed(3)"), ("list<long>", "long"), ("struct<a: long>", "map<string, long>"), ("long", "struct<a: long>"),
    ],
)  # fmt: skip
def test_promotions_iceberg_lacks_are_refused(had: str, seen: str) -> None:
    with pytest.raises(Refused, match=r"column s\.v"):
        evolve(parse_columns([f"s struct<v: {had}>"]), parse_columns([f"s struct<v: {seen}>"]))


def test_field_metadata_and_large_types_stay() -> None:
    """A schema read from a table carries field ids and large types; growth leaves them alone."""
    item = pa.field("element", pa.struct([pa.field("x", pa.large_string(), metadata={"PARQUET:field_id": "3"})]))
    had = pa.schema([pa.field("l", pa.large_list(item), metadata={"PARQUET:field_id": "1"})], metadata={"k": "v"})
    decoded = decoder_for("json", None, DecodeOptions()).decode([b'{"l":[{"x":"a","y":1}]}', b'{"l":[{"x":"b"}]}'], had)
    grown = decoded.batch.schema
    assert grown.metadata == {b"k": b"v"}
    assert grown.field("l").metadata == {b"PARQUET:field_id": b"1"}
    assert pa.types.is_large_list(grown.field("l").type)
    assert grown.field("l").type.value_type[0].metadata == {b"PARQUET:field_id": b"3"}
    assert decoded.batch.to_pylist() == [{"l": [{"x": "a", "y": 1}]}, {"l": [{"x": "b", "y": None}]}]


def test_widening_metadata() -> None:
    had = pa.schema([pa.field("v", pa.int32(), metadata={"k": "v"})])
    assert evolve(had, parse_columns(["v long"])).field("v").metadata == {b"k": b"v"}
