"""Transforms of whole columns give what PyIceberg's give value by value, and rows go to the partition that their values name."""

from __future__ import annotations

import datetime
import decimal
import functools
import itertools
import math
import struct
import uuid
from typing import Any

import mmh3
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import types
from pyiceberg.transforms import parse_transform as theirs

from frazil.catalogs.grouping import group_rows
from frazil.catalogs.layout import Layout, PartitionField, SortField, order_of_new_table, spec_of_new_table
from frazil.catalogs.murmur import LONG_VALUE_BYTES, hash_bytes
from frazil.catalogs.schema import new_schema
from frazil.catalogs.transforms import keys_of, parse_transform

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
INT = st.integers(-(2**31) + 2**20, 2**31 - 1) | st.integers(-40, 40)
LONG = st.integers(-(2**63) + 2**20, 2**63 - 1) | st.integers(-40, 40)
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999) | st.integers(-3_600_000_001, 3_600_000_001)
TEXT = st.text(max_size=12)


def decimals(precision: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    top = 10**precision - 1
    numbers = st.integers(-top + 2**20, top) | st.integers(-300, 300)
    return numbers.map(lambda n: decimal.Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))


KINDS: dict[str, tuple[pa.DataType, Any, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), types.IntegerType(), INT),
    "long": (pa.int64(), types.LongType(), LONG),
    "date": (pa.date32(), types.DateType(), st.integers(-719_162, 2_932_896)),
    "time": (pa.time64("us"), types.TimeType(), st.integers(0, 86_399_999_999)),
    "timestamp": (pa.timestamp("us"), types.TimestampType(), MICROS),
    "timestamptz": (pa.timestamp("us", "UTC"), types.TimestamptzType(), MICROS),
    "string": (pa.string(), types.StringType(), TEXT),
    "binary": (pa.binary(), types.BinaryType(), st.binary(max_size=12)),
    "fixed[5]": (pa.binary(5), types.FixedType(5), st.binary(min_size=5, max_size=5)),
    "decimal(9, 2)": (pa.decimal128(9, 2), types.DecimalType(9, 2), decimals(9, 2)),
    "decimal(18, 0)": (pa.decimal128(18, 0), types.DecimalType(18, 0), decimals(18, 0)),
    "decimal(38, 10)": (pa.decimal128(38, 10), types.DecimalType(38, 10), decimals(38, 10)),
    "uuid": (pa.uuid(), types.UUIDType(), st.uuids()),
    "boolean": (pa.bool_(), types.BooleanType(), st.booleans()),
    "float": (pa.float32(), types.FloatType(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), types.DoubleType(), st.floats(allow_nan=False)),
}
TRANSFORMS = (
    "identity",
    "void",
    "year",
    "month",
    "day",
    "hour",
    "bucket[1]",
    "bucket[16]",
    "bucket[1000003]",
    "truncate[1]",
    "truncate[7]",
)


def column(kind: str, values: list[Any]) -> Any:
    arrow = KINDS[kind][0]
    if kind == "uuid":
        storage = pa.array([None if value is None else value.bytes for value in values], pa.binary(16))
        return pa.ExtensionArray.from_storage(pa.uuid(), storage)
    if kind in ("date", "time", "timestamp", "timestamptz"):
        return pa.array(values, pa.int32() if kind == "date" else pa.int64()).view(arrow)
    return pa.array(values, arrow)


def expected(kind: str, transform: str, values: list[Any]) -> list[Any]:
    apply = theirs(transform).transform(KINDS[kind][1])
    with decimal.localcontext(prec=60):
        found = [apply(value) for value in values]
    return [value.bytes if isinstance(value, uuid.UUID) else value for value in found]


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_transform_of_every_type_equals_pyicebergs(data: st.DataObject) -> None:
    for kind, (_, iceberg, strategy) in KINDS.items():
        values = data.draw(st.lists(st.none() | strategy, max_size=12), label=kind)
        skip = data.draw(st.integers(0, len(values)), label="skip")
        array = column(kind, values).slice(skip)
        for text in TRANSFORMS:
            transform = parse_transform(text)
            assert str(transform) == text
            assert transform.fits(kind) == (text == "void" or theirs(text).can_transform(iceberg)), (kind, text)
            if transform.fits(kind):
                assert str(theirs(text).result_type(iceberg)) == transform.result_type(kind)
                keys = keys_of(transform, kind, array)
                found = [None if key is None else keys.value_of(key) for key in keys.array.to_pylist()]
                assert list(map(repr, found)) == list(map(repr, expected(kind, text, values[skip:]))), (kind, text)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.binary(max_size=70) | st.integers(LONG_VALUE_BYTES, LONG_VALUE_BYTES + 5).map(lambda n: bytes(range(251)) * (n // 251 + 1)),
        min_size=1,
    )
)
def test_murmur3_of_columns_equals_mmh3(values: list[bytes]) -> None:
    lengths = [len(value) for value in values]
    starts = [sum(lengths[:at]) for at in range(len(values))]
    data = pa.py_buffer(b"".join(values))
    found = hash_bytes(data, pa.array(starts, pa.int64()), pa.array(lengths, pa.int64()))
    assert found.to_pylist() == [mmh3.hash(value, signed=False) for value in values]


FIELDS = st.sampled_from(["day(ts)", "bucket[3](s)", "truncate[1](s)", "identity(n)", "void(n)", "year(ts)"])
FLOATS = st.sampled_from([None, 0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, struct.unpack("<d", b"\1\0\0\0\0\0\xf8\xff")[0]])
ROWS = st.lists(
    st.tuples(st.none() | st.integers(-200_000_000_000, 200_000_000_000), st.none() | TEXT, st.none() | st.integers(-2, 2), FLOATS),
    min_size=1,
    max_size=40,
)


def above(one: Any, other: Any, field: SortField) -> int:
    """Iceberg's order of two values: nulls where the field says, −0.0 before 0.0, NaN last among numbers."""
    if one is None or other is None:
        return (one is None) - (other is None) if not field.nulls_first else (other is None) - (one is None)

    def rank(value: Any) -> Any:
        if isinstance(value, float):
            return (math.isnan(value), 0.0 if math.isnan(value) else value, 0.0 if math.isnan(value) else math.copysign(1, value))
        return value.encode() if isinstance(value, str) else value

    left, right = rank(one), rank(other)
    answer = (left > right) - (left < right)
    return -answer if field.descending else answer


@settings(max_examples=80, deadline=None)
@given(
    rows=ROWS,
    wanted=st.lists(FIELDS, unique=True, max_size=3),
    sort=st.lists(st.tuples(st.sampled_from("snf"), st.booleans(), st.booleans()), max_size=2),
)
def test_rows_are_grouped_by_their_values_each_once_and_sorted_within(rows: list[Any], wanted: list[str], sort: list[Any]) -> None:
    table = pa.table(
        {
            "ts": pa.array([row[0] for row in rows], pa.int64()).view(pa.timestamp("us")),
            "s": pa.array([row[1] for row in rows], pa.string()),
            "n": pa.array([row[2] for row in rows], pa.int32()),
            "f": pa.array([row[3] for row in rows], pa.float64()),
            "at": pa.array(range(len(rows)), pa.int64()),
        }
    )
    schema = new_schema(table.schema)
    fields = [(text[: text.index("(")], text[text.index("(") + 1 : -1]) for text in wanted]
    layout = Layout(
        partition=tuple(
            PartitionField(column=name, transform=parse_transform(transform), name=f"p{at}") for at, (transform, name) in enumerate(fields)
        ),
        sort=tuple(SortField(column=name, descending=down, nulls_first=first) for name, down, first in sort),
    )
    grouping = group_rows(table, schema, spec_of_new_table(layout, schema), order_of_new_table(layout, schema))
    ordered = table if grouping.order is None else table.take(grouping.order)
    assert sorted(ordered.column("at").to_pylist()) == list(range(len(rows)))
    kinds = {"ts": types.TimestampType(), "s": types.StringType(), "n": types.IntegerType()}
    raw = {"ts": [row[0] for row in rows], "s": [row[1] for row in rows], "n": [row[2] for row in rows], "f": [row[3] for row in rows]}
    seen: set[tuple[Any, ...]] = set()
    start = 0
    for group in grouping.groups:
        assert group.start == start and group.rows > 0 and group.partition not in seen
        seen.add(group.partition)
        places = ordered.column("at").to_pylist()[start : start + group.rows]
        for at in places:
            values = tuple(theirs(transform).transform(kinds[name])(raw[name][at]) for transform, name in fields)
            assert values == group.partition
        for one, other in itertools.pairwise(places):
            verdicts = [above(raw[field.column][one], raw[field.column][other], field) for field in layout.sort or ()]
            first = next((verdict for verdict in verdicts if verdict), 0)
            assert first <= 0 and (first or one < other), "sorted, and equal rows in the order they came"
        start += group.rows
    assert start == len(rows)


@functools.cache
def seconds(text: str) -> int:
    return int((datetime.datetime.fromisoformat(f"{text}+00:00") - EPOCH).total_seconds())


def test_f47_times_before_1970_are_rounded_down_in_utc() -> None:
    """Rounding towards zero, or the zone of the host, would give 0 and −4."""
    wanted = {"year": [-1, -5], "month": [-1, -55], "day": [-1, -1661], "hour": [-1, -39852]}
    micros = [seconds("1969-12-31T23:59:59") * 1_000_000, seconds("1965-06-15T12:00:00") * 1_000_000]
    for kind in ("timestamp", "timestamptz"):
        array = column(kind, micros)
        assert {name: keys_of(parse_transform(name), kind, array).array.to_pylist() for name in wanted} == wanted
    dates = column("date", [-1, -1661])
    assert {name: keys_of(parse_transform(name), "date", dates).array.to_pylist() for name in ("year", "month", "day")} == {
        name: values for name, values in wanted.items() if name != "hour"
    }
