"""The JSON decoder against itself (quick road = exact road), against a naive reading, and against broken bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from frazil.schemas import Decoded, DecodeOptions, evolve, parse_columns
from frazil.schemas.json import JsonDecoder
from frazil.schemas.port import REJECT_CODES

NAMES = ["a", "b", "A", "a.b", "a_b", "_offset", "_offset_", "c d", ""]
SCALARS = [
    "boolean", "int", "long", "float", "double", "decimal(6,2)", "decimal(38,10)", "date", "time", "timestamp", "timestamptz",
    "string", "uuid", "binary", "fixed(2)",
]  # fmt: skip
NUMBER_TEXTS = [
    "0", "-0", "1", "-1", "1.0", "1e3", "1.5", "1.25", "1.125", "1e-2", "0.1", "-0.0", "2147483647", "2147483648", "9007199254740993",
    "9007199254740992", "16777217", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e308", "1e309", "1e39",
    "1e999999999", "1e-999999999", "123456789012345678901234567890", "1234.56", "12345.6", "1E+2", "0e99999999999999999999",
]  # fmt: skip
STRING_TEXTS = [
    '"x"', '""', '"1"', '"true"', '"\\u00e9\\n"', '"\\ud83d\\ude00"', '"\\ud83d"', '"é 😀"', '"2025-07-01"', '"2025-02-30"', '"10:00"',
    '"2025-07-01T10:00:00Z"', '"2025-07-01T10:00:00.123456+02:00"', '"2025-07-01 10:00:00"', '"2025-07-01T10:00:00.1234567Z"',
    '"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"', '"AP8="', '"AP9="', '"[{[{"', '"\\\\"', '"\\""',
]  # fmt: skip

leaf_texts = st.one_of(
    st.sampled_from(["null", "true", "false", "[]", "{}"]),
    st.sampled_from(NUMBER_TEXTS),
    st.sampled_from(STRING_TEXTS),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.text().map(json.dumps),
)
blanks = st.sampled_from(["", "", "", " ", "\n", "\t "])


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(st.sampled_from(NAMES).map(json.dumps), blanks, values), max_size=4)
    return pairs.map(lambda found: "{" + ",".join(f"{name}{blank}:{value}" for name, blank, value in found) + "}")


json_texts = st.recursive(
    leaf_texts,
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(lambda found: "[" + ", ".join(found) + "]"), objects(inner)),
    max_leaves=6,
)
documents = st.one_of(
    st.none(),
    objects(json_texts).map(str.encode),
    objects(json_texts).map(str.encode),
    st.tuples(blanks, objects(json_texts), st.sampled_from(["", " ", "x", "{}"])).map(lambda parts: "".join(parts).encode()),
    json_texts.map(str.encode),
    st.binary(max_size=8),
)
types = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        inner.map(lambda word: f"list<{word}>"),
        inner.map(lambda word: f"map<string, {word}>"),
        st.tuples(inner, inner, st.sampled_from(["", " not null"])).map(lambda pair: f"struct<a: {pair[0]}{pair[2]}, `c d`: {pair[1]}>"),
    ),
    max_leaves=3,
)


@st.composite
def schemas(draw: st.DrawFn) -> pa.Schema:
    names = draw(st.lists(st.sampled_from(["a", "b", "a_b", "_offset_", "`c d`"]), unique=True, max_size=4))
    return parse_columns([f"{name} {draw(types)}{draw(st.sampled_from(['', '', '', ' not null']))}" for name in names])


OPTIONS = DecodeOptions(reserved=frozenset({"_offset"}), columns_max=12)


def same(left: Decoded, right: Decoded) -> None:
    assert left.rows == right.rows
    assert left.rejects == right.rejects
    assert left.additions == right.additions
    assert left.batch.schema == right.batch.schema
    # by bytes, so that 0.0 and -0.0 differ
    assert left.batch.to_pylist() == right.batch.to_pylist()
    assert repr(left.batch.to_pylist()) == repr(right.batch.to_pylist())


def check_aligned(decoded: Decoded, count: int) -> None:
    rejected = [reject.row for reject in decoded.rejects]
    assert sorted([*decoded.rows, *rejected]) == list(range(count))
    assert rejected == sorted(rejected)
    assert list(decoded.rows) == sorted(decoded.rows)
    assert decoded.batch.num_rows == len(decoded.rows)
    assert all(reject.code in REJECT_CODES and 0 < len(reject.why) <= 300 for reject in decoded.rejects)
    decoded.batch.validate(full=True)


@settings(max_examples=150, deadline=None)
@given(schemas(), st.lists(documents, max_size=6))
@example(parse_columns(["a long"]), [b'{"a":1.0}', b'{"A":2}', b'{"a":9007199254740993.0}'])
def test_declared_quick_is_exact(schema: pa.Schema, values: list[bytes | None]) -> None:
    quick = JsonDecoder(schema, OPTIONS).decode(values)
    check_aligned(quick, len(values))
    same(quick, JsonDecoder(schema, OPTIONS, quick=False).decode(values))
    for row, value in enumerate(values):  # and each record alone has the answer it has in company
        alone = JsonDecoder(schema, OPTIONS).decode([value])
        assert (list(alone.rows) == [0]) == (row in quick.rows)


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.just(pa.schema([])), schemas()), st.lists(documents, max_size=6))
def test_inferred_quick_is_exact(schema: pa.Schema, values: list[bytes | None]) -> None:
    quick = JsonDecoder(None, OPTIONS).decode(values, schema)
    for sample in (0, 1, 2):
        same(quick, JsonDecoder(None, OPTIONS, sample=sample).decode(values, schema))
    check_aligned(quick, len(values))
    same(quick, JsonDecoder(None, OPTIONS, quick=False).decode(values, schema))
    grown = quick.batch.schema
    assert (schema if quick.additions is None else evolve(schema, quick.additions)) == grown
    assert grown.names[: len(schema)] == schema.names
    assert len({name.lower() for name in grown.names}) == len(grown.names)
    again = JsonDecoder(None, OPTIONS).decode([values[row] for row in quick.rows], grown)
    assert again.additions is None, "what landed is known"
    assert again.batch == quick.batch or repr(again.batch.to_pylist()) == repr(quick.batch.to_pylist())


few_names = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "A", "b"]),
        st.sampled_from(
            ["1", "1.0", "1.5", "9007199254740993", "1180591620717411303424", "null", "[]", "[1]", "[1.0]", '"x"', '{"x":1.5}']
        ),
    ),
    max_size=8,
)


@settings(max_examples=250, deadline=None)
@given(few_names, st.sampled_from([(), ("d decimal(4,2)",)]), st.integers(0, 3))
@example([{"a": "1"}, {"a": "9007199254740993"}, {"a": "1.5"}], (), 1)
@example([{"a": "1"}, {"a": "1.0"}], ("d decimal(4,2)",), 1)
def test_sampled_inference_is_inference_in_order(found: list[dict[str, str]], had: tuple[str, ...], sample: int) -> None:
    values = [("{" + ",".join(f'"{name}":{text}' for name, text in one.items()) + "}").encode() for one in found]
    table = parse_columns(had)
    in_order = JsonDecoder(None, OPTIONS, quick=False).decode(values, table)
    check_aligned(in_order, len(values))
    same(in_order, JsonDecoder(None, OPTIONS, sample=sample).decode(values, table))


class Unfit(Exception):
    pass


def naive(value: Any, arrow: pa.DataType) -> Any:
    """What a value becomes, by the shortest code that is right for the types of this test."""
    if value is None:
        return None
    if pa.types.is_boolean(arrow) and isinstance(value, bool):
        return value
    if isinstance(value, bool):
        raise Unfit
    if pa.types.is_string(arrow) and isinstance(value, str):
        return value
    if pa.types.is_integer(arrow) and isinstance(value, (int, Decimal)):
        if value.adjusted() < 40 if isinstance(value, Decimal) and value else True:
            low = -(2 ** (arrow.bit_width - 1))
            if value == value // 1 and low <= value < -low:
                return int(value)
        raise Unfit
    if pa.types.is_floating(arrow) and isinstance(value, (int, Decimal)):
        number = float(value)
        if number in (float("inf"), float("-inf")) or (isinstance(value, int) and int(number) != value):
            raise Unfit
        return number
    if isinstance(arrow, pa.Decimal128Type) and isinstance(value, (int, Decimal)):
        number = Decimal(value)
        scaled = number.quantize(Decimal(1).scaleb(-arrow.scale)) if number.adjusted() < 100 or not number else None
        if scaled is None or scaled != number or abs(number) >= Decimal(10) ** (arrow.precision - arrow.scale):
            raise Unfit
        return scaled
    if isinstance(arrow, pa.ListType) and isinstance(value, list):
        return [naive(item, arrow.value_type) for item in value]
    if isinstance(arrow, pa.StructType) and isinstance(value, dict):
        return {field.name: naive(value.get(field.name), field.type) for field in arrow}
    raise Unfit


plain_numbers = st.one_of(
    st.sampled_from([text for text in NUMBER_TEXTS if "999999" not in text]),
    st.integers(-(2**70), 2**70).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda number: f"{number:f}"),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
plain_values = st.recursive(
    st.one_of(plain_numbers, st.sampled_from(["null", "true", "false"]), st.text(max_size=3).map(json.dumps)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda found: "[" + ",".join(found) + "]"),
        st.dictionaries(st.sampled_from(["x", "y"]), inner).map(
            lambda found: "{" + ",".join(f'"{name}":{value}' for name, value in found.items()) + "}"
        ),
    ),
    max_leaves=4,
)
PLAIN_TYPES = ["boolean", "int", "long", "double", "decimal(12,3)", "decimal(38,0)", "string"]
plain_types = st.recursive(
    st.sampled_from(PLAIN_TYPES),
    lambda inner: st.one_of(
        inner.map(lambda word: f"list<{word}>"), st.tuples(inner, inner).map(lambda pair: f"struct<x: {pair[0]}, y: {pair[1]}>")
    ),
    max_leaves=3,
)


@settings(max_examples=250, deadline=None)
@given(plain_types, st.lists(plain_values, max_size=5))
def test_declared_is_the_naive_reading(word: str, texts: list[str]) -> None:
    schema = parse_columns([f"v {word}"])
    decoded = JsonDecoder(schema, OPTIONS).decode([f'{{"v":{text}}}'.encode() for text in texts])
    expected: dict[int, Any] = {}
    with localcontext() as context:
        context.prec = 2000
        for row, text in enumerate(texts):
            try:
                expected[row] = naive(json.loads(text, parse_float=Decimal), schema.field("v").type)
            except Unfit:
                continue
    assert list(decoded.rows) == list(expected)
    assert decoded.batch.column("v").to_pylist() == list(expected.values())


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.booleans())
def test_any_text_survives(text: str, ascii_only: bool) -> None:
    value = json.dumps({"v": text}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    decoded = JsonDecoder(parse_columns(["v string"]), OPTIONS).decode([value])
    assert decoded.batch.column("v").to_pylist() == [text]


SEEDS = [
    b'{"a":1,"b":[{"x":1.5},null],"c":"2025-07-01T10:00:00Z","d":{"e":true,"f":"\\ud83d\\ude00"},"g":12.34}',
    b'{"a":-9223372036854775808,"b":[],"c":null,"d":{},"g":1e2,"new":[[1]]}',
    b'{"a":1.0,"b":[{"x":1},{"x":"\\u0000"}],"c":"1969-12-31T23:59:59.999999-05:30","A":1}',
]
BITS = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\\u",
    b"\\ud800",
    b"1e9999999",
    b"NaN",
    b"\xff",
    b"\x00",
    b" ",
    b"-",
    b".",
    b"9" * 30,
    b'"a":1',
]


def mutate(chance: random.Random) -> bytes:
    value = bytearray(chance.choice(SEEDS))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(value) + 1)
        match chance.randrange(5):
            case 0:
                value[at:at] = chance.choice(BITS)
            case 1:
                del value[at : at + chance.randint(1, 8)]
            case 2:
                value[at : at + 1] = bytes([chance.randrange(256)])
            case 3:
                begin = chance.randrange(len(value) + 1)
                value[at:at] = value[begin : begin + 20]
            case _:
                value[at : at + 1] = chance.choice(BITS)
    return bytes(value)


def run_mutants(seed: int, count: int) -> None:
    chance = random.Random(seed)
    declared = parse_columns(["a long", "b list<struct<x: double>>", "c timestamptz", "d struct<e: boolean, f: string>", "g decimal(10,2)"])
    decoders: Sequence[tuple[pa.Schema | None, pa.Schema | None]] = [(declared, None), (None, None), (None, declared)]
    for _ in range(count // 100):
        values = [mutate(chance) for _ in range(100)]
        for columns, had in decoders:
            quick = JsonDecoder(columns, OPTIONS).decode(values, had)
            check_aligned(quick, len(values))
            same(quick, JsonDecoder(columns, OPTIONS, quick=False).decode(values, had))
            same(quick, JsonDecoder(columns, OPTIONS, sample=5).decode(values, had))


def test_mutated_values_never_raise() -> None:
    run_mutants(seed=1, count=1_500)


@pytest.mark.slow
def test_a_hundred_thousand_mutated_values_never_raise() -> None:
    run_mutants(seed=2, count=100_000)
