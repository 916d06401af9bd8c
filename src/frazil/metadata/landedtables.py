"""Which table a landing writes to, by uuid: a table dropped and made again under the same name is another table (F58)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from frazil.metadata.change import settle
from frazil.metadata.opening import read_one
from frazil.metadata.port import Entry, MetadataStore, Write
from frazil.metadata.values import decode, encode

PREFIX: Final = "landing-tables/"


async def get_table_uuid(store: MetadataStore, table: str) -> str | None:
    """The uuid of the table that was written last under this name. Raises RetryLater."""
    entry = await read_one(store, PREFIX + table)
    return decode(entry.value, where=entry.key).text("uuid") if entry.version else None


async def put_table_uuid(store: MetadataStore, table: str, uuid: str) -> None:
    """Remembers the table's identity. Raises RetryLater."""
    key, value = PREFIX + table, encode({"uuid": uuid})
    await settle(store, (key,), lambda entries: [] if entries[key].value == value else [Write(key=key, value=value)])


async def forget_table(store: MetadataStore, table: str) -> None:
    """Forgets the identity, so that the next table of this name is filled from the log start. Raises RetryLater."""
    key = PREFIX + table

    def decide(entries: Mapping[str, Entry]) -> list[Write]:
        return [Write(key=key, value=None)] if entries[key].version else []

    await settle(store, (key,), decide)
