"""DescribeConfigs (key 32), versions 1-4: topic configs with their source, and this broker's main settings (read only).

Synonyms (KIP-226) and documentation (KIP-569, v3+) are given when asked for. Other resource types are INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Sequence

from frazil.broker.handlers.topic_config_rows import (
    BROKER_RESOURCE,
    DEFAULT_CONFIG,
    DYNAMIC_TOPIC_CONFIG,
    STATIC_BROKER_CONFIG,
    TOPIC_RESOURCE,
    source_of,
)
from frazil.broker.registry import Call, handles
from frazil.broker.services import Services
from frazil.broker.topic_configs import TOPIC_CONFIGS, ConfigType, TopicConfig, effective
from frazil.metadata.topics import TopicRecord
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from frazil.wire.messages.registry import ApiKey


@handles(ApiKey.DESCRIBE_CONFIGS, 1, 4)
async def describe_configs(call: Call[DescribeConfigsRequest]) -> DescribeConfigsResponse:
    """One answer per resource."""
    await call.services.topics.refresh()
    return DescribeConfigsResponse(results=[_describe(call, resource) for resource in call.message.resources])


def _describe(call: Call[DescribeConfigsRequest], asked: DescribeConfigsResource) -> DescribeConfigsResult:
    services = call.services

    def answer(
        rows: Sequence[DescribeConfigsResourceResult] = (), code: ErrorCode = ErrorCode.NONE, why: str | None = None
    ) -> DescribeConfigsResult:
        wanted = asked.configuration_keys
        return DescribeConfigsResult(
            error_code=code,
            error_message=why,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=[row for row in rows if wanted is None or row.name in wanted],
        )

    if asked.resource_type == TOPIC_RESOURCE:
        record = services.topics.get(asked.resource_name)
        if record is None:
            return answer(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why=f"no topic {asked.resource_name}")
        return answer([_topic_row(call.message, record, config) for config in TOPIC_CONFIGS])
    if asked.resource_type == BROKER_RESOURCE:
        if asked.resource_name not in ("", str(services.settings.node_id)):
            return answer(code=ErrorCode.INVALID_REQUEST, why=f"this is broker {services.settings.node_id}; ask the broker itself")
        return answer(_broker_rows(services) if asked.resource_name else ())
    return answer(code=ErrorCode.INVALID_REQUEST, why=f"resources of type {asked.resource_type} have no configs here")


def _topic_row(request: DescribeConfigsRequest, record: TopicRecord, config: TopicConfig) -> DescribeConfigsResourceResult:
    synonyms = []
    if request.include_synonyms:
        if config.name in record.configs:
            synonyms.append(DescribeConfigsSynonym(name=config.name, value=record.configs[config.name], source=DYNAMIC_TOPIC_CONFIG))
        synonyms.append(DescribeConfigsSynonym(name=config.name, value=config.default, source=DEFAULT_CONFIG))
    return DescribeConfigsResourceResult(
        name=config.name,
        value=effective(record.configs, config.name),
        config_source=source_of(record.configs, config.name),
        synonyms=synonyms,
        config_type=config.kind,
        documentation=config.doc if request.include_documentation else None,
    )


def _broker_rows(services: Services) -> list[DescribeConfigsResourceResult]:
    settings = services.settings
    me = services.brokers.me
    values = [
        ("advertised.listeners", f"PLAINTEXT://{me.host}:{me.port}", ConfigType.STRING),
        ("auto.create.topics.enable", str(settings.auto_create_topics).lower(), ConfigType.BOOLEAN),
        ("broker.id", str(settings.node_id), ConfigType.INT),
        ("connections.max.idle.ms", str(settings.idle_timeout_ms), ConfigType.LONG),
        ("default.replication.factor", "1", ConfigType.INT),
        ("group.initial.rebalance.delay.ms", str(settings.groups.initial_delay_ms), ConfigType.INT),
        ("group.max.session.timeout.ms", str(settings.groups.session_timeout_max_ms), ConfigType.INT),
        ("group.min.session.timeout.ms", str(settings.groups.session_timeout_min_ms), ConfigType.INT),
        ("message.max.bytes", effective({}, "max.message.bytes"), ConfigType.INT),
        ("num.partitions", str(settings.default_partitions), ConfigType.INT),
        ("offsets.retention.minutes", str(settings.offsets_retention_ms // 60_000), ConfigType.INT),
        ("socket.request.max.bytes", str(settings.request_bytes_max), ConfigType.INT),
    ]
    return [
        DescribeConfigsResourceResult(name=name, value=value, read_only=True, config_source=STATIC_BROKER_CONFIG, config_type=kind)
        for name, value, kind in values
    ]
