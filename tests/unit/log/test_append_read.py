"""The straight path: append, then read what was appended, through the same and through another process."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.log.world import OTHER, World, batch, in_world, key, run_of, values

from frazil.log.append import Appended
from frazil.log.refs import Bounds, OffsetOutOfRange, Want


def test_append_then_read_here_and_elsewhere() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        assert await one.append(key(), batch(["a", "b"])) == Appended(0, 0, -1)
        assert await one.append(key(), batch(["c"]), batch(["d", "e"])) == Appended(2, 0, -1)
        both = await one.appender.append([run_of(key(1), batch(["x"])), run_of(key(0, OTHER), batch(["y"]))])
        assert both == (Appended(0, 0, -1), Appended(0, 0, -1))
        expected = list(enumerate("abcde"))
        assert await values(one.reader, key()) == expected
        two = world.broker()
        assert two.index.bounds(key()) == Bounds(start=0, end=0)
        assert await two.reader.bounds(key()) == Bounds(start=0, end=5)
        assert await values(two.reader, key()) == expected
        assert await values(two.reader, key(0, OTHER)) == [(0, "y")]
        await one.stop()

    in_world(body)


def test_many_requests_share_flushes_and_keep_their_order() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        tasks = [asyncio.ensure_future(one.append(key(n % 3), batch([str(n)]))) for n in range(100)]
        answers = [answer.base_offset for answer in await asyncio.gather(*tasks)]
        assert answers == [n // 3 for n in range(100)]
        for partition in range(3):
            assert [v for _, v in await values(one.reader, key(partition))] == [str(n) for n in range(partition, 100, 3)]
        assert one.appender.counts.commits < 10
        await one.stop()

    in_world(body)


def test_two_brokers_share_a_partition() -> None:
    async def body(world: World) -> None:
        brokers = [world.broker(seed=n).start() for n in range(2)]

        async def produce(which: int) -> list[int]:
            return [(await brokers[which].append(key(), batch([f"{which}-{n}"]))).base_offset for n in range(30)]

        given = await asyncio.gather(produce(0), produce(1))
        assert sorted(given[0] + given[1]) == list(range(60))
        await brokers[0].index.refresh()
        seen = dict(await values(brokers[0].reader, key()))
        assert all(seen[offset] == f"{which}-{n}" for which in range(2) for n, offset in enumerate(given[which]))
        for broker in brokers:
            await broker.stop()

    in_world(body)


def test_read_many_reads_each_bundle_once() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        for n in range(4):
            await one.appender.append([run_of(key(p), batch([f"{n}"])) for p in range(10)])
        two = world.broker()
        gets: list[str] = []
        get = two.objects.get

        async def counting(name: str, *, start: int = 0, end: int | None = None) -> bytes:
            gets.append(name)
            return await get(name, start=start, end=end)

        two.objects.get = counting
        await two.index.refresh()
        slices = await two.reader.read_many([Want(key=key(p), offset=0, bytes_max=1 << 20) for p in range(10)])
        assert all(piece.end == 4 for piece in slices)
        assert len(gets) == len(set(gets)) == 4
        await one.stop()

    in_world(body)


def test_out_of_range_carries_true_bounds() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        await one.append(key(), batch(["a", "b"]))
        two = world.broker()
        assert (await two.reader.fetch(key(), 1, bytes_max=100)).base == 0
        assert (await two.reader.fetch(key(), 2, bytes_max=100)).data == b""
        with pytest.raises(OffsetOutOfRange) as caught:
            await two.reader.fetch(key(), 3, bytes_max=100)
        assert caught.value.bounds == Bounds(start=0, end=2)
        await one.stop()

    in_world(body)


def test_wait_change_misses_nothing() -> None:
    async def body(world: World) -> None:
        one, two = world.broker().start(), world.broker()
        follower = asyncio.ensure_future(two.index.follow())
        waiting = asyncio.ensure_future(two.index.wait_change({key(): 0, key(1): 0}, timeout_ms=60_000))
        await asyncio.sleep(0.1)
        await one.append(key(), batch(["a"]))
        assert await waiting
        assert await two.index.wait_change({key(): 0}, timeout_ms=0)
        assert not await two.index.wait_change({key(): 1}, timeout_ms=50)
        follower.cancel()
        await one.stop()

    in_world(body)
