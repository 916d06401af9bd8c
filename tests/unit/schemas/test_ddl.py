from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.kit.errors import Refused
from frazil.schemas import parse_columns
from frazil.schemas.ddl import describe

ALL = [
    "a boolean", "b int", "c long not null", "d float", "e double", "f decimal(38,38)", "g date", "h time", "i timestamp",
    "j timestamptz", "k string", "l uuid", "m binary", "n fixed(16)", "o list<long not null>",
    "p struct<a: int, `b c`: list<struct<x: double not null>> not null>", "q map<string, struct<y: uuid>>", "`r s` long", "`t``u` long",
    "a#b long", "1st long", "日本 string", "list list<list<string>>", "not string not null",
]  # fmt: skip


def test_every_type_and_back() -> None:
    schema = parse_columns(ALL)
    assert describe(schema) == tuple(ALL)
    assert parse_columns(describe(schema)) == schema


def test_arrow_types() -> None:
    schema = parse_columns(["a timestamptz", "b decimal(10,2) not null", "c list<int>", "d map<string, long>", "e uuid", "f fixed(3)"])
    assert schema == pa.schema(
        [
            pa.field("a", pa.timestamp("us", "UTC")),
            pa.field("b", pa.decimal128(10, 2), nullable=False),
            pa.field("c", pa.list_(pa.field("element", pa.int32()))),
            pa.field("d", pa.map_(pa.string(), pa.int64())),
            pa.field("e", pa.uuid()),
            pa.field("f", pa.binary(3)),
        ]
    )


def test_blanks_case_and_quotes() -> None:
    spread = parse_columns(['  "a ""b""" \n STRUCT < x : Decimal ( 4 , 2 ) Not Null >  '])
    assert spread == parse_columns(['`a "b"` struct<x: decimal(4,2) not null>'])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x strng", "character 3: no type 'strng'; did you mean 'string'?"),
        ("x bigint", "did you mean 'long'?"),
        ("x qqq", "types are boolean, int, "),
        ("x", "character 2: expected a type, found the end"),
        ("", "character 1: expected a name, found the end"),
        ("x decimal(39,2)", "character 11: expected a whole number from 0 to 38, found '39'"),
        ("x decimal(2,3)", "character 10: decimal(2,3): need"),
        ("x decimal(0,0)", "need 1 <= precision"),
        ("x decimal(10)", "character 13: expected ',', found ')'"),
        ("x decimal(-1,0)", "found '-1'"),
        ("x fixed(0)", "expected a whole number from 1 to"),
        ("x fixed(99999999999999999999)", "expected a whole number from 1 to"),
        ("x list<int", "expected '>', found the end"),
        ("x list<>", "expected a type, found '>'"),
        ("x list<int>>", "character 12: '>' after the end"),
        ("x map<int, int>", "character 7: the key of a map is string, found 'int'"),
        ("x struct<>", "expected a name"),
        ("x struct<a int>", "expected ':', found 'int'"),
        ("x struct<a: int, A: int>", "character 18: the name 'A' is taken by another field"),
        ("x struct<a: int,>", "expected a name"),
        ("x int not nil", "expected 'null' after 'not', found 'nil'"),
        ("x int null", "'null' after the end"),
        ("Y int", "character 1: the name 'Y' is taken by column 1"),
        ("_offset int", "taken by a metadata column"),
        ("a.b int", "lands in the column 'a_b'"),
        ('"" int', "the name is empty"),
        ('"a\nb" int', "control characters"),
        ('"abc', "expected a name, found '\"'"),
        ("x " + "list<" * 100 + "int" + ">" * 100, "nested deeper than 64"),
        ("x " + "list<" * 100_000, "nested deeper than 64"),
    ],
)
def test_refusals_name_the_place(text: str, says: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_columns(["y int", text], reserved=frozenset({"_offset"}))
    assert str(refused.value).startswith("column 2 (")
    assert says in str(refused.value)
    assert len(str(refused.value)) < 400


@given(st.text(alphabet='ab<>(),:`" \t19intlslong.not nullstructdecimalmap', max_size=40))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        schema = parse_columns([text])
    except Refused:
        return
    assert parse_columns(describe(schema)) == schema


def test_describe_refuses_types_without_word() -> None:
    with pytest.raises(Refused, match=r"column a\.b\[\]: type duration"):
        describe(pa.schema([("a", pa.struct([("b", pa.list_(pa.duration("s")))]))]))
