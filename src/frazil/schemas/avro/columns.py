"""The columns that an Avro schema asks for, under the names a table already has for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from frazil.schemas.arrays import AnyField, map_type
from frazil.schemas.avro.tree import Node
from frazil.schemas.names import NameIndex
from frazil.schemas.policy import widest
from frazil.schemas.unfit import Unfit

VALUE: Final = "value"
"""The column of a schema that is not a record."""
PRECISION_MAX: Final = 38

_PLAIN: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: Final[dict[str, pa.DataType]] = {
    "date": pa.date32(),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.int64(),
    "proto-timestamp-nanos": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.int64(),
    "uuid": pa.uuid(),
}


def fields_of(node: Node) -> list[tuple[str, Node]]:
    """The fields of a value: those of a record; anything else is the one field ``value``."""
    return node.fields if node.kind == "record" else [(VALUE, node)]


def branches_of(node: Node) -> dict[int, str]:
    """The branches of a union beside null: number in the union to the name of the struct field it lands in."""
    found = {number: branch for number, branch in enumerate(node.inner) if branch.kind != "null"}
    short = [branch.branch for branch in found.values()]
    return {
        number: branch.branch if short.count(branch.branch) == 1 else (branch.name or branch.kind).replace(".", "_")
        for number, branch in found.items()
    }


class Wanted:
    """Works out column types. ``columns_max`` bounds the fields of all of them together, as a schema can name one type many times."""

    def __init__(self, columns_max: int) -> None:
        self._left = self._most = columns_max

    def schema(self, node: Node, existing: pa.Schema, index: NameIndex) -> pa.Schema:
        """The columns of ``node``; those ``existing`` has in another spelling are named as there. Raises Unfit too-many-columns.

        ``node``: as the table sees it (``view``); ``index``: the names of ``existing``.
        """
        return pa.schema(self._fields(fields_of(node), list(existing), index, (id(node.origin or node),), node.wide))

    def _fields(
        self,
        fields: Iterable[tuple[str, Node]],
        have: list[AnyField],
        index: NameIndex,
        above: tuple[int, ...],
        wide: frozenset[str] = frozenset(),
    ) -> list[AnyField]:
        found: dict[str, AnyField] = {}
        for name, node in fields:
            position = index.find(name)
            known = have[position] if position is not None else None
            arrow = self.type(node, None if known is None else known.type, above)
            if name in wide and arrow is not None:
                arrow = widest(arrow)
            column = index.landing_name(name) if known is None else known.name
            if arrow is not None:
                found.setdefault(column.lower(), pa.field(column, arrow))
        return list(found.values())

    def type(self, node: Node, have: pa.DataType | None, above: tuple[int, ...]) -> pa.DataType | None:
        """The type of a column; None when the values can only be null. A type within itself is text."""
        self._left -= 1
        if self._left < 0:
            raise Unfit("too-many-columns", f"more than {self._most} fields")
        match node.kind:
            case "null":
                return None
            case "union":
                return self._union(node, have, above)
            case "record":
                return self._record(node, have, above)
            case "array":
                item = self.type(node.inner[0], have.value_type if isinstance(have, (pa.ListType, pa.LargeListType)) else None, above)
                return pa.string() if item is None else pa.list_(pa.field("element", item))
            case "map":
                value = self.type(node.inner[0], have.item_type if isinstance(have, pa.MapType) else None, above)
                return pa.string() if value is None else map_type(pa.string(), pa.field("value", value))
            case "fixed" if not node.logical:
                return pa.binary(node.size) if node.size else pa.binary()
            case _:
                return _scalar(node)

    def _union(self, node: Node, have: pa.DataType | None, above: tuple[int, ...]) -> pa.DataType | None:
        names = branches_of(node)
        if len(names) == 1:
            return self.type(node.inner[next(iter(names))], have, above)
        return self._struct([(name, node.inner[number]) for number, name in names.items()], have, above) if names else None

    def _record(self, node: Node, have: pa.DataType | None, above: tuple[int, ...]) -> pa.DataType:
        itself = id(node.origin or node)
        return pa.string() if itself in above else self._struct(node.fields, have, (*above, itself), node.wide)

    def _struct(
        self, fields: Iterable[tuple[str, Node]], have: pa.DataType | None, above: tuple[int, ...], wide: frozenset[str] = frozenset()
    ) -> pa.DataType:
        known = list(have) if isinstance(have, pa.StructType) else []
        inner = self._fields(fields, known, NameIndex([field.name for field in known]), above, wide)
        return pa.struct(inner) if inner else pa.string()


def _scalar(node: Node) -> pa.DataType:
    if node.logical == "decimal":
        return pa.decimal128(node.precision, node.scale) if node.precision <= PRECISION_MAX else pa.string()
    return _LOGICAL[node.logical] if node.logical else _PLAIN[node.kind]
