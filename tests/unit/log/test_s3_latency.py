"""Appending to the model of S3 with the balanced preset, in virtual time: latency and PUTs as R13 and R25 promise."""

from __future__ import annotations

import asyncio
import random

from tests.unit.log.test_rules import in_world
from tests.unit.log.world import Broker, World, batch, key

from frazil.assembly.cloud import flush_policy
from frazil.assembly.settings import BrokerSettings, FrazilSettings, StoreSettings
from frazil.objects.faulty import S3_STANDARD, FaultyObjects
from frazil.objects.stores.memory import MemoryObjects


def on_s3(world: World, preset: str) -> Broker:
    objects = FaultyObjects(MemoryObjects(world.bucket, world.clock), random.Random(7), S3_STANDARD)
    settings = FrazilSettings(store=StoreSettings(objects="s3://bucket"), broker=BrokerSettings(flush_preset=preset))
    return world.broker(objects=objects, policy=flush_policy(settings)).start()


async def offer(one: Broker, *, partitions: int, per_s: int, seconds: int) -> list[float]:
    """Requests of one record at an even rate, round robin; latencies in ms, in order of size."""
    loop = asyncio.get_running_loop()
    took: list[float] = []
    data = batch(["x"])

    async def one_request(number: int) -> None:
        began = loop.time()
        await one.append(key(number % partitions), data)
        took.append((loop.time() - began) * 1000)

    began = loop.time()
    tasks = []
    for number in range(per_s * seconds):
        tasks.append(asyncio.create_task(one_request(number)))
        await asyncio.sleep(max(0.0, began + (number + 1) / per_s - loop.time()))
    await asyncio.gather(*tasks)
    return sorted(took)


def test_balanced_on_s3_is_answered_within_150_ms_and_its_slowest_hundredth_within_400() -> None:
    async def body(world: World) -> None:
        one = on_s3(world, "auto")
        took = await offer(one, partitions=12, per_s=100, seconds=60)
        assert took[len(took) // 2] <= 150
        assert took[int(len(took) * 0.99)] <= 400
        assert one.appender.puts.hedged <= one.appender.puts.requests * 0.05 + 4
        await one.stop()

    in_world(body)


def test_r13_a_thousand_active_partitions_make_no_more_puts_than_the_preset_allows() -> None:
    for preset, cuts_per_s in (("balanced", 25), ("economy", 4)):

        async def body(world: World, preset: str = preset, cuts_per_s: int = cuts_per_s) -> None:
            one = on_s3(world, preset)
            await offer(one, partitions=1000, per_s=1000, seconds=10)
            puts = one.appender.puts
            assert 0.6 * cuts_per_s * 10 <= puts.requests <= cuts_per_s * 10 + 2
            assert puts.requests + puts.hedged <= 1.05 * cuts_per_s * 10 + 4
            await one.stop()

        in_world(body)
