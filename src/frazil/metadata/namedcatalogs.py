"""Named catalogs: where tables may land besides the cluster's own catalog. Credentials are references, never secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from frazil.metadata.change import settle
from frazil.metadata.opening import prefix_end, read_one
from frazil.metadata.port import MetadataStore, Write
from frazil.metadata.values import decode, encode

PREFIX: Final = "catalogs/"


async def put_catalog(store: MetadataStore, name: str, document: str) -> None:
    """Creates or replaces a catalog; ``document`` is its manifest as JSON. Raises RetryLater."""
    key, value = PREFIX + name, encode({"document": document})
    await settle(store, (key,), lambda entries: [] if entries[key].value == value else [Write(key=key, value=value)])


async def get_catalog(store: MetadataStore, name: str) -> str | None:
    """The document of one catalog. Raises RetryLater, Corrupt."""
    entry = await read_one(store, PREFIX + name)
    return decode(entry.value, where=entry.key).text("document") if entry.version else None


async def list_catalogs(store: MetadataStore) -> Mapping[str, str]:
    """Name → document. Raises RetryLater, Corrupt."""
    found = await store.range(PREFIX, prefix_end(PREFIX))
    return {entry.key.removeprefix(PREFIX): decode(entry.value, where=entry.key).text("document") for entry in found.entries}
