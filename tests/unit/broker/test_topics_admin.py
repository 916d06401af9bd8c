"""Topics, partitions, configs and the cluster through the admin APIs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.integration.rig import World
from tests.simulation.loop import run_virtual
from tests.unit.broker.harness import Stage, batch, play, stage

from frazil.broker.topic_configs import TOPIC_CONFIGS, check_configs
from frazil.kit.errors import Refused
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.alter_configs import AlterableConfig as PlainConfig
from frazil.wire.messages.alter_configs import AlterConfigsRequest
from frazil.wire.messages.alter_configs import AlterConfigsResource as PlainResource
from frazil.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from frazil.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from frazil.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from frazil.wire.messages.describe_cluster import DescribeClusterRequest
from frazil.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from frazil.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from frazil.wire.messages.init_producer_id import InitProducerIdRequest
from frazil.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from frazil.wire.messages.registry import ApiKey


async def create(on: Stage, name: str = "t", partitions: int = 1, *, version: int = 7, **changes: Any) -> Any:
    configs = [CreatableTopicConfig(name=k, value=v) for k, v in changes.pop("configs", {}).items()]
    validate_only = changes.pop("validate_only", False)
    topic = CreatableTopic(**{"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": configs, **changes})
    answer = await on.client.call(ApiKey.CREATE_TOPICS, version, CreateTopicsRequest(topics=[topic], validate_only=validate_only))
    return answer.topics[0]


async def metadata(on: Stage, *names: str, version: int = 12, create: bool = False) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names] if names else None
    return await on.client.call(ApiKey.METADATA, version, MetadataRequest(topics=topics, allow_auto_topic_creation=create))


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_in_every_version(version: int) -> None:
    async def scene(on: Stage) -> None:
        made = await create(on, partitions=3, version=version, configs={"retention.ms": "1000"})
        assert made.error_code == 0
        found = await metadata(on, "t")
        assert len(found.topics[0].partitions) == 3
        if version >= 7:
            assert made.topic_id == found.topics[0].topic_id
        if version >= 5:
            assert {c.name: (c.value, c.config_source) for c in made.configs}["retention.ms"] == ("1000", 1)
        assert (await create(on, version=version)).error_code == ErrorCode.TOPIC_ALREADY_EXISTS

    play(scene)


def test_create_only_checks_when_asked() -> None:
    async def scene(on: Stage) -> None:
        assert (await create(on, validate_only=True)).error_code == 0
        assert (await metadata(on, "t")).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(scene)


@pytest.mark.parametrize(
    ("changes", "code", "word"),
    [
        ({"name": "bad/name"}, ErrorCode.INVALID_TOPIC_EXCEPTION, "A-Z"),
        ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS, "1 to"),
        ({"partitions": 1_000_000}, ErrorCode.INVALID_PARTITIONS, "1 to"),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR, "-1"),
        ({"configs": {"retention.hours": "1"}}, ErrorCode.INVALID_CONFIG, "retention.hours"),
        ({"configs": {"retention.ms": "soon"}}, ErrorCode.INVALID_CONFIG, "retention.ms"),
        ({"configs": {"retention.ms": "-2"}}, ErrorCode.INVALID_CONFIG, "at least -1"),
        ({"configs": {"compression.type": "zstd"}}, ErrorCode.INVALID_CONFIG, "set compression.type at the producer"),
        ({"configs": {"cleanup.policy": "compact"}}, ErrorCode.INVALID_CONFIG, "compaction"),
        ({"configs": {"preallocate": "maybe"}}, ErrorCode.INVALID_CONFIG, "true or false"),
        ({"configs": {"min.cleanable.dirty.ratio": "1.5"}}, ErrorCode.INVALID_CONFIG, "0 to 1"),
        ({"assignments": [CreatableReplicaAssignment(partition_index=1, broker_ids=[0])], "partitions": -1, "replication_factor": -1},
         ErrorCode.INVALID_REPLICA_ASSIGNMENT, "numbered from 0"),
    ],
)  # fmt: skip
def test_refused_topics_say_what_is_wrong(changes: dict[str, Any], code: ErrorCode, word: str) -> None:
    async def scene(on: Stage) -> None:
        answer = await create(on, **changes)
        assert answer.error_code == code
        assert word in answer.error_message

    play(scene)


def test_defaults_and_assignments() -> None:
    async def scene(on: Stage) -> None:
        assert (await create(on, "a", -1, replication_factor=-1)).num_partitions == 4
        both = [CreatableReplicaAssignment(partition_index=n, broker_ids=[0]) for n in range(2)]
        assert (await create(on, "b", -1, replication_factor=-1, assignments=both)).num_partitions == 2
        answer = await on.client.call(
            ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[CreatableTopic(name="c"), CreatableTopic(name="c")])
        )
        assert {t.error_code for t in answer.topics} == {ErrorCode.INVALID_REQUEST}

    play(scene, default_partitions=4)


def test_metadata_creates_a_topic_only_if_client_and_settings_allow() -> None:
    async def allowed(on: Stage) -> None:
        assert (await metadata(on, "t")).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await metadata(on, "t", create=True)).topics[0].error_code == 0
        assert (await metadata(on, "old", version=1)).topics[0].error_code == 0
        assert (await metadata(on, "no/good", create=True)).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    async def forbidden(on: Stage) -> None:
        assert (await metadata(on, "t", create=True)).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(allowed)
    play(forbidden, auto_create_topics=False)


@pytest.mark.parametrize("version", range(13))
def test_metadata_of_all_topics_in_every_version(version: int) -> None:
    async def scene(on: Stage) -> None:
        await on.topic("a", 2)
        await on.topic("b")
        topics: list[MetadataRequestTopic] | None = [] if version == 0 else None
        answer = await on.client.call(ApiKey.METADATA, version, MetadataRequest(topics=topics))
        assert [(t.name, len(t.partitions)) for t in answer.topics] == [("a", 2), ("b", 1)]
        assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(0, "127.0.0.1", 9000)]
        assert answer.topics[0].partitions[1].leader_id == 0
        if version >= 1:
            none = await on.client.call(ApiKey.METADATA, version, MetadataRequest(topics=[]))
            assert none.topics == []

    play(scene)


def test_metadata_by_topic_id() -> None:
    async def scene(on: Stage) -> None:
        made = await create(on)
        asked = [MetadataRequestTopic(name=None, topic_id=i) for i in (made.topic_id, b"x" * 16)]
        answer = await on.client.call(ApiKey.METADATA, 12, MetadataRequest(topics=asked))
        assert [(t.name, t.error_code) for t in answer.topics] == [("t", 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]

    play(scene)


def test_r26_brokers_give_one_answer_and_epoch_zero() -> None:
    async def main() -> None:
        world = World()
        async with stage(world, 0) as one, stage(world, 1) as two:
            await one.topic("t", 32)
            await asyncio.sleep(2)
            first, second = await metadata(one, "t"), await metadata(two, "t")
            leaders = [[p.leader_id for p in answer.topics[0].partitions] for answer in (first, second)]
            assert leaders[0] == leaders[1]
            assert set(leaders[0]) == {0, 1}
            assert {p.leader_epoch for p in first.topics[0].partitions} == {0}
            assert first.controller_id == second.controller_id == 0
            assert [b.node_id for b in second.brokers] == [0, 1]

    run_virtual(main())


def test_a_broker_that_left_is_not_listed_for_long() -> None:
    async def main() -> None:
        world = World()
        async with stage(world, 0) as one:
            await one.topic("t", 8)
            async with stage(world, 1):
                await asyncio.sleep(2)
                assert len((await metadata(one)).brokers) == 2
            await asyncio.sleep(2)
            answer = await metadata(one, "t")
            assert [b.node_id for b in answer.brokers] == [0]
            assert {p.leader_id for p in answer.topics[0].partitions} == {0}

    run_virtual(main())


def test_topics_made_elsewhere_are_known_at_once() -> None:
    async def main() -> None:
        world = World()
        async with stage(world, 0) as one, stage(world, 1) as two:
            await two.topic("t")
            assert (await one.client.produce("t", batch(1))).error_code == 0

    run_virtual(main())


@pytest.mark.parametrize("version", range(1, 7))
def test_a_deleted_topic_is_gone_and_its_successor_is_empty(version: int) -> None:
    async def scene(on: Stage) -> None:
        made = await create(on)
        await on.client.produce("t", batch(5))
        asked = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], topic_names=["t"])
        gone = (await on.client.call(ApiKey.DELETE_TOPICS, version, asked)).responses[0]
        assert (gone.name, gone.error_code) == ("t", 0)
        assert (await on.client.produce("t", batch(1))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        again = (await on.client.call(ApiKey.DELETE_TOPICS, version, asked)).responses[0]
        assert again.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        anew = await create(on)
        assert anew.topic_id != made.topic_id
        assert (await on.client.produce("t", batch(1))).base_offset == 0

    play(scene)


def test_topics_are_deleted_by_id() -> None:
    async def scene(on: Stage) -> None:
        made = await create(on)
        asked = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=i) for i in (made.topic_id, b"x" * 16)])
        answers = (await on.client.call(ApiKey.DELETE_TOPICS, 6, asked)).responses
        assert [a.error_code for a in answers] == [0, ErrorCode.UNKNOWN_TOPIC_ID]

    play(scene)


def test_partitions_grow_and_never_shrink() -> None:
    async def scene(on: Stage) -> None:
        await create(on, partitions=2)

        async def grow(count: int, *, name: str = "t", validate_only: bool = False) -> int:
            asked = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)], validate_only=validate_only
            )
            return int((await on.client.call(ApiKey.CREATE_PARTITIONS, 3, asked)).results[0].error_code)

        assert await grow(4, validate_only=True) == 0
        assert await grow(2) == ErrorCode.INVALID_PARTITIONS
        assert await grow(1) == ErrorCode.INVALID_PARTITIONS
        assert await grow(4, name="missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await grow(4) == 0
        assert len((await metadata(on, "t")).topics[0].partitions) == 4
        assert (await on.client.produce("t", batch(1), partition=3)).base_offset == 0

    play(scene)


async def described(on: Stage, name: str = "t", kind: int = 2, *, version: int = 4, **changes: Any) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=changes.pop("keys", None))
    answer = await on.client.call(ApiKey.DESCRIBE_CONFIGS, version, DescribeConfigsRequest(resources=[resource], **changes))
    return answer.results[0]


@pytest.mark.parametrize("version", range(1, 5))
def test_configs_are_described_in_every_version(version: int) -> None:
    async def scene(on: Stage) -> None:
        await create(on, configs={"retention.ms": "77"})
        found = await described(on, version=version, include_synonyms=True, include_documentation=True)
        rows = {row.name: row for row in found.configs}
        assert set(rows) == {config.name for config in TOPIC_CONFIGS}
        assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("77", 1)
        assert [s.value for s in rows["retention.ms"].synonyms] == ["77", "604800000"]
        assert (rows["segment.bytes"].value, rows["segment.bytes"].config_source) == ("1073741824", 5)
        if version >= 3:
            assert rows["retention.ms"].config_type == 5
            assert rows["retention.ms"].documentation
        only = await described(on, version=version, keys=["cleanup.policy"])
        assert [(row.name, row.value) for row in only.configs] == [("cleanup.policy", "delete")]

    play(scene)


def test_broker_configs_are_described_by_the_broker_itself() -> None:
    async def scene(on: Stage) -> None:
        rows = {row.name: row for row in (await described(on, "0", 4)).configs}
        assert rows["auto.create.topics.enable"].value == "true"
        assert rows["advertised.listeners"].value == "PLAINTEXT://127.0.0.1:9000"
        assert all(row.read_only for row in rows.values())
        assert (await described(on, "5", 4)).error_code == ErrorCode.INVALID_REQUEST
        assert (await described(on, "x", 9)).error_code == ErrorCode.INVALID_REQUEST
        assert (await described(on, "missing")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(scene)


def test_configs_change_step_by_step_and_all_at_once() -> None:
    async def scene(on: Stage) -> None:
        await create(on, configs={"retention.ms": "77"})

        async def change(name: str, value: str | None, operation: int, *, kind: int = 2, validate_only: bool = False) -> int:
            config = AlterableConfig(name=name, value=value, config_operation=operation)
            resource = AlterConfigsResource(resource_type=kind, resource_name="t", configs=[config])
            asked = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
            return int((await on.client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, asked)).responses[0].error_code)

        async def value(name: str) -> str:
            return str((await described(on, keys=[name])).configs[0].value)

        assert await change("retention.bytes", "5", 0, validate_only=True) == 0
        assert await value("retention.bytes") == "-1"
        assert await change("retention.bytes", "5", 0) == 0
        assert (await value("retention.bytes"), await value("retention.ms")) == ("5", "77")
        assert await change("retention.ms", None, 1) == 0
        assert await value("retention.ms") == "604800000"
        replicas = "follower.replication.throttled.replicas"
        assert await change(replicas, "0:1,0:2", 2) == 0
        assert await change(replicas, "0:1", 3) == 0
        assert await value(replicas) == "0:2"
        assert await change("retention.ms", "1", 2) == ErrorCode.INVALID_CONFIG
        assert await change("nonsense", "1", 0) == ErrorCode.INVALID_CONFIG
        assert await change("retention.ms", None, 0) == ErrorCode.INVALID_CONFIG
        assert await change("retention.ms", "1", 9) == ErrorCode.INVALID_CONFIG
        assert await change("num.partitions", "1", 0, kind=4) == ErrorCode.INVALID_REQUEST
        plain = PlainResource(resource_type=2, resource_name="t", configs=[PlainConfig(name="retention.ms", value="9")])
        replaced = await on.client.call(ApiKey.ALTER_CONFIGS, 2, AlterConfigsRequest(resources=[plain]))
        assert replaced.responses[0].error_code == 0
        assert (await value("retention.ms"), await value("retention.bytes")) == ("9", "-1")

    play(scene)


def test_a_changed_config_is_in_force_for_the_next_produce() -> None:
    async def scene(on: Stage) -> None:
        await create(on)
        big = batch(1, value=b"x" * 500)
        assert (await on.client.produce("t", big)).error_code == 0
        config = AlterableConfig(name="max.message.bytes", value="100", config_operation=0)
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
        await on.client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=[resource]))
        assert (await on.client.produce("t", big)).error_code == ErrorCode.MESSAGE_TOO_LARGE

    play(scene)


def test_every_default_is_a_value_that_may_be_set() -> None:
    check_configs({config.name: config.default for config in TOPIC_CONFIGS if config.default})
    with pytest.raises(Refused, match=r"did you mean retention\.ms"):
        check_configs({"retention.mss": "1"})


def test_describe_cluster() -> None:
    async def scene(on: Stage) -> None:
        answer = await on.client.call(ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest(endpoint_type=1))
        assert answer.cluster_id == "frazil"
        assert [(b.broker_id, b.host) for b in answer.brokers] == [(0, "127.0.0.1")]
        wrong = await on.client.call(ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest(endpoint_type=2))
        assert wrong.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE

    play(scene)


def test_producer_ids_are_never_given_twice() -> None:
    async def main() -> None:
        world = World()
        seen: list[int] = []
        for node_id in (0, 1):
            async with stage(world, node_id) as on:
                for version in range(6):
                    answer = await on.client.call(ApiKey.INIT_PRODUCER_ID, version, InitProducerIdRequest(transactional_id=None))
                    assert (answer.error_code, answer.producer_epoch) == (0, 0)
                    seen.append(answer.producer_id)
                refused = await on.client.call(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id="tx"))
                assert (refused.error_code, refused.producer_id) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)
        assert len(set(seen)) == 12

    run_virtual(main())
