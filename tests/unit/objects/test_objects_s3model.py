"""The model of S3: its latencies, its bandwidth, its address."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from tests.simulation.loop import run_virtual

from frazil.kit.clock import LoopClock
from frazil.kit.errors import Refused
from frazil.kit.tasks import InlineOffload
from frazil.objects import ObjectStore, open_objects
from frazil.objects.faulty import S3_STANDARD, FaultyObjects, ObjectFaults
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects


def opened(url: str) -> ObjectStore:
    return open_objects(url, offload=InlineOffload(), clock=LoopClock())


async def timed_ms(work: Awaitable[object]) -> float:
    began = asyncio.get_running_loop().time()
    await work
    return (asyncio.get_running_loop().time() - began) * 1000


def in_virtual_time(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await body()

    run_virtual(main())


def test_latencies_are_those_of_s3_standard() -> None:
    async def body() -> None:
        store = opened("s3model:memory:?seed=7")
        puts = sorted([await timed_ms(store.put_if_absent(f"k{n}", b"x")) for n in range(4000)])
        gets = sorted([await timed_ms(store.get(f"k{n}")) for n in range(4000)])
        assert puts[2000] == pytest.approx(60, rel=0.05)
        assert puts[3960] == pytest.approx(300, rel=0.15)
        assert gets[2000] == pytest.approx(30, rel=0.05)
        assert gets[3960] == pytest.approx(150, rel=0.15)

    in_virtual_time(body)


def test_the_same_seed_is_the_same_history() -> None:
    found: list[list[float]] = []

    async def body() -> None:
        for seed in (7, 7, 8):
            store = opened(f"s3model:memory:?seed={seed}")
            found.append([await timed_ms(store.put_if_absent(f"k{n}", b"x")) for n in range(20)])

    in_virtual_time(body)
    assert found[0] == pytest.approx(found[1])
    assert found[0] != pytest.approx(found[2])


def test_transfers_share_the_link() -> None:
    async def body() -> None:
        store = FaultyObjects(MemoryObjects(MemoryBucket(), LoopClock()), random.Random(1), ObjectFaults(bytes_per_s=50e6))
        megabyte = bytes(1_000_000)
        took = await timed_ms(asyncio.gather(*(store.put_if_absent(f"k{n}", megabyte) for n in range(10))))
        assert took == pytest.approx(200)
        assert await timed_ms(store.get("k0")) == pytest.approx(20)

    in_virtual_time(body)


def test_or_each_has_its_own_share() -> None:
    async def body() -> None:
        plan = ObjectFaults(connection_bytes_per_s=50e6)
        store = FaultyObjects(MemoryObjects(MemoryBucket(), LoopClock()), random.Random(1), plan)
        took = await timed_ms(asyncio.gather(*(store.put_if_absent(f"k{n}", bytes(1_000_000)) for n in range(10))))
        assert took == pytest.approx(20)

    in_virtual_time(body)


def test_options_of_the_address() -> None:
    store = opened("s3model:memory:?mb_per_s=50&connection_mb_per_s=20&seed=3")
    assert isinstance(store, FaultyObjects)
    assert (store.plan.bytes_per_s, store.plan.connection_bytes_per_s) == (50e6, 20e6)
    assert store.plan.put_delay == S3_STANDARD.put_delay


@pytest.mark.parametrize(
    ("url", "word"), [("s3model:", "s3model:memory:"), ("s3model:memory:?speed=1", "unknown option"), ("s3model:memory:?seed=x", "number")]
)
def test_addresses_that_are_refused(url: str, word: str) -> None:
    with pytest.raises(Refused, match=word):
        opened(url)
