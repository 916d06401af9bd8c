"""A writer's schema as a table sees it: each field called as the column it lands in. Everything after it goes by those names.

Two things call a field otherwise. Its *aliases* (Avro): a field without column whose older name has one goes on in that column. And a
*column beside* (``evolve.conflict=suffix``): a field whose type its column cannot be widened to lands in ``{column}__{type}``; the
field's type decides, not its values, so one schema always lands in the same columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.schemas.arrays import AnyField
from frazil.schemas.avro.columns import VALUE, Wanted, branches_of
from frazil.schemas.avro.tree import Node
from frazil.schemas.evolve import evolve
from frazil.schemas.names import NameIndex
from frazil.schemas.policy import beside, family_of
from frazil.schemas.port import DecodeOptions
from frazil.schemas.unfit import Unfit


def landing_view(node: Node, columns: pa.Schema, options: DecodeOptions) -> Node:
    """``node`` for a table that has ``columns``; the very same when it lands under its own names."""
    view = _View(options)
    if node.kind == "record":
        return view.record(node, list(columns), options.names(columns.names), ())
    at = columns.get_field_index(VALUE)
    return view.type(node, columns.field(at).type if at >= 0 else None, ())


class _View:
    def __init__(self, options: DecodeOptions) -> None:
        self._suffix = options.policy.suffix
        self._columns_max = options.columns_max

    def record(self, node: Node, have: Sequence[AnyField], index: NameIndex, above: tuple[int, ...]) -> Node:
        """A record whose columns are ``have``. ``above``: the records it is in."""
        above = (*above, id(node))
        own = {at for name, _ in node.fields if (at := index.find(name)) is not None}
        fields: list[tuple[str, Node]] = []
        wide: set[str] = set()
        for name, inner in node.fields:
            landed, at = name, index.find(name)
            if at is None:
                landed, at = self._by_alias(node, name, index, own)
            known = have[at] if at is not None else None
            seen = self.type(inner, None if known is None else known.type, above)
            if known is not None and self._suffix and not self._joins(known, seen, above):
                landed = beside(known.name, self._word(seen, above))
                at = index.find(landed)
                seen = self.type(inner, None if at is None else have[at].type, above)
                wide.add(landed)
            fields.append((landed, seen))
        if all(old is new or (old[0] == new[0] and old[1] is new[1]) for old, new in zip(node.fields, fields, strict=True)):
            return node
        return replace(node, fields=fields, wide=frozenset(wide), origin=node)

    def type(self, node: Node, have: pa.DataType | None, above: tuple[int, ...]) -> Node:
        """Any type whose column is ``have``. Without column nothing lands elsewhere, so the work is bounded by the table's columns."""
        if have is None:
            return node
        match node.kind:
            case "record":
                if id(node) in above or not isinstance(have, pa.StructType):
                    return node
                known = list(have)
                return self.record(node, known, NameIndex([field.name for field in known]), above)
            case "array":
                return self._inner(node, [have.value_type if isinstance(have, (pa.ListType, pa.LargeListType)) else None], above)
            case "map":
                return self._inner(node, [have.item_type if isinstance(have, pa.MapType) else None], above)
            case "union":
                return self._inner(node, _of_branches(node, have), above)
            case _:
                return node

    def _inner(self, node: Node, have: Sequence[pa.DataType | None], above: tuple[int, ...]) -> Node:
        inner = [self.type(one, known, above) for one, known in zip(node.inner, have, strict=True)]
        return node if all(old is new for old, new in zip(node.inner, inner, strict=True)) else replace(node, inner=inner)

    @staticmethod
    def _by_alias(node: Node, name: str, index: NameIndex, own: set[int]) -> tuple[str, int | None]:
        """The first older name that has a column, unless another field of the record has that one."""
        for alias in node.aliases.get(name, ()):
            at = index.find(alias)
            if at is not None and at not in own:
                own.add(at)
                return alias, at
        return name, None

    def _arrow(self, node: Node, have: pa.DataType | None, above: tuple[int, ...]) -> pa.DataType | None:
        try:
            return Wanted(self._columns_max).type(node, have, above)
        except Unfit:
            return None

    def _joins(self, known: AnyField, node: Node, above: tuple[int, ...]) -> bool:
        """Whether the column can take the field's type, widened if need be."""
        arrow = self._arrow(node, known.type, above)
        try:
            return arrow is None or evolve(pa.schema([known]), pa.schema([pa.field(known.name, arrow)])) is not None
        except Refused:
            return False

    def _word(self, node: Node, above: tuple[int, ...]) -> str:
        return family_of(self._arrow(node, None, above) or pa.string(), "value")


def _of_branches(node: Node, have: pa.DataType | None) -> list[pa.DataType | None]:
    """The column type of each branch of a union."""
    names = branches_of(node)
    if len(names) == 1:
        return [have if number in names else None for number in range(len(node.inner))]
    known = list(have) if isinstance(have, pa.StructType) else []
    index = NameIndex([field.name for field in known])
    places = [index.find(names[number]) if number in names else None for number in range(len(node.inner))]
    return [None if at is None else known[at].type for at in places]
