"""OffsetFetch (key 9), versions 1-9: committed positions of one group (up to v7) or of many (from v8, KIP-709).

Read linearizably from metadata, by topic id: offsets of a deleted topic are not shown for its successor. A partition
without an offset answers -1. ``require_stable`` (KIP-447) changes nothing: there are no pending transactional offsets.
Member ids and epochs of v9 (KIP-848) are not checked, since groups here are classic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.broker.groups.offsets import read_offsets
from frazil.broker.groups.record import StoredOffset
from frazil.broker.registry import Call, handles
from frazil.broker.services import Services
from frazil.kit.errors import Corrupt, RetryLater
from frazil.kit.names import PartitionId, PartitionKey
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from frazil.wire.messages.registry import ApiKey

_FIRST_WITH_MANY = 8
_NONE = StoredOffset(offset=-1, leader_epoch=-1, metadata="", committed_ms=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What one group has committed, by topic name, in the order asked for."""

    error: ErrorCode
    topics: tuple[tuple[str, tuple[tuple[int, StoredOffset], ...]], ...] = ()


@handles(ApiKey.OFFSET_FETCH, 1, 9)
async def offset_fetch(call: Call[OffsetFetchRequest]) -> OffsetFetchResponse:
    """Committed offsets."""
    asked = call.message
    if call.version >= _FIRST_WITH_MANY:
        return OffsetFetchResponse(
            groups=[_many(group.group_id, await _look_up(call.services, group.group_id, group.topics)) for group in asked.groups]
        )
    found = await _look_up(call.services, asked.group_id, asked.topics)
    return OffsetFetchResponse(
        error_code=found.error,
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition,
                        committed_offset=stored.offset,
                        committed_leader_epoch=stored.leader_epoch,
                        metadata=stored.metadata,
                        # v1 has no code for the whole request, so each partition carries it.
                        error_code=found.error,
                    )
                    for partition, stored in partitions
                ],
            )
            for name, partitions in found.topics
        ],
    )


def _many(group: str, found: _Found) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=group,
        error_code=found.error,
        topics=[
            OffsetFetchResponseTopics(
                name=name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=partition,
                        committed_offset=stored.offset,
                        committed_leader_epoch=stored.leader_epoch,
                        metadata=stored.metadata,
                    )
                    for partition, stored in partitions
                ],
            )
            for name, partitions in found.topics
        ],
    )


async def _look_up(
    services: Services, group: str, asked: Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics] | None
) -> _Found:
    code = _refusal(services, group)
    if code is not ErrorCode.NONE:
        return _failed(code, asked)
    try:
        offsets = await read_offsets(services.store, group)
        if asked is None:
            await services.topics.refresh()
            return _Found(error=ErrorCode.NONE, topics=_all_of(services, offsets))
        found = await services.topics.find_all([topic.name for topic in asked])
    except (RetryLater, Corrupt):
        return _failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, asked)
    topics = []
    for topic in asked:
        record = found.get(topic.name)
        stored = [
            (p, offsets.get(PartitionKey(record.topic_id, PartitionId(p)), _NONE) if record is not None else _NONE)
            for p in topic.partition_indexes
        ]
        topics.append((topic.name, tuple(stored)))
    return _Found(error=ErrorCode.NONE, topics=tuple(topics))


def _failed(code: ErrorCode, asked: Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics] | None) -> _Found:
    """Every partition asked for carries the code: an empty v1 answer would mean that nothing was ever committed."""
    return _Found(error=code, topics=tuple((t.name, tuple((p, _NONE) for p in t.partition_indexes)) for t in asked or ()))


def _refusal(services: Services, group: str) -> ErrorCode:
    if not group:
        return ErrorCode.INVALID_GROUP_ID
    return ErrorCode.NONE if services.groups.coordinates(group) else ErrorCode.NOT_COORDINATOR


def _all_of(services: Services, offsets: dict[PartitionKey, StoredOffset]) -> tuple[tuple[str, tuple[tuple[int, StoredOffset], ...]], ...]:
    by_name: dict[str, list[tuple[int, StoredOffset]]] = {}
    for key, stored in offsets.items():
        record = services.topics.topics.by_id(key.topic_id)
        if record is not None:
            by_name.setdefault(record.name, []).append((key.partition, stored))
    return tuple((name, tuple(by_name[name])) for name in sorted(by_name))
