"""librdkafka through confluent-kafka: plain and idempotent producer."""

from __future__ import annotations

import functools
import time

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.compat.flow import Client, Plan

QUIET = {"log_level": 0}


def create(plan: Plan, config: dict[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": plan.bootstrap, **QUIET})
    admin.create_topics([NewTopic(plan.topic, plan.partitions, 1, config=config or {})])[plan.topic].result(20)


def produce(plan: Plan, *, idempotent: bool) -> int:
    acknowledged = 0

    def done(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        nonlocal acknowledged
        assert error is None, error
        acknowledged += 1

    codec = "lz4" if idempotent else "none"
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": plan.bootstrap, "enable.idempotence": idempotent, "compression.type": codec, **QUIET}
    )
    for partition, value in plan.numbers():
        while True:
            try:
                producer.produce(plan.topic, value, partition=partition, on_delivery=done)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0
    return acknowledged


def consume(plan: Plan, enough: int) -> list[tuple[int, bytes]]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": plan.bootstrap,
            "group.id": plan.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            **QUIET,
        }
    )
    consumer.subscribe([plan.topic])
    read: list[tuple[int, bytes]] = []
    positions: dict[int, int] = {}
    end = time.monotonic() + 60
    try:
        while len(read) < enough and time.monotonic() < end:
            for message in consumer.consume(1000, timeout=0.5):
                assert message.error() is None, message.error()
                read.append((message.partition(), message.value()))
                positions[message.partition()] = message.offset() + 1
        consumer.commit(offsets=[TopicPartition(plan.topic, p, at) for p, at in positions.items()], asynchronous=False)
    finally:
        consumer.close()
    return read


def committed(plan: Plan) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": plan.bootstrap, "group.id": plan.group, **QUIET})
    try:
        found = consumer.committed([TopicPartition(plan.topic, p) for p in range(plan.partitions)], timeout=20)
    finally:
        consumer.close()
    return sum(max(0, place.offset) for place in found)


PLAIN = Client("librdkafka", create, functools.partial(produce, idempotent=False), consume, committed)
IDEMPOTENT = Client("librdkafka idempotent", create, functools.partial(produce, idempotent=True), consume, committed)


def grow(plan: Plan) -> None:
    """Raises the number of partitions of an existing topic to the plan's."""
    admin = AdminClient({"bootstrap.servers": plan.bootstrap, **QUIET})
    if len(admin.list_topics(plan.topic, timeout=20).topics[plan.topic].partitions) < plan.partitions:
        for future in admin.create_partitions([NewPartitions(plan.topic, plan.partitions)]).values():
            future.result(20)


Shape = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]
"""(key, value, timestamp ms, headers)"""


def odd_records() -> list[Shape]:
    """Records at the edges of the format."""
    now = int(time.time() * 1000)
    return [
        (None, None, now, []),
        (b"", b"", now, []),
        (b"key", None, now - 3_600_000, [("h", None), ("h", b""), ("again", b"\0\xff")]),
        (b"\xff" * 300, b"\0" * 70_000, now, [(f"h{number}", b"x" * number) for number in range(200)]),
        ("ключ".encode(), "значение 🧊".encode(), now + 1, [("имя", b"v")]),
        (b"big", b"z" * 900_000, now + 2, []),
    ]


def round_trip(plan: Plan, records: list[Shape]) -> list[Shape]:
    """Produces to partition 0 and reads it back."""
    producer = confluent_kafka.Producer({"bootstrap.servers": plan.bootstrap, **QUIET})
    for key, value, timestamp, headers in records:
        producer.produce(plan.topic, value, key, partition=0, timestamp=timestamp, headers=headers)
    assert producer.flush(20) == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": plan.bootstrap, "group.id": plan.group, "check.crcs": True, **QUIET})
    consumer.assign([TopicPartition(plan.topic, 0, 0)])
    got: list[Shape] = []
    end = time.monotonic() + 20
    while len(got) < len(records) and time.monotonic() < end:
        for message in consumer.consume(100, timeout=0.5):
            assert message.error() is None, message.error()
            got.append((message.key(), message.value(), message.timestamp()[1], list(message.headers() or [])))
    consumer.close()
    return got


def topics(bootstrap: str) -> list[str]:
    """Names of all topics."""
    return sorted(AdminClient({"bootstrap.servers": bootstrap, **QUIET}).list_topics(timeout=30).topics)
