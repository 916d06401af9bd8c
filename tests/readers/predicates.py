"""Predicates over one column as a small tree, said three ways: Spark SQL, DuckDB SQL, a PyIceberg expression."""

from __future__ import annotations

import datetime
import math
import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, TypeAlias

from pyiceberg import expressions as ice
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from tests.readers.values import naive

ORDERS = ("=", "!=", "<", "<=", ">", ">=")
_ICE_ORDERS: dict[str, Callable[..., ice.BooleanExpression]] = {
    "=": ice.EqualTo, "!=": ice.NotEqualTo, "<": ice.LessThan, "<=": ice.LessThanOrEqual, ">": ice.GreaterThan,
    ">=": ice.GreaterThanOrEqual,
}  # fmt: skip
_EXACT = Context(prec=60)
_EPOCH = naive(1970, 1, 1)
_UTC = datetime.UTC


@dataclass(frozen=True)
class Leaf:
    """A column or a field inside structs; ``type`` None: a list or map, which only SQL can look into."""

    path: tuple[str, ...]
    type: PrimitiveType | None

    @property
    def name(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True)
class Check:
    """One comparison; ``op`` is of ORDERS, ``null``, ``not null``, ``in``, ``not in``, ``starts``, ``not starts`` or ``nan``."""

    leaf: Leaf
    op: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Join:
    """``and`` or ``or``."""

    word: str
    left: Tree
    right: Tree


@dataclass(frozen=True)
class Inside:
    """Something only SQL can ask of a list or map, with a text per engine."""

    leaf: Leaf
    spark: str
    duckdb: str


Tree: TypeAlias = "Check | Join | Inside"


def literals(tree: Tree) -> list[tuple[str, Any]]:
    """What a predicate compares which column with."""
    if isinstance(tree, Join):
        return literals(tree.left) + literals(tree.right)
    return [(tree.leaf.name, value) for value in tree.values] if isinstance(tree, Check) else []


# ── SQL ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def sql(tree: Tree, engine: str) -> str:
    """The predicate for a WHERE clause. ``engine``: spark or duckdb."""
    if isinstance(tree, Join):
        return f"(({sql(tree.left, engine)}) {tree.word} ({sql(tree.right, engine)}))"
    if isinstance(tree, Inside):
        return tree.spark if engine == "spark" else tree.duckdb
    return _test_sql(tree, engine)


def _test_sql(test: Check, engine: str) -> str:
    column = column_sql(test.leaf, engine)
    kind = test.leaf.type
    said = [literal_sql(value, kind, engine) for value in test.values]
    match test.op:
        case "null":
            return f"{column} IS NULL"
        case "not null":
            return f"{column} IS NOT NULL"
        case "in":
            return f"{column} IN ({', '.join(said)})"
        case "not in":
            # PyIceberg's NotIn also takes nulls; with this all readers mean the same.
            return f"({column} NOT IN ({', '.join(said)}) AND {column} IS NOT NULL)"
        case "starts" | "not starts":
            word = "startswith" if engine == "spark" else "starts_with"
            found = f"{word}({column}, {said[0]})"
            return found if test.op == "starts" else f"(NOT {found} AND {column} IS NOT NULL)"
        case "nan":
            return f"isnan({column})"
        case _:
            return f"{column} {test.op} {said[0]}"


def column_sql(leaf: Leaf, engine: str) -> str:
    quote = "`" if engine == "spark" else '"'
    return ".".join(f"{quote}{part}{quote}" for part in leaf.path)


def literal_sql(value: Any, kind: PrimitiveType | None, engine: str) -> str:
    match kind:
        case BooleanType():
            return str(value).lower()
        case IntegerType() | LongType():
            return f"CAST('{value}' AS {'INT' if isinstance(kind, IntegerType) else 'BIGINT'})"
        case FloatType():
            return f"CAST('{value!r}' AS FLOAT)"
        case DoubleType():
            return f"CAST('{value!r}' AS DOUBLE)"
        case DecimalType():
            return f"CAST('{value:f}' AS DECIMAL({kind.precision},{kind.scale}))"
        case DateType():
            return f"DATE '{value.isoformat()}'"
        case TimeType():
            return f"TIME '{value.isoformat()}'"
        case TimestampType():
            return f"{'TIMESTAMP_NTZ' if engine == 'spark' else 'TIMESTAMP'} '{_moment(value)}'"
        case TimestamptzType():
            return f"{'TIMESTAMP_LTZ' if engine == 'spark' else 'TIMESTAMPTZ'} '{_moment(value)}+00:00'"
        case UUIDType():
            return f"'{value}'" if engine == "spark" else f"'{value}'::UUID"
        case BinaryType() | FixedType():
            return f"X'{value.hex()}'" if engine == "spark" else "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
        case _:
            return _text_sql(str(value), engine)


def _moment(value: datetime.datetime) -> str:
    return value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def _text_sql(value: str, engine: str) -> str:
    if engine == "spark":
        return "'" + "".join(f"\\u{ord(c):04x}" if c in "'\\" or ord(c) < 32 else c for c in value) + "'"
    pieces = ["'" + piece.replace("'", "''") + "'" for piece in value.split("\0")]
    return "(" + " || chr(0) || ".join(pieces) + ")" if len(pieces) > 1 else pieces[0]


# ── PyIceberg ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def expression(tree: Tree, *, strict: bool = False) -> ice.BooleanExpression | None:
    """None: PyIceberg 0.12 cannot do it. ``strict``: ``!=`` is false for null, as in SQL, also where a file has not got the column."""
    if isinstance(tree, Inside):
        return None
    if isinstance(tree, Join):
        left, right = expression(tree.left, strict=strict), expression(tree.right, strict=strict)
        if left is None or right is None:
            return None
        return ice.And(left, right) if tree.word == "and" else ice.Or(left, right)
    if tree.leaf.type is None:
        return None  # "Cannot explicitly project List or Map types", also for IS NULL
    if isinstance(tree.leaf.type, UUIDType) and tree.op not in ("null", "not null"):
        return None  # "no kernel matching input types (extension<arrow.uuid>, extension<arrow.uuid>)"
    if any(isinstance(value, float) and math.isnan(value) for value in tree.values):
        return None  # "Cannot create expression literal from NaN"
    if tree.op in ("in", "not in") and any(isinstance(value, float) and value == 0 for value in tree.values):
        return None  # Arrow's is_in takes −0.0 and 0.0 for different values, its comparisons for equal ones
    name = tree.leaf.name
    values: list[Any] = list(tree.values)
    match tree.op:
        case "null":
            return ice.IsNull(name)
        case "not null":
            return ice.NotNull(name)
        case "in":
            return ice.In(name, values)
        case "not in":
            return ice.And(ice.NotIn(name, values), ice.NotNull(name))
        case "starts":
            return ice.StartsWith(name, values[0])
        case "not starts":
            return ice.And(ice.NotStartsWith(name, values[0]), ice.NotNull(name))
        case "nan":
            return ice.IsNaN(name)
        case "!=" if strict:
            return ice.And(ice.NotEqualTo(name, values[0]), ice.NotNull(name))
        case _:
            return _ICE_ORDERS[tree.op](name, values[0])


# ── choosing ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def neighbours(value: Any, kind: PrimitiveType) -> list[Any]:
    """The values of the type directly below and above, as far as there are any."""
    match kind:
        case IntegerType() | LongType():
            bits = 31 if isinstance(kind, IntegerType) else 63
            return [n for n in (value - 1, value + 1) if -(1 << bits) <= n < 1 << bits]
        case FloatType() | DoubleType():
            if not math.isfinite(value):
                return []
            if isinstance(kind, FloatType):
                import struct

                bits32 = struct.unpack("<i", struct.pack("<f", value))[0]
                return [
                    struct.unpack("<f", struct.pack("<i", n))[0]
                    for n in (bits32 - 1, bits32 + 1)
                    if abs(value) > 1e-30 and abs(value) < 1e38
                ]
            return [n for n in (math.nextafter(value, -math.inf), math.nextafter(value, math.inf)) if math.isfinite(n)]
        case DecimalType():
            step = Decimal(1).scaleb(-kind.scale, _EXACT)
            most = Decimal(10**kind.precision - 1).scaleb(-kind.scale, _EXACT)
            return [
                n for n in (_EXACT.subtract(value, step), _EXACT.add(value, step)) if most.copy_negate() <= n <= most
            ]  # unary minus would round
        case DateType():
            return [value.fromordinal(n) for n in (value.toordinal() - 1, value.toordinal() + 1) if 1 <= n <= 3652059]
        case TimestampType() | TimestamptzType():
            micro = datetime.timedelta(microseconds=1)
            return [value - micro, value + micro]
        case StringType():
            return [n for n in (_before(value), value + "\0", value + "\U0010ffff", value[:-1]) if n is not None]
        case BinaryType():
            return [value[:-1], value + b"\0", value + b"\xff"]
        case FixedType():
            number = int.from_bytes(value, "big")
            return [n.to_bytes(len(value), "big") for n in (number - 1, number + 1) if 0 <= n < 1 << (8 * len(value))]
        case UUIDType():
            return [uuid.UUID(int=n) for n in (value.int - 1, value.int + 1) if 0 <= n < 1 << 128]
        case _:
            return []


def _before(text: str) -> str | None:
    """The same text with its last code point one lower."""
    if not text or text[-1] == "\0":
        return None
    lower = ord(text[-1]) - 1
    return text[:-1] + chr(0xD7FF if 0xD800 <= lower <= 0xDFFF else lower)


def specials(kind: PrimitiveType) -> list[Any]:
    """Values that readers have been wrong about."""
    match kind:
        case BooleanType():
            return [True, False]
        case IntegerType():
            return [0, -1, 2**31 - 1, -(2**31)]
        case LongType():
            return [0, -1, 2**31, 2**63 - 1, -(2**63)]
        case FloatType():
            return [0.0, -0.0, math.inf, -math.inf, math.nan]
        case DoubleType():
            return [0.0, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan]
        case DecimalType():
            most = 10**kind.precision - 1
            return [Decimal(n).scaleb(-kind.scale, _EXACT) for n in (0, 1, -1, most, -most)]
        case DateType():
            return [
                datetime.date(1, 1, 1),
                datetime.date(1582, 10, 4),
                datetime.date(1969, 12, 31),
                datetime.date(1970, 1, 1),
                datetime.date(9999, 12, 31),
            ]
        case TimestampType():
            return [
                naive(1, 1, 1),
                naive(1969, 12, 31, 23, 59, 59, 999999),
                _EPOCH,
                naive(9999, 12, 31),
            ]
        case TimestamptzType():
            return [value.replace(tzinfo=_UTC) for value in specials(TimestampType())]
        case TimeType():
            return [datetime.time(0), datetime.time(23, 59, 59, 999999), datetime.time(12, 0, 0, 1)]
        case StringType():
            return [
                "",
                "\ud7ff",
                "\ue000",
                "\U0010ffff",
                "\ud7ff" * 16,
                "\ud7ff" * 15 + "\ue000",
                "\U0010ffff" * 17,
                "a" * 15 + "\ud7ff",
                "a" * 17,
                "\U00010000",
                "\uffff",
            ]
        case UUIDType():
            return [uuid.UUID(int=0), uuid.UUID(int=(1 << 128) - 1), uuid.UUID(int=1 << 127), uuid.UUID(int=(1 << 127) - 1)]
        case BinaryType():
            return [b"", b"\0", b"\x80", b"\xff" * 16, b"\xff" * 17]
        case FixedType():
            return [b"\0" * len(kind), b"\xff" * len(kind), b"\x7f" + b"\xff" * (len(kind) - 1)]
        case _:
            return []


def choose(leaf: Leaf, seen: Sequence[Any], bounds: Sequence[Any], others: Sequence[Leaf], count: int, chance: random.Random) -> list[Tree]:
    """``count`` different predicates on one primitive column. ``seen``: values in it; ``bounds``: lower and upper bounds of its files;
    ``others``: columns to join with by IS NULL.
    """
    kind = leaf.type
    assert kind is not None
    trees: list[Tree] = [Check(leaf, "null"), Check(leaf, "not null")]
    near = [n for bound in chance.sample(list(bounds), min(4, len(bounds))) for n in (bound, *neighbours(bound, kind))]
    pool = [*near, *specials(kind), *chance.sample(list(seen), min(12, len(seen)))]
    ordered = not isinstance(kind, BooleanType)
    for bound in chance.sample(list(bounds), min(3, len(bounds))):
        trees += [Check(leaf, op, (bound,)) for op in chance.sample(ORDERS, 3)]
    tries = 0
    while len(dict.fromkeys(trees)) < count and tries < 40 * count:
        tries += 1
        trees.append(_one(leaf, kind, pool, others, chance, ordered=ordered))
    unique = {repr(tree): tree for tree in trees}
    found = list(unique.values())
    return found[:2] + chance.sample(found[2:], min(count - 2, len(found) - 2))


def _one(leaf: Leaf, kind: PrimitiveType, pool: Sequence[Any], others: Sequence[Leaf], chance: random.Random, *, ordered: bool) -> Tree:
    roll = chance.random()
    pick = lambda: chance.choice(list(pool))  # noqa: E731
    simple: Tree = Check(leaf, chance.choice(ORDERS if ordered else ORDERS[:2]), (pick(),))
    if roll < 0.5:
        return simple
    if roll < 0.62:
        values = tuple({repr(value): value for value in (pick() for _ in range(chance.randrange(2, 6)))}.values())
        if any(isinstance(value, float) and math.isnan(value) for value in values):
            return simple
        return Check(leaf, chance.choice(("in", "not in")), values)
    if roll < 0.75 and isinstance(kind, StringType):
        text = pick()
        return Check(leaf, chance.choice(("starts", "starts", "not starts")), (text[: chance.randrange(len(text) + 1)],))
    if roll < 0.7 and isinstance(kind, FloatType | DoubleType):
        return Check(leaf, "nan")
    if roll < 0.85:
        second: Tree = Check(leaf, chance.choice(ORDERS if ordered else ORDERS[:2]), (pick(),))
        return Join(chance.choice(("and", "or")), simple, second)
    if roll < 0.93:
        return Join(chance.choice(("and", "or")), simple, Check(leaf, chance.choice(("null", "not null"))))
    return Join(chance.choice(("and", "or")), simple, Check(chance.choice(list(others)), chance.choice(("null", "not null"))))


def choose_nested(leaf: Leaf, kind: str, primitives: Sequence[tuple[Leaf, Sequence[Any]]], count: int, chance: random.Random) -> list[Tree]:
    """Predicates on a list or map: NULL, its length, its elements (SQL only), and NULL joined with tests of another column."""
    spark, duck = column_sql(leaf, "spark"), column_sql(leaf, "duckdb")
    length = "cardinality" if kind == "map" else "len"
    sizes = [f"{op} {n}" for op in ("=", ">", "<") for n in (0, 1, 2)]
    inside = [Inside(leaf, f"size({spark}) {size}", f"{length}({duck}) {size}") for size in sizes]
    # Spark 3.5 says size(NULL) = -1; a NULL has no length.
    looks: list[Tree] = [Join("and", Check(leaf, "not null"), tree) for tree in chance.sample(inside, min(len(inside), max(2, count // 4)))]
    return [*null_joins(leaf, primitives, count, chance), *looks]


def null_joins(leaf: Leaf, primitives: Sequence[tuple[Leaf, Sequence[Any]]], count: int, chance: random.Random) -> list[Tree]:
    """What can be asked of a column that cannot be compared: NULL, alone and joined with tests of other columns."""
    trees: list[Tree] = [Check(leaf, "null"), Check(leaf, "not null")]
    tries = 0
    while len(trees) < count and tries < 40 * count:
        tries += 1
        other, pool = chance.choice(list(primitives))
        assert other.type is not None
        test: Tree = Check(other, chance.choice(("=", "!=")), (chance.choice([*pool, *specials(other.type)]),))
        if not isinstance(other.type, BooleanType) and chance.random() < 0.6:
            test = Check(other, chance.choice(ORDERS), test.values)  # type: ignore[union-attr]
        tree = Join(chance.choice(("and", "or")), Check(leaf, chance.choice(("null", "not null"))), test)
        if tree not in trees:
            trees.append(tree)
    return trees[:count]
