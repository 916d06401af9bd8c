"""How topic configs look in answers, shared by CreateTopics and DescribeConfigs."""

from __future__ import annotations

from collections.abc import Mapping

DYNAMIC_TOPIC_CONFIG = 1
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4


def source_of(configs: Mapping[str, str], name: str) -> int:
    """Where a value comes from: set on the topic, or the default."""
    return DYNAMIC_TOPIC_CONFIG if name in configs else DEFAULT_CONFIG
