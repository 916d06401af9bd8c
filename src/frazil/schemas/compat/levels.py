"""Levels of compatibility: which of the older schemas count, and who must be able to read whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from frazil.schemas.compat.avro import unreadable_avro
from frazil.schemas.compat.jsonschema import unreadable_json
from frazil.schemas.compat.protobuf import unreadable_protobuf
from frazil.schemas.framing import WriterSchema

LEVELS: Final = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
Unreadable = Callable[[WriterSchema, WriterSchema], list[str]]
"""From reader and writer to why the reader could not read what the writer wrote; raises Unfit for a schema that is none."""
_RULES: Final[Mapping[str, Unreadable]] = {"AVRO": unreadable_avro, "JSON": unreadable_json, "PROTOBUF": unreadable_protobuf}


def clashes(level: str, new: WriterSchema, older: Sequence[WriterSchema]) -> list[str]:
    """Why ``new`` cannot stand beside the ``older`` schemas of its subject (oldest first) at this level; nothing: it can.

    Raises Unfit with code bad-schema when a text is no schema.
    """
    way, _, transitive = level.partition("_")
    found: list[str] = []
    for old in older if transitive else older[-1:]:
        if way == "NONE":
            break
        if old.kind != new.kind:
            found.append(f"it is {new.kind}, the schema before it is {old.kind}")
            continue
        rule = _RULES[new.kind]
        if way in ("BACKWARD", "FULL"):
            found += [f"old values, new schema: {why}" for why in rule(new, old)]
        if way in ("FORWARD", "FULL"):
            found += [f"new values, old schema: {why}" for why in rule(old, new)]
    return list(dict.fromkeys(found))
