"""kafka-python 3 with its defaults: an idempotent producer with acks=all."""

from __future__ import annotations

import time
import warnings

from tests.compat.flow import Client, Plan

with warnings.catch_warnings():  # its import uses importlib.resources.read_text, deprecated in Python 3.11
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient, NewTopic
    from kafka.structs import OffsetAndMetadata


def create(plan: Plan) -> None:
    admin = KafkaAdminClient(bootstrap_servers=plan.bootstrap)
    try:
        admin.create_topics([NewTopic(plan.topic, plan.partitions, 1)])
    finally:
        admin.close()


def produce(plan: Plan) -> int:
    producer = KafkaProducer(bootstrap_servers=plan.bootstrap, linger_ms=5, batch_size=65536, compression_type="gzip")
    futures = [producer.send(plan.topic, value, partition=partition) for partition, value in plan.numbers()]
    producer.flush(60)
    try:
        return sum(future.get(20).offset >= 0 for future in futures)
    finally:
        producer.close()


def consume(plan: Plan, enough: int) -> list[tuple[int, bytes]]:
    consumer = KafkaConsumer(
        plan.topic, bootstrap_servers=plan.bootstrap, group_id=plan.group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    read: list[tuple[int, bytes]] = []
    positions: dict[int, int] = {}
    end = time.monotonic() + 60
    try:
        while len(read) < enough and time.monotonic() < end:
            for records in consumer.poll(timeout_ms=500, max_records=1000).values():
                for record in records:
                    read.append((record.partition, record.value))
                    positions[record.partition] = record.offset + 1
        consumer.commit({TopicPartition(plan.topic, p): OffsetAndMetadata(at, "", -1) for p, at in positions.items()})
    finally:
        consumer.close(autocommit=False)
    return read


def committed(plan: Plan) -> int:
    consumer = KafkaConsumer(bootstrap_servers=plan.bootstrap, group_id=plan.group, enable_auto_commit=False)
    try:
        return sum(consumer.committed(TopicPartition(plan.topic, p)) or 0 for p in range(plan.partitions))
    finally:
        consumer.close(autocommit=False)


CLIENT = Client("kafka-python", create, produce, consume, committed)
