"""Everything at once, by seed: kills at random points, a catalog that lies, stores that fail, two processes; EO at the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.world import FAST, Killed, World

from frazil.catalogs.faulty import FaultPlan
from frazil.kit.errors import OutcomeUnknown, RetryLater
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import spawn

RATES = {
    "C-409": 0.03,
    "C-429": 0.03,
    "C-5xx/n": 0.05,
    "C-5xx/a": 0.05,
    "C-cut/a": 0.05,
    "C-409/a": 0.03,
    "C-late(4)": 0.05,
    "C-hang": 0.02,
}
SETTINGS = replace(FAST, slice_bytes_max=400, call_deadline_ms=3_000)


class Shaky:
    """An object store that fails now and then, before or after it did what it was asked."""

    def __init__(self, world: World) -> None:
        self._inner: Any = world.objects
        self._chance = world.chance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def get(self, key: str, *, start: int = 0, end: int | None = None) -> bytes:
        if self._chance.random() < 0.02:
            raise RetryLater("503")
        return await self._inner.get(key, start=start, end=end)

    async def put_if_absent(self, key: str, data: Any) -> None:
        dice = self._chance.random()
        if dice < 0.02:
            raise RetryLater("503")
        await self._inner.put_if_absent(key, data)
        if dice > 0.98:
            raise OutcomeUnknown("the answer was lost")


async def one_life(world: World) -> None:
    """A process that lives a while or dies at a random passage of a random point."""
    doom, left = world.chance.choice(["P1", "P3", "P4", "P5", "P6", "P7", ""]), world.chance.randrange(1, 6)

    def hook(name: str) -> None:
        nonlocal left
        left -= name == doom
        if name == doom and left == 0:
            raise Killed

    catalog = world.faulty_catalog(FaultPlan(rates=RATES, load_failures=0.02), FaultPoints(hook))
    landing = world.landing(SETTINGS, faults=FaultPoints(hook), catalogs={"default": catalog}, objects=Shaky(world))
    task = spawn("life", landing.run())
    await asyncio.wait({task}, timeout=world.chance.random() * 20)
    if task.done():
        assert isinstance(task.exception(), Killed)
    elif world.chance.random() < 0.5:
        task.cancel()
    else:
        landing.stop()
    await asyncio.gather(task, return_exceptions=True)
    await catalog.settle()


@pytest.mark.parametrize("seed", range(6))
def test_each_record_is_landed_once_whatever_happens(seed: int) -> None:
    async def story() -> None:
        world = World(seed)
        await world.topics.create("t", 3)
        produced: set[tuple[int, int]] = set()

        async def produce() -> None:
            for number in range(40):
                values = [b'{"n":%d}' % number, b"poison" if number % 5 == 0 else b'{"m":"x"}']
                partition = world.chance.randrange(3)
                produced.update((partition, offset) for offset in await world.produce("t", values, partition=partition))
                await asyncio.sleep(world.chance.random())

        producer = spawn("producer", produce())
        while not producer.done():
            await asyncio.gather(*(one_life(world) for _ in range(world.chance.randrange(1, 3))))
        await producer
        await world.land(seconds=30.0, settings=SETTINGS)
        rows = Counter((row["_kafka_partition"], row["_offset"]) for row in await world.rows("default.t"))
        dead = Counter((row["partition"], row["offset"]) for row in await world.rows("default.t_dead"))
        assert set(rows) | set(dead) == produced
        assert not set(rows) & set(dead)
        assert set(rows.values()) == set(dead.values()) == {1}
        assert (await world.status("default.t")).state == "idle"

    run_virtual(story())
