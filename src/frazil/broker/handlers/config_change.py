"""The one way a client's request changes topic configs, shared by AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from frazil.broker.codes import code_of
from frazil.broker.handlers.topic_config_rows import TOPIC_RESOURCE
from frazil.broker.services import Services
from frazil.broker.topic_configs import check_configs
from frazil.kit.errors import FrazilError, Missing, Refused
from frazil.wire.errors import ErrorCode

log = logging.getLogger(__name__)

Changes = Callable[[Mapping[str, str]], Mapping[str, str | None]]


class Resource(Protocol):
    """What is to be altered."""

    resource_type: int
    resource_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """What a request wants of one resource. ``changes`` is given the configs set now; ``keep_others`` leaves the unnamed alone."""

    resource: Resource
    changes: Changes
    keep_others: bool


async def change_topic(services: Services, change: TopicChange, *, validate_only: bool) -> tuple[ErrorCode, str | None]:
    """Checks and applies one change; code and sentence for the answer."""
    resource = change.resource
    if resource.resource_type != TOPIC_RESOURCE:
        return ErrorCode.INVALID_REQUEST, "only topic configs can be altered; broker settings are read from files at start"
    name = resource.resource_name
    try:
        record = await services.topics.find(name)
        if record is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic {name}"
        wanted = change.changes(record.configs)
        check_configs(wanted)
        if not validate_only:
            await services.topics.topics.set_configs(name, wanted, keep_others=change.keep_others)
            log.info("configs of topic %s changed: %s", name, ", ".join(sorted(wanted)))
    except Missing as error:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(error)
    except Refused as error:
        return ErrorCode.INVALID_CONFIG, str(error)
    except FrazilError as error:
        return code_of(error), str(error)
    return ErrorCode.NONE, None
