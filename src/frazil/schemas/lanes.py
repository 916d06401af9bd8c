"""The quick road of conversion: whole columns at once.

A lane takes the raw values of one column over all records. When every value already has the Python type and range the
column stores (asked with C-speed set operations), the Arrow array is built from them as they are; else each value goes
through the column's fit, and the positions that do not fit are returned for the exact road. A lane never decides a reject.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from frazil.schemas.arrays import AnyArray, build
from frazil.schemas.fit import Fit
from frazil.schemas.shape import Kind, Member
from frazil.schemas.unfit import Unfit

_NONE = type(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """One column: the fitted values (None at ``bad`` positions), and the array when it could be made at once."""

    values: Sequence[object]
    bad: Sequence[int]
    array: AnyArray | None = None


Lane: TypeAlias = Callable[[Sequence[object]], Laid]


def _each(values: Sequence[object], fit: Fit) -> Laid:
    """Value by value."""
    fitted: list[object] = []
    bad: list[int] = []
    for value in values:
        try:
            fitted.append(None if value is None else fit(value))
        except Unfit:
            bad.append(len(fitted))
            fitted.append(None)
    return Laid(values=fitted, bad=bad)


def _same(types: frozenset[type], shape_arrow: pa.DataType, fit: Fit) -> Lane:
    """A lane for types whose parsed values are what Arrow stores: bool, int, str."""

    def lane(values: Sequence[object]) -> Laid:
        if types.issuperset(map(type, values)):
            try:
                return Laid(values=values, bad=(), array=pa.array(values, shape_arrow))
            except (pa.ArrowInvalid, OverflowError):  # an integer outside the column's range; say which, below
                return _each(values, fit)
        return _each(values, fit)

    return lane


def _floating(shape_arrow: pa.DataType, fit: Fit, exact_max: int) -> Lane:
    """A lane for double and float: finite floats, and integers up to ``exact_max`` (2^53, 2^24), which are all exact."""
    floats = frozenset({float, _NONE})
    both = frozenset({float, int, _NONE})

    def lane(values: Sequence[object]) -> Laid:
        kinds = set(map(type, values))
        if kinds <= both and math.inf not in values and -math.inf not in values:
            small = kinds <= floats or all(type(v) is not int or -exact_max <= v <= exact_max for v in values)
            if small:
                array = pa.array(values, shape_arrow)
                if shape_arrow == pa.float64() or not _overflowed(array):
                    return Laid(values=values, bad=(), array=array)
        return _each(values, fit)

    return lane


def _overflowed(array: AnyArray) -> bool:
    """Whether narrowing to 32 bits made an infinity."""
    values = array.to_pylist()
    return math.inf in values or -math.inf in values


def build_lane(member: Member, fit: Fit) -> Lane:
    """The lane of a column."""
    lane = _lane_by_kind(member, fit)
    if not member.required:
        return lane

    def required(values: Sequence[object]) -> Laid:
        laid = lane(values)
        missing = [position for position, value in enumerate(values) if value is None]
        return Laid(values=laid.values, bad=[*laid.bad, *missing], array=laid.array) if missing else laid

    return required


def _lane_by_kind(member: Member, fit: Fit) -> Lane:
    arrow = member.shape.arrow
    match member.shape.kind:
        case Kind.STRING:
            return _same(frozenset({str, _NONE}), arrow, fit)
        case Kind.INT | Kind.LONG:
            return _same(frozenset({int, _NONE}), arrow, fit)
        case Kind.BOOLEAN:
            return _same(frozenset({bool, _NONE}), arrow, fit)
        case Kind.DOUBLE:
            return _floating(arrow, fit, 1 << 53)
        case Kind.FLOAT:
            return _floating(arrow, fit, 1 << 24)
        case _:
            return lambda values: _each(values, fit)


def settle(laid: Laid, column: int, rows: Mapping[int, Sequence[object]], keep: Sequence[int]) -> Laid:
    """The column with the values of ``rows`` (position to row) put in, cut to the positions ``keep``."""
    values = list(laid.values)
    for position, row in rows.items():
        values[position] = row[column]
    return Laid(values=[values[position] for position in keep], bad=())


def array_of(laid: Laid, arrow: pa.DataType) -> AnyArray:
    """The Arrow array of a column."""
    return build(laid.values, arrow) if laid.array is None else laid.array
