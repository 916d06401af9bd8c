"""kafka-python 3 with its defaults: an idempotent producer with acks=all."""

from __future__ import annotations

import importlib.metadata
import time
import warnings
from typing import Any

from tests.compat.programs import harness

with warnings.catch_warnings():  # its import uses importlib.resources.read_text, deprecated in Python 3.11
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import CommitFailedError, KafkaError, RebalanceInProgressError
    from kafka.structs import OffsetAndMetadata


def hello(_: dict[str, str]) -> dict[str, str]:
    def version(name: str) -> str:
        return f"{name} {importlib.metadata.version(name)}"

    return {"client": version("kafka-python"), "library": ", ".join(map(version, ("lz4", "python-snappy", "zstandard")))}


def produce(request: dict[str, str]) -> dict[str, int]:
    codec = None if request["codec"] == "none" else request["codec"]
    producer = KafkaProducer(bootstrap_servers=request["bootstrap"], compression_type=codec, linger_ms=5, batch_size=65536)
    try:
        futures = [
            producer.send(
                request["topic"], harness.value_of(number), harness.key_of(number), headers=harness.headers_of(number, request["name"])
            )
            for number in harness.numbers(request)
        ]
        producer.flush(60)
        return {"acked": sum(future.get(20).offset >= 0 for future in futures)}
    finally:
        producer.close()


def consume(request: dict[str, str]) -> dict[str, Any]:
    consumer = KafkaConsumer(
        request["topic"],
        bootstrap_servers=request["bootstrap"],
        group_id=request["group"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    reading = harness.Reading(int(request["enough"]))
    try:
        while reading.more:
            for records in consumer.poll(timeout_ms=200, max_records=1000).values():
                for r in records:
                    reading.add(r.partition, r.offset, r.key, r.value, r.headers)
        places = reading.positions().items()
        consumer.commit({TopicPartition(request["topic"], p): OffsetAndMetadata(at, "", -1) for p, at in places})
    finally:
        consumer.close(autocommit=False)
    return reading.answer()


def member(request: dict[str, str]) -> dict[str, Any]:
    consumer = KafkaConsumer(
        request["topic"],
        bootstrap_servers=request["bootstrap"],
        group_id=request["group"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=500,
    )
    seen = harness.Membership(float(request["lasting"]))
    while seen.more:
        for records in consumer.poll(timeout_ms=100, max_records=100).values():
            for r in records:
                seen.read(r.partition, r.offset)
        seen.share(place.partition for place in consumer.assignment())
        if consumer.assignment():
            try:
                consumer.commit()
            except (CommitFailedError, RebalanceInProgressError):
                continue  # a new generation: whoever has the partition next reads them again
    consumer.close(autocommit=False)
    return seen.answer()


def transaction(request: dict[str, str]) -> dict[str, Any]:
    producer = KafkaProducer(bootstrap_servers=request["bootstrap"], transactional_id=request["topic"])
    began = time.monotonic()
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(request["topic"], b"x")
        producer.commit_transaction()
    except KafkaError as error:
        final = not getattr(error, "retriable", False)
        return {"error": f"{type(error).__name__}: {error}", "final": final, "seconds": round(time.monotonic() - began, 2)}
    finally:
        producer.close(timeout=1)
    return {"error": "", "final": False, "seconds": 0.0}


if __name__ == "__main__":
    harness.loop({"hello": hello, "produce": produce, "consume": consume, "member": member, "transaction": transaction})
