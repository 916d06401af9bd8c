"""JSON Schemas (draft 2020-12) and the reference page, made from the same declarations as the reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from frazil.admin.manifests.catalogspec import SECRET_KEYS
from frazil.admin.manifests.fields import Entry, Secret, entries, exclusive, is_declared, required_when
from frazil.admin.manifests.kinds import SPECS, Metadata

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_ADDRESS: Final = "https://frazil.dev/schemas"
_VARIABLE: Final = r"\$\{"


def schema_files() -> dict[str, dict[str, Any]]:
    """File name → schema: one per kind, and ``manifest.schema.json`` that takes every kind."""
    found = {schema_file(version, kind): _document(version, kind) for version, kind in SPECS}
    every = {"$schema": _DIALECT, "$id": f"{_ADDRESS}/manifest.schema.json", "title": "A manifest of Frazil"}
    return {**found, "manifest.schema.json": {**every, "oneOf": [{"$ref": name} for name in found]}}


def schema_file(version: str, kind: str) -> str:
    """``frazil.dev-v1-topic.schema.json``."""
    return f"{version.replace('/', '-')}-{kind.lower()}.schema.json"


def reference_page() -> str:
    """The tables of docs/manifests.md: every kind, every key."""
    lines: list[str] = []
    for (version, kind), spec in SPECS.items():
        lines += [f"### `{version}` `{kind}`", "", _sentence(spec), ""]
        lines += ["| key | type | default | what it is for |", "|---|---|---|---|"]
        lines += [_row(path, one) for path, one in _walk(spec, "spec")]
        lines.append("")
    lines += ["### Keys of a secret", "", "| key | what it is |", "|---|---|"]
    lines += [f"| `{key}` | {about} |" for key, about in SECRET_KEYS.items()]
    return "\n".join(lines) + "\n"


def _document(version: str, kind: str) -> dict[str, Any]:
    spec = SPECS[version, kind]
    return {
        "$schema": _DIALECT,
        "$id": f"{_ADDRESS}/{schema_file(version, kind)}",
        "title": kind,
        "description": _sentence(spec),
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
        "properties": {
            "apiVersion": {"const": version},
            "kind": {"const": kind},
            "metadata": _mapping(Metadata),
            "spec": _mapping(spec),
        },
    }


def _mapping(kind: type) -> dict[str, Any]:
    known = entries(kind)
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
    required = [one.key for one in known if one.required]
    if required:
        schema["required"] = required
    schema["properties"] = {one.key: {"description": one.rule.about, **_schema(one)} for one in known}
    rules: list[dict[str, Any]] = [{"not": {"required": list(group)}} for group in exclusive(kind)]
    rules += [
        {"if": {"properties": {key: {"const": value}}}, "then": {"required": list(needed)}} for key, value, needed in required_when(kind)
    ]
    return {**schema, "allOf": rules} if rules else schema


def _schema(one: Entry) -> dict[str, Any]:
    rule = one.rule
    if is_declared(one.kind):
        return _mapping(one.kind)
    if one.kind is bool:
        return {"type": "boolean", "default": one.default}
    if one.kind is int:
        bounds = {"minimum": rule.least, "maximum": rule.most, "default": one.default}
        return {"type": "integer", **{name: value for name, value in bounds.items() if value is not None}}
    if one.kind is tuple:
        least = {"minItems": rule.items_least} if rule.items_least else {}
        return {"type": "array", "items": _text(one), "uniqueItems": True, **least}
    if one.kind is Mapping:
        return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]} if rule.numbers_too else _text(one)}
    return {**_text(one), **({"default": one.default} if isinstance(one.default, str) and one.default else {})}


def _text(one: Entry) -> dict[str, Any]:
    """A text may hold ``${VARIABLE}``, of which a schema knows nothing."""
    schema: dict[str, Any] = {"type": "string"}
    if one.rule.choices:
        schema["anyOf"] = [{"enum": list(one.rule.choices)}, {"pattern": _VARIABLE}]
    elif one.rule.pattern:
        schema["anyOf"] = [{"pattern": f"^(?:{one.rule.pattern})$"}, {"pattern": _VARIABLE}]
    return schema


def _walk(kind: type, path: str) -> Iterator[tuple[str, Entry]]:
    for one in entries(kind):
        yield f"{path}.{one.key}", one
        if is_declared(one.kind):
            yield from _walk(one.kind, f"{path}.{one.key}")


def _row(path: str, one: Entry) -> str:
    default = "required" if one.required else _default(one)
    about = (
        one.rule.about
        + (f"; {_range(one)}" if one.kind is int else "")
        + (f"; one of {', '.join(one.rule.choices)}" if one.rule.choices else "")
    )
    return f"| `{path}` | {_type(one)} | {default} | {about.replace('|', chr(92) + '|')} |"


def _type(one: Entry) -> str:
    words = {
        str: "text",
        int: "whole number",
        bool: "true or false",
        tuple: "list of texts",
        Mapping: "texts by name",
        Secret: "secret text",
    }
    return words.get(one.kind, "mapping")


def _default(one: Entry) -> str:
    if isinstance(one.default, bool):
        return str(one.default).lower()
    return f"`{one.default}`" if isinstance(one.default, str | int) and one.default != "" else ""


def _range(one: Entry) -> str:
    return f"{one.rule.least} to {one.rule.most}"


def _sentence(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split())
