"""Names in Avro schemas that every reader takes: ASCII letters, digits and ``_``, each once (Avro specification, "Names"; F44). Pure.

The library leaves letters of other alphabets as they are, makes two fields of one name of ``a#b`` and ``a_x23b``, and defines a named
type again where it is used again. Readers of Iceberg go by field ids, so a name may be anything that is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ALLOWED: Final = re.compile(r"[A-Za-z0-9_]")
ORIGINAL: Final = "iceberg-field-name"
"""Field property with the name as the table has it."""


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` with names that are allowed, fields unique within their record and types within the schema."""
    return _Names().record(schema)


def avro_name(name: str) -> str:
    """As Iceberg's specification writes it: ``_x`` and the code point in place of what is not allowed, ``_`` before a first digit."""
    if _NAME.fullmatch(name):
        return name
    text = "".join(char if _ALLOWED.fullmatch(char) else f"_x{ord(char):X}" for char in name)
    return f"_{text}" if text[:1].isdigit() else text


class _Names:
    def __init__(self) -> None:
        self._types: set[str] = set()

    def record(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        name = self._unique(str(schema["name"]))
        taken: set[str] = set()
        fields = []
        for field in schema["fields"]:
            original = str(field.get(ORIGINAL, field["name"]))
            short = avro_name(original)
            if short in taken:
                short = f"{short}_{field['field-id']}"
            taken.add(short)
            renamed = {**field, "name": short, "type": self._type(field["type"])}
            fields.append({**renamed, ORIGINAL: original} if short != original else renamed)
        return {**schema, "name": name, "fields": fields}

    def _type(self, kind: Any) -> Any:  # noqa: ANN401 - an Avro type is text, a list or an object
        if isinstance(kind, list):
            return [self._type(branch) for branch in kind]
        if not isinstance(kind, Mapping):
            return kind
        if kind["type"] == "record":
            return self.record(kind)
        if kind["type"] == "array":
            return {**kind, "items": self._type(kind["items"])}
        if kind["type"] == "map":
            return {**kind, "values": self._type(kind["values"])}
        return {**kind, "name": self._unique(str(kind["name"]))} if "name" in kind else dict(kind)

    def _unique(self, name: str) -> str:
        found, number = name, 1
        while found in self._types:
            number += 1
            found = f"{name}_{number}"
        self._types.add(found)
        return found
