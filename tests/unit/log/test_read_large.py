"""Objects too large to be taken whole: ranges of bundles and segments, by index and sidecar, or without them when they are lost."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.log.world import Broker, World, batch, in_world, key, run_of, values

from frazil.kit.errors import Corrupt
from frazil.log.cache import BlockCache
from frazil.log.refs import Want
from frazil.objects.stores.memory import MemoryObjects
from frazil.records import split_batches

BATCHES = 150


class Counting(MemoryObjects):
    def __init__(self, world: World) -> None:
        super().__init__(world.bucket, world.clock)
        self.gets: list[tuple[str, int, int]] = []

    async def get(self, name: str, *, start: int = 0, end: int | None = None) -> bytes:
        data = await super().get(name, start=start, end=end)
        self.gets.append((name, start, len(data)))
        return data


async def filled(world: World, *, seal: bool) -> tuple[Broker, Counting]:
    """A partition of 150 batches of 3 records, and a reader whose cache takes nothing whole."""
    one = world.broker().start()
    topic = await one.topic("t")
    await asyncio.gather(
        *(one.append(key(0, topic.topic_id), batch([f"{n}a", f"{n}b", f"{n}c"], at_ms=1000 + 10 * n)) for n in range(BATCHES))
    )
    if seal:
        await asyncio.sleep(700)
        await one.caretaker().pass_once()
    await one.stop()
    objects = Counting(world)
    reader = await world.fresh(objects=objects, cache=BlockCache(1 << 20, whole_bytes_max=0))
    reader.where = key(0, topic.topic_id)  # type: ignore[attr-defined]
    return reader, objects


@pytest.mark.parametrize("seal", [False, True])
@pytest.mark.parametrize("lost", ["", ".index", ".fzx"])
def test_every_offset_and_every_time(seal: bool, lost: str) -> None:
    async def body(world: World) -> None:
        reader, _ = await filled(world, seal=seal)
        where = reader.where  # type: ignore[attr-defined]
        for name in [name for name in world.objects() if lost and name.endswith(lost)]:
            await MemoryObjects(world.bucket, world.clock).delete([name])
        for offset in range(0, BATCHES * 3, 7):
            piece = await reader.reader.fetch(where, offset, bytes_max=1)
            (found,) = split_batches(piece.data, batch_bytes_max=1 << 20)
            assert found.base_offset <= offset <= found.last_offset
            at = await reader.reader.find_time(where, 1000 + 10 * (offset // 3) + offset % 3)
            assert at is not None and at.offset == offset
        expected = [(n * 3 + k, f"{n}{'abc'[k]}") for n in range(BATCHES) for k in range(3)]
        assert await values(reader.reader, where, bytes_max=500) == expected
        assert await values(reader.reader, where, start=100, bytes_max=10_000) == expected[100:]

    in_world(body)


def test_part_of_a_segment_is_read_by_its_index() -> None:
    async def body(world: World) -> None:
        reader, objects = await filled(world, seal=True)
        where = reader.where  # type: ignore[attr-defined]
        (name,) = [name for name in world.objects("default/") if name.endswith(".kfs")]
        size = len(world.bucket.objects[name][0])
        await reader.reader.fetch(where, BATCHES * 3 - 1, bytes_max=1)
        starts = [start for got, start, _ in objects.gets if got == name]
        assert starts and starts[0] > size // 2

    in_world(body)


def test_runs_of_a_large_bundle_are_one_range() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        await one.appender.append([run_of(key(p), batch(["x" * 100])) for p in range(20)])
        objects = Counting(world)
        reader = await world.fresh(objects=objects, cache=BlockCache(1 << 20, whole_bytes_max=0))
        slices = await reader.reader.read_many([Want(key=key(p), offset=0, bytes_max=1000) for p in range(5, 15)])
        assert all(piece.end == 1 for piece in slices)
        ((_, start, length),) = objects.gets
        assert start > 0 and length == sum(len(piece.data) for piece in slices)
        await one.stop()

    in_world(body)


@pytest.mark.parametrize("cut", [10, 40])
def test_f81_a_cut_segment_is_an_error_with_its_name(cut: int) -> None:
    async def body(world: World) -> None:
        reader, _ = await filled(world, seal=True)
        where = reader.where  # type: ignore[attr-defined]
        (name,) = [name for name in world.objects("default/") if name.endswith(".kfs")]
        data, at = world.bucket.objects[name]
        world.bucket.objects[name] = (data[:-cut], at)
        whole = await world.fresh()
        with pytest.raises(Corrupt, match="default/t/0/segment"):
            await values(whole.reader, where)
        if cut > 16:  # the last batch itself is cut
            with pytest.raises(Corrupt, match="default/t/0/segment"):
                await values(reader.reader, where)

    in_world(body)


def test_cache_is_bounded_and_shared() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        for n in range(20):
            await one.append(key(), batch([f"{n}" * 300]))
        objects = Counting(world)
        small = await world.fresh(objects=objects, cache=BlockCache(2000))
        await asyncio.gather(*(values(small.reader, key()) for _ in range(5)))
        assert small.cache.held_bytes <= 2000
        big = await world.fresh(objects=Counting(world), cache=BlockCache(1 << 20))
        await asyncio.gather(*(values(big.reader, key()) for _ in range(5)))
        assert len(big.objects.gets) == 20
        await one.stop()

    in_world(body)
