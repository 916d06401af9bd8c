"""Object keys ↔ the locations that Iceberg metadata holds."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from frazil.kit.chance import Chance
from frazil.kit.errors import Refused
from frazil.objects.port import ObjectStore

_PROBE: Final = "x"
_COMMIT_ID: Final = re.compile(r"(?:^|[-/])(\d{8,})-[0-9A-HJKMNP-TV-Z]{26}")
_METADATA_VERSION: Final = re.compile(r"/(\d+)-[^/]*\.metadata\.json$")


class Locations:
    """Maps both ways for one store. Foreign engines may write the same file as ``file:/p``, ``file:///p`` or ``/p`` (F56): all are read."""

    def __init__(self, objects: ObjectStore) -> None:
        self._uri = objects.uri
        self._root = objects.uri(_PROBE)[: -len(_PROBE)]
        scheme, _, rest = self._root.partition(":")
        path = "/" + rest.lstrip("/")
        self._roots = [self._root]
        if scheme == "file":
            self._roots += [f"file:{path}", f"file://{path}", unquote(path)]

    def side_name(self, name: str) -> str:
        """``name`` of an object that Iceberg does not know, next to a table's metadata.

        Where the catalog decides about locations it may take only names that look like Iceberg's (SeaweedFS): those end in ``.stats``.
        """
        return name if self._root else f"{name.rpartition('.')[0]}.stats"

    def location(self, key: str) -> str:
        """The location of an object."""
        return self._uri(key)

    def key(self, location: str) -> str | None:
        """The key of a location, or None when it is not inside this store."""
        if not self._root:
            return canonical(location)  # a store whose keys are locations
        for root in self._roots:
            if location.startswith(root):
                key = location[len(root) :]
                # A store that escapes its addresses gets them back unescaped; one that does not is left alone.
                return key if self._uri(key) == root + key or quote(key) == key else unquote(key)
        return None

    def key_of(self, location: str) -> str:
        """The key of a location inside this store. Raises Refused otherwise."""
        key = self.key(location)
        if key is None:
            raise Refused(f"location {location[:200]} is not inside the object store {self._root}")
        return key


def canonical(location: str) -> str:
    """One spelling of a location: Hadoop calls ``s3:`` also ``s3a:`` and ``s3n:``, and a path may come without ``file://`` (F56)."""
    scheme, colon, rest = location.partition(":")
    if colon and scheme in ("s3a", "s3n"):
        return f"s3:{rest}"
    if location.startswith("/") or (scheme == "file" and not rest.startswith("///")):
        return f"file:///{(rest if colon else location).lstrip('/')}"
    return location


def hex_of(chance: Chance, bits: int) -> str:
    """``bits`` random bits as hexadecimal text."""
    return f"{chance.getrandbits(bits):0{bits // 4}x}"


def uuid_of(chance: Chance) -> str:
    """A random UUID (version 4, RFC 9562)."""
    text = hex_of(chance, 128)
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


def metadata_key(table_key: str, version: int, chance: Chance) -> str:
    """A new name for a metadata file: ``{version}-{uuid}.metadata.json``, as other Iceberg writers have it."""
    return f"{table_key}/metadata/{version:05d}-{uuid_of(chance)}.metadata.json"


def metadata_version(location: str) -> int:
    """The version in a metadata file's name, -1 when there is none."""
    found = _METADATA_VERSION.search(location)
    return int(found.group(1)) if found else -1


def commit_id(sequence_number: int, ulid: str) -> str:
    """Identity of one attempt to commit: the sequence number it claims, then a ULID.

    The number in the name decides when an object of an attempt is surely dead: once the table's last sequence number has
    reached it, a request that was not applied never will be.
    """
    return f"{sequence_number:08d}-{ulid}"


def claimed_sequence(key: str) -> int | None:
    """The sequence number claimed by the commit id in an object's name, None when the name holds none."""
    found = _COMMIT_ID.search(key.rpartition("/")[2])
    return int(found.group(1)) if found else None
