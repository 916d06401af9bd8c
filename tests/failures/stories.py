"""What the stories share: a small cluster in virtual time, records, and the oracles that end in a Violation."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.failures.registry import must
from tests.simulation.independent import Table
from tests.simulation.loop import run_virtual
from tests.unit.landing.world import FAST, World

from frazil.catalogs.progress import SourcePartition, read_progress
from frazil.kit.tasks import spawn
from frazil.log.pins import read_pins
from frazil.metadata.landings import LandingStatus

TABLE = "default.t"
SMALL = replace(FAST, slice_bytes_max=300)
WORLD: list[World] = []
"""The world of the story that runs; planted mistakes look things up in it."""


def js(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def play(story: Callable[[World], Awaitable[None]], seed: int = 1) -> None:
    """Runs ``story`` in a fresh world, in virtual time."""

    async def main() -> None:
        world = World(seed)
        WORLD[:] = [world]
        await story(world)

    run_virtual(main())


async def fill(world: World, *, batches: int = 4, partitions: int = 2, poison: bool = False, topic: str = "t") -> set[tuple[int, int]]:
    """Batches of five in turn over the partitions; (partition, offset) of all records."""
    if world.topics.get(topic) is None:
        await world.topics.create(topic, partitions)
    made: set[tuple[int, int]] = set()
    for number in range(batches):
        values = [js(n=number, at=at) for at in range(5)]
        if poison:
            values[2] = b'{"n":'
        offsets = await world.produce(topic, values, partition=number % partitions)
        made |= {(number % partitions, offset) for offset in offsets}
    return made


async def looked_at(world: World, table: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows by the independent reader, and what is not whole."""
    if table not in await world.catalog().list(table.partition(".")[0]):
        return [], []
    seen = Table(world.bucket.objects, await world.location(table), {})
    return seen.rows(), seen.problems


async def exactly_once(world: World, produced: set[tuple[int, int]], table: str = TABLE) -> None:
    """EO and WHOLE: each (partition, offset) once, in the table or in its dead letters."""
    rows, problems = await looked_at(world, table)
    letters, more = await looked_at(world, table + "_dead")
    must(not problems and not more, "WHOLE", (problems + more)[:3])
    seen = Counter((row["_kafka_partition"], row["_offset"]) for row in rows)
    seen.update((row["partition"], row["offset"]) for row in letters)
    doubled = [at for at, times in seen.items() if times > 1]
    must(not doubled, "EO", f"doubled: {sorted(doubled)[:5]}")
    must(set(seen) == produced, "EO", f"lost {sorted(produced - set(seen))[:5]}, invented {sorted(set(seen) - produced)[:5]}")


async def values(world: World, name: str, table: str = TABLE) -> list[Any]:
    """One column of all rows, in order of partition and offset."""
    rows, problems = await looked_at(world, table)
    must(not problems, "WHOLE", problems[:3])
    return [row.get(name) for row in sorted(rows, key=lambda row: (row["_kafka_partition"], row["_offset"]))]


async def progress(world: World, table: str = TABLE) -> dict[int, int]:
    """Partition → next offset, as the table says."""
    found = await read_progress(world.objects, await world.catalog().load(table))
    return {key.partition: offset for key, offset in found.items()}


async def progress_by_pin(*_: object) -> Mapping[SourcePartition, int]:
    """The mistake behind several entries: progress is what a second store says, not what the table says."""
    pin = (await read_pins(WORLD[0].store)).get(TABLE)
    if pin is None:
        return {}
    return {
        SourcePartition(source="cluster/1", topic_id=key.topic_id, partition=int(key.partition)): offset
        for key, offset in pin.offsets.items()
        if offset
    }


async def status(world: World, table: str = TABLE) -> LandingStatus:
    """What is published about the table; a Violation when nothing is."""
    try:
        return await world.status(table)
    except KeyError:
        must(False, "LOUD", f"nothing is said about {table}")
        raise


class Running:
    """A landing process beside the story: ``async with Running(world, …)``."""

    def __init__(self, world: World, settings: Any = FAST, **options: Any) -> None:
        self.landing = world.landing(settings, **options)

    async def __aenter__(self) -> Running:
        self.task = spawn("landing", self.landing.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.landing.stop()
        done, _pending = await asyncio.wait({self.task}, timeout=120)
        if not done:
            self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
