"""Numbers as they are written. A literal is never passed through a double on its way to an integer or a decimal.

A literal is kept as text and read as ``± digits × 10^exponent`` by string work only, so ``1e999999999`` costs nothing.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import NamedTuple

from frazil.schemas.unfit import Unfit

LITERAL_CHARACTERS_MAX = 4096
"""A longer number literal is out of range for every column."""

_INT_CHARACTERS_MAX = 40
_EXPONENT_CHARACTERS_MAX = 7
_LONG_DIGITS_MAX = 19


class Literal(str):
    """The text of a JSON number; of its own, one with point or exponent."""

    __slots__ = ()


class IntLiteral(Literal):
    """The text of a long integer without point and exponent."""

    __slots__ = ()


def read_int(text: str) -> int | Literal:
    """For the JSON scanner: an int, or its text when converting it could be slow or refused by the interpreter."""
    return int(text) if len(text) <= _INT_CHARACTERS_MAX else IntLiteral(text)


class Exact(NamedTuple):
    """``± digits × 10^exponent``; digits without zeros at either end, empty for zero."""

    negative: bool
    digits: str
    exponent: int


def exact(literal: Literal) -> Exact:
    """The value of a literal. Raises Unfit when it is too long."""
    if len(literal) > LITERAL_CHARACTERS_MAX:
        raise _too_long(literal)
    mantissa, _, exponent_text = literal.lower().partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    written = whole + fraction
    digits = written.strip("0")
    if not digits:
        return Exact(negative=False, digits="", exponent=0)
    trailing = len(written) - len(written.rstrip("0"))
    return Exact(negative=literal[0] == "-", digits=digits, exponent=_exponent(exponent_text) - len(fraction) + trailing)


def _exponent(text: str) -> int:
    """An exponent as written; held at ten million, where nothing fits any more on either side."""
    size = text.lstrip("+-").lstrip("0")
    value = int(size or "0") if len(size) <= _EXPONENT_CHARACTERS_MAX else 10**_EXPONENT_CHARACTERS_MAX
    return -value if text.startswith("-") else value


def integer(value: int | Literal, low: int, high: int) -> int:
    """The exact integer that ``value`` is (``1.0`` and ``1e3`` are). Raises Unfit when there is none in [low, high]."""
    if type(value) is int:
        number = value
    else:
        found = exact(Literal(value))
        if found.exponent < 0 and found.digits:
            raise Unfit("not-exact", "has a fraction, the column holds whole numbers", value)
        if len(found.digits) + found.exponent > _LONG_DIGITS_MAX:
            raise Unfit("out-of-range", f"outside {low} to {high}", value)
        number = int(found.digits or "0") * 10**found.exponent
        number = -number if found.negative else number
    if low <= number <= high:
        return number
    raise Unfit("out-of-range", f"outside {low} to {high}", value)


def decimal(value: int | Literal, precision: int, scale: int) -> Decimal:
    """``value`` as decimal(precision, scale), without rounding. Raises Unfit when it does not fit exactly."""
    text = str(value)
    whole, _, fraction = text.partition(".")
    if len(fraction) <= scale and len(whole) <= precision - scale and "e" not in text and "E" not in text:
        return Decimal(text)
    found = exact(Literal(text))
    if found.digits and -found.exponent > scale:
        raise Unfit("not-exact", f"has more than {scale} digits after the point", value)
    if found.digits and len(found.digits) + found.exponent > precision - scale:
        raise Unfit("out-of-range", f"has more than {precision - scale} digits before the point", value)
    digits = found.digits + "0" * (found.exponent + scale) if found.digits else "0"
    return Decimal(f"{'-' if found.negative else ''}{digits}E-{scale}")


def double(value: float | int | Literal) -> float:
    """The double of ``value``: the nearest one for a literal with point or exponent; an integer literal must be exact."""
    if type(value) is Literal and len(value) > LITERAL_CHARACTERS_MAX:
        raise _too_long(value)
    number = _integer_double(value) if is_integer_literal(value) else float(value)
    if not math.isfinite(number):
        raise Unfit("out-of-range", "larger than any double", value)
    return number


def _integer_double(value: float | int | Literal) -> float:
    """The double that equals an integer literal; infinite when it is beyond all doubles."""
    text = str(value)
    if len(text) > LITERAL_CHARACTERS_MAX:
        raise _too_long(value)
    number = float(text)
    if math.isfinite(number) and Decimal(number) != Decimal(text):
        raise Unfit("not-exact", "an integer that no double equals", value)
    return number


def _too_long(value: object) -> Unfit:
    return Unfit("out-of-range", f"a number of more than {LITERAL_CHARACTERS_MAX} characters", value)


def single(value: float | int | Literal) -> float:
    """The 32-bit float of ``value``: the nearest to its double; an integer literal must be exact."""
    wide = double(value)
    try:
        (number,) = struct.unpack("<f", struct.pack("<f", wide))
    except OverflowError:
        raise Unfit("out-of-range", "larger than any 32-bit float", value) from None
    if number != wide and is_integer_literal(value):
        raise Unfit("not-exact", "an integer that no 32-bit float equals", value)
    return float(number)


def is_integer_literal(value: float | int | Literal) -> bool:
    """Whether the number was written without point and exponent."""
    return type(value) is int or type(value) is IntLiteral
