"""OffsetDelete (key 47), version 0: drops committed offsets of topics that nobody in the group subscribes to (KIP-496)."""

from __future__ import annotations

from frazil.broker.groups.inventory import delete_offsets
from frazil.broker.registry import Call, handles
from frazil.kit.names import PartitionId, PartitionKey
from frazil.metadata.topics import TopicRecord
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from frazil.wire.messages.registry import ApiKey


@handles(ApiKey.OFFSET_DELETE, 0, 0)
async def offset_delete(call: Call[OffsetDeleteRequest]) -> OffsetDeleteResponse:
    """One code per partition, or one for the group."""
    asked = call.message
    services = call.services
    found = await services.topics.find_all([topic.name for topic in asked.topics])
    keys: dict[PartitionKey, str] = {
        PartitionKey(record.topic_id, PartitionId(p.partition_index)): topic.name
        for topic in asked.topics
        if (record := found.get(topic.name)) is not None
        for p in topic.partitions
    }
    codes = await delete_offsets(services.groups, services.store, asked.group_id, keys)
    if isinstance(codes, ErrorCode):
        return OffsetDeleteResponse(error_code=codes)

    def code(record: TopicRecord | None, partition: int) -> ErrorCode:
        if record is None or not 0 <= partition < record.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return codes[PartitionKey(record.topic_id, PartitionId(partition))]

    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=p.partition_index, error_code=code(found.get(topic.name), p.partition_index)
                    )
                    for p in topic.partitions
                ],
            )
            for topic in asked.topics
        ]
    )
