"""CreatePartitions (key 37), versions 0-3: grows topics (KIP-195). Assignments are accepted and change nothing."""

from __future__ import annotations

from frazil.broker.codes import code_of
from frazil.broker.registry import Call, handles
from frazil.broker.services import Services
from frazil.kit.errors import FrazilError, Refused
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from frazil.wire.messages.registry import ApiKey


@handles(ApiKey.CREATE_PARTITIONS, 0, 3)
async def create_partitions(call: Call[CreatePartitionsRequest]) -> CreatePartitionsResponse:
    """One answer per topic."""
    await call.services.topics.refresh()
    return CreatePartitionsResponse(
        results=[await _grow(call.services, topic, validate_only=call.message.validate_only) for topic in call.message.topics]
    )


async def _grow(services: Services, asked: CreatePartitionsTopic, *, validate_only: bool) -> CreatePartitionsTopicResult:
    def failed(code: ErrorCode, why: str) -> CreatePartitionsTopicResult:
        return CreatePartitionsTopicResult(name=asked.name, error_code=code, error_message=why)

    record = services.topics.get(asked.name)
    most = services.settings.partitions_max
    if record is None:
        return failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic {asked.name}")
    if asked.count <= record.partitions:
        return failed(ErrorCode.INVALID_PARTITIONS, f"topic {asked.name} has {record.partitions} partitions; {asked.count} is no increase")
    if asked.count > most:
        return failed(ErrorCode.INVALID_PARTITIONS, f"{asked.count} partitions; use at most {most}")
    if asked.assignments is not None and len(asked.assignments) != asked.count - record.partitions:
        return failed(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "an assignment must name each new partition once")
    if not validate_only:
        try:
            await services.topics.topics.set_partitions(asked.name, asked.count)
        except Refused as error:
            return failed(ErrorCode.INVALID_PARTITIONS, str(error))
        except FrazilError as error:
            return failed(code_of(error), str(error))
    return CreatePartitionsTopicResult(name=asked.name, error_message=None)
