"""Columns beside: which column a JSON value goes to when its own has another type (``evolve.conflict=suffix``). Pure."""

from __future__ import annotations

from frazil.schemas.numbers import IntLiteral, Literal
from frazil.schemas.shape import Kind, Shape

_WORDS = {Kind.INT: "long", Kind.LONG: "long", Kind.FLOAT: "double", Kind.DOUBLE: "double", Kind.MAP: "struct"}
_NUMBERS = ("long", "double")


def word_of_value(value: object) -> str | None:
    """The type a value asks for by itself, as in the name of a column beside; None for null, ``[]``, ``{}`` and what holds only those."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "boolean"
    if type(value) is str:
        return "string"
    if type(value) is int or type(value) is IntLiteral:
        return "long"
    if isinstance(value, (float, Literal)):
        return "double"
    if isinstance(value, dict):
        return "struct" if any(word_of_value(item) is not None for item in value.values()) else None
    if isinstance(value, list):
        inner = next((word for item in value if (word := word_of_value(item)) is not None), None)
        return None if inner is None else f"list_{inner}"
    return None


def word_of_kind(kind: Kind, item: str) -> str:
    """The same word for a column; ``item``: that of a list's element."""
    return f"list_{item}" if kind is Kind.LIST else _WORDS.get(kind, kind.value)


def word_of_shape(shape: Shape) -> str:
    """The same word for a column's whole type."""
    return word_of_kind(shape.kind, word_of_shape(shape.members[0].shape) if shape.kind is Kind.LIST else "")


def word_beside(column: str, value: object) -> str | None:
    """The word of the column beside that takes a value which a column of word ``column`` did not; None: there is none.

    A value of the column's own type that does not fit has no other place: it is out of range, or bad inside. Nor has a number that is no
    exact decimal.
    """
    word = word_of_value(value)
    return None if word == column or (column == "decimal" and word in _NUMBERS) else word
