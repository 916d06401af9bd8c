"""What of a JSON object no column holds, as JSON text for the column that takes it (``evolve.overflow``). Pure.

A field without column is kept whole; of an object with a column only the fields without one. Inside lists and maps places cannot be told
by a part, so such a list or map is kept whole as soon as anything in it has no column. Null has no place to lose.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

from frazil.schemas.aside import word_beside, word_of_shape
from frazil.schemas.names import NameIndex
from frazil.schemas.numbers import Literal
from frazil.schemas.policy import Policy, beside
from frazil.schemas.shape import Kind, Member, Shape
from frazil.schemas.unfit import Unfit

Build: TypeAlias = Callable[[Shape], Callable[[object], object]]


class Rest:
    """Of objects for the columns ``members``, found by ``index``. ``build``: makes the fit of a type (``fit.build_fit``)."""

    def __init__(self, members: Sequence[Member], index: NameIndex, policy: Policy, build: Build) -> None:
        self._members = members
        self._index = index
        self._policy = policy
        self._build = build
        self._fits: dict[int, Callable[[object], object]] = {}
        self._inner: dict[int, Rest] = {}

    def text(self, value: dict[str, object]) -> str | None:
        """None when the columns hold all of it."""
        rest = self.of(value)
        return text_of(rest) if rest else None

    def of(self, value: dict[str, object]) -> dict[str, object]:
        """The fields, and parts of fields, that have no column."""
        found: dict[str, object] = {}
        for key, item in value.items():
            position = self._index.find(key)
            if item is None:
                continue
            home = None if position is None else self._home(position, item)
            left = item if home is None else self._left(home, item)
            if left is not None:
                found[key] = left
        return found

    def _home(self, position: int, item: object) -> Shape | None:
        """The type that takes the value: its column's, or that of the column beside; None: there was no room for one.

        A column may take a value of another word, as that of a date takes text.
        """
        member = self._members[position]
        word = word_beside(word_of_shape(member.shape), item) if self._policy.suffix else None
        if word is None or self._fits_in(position, item):
            return member.shape
        aside = self._index.find(beside(member.name, word))
        return None if aside is None else self._members[aside].shape

    def _fits_in(self, position: int, item: object) -> bool:
        fit = self._fits.get(position)
        if fit is None:
            fit = self._fits[position] = self._build(self._members[position].shape)
        try:
            fit(item)
        except Unfit:
            return False
        return True

    def _left(self, shape: Shape, item: object) -> object:
        """What of a value with a column has none; None: nothing."""
        if shape.kind is Kind.STRUCT and isinstance(item, dict):
            return self._struct(shape).of(item) or None
        if shape.kind is Kind.LIST and isinstance(item, list):
            inner = shape.members[0].shape
            return item if any(self._left(inner, one) is not None for one in item) else None
        if shape.kind is Kind.MAP and isinstance(item, dict):
            inner = shape.members[0].shape
            return item if any(self._left(inner, one) is not None for one in item.values()) else None
        return None

    def _struct(self, shape: Shape) -> Rest:
        known = self._inner.get(id(shape))
        if known is None:
            names = NameIndex([member.name for member in shape.members])
            known = self._inner[id(shape)] = Rest(shape.members, names, self._policy, self._build)
        return known


def text_of(value: object) -> str:
    """JSON text with every number as it was written."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{text_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    return str(value) if isinstance(value, Literal) else json.dumps(value, ensure_ascii=False)
