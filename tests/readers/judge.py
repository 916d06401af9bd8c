"""One table before all readers: whole contents equal, and every predicate answered alike however it is answered."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.table import Table
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    UUIDType,
)
from tests.readers.engines import Answer, PyIceberg, Reader, SparkRefused
from tests.readers.predicates import Leaf, Tree, choose, choose_nested, literals, null_joins, sql
from tests.readers.values import Row, naive, same


@dataclass
class Verdict:
    """What came out for one table."""

    table: str
    rows: int = 0
    files: int = 0
    predicates: dict[str, dict[str, int]] = field(default_factory=dict)
    """By reader, by column."""
    used: dict[str, int] = field(default_factory=dict)
    """By reader: predicates that it used before reading rows."""
    not_empty: int = 0
    """Predicates that select some rows and not all."""
    refused: dict[str, str] = field(default_factory=dict)
    """By reader: why it cannot read the table."""
    reader_faults: dict[str, int] = field(default_factory=dict)
    """Differences that are a reader's own, by name (``FAULTS``), with how often they were seen."""
    differences: list[str] = field(default_factory=list)


FAULTS = {
    "pyiceberg-list-of-struct-null": "PyIceberg 0.12 shows a null list<struct> as an empty list: it builds the list anew without its mask",
    "pyiceberg-literal-made-to-fit-old-files": "PyIceberg 0.12 brings the literal to the type that a widened column has in an old file: a "
    "double is rounded to float, and a value beyond the old type makes the predicate true for null too (a decimal: an error)",
    "duckdb-literal-rounded-for-old-files": "DuckDB 1.5.5 rounds a double literal to float when the column was a float in an older file",
    "pyiceberg-not-equal-of-a-missing-column": "PyIceberg 0.12: x != 1 also takes the rows of files without a column x; where x is null "
    "in a file it does not take them",
}


@dataclass(frozen=True)
class Wish:
    """How thorough, and what is known of the table."""

    per_column: int
    seed: int
    row_id: tuple[str, str] = ("_kafka_partition", "_offset")
    expected: dict[tuple[int, int], Row] = field(default_factory=dict)
    promoted: dict[str, PrimitiveType] = field(default_factory=dict)
    """Columns that were widened, with the type they have in older files."""
    not_total: frozenset[str] = frozenset()
    """Columns with NaN: PyIceberg compares them as numbers (never true), SQL engines order NaN above all."""


def judge(table: Table, name: str, readers: Sequence[Reader], wish: Wish) -> Verdict:
    verdict = Verdict(name, files=len(list(table.scan().plan_files())))
    able: list[Reader] = []
    contents: dict[str, list[Row]] = {}
    for reader in readers:
        try:
            contents |= {way: _rows(found, wish.row_id) for way, found in reader.load(table, name).items()}
            able.append(reader)
        except SparkRefused as error:
            verdict.refused[reader.name] = str(error)[:300]
    lists = frozenset(
        item.name
        for item in table.schema().fields
        if isinstance(item.field_type, ListType) and isinstance(item.field_type.element_type, StructType)
    )
    _compare_contents(contents, lists, wish, verdict)
    chance = random.Random(wish.seed)
    plan = plan_predicates(table, wish, chance)
    for leaf, trees in plan.items():
        _compare_answers(leaf, trees, able, wish, verdict)
    return verdict


def answers_to(table: Table, name: str, readers: Sequence[Reader], tree: Tree) -> dict[str, Answer]:
    """What each reader says to one predicate."""
    found: dict[str, Answer] = {}
    for reader in readers:
        reader.load(table, name)
        answer = reader.ask(Wish.row_id, [tree])[0]
        assert isinstance(answer, Answer), (reader.name, answer)
        found[reader.name] = answer
    return found


def _rows(found: pa.Table, row_id: tuple[str, str]) -> list[Row]:
    maps = [column.name for column in found.schema if pa.types.is_map(column.type)]
    rows = [
        {name: same(dict(value) if name in maps and value is not None else value) for name, value in row.items()}
        for row in found.to_pylist()
    ]
    return sorted(rows, key=lambda row: (row[row_id[0]], row[row_id[1]]))


def _compare_contents(contents: dict[str, list[Row]], lists: frozenset[str], wish: Wish, verdict: Verdict) -> None:
    """Every way of reading shows what was produced and what the first way shows. ``lists``: the columns that are lists of structs."""
    rows = next(iter(contents.values()))
    verdict.rows = len(rows)
    for way, theirs in contents.items():
        places = [(row[wish.row_id[0]], row[wish.row_id[1]]) for row in theirs]
        wanted = sorted(wish.expected) if wish.expected else [(row[wish.row_id[0]], row[wish.row_id[1]]) for row in rows]
        if places != wanted:
            verdict.differences.append(f"{verdict.table}: {way} shows {len(places)} rows, {len(wanted)} are wanted")
            continue
        for place, row, ours in zip(places, theirs, rows, strict=True):
            truth = {**ours, **{column: same(value) for column, value in wish.expected.get(place, {}).items()}}
            for column, value in truth.items():
                shown = row.get(column)
                if _covers(shown, value):
                    continue
                if way == "pyiceberg" and column in lists and shown == [] and value is None:
                    _count(verdict, "pyiceberg-list-of-struct-null")
                    continue
                verdict.differences.append(f"{verdict.table}.{column}: {way} shows {shown!a} at {place}, not {value!a}")


def fits(value: Any, kind: PrimitiveType) -> bool:
    """Whether a literal is a value of the type."""
    match kind:
        case IntegerType():
            return -(1 << 31) <= value < 1 << 31
        case FloatType():
            return abs(value) <= 3.4028234663852886e38 and struct.unpack("<f", struct.pack("<f", value))[0] == value
        case DecimalType():
            return abs(value) < 10 ** (kind.precision - kind.scale)
        case _:
            return True


def _count(verdict: Verdict, fault: str) -> None:
    verdict.reader_faults[fault] = verdict.reader_faults.get(fault, 0) + 1


def _covers(shown: Any, produced: Any) -> bool:
    """Equal, where fields the table has and the record had not are null."""
    if isinstance(shown, dict) and isinstance(produced, dict):
        return all(_covers(value, produced.get(name)) for name, value in shown.items()) and produced.keys() <= shown.keys()
    return bool(shown == produced)


def _compare_answers(leaf: Leaf, trees: Sequence[Tree], readers: Sequence[Reader], wish: Wish, verdict: Verdict) -> None:
    by_reader = {reader: reader.ask(wish.row_id, trees) for reader in readers}
    for at, tree in enumerate(trees):
        first: Answer | None = None
        for reader, answers in by_reader.items():
            answer = answers[at]
            if answer is None:
                continue
            what = f"{verdict.table}.{leaf.name}: {reader.name}"
            said = ascii(sql(tree, "spark" if reader.name == "spark" else "duckdb"))
            beyond = [value for name, value in literals(tree) if name in wish.promoted and not fits(value, wish.promoted[name])]
            if isinstance(answer, str) and isinstance(reader, PyIceberg) and beyond:
                _count(verdict, "pyiceberg-literal-made-to-fit-old-files")
                continue
            if isinstance(answer, str):
                verdict.differences.append(f"{what} fails with {answer} at {said}")
                continue
            counts = verdict.predicates.setdefault(reader.name, {})
            counts[leaf.name] = counts.get(leaf.name, 0) + 1
            verdict.used[reader.name] = verdict.used.get(reader.name, 0) + answer.used
            if answer.pushed != answer.filtered and isinstance(reader, PyIceberg):
                strict = reader.ask_strictly(wish.row_id, tree)
                if isinstance(strict, Answer) and strict.pushed == strict.filtered == answer.filtered:
                    _count(verdict, "pyiceberg-not-equal-of-a-missing-column")
                    answer = strict
            if answer.pushed != answer.filtered and reader.name == "duckdb" and any(isinstance(value, float) for value in beyond):
                _count(verdict, "duckdb-literal-rounded-for-old-files")
                answer = Answer(answer.filtered, answer.filtered, answer.used)
            if answer.pushed != answer.filtered and isinstance(reader, PyIceberg) and first is not None:
                if beyond and answer.filtered == first.filtered:
                    _count(verdict, "pyiceberg-literal-made-to-fit-old-files")
                    answer = Answer(answer.filtered, answer.filtered, answer.used)
            if answer.pushed != answer.filtered:
                verdict.differences.append(f"{what} pushed down {answer.pushed}, filtered after a full read {answer.filtered}: {said}")
            if reader.name == "pyiceberg" and leaf.name in wish.not_total:
                continue
            if first is None:
                first = answer
                verdict.not_empty += 0 < answer.filtered[0] < verdict.rows
            elif answer.filtered != first.filtered:
                verdict.differences.append(f"{what} finds {answer.filtered}, {readers[0].name} {first.filtered}: {said}")


# ── which predicates ────────────────────────────────────────────────────────────────────────────────────────────────────


def plan_predicates(table: Table, wish: Wish, chance: random.Random) -> dict[Leaf, list[Tree]]:
    """At least ``per_column`` for every column and every field inside structs."""
    rows = table.scan().to_arrow().to_pylist()
    bounds = _bounds(table)
    leaves = [(leaf, kind, field_id) for item in table.schema().fields for leaf, kind, field_id in _leaves(item, ())]
    pools: dict[Leaf, list[Any]] = {leaf: _seen(rows, leaf) for leaf, _, _ in leaves if leaf.type is not None}
    primitives = [(leaf, pools[leaf]) for leaf in pools]
    # Joined columns are ones on which all readers agree what a comparison means.
    usable = [
        (other, pool)
        for other, pool in primitives
        if other.name not in wish.not_total and not isinstance(other.type, FloatType | DoubleType | UUIDType)
    ]
    found: dict[Leaf, list[Tree]] = {}
    for leaf, kind, field_id in leaves:
        if leaf.type is None:
            found[leaf] = choose_nested(leaf, "map" if isinstance(kind, MapType) else "list", usable, wish.per_column, chance)
        else:
            # Some that PyIceberg cannot say are among those of floats.
            count = wish.per_column + 6 * isinstance(leaf.type, FloatType | DoubleType)
            found[leaf] = choose(leaf, pools[leaf], bounds.get(field_id, []), list(pools), count, chance)
            if isinstance(leaf.type, UUIDType):
                found[leaf] += null_joins(leaf, usable, wish.per_column, chance)[2:]
    return found


def _leaves(item: NestedField, above: tuple[str, ...]) -> list[tuple[Leaf, IcebergType, int]]:
    path = (*above, item.name)
    kind = item.field_type
    if isinstance(kind, StructType):
        return [found for inner in kind.fields for found in _leaves(inner, path)]
    if isinstance(kind, ListType | MapType):
        return [(Leaf(path, None), kind, item.field_id)]
    assert isinstance(kind, PrimitiveType)
    return [(Leaf(path, kind), kind, item.field_id)]


def _seen(rows: Sequence[Row], leaf: Leaf) -> list[Any]:
    found = []
    for row in rows:
        value: Any = row
        for part in leaf.path:
            value = None if value is None else value[part]
        if value is not None:
            found.append(value)
    unique = {repr(value): value for value in found}
    return list(unique.values())


def _bounds(table: Table) -> dict[int, list[Any]]:
    """Lower and upper bounds of every file by field id, as values of the column's type now."""
    types = {item.field_id: item.field_type for item in table.schema().fields}
    for item in table.schema()._lazy_id_to_field.values():
        types[item.field_id] = item.field_type
    found: dict[int, list[Any]] = {}
    for task in table.scan().plan_files():
        for side in (task.file.lower_bounds, task.file.upper_bounds):
            for field_id, raw in (side or {}).items():
                kind = types.get(field_id)
                if isinstance(kind, PrimitiveType):
                    value = _value(kind, raw)
                    if value not in found.setdefault(field_id, []):
                        found[field_id].append(value)
    return found


def _value(kind: PrimitiveType, raw: bytes) -> Any:
    import datetime
    import uuid

    from pyiceberg.types import DateType, LongType, TimestampType, TimestamptzType, TimeType

    if isinstance(kind, LongType) and len(raw) == 4:
        return struct.unpack("<i", raw)[0]  # written before int became long
    if isinstance(kind, DoubleType) and len(raw) == 4:
        return struct.unpack("<f", raw)[0]
    value = from_bytes(kind, raw)
    if isinstance(kind, DateType):
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=value)
    if isinstance(kind, TimestampType):
        return naive(1970, 1, 1) + datetime.timedelta(microseconds=value)
    if isinstance(kind, TimestamptzType):
        return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=value)
    if isinstance(kind, TimeType):
        return (naive(1970, 1, 1) + datetime.timedelta(microseconds=value)).time()
    if isinstance(kind, UUIDType) and isinstance(value, bytes):
        return uuid.UUID(bytes=value)
    return value
