"""What of a JSON object no column holds, as JSON text for the column that takes it (``evolve.overflow``). Pure.

A field without column is kept whole; of an object with a column only the fields without one. Inside lists and maps places cannot be told
by a part, so such a list or map is kept whole as soon as anything in it has no column. Null has no place to lose.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from frazil.schemas.aside import word_beside, word_of_shape
from frazil.schemas.names import NameIndex
from frazil.schemas.numbers import Literal
from frazil.schemas.policy import Policy, beside
from frazil.schemas.shape import Kind, Member, Shape


class Rest:
    """Of objects for the columns ``members``, found by ``index``."""

    def __init__(self, members: Sequence[Member], index: NameIndex, policy: Policy) -> None:
        self._members = members
        self._index = index
        self._policy = policy
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
            left = item if position is None else self._left(self._home(position, item), item)
            if left is not None:
                found[key] = left
        return found

    def _home(self, position: int, item: object) -> Shape:
        """The type that takes the value: its column's, or that of the column beside."""
        member = self._members[position]
        if self._policy.suffix and not _is_for(member.shape, item):
            word = word_beside(word_of_shape(member.shape), item)
            aside = None if word is None else self._index.find(beside(member.name, word))
            if aside is not None:
                return self._members[aside].shape
        return member.shape

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
            known = self._inner[id(shape)] = Rest(shape.members, names, self._policy)
        return known


def _is_for(shape: Shape, item: object) -> bool:
    """Whether an object or array is of the column's kind; scalars have nothing inside."""
    return isinstance(item, dict) == (shape.kind in (Kind.STRUCT, Kind.MAP)) and isinstance(item, list) == (shape.kind is Kind.LIST)


def text_of(value: object) -> str:
    """JSON text with every number as it was written."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{text_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    return str(value) if isinstance(value, Literal) else json.dumps(value, ensure_ascii=False)
