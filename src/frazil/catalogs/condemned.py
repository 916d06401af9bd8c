"""Condemned lists: objects that became unreachable, and when they may go (R17).

A list is an immutable object ``metadata/frazil-condemned-{ulid}.json``, so what was seen survives restarts; a key is deleted only when it
is still unreachable after the list's time, which is the second sighting.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from frazil.catalogs.stored import put_checked
from frazil.kit.errors import Corrupt, Missing
from frazil.objects.port import ObjectStore

PREFIX: Final = "frazil-condemned-"
VERSION: Final = 1
KEYS_MAX: Final = 10_000
"""Keys of one list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condemned:
    """One list."""

    key: str
    """Of the list itself."""
    not_before_ms: int
    keys: frozenset[str]


async def write_list(objects: ObjectStore, key: str, keys: Iterable[str], *, at_ms: int, not_before_ms: int) -> None:
    """Makes it durable that ``keys`` were seen unreachable."""
    value = {"v": VERSION, "at": at_ms, "not-before": not_before_ms, "keys": sorted(keys)}
    await put_checked(objects, key, json.dumps(value, separators=(",", ":")).encode())


async def read_list(objects: ObjectStore, key: str) -> Condemned | None:
    """The list, None when it is gone already. Raises Corrupt: a list that cannot be read deletes nothing."""
    try:
        data = await objects.get(key)
    except Missing:
        return None
    try:
        value = json.loads(data)
        if value["v"] != VERSION:
            raise Corrupt(f"condemned list of version {value['v']}", where=key)
        return Condemned(key=key, not_before_ms=int(value["not-before"]), keys=frozenset(map(str, value["keys"])))
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"not a condemned list: {error!r}", where=key) from error
