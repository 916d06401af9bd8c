"""DeleteRecords (key 21), versions 0-2: moves the log start offset up; -1 means "to the end" (KIP-107).

Deviation: any broker serves any partition, so NOT_LEADER_OR_FOLLOWER is never answered.
"""

from __future__ import annotations

from frazil.broker.codes import code_of
from frazil.broker.registry import Call, handles
from frazil.broker.services import Services
from frazil.kit.errors import FrazilError
from frazil.kit.names import PartitionId, PartitionKey
from frazil.log.refs import OffsetOutOfRange
from frazil.metadata.topics import TopicRecord
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from frazil.wire.messages.registry import ApiKey


@handles(ApiKey.DELETE_RECORDS, 0, 2)
async def delete_records(call: Call[DeleteRecordsRequest]) -> DeleteRecordsResponse:
    """One answer per partition."""
    services = call.services
    found = await services.topics.find_all([topic.name for topic in call.message.topics])
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[await _delete(services, found.get(topic.name), asked) for asked in topic.partitions]
            )
            for topic in call.message.topics
        ]
    )


async def _delete(services: Services, record: TopicRecord | None, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    def failed(code: ErrorCode) -> DeleteRecordsPartitionResult:
        return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1, error_code=code)

    if record is None or not 0 <= asked.partition_index < record.partitions:
        return failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    key = PartitionKey(record.topic_id, PartitionId(asked.partition_index))
    try:
        start = await services.delete_records(key, asked.offset)
    except OffsetOutOfRange:
        return failed(ErrorCode.OFFSET_OUT_OF_RANGE)
    except FrazilError as error:
        return failed(code_of(error))
    return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=start)
