"""OffsetForLeaderEpoch (key 23), versions 2-4: where an epoch ends.

There is one epoch, 0, for ever (R26): epochs 0 and -1 end at the log end, read linearizably; anything above is
UNKNOWN_LEADER_EPOCH. FENCED_LEADER_EPOCH is never sent.
"""

from __future__ import annotations

from frazil.broker.registry import Call, handles
from frazil.kit.names import PartitionId, PartitionKey
from frazil.metadata.topics import TopicRecord
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from frazil.wire.messages.registry import ApiKey


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4)
async def offset_for_leader_epoch(call: Call[OffsetForLeaderEpochRequest]) -> OffsetForLeaderEpochResponse:
    """One answer per partition."""
    services = call.services
    found = await services.topics.find_all([topic.topic for topic in call.message.topics])
    await services.index.refresh()

    def end_of(record: TopicRecord | None, asked: OffsetForLeaderPartition) -> EpochEndOffset:
        if record is None or not 0 <= asked.partition < record.partitions:
            return EpochEndOffset(partition=asked.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if asked.leader_epoch > 0 or asked.current_leader_epoch > 0:
            return EpochEndOffset(partition=asked.partition, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
        key = PartitionKey(record.topic_id, PartitionId(asked.partition))
        return EpochEndOffset(partition=asked.partition, leader_epoch=0, end_offset=services.index.bounds(key).end)

    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic=topic.topic, partitions=[end_of(found.get(topic.topic), p) for p in topic.partitions])
            for topic in call.message.topics
        ]
    )
