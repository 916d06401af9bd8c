"""aiokafka: the client with the oldest protocol versions among those in use."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiokafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from tests.compat.programs import harness


def hello(_: dict[str, str]) -> dict[str, str]:
    import cramjam

    return {"client": f"aiokafka {aiokafka.__version__}", "library": f"cramjam {cramjam.__version__}"}


async def produce(request: dict[str, str]) -> dict[str, int]:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=request["bootstrap"],
        compression_type=None if request["codec"] == "none" else request["codec"],
        enable_idempotence=request["idempotent"] == "1",
        linger_ms=5,
        max_batch_size=65536,
    )
    await producer.start()
    try:
        futures = [
            await producer.send(
                request["topic"], harness.value_of(number), harness.key_of(number), headers=harness.headers_of(number, request["name"])
            )
            for number in harness.numbers(request)
        ]
        return {"acked": sum(answer.offset >= 0 for answer in await asyncio.gather(*futures))}
    finally:
        await producer.stop()


async def consume(request: dict[str, str]) -> dict[str, Any]:
    consumer = aiokafka.AIOKafkaConsumer(
        request["topic"],
        bootstrap_servers=request["bootstrap"],
        group_id=request["group"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    reading = harness.Reading(int(request["enough"]))
    try:
        while reading.more:
            for records in (await consumer.getmany(timeout_ms=200, max_records=1000)).values():
                for r in records:
                    reading.add(r.partition, r.offset, r.key, r.value, r.headers)
        await consumer.commit({aiokafka.TopicPartition(request["topic"], p): at for p, at in reading.positions().items()})
    finally:
        await consumer.stop()
    return reading.answer()


async def member(request: dict[str, str]) -> dict[str, Any]:
    assignors = (RangePartitionAssignor,) if request.get("assignor") == "range" else (RoundRobinPartitionAssignor,)
    consumer = aiokafka.AIOKafkaConsumer(
        request["topic"],
        bootstrap_servers=request["bootstrap"],
        group_id=request["group"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=500,
        partition_assignment_strategy=assignors,
    )
    await consumer.start()
    seen = harness.Membership(float(request["lasting"]))
    while seen.more:
        for records in (await consumer.getmany(timeout_ms=100, max_records=100)).values():
            for r in records:
                seen.read(r.partition, r.offset)
        seen.share(place.partition for place in consumer.assignment())
        if consumer.assignment():
            try:
                await consumer.commit()
            except aiokafka.errors.CommitFailedError:
                continue  # a new generation: whoever has the partition next reads them again
    await consumer.stop()
    return seen.answer()


async def transaction(request: dict[str, str]) -> dict[str, Any]:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=request["bootstrap"], transactional_id=request["topic"])
    began = time.monotonic()
    try:
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait(request["topic"], b"x")
    except aiokafka.errors.KafkaError as error:
        seconds = round(time.monotonic() - began, 2)
        return {"error": f"{type(error).__name__}: {error}", "final": not error.retriable, "seconds": seconds}
    finally:
        await producer.stop()
    return {"error": "", "final": False, "seconds": 0.0}


def plain(verb: Any) -> harness.Verb:
    return lambda request: asyncio.run(verb(request))


if __name__ == "__main__":
    verbs = {"produce": produce, "consume": consume, "member": member, "transaction": transaction}
    harness.loop({"hello": hello, **{name: plain(verb) for name, verb in verbs.items()}})
