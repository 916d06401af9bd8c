"""Nodes → the frozen values of a declared kind. What is not as declared is a ManifestFault at its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from frazil.admin.manifests.fields import Entry, Secret, entries, exclusive, is_declared, required_when
from frazil.admin.manifests.interpolate import interpolate
from frazil.admin.manifests.place import ManifestFault, Place, nearest, shown
from frazil.admin.manifests.tree import Items, Mapped, Node, Scalar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What values are read with. ``variables`` may be interpolated."""

    variables: Mapping[str, str]


def read_mapping(node: Node, kind: type[T], path: str, reading: Reading) -> T:
    """The value of ``kind`` that ``node`` describes. Raises ManifestFault."""
    place = at(node, path)
    if not isinstance(node, Mapped):
        raise ManifestFault(place, f"want a mapping with {_keys_of(kind)}, not {what(node)}")
    known = {entry.key: entry for entry in entries(kind)}
    for key in node.nodes:
        if key not in known:
            raise ManifestFault(_key_place(node, key, path), f"unknown key {shown(key)}; {nearest(key, known)}")
    for group in exclusive(kind):
        given = [key for key in group if key in node.nodes]
        if len(given) > 1:
            raise ManifestFault(_key_place(node, given[1], path), f"{' and '.join(given)} exclude each other; keep one of them")
    values: dict[str, Any] = {}
    for key, entry in known.items():
        if key in node.nodes:
            values[entry.name] = _value(node.nodes[key], entry, f"{path}.{key}" if path else key, reading)
        elif entry.required:
            raise ManifestFault(place, f"key {key!r} is missing: {entry.rule.about}{_for_example(entry)}")
        else:
            values[entry.name] = entry.default
    _check_needs(node, kind, path, values)
    return kind(**values)


def _check_needs(node: Mapped, kind: type, path: str, values: Mapping[str, Any]) -> None:
    for name, value, needed in required_when(kind):
        for key in needed:
            if values.get(name) == value and key not in node.nodes:
                raise ManifestFault(at(node, path), f"{name} {value} needs the key {key!r}")


def at(node: Node, path: str) -> Place:
    """The node's place, with its path."""
    return Place(file=node.place.file, line=node.place.line, column=node.place.column, path=path)


def what(node: Node) -> str:
    """The node in words."""
    if isinstance(node, Items):
        return "a list"
    if isinstance(node, Mapped):
        return "a mapping"
    if node.value is None:
        return "nothing"
    if isinstance(node.value, str):
        return f"the text {shown(node.text)}"
    return f"{node.text[:80]}, which YAML reads as {'true or false' if isinstance(node.value, bool) else 'a number'}"


def _value(node: Node, entry: Entry, path: str, reading: Reading) -> Any:  # noqa: ANN401 - the declared type of the entry
    place = at(node, path)
    if isinstance(node, Scalar) and node.value is None:
        raise ManifestFault(place, f"no value; leave the key out, or write {entry.rule.about}{_for_example(entry)}")
    if is_declared(entry.kind):
        return read_mapping(node, entry.kind, path, reading)
    if entry.kind is tuple:
        return _items(node, entry, path, reading)
    if entry.kind is Mapping:
        return _texts(node, entry, path, reading)
    if entry.kind is bool:
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        raise ManifestFault(place, f"want true or false, not {what(node)}")
    if entry.kind is int:
        return _number(node, entry, place)
    text = _text(node, entry, place, reading)
    return Secret(node.text, text) if entry.kind is Secret and isinstance(node, Scalar) else text


def _number(node: Node, entry: Entry, place: Place) -> int:
    rule = entry.rule
    if not isinstance(node, Scalar) or isinstance(node.value, bool) or not isinstance(node.value, int):
        raise ManifestFault(place, f"want a whole number, not {what(node)}")
    if (rule.least is not None and node.value < rule.least) or (rule.most is not None and node.value > rule.most):
        raise ManifestFault(place, f"{node.value} is not {_range(rule.least, rule.most)}")
    return node.value


def _range(least: int | None, most: int | None) -> str:
    if most is None:
        return f"at least {least}"
    return f"from {least} to {most}" if least is not None else f"at most {most}"


def _text(node: Node, entry: Entry, place: Place, reading: Reading, *, loose: bool = False) -> str:
    rule = entry.rule
    hidden = entry.kind is Secret
    if not isinstance(node, Scalar):
        raise ManifestFault(place, f"want text, not {what(node)}")
    if not isinstance(node.value, str) and not (loose and node.value is not None):
        raise ManifestFault(place, "want text; quote it" if hidden else f"want text, not {what(node)}; quote it")
    text = interpolate(node.text, reading.variables, place)
    told = "the value" if hidden or text != node.text else shown(text)  # what a variable holds may be a secret
    if len(text) > rule.characters_max:
        raise ManifestFault(place, f"{len(text)} characters are too many; at most {rule.characters_max}")
    if rule.choices and text not in rule.choices:
        raise ManifestFault(place, f"{told} is not known; {nearest(node.text, rule.choices)}")
    if rule.pattern and re.fullmatch(rule.pattern, text) is None:
        raise ManifestFault(place, f"{told} is not {rule.wanted}")
    return text


def _items(node: Node, entry: Entry, path: str, reading: Reading) -> tuple[str, ...]:
    if not isinstance(node, Items):
        raise ManifestFault(at(node, path), f"want a list, not {what(node)}{_for_example(entry)}")
    if len(node.nodes) < entry.rule.items_least:
        raise ManifestFault(at(node, path), f"want at least {entry.rule.items_least} in the list: {entry.rule.about}")
    texts: dict[str, None] = {}
    for number, item in enumerate(node.nodes):
        place = at(item, f"{path}[{number}]")
        text = _text(item, entry, place, reading)
        if text in texts:
            raise ManifestFault(place, f"{shown(text)} stands twice in the list; remove one")
        texts[text] = None
    return tuple(texts)


def _texts(node: Node, entry: Entry, path: str, reading: Reading) -> dict[str, str | Secret]:
    if not isinstance(node, Mapped):
        raise ManifestFault(at(node, path), f"want a mapping, not {what(node)}{_for_example(entry)}")
    hides, found = entry.rule.hides, dict[str, str | Secret]()
    for key, item in node.nodes.items():
        text = _text(item, entry, at(item, f"{path}.{key}"), reading, loose=entry.rule.numbers_too)
        hidden = hides is not None and isinstance(item, Scalar) and hides(key, item.text)
        found[key] = Secret(item.text, text) if hidden and isinstance(item, Scalar) else text
    return found


def _key_place(node: Mapped, key: str, path: str) -> Place:
    place = node.keys[key]
    return Place(file=place.file, line=place.line, column=place.column, path=path)


def _keys_of(kind: type) -> str:
    return ", ".join(entry.key for entry in entries(kind))


def _for_example(entry: Entry) -> str:
    return f", for example {entry.rule.example}" if entry.rule.example else ""
