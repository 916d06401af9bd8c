"""From raw Avro values to what Arrow stores in the columns a table has, one closure per type, built once per pair of schemas.

Nothing is rounded, cut or turned into null: what does not fit exactly raises Unfit. With ``strict`` (columns are inferred) a value
whose field found no column is unfit too; with declared columns such fields are left out.
"""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final

import pyarrow as pa

from frazil.schemas import numbers
from frazil.schemas.avro.columns import branches_of, fields_of
from frazil.schemas.avro.rest import rest_of, rest_text
from frazil.schemas.avro.texts import decimal_text, json_text
from frazil.schemas.avro.tree import Node
from frazil.schemas.names import NameIndex
from frazil.schemas.port import DecodeOptions
from frazil.schemas.shape import Kind, Member, Shape
from frazil.schemas.texts import uuid_bytes
from frazil.schemas.unfit import Unfit, ambiguous

Fit = Callable[[Any], object]

_INT: Final = (-(1 << 31), (1 << 31) - 1)
_LONG: Final = (-(1 << 63), (1 << 63) - 1)
_DAYS: Final = (-719_162, 2_932_896)
MICROS: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
DAY_MICROS: Final = (0, 86_399_999_999)
_YEARS: Final = "outside the years 1 to 9999"

PER_MICRO: Final = {"millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}
"""Multiply by the first, divide by the second."""


class RowFit:
    """One value's raw fields into one value per column. ``node``: as the table sees it (``view``)."""

    def __init__(self, node: Node, members: Sequence[Member], options: DecodeOptions, *, strict: bool) -> None:
        index = options.names([member.name for member in members])
        self._is_record = node.kind == "record"
        self._refuses = options.policy.refuses_unknown
        self._struct = _Struct(fields_of(node), members, index, strict=strict and not options.policy.overflow)
        self._rest = rest_of(node, members, index) if options.policy.overflow else ()
        self._rest_at = [member.name for member in members].index(options.policy.overflow) if self._rest else -1

    def row(self, value: Any) -> list[object]:  # noqa: ANN401 - raw values of any type
        """Raises Unfit."""
        fields = value if self._is_record else (value,)
        try:
            row = self._struct.row(fields)
        except Unfit as verdict:
            if self._refuses and verdict.code == "type-conflict":
                verdict.code, verdict.why = "unknown-field", "the table has no column for this field"
            raise
        if self._rest:
            row[self._rest_at] = rest_text(self._rest, fields)
        return row


class _Struct:
    def __init__(self, fields: Iterable[tuple[str, Node]], members: Sequence[Member], index: NameIndex, *, strict: bool) -> None:
        self.names = [member.name for member in members]
        self._width = len(members)
        self._places: list[tuple[str, int, Fit]] = []
        taken: dict[int, str] = {}
        for name, node in fields:
            at = index.find(name)
            if at is None:
                self._places.append((name, -1, _homeless if strict and node.kind != "null" else _nothing))
            elif at in taken:
                self._places.append((name, at, partial(_raise_ambiguous, taken[at], name)))
            else:
                taken[at] = name
                self._places.append((name, at, nullable(node, members[at], strict=strict)))
        self._absent = [member.name for at, member in enumerate(members) if member.required and at not in taken]

    def row(self, value: Sequence[Any]) -> list[object]:
        if self._absent:
            raise Unfit("required", f"no field for the column {self._absent[0]!r}, which must not be null")
        row: list[object] = [None] * (self._width + 1)  # the last place takes what has no column
        at = 0
        try:
            for at, (_, place, fit) in enumerate(self._places):
                row[place] = fit(value[at])
        except Unfit as verdict:
            verdict.path.append(self._places[at][0])
            raise
        row.pop()
        return row

    def named(self, value: Sequence[Any]) -> object:
        """As Arrow takes a struct."""
        return dict(zip(self.names, self.row(value), strict=True))


def _homeless(value: object) -> None:
    if value is not None:
        raise Unfit("type-conflict", "the table cannot have a column for this field")


def _nothing(_: object) -> None:
    return None


def _raise_ambiguous(first: str, second: str, value: object) -> object:
    del value
    raise ambiguous(first, second)


def nullable(node: Node, member: Member, *, strict: bool) -> Fit:
    """The fit of a member, which takes null where it may be null."""
    fit = build_fit(node, member.shape, strict=strict)
    if member.required:
        return partial(_not_null, fit)
    return partial(_or_null, fit)


def _or_null(fit: Fit, value: object) -> object:
    return None if value is None else fit(value)


def _not_null(fit: Fit, value: object) -> object:
    if value is None:
        raise Unfit("required", "null, where the column says not null")
    return fit(value)


def build_fit(node: Node, shape: Shape, *, strict: bool) -> Fit:
    """The fit of a type for a column type. Ends because the column's type is finite, whatever the schema does."""
    if node.kind == "union":
        return _union(node, shape, strict=strict)
    match shape.kind:
        case Kind.STRUCT:
            return _record(node, shape, strict=strict)
        case Kind.LIST if node.kind == "array":
            return partial(_list, nullable(node.inner[0], shape.members[0], strict=strict))
        case Kind.MAP if node.kind == "map":
            return partial(_map, nullable(node.inner[0], shape.members[0], strict=strict))
        case Kind.STRING if node.kind in ("record", "array", "map"):
            return partial(json_text, node)
        case _:
            return scalar(node, shape) or partial(_wrong, node, shape)


def _union(node: Node, shape: Shape, *, strict: bool) -> Fit:
    names = branches_of(node)
    if len(names) == 1:
        return build_fit(node.inner[next(iter(names))], shape, strict=strict)
    if shape.kind is not Kind.STRUCT:
        fits = {number: build_fit(node.inner[number], shape, strict=strict) for number in names}
        return lambda value: fits[value[0]](value[1])
    places = {number: _branch(name, node.inner[number], shape, strict=strict) for number, name in names.items()}
    return lambda value: places[value[0]](value[1])


def _branch(name: str, node: Node, shape: Shape, *, strict: bool) -> Fit:
    """A value that is one of several types, in the struct field that is called like its type; there must be one."""
    index = NameIndex([member.name for member in shape.members])
    if index.find(name) is None:
        return partial(_wrong, node, shape)
    return partial(_wrap, _Struct([(name, node)], shape.members, index, strict=strict))


def _wrap(place: _Struct, value: object) -> object:
    return place.named((value,))


def _record(node: Node, shape: Shape, *, strict: bool) -> Fit:
    if node.kind != "record":
        return _branch(node.branch, node, shape, strict=strict)
    return _Struct(node.fields, shape.members, NameIndex([member.name for member in shape.members]), strict=strict).named


def _list(fit: Fit, value: Sequence[Any]) -> object:
    fitted: list[object] = []
    try:
        for item in value:
            fitted.append(fit(item))  # noqa: PERF401 - the length is the index of the item that did not fit
    except Unfit as verdict:
        verdict.path.append(len(fitted))
        raise
    return fitted


def _map(fit: Fit, value: Sequence[tuple[str, Any]]) -> object:
    fitted: list[tuple[str, object]] = []
    for key, item in value:
        try:
            fitted.append((key, fit(item)))
        except Unfit as verdict:
            verdict.path.append(key)
            raise
    return fitted


def _wrong(node: Node, shape: Shape, value: object) -> object:
    del value
    raise Unfit("wrong-type", f"the column is {shape.kind.value}, the schema says {node.logical or node.kind}")


def scalar(node: Node, shape: Shape) -> Fit | None:
    """The fit of one value without inner ones; None when the types have nothing to do with each other."""
    family = node.logical or ("integer" if node.kind in ("int", "long") else node.kind)
    if family.endswith("-nanos") and shape.kind is Kind.LONG:
        return _SCALARS["integer", Kind.LONG]
    zone = Kind.TIMESTAMP if family.startswith("local-") else Kind.TIMESTAMPTZ
    if "timestamp-" in family and shape.kind is zone:
        return partial(_micros, *PER_MICRO[family.rpartition("-")[2]], MICROS, _YEARS)
    if family.startswith("time-") and shape.kind is Kind.TIME:
        return partial(_micros, *PER_MICRO[family.rpartition("-")[2]], DAY_MICROS, "outside a day")
    arrow = shape.arrow
    if isinstance(arrow, pa.Decimal128Type):
        if family == "decimal":
            return partial(_decimal, node.scale, arrow.precision, arrow.scale)
        return partial(_whole_decimal, arrow.precision, arrow.scale) if family == "integer" else None
    if isinstance(arrow, pa.FixedSizeBinaryType) and shape.kind is Kind.FIXED:
        return _same if family == "fixed" and node.size == arrow.byte_width else None
    if family == "decimal" and shape.kind is Kind.STRING:
        return lambda value: decimal_text(int.from_bytes(value, signed=True), node.scale)
    if family == "uuid":
        return _UUIDS.get((node.kind, shape.kind))
    return _SCALARS.get((family, shape.kind))


def _same(value: object) -> object:
    return value


def _within(limits: tuple[int, int], why: str, value: int) -> int:
    if limits[0] <= value <= limits[1]:
        return value
    raise Unfit("out-of-range", why, value)


def _micros(times: int, parts: int, limits: tuple[int, int], why: str, value: int) -> int:
    micros, rest = divmod(value * times, parts)
    if rest:
        raise Unfit("not-exact", "finer than a microsecond", value)
    return _within(limits, why, micros)


def _decimal(scale: int, precision: int, wanted: int, value: bytes) -> Decimal:
    unscaled = int.from_bytes(value, signed=True)
    if scale > wanted:
        unscaled, rest = divmod(unscaled, 10 ** (scale - wanted))
        if rest:
            raise Unfit("not-exact", f"has more than {wanted} digits after the point")
    elif scale < wanted:
        unscaled *= 10 ** (wanted - scale)
    if abs(unscaled) >= 10**precision:
        raise Unfit("out-of-range", f"has more than {precision - wanted} digits before the point")
    return Decimal(f"{unscaled}E-{wanted}")


def _whole_decimal(precision: int, scale: int, value: int) -> Decimal:
    return numbers.decimal(value, precision, scale)


def _single(value: float) -> float:
    if not math.isfinite(value):
        return value
    try:
        (number,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        raise Unfit("out-of-range", "larger than any 32-bit float", value) from None
    if number != value:
        raise Unfit("not-exact", "a double that no 32-bit float equals", value)
    return float(number)


_SCALARS: Final[dict[tuple[str, Kind], Fit]] = {
    ("boolean", Kind.BOOLEAN): _same,
    ("integer", Kind.INT): partial(_within, _INT, f"outside {_INT[0]} to {_INT[1]}"),
    ("integer", Kind.LONG): partial(_within, _LONG, f"outside {_LONG[0]} to {_LONG[1]}"),
    ("integer", Kind.DOUBLE): numbers.double,
    ("integer", Kind.FLOAT): numbers.single,
    ("float", Kind.FLOAT): _same,
    ("float", Kind.DOUBLE): _same,
    ("double", Kind.DOUBLE): _same,
    ("double", Kind.FLOAT): _single,
    ("bytes", Kind.BINARY): _same,
    ("fixed", Kind.BINARY): _same,
    ("string", Kind.STRING): _same,
    ("enum", Kind.STRING): _same,
    ("date", Kind.DATE): partial(_within, _DAYS, _YEARS),
}
_UUIDS: Final[dict[tuple[str, Kind], Fit]] = {
    ("string", Kind.UUID): uuid_bytes,
    ("string", Kind.STRING): _same,
    ("fixed", Kind.UUID): _same,
    ("fixed", Kind.STRING): lambda value: str(uuid.UUID(bytes=value)),
}
