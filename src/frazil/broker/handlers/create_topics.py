"""CreateTopics (key 19), versions 2-7: new topics, or only the check (``validate_only``).

Names, partition counts and configs are checked; an unknown config is INVALID_CONFIG and named. Replication factor and
assignments are accepted when sane and change nothing: durability is the object store's. -1 partitions or replication
factor mean the default (KIP-464). v5+ answers carry the configs in force (KIP-525), v7 the topic id (KIP-516).

Deviations: replication factor is always shown as 1; an explicit assignment only sets the number of partitions;
compression.type other than producer is refused (see docs/limits.md).
"""

from __future__ import annotations

import logging

from frazil.broker.codes import code_of
from frazil.broker.handlers.topic_config_rows import source_of
from frazil.broker.registry import Call, handles
from frazil.broker.services import Services
from frazil.broker.topic_configs import TOPIC_CONFIGS, check_configs, effective
from frazil.kit.errors import Conflict, FrazilError, Refused
from frazil.kit.names import is_topic_name
from frazil.wire.errors import ErrorCode
from frazil.wire.layout import UUID_ZERO
from frazil.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from frazil.wire.messages.registry import ApiKey

log = logging.getLogger(__name__)


@handles(ApiKey.CREATE_TOPICS, 2, 7)
async def create_topics(call: Call[CreateTopicsRequest]) -> CreateTopicsResponse:
    """One answer per topic."""
    await call.services.topics.refresh()
    names = [topic.name for topic in call.message.topics]
    topics = []
    for topic in call.message.topics:
        if names.count(topic.name) > 1:
            topics.append(_failed(topic.name, ErrorCode.INVALID_REQUEST, "the request names this topic more than once"))
        else:
            topics.append(await _create(call.services, topic, validate_only=call.message.validate_only))
    return CreateTopicsResponse(topics=topics)


def _failed(name: str, code: ErrorCode, why: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=why)


async def _create(services: Services, asked: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
    refusal = _refusal(services, asked)
    if refusal is not None:
        return refusal
    configs = {config.name: config.value for config in asked.configs if config.value is not None}
    partitions = len(asked.assignments) or asked.num_partitions
    if partitions == -1:
        partitions = services.settings.default_partitions
    topic_id = UUID_ZERO
    if not validate_only:
        try:
            record = await services.topics.topics.create(asked.name, partitions, configs)
        except Conflict as error:
            return _failed(asked.name, ErrorCode.TOPIC_ALREADY_EXISTS, str(error))
        except FrazilError as error:
            return _failed(asked.name, code_of(error), str(error))
        topic_id = record.topic_id
        log.info("topic %s created with %d partitions", asked.name, partitions)
    return CreatableTopicResult(
        name=asked.name,
        topic_id=topic_id,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreatableTopicConfigs(name=c.name, value=effective(configs, c.name), config_source=source_of(configs, c.name))
            for c in TOPIC_CONFIGS
        ],
    )


def _refusal(services: Services, asked: CreatableTopic) -> CreatableTopicResult | None:
    name = asked.name
    if not is_topic_name(name):
        return _failed(name, ErrorCode.INVALID_TOPIC_EXCEPTION, "use 1 to 249 of A-Z a-z 0-9 . _ - and not '.' or '..'")
    if services.topics.get(name) is not None:
        return _failed(name, ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} exists")
    most = services.settings.partitions_max
    if asked.assignments:
        indexes = sorted(a.partition_index for a in asked.assignments)
        if asked.num_partitions != -1 or asked.replication_factor != -1:
            return _failed(name, ErrorCode.INVALID_REQUEST, "with an assignment, partitions and replication factor must be -1")
        if indexes != list(range(len(indexes))) or len(indexes) > most:
            return _failed(name, ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partitions must be numbered from 0, at most {most} of them")
    elif asked.num_partitions != -1 and not 1 <= asked.num_partitions <= most:
        return _failed(name, ErrorCode.INVALID_PARTITIONS, f"{asked.num_partitions} partitions; use 1 to {most}, or -1 for the default")
    if asked.replication_factor < -1 or asked.replication_factor == 0:
        return _failed(name, ErrorCode.INVALID_REPLICATION_FACTOR, "use 1 or more, or -1; it changes nothing here")
    try:
        check_configs({config.name: config.value for config in asked.configs})
    except Refused as error:
        return _failed(name, ErrorCode.INVALID_CONFIG, str(error))
    return None
