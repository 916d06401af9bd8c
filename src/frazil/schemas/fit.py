"""From a parsed JSON value to the Python value Arrow stores, one closure per type, built once per schema.

``fit(value)`` returns the value or raises Unfit; null (None) never reaches the fit of a scalar. With ``watch`` a struct
also refuses fields that no column holds yet, so that the caller can look at the record as news; a refusal is then no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from frazil.kit.errors import Bug
from frazil.schemas import numbers, texts
from frazil.schemas.aside import word_beside, word_of_shape
from frazil.schemas.names import NameIndex
from frazil.schemas.numbers import Literal
from frazil.schemas.policy import PLAIN, Policy, beside
from frazil.schemas.rest import Rest
from frazil.schemas.shape import Kind, Member, Shape
from frazil.schemas.unfit import Unfit, ambiguous

Fit: TypeAlias = Callable[[object], object]

NEWS = "news"
"""The code of an Unfit that is no verdict: the object has a field that no column holds yet."""

_KEPT = -1
"""No column: the value is among the rest."""

INT_RANGE = (-(1 << 31), (1 << 31) - 1)
LONG_RANGE = (-(1 << 63), (1 << 63) - 1)


def wrong_type(column: str, value: object) -> Unfit:
    """The verdict for a value of another JSON type than the column takes."""
    return Unfit("wrong-type", f"the column is {column}, the value is not", value)


def _boolean(value: object) -> object:
    if value is True or value is False:
        return value
    raise wrong_type("boolean", value)


def _string(value: object) -> object:
    if type(value) is str:
        return value
    raise wrong_type("string", value)


def _plain_integer(value: object) -> object:
    """With ``watch``: a number with a point may be news for a column that is new itself."""
    if type(value) is int and LONG_RANGE[0] <= value <= LONG_RANGE[1]:
        return value
    raise Unfit(NEWS, "not written as an integer of 64 bits", value)


def _integer(word: str, low: int, high: int, value: object) -> object:
    if type(value) is int or isinstance(value, Literal):
        return numbers.integer(value, low, high)
    raise wrong_type(word, value)


def _decimal(word: str, precision: int, scale: int, value: object) -> object:
    if type(value) is int or isinstance(value, Literal):
        return numbers.decimal(value, precision, scale)
    raise wrong_type(word, value)


def _double(value: object) -> object:
    if type(value) is float or type(value) is int or isinstance(value, Literal):
        return numbers.double(value)
    raise wrong_type("double", value)


def _float(value: object) -> object:
    if type(value) is float or type(value) is int or isinstance(value, Literal):
        return numbers.single(value)
    raise wrong_type("float", value)


def _text(word: str, read: Callable[[str], object], value: object) -> object:
    if type(value) is str:
        return read(value)
    raise wrong_type(f"{word} (as text)", value)


def _fixed(size: int, value: object) -> object:
    if type(value) is not str:
        raise wrong_type(f"fixed({size}) (as base64 text)", value)
    data = texts.base64_bytes(value)
    if len(data) != size:
        raise Unfit("out-of-range", f"{len(data)} bytes, the column has {size}", value)
    return data


_SCALARS: dict[Kind, Fit] = {
    Kind.BOOLEAN: _boolean,
    Kind.INT: partial(_integer, "int", *INT_RANGE),
    Kind.LONG: partial(_integer, "long", *LONG_RANGE),
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.DATE: partial(_text, "date", texts.date_days),
    Kind.TIME: partial(_text, "time", texts.time_micros),
    Kind.TIMESTAMP: partial(_text, "timestamp", texts.timestamp_micros),
    Kind.TIMESTAMPTZ: partial(_text, "timestamptz", texts.timestamptz_micros),
    Kind.STRING: _string,
    Kind.UUID: partial(_text, "uuid", texts.uuid_bytes),
    Kind.BINARY: partial(_text, "binary", texts.base64_bytes),
}


def build_fit(shape: Shape, *, watch: bool, policy: Policy = PLAIN) -> Fit:
    """The fit of a type. ``watch``: raise Unfit(NEWS) for an object with a field that the schema does not have."""
    if watch and shape.kind is Kind.LONG:
        return _plain_integer
    if shape.kind in _SCALARS:
        return _SCALARS[shape.kind]
    arrow = shape.arrow
    if isinstance(arrow, pa.Decimal128Type):
        return partial(_decimal, f"decimal({arrow.precision},{arrow.scale})", arrow.precision, arrow.scale)
    if isinstance(arrow, pa.FixedSizeBinaryType) and shape.kind is Kind.FIXED:
        return partial(_fixed, arrow.byte_width)
    if shape.kind is Kind.LIST:
        return partial(_list, _nullable(shape.members[0], watch=watch, policy=policy))
    if shape.kind is Kind.MAP:
        return partial(_map, _nullable(shape.members[0], watch=watch, policy=policy))
    if shape.kind is Kind.STRUCT:
        return StructFit(shape.members, NameIndex([member.name for member in shape.members]), watch=watch, policy=policy).named
    raise Bug(f"no fit for {shape.kind}")


def _nullable(member: Member, *, watch: bool, policy: Policy) -> Fit:
    """The fit of a member, which takes null where the member may be null."""
    fit = build_fit(member.shape, watch=watch, policy=policy)
    if member.required:
        return partial(_not_null, fit)
    return lambda value: None if value is None else fit(value)


def _not_null(fit: Fit, value: object) -> object:
    if value is None:
        raise Unfit("required", "null, where the column says not null")
    return fit(value)


def _list(fit: Fit, value: object) -> object:
    if type(value) is not list:
        raise wrong_type("list", value)
    fitted: list[object] = []
    try:
        for item in value:
            fitted.append(fit(item))  # noqa: PERF401 - the length is the index of the item that did not fit
    except Unfit as verdict:
        verdict.path.append(len(fitted))
        raise
    return fitted


def _map(fit: Fit, value: object) -> object:
    if type(value) is not dict:
        raise wrong_type("map", value)
    fitted: list[tuple[object, object]] = []
    for key, item in value.items():
        try:
            fitted.append((key, fit(item)))
        except Unfit as verdict:
            verdict.path.append(key)
            raise
    return fitted


class StructFit:
    """The fit of an object: every field goes to the column it belongs to, missing ones are null.

    ``rest``: what the columns do not hold, and the position of the column that takes it as text; for the top level.
    """

    def __init__(
        self,
        members: Sequence[Member],
        index: NameIndex,
        *,
        watch: bool,
        policy: Policy = PLAIN,
        rest: tuple[int, Rest] | None = None,
    ) -> None:
        self._names = [member.name for member in members]
        self._fits = [_nullable(member, watch=watch, policy=policy) for member in members]
        self._required = [position for position, member in enumerate(members) if member.required]
        self._words = [word_of_shape(member.shape) for member in members] if policy.suffix else []
        self._index = index
        self._watch = watch
        self._refuses = policy.refuses_unknown
        self._keeps = bool(policy.overflow)
        self._rest = rest

    def named(self, value: object) -> object:
        """A dict by column name, as Arrow takes a struct."""
        return dict(zip(self._names, self.row(value), strict=True))

    def row(self, value: object) -> list[object]:
        """One value per column."""
        if type(value) is not dict:
            raise wrong_type("struct", value)
        row: list[object] = [None] * len(self._names)
        taken: dict[int, str] = {}
        for key, item in value.items():
            position = self._index.find(key)
            if position is None:
                self._check_homeless(key, item)
                continue
            if position in taken:
                raise ambiguous(taken[position], key)
            taken[position] = key
            try:
                row[position] = self._fits[position](item)
            except Unfit as verdict:
                verdict.path.append(key)
                aside = self._aside(position, item)
                if aside is None:
                    raise
                if aside != _KEPT:
                    row[aside] = self._fit_aside(aside, item, taken, verdict)
        if self._rest is not None:
            row[self._rest[0]] = self._rest[1].text(value)
        for position in self._required:
            self._check_required(row[position], position)
        return row

    def _check_homeless(self, key: str, item: object) -> None:
        """A field without column may be news, or a fault; else it is left out."""
        if item is None:
            return
        if self._watch:
            raise Unfit(NEWS, "a new field", key)
        if self._refuses:
            raise Unfit("unknown-field", f"the table has no column for {key[:200]!r}")

    def _aside(self, position: int, item: object) -> int | None:
        """The column beside that is there for a value which does not fit its own; without room for one it may be kept with the rest."""
        word = word_beside(self._words[position], item) if self._words else None
        if word is None:
            return None
        found = self._index.find(beside(self._names[position], word))
        return _KEPT if found is None and self._keeps else found

    def _fit_aside(self, aside: int, item: object, taken: dict[int, str], verdict: Unfit) -> object:
        """The value as the column beside takes it; ``verdict``: what its own column said of which field."""
        key = str(verdict.path[-1])
        if aside in taken:
            raise ambiguous(taken[aside], key) from None
        taken[aside] = key
        try:
            return self._fits[aside](item)
        except Unfit:
            raise verdict from None

    def _check_required(self, value: object, position: int) -> None:
        if value is None:
            verdict = Unfit("required", "missing or null, where the column says not null")
            verdict.path.append(self._names[position])
            raise verdict
