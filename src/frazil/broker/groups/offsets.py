"""Committed offsets in metadata: written under the group record's version, read linearizably, dropped when old (R19).

There is no cache: offsets are read when a consumer starts, and the store is the one place that is always right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.broker.groups.record import (
    StoredOffset,
    decode_offset,
    encode_offset,
    offset_key,
    offsets_prefix,
    parse_offset_key,
)
from frazil.kit.errors import OutcomeUnknown, RetryLater
from frazil.kit.names import PartitionId, PartitionKey
from frazil.metadata import prefix_end
from frazil.metadata.port import START, Check, Committed, MetadataStore, Revision, Write

_WRITES_MAX = 90
_TRIES_MAX = 8
_WRITE_BYTES_MAX = 256 * 1024


async def read_offsets(store: MetadataStore, group: str) -> dict[PartitionKey, StoredOffset]:
    """All committed offsets of the group, linearizably. Raises RetryLater, Corrupt."""
    prefix = offsets_prefix(group)
    found = await store.range(prefix, prefix_end(prefix))
    offsets = {}
    for entry in found.entries:
        topic_id, partition = parse_offset_key(entry.key)
        offsets[PartitionKey(topic_id, PartitionId(partition))] = decode_offset(entry.value, where=entry.key)
    return offsets


async def write_offsets(store: MetadataStore, group: str, guard: Check, offsets: Mapping[PartitionKey, StoredOffset]) -> bool:
    """Stores the offsets while the group's record is at the guard's version; False when it is not any more.

    Cut into transactions (R10). Raises RetryLater: some may be stored then, and sending them again changes nothing.
    """
    for writes in _chunks([Write(key=offset_key(group, k.topic_id, k.partition), value=encode_offset(v)) for k, v in offsets.items()]):
        if not await _commit(store, group, guard, writes):
            return False
    return True


async def drop_offsets(store: MetadataStore, group: str, guard: Check, keys: Sequence[PartitionKey]) -> bool:
    """Removes committed offsets under the guard; False when the record has moved. Raises RetryLater."""
    for writes in _chunks([Write(key=offset_key(group, k.topic_id, k.partition), value=None) for k in keys]):
        if not await _commit(store, group, guard, writes):
            return False
    return True


async def _commit(store: MetadataStore, group: str, guard: Check, writes: list[Write]) -> bool:
    """One transaction under the guard and the versions of the offsets it replaces.

    The guard alone is not enough: it stays the same from one commit of a generation to the next, so a request whose answer
    was lost could be applied late, over newer offsets. With the versions, whatever is applied later loses.
    """
    trouble: RetryLater | None = None
    for _ in range(_TRIES_MAX):
        versions = await _versions(store, group)
        checks = [guard, *(Check(key=write.key, version=versions.get(write.key, START)) for write in writes)]
        try:
            result = await store.commit(checks, writes)
        except OutcomeUnknown as error:
            trouble = error
            continue
        if isinstance(result, Committed):
            return True
        if any(entry.key == guard.key for entry in result.entries):
            return False
    raise trouble or RetryLater(f"offsets of group {group!r} are written by others all the time")


async def _versions(store: MetadataStore, group: str) -> dict[str, Revision]:
    prefix = offsets_prefix(group)
    return {entry.key: entry.version for entry in (await store.range(prefix, prefix_end(prefix))).entries}


def _chunks(writes: list[Write]) -> list[list[Write]]:
    chunks: list[list[Write]] = []
    size = 0
    for write in writes:
        cost = len(write.key) + len(write.value or b"")
        if not chunks or len(chunks[-1]) >= _WRITES_MAX or size + cost > _WRITE_BYTES_MAX:
            chunks.append([])
            size = 0
        chunks[-1].append(write)
        size += cost
    return chunks
