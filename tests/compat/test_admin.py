"""Admin flows by confluent's AdminClient and kafka-python's admin: topics, settings, partitions, offsets by time, records, groups."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.compat.process import Processes

with warnings.catch_warnings():  # see clients/kafka_python.py
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.admin
    import kafka.errors
    from kafka.structs import OffsetAndMetadata

pytestmark = [pytest.mark.server]
HOUR_MS = 3_600_000


@pytest.fixture
def admin(served: Processes) -> AdminClient:
    return AdminClient({"bootstrap.servers": served.bootstrap, "log_level": 0})


@pytest.fixture
def python_admin(served: Processes) -> Iterator[kafka.admin.KafkaAdminClient]:
    made = kafka.admin.KafkaAdminClient(bootstrap_servers=served.bootstrap)
    yield made
    made.close()


def now_ms() -> int:
    """Records must be young, or retention takes them away."""
    return int(time.time() * 1000)


def one(futures: dict, /):  # type: ignore[no-untyped-def,type-arg]
    (future,) = futures.values()
    return future.result(20)


def code_of(futures: dict) -> int:  # type: ignore[type-arg]
    with pytest.raises(KafkaException) as caught:
        one(futures)
    return int(caught.value.args[0].code())


def fill(served: Processes, topic: str, values: list[tuple[int, bytes, int]]) -> None:
    """(partition, value, timestamp ms) each in a batch of its own."""
    producer = confluent_kafka.Producer({"bootstrap.servers": served.bootstrap, "batch.num.messages": 1, "log_level": 0})
    for partition, value, timestamp in values:
        producer.produce(topic, value, partition=partition, timestamp=timestamp)
    assert producer.flush(20) == 0


def values_of(served: Processes, topic: str, start: int = confluent_kafka.OFFSET_BEGINNING) -> list[bytes]:
    settings = {"group.id": "x", "enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": served.bootstrap, **settings})
    consumer.assign([TopicPartition(topic, 0, start)])
    got: list[bytes] = []
    while (message := consumer.poll(10)) is not None:
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            break
        got.append(message.value())
    consumer.close()
    return got


def test_topic_is_created_described_and_deleted(admin: AdminClient):
    created = admin.create_topics([NewTopic("life", 3, 1, config={"retention.ms": "7200000"})])
    one(created)
    assert code_of(admin.create_topics([NewTopic("life", 3, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS
    described = one(admin.describe_topics(TopicCollection(["life"])))
    assert described.name == "life"
    assert [p.id for p in described.partitions] == [0, 1, 2]
    first_id = str(described.topic_id)
    one(admin.delete_topics(["life"]))
    assert "life" not in admin.list_topics(timeout=10).topics
    assert code_of(admin.delete_topics(["life"])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    one(admin.create_topics([NewTopic("life", 1, 1)]))
    again = one(admin.describe_topics(TopicCollection(["life"])))
    assert str(again.topic_id) != first_id
    assert len(again.partitions) == 1


def test_a_topic_created_again_is_empty(admin: AdminClient, served: Processes):
    one(admin.create_topics([NewTopic("again", 1, 1)]))
    fill(served, "again", [(0, b"old%d" % n, now_ms()) for n in range(50)])
    one(admin.delete_topics(["again"]))
    one(admin.create_topics([NewTopic("again", 1, 1)]))
    assert values_of(served, "again") == []
    fill(served, "again", [(0, b"new", now_ms())])
    assert values_of(served, "again") == [b"new"]


def test_only_checking_creates_nothing(admin: AdminClient):
    one(admin.create_topics([NewTopic("dry", 3, 1)], validate_only=True))
    assert "dry" not in admin.list_topics(timeout=10).topics


@pytest.mark.parametrize(
    ("configs", "partitions", "expected"),
    [
        ({"retention.msx": "1"}, 1, KafkaError.INVALID_CONFIG),
        ({"retention.ms": "soon"}, 1, KafkaError.INVALID_CONFIG),
        ({"cleanup.policy": "compact"}, 1, KafkaError.INVALID_CONFIG),
        ({}, 50_000, KafkaError.INVALID_PARTITIONS),
    ],
)
def test_refused_topics(admin: AdminClient, configs: dict[str, str], partitions: int, expected: int):
    with pytest.raises(KafkaException) as caught:
        one(admin.create_topics([NewTopic("refused", partitions, 1, config=configs)]))
    assert caught.value.args[0].code() == expected, caught.value
    assert caught.value.args[0].str(), "a refusal says why"


def test_settings_are_altered_by_both_requests(admin: AdminClient):
    one(admin.create_topics([NewTopic("set", 1, 1)]))

    def shown() -> dict[str, ConfigEntry]:
        return one(admin.describe_configs([ConfigResource(ResourceType.TOPIC, "set")]))

    before = shown()
    assert before["cleanup.policy"].value == "delete"
    assert before["retention.ms"].is_default
    change = ConfigEntry("retention.ms", str(HOUR_MS), incremental_operation=AlterConfigOpType.SET)
    one(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, "set", incremental_configs=[change])]))
    assert shown()["retention.ms"].value == str(HOUR_MS)
    assert not shown()["retention.ms"].is_default
    resource = ConfigResource(ResourceType.TOPIC, "set", set_config={"max.message.bytes": "2000000"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one(admin.alter_configs([resource]))
    assert shown()["max.message.bytes"].value == "2000000"
    assert shown()["retention.ms"].is_default, "AlterConfigs replaces the whole list"
    bad = ConfigEntry("retention.ms", "x", incremental_operation=AlterConfigOpType.SET)
    assert (
        code_of(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, "set", incremental_configs=[bad])]))
        == KafkaError.INVALID_CONFIG
    )


def test_broker_settings_can_be_described(admin: AdminClient):
    broker_id = next(iter(admin.list_topics(timeout=10).brokers))
    assert one(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(broker_id))])) is not None


def test_partitions_are_added_and_never_taken_away(admin: AdminClient, served: Processes):
    one(admin.create_topics([NewTopic("grow", 1, 1)]))
    fill(served, "grow", [(0, b"a", now_ms())])
    one(admin.create_partitions([NewPartitions("grow", 4)]))
    assert len(admin.list_topics("grow", timeout=10).topics["grow"].partitions) == 4
    fill(served, "grow", [(3, b"d", now_ms())])
    assert values_of(served, "grow") == [b"a"]
    assert code_of(admin.create_partitions([NewPartitions("grow", 2)])) == KafkaError.INVALID_PARTITIONS
    assert code_of(admin.create_partitions([NewPartitions("unknown-topic", 2)])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_offsets_by_time(admin: AdminClient, served: Processes):
    one(admin.create_topics([NewTopic("times", 1, 1)]))
    start = now_ms() - HOUR_MS
    fill(served, "times", [(0, b"%d" % n, start + 1000 * n) for n in range(100)])
    place = TopicPartition("times", 0)

    def asked(spec: OffsetSpec) -> int:
        return int(one(admin.list_offsets({place: spec})).offset)

    assert asked(OffsetSpec.earliest()) == 0
    assert asked(OffsetSpec.latest()) == 100
    assert asked(OffsetSpec.max_timestamp()) == 99
    assert asked(OffsetSpec.for_timestamp(start + 41_500)) == 42
    assert asked(OffsetSpec.for_timestamp(start + 42_000)) == 42
    assert asked(OffsetSpec.for_timestamp(start - 5)) == 0
    assert asked(OffsetSpec.for_timestamp(start + HOUR_MS)) == -1
    reader = kafka.KafkaConsumer(bootstrap_servers=served.bootstrap)
    key = kafka.TopicPartition("times", 0)
    found = reader.offsets_for_times({key: start + 77_001})[key]
    assert (found.offset, found.timestamp) == (78, start + 78_000)
    assert reader.beginning_offsets([key])[key] == 0
    assert reader.end_offsets([key])[key] == 100
    reader.close()


def test_offsets_by_time_inside_one_batch(admin: AdminClient, served: Processes):
    one(admin.create_topics([NewTopic("inner", 1, 1)]))
    start = now_ms() - HOUR_MS
    settings = {"linger.ms": 200, "compression.type": "zstd", "log_level": 0}
    producer = confluent_kafka.Producer({"bootstrap.servers": served.bootstrap, **settings})
    for number in range(500):
        producer.produce("inner", b"%d" % number, partition=0, timestamp=start + 10 * number)
    assert producer.flush(20) == 0
    for number in (1, 250, 499):
        spec = OffsetSpec.for_timestamp(start + 10 * number - 3)
        assert one(admin.list_offsets({TopicPartition("inner", 0): spec})).offset == number


def test_records_below_an_offset_are_deleted(admin: AdminClient, served: Processes, python_admin: kafka.admin.KafkaAdminClient):
    one(admin.create_topics([NewTopic("short", 1, 1)]))
    fill(served, "short", [(0, b"%d" % n, now_ms()) for n in range(30)])
    assert one(admin.delete_records([TopicPartition("short", 0, 10)])).low_watermark == 10
    assert values_of(served, "short") == [b"%d" % n for n in range(10, 30)]
    assert values_of(served, "short", 3) == [b"%d" % n for n in range(10, 30)], "below the start: reset to the earliest"
    python_admin.delete_records({kafka.TopicPartition("short", 0): 20})
    assert values_of(served, "short") == [b"%d" % n for n in range(20, 30)]
    assert code_of(admin.delete_records([TopicPartition("short", 0, 31)])) == KafkaError.OFFSET_OUT_OF_RANGE
    assert one(admin.delete_records([TopicPartition("short", 0, confluent_kafka.OFFSET_END)])).low_watermark == 30
    assert values_of(served, "short") == []
    fill(served, "short", [(0, b"next", now_ms())])
    assert values_of(served, "short") == [b"next"]


def test_cluster_is_described(admin: AdminClient, python_admin: kafka.admin.KafkaAdminClient, served: Processes):
    described = admin.describe_cluster().result(20)
    assert described.cluster_id
    assert [(node.host, node.port) for node in described.nodes] == [("127.0.0.1", served.port)]
    assert described.controller is not None
    other = python_admin.describe_cluster()
    assert other["cluster_id"] == described.cluster_id


def test_groups_are_listed_described_reset_and_deleted(admin: AdminClient, served: Processes):
    one(admin.create_topics([NewTopic("grouped", 2, 1)]))
    fill(served, "grouped", [(n % 2, b"%d" % n, now_ms()) for n in range(20)])
    settings = {"group.id": "g-life", "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": served.bootstrap, **settings})
    consumer.subscribe(["grouped"])
    got = 0
    while got < 20:
        got += len(consumer.consume(20, timeout=10))
    consumer.commit(asynchronous=False)
    listed = {g.group_id: g for g in admin.list_consumer_groups().result(20).valid}
    assert listed["g-life"].state == ConsumerGroupState.STABLE
    described = one(admin.describe_consumer_groups(["g-life"]))
    (member,) = described.members
    assert sorted(p.partition for p in member.assignment.topic_partitions) == [0, 1]
    assert described.partition_assignor == "range"
    assert code_of(admin.delete_consumer_groups(["g-life"])) == KafkaError.NON_EMPTY_GROUP
    consumer.close()
    assert one(admin.describe_consumer_groups(["g-life"])).state == ConsumerGroupState.EMPTY
    ask = [ConsumerGroupTopicPartitions("g-life")]
    assert sorted((p.partition, p.offset) for p in one(admin.list_consumer_group_offsets(ask)).topic_partitions) == [(0, 10), (1, 10)]
    moved = ConsumerGroupTopicPartitions("g-life", [TopicPartition("grouped", 0, 3)])
    one(admin.alter_consumer_group_offsets([moved]))
    assert sorted((p.partition, p.offset) for p in one(admin.list_consumer_group_offsets(ask)).topic_partitions) == [(0, 3), (1, 10)]
    one(admin.delete_consumer_groups(["g-life"]))
    assert "g-life" not in {g.group_id for g in admin.list_consumer_groups().result(20).valid}
    assert code_of(admin.delete_consumer_groups(["g-life"])) == KafkaError.GROUP_ID_NOT_FOUND


def test_commit_metadata_comes_back(served: Processes, admin: AdminClient):
    one(admin.create_topics([NewTopic("noted", 1, 1)]))
    consumer = confluent_kafka.Consumer({"bootstrap.servers": served.bootstrap, "group.id": "g-noted", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("noted", 0, 7, metadata="seven, ёлка")], asynchronous=False)
    (place,) = consumer.committed([TopicPartition("noted", 0)], timeout=20)
    assert (place.offset, place.metadata) == (7, "seven, ёлка")
    consumer.close()


def test_kafka_python_admin(python_admin: kafka.admin.KafkaAdminClient, served: Processes):
    made = {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "60000"}}
    python_admin.create_topics({"snake": made}, wait_for_metadata=True)
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        python_admin.create_topics({"snake": made})
    with pytest.raises(kafka.errors.InvalidPartitionsError):
        python_admin.create_topics({"none": {"num_partitions": 0, "replication_factor": 1}})
    with pytest.raises(kafka.errors.InvalidTopicError):
        python_admin.create_topics({"sna ke": made})
    assert "snake" in python_admin.list_topics()
    (described,) = python_admin.describe_topics(["snake"])
    assert len(described["partitions"]) == 2
    resource = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.TOPIC, "snake", {"retention.ms": "120000"})
    python_admin.alter_configs([resource])
    asked = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.TOPIC, "snake")
    assert python_admin.describe_configs([asked])["topic"]["snake"]["retention.ms"]["value"] == "120000"
    python_admin.reset_configs([resource])
    assert "retention.ms" not in python_admin.describe_configs([asked])["topic"]["snake"]
    python_admin.create_partitions({"snake": 3})
    fill(served, "snake", [(n % 3, b"v", now_ms()) for n in range(9)])
    spots = {kafka.TopicPartition("snake", p): kafka.admin.OffsetSpec.LATEST for p in range(3)}
    assert [place.offset for place in python_admin.list_partition_offsets(spots).values()] == [3, 3, 3]
    key = kafka.TopicPartition("snake", 0)
    python_admin.alter_group_offsets("g-snake", {key: OffsetAndMetadata(2, "note", -1)})
    assert python_admin.list_group_offsets("g-snake")["g-snake"][key].offset == 2
    python_admin.reset_group_offsets("g-snake", {key: kafka.admin.OffsetSpec.EARLIEST})
    assert python_admin.list_group_offsets("g-snake")["g-snake"][key].offset == 0
    assert "g-snake" in {group["group_id"] for group in python_admin.list_groups()}
    assert python_admin.describe_groups(["g-snake"])["g-snake"]["group_state"] in ("Empty", "EMPTY")
    python_admin.delete_group_offsets("g-snake", [key])
    assert key not in python_admin.list_group_offsets("g-snake")["g-snake"]
    python_admin.delete_topics(["snake"])
    assert "snake" not in python_admin.list_topics()
