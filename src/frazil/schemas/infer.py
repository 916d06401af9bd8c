"""What new fields of records mean, when nobody declared it.

Records are taken in offset order, each against what the table has plus what earlier records of the slice brought. A record
either fits and adds its news, or is refused and leaves no trace; so the outcome depends on the records and their order only.

- true/false → boolean, integer literal → long, number with point or exponent → double, text → string (never a date),
  object → struct, array → list. Every column added is optional.
- null, ``[]`` and ``{}`` (also ``[null]``, ``{"x": null}``) tell no type: nothing is added for them.
- A *new* long column becomes double when a fraction comes, if all its integers so far are exact doubles. A column the
  table already has never changes: Iceberg has no promotion from long to double.
- Otherwise the first type seen wins, and the record that differs is refused; or, as ``policy`` says, its value gets a column beside.
- Above ``columns_max`` a new field is refused; or, where a column takes what has no other, left to that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from frazil.kit.errors import Bug
from frazil.schemas import numbers
from frazil.schemas.arrays import AnyField, map_type
from frazil.schemas.aside import word_beside, word_of_kind
from frazil.schemas.fit import LONG_RANGE, Fit, build_fit, wrong_type
from frazil.schemas.names import NameIndex, why_unfit
from frazil.schemas.numbers import IntLiteral, Literal
from frazil.schemas.parse import Document
from frazil.schemas.policy import beside
from frazil.schemas.port import DecodeOptions, Reject
from frazil.schemas.shape import Kind, Shape, member_of
from frazil.schemas.unfit import Unfit, ambiguous, show

_NEW_ARROW: dict[Kind, pa.DataType] = {Kind.BOOLEAN: pa.bool_(), Kind.LONG: pa.int64(), Kind.DOUBLE: pa.float64(), Kind.STRING: pa.string()}


@dataclass(slots=True, kw_only=True)
class Node:
    """One place in the schema while it grows. ``fit``: given for a scalar the table already has. ``exact``: all integers
    seen so far are exact doubles. ``fields`` and ``index``: of a struct. ``item``: of a list or map."""

    kind: Kind
    fresh: bool = True
    fit: Fit | None = None
    exact: bool = True
    fields: list[tuple[str, Node]] = field(default_factory=list)
    index: NameIndex | None = None
    item: Node | None = None


def _known(shape: Shape, index: NameIndex | None = None) -> Node:
    """The node of something the table has."""
    node = Node(kind=shape.kind, fresh=False)
    if shape.kind is Kind.STRUCT:
        node.fields = [(member.name, _known(member.shape)) for member in shape.members]
        node.index = NameIndex(member.name for member in shape.members) if index is None else index
    elif shape.kind in (Kind.LIST, Kind.MAP):
        node.item = _known(shape.members[0].shape)
    else:
        node.fit = build_fit(shape, watch=False)
    return node


class Growth:
    """The columns of a table while records are looked at, in offset order. ``widened``: long columns that became double.

    Every change is noted with its undoing, so a refused record leaves no trace.
    """

    def __init__(self, schema: pa.Schema, options: DecodeOptions) -> None:
        members = tuple(member_of(column) for column in schema)
        shape = Shape(kind=Kind.STRUCT, arrow=pa.struct([]), members=members)
        self._root = _known(shape, options.names(member.name for member in members))
        self._columns_max = options.columns_max + bool(options.policy.overflow)
        self._policy = options.policy
        self._columns = _count(self._root)
        self._undo: list[Callable[[], object]] = []
        self.widened = 0

    def see(self, documents: Sequence[tuple[int, Document]]) -> list[Reject]:
        """Takes in records (row, object), ascending; returns those that contradict what is known."""
        rejects: list[Reject] = []
        for row, document in documents:
            try:
                self._see_document(document)
            except Unfit as verdict:
                rejects.append(verdict.reject(row))
        return rejects

    def _see_document(self, document: Document) -> None:
        """Takes in one record. Raises Unfit, with everything as before, when it contradicts what is known."""
        columns = self._columns
        try:
            self._see_struct(self._root, document)
        except Unfit:
            self._back(0, columns)
            raise
        finally:
            self._undo.clear()

    def _back(self, mark: int, columns: int) -> None:
        """Undoes every change after the first ``mark`` of this record."""
        while len(self._undo) > mark:
            self._undo.pop()()
        self._columns = columns

    def additions(self) -> pa.Schema | None:
        """What is new, as in ``Decoded.additions``."""
        added = _news(self._root)
        return pa.schema(added) if added else None

    def _see(self, node: Node, value: object) -> None:
        """Takes in a value at a place of known kind."""
        if value is None:
            return
        if node.fit is not None:
            node.fit(value)
        elif node.kind is Kind.STRUCT:
            self._see_struct(node, value)
        elif node.kind is Kind.LIST:
            self._see_list(node, value)
        elif node.kind is Kind.MAP:
            self._see_map(node, value)
        else:
            self._see_scalar(node, value)

    def _first(self, value: object) -> Node | None:
        """The node of a value where nothing is known yet; None if it tells no type."""
        if value is None:
            return None
        if isinstance(value, dict):
            node = Node(kind=Kind.STRUCT, index=NameIndex())
            self._see_struct(node, value)
            return node if node.fields else None
        if isinstance(value, list):
            node = Node(kind=Kind.LIST)
            self._see_list(node, value)
            return node if node.item is not None else None
        kind, exact = _scalar(value)
        return Node(kind=kind, exact=exact)

    def _see_struct(self, node: Node, value: object) -> None:
        index = node.index
        if index is None or type(value) is not dict:
            raise _conflict(node, value)
        taken: dict[int, str] = {}
        empty: dict[str, str] = {}
        for key, item in value.items():
            position = index.find(key)
            other = empty.get(index.fold(key)) if position is None else taken.get(position)
            try:
                if position is not None:
                    aside = self._see_known(node, index, position, item)
                    if aside is not None and taken.setdefault(aside, key) != key:
                        raise ambiguous(taken[aside], key)
                elif self._see_new_field(node, index, key, item):
                    position = len(node.fields) - 1
            except Unfit as verdict:
                verdict.path.append(key)
                raise
            if position is None:
                empty[index.fold(key)] = key
            elif other is not None:
                raise ambiguous(other, key)
            else:
                taken[position] = key

    def _see_known(self, node: Node, index: NameIndex, position: int, item: object) -> int | None:
        """Takes in the value of a field with a column; the position of the column beside, when it went there."""
        mark, columns = len(self._undo), self._columns
        name, member = node.fields[position]
        try:
            self._see(member, item)
        except Unfit:
            word = word_beside(_word(member), item) if self._policy.suffix else None
            if word is None:
                raise
            self._back(mark, columns)
            if not self._see_aside(node, index, beside(name, word), item):
                raise
            return index.find(beside(name, word))
        return None

    def _see_aside(self, node: Node, index: NameIndex, name: str, item: object) -> bool:
        """Takes in a value at the column beside, which is made if there is room; False, with everything as before, when it has no place."""
        mark, columns = len(self._undo), self._columns
        position = index.find(name)
        try:
            if position is None:
                self._see_new_field(node, index, name, item)
            else:
                self._see(node.fields[position][1], item)
        except Unfit:
            self._back(mark, columns)
            return False
        return True

    def _see_new_field(self, node: Node, index: NameIndex, key: str, item: object) -> bool:
        """Adds a field if its value tells a type."""
        mark, columns = len(self._undo), self._columns
        seen = self._first(item)
        if seen is None:
            return False
        name = index.landing_name(key)
        why = why_unfit(name)
        if why is not None:
            raise Unfit("bad-name", why)
        self._columns += 1
        if self._columns > self._columns_max:
            if self._policy.overflow:
                self._back(mark, columns)
                return False
            raise Unfit("too-many-columns", f"its new fields would make more than {self._columns_max} columns")
        node.fields.append((name, seen))
        index.add(name)
        self._undo += (node.fields.pop, index.drop_last)
        return True

    def _see_list(self, node: Node, value: object) -> None:
        if not isinstance(value, list):
            raise _conflict(node, value)
        for position, item in enumerate(value):
            self._see_item(node, position, item)

    def _see_map(self, node: Node, value: object) -> None:
        if not isinstance(value, dict):
            raise _conflict(node, value)
        for key, item in value.items():
            self._see_item(node, key, item)

    def _see_item(self, node: Node, place: int | str, item: object) -> None:
        try:
            if node.item is not None:
                self._see(node.item, item)
            else:
                node.item = self._first(item)
        except Unfit as verdict:
            verdict.path.append(place)
            raise

    def _see_scalar(self, node: Node, value: object) -> None:
        """One more value of a column the slice itself brought."""
        if isinstance(value, (dict, list)):
            raise _conflict(node, value)
        if node.kind is Kind.DOUBLE and not isinstance(value, bool) and isinstance(value, (int, Literal)):
            _check_double(node, value)
            return
        kind, exact = _scalar(value)
        both_exact = node.exact and exact
        if kind is not node.kind:
            if not (node.exact and node.kind is Kind.LONG and kind is Kind.DOUBLE):
                raise _conflict(node, value)
            self.widened += 1
        if kind is not node.kind or both_exact is not node.exact:
            self._undo.append(partial(_restore, node, node.kind, exact=node.exact))
            node.kind, node.exact = kind, both_exact


def _check_double(node: Node, value: int | Literal) -> None:
    """A number after a fraction must be a double, as it must be once the table has the column."""
    try:
        numbers.double(value)
    except Unfit as verdict:
        raise _conflict(node, value) if verdict.code == "not-exact" else verdict from None


def _restore(node: Node, kind: Kind, *, exact: bool) -> None:
    node.kind, node.exact = kind, exact


def _conflict(node: Node, value: object) -> Unfit:
    """The verdict for a value that contradicts what is known of its place."""
    if not node.fresh:
        return wrong_type(node.kind.value, value)
    return Unfit("type-conflict", f"an earlier record of the slice has {node.kind.value} here, this one has {show(value)}")


def _word(node: Node) -> str:
    """See ``aside.word_of_kind``."""
    return word_of_kind(node.kind, _word(node.item) if node.kind is Kind.LIST and node.item is not None else "")


def _scalar(value: object) -> tuple[Kind, bool]:
    """The kind of column a scalar asks for, and whether it is an exact double."""
    if isinstance(value, bool):
        return Kind.BOOLEAN, True
    if type(value) is str:
        return Kind.STRING, True
    if type(value) is int or type(value) is IntLiteral:
        number = numbers.integer(value, *LONG_RANGE)
        return Kind.LONG, int(float(number)) == number
    if type(value) is Literal:
        numbers.double(value)
        return Kind.DOUBLE, True
    raise Bug(f"the JSON scanner made a {type(value).__name__}")


def _count(node: Node) -> int:
    """All named fields below a node."""
    below = sum(1 + _count(member) for _, member in node.fields)
    return below if node.item is None else below + _count(node.item)


def _news(node: Node) -> list[AnyField]:
    """The new fields below a known struct; of known nested ones, only what is new inside."""
    added: list[AnyField] = []
    for name, member in node.fields:
        arrow = _arrow(member) if member.fresh else _news_inside(member)
        if arrow is not None:
            added.append(pa.field(name, arrow))
    return added


def _news_inside(node: Node) -> pa.DataType | None:
    """The type that holds only the news below a known nested node; None if there are none."""
    if node.kind is Kind.STRUCT:
        added = _news(node)
        return pa.struct(added) if added else None
    inside = None if node.item is None else _news_inside(node.item)
    if inside is None:
        return None
    return pa.list_(pa.field("element", inside)) if node.kind is Kind.LIST else map_type(pa.string(), pa.field("value", inside))


def _arrow(node: Node) -> pa.DataType:
    """The Arrow type of a node the slice brought."""
    if node.kind is Kind.STRUCT:
        return pa.struct([pa.field(name, _arrow(member)) for name, member in node.fields])
    if node.item is not None:
        return pa.list_(pa.field("element", _arrow(node.item)))
    return _NEW_ARROW[node.kind]
