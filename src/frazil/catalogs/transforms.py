"""Iceberg's partition transforms over whole columns (table spec, "Partition Transforms" and appendix B). Pure.

A transform gives **keys**: an Arrow array in which two rows are equal exactly when their partition values are, and from which the value of
a partition is read. Times are counted from 1970 in UTC and rounded down, also before it (F47).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalogs.arrow import ArrowArray
from frazil.catalogs.murmur import hash_bytes, hash_longs
from frazil.kit.errors import Refused

_HOUR_US: Final = 3_600_000_000
_DAY_US: Final = 24 * _HOUR_US
_INT_MAX: Final = 0x7FFFFFFF
_EXCESS: Final = 1 << 135
_PARAMETERS: Final = re.compile(r"(bucket|truncate)\[(\d+)\]")
_TIMES: Final = frozenset({"timestamp", "timestamptz"})
_INTEGERS: Final = frozenset({"int", "long"})
_compute: Any = pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A transform's name, with the number that ``bucket`` and ``truncate`` have."""

    name: str
    number: int = 0

    def __str__(self) -> str:
        """As table metadata spells it."""
        return f"{self.name}[{self.number}]" if self.number else self.name

    def result_type(self, source: str) -> str:
        """Iceberg type of the values, from that of the source column."""
        if self.name in ("identity", "truncate", "void"):
            return source
        return "date" if self.name == "day" else "int"

    def fits(self, source: str) -> bool:
        """Whether the specification has this transform for a column of that type."""
        return _FITS[self.name](source.partition("(")[0].partition("[")[0])


def parse_transform(text: str) -> Transform:
    """A transform as table metadata spells it. Raises Refused for one that is not known."""
    if found := _PARAMETERS.fullmatch(text):
        number = int(found.group(2)[:100])
        if not 0 < number <= _INT_MAX:
            raise Refused(f"transform {text[:60]!r}: its number must be from 1 to {_INT_MAX}")
        return Transform(name=found.group(1), number=number)
    if text not in _FITS or text in ("bucket", "truncate"):
        raise Refused(f"transform {text[:60]!r} is not known; known: {', '.join(_FITS)}")
    return Transform(name=text)


_FITS: Final[dict[str, Callable[[str], bool]]] = {
    "identity": lambda _: True,
    "bucket": lambda kind: (
        kind in {"int", "long", "decimal", "date", "time", "timestamp", "timestamptz", "string", "uuid", "fixed", "binary"}
    ),
    "truncate": lambda kind: kind in {"int", "long", "decimal", "string", "binary"},
    "year": lambda kind: kind in _TIMES or kind == "date",
    "month": lambda kind: kind in _TIMES or kind == "date",
    "day": lambda kind: kind in _TIMES or kind == "date",
    "hour": lambda kind: kind in _TIMES,
    "void": lambda _: True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Keys of a column of rows, and how the value of a partition is made from the key of one of its rows."""

    array: ArrowArray
    value_of: Callable[[Any], Any]
    """From a key as Python has it to what a manifest holds; null is null."""


def keys_of(transform: Transform, source: str, column: ArrowArray) -> Keys:
    """Keys of ``column``, one array of Iceberg type ``source``. Raises Refused for a type the transform does not take."""
    if not transform.fits(source):
        raise Refused(f"transform {transform} does not take {source}")
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if transform.name == "void":
        return Keys(array=pa.nulls(len(column), pa.int32()), value_of=_same)
    if transform.name == "bucket":
        return Keys(array=_buckets(source, column, transform.number), value_of=_same)
    if transform.name == "truncate":
        return _truncated(source, column, transform.number)
    if transform.name == "identity":
        return _identity(source, column)
    return Keys(array=_periods(transform.name, source, column), value_of=_same)


def _same(key: Any) -> Any:  # noqa: ANN401 - whatever the key is
    return key


# --- identity ----------------------------------------------------------------------------------------------------------


def _identity(source: str, column: ArrowArray) -> Keys:
    if source in ("float", "double"):
        return _float_bits(column, "<f" if source == "float" else "<d")
    if source == "date":
        return Keys(array=column.view(pa.int32()), value_of=_same)
    if source == "time" or source in _TIMES:
        return Keys(array=column.view(pa.int64()), value_of=_same)
    return Keys(array=column, value_of=_same)


def _float_bits(column: ArrowArray, form: str) -> Keys:
    """All NaNs are one value; −0.0 and 0.0 are two, as in Iceberg's order of floats."""
    signed = pa.int32() if form == "<f" else pa.int64()
    one_nan = pc.if_else(_compute.is_nan(column), pa.scalar(float("nan"), column.type), column)
    code = "<i" if form == "<f" else "<q"
    return Keys(array=one_nan.view(signed), value_of=lambda key: struct.unpack(form, struct.pack(code, key))[0])


# --- truncate ----------------------------------------------------------------------------------------------------------


def _truncated(source: str, column: ArrowArray, width: int) -> Keys:
    if source == "string":
        return Keys(array=_compute.utf8_slice_codeunits(column, 0, width), value_of=_same)
    if source == "binary":
        return Keys(array=_compute.binary_slice(column, 0, width), value_of=_same)
    if source in _INTEGERS:
        return Keys(array=_floored(column, width), value_of=_same)
    scale = column.type.scale
    if column.type.precision <= 18:
        return Keys(array=_floored(_low_words(column), width), value_of=lambda key: Decimal(key).scaleb(-scale))
    distinct = _compute.dictionary_encode(column)
    values = [None if value is None else _floor_decimal(value, width, scale) for value in distinct.dictionary.to_pylist()]
    return Keys(array=pa.array(values, pa.binary()).take(distinct.indices), value_of=lambda key: _unscaled(key, scale))


def _floored(column: ArrowArray, width: int) -> ArrowArray:
    """v − (v mod width), the remainder never negative; next to the smallest number it wraps, as in the reference implementation."""
    kind = column.type
    if width > _INT_MAX >> 1 and kind == pa.int32():
        return _floored(column.cast(pa.int64()), width).cast(kind, safe=False)
    number = pa.scalar(width, kind)
    rest = _compute.subtract(column, _compute.multiply(_compute.divide(column, number), number))
    rest = pc.if_else(_compute.less(rest, pa.scalar(0, kind)), _compute.add(rest, number), rest)
    return _compute.subtract(column, rest)


def _low_words(column: ArrowArray) -> ArrowArray:
    """int64 unscaled values of decimals of up to 18 digits."""
    words = pa.Array.from_buffers(pa.int64(), 2 * (column.offset + len(column)), [None, column.buffers()[1]])
    places = _compute.multiply(_positions(column.offset, len(column)), 2)
    return pc.if_else(column.is_valid(), words.take(places), pa.scalar(None, pa.int64()))


def _positions(start: int, count: int) -> ArrowArray:
    return pa.array(range(start, start + count), pa.int64()) if count < 2 else _compute.add(_counted(count), start)


def _counted(count: int) -> ArrowArray:
    return _compute.subtract(_compute.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count)), 1)


def _floor_decimal(value: Decimal, width: int, scale: int) -> bytes:
    unscaled = _int_of(value, scale)
    floored = unscaled - unscaled % width
    return (floored + _EXCESS).to_bytes(17, "big")  # in the order of the numbers


def _int_of(value: Decimal, scale: int) -> int:
    """Without the rounding of Python's decimal context, which has 28 digits only."""
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)) + "0" * (int(exponent) + scale))
    return -number if sign else number


def _unscaled(key: bytes, scale: int) -> Decimal:
    number = int.from_bytes(key, "big") - _EXCESS
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


# --- bucket ------------------------------------------------------------------------------------------------------------


def _buckets(source: str, column: ArrowArray, count: int) -> ArrowArray:
    hashes = _hashes(source, column)
    positive = _compute.bit_wise_and(hashes, pa.scalar(_INT_MAX, pa.uint32())).cast(pa.int32())
    number = pa.scalar(count, pa.int32())
    return _compute.subtract(positive, _compute.multiply(_compute.divide(positive, number), number))


def _hashes(source: str, column: ArrowArray) -> ArrowArray:
    if source == "date":
        return hash_longs(column.view(pa.int32()).cast(pa.int64()))
    if source in _INTEGERS or source == "time" or source in _TIMES:
        return hash_longs(column.cast(pa.int64()))
    if source.startswith("decimal"):
        data, starts, lengths = _shortest_decimals(column)
    elif pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        data = column.buffers()[1]
        starts = _compute.multiply(_positions(column.offset, len(column)), width)
        lengths = pa.repeat(pa.scalar(width, pa.int64()), len(column))
    else:
        large = column.cast(pa.large_string() if source == "string" else pa.large_binary())
        _, offsets, data = large.buffers()
        ends = pa.Array.from_buffers(pa.int64(), large.offset + len(large) + 1, [None, offsets]).slice(large.offset)
        starts, lengths = ends.slice(0, len(large)), _compute.subtract(ends.slice(1), ends.slice(0, len(large)))
    if not len(column):
        return pa.array([], pa.uint32())
    return pc.if_else(column.is_valid(), hash_bytes(data or pa.py_buffer(b""), starts, lengths), pa.scalar(None, pa.uint32()))


def _shortest_decimals(column: ArrowArray) -> tuple[pa.Buffer, ArrowArray, ArrowArray]:
    """Unscaled values as the shortest two's complement, big-endian: distinct ones only are made, rows refer to them."""
    encoded = _compute.dictionary_encode(column)
    values = [_shortest(_int_of(value, column.type.scale)) for value in encoded.dictionary.to_pylist()]
    sizes = pa.array([len(value) for value in values], pa.int64())
    ends = _compute.cumulative_sum(sizes)
    rows = _compute.fill_null(encoded.indices, 0)
    if not values:  # nothing but nulls
        zeros = pa.repeat(pa.scalar(0, pa.int64()), len(column))
        return pa.py_buffer(b""), zeros, zeros
    return pa.py_buffer(b"".join(values)), _compute.subtract(ends, sizes).take(rows), sizes.take(rows)


def _shortest(number: int) -> bytes:
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


# --- year, month, day, hour --------------------------------------------------------------------------------------------


def _periods(name: str, source: str, column: ArrowArray) -> ArrowArray:
    if source == "date":
        days = column.view(pa.int32()).cast(pa.int64())
    else:
        micros = column.view(pa.int64())
        if name == "hour":
            return _floor_divided(micros, _HOUR_US).cast(pa.int32(), safe=False)
        days = _floor_divided(micros, _DAY_US)
    if name == "day":
        return days.cast(pa.int32(), safe=False)
    return _months_or_years(days, years=name == "year").cast(pa.int32())


def _months_or_years(days: ArrowArray, *, years: bool) -> ArrowArray:
    """Months or years since 1970 of days since 1970 (proleptic Gregorian), by arithmetic on eras of 400 years that begin in March.

    After Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms". Arrow's own function stops at the year 32,767.
    """
    shifted = _compute.add(days, 719_468)
    era = _floor_divided(shifted, 146_097)
    day = _compute.subtract(shifted, _compute.multiply(era, 146_097))
    leap = _compute.subtract(_compute.divide(day, 1_460), _compute.divide(day, 36_524))
    leap = _compute.add(leap, _compute.divide(day, 146_096))
    year_of_era = _compute.divide(_compute.subtract(day, leap), 365)
    before = _compute.subtract(_compute.divide(year_of_era, 4), _compute.divide(year_of_era, 100))
    day_of_year = _compute.subtract(day, _compute.add(_compute.multiply(year_of_era, 365), before))
    from_march = _compute.divide(_compute.add(_compute.multiply(day_of_year, 5), 2), 153)
    march_years = _compute.add(year_of_era, _compute.multiply(era, 400))
    months = _compute.add(_compute.multiply(march_years, 12), _compute.add(from_march, 2))  # months since January of year 0
    since = _compute.subtract(months, 1970 * 12)
    return _floor_divided(since, 12) if years else since


def _floor_divided(values: ArrowArray, by: int) -> ArrowArray:
    """Towards minus infinity; Arrow divides towards zero."""
    number = pa.scalar(by, pa.int64())
    quotient = _compute.divide(values, number)
    below = _compute.less(values, _compute.multiply(quotient, number))
    return _compute.subtract(quotient, below.cast(pa.int64()))
