"""Topics and groups, asked of a broker in the Kafka protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from frazil.admin import records_flow
from frazil.admin.connection import BrokerConnection, check
from frazil.admin.port import (
    ConsumePlan,
    GroupDetail,
    GroupOffsetRow,
    GroupRow,
    IncomingRecord,
    MemberRow,
    OutgoingRecord,
    PartitionRow,
    ResetRow,
    ResetWish,
    TopicDetail,
    TopicRow,
)
from frazil.kit.errors import Missing, Refused
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic
from frazil.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse
from frazil.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from frazil.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from frazil.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from frazil.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from frazil.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from frazil.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from frazil.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from frazil.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from frazil.wire.messages.registry import ApiKey

_TOPIC_RESOURCE = 2
_SET, _DELETE = 0, 1


class KafkaClient:
    """The verbs of ``admin.port.KafkaAdmin`` over one broker; any broker takes every request."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = BrokerConnection(host, port)

    async def open(self, *, patience_s: float = 0.0, notice: Callable[[str], None] | None = None) -> None:
        """Connects; see ``BrokerConnection.open``."""
        await self._connection.open(patience_s=patience_s, notice=notice)

    async def close(self) -> None:
        """Disconnects."""
        await self._connection.close()

    async def list_topics(self) -> tuple[TopicRow, ...]:
        """All topics, by name."""
        answer = await self._connection.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None), MetadataResponse)
        rows = [TopicRow(name=t.name or "", partitions=len(t.partitions), topic_id=t.topic_id.hex()) for t in answer.topics]
        return tuple(sorted(rows, key=lambda row: row.name))

    async def describe_topic(self, name: str) -> TopicDetail:
        """Partitions with offsets, and settings."""
        topic = await self._metadata(name)
        numbers = sorted(p.partition_index for p in topic.partitions)
        starts = await records_flow.list_offsets(self._connection, name, numbers, records_flow.EARLIEST)
        ends = await records_flow.list_offsets(self._connection, name, numbers, records_flow.LATEST)
        leaders = {p.partition_index: p.leader_id for p in topic.partitions}
        rows = tuple(PartitionRow(partition=p, start_offset=starts[p], end_offset=ends[p], leader=leaders[p]) for p in numbers)
        return TopicDetail(name=name, topic_id=topic.topic_id.hex(), partitions=rows, configs=await self._configs(name))

    async def create_topic(self, name: str, *, partitions: int, configs: Mapping[str, str]) -> TopicDetail:
        """Creates the topic and describes it."""
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
        answer = await self._connection.ask(ApiKey.CREATE_TOPICS, 7, request, CreateTopicsResponse)
        for result in answer.topics:
            check(result.error_code, f"topic {name}", result.error_message)
        return await self.describe_topic(name)

    async def delete_topic(self, name: str) -> None:
        """Deletes the topic."""
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
        answer = await self._connection.ask(ApiKey.DELETE_TOPICS, 5, request, DeleteTopicsResponse)
        for result in answer.responses:
            check(result.error_code, f"topic {name}", result.error_message)

    async def add_partitions(self, name: str, total: int) -> None:
        """Raises the number of partitions."""
        request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=total, assignments=None)], timeout_ms=30_000)
        answer = await self._connection.ask(ApiKey.CREATE_PARTITIONS, 3, request, CreatePartitionsResponse)
        for result in answer.results:
            check(result.error_code, f"topic {name}", result.error_message)

    async def alter_topic(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Sets or resets settings."""
        configs = [
            AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value) for key, value in changes.items()
        ]
        resource = AlterConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = await self._connection.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request, IncrementalAlterConfigsResponse)
        for result in answer.responses:
            check(result.error_code, f"topic {name}", result.error_message)

    async def list_groups(self) -> tuple[GroupRow, ...]:
        """All groups, by name."""
        answer = await self._connection.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest(), ListGroupsResponse)
        check(answer.error_code, "groups")
        rows = [GroupRow(group=g.group_id, state=g.group_state, protocol_type=g.protocol_type) for g in answer.groups]
        return tuple(sorted(rows, key=lambda row: row.group))

    async def describe_group(self, group: str) -> GroupDetail:
        """Members and committed offsets with lag."""
        answer = await self._connection.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
        found = answer.groups[0]
        check(found.error_code, f"group {group}")
        offsets = await self._group_offsets(group)
        if found.group_state == "Dead" and not offsets:
            raise Missing(f"there is no group {group!r}; `frazil group list` shows all")
        members = tuple(MemberRow(member_id=m.member_id, client_id=m.client_id, host=m.client_host) for m in found.members)
        return GroupDetail(group=group, state=found.group_state, protocol=found.protocol_data, members=members, offsets=offsets)

    async def delete_group(self, group: str) -> None:
        """Deletes an empty group."""
        answer = await self._connection.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[group]), DeleteGroupsResponse)
        for result in answer.results:
            check(result.error_code, f"group {group}")

    async def plan_reset(self, group: str, wish: ResetWish) -> tuple[ResetRow, ...]:
        """What a reset would commit."""
        answer = await self._connection.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
        found = answer.groups[0]
        check(found.error_code, f"group {group}")
        if found.members:
            raise Refused(f"group {group} has {len(found.members)} member(s); stop them first")
        committed = {(row.topic, row.partition): row.committed_offset for row in await self._group_offsets(group)}
        topics = wish.topics or tuple(sorted({topic for topic, _ in committed}))
        if not topics:
            raise Missing(f"group {group!r} has no offsets; name a topic, or see `frazil group list`")
        rows: list[ResetRow] = []
        for topic in topics:
            offsets = await self._reset_offsets(topic, wish)
            rows += [
                ResetRow(topic=topic, partition=p, committed_offset=committed.get((topic, p)), new_offset=offset)
                for p, offset in sorted(offsets.items())
            ]
        return tuple(rows)

    async def _reset_offsets(self, topic: str, wish: ResetWish) -> dict[int, int]:
        numbers = sorted(p.partition_index for p in (await self._metadata(topic)).partitions)
        ends = await records_flow.list_offsets(self._connection, topic, numbers, records_flow.LATEST)
        if wish.to_ms is not None:
            return await records_flow.offsets_at_time(self._connection, topic, ends, wish.to_ms)
        begins = await records_flow.list_offsets(self._connection, topic, numbers, records_flow.EARLIEST)
        return records_flow.offsets_at(wish.to, topic, begins, ends)

    async def reset(self, group: str, rows: Sequence[ResetRow]) -> None:
        """Commits the new offsets."""
        offsets: dict[str, dict[int, int]] = {}
        for row in rows:
            offsets.setdefault(row.topic, {})[row.partition] = row.new_offset
        await records_flow.commit_offsets(self._connection, group, offsets)

    async def produce(self, topic: str, records: Sequence[OutgoingRecord], *, codec: str) -> int:
        """Produces with acks=all; creates the topic when the broker is set to."""
        detail = await self._metadata(topic, create=True)
        numbers = sorted(p.partition_index for p in detail.partitions)
        return await records_flow.produce(self._connection, topic, numbers, records, codec=codec)

    async def consume(self, plan: ConsumePlan) -> AsyncIterator[IncomingRecord]:
        """Records of a topic, per partition in order."""
        detail = await self._metadata(plan.topic)
        known = sorted(p.partition_index for p in detail.partitions)
        unknown = sorted(set(plan.partitions) - set(known))
        if unknown:
            raise Refused(f"topic {plan.topic} has no partition {unknown[0]}; it has 0 to {len(known) - 1}")
        async for record in records_flow.consume(self._connection, plan, sorted(plan.partitions) or known):
            yield record

    async def _metadata(self, name: str, *, create: bool = False) -> MetadataResponseTopic:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=create)
        answer = await self._connection.ask(ApiKey.METADATA, 12, request, MetadataResponse)
        topic = answer.topics[0]
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Missing(f"there is no topic {name!r}; `frazil topic list` shows all")
        check(topic.error_code, f"topic {name}")
        return topic

    async def _configs(self, name: str) -> dict[str, str]:
        resource = DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
        answer = await self._connection.ask(
            ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse
        )
        result = answer.results[0]
        check(result.error_code, f"settings of topic {name}", result.error_message)
        return {config.name: config.value or "" for config in result.configs}

    async def _group_offsets(self, group: str) -> tuple[GroupOffsetRow, ...]:
        answer = await self._connection.ask(ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(group_id=group, topics=None), OffsetFetchResponse)
        check(answer.error_code, f"offsets of group {group}")
        rows: list[GroupOffsetRow] = []
        for topic in answer.topics:
            numbers = [p.partition_index for p in topic.partitions if p.committed_offset >= 0]
            ends = await records_flow.list_offsets(self._connection, topic.name, numbers, records_flow.LATEST)
            committed = {p.partition_index: p.committed_offset for p in topic.partitions}
            rows += [GroupOffsetRow(topic=topic.name, partition=p, committed_offset=committed[p], end_offset=ends[p]) for p in numbers]
        return tuple(sorted(rows, key=lambda row: (row.topic, row.partition)))
