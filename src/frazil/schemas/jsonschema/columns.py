"""The columns a JSON Schema asks for. Only what it says plainly; of the rest the values tell, as they do without a schema.

A schema describes validation, not types: ``anyOf`` of two kinds, conditions and patterns name no column type. Whatever is not
understood here is no error: the field is inferred from its values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from frazil.schemas.arrays import AnyField, map_type
from frazil.schemas.names import NameIndex, why_unfit
from frazil.schemas.unfit import Unfit

_DEPTH_MAX: Final = 32
"""Levels that a schema types; below, the values tell."""
_STEPS_MAX: Final = 64
_FORMATS: Final[dict[str, pa.DataType]] = {"date-time": pa.timestamp("us", "UTC"), "date": pa.date32(), "uuid": pa.uuid()}
_PLAIN: Final[dict[str, pa.DataType]] = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}

_Above: TypeAlias = tuple[int, ...]


class JsonSchema:
    """One schema with the texts it refers to. ``columns_max`` bounds what it may ask for."""

    def __init__(self, text: str, references: Sequence[tuple[str, str]], columns_max: int) -> None:
        """Raises Unfit with code bad-schema when a text is not JSON."""
        try:
            self._root = json.loads(text)
            self._others = {name: json.loads(other) for name, other in references}
        except (ValueError, RecursionError) as error:
            raise Unfit("bad-schema", f"not a schema in JSON ({type(error).__name__})") from None
        self._left = self._most = columns_max

    def columns(self, existing: pa.Schema, index: NameIndex) -> pa.Schema:
        """Typed columns; those ``existing``, whose names are ``index``, has in another spelling are named as there.

        Raises Unfit too-many-columns.
        """
        self._left = self._most
        form, root = self._resolve(self._root, self._root)
        return pa.schema(self._fields(form, root, list(existing), index, (id(form),)))

    def _fields(self, form: Mapping[str, Any], root: object, have: list[AnyField], index: NameIndex, above: _Above) -> list[AnyField]:
        found: dict[str, AnyField] = {}
        for name, inner in _properties(form).items():
            position = index.find(name)
            known = have[position] if position is not None else None
            column = index.landing_name(name) if known is None else known.name
            arrow = self._type(inner, root, None if known is None else known.type, above)
            if arrow is not None and why_unfit(column) is None:
                found.setdefault(column.lower(), pa.field(column, arrow))
        return list(found.values())

    def _type(self, form: object, root: object, have: pa.DataType | None, above: _Above) -> pa.DataType | None:
        """The type that a schema names; None when it names none, or is within itself."""
        self._left -= 1
        if self._left < 0:
            raise Unfit("too-many-columns", f"more than {self._most} fields")
        resolved, root = self._resolve(form, root)
        if id(resolved) in above or len(above) > _DEPTH_MAX:
            return None
        above = (*above, id(resolved))
        match _kind(resolved):
            case "string":
                return _FORMATS.get(str(resolved.get("format")), pa.string())
            case "array":
                item = self._type(resolved.get("items"), root, have.value_type if isinstance(have, pa.ListType) else None, above)
                return None if item is None else pa.list_(pa.field("element", item))
            case "object":
                return self._object(resolved, root, have, above)
            case kind:
                return _PLAIN.get(kind)

    def _object(self, form: Mapping[str, Any], root: object, have: pa.DataType | None, above: _Above) -> pa.DataType | None:
        more = form.get("additionalProperties")
        if isinstance(more, dict) and more and not _properties(form):
            value = self._type(more, root, have.item_type if isinstance(have, pa.MapType) else None, above)
            return None if value is None else map_type(pa.string(), pa.field("value", value))
        known = list(have) if isinstance(have, pa.StructType) else []
        inner = self._fields(form, root, known, NameIndex([field.name for field in known]), above)
        return pa.struct(inner) if inner else None

    def _resolve(self, form: object, root: object) -> tuple[Mapping[str, Any], object]:
        """Through references, and through a choice between null and one thing. An empty schema when that leads nowhere."""
        for _ in range(_STEPS_MAX):
            if not isinstance(form, dict):
                return {}, root
            choice = _only_choice(form)
            if choice is not None:
                form = choice
            elif isinstance(form.get("$ref"), str):
                form, root = self._follow(form["$ref"], root)
            else:
                return form, root
        return {}, root

    def _follow(self, reference: str, root: object) -> tuple[object, object]:
        name, _, pointer = reference.partition("#")
        found = root = self._others.get(name) if name else root
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        return found, root


def _properties(form: Mapping[str, Any]) -> Mapping[str, Any]:
    found = form.get("properties")
    return found if isinstance(found, dict) else {}


def _kind(form: Mapping[str, Any]) -> str:
    """The one type a schema allows beside null; empty when there is none or are several."""
    named = form.get("type")
    kinds = [kind for kind in (named if isinstance(named, list) else [named]) if isinstance(kind, str) and kind != "null"]
    if not kinds and _properties(form):
        return "object"
    return kinds[0] if len(kinds) == 1 else ""


def _only_choice(form: Mapping[str, Any]) -> object | None:
    """The one branch that is not null, of ``oneOf``, ``anyOf`` or ``allOf``, in a schema that says nothing else of the type."""
    if "type" in form or "properties" in form:
        return None
    for word in ("oneOf", "anyOf", "allOf"):
        branches = form.get(word)
        if isinstance(branches, list):
            real = [one for one in branches if not (isinstance(one, dict) and one.get("type") == "null")]
            return real[0] if len(real) == 1 else None
    return None
