"""AlterConfigs (key 33), versions 0-2: replaces all configs of a topic (what is not named returns to its default).

Deviation: only topics can be altered; broker settings come from files and are read once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from frazil.broker.handlers.config_change import TopicChange, change_topic
from frazil.broker.registry import Call, handles
from frazil.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse
from frazil.wire.messages.registry import ApiKey


@handles(ApiKey.ALTER_CONFIGS, 0, 2)
async def alter_configs(call: Call[AlterConfigsRequest]) -> AlterConfigsResponse:
    """One answer per resource."""
    responses = []
    for resource in call.message.resources:
        changes = {config.name: config.value for config in resource.configs}
        change = TopicChange(resource=resource, changes=partial(_replace, changes), keep_others=False)
        code, why = await change_topic(call.services, change, validate_only=call.message.validate_only)
        responses.append(
            AlterConfigsResourceResponse(
                error_code=code, error_message=why, resource_type=resource.resource_type, resource_name=resource.resource_name
            )
        )
    return AlterConfigsResponse(responses=responses)


def _replace(wanted: Mapping[str, str | None], _: Mapping[str, str]) -> Mapping[str, str | None]:
    return wanted
