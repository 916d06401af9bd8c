"""What of a record no column holds, as JSON text for the column that takes it (``evolve.overflow``): whole fields of the top level."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from frazil.schemas.avro.columns import branches_of, fields_of
from frazil.schemas.avro.texts import json_text
from frazil.schemas.avro.tree import Node
from frazil.schemas.names import NameIndex
from frazil.schemas.shape import Kind, Member, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A field that has no column, or has something inside that has none. ``at``: its number in the record."""

    at: int
    name: str
    node: Node


def rest_of(node: Node, members: Sequence[Member], index: NameIndex) -> tuple[Left, ...]:
    """The fields that the column for the rest has to keep. ``node``: as the table sees it."""
    found: list[Left] = []
    for at, (name, inner) in enumerate(fields_of(node)):
        place = index.find(name)
        if inner.kind != "null" and (place is None or _loses(inner, members[place].shape)):
            found.append(Left(at=at, name=name, node=inner))
    return tuple(found)


def _loses(node: Node, shape: Shape) -> bool:
    """Whether a field inside has no column. Ends because the column's type is finite."""
    if node.kind == "union":
        names = branches_of(node)
        if len(names) == 1:
            return _loses(node.inner[next(iter(names))], shape)
        return shape.kind is Kind.STRUCT and _any_loses([(name, node.inner[number]) for number, name in names.items()], shape)
    if node.kind == "record" and shape.kind is Kind.STRUCT:
        return _any_loses(node.fields, shape)
    if (node.kind, shape.kind) in (("array", Kind.LIST), ("map", Kind.MAP)):
        return _loses(node.inner[0], shape.members[0].shape)
    return False


def _any_loses(fields: Sequence[tuple[str, Node]], shape: Shape) -> bool:
    index = NameIndex([member.name for member in shape.members])
    for name, node in fields:
        place = index.find(name)
        if node.kind != "null" and (place is None or _loses(node, shape.members[place].shape)):
            return True
    return False


def rest_text(rest: Sequence[Left], fields: Sequence[Any]) -> str | None:
    """The text for one record; None when those fields are null."""
    found = [(left, fields[left.at]) for left in rest if fields[left.at] is not None]
    if not found:
        return None
    return "{" + ",".join(f"{json.dumps(left.name, ensure_ascii=False)}:{json_text(left.node, value)}" for left, value in found) + "}"
