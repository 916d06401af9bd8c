"""How typed records are written: one JSON object with its format version (docs/formats/metadata.md).

A reader takes the formats it is given (its own and the one before) and refuses every other, so that an old program
never half-understands what a newer one wrote. Unknown fields of a known format are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from frazil.kit.errors import Corrupt, Refused

T = TypeVar("T")

FORMAT: Final = 1


def encode(fields: Mapping[str, object], *, record_format: int = FORMAT) -> bytes:
    """The record's bytes; equal fields give equal bytes."""
    record = {"format": record_format, **fields}
    return json.dumps(record, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def decode(value: bytes, *, where: str, formats: tuple[int, ...] = (FORMAT,)) -> Fields:
    """The record's fields. Raises Corrupt when these are not the bytes of a record, Refused for a format not in ``formats``."""
    try:
        record = json.loads(value)
    except ValueError as error:
        raise Corrupt(f"not a JSON record: {error}", where=where) from error
    if not isinstance(record, dict) or not isinstance(record.get("format"), int):
        raise Corrupt("a record without a format number", where=where)
    if record["format"] not in formats:
        known = " and ".join(str(known) for known in formats)
        raise Refused(f"{where}: format {record['format']}, but this program reads {known}; upgrade Frazil before you open this cluster")
    return Fields(record, where)


class Fields:
    """Typed access to a record's fields; a missing or ill-typed one is Corrupt."""

    def __init__(self, record: Mapping[str, Any], where: str) -> None:
        self._record = record
        self._where = where

    def text(self, name: str, default: str | None = None) -> str:
        """A string."""
        return self._typed(name, str, default)

    def number(self, name: str, default: int | None = None) -> int:
        """An integer."""
        found = self._typed(name, int, default)
        if isinstance(found, bool):
            raise self._ill(name)
        return found

    def flag(self, name: str, *, default: bool | None = None) -> bool:
        """True or false."""
        return self._typed(name, bool, default)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        found = self._typed(name, list, None)
        if not all(isinstance(one, str) for one in found):
            raise self._ill(name)
        return tuple(found)

    def text_map(self, name: str) -> dict[str, str]:
        """An object whose values are strings."""
        found = self._typed(name, dict, None)
        if not all(isinstance(one, str) for one in found.values()):
            raise self._ill(name)
        return dict(found)

    def hexadecimal(self, name: str) -> bytes:
        """Bytes written in hexadecimal."""
        try:
            return bytes.fromhex(self.text(name))
        except ValueError as error:
            raise self._ill(name) from error

    def _typed(self, name: str, kind: type[T], default: T | None) -> T:
        found = self._record.get(name, default)
        if not isinstance(found, kind):
            raise self._ill(name)
        return found

    def _ill(self, name: str) -> Corrupt:
        return Corrupt(f"field {name!r} is missing or has the wrong type", where=self._where)
