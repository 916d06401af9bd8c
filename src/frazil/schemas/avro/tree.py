"""An Avro schema as a tree (Avro 1.12 specification, "Schema Declaration"). Names are resolved; a type may contain itself."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from frazil.schemas.names import why_unfit
from frazil.schemas.unfit import Unfit

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)
_DEPTH_MAX: Final = 60
_FIXED_BYTES_MAX: Final = 1 << 20
_UUID_BYTES: Final = 16
_DIGITS_MAX: Final = 4000
"""A decimal of more digits is taken as the bytes it is: Python writes no longer number as text."""


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One type. ``kind`` is Avro's word for it, or ``union``; ``logical``: a logical type that is valid here, else empty."""

    kind: str
    name: str = ""
    logical: str = ""
    fields: list[tuple[str, Node]] = field(default_factory=list)
    inner: list[Node] = field(default_factory=list)
    """The item of an array, the value of a map, the branches of a union."""
    symbols: tuple[str, ...] = ()
    size: int = 0
    precision: int = 0
    scale: int = 0
    aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of a record: older names of its fields, by field."""
    wide: frozenset[str] = frozenset()
    """Of a record as a table sees it (``view``): the fields that land in a column beside, which has the widest type of its family."""
    origin: Node | None = None
    """Of such a record: the one of the schema."""

    @property
    def branch(self) -> str:
        """What the type is called as a branch of a union: its own name without namespace, or the word for its kind."""
        return self.name.rpartition(".")[2] or self.kind


def bad_schema(why: str) -> Unfit:
    """The verdict on a schema."""
    return Unfit("bad-schema", why)


def parse(text: str, references: Sequence[str] = ()) -> Node:
    """The tree of a schema; ``references`` define names it uses. Raises Unfit with code bad-schema."""
    reader = _Reader()
    try:
        for reference in references:
            reader.read(json.loads(reference), "", 0)
        return reader.read(json.loads(text), "", 0)
    except (ValueError, RecursionError) as error:
        raise bad_schema(f"not a schema in JSON ({type(error).__name__})") from None


class _Reader:
    def __init__(self) -> None:
        self._names: dict[str, Node] = {}

    def read(self, form: Any, space: str, depth: int) -> Node:  # noqa: ANN401 - JSON
        """The node of any form a schema can have. ``space``: the enclosing namespace."""
        if depth > _DEPTH_MAX:
            raise bad_schema(f"nested deeper than {_DEPTH_MAX}")
        if isinstance(form, str):
            return Node(kind=form) if form in PRIMITIVES else self._named(form, space)
        if isinstance(form, list):
            return self._union(form, space, depth)
        if not isinstance(form, dict) or "type" not in form:
            raise bad_schema("neither a name, nor a union, nor an object with a type")
        kind = form["type"]
        if not isinstance(kind, str):
            return self.read(kind, space, depth + 1)
        match kind:
            case "record" | "error":
                return self._record(form, space, depth)
            case "enum" | "fixed":
                return _with_logical(self._define(form, space, kind), form)
            case "array" | "map":
                word = "items" if kind == "array" else "values"
                return Node(kind=kind, inner=[self.read(form.get(word), space, depth + 1)])
            case _:
                node = Node(kind=kind) if kind in PRIMITIVES else self._named(kind, space)
                return _with_logical(node, form) if kind in PRIMITIVES else node

    def _named(self, name: str, space: str) -> Node:
        full = name if "." in name or not space else f"{space}.{name}"
        found = self._names.get(full) or self._names.get(name)
        if found is None:
            raise bad_schema(f"the type {name[:100]!r} is not defined")
        return found

    def _union(self, form: list[Any], space: str, depth: int) -> Node:
        branches = [self.read(one, space, depth + 1) for one in form]
        if not branches or any(branch.kind == "union" for branch in branches):
            raise bad_schema("a union without branches, or directly in a union")
        words = [branch.name or branch.kind for branch in branches]
        if len(set(words)) != len(words):
            raise bad_schema("a union has one type twice")
        return Node(kind="union", inner=branches)

    def _define(self, form: dict[str, Any], space: str, kind: str) -> Node:
        """A new named type, known from here on, so that it may contain itself."""
        name, given = form.get("name"), form.get("namespace")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise bad_schema(f"a {kind} without a proper name")
        inherited = given if isinstance(given, str) else space
        full = name if "." in name or not inherited else f"{inherited}.{name}"
        if full in self._names or full in PRIMITIVES:
            raise bad_schema(f"the name {full[:100]!r} is defined twice")
        node = Node(kind=kind, name=full)
        if kind == "enum":
            symbols = form.get("symbols")
            if not isinstance(symbols, list) or not symbols or not all(isinstance(symbol, str) for symbol in symbols):
                raise bad_schema(f"enum {full[:100]!r} without symbols")
            node.symbols = tuple(symbols)
        if kind == "fixed":
            node.size = _count(form.get("size"), 0, _FIXED_BYTES_MAX, f"size of fixed {full[:100]!r}")
        self._names[full] = node
        return node

    def _record(self, form: dict[str, Any], space: str, depth: int) -> Node:
        node = self._define(form, space, "record")
        inside = node.name.rpartition(".")[0]
        fields = form.get("fields")
        if not isinstance(fields, list):
            raise bad_schema(f"record {node.name[:100]!r} without fields")
        for one in fields:
            name = one.get("name") if isinstance(one, dict) else None
            if not isinstance(name, str) or "type" not in one:
                raise bad_schema(f"record {node.name[:100]!r}: a field without name or type")
            if (why := why_unfit(name)) is not None:
                raise bad_schema(f"record {node.name[:100]!r}: the field {name[:100]!r} cannot be a column: {why}")
            node.fields.append((name, self.read(one["type"], inside, depth + 1)))
            aliases = one.get("aliases")
            if isinstance(aliases, list) and aliases:
                node.aliases[name] = tuple(alias for alias in aliases if isinstance(alias, str) and alias != name)
        if len({name for name, _ in node.fields}) != len(node.fields):
            raise bad_schema(f"record {node.name[:100]!r} has one field twice")
        return node


def _count(value: Any, low: int, high: int, what: str) -> int:  # noqa: ANN401 - JSON
    if type(value) is not int or not low <= value <= high:
        raise bad_schema(f"{what}: not a whole number from {low} to {high}")
    return value


_LOGICALS: Final = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "uuid": ("string", "fixed"),
    "decimal": ("bytes", "fixed"),
}


def _with_logical(node: Node, form: dict[str, Any]) -> Node:
    """Marks a logical type; one that is unknown or not valid is left out, as the specification asks of readers."""
    logical = form.get("logicalType")
    if not isinstance(logical, str) or node.kind not in _LOGICALS.get(logical, ()):
        return node
    if logical == "uuid" and node.kind == "fixed" and node.size != _UUID_BYTES:
        return node
    if logical == "decimal":
        precision, scale = form.get("precision"), form.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision <= _DIGITS_MAX or not precision:
            return node
        node.precision, node.scale = precision, scale
    node.logical = logical
    return node
