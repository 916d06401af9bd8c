"""aiokafka: the client with the oldest protocol versions among those in use."""

from __future__ import annotations

import asyncio
import time

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from tests.compat.flow import Client, Plan


async def _create(plan: Plan) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=plan.bootstrap)
    await admin.start()
    try:
        answer = await admin.create_topics([NewTopic(plan.topic, plan.partitions, 1)])
        assert all(error[1] == 0 for error in answer.topic_errors), answer
    finally:
        await admin.close()


async def _produce(plan: Plan) -> int:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=plan.bootstrap, enable_idempotence=True, linger_ms=5, max_batch_size=65536)
    await producer.start()
    try:
        futures = [await producer.send(plan.topic, value, partition=partition) for partition, value in plan.numbers()]
        return sum(answer.offset >= 0 for answer in await asyncio.gather(*futures))
    finally:
        await producer.stop()


async def _consume(plan: Plan, enough: int) -> list[tuple[int, bytes]]:
    consumer = aiokafka.AIOKafkaConsumer(
        plan.topic, bootstrap_servers=plan.bootstrap, group_id=plan.group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    await consumer.start()
    read: list[tuple[int, bytes]] = []
    end = time.monotonic() + 60
    try:
        while len(read) < enough and time.monotonic() < end:
            for records in (await consumer.getmany(timeout_ms=500, max_records=1000)).values():
                read += [(record.partition, record.value) for record in records]
        await consumer.commit()
    finally:
        await consumer.stop()
    return read


async def _committed(plan: Plan) -> int:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=plan.bootstrap, group_id=plan.group, enable_auto_commit=False)
    await consumer.start()
    try:
        found = [await consumer.committed(aiokafka.TopicPartition(plan.topic, p)) for p in range(plan.partitions)]
        return sum(offset or 0 for offset in found)
    finally:
        await consumer.stop()


CLIENT = Client(
    "aiokafka",
    lambda plan: asyncio.run(_create(plan)),
    lambda plan: asyncio.run(_produce(plan)),
    lambda plan, enough: asyncio.run(_consume(plan, enough)),
    lambda plan: asyncio.run(_committed(plan)),
)
