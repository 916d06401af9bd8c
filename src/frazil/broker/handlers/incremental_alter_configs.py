"""IncrementalAlterConfigs (key 44), versions 0-1: sets, removes, appends to or subtracts from single topic configs (KIP-339).

Deviation: only topics can be altered; broker settings come from files and are read once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from frazil.broker.handlers.config_change import TopicChange, change_topic
from frazil.broker.registry import Call, handles
from frazil.broker.topic_configs import ConfigType, effective, find_config
from frazil.kit.errors import Refused
from frazil.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from frazil.wire.messages.registry import ApiKey

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
async def incremental_alter_configs(call: Call[IncrementalAlterConfigsRequest]) -> IncrementalAlterConfigsResponse:
    """One answer per resource."""
    responses = []
    for resource in call.message.resources:
        change = TopicChange(resource=resource, changes=partial(_changes, resource), keep_others=True)
        code, why = await change_topic(call.services, change, validate_only=call.message.validate_only)
        responses.append(
            AlterConfigsResourceResponse(
                error_code=code, error_message=why, resource_type=resource.resource_type, resource_name=resource.resource_name
            )
        )
    return IncrementalAlterConfigsResponse(responses=responses)


def _changes(resource: AlterConfigsResource, configs: Mapping[str, str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for asked in resource.configs:
        if asked.config_operation == _SET:
            if asked.value is None:
                raise Refused(f"{asked.name}: a value is needed to set it; use DELETE to return to the default")
            changes[asked.name] = asked.value
        elif asked.config_operation == _DELETE:
            changes[asked.name] = None
        elif asked.config_operation in (_APPEND, _SUBTRACT):
            config = find_config(asked.name)
            if config is None or config.kind is not ConfigType.LIST:
                raise Refused(f"{asked.name} is not a list; only lists can be appended to or subtracted from")
            have = [part for part in effective(configs, asked.name).split(",") if part]
            named = [part for part in (asked.value or "").split(",") if part]
            kept = [part for part in have if part not in named]
            changes[asked.name] = ",".join([*have, *(p for p in named if p not in have)] if asked.config_operation == _APPEND else kept)
        else:
            raise Refused(f"{asked.name}: unknown operation {asked.config_operation}")
    return changes
