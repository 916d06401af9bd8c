"""DeleteTopics (key 20), versions 1-6: removes topics by name, from v6 also by id (KIP-516).

The topic is gone from metadata when the answer leaves; its data goes later, with retention. A topic of the same name made
afterwards is another incarnation: it starts at offset 0 and without committed offsets.
"""

from __future__ import annotations

import logging

from frazil.broker.codes import code_of
from frazil.broker.registry import Call, handles
from frazil.broker.services import Services
from frazil.kit.errors import FrazilError, Missing
from frazil.kit.names import TopicId
from frazil.wire.errors import ErrorCode
from frazil.wire.layout import UUID_ZERO
from frazil.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from frazil.wire.messages.registry import ApiKey

log = logging.getLogger(__name__)

_FIRST_WITH_IDS = 6


@handles(ApiKey.DELETE_TOPICS, 1, 6)
async def delete_topics(call: Call[DeleteTopicsRequest]) -> DeleteTopicsResponse:
    """One answer per topic."""
    asked = call.message
    if call.version < _FIRST_WITH_IDS:
        return DeleteTopicsResponse(responses=[await _delete(call.services, name) for name in asked.topic_names])
    await call.services.topics.refresh()
    responses = []
    for topic in asked.topics:
        if topic.name is not None:
            responses.append(await _delete(call.services, topic.name))
            continue
        record = call.services.topics.topics.by_id(TopicId(topic.topic_id))
        if record is None:
            responses.append(
                DeletableTopicResult(
                    name=None, topic_id=topic.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID, error_message="no topic has this id"
                )
            )
        else:
            responses.append(await _delete(call.services, record.name))
    return DeleteTopicsResponse(responses=responses)


async def _delete(services: Services, name: str) -> DeletableTopicResult:
    try:
        record = await services.topics.topics.delete(name)
    except Missing as error:
        return DeletableTopicResult(
            name=name, topic_id=UUID_ZERO, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=str(error)
        )
    except FrazilError as error:
        return DeletableTopicResult(name=name, topic_id=UUID_ZERO, error_code=code_of(error), error_message=str(error))
    log.info("topic %s deleted", name)
    return DeletableTopicResult(name=name, topic_id=record.topic_id)
