"""OffsetCommit (key 8), versions 2-9: stores consumer positions.

Stored in metadata under the version of the group's record, so that a stale coordinator or generation cannot write (R19,
F80): stale generations hear ILLEGAL_GENERATION. Keyed by topic id: a re-created topic starts without offsets. A consumer
without membership (generation -1) may commit while the group is empty.

Deviation: the retention time of v2-v4 is not used; offsets.retention is the broker's (KIP-211).
"""

from __future__ import annotations

from frazil.broker.groups.record import StoredOffset
from frazil.broker.registry import Call, handles
from frazil.kit.names import PartitionId, PartitionKey
from frazil.metadata.topics import TopicRecord
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from frazil.wire.messages.registry import ApiKey


@handles(ApiKey.OFFSET_COMMIT, 2, 9)
async def offset_commit(call: Call[OffsetCommitRequest]) -> OffsetCommitResponse:
    """One code per partition."""
    asked = call.message
    services = call.services
    found = await services.topics.find_all([topic.name for topic in asked.topics])
    now_ms = services.clock.now_ms()
    offsets: dict[PartitionKey, StoredOffset] = {}
    answers: list[OffsetCommitResponseTopic] = []
    pending: list[OffsetCommitResponsePartition] = []
    for topic in asked.topics:
        record = found.get(topic.name)
        partitions = []
        for p in topic.partitions:
            code = _refusal(record, p, services.settings.offset_metadata_bytes_max)
            answer = OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
            partitions.append(answer)
            if record is not None and code is ErrorCode.NONE:
                pending.append(answer)
                offsets[PartitionKey(record.topic_id, PartitionId(p.partition_index))] = StoredOffset(
                    offset=p.committed_offset,
                    leader_epoch=p.committed_leader_epoch,
                    metadata=p.committed_metadata or "",
                    committed_ms=now_ms,
                )
        answers.append(OffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    member = (asked.member_id, asked.group_instance_id, asked.generation_id_or_member_epoch)
    code = await services.groups.commit(asked.group_id, member, offsets)
    for answer in pending:
        answer.error_code = code
    return OffsetCommitResponse(topics=answers)


def _refusal(record: TopicRecord | None, asked: OffsetCommitRequestPartition, metadata_bytes_max: int) -> ErrorCode:
    if record is None or not 0 <= asked.partition_index < record.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len((asked.committed_metadata or "").encode()) > metadata_bytes_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE
