"""Metadata (key 3), versions 0-12: brokers, topics, partitions and whom to send produce and fetch requests to.

Leaders are rendezvous hashing of shards over the live brokers at one metadata revision; the leader epoch is 0 for ever
(R26). Any broker takes any batch, so a stale leader costs locality only. Each partition shows one replica, its leader:
durability is the object store's. A topic that is not known is looked up linearizably, then created if both the client
(KIP-361, v4+) and the settings allow. Versions 10+ may ask by topic id (KIP-516).

Deviations: authorized operations are not computed (answered as "not asked"); offline replicas are always empty.
"""

from __future__ import annotations

import logging

from frazil.broker.metadata_rows import MetadataAnswer, encode_answer, encode_row
from frazil.broker.registry import Call, Shape, handles
from frazil.broker.services import Services
from frazil.kit.errors import Conflict, Refused, RetryLater
from frazil.kit.names import TopicId, is_topic_name
from frazil.metadata.topics import TopicRecord
from frazil.wire.errors import ErrorCode
from frazil.wire.layout import UUID_ZERO
from frazil.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponseTopic
from frazil.wire.messages.registry import ApiKey

log = logging.getLogger(__name__)


@handles(ApiKey.METADATA, 0, 12, shape=Shape(encode=encode_answer))
async def metadata(call: Call[MetadataRequest]) -> MetadataAnswer:
    """All topics, or those asked for."""
    services = call.services
    view = services.brokers.view
    request = call.message
    asked = request.topics
    if asked is None or (call.version == 0 and not asked):
        await _refresh_quietly(services)
        rows = [_row(call, record) for record in services.topics.topics.all()]
    else:
        create = services.settings.auto_create_topics and (call.version < 4 or request.allow_auto_topic_creation)
        by_name = await _find(services, [t.name for t in asked if t.name is not None])
        rows = []
        for topic in asked:
            if topic.name is None:
                rows.append(_row(call, await _by_id(services, TopicId(topic.topic_id))))
            elif topic.name in by_name:
                rows.append(_row(call, by_name[topic.name]))
            else:
                rows.append(_row(call, await _unknown(services, topic.name, create=create)))
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=b.broker_id, host=b.host, port=b.port, rack=b.rack or None) for b in view.brokers],
        cluster_id=services.settings.cluster_id,
        # Any broker does admin work; the lowest live one is named so that clients agree.
        controller_id=view.brokers[0].broker_id,
    )
    return MetadataAnswer(response, rows)


def _row(call: Call[MetadataRequest], topic: TopicRecord | MetadataResponseTopic) -> bytes:
    """A topic that is there, or what is wrong with one that is not, as it stands in the answer."""
    return call.services.metadata_rows.of(call.version, topic) if isinstance(topic, TopicRecord) else encode_row(call.version, topic)


async def _refresh_quietly(services: Services) -> None:
    try:
        await services.topics.refresh()
    except RetryLater as error:
        log.warning("topics not read, the last list is served: %s", error)


async def _find(services: Services, names: list[str]) -> dict[str, TopicRecord]:
    try:
        return await services.topics.find_all(names)
    except RetryLater as error:
        log.warning("topics not read, the last list is served: %s", error)
        found = {name: services.topics.get(name) for name in names}
        return {name: record for name, record in found.items() if record is not None}


async def _by_id(services: Services, topic_id: TopicId) -> TopicRecord | MetadataResponseTopic:
    record = services.topics.topics.by_id(topic_id)
    if record is None:
        await _refresh_quietly(services)
        record = services.topics.topics.by_id(topic_id)
    if record is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    return record


async def _unknown(services: Services, name: str, *, create: bool) -> TopicRecord | MetadataResponseTopic:
    """A topic that is not there: created if that is wanted."""
    if not is_topic_name(name):
        return MetadataResponseTopic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name=name, topic_id=UUID_ZERO)
    if not create:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name, topic_id=UUID_ZERO)
    topics = services.topics
    try:
        record: TopicRecord | None = await topics.topics.create(name, services.settings.default_partitions)
        log.info("topic %s created with %d partitions because a client asked for it", name, services.settings.default_partitions)
    except Conflict:
        record = await topics.find(name)
    except (RetryLater, Refused) as error:
        log.warning("topic %s not created: %s", name, error)
        record = None
    if record is None:
        return MetadataResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name=name, topic_id=UUID_ZERO)
    return record
