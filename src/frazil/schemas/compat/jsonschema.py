"""JSON Schema: whether every document of the writer's schema is one of the reader's.

What both sides say in the same words is taken as the same. A property that the writer's schema does not name is taken as absent, though
an open schema allows it. What cannot be compared (conditions, ``not``, patterns that differ) is a clash: nobody should find out later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from frazil.schemas.avro.tree import bad_schema
from frazil.schemas.framing import WriterSchema

_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_LOW: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_HIGH: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_SAME: Final = ("pattern", "multipleOf", "uniqueItems", "contains", "not", "if", "then", "else", "dependencies", "dependentRequired",
                "dependentSchemas", "patternProperties", "propertyNames", "prefixItems")  # fmt: skip
_DEPTH_MAX: Final = 64


def unreadable_json(reader: WriterSchema, writer: WriterSchema) -> list[str]:
    """See ``levels.Unreadable``."""
    return _Comparison(_Texts(reader), _Texts(writer)).compare()


class _Texts:
    """A schema and what it refers to."""

    def __init__(self, found: WriterSchema) -> None:
        try:
            self.root: object = json.loads(found.text)
            self._others: dict[str, object] = {name: json.loads(text) for name, text in found.references}
        except (ValueError, RecursionError) as error:
            raise bad_schema(f"not a schema in JSON ({type(error).__name__})") from error
        if not isinstance(self.root, (dict, bool)):
            raise bad_schema("a JSON Schema is an object, true or false")

    def resolve(self, form: object) -> object:
        """Through references; a reference that leads nowhere is no limit."""
        for _ in range(_DEPTH_MAX):
            if not isinstance(form, dict) or not isinstance(form.get("$ref"), str):
                return form
            name, _, pointer = form["$ref"].partition("#")
            found = self._others.get(name) if name else self.root
            for step in pointer.split("/")[1:]:
                key = step.replace("~1", "/").replace("~0", "~")
                found = found.get(key) if isinstance(found, dict) else None
            form = {} if found is None else found
        return {}


class _Comparison:
    def __init__(self, reader: _Texts, writer: _Texts) -> None:
        self._reader = reader
        self._writer = writer
        self._met: set[tuple[int, int]] = set()

    def compare(self) -> list[str]:
        return self._schema(self._reader.root, self._writer.root, "#", 0)

    def _schema(self, reader: object, writer: object, path: str, depth: int) -> list[str]:
        new, old = self._reader.resolve(reader), self._writer.resolve(writer)
        if (id(new), id(old)) in self._met or (new == old and not _refers(new)):
            return []
        if depth > _DEPTH_MAX:
            return [f"{path}: nested too deep to be compared"]
        self._met.add((id(new), id(old)))
        if new is True or new == {} or old is False:
            return []
        if new is False:
            return [f"{path}: nothing is allowed any more"]
        if not isinstance(new, dict):
            raise bad_schema(f"{path}: neither an object nor true or false")
        before: Mapping[str, Any] = old if isinstance(old, dict) else {}
        for word in ("oneOf", "anyOf"):
            if word in new or word in before:
                return self._choice(new, before, word, path, depth)
        if "allOf" in new or "allOf" in before:
            return self._all(new, before, path, depth)
        found = _types(new, before, path) + _values(new, before, path) + _bounds(new, before, path)
        found += [f"{path}: {word} differs" for word in _SAME if word in new and new.get(word) != before.get(word)]
        return found + self._object(new, before, path, depth) + self._items(new, before, path, depth)

    def _choice(self, new: Mapping[str, Any], old: Mapping[str, Any], word: str, path: str, depth: int) -> list[str]:
        """Each branch of the writer must be read by one of the reader."""
        readers, writers = _branches(new, word), _branches(old, word)
        found = []
        for at, branch in enumerate(writers):
            if not any(not _Comparison(self._reader, self._writer)._schema(one, branch, path, depth + 1) for one in readers):
                found.append(f"{path}: branch {at} of what was allowed fits no branch of {word}")
        return found

    def _all(self, new: Mapping[str, Any], old: Mapping[str, Any], path: str, depth: int) -> list[str]:
        """Each part that the reader asks for must be asked for by one of the writer's parts."""
        readers, writers = _branches(new, "allOf"), _branches(old, "allOf")
        found = []
        for at, one in enumerate(readers):
            if not any(not _Comparison(self._reader, self._writer)._schema(one, part, path, depth + 1) for part in writers):
                found.append(f"{path}: part {at} of allOf was not asked for before")
        return found

    def _object(self, new: Mapping[str, Any], old: Mapping[str, Any], path: str, depth: int) -> list[str]:
        properties, before = _mapping(new, "properties"), _mapping(old, "properties")
        missing = [name for name in sorted(_names(new) - _names(old)) if "default" not in _mapping(properties, name)]
        found = [f"{path}/{name}: required now, and has no default" for name in missing]
        rest = new.get("additionalProperties", True)
        for name, form in before.items():
            if name in properties:
                found += self._schema(properties[name], form, f"{path}/{name}", depth + 1)
            elif isinstance(rest, dict):
                found += self._schema(rest, form, f"{path}/{name}", depth + 1)
            elif rest is False:
                found.append(f"{path}/{name}: not allowed any more")
        if isinstance(old.get("additionalProperties"), dict) and rest is not True:
            found += self._schema(rest, old["additionalProperties"], f"{path}/*", depth + 1)
        return found

    def _items(self, new: Mapping[str, Any], old: Mapping[str, Any], path: str, depth: int) -> list[str]:
        if "items" not in new:
            return []
        return self._schema(new["items"], old.get("items", True), f"{path}/[]", depth + 1)


def _refers(form: object) -> bool:
    return "$ref" in json.dumps(form)


def _branches(form: Mapping[str, Any], word: str) -> Sequence[object]:
    found = form.get(word)
    return found if isinstance(found, list) else [form]


def _mapping(form: Mapping[str, Any], word: str) -> Mapping[str, Any]:
    found = form.get(word)
    return found if isinstance(found, dict) else {}


def _names(form: Mapping[str, Any]) -> set[str]:
    found = form.get("required")
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _kinds(form: Mapping[str, Any]) -> frozenset[str]:
    named = form.get("type")
    kinds = frozenset(named if isinstance(named, list) else [named]) & _TYPES if named is not None else _TYPES
    return kinds | {"integer"} if "number" in kinds else kinds


def _types(new: Mapping[str, Any], old: Mapping[str, Any], path: str) -> list[str]:
    lost = _kinds(old) - _kinds(new)
    if ("enum" in old and "type" not in old) or ("const" in old and "type" not in old):
        return []  # the values are compared one by one
    return [f"{path}: {', '.join(sorted(lost))} not allowed any more"] if lost else []


def _values(new: Mapping[str, Any], old: Mapping[str, Any], path: str) -> list[str]:
    allowed, before = _listed(new), _listed(old)
    if allowed is None:
        return []
    if before is None:
        return [f"{path}: only some values are allowed now"]
    lost = [value for value in before if value not in allowed]
    return [f"{path}: {json.dumps(lost)[:100]} not allowed any more"] if lost else []


def _listed(form: Mapping[str, Any]) -> list[Any] | None:
    if "const" in form:
        return [form["const"]]
    found = form.get("enum")
    return found if isinstance(found, list) else None


def _bounds(new: Mapping[str, Any], old: Mapping[str, Any], path: str) -> list[str]:
    found = []
    for word in (*_LOW, *_HIGH):
        now, was = new.get(word), old.get(word)
        if not isinstance(now, (int, float)):
            continue
        if not isinstance(was, (int, float)) or (now > was if word in _LOW else now < was):
            found.append(f"{path}: {word} is {now}, was {'absent' if was is None else was}")
    return found
