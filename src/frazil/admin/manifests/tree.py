"""YAML (and so JSON) text → documents as trees of nodes that know their places.

Composed from the parser's events, which come one by one, so that every bound holds while the text is read: an alias counts as
what it stands for, and neither depth nor number of nodes can run away. Duplicate keys, merge keys, tags and keys that are not
text are refused. Plain scalars have the types of the YAML 1.2 core schema, which are JSON's: ``no`` is text, not false.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml

from frazil.admin.manifests.place import ManifestFault, Place, shown

BYTES_MAX: Final = 1024 * 1024
NODES_MAX: Final = 20_000
DEPTH_MAX: Final = 32
_FLOAT_CHARACTERS_MAX: Final = 64

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,19}|0o[0-7]{1,21}|0x[0-9a-fA-F]{1,16}")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"true", "True", "TRUE"})
_FALSE: Final = frozenset({"false", "False", "FALSE"})


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value: text, whole number, true or false, ``None``; or a float, which no manifest wants."""

    place: Place
    value: str | int | float | bool | None
    text: str
    """As it was written, without quotes."""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    place: Place
    nodes: list[Node]


@dataclass(frozen=True, slots=True)
class Mapped:
    """A mapping, in the order of the text. ``keys`` says where each key stands."""

    place: Place
    nodes: dict[str, Node]
    keys: dict[str, Place]


Node: TypeAlias = Scalar | Items | Mapped


def parse_documents(text: str | bytes, file: str) -> tuple[Node, ...]:
    """The documents of one file that hold anything, in order. Raises ManifestFault; nothing else, whatever the bytes are."""
    start = Place(file=file, line=1, column=1)
    if len(text) > BYTES_MAX:
        raise ManifestFault(start, f"{len(text)} bytes are too many for a manifest; at most {BYTES_MAX}")
    try:
        nodes = list(_Composer(file).documents(yaml.parse(_decoded(text, file), Loader=_LOADER)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = start if mark is None else _place(file, mark)
        raise ManifestFault(place, f"not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, UnicodeError, ValueError) as error:  # a character that YAML does not allow, or half a surrogate pair
        raise ManifestFault(start, f"not YAML: {' '.join(str(error).split())[:300]}") from error
    return tuple(node for node in nodes if not (isinstance(node, Scalar) and node.value is None))


def _decoded(text: str | bytes, file: str) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text[: error.start].count(b"\n") + 1
        raise ManifestFault(Place(file=file, line=line, column=1), f"not UTF-8 text: {error.reason}") from error


def plain(node: Node) -> object:
    """The node as JSON would have it."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Items):
        return [plain(item) for item in node.nodes]
    return {key: plain(item) for key, item in node.nodes.items()}


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come."""

    node: Items | Mapped
    anchor: str | None
    key: str | None = None
    size: int = 1


@dataclass(slots=True)
class _Composer:
    file: str
    nodes: int = 0
    anchors: dict[str, tuple[Node, int, int]] = field(default_factory=dict)
    """Name → node, its number of nodes, its depth."""
    stack: list[_Open] = field(default_factory=list)
    root: Node | None = None

    def documents(self, events: Iterator[Any]) -> Iterator[Node]:
        """One tree per document."""
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                self.anchors, self.stack, self.root = {}, [], None
            elif isinstance(event, yaml.DocumentEndEvent):
                if self.root is not None:
                    yield self.root
            elif isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
                self._begin(event)
            elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                self._end()

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        place = self._place(event)
        self._check_tag(event, place)
        quoted = event.style in ("'", '"', "|", ">") or event.tag in ("!", "tag:yaml.org,2002:str")
        node = Scalar(place, event.value if quoted else _resolve(event.value), event.value)
        self._add(node, size=1, depth=1)
        self._remember(event.anchor, node, size=1, depth=1)

    def _alias(self, event: yaml.AliasEvent) -> None:
        place = self._place(event)
        if event.anchor not in self.anchors:
            raise ManifestFault(place, f"alias *{event.anchor} names no anchor that is complete before it")
        node, size, depth = self.anchors[event.anchor]
        self._add(node, size=size, depth=depth, place=place)

    def _begin(self, event: yaml.SequenceStartEvent | yaml.MappingStartEvent) -> None:
        place = self._place(event)
        self._check_tag(event, place)
        if self.stack and isinstance(self.stack[-1].node, Mapped) and self.stack[-1].key is None:
            raise ManifestFault(place, "a key must be text")
        node = Items(place, []) if isinstance(event, yaml.SequenceStartEvent) else Mapped(place, {}, {})
        self._count(place, size=1, depth=1)
        self.stack.append(_Open(node, event.anchor))

    def _end(self) -> None:
        done = self.stack.pop()
        depth = 1 + max((self._depth(child) for child in _children(done.node)), default=0) if done.anchor else 1
        self._place_node(done.node, done.node.place, size=done.size)
        self._remember(done.anchor, done.node, size=done.size, depth=depth)

    def _depth(self, node: Node) -> int:
        return 1 + max((self._depth(child) for child in _children(node)), default=0)

    def _add(self, node: Node, *, size: int, depth: int, place: Place | None = None) -> None:
        place = place or node.place
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.node, Mapped) and top.key is None:
            self._key(top, node, place)
            return
        self._count(place, size=size, depth=depth)
        self._place_node(node, place, size=size)

    def _key(self, top: _Open, node: Node, place: Place) -> None:
        mapping = top.node
        if not isinstance(node, Scalar) or not isinstance(mapping, Mapped):
            raise ManifestFault(place, "a key must be text")
        key = node.text
        if key == "<<":
            raise ManifestFault(place, "merge keys (<<) are not taken; write the keys out")
        if node.value is None or isinstance(node.value, float):
            raise ManifestFault(place, f"key {shown(key)} must be text; quote it")
        if key in mapping.nodes:
            raise ManifestFault(place, f"key {shown(key)} stands twice; the first is in line {mapping.keys[key].line}. Remove one")
        top.key = key
        mapping.keys[key] = place
        self._count(place, size=1, depth=0)

    def _place_node(self, node: Node, place: Place, *, size: int) -> None:
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        top.size += size
        if isinstance(top.node, Items):
            top.node.nodes.append(node)
        elif top.key is None:
            raise ManifestFault(place, "a key must be text")
        else:
            top.node.nodes[top.key] = node
            top.key = None

    def _remember(self, anchor: str | None, node: Node, *, size: int, depth: int) -> None:
        if anchor is not None:
            self.anchors[anchor] = (node, size, depth)

    def _count(self, place: Place, *, size: int, depth: int) -> None:
        self.nodes += size
        if self.nodes > NODES_MAX:
            raise ManifestFault(place, f"more than {NODES_MAX} values, aliases counted as what they stand for; split the file")
        if len(self.stack) + depth > DEPTH_MAX:
            raise ManifestFault(place, f"nested deeper than {DEPTH_MAX} levels")

    def _place(self, event: yaml.Event) -> Place:
        return _place(self.file, event.start_mark)

    def _check_tag(self, event: yaml.NodeEvent, place: Place) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None and tag not in ("!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            raise ManifestFault(place, f"tag {shown(tag)} is not taken; write the plain value")


def _children(node: Node) -> list[Node]:
    if isinstance(node, Items):
        return node.nodes
    return list(node.nodes.values()) if isinstance(node, Mapped) else []


def _place(file: str, mark: Any) -> Place:  # noqa: ANN401 - marks of the C parser have no common class with those of the other
    return Place(file=file, line=mark.line + 1, column=mark.column + 1)


def _resolve(text: str) -> str | int | float | bool | None:
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INTEGER.fullmatch(text):
        return int(text, 8 if text.startswith("0o") else 16 if text.startswith("0x") else 10)
    return float(text) if len(text) <= _FLOAT_CHARACTERS_MAX and _FLOAT.fullmatch(text) else text
