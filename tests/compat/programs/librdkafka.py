"""librdkafka through confluent-kafka."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition
from tests.compat.programs import harness

QUIET = {"log_level": 0}


def hello(_: dict[str, str]) -> dict[str, str]:
    return {"client": f"confluent-kafka {confluent_kafka.__version__}", "library": f"librdkafka {confluent_kafka.libversion()[0]}"}


def produce(request: dict[str, str]) -> dict[str, int]:
    acknowledged = 0

    def done(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        nonlocal acknowledged
        assert error is None, error
        acknowledged += 1

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": request["bootstrap"],
            "compression.type": request["codec"],
            "enable.idempotence": request["idempotent"] == "1",
            **QUIET,
        }
    )
    for number in harness.numbers(request):
        key, value, headers = harness.key_of(number), harness.value_of(number), harness.headers_of(number, request["name"])
        while True:
            try:
                producer.produce(request["topic"], value, key, on_delivery=done, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0
    return {"acked": acknowledged}


def consume(request: dict[str, str]) -> dict[str, Any]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": request["bootstrap"],
            "group.id": request["group"],
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            **QUIET,
        }
    )
    consumer.subscribe([request["topic"]])
    reading = harness.Reading(int(request["enough"]))
    try:
        while reading.more:
            for m in consumer.consume(1000, timeout=0.2):
                assert m.error() is None, m.error()
                reading.add(m.partition(), m.offset(), m.key(), m.value(), m.headers() or ())
        places = [TopicPartition(request["topic"], p, at) for p, at in reading.positions().items()]
        consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()
    return reading.answer()


def member(request: dict[str, str]) -> dict[str, Any]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": request["bootstrap"],
            "group.id": request["group"],
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 500,
            **QUIET,
        }
    )
    seen = harness.Membership(float(request["lasting"]))
    ends: dict[int, int] = {}

    def commit() -> None:
        try:
            consumer.commit(offsets=[TopicPartition(request["topic"], p, at) for p, at in ends.items()], asynchronous=False)
        except confluent_kafka.KafkaException:
            pass  # a new generation: whoever has the partition next reads them again

    def revoked(_: confluent_kafka.Consumer, __: list[TopicPartition]) -> None:
        if ends:
            commit()
        ends.clear()

    consumer.subscribe([request["topic"]], on_revoke=revoked)
    while seen.more:
        for m in consumer.consume(100, timeout=0.1):
            assert m.error() is None, m.error()
            seen.read(m.partition(), m.offset())
            ends[m.partition()] = m.offset() + 1
        seen.share(place.partition for place in consumer.assignment())
        if ends:
            commit()
    consumer.close()
    return seen.answer()


def transaction(request: dict[str, str]) -> dict[str, Any]:
    """With librdkafka's own patience: init_transactions without a time limit of ours."""
    producer = confluent_kafka.Producer({"bootstrap.servers": request["bootstrap"], "transactional.id": request["topic"], **QUIET})
    began = time.monotonic()
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(request["topic"], b"x")
        producer.commit_transaction()
    except confluent_kafka.KafkaException as error:
        what = error.args[0]
        return {"error": str(what), "final": not what.retriable(), "seconds": round(time.monotonic() - began, 2)}
    return {"error": "", "final": False, "seconds": 0.0}


if __name__ == "__main__":
    harness.loop({"hello": hello, "produce": produce, "consume": consume, "member": member, "transaction": transaction})
