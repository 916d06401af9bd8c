"""ListOffsets (key 2), versions 1-7: earliest (-2), latest (-1), newest timestamp (-3, KIP-734), or the first at or after a time.

Every answer comes from a linearizable read of the log's state (R08): a lagging broker would make readers miss acknowledged
records. Look-up by time gives the first record whose timestamp is not below the one asked for (F84).

Deviations: isolation levels are alike, since there are no transactions; the leader epoch answered is 0 (R26); a current
leader epoch above 0 is UNKNOWN_LEADER_EPOCH.
"""

from __future__ import annotations

import logging

from frazil.broker.codes import code_of
from frazil.broker.registry import Call, handles
from frazil.broker.services import Services
from frazil.kit.errors import FrazilError
from frazil.kit.names import PartitionId, PartitionKey
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from frazil.wire.messages.registry import ApiKey

log = logging.getLogger(__name__)

_LATEST = -1
_EARLIEST = -2
_MAX_TIMESTAMP = -3
_FIRST_WITH_MAX_TIMESTAMP = 7


@handles(ApiKey.LIST_OFFSETS, 1, 7)
async def list_offsets(call: Call[ListOffsetsRequest]) -> ListOffsetsResponse:
    """One answer per partition."""
    services = call.services
    found = await services.topics.find_all([topic.name for topic in call.message.topics])
    await services.index.refresh()
    topics = []
    for topic in call.message.topics:
        record = found.get(topic.name)
        answers = []
        for asked in topic.partitions:
            if record is None or not 0 <= asked.partition_index < record.partitions:
                answers.append(_failed(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            elif asked.current_leader_epoch > 0:
                answers.append(_failed(asked, ErrorCode.UNKNOWN_LEADER_EPOCH))
            else:
                key = PartitionKey(record.topic_id, PartitionId(asked.partition_index))
                answers.append(await _answer(services, key, asked, call.version))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _failed(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)


async def _answer(services: Services, key: PartitionKey, asked: ListOffsetsPartition, version: int) -> ListOffsetsPartitionResponse:
    offset, timestamp = -1, -1
    try:
        if asked.timestamp == _LATEST:
            offset = services.index.bounds(key).end
        elif asked.timestamp == _EARLIEST:
            offset = services.index.bounds(key).start
        elif asked.timestamp >= 0 or (asked.timestamp == _MAX_TIMESTAMP and version >= _FIRST_WITH_MAX_TIMESTAMP):
            newest = asked.timestamp == _MAX_TIMESTAMP
            found = await services.reader.max_time(key) if newest else await services.reader.find_time(key, asked.timestamp)
            if found is not None:
                offset, timestamp = found.offset, found.timestamp_ms
        else:
            return _failed(asked, ErrorCode.UNSUPPORTED_VERSION)
    except FrazilError as error:
        log.warning("offsets of partition %s not found: %s", key, error)
        return _failed(asked, code_of(error))
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, timestamp=timestamp, offset=offset, leader_epoch=0 if offset >= 0 else -1
    )
