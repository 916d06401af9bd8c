"""Look-ups by time meet batches that cannot be unpacked: they are neither skipped nor allowed to cost memory."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from tests.faults import batches
from tests.unit.log.world import World, batch, in_world, key

from frazil.log.refs import OffsetAt


@pytest.mark.parametrize("bad", ["garbage", "count-above", "bomb", "many"])
def test_a_batch_that_cannot_be_unpacked_is_found_by_its_front(bad: str) -> None:
    made = {
        "garbage": lambda: batches.rotten("garbage", random.Random(1)),
        "count-above": lambda: batches.rotten("count-above", random.Random(1)),
        "bomb": lambda: batches.bomb(batches.ZSTD),
        "many": lambda: batches.batch(batches.record(0, b"") * 1_100_000, 1_100_000),
    }[bad]()
    stamp = int.from_bytes(made[35:43], "big")

    async def body(world: World) -> None:
        one = world.broker().start()
        await one.append(key(), batch(["a", "b"], at_ms=1000))
        await one.append(key(), made)
        last = (await one.append(key(), batch(["z"], at_ms=stamp + 5))).base_offset
        assert await one.reader.find_time(key(), 1001) == OffsetAt(offset=1, timestamp_ms=1001)
        tracemalloc.start()
        assert await one.reader.find_time(key(), 1002) == OffsetAt(offset=2, timestamp_ms=stamp)
        assert tracemalloc.get_traced_memory()[1] < 200 * 1024 * 1024
        tracemalloc.stop()
        assert await one.reader.find_time(key(), stamp + 5) == OffsetAt(offset=last, timestamp_ms=stamp + 5)
        await one.stop()

    in_world(body)
