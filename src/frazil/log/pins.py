"""Pins: per table the lowest offset it still needs of each partition (R18). A cache of the table's progress: may lag, never leads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from frazil.kit.errors import Corrupt
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.log.shards import PIN
from frazil.metadata import prefix_end, read_one
from frazil.metadata.port import MetadataStore, Write

FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What one table holds: records from these offsets on must stay."""

    table: str
    offsets: Mapping[PartitionKey, int]
    updated_ms: int


async def set_pin(store: MetadataStore, table: str, offsets: Mapping[PartitionKey, int], *, now_ms: int) -> None:
    """Replaces the pin of ``table``. Call it after the commit whose progress it repeats. Raises RetryLater."""
    held: dict[str, dict[str, int]] = {}
    for key, offset in sorted(offsets.items()):
        held.setdefault(key.topic_id.hex(), {})[str(key.partition)] = offset
    value = json.dumps({"format": FORMAT, "updated_ms": now_ms, "offsets": held}, separators=(",", ":")).encode()
    await store.commit([], [Write(key=PIN + table, value=value)])


async def drop_pin(store: MetadataStore, table: str) -> None:
    """The table needs nothing any more. Raises RetryLater."""
    await store.commit([], [Write(key=PIN + table, value=None)])


async def read_pins(store: MetadataStore) -> dict[str, Pin]:
    """All pins by table. Raises RetryLater, Corrupt."""
    found = await store.range(PIN, prefix_end(PIN))
    return {entry.key[len(PIN) :]: _decode(entry.key, entry.value) for entry in found.entries}


async def read_pin(store: MetadataStore, table: str) -> Pin | None:
    """The pin of one table. Raises RetryLater, Corrupt."""
    entry = await read_one(store, PIN + table)
    return _decode(entry.key, entry.value) if entry.version else None


def _decode(key: str, value: bytes) -> Pin:
    try:
        fields = json.loads(value)
        if fields["format"] != FORMAT:
            raise Corrupt(f"pin of format {fields['format']}", where=key)
        offsets = {
            PartitionKey(TopicId(bytes.fromhex(topic)), PartitionId(int(partition))): int(offset)
            for topic, held in fields["offsets"].items()
            for partition, offset in held.items()
        }
        return Pin(table=key[len(PIN) :], offsets=offsets, updated_ms=int(fields["updated_ms"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(f"not a pin: {error!r}", where=key) from error
