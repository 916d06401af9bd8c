"""Replaying and purging dead letters: each letter becomes a row once, whenever the replay dies, while landing goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.world import FAST, Killed, World, auto_off

from frazil.catalogs.faulty import FaultPlan
from frazil.kit.errors import FrazilError, Refused
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import spawn
from frazil.landing.lake import Lakes
from frazil.landing.letterbox import LetterBox, Which
from frazil.landing.replay import REPLAYED, Replayed, Replayer
from frazil.metadata.landings import LandingSpec, put_landing

SPEC = LandingSpec(table="lake.t", topics=("t",), columns=("n long",))


def values(first: int, count: int) -> list[bytes]:
    """Every third is not JSON, every third (by one) has a text where a number should be."""
    kinds = (b'{"n": %d}', b'{"n": "%d"}', b"{broken %d")
    return [kinds[at % 3] % at for at in range(first, first + count)]


async def started(world: World, count: int = 9) -> None:
    await world.topics.create("t", partitions=2)
    await put_landing(world.store, SPEC)
    for partition in (0, 1):
        await world.produce("t", values(0, count), partition=partition)
    await world.land(6, auto_off())


def replayer(world: World, spec: LandingSpec = SPEC, *, faults: FaultPoints | None = None, catalog: Any = None) -> Replayer:
    landing = world.landing(auto_off(), faults=faults, catalogs={"default": catalog} if catalog else None)
    deps, lakes = landing._deps, Lakes(landing._deps, FAST)
    return Replayer(spec, lakes.find("default"), deps, FAST)


async def replay(world: World, which: Which | None = None, *, execute: bool = True, spec: LandingSpec = SPEC) -> Replayed:
    return await replayer(world, spec).run(which or Which(), execute=execute)


async def letters(world: World) -> list[tuple[int, int, str]]:
    return sorted((row["partition"], row["offset"], row["code"]) for row in await world.rows("lake.t_dead"))


async def rows(world: World) -> list[tuple[int, int, int | None]]:
    return sorted((row["_kafka_partition"], row["_offset"], row["n"]) for row in await world.rows("lake.t"))


def test_letters_that_decode_by_now_become_rows_and_go_and_the_others_stay() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        before = await letters(world)
        assert len(before) == 12
        found = await replay(world, execute=False)
        assert (found.chosen, found.landed, sum(found.refused.values())) == (12, 0, 12)
        world_rows = await rows(world)
        await grow(world)
        look = await replay(world, execute=False, spec=GROWN)
        assert (look.chosen, look.landed) == (12, 6)
        assert await letters(world) == before
        done = await replay(world, Which(topics=("t",), partition=1), spec=GROWN)
        assert (done.chosen, done.landed) == (6, 3)
        assert await letters(world) == [one for one in before if one[0] == 0 or one[2] != "wrong-type"]
        done = await replay(world, spec=GROWN)
        assert (done.chosen, done.landed) == (9, 3)
        assert [one[:2] for one in await rows(world)] == sorted(
            [one[:2] for one in world_rows] + [one[:2] for one in before if one[2] == "wrong-type"]
        )
        again = await replay(world, spec=GROWN)
        assert (again.chosen, again.landed, again.there_already) == (6, 0, 0)

    run_virtual(work())


GROWN = replace(SPEC, columns=(), options={"evolve.conflict": "suffix"})


async def grow(world: World) -> None:
    """The landing is put right: what is no number goes to a column beside it."""
    await put_landing(world.store, GROWN)
    await world.land(3, auto_off())


def doomed(point: str, passage: int) -> FaultPoints:
    left = passage

    def hook(name: str) -> None:
        nonlocal left
        if name == point:
            left -= 1
            if left == 0:
                raise Killed

    return FaultPoints(hook)


@pytest.mark.parametrize("point", ["P1", "P3", "P4", "P5", "P6"])
@pytest.mark.parametrize("passage", [1, 2, 3])
def test_a_replay_that_dies_anywhere_is_finished_by_the_next_one_and_no_row_comes_twice(point: str, passage: int) -> None:
    async def work() -> None:
        world = World()
        await started(world)
        await grow(world)
        good = [one[:2] for one in await letters(world) if one[2] == "wrong-type"]
        had = [one[:2] for one in await rows(world)]
        try:
            await replayer(world, GROWN, faults=doomed(point, passage)).run(Which(), execute=True)
        except Killed:
            await asyncio.sleep(1)
        merged = LetterBox("lake.t_dead", Lakes(world.landing(auto_off())._deps, FAST).find("default"), deadline_ms=5_000)
        table, live = await merged.open()
        if live.data:  # what care does to small files must not hide what was replayed
            everything = [await merged.letters(table, live, entry) for entry in live.data]
            await merged.exchange(live.data[0].file.path, (everything[0],))
        await replay(world, spec=GROWN)
        assert [one[:2] for one in await rows(world)] == sorted([*had, *good])
        assert {one[2] for one in await letters(world)} == {"not-json"}

    run_virtual(work())


@pytest.mark.parametrize("seed", range(4))
def test_replays_at_once_beside_landing_and_a_catalog_that_lies_make_each_letter_one_row(seed: int) -> None:
    async def work() -> None:
        world = World(seed)
        await started(world)
        await grow(world)
        rates = {"C-409": 0.1, "C-5xx/a": 0.1, "C-5xx/n": 0.1, "C-cut/a": 0.1, "C-late(2)": 0.1}
        landing = world.landing(auto_off())
        task = spawn("landing", landing.run())
        for round_ in range(3):
            catalogs = [world.faulty_catalog(FaultPlan(rates=rates)) for _ in range(2)]
            runs = [spawn("replay", replayer(world, GROWN, catalog=catalog).run(Which(), execute=True)) for catalog in catalogs]
            await world.produce("t", values(9 * (round_ + 1), 9), partition=0)
            results = await asyncio.gather(*runs, return_exceptions=True)
            assert all(isinstance(result, Replayed | FrazilError) for result in results), results
            for catalog in catalogs:
                await catalog.settle()
            await asyncio.sleep(5)
        landing.stop()
        await task
        await replay(world, spec=GROWN)
        found = [one[:2] for one in await rows(world)]
        wanted = [(0, at) for at in range(36) if at % 3 != 2] + [(1, at) for at in range(9) if at % 3 != 2]
        assert found == sorted(wanted)
        assert [one[:2] for one in await letters(world)] == sorted([(0, at) for at in range(2, 36, 3)] + [(1, at) for at in range(2, 9, 3)])

    run_virtual(work())


def test_letters_are_purged_by_code_offset_and_time() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        box = LetterBox("lake.t_dead", Lakes(world.landing(auto_off())._deps, FAST).find("default"), deadline_ms=5_000)
        assert await box.remove(Which(codes=("not-json",)), execute=False) == 6
        assert await box.remove(Which(before_ms=1), execute=True) == 0
        assert await box.remove(Which(offset=1, partition=1), execute=True) == 1
        assert await box.remove(Which(codes=("not-json",)), execute=True) == 6
        assert await letters(world) == [(0, 1, "wrong-type"), (0, 4, "wrong-type"), (0, 7, "wrong-type"),
                                        (1, 4, "wrong-type"), (1, 7, "wrong-type")]  # fmt: skip
        assert await box.remove(Which(), execute=True) == 5
        assert await letters(world) == []
        await world.produce("t", [b"{"], partition=0)
        await world.land(4, auto_off())
        assert len(await letters(world)) == 1, "an emptied table takes letters again"

    run_virtual(work())


def test_notes_of_replays_that_have_served_are_dropped() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        await grow(world)
        for _ in range(3):
            await world.produce("t", values(0, 3), partition=0)
            await put_landing(world.store, SPEC)
            await world.land(4, auto_off())
            await replay(world, spec=GROWN)
        noted = (await world.catalog().load("lake.t")).metadata["properties"][REPLAYED]
        assert noted.count("replay-") <= 2

    run_virtual(work())


def test_landings_whose_letters_cannot_be_replayed_say_why() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        with pytest.raises(Refused, match="one row per key"):
            replayer(world, replace(SPEC, options={"mode": "upsert", "upsert.key": "n"}))

    run_virtual(work())
