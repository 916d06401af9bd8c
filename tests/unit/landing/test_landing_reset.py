"""Wanted changes of progress: one commit, guarded by the head, that says what it does to rows (R06, F02, F10)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.oracle import MergingOracle
from tests.unit.landing.world import FAST, World, auto_off

from frazil.catalogs.commit import Committer
from frazil.catalogs.progress import read_progress
from frazil.kit.errors import Refused
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import InlineOffload, spawn
from frazil.landing.extent import Mark
from frazil.landing.reset import Goals, ResetLog, Resetter, apply_anew
from frazil.log.cache import BlockCache
from frazil.log.read import LogReader
from frazil.metadata.landings import LandingSpec, put_landing
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record

SPEC = LandingSpec(table="db.t", topics=("t",), commit_interval_ms=1_000)
QUICK = replace(auto_off(FAST), progress_idle_ms=1_000)
EARLIEST = Goals(everywhere=Mark(offset=0), named={})


async def world_with(spec: LandingSpec = SPEC, partitions: int = 2) -> World:
    world = World()
    await world.topics.create("t", partitions)
    await put_landing(world.store, spec)
    return world


async def produce(world: World, ids: range, partition: int = 0) -> None:
    records = [Record(value=b'{"id": %d}' % at, timestamp_ms=1_700_000_000_000 + at * 1_000) for at in ids]
    await world.append("t", partition, bytes(build_batch(records, options=BatchOptions())))


def resetter(world: World, spec: LandingSpec = SPEC) -> Resetter:
    catalog = world.catalog()
    log = ResetLog(
        topics=world.topics,
        index=world.index,
        reader=LogReader(world.objects, world.index, BlockCache(1 << 24), offload=InlineOffload()),
        source="cluster/1",
        naming=None,
    )
    return Resetter(spec, Committer(catalog, world._catalog_deps(FaultPoints(), world.objects)), log)


async def ids(world: World) -> list[int]:
    return sorted(row["id"] for row in MergingOracle(world.bucket.objects).merged(await world.location("db.t")))


async def progress(world: World) -> dict[int, int]:
    found = await read_progress(world.objects, await world.catalog().load("db.t"))
    return {at.partition: offset for at, offset in found.items()}


async def last_summary(world: World) -> Mapping[str, str]:
    metadata = (await world.catalog().load("db.t")).metadata
    (head,) = [item for item in metadata["snapshots"] if item["snapshot-id"] == metadata["current-snapshot-id"]]
    return head["summary"]  # type: ignore[no-any-return]


def test_f02_the_preview_says_what_would_happen_and_changes_nothing() -> None:
    async def main() -> None:
        world = await world_with()
        await produce(world, range(100))
        await produce(world, range(100, 130), partition=1)
        await world.land(settings=QUICK)
        before = await world.location("db.t")
        look = await resetter(world).look(Goals(everywhere=Mark(offset=40), named={("t", 1): Mark(offset=10)}))
        assert [(step.key.partition, step.now, step.then, step.again, step.skipped, step.rows) for step in look.steps] == [
            (0, 100, 40, 60, 0, 60),
            (1, 30, 10, 20, 0, 20),
        ]
        look = await resetter(world).look(Goals(everywhere=Mark(time_ms=1_700_000_000_000 + 95_500), named={}))
        assert [(step.key.partition, step.then, step.rows) for step in look.steps] == [(0, 96, 4), (1, 0, 30)]
        assert not (await resetter(world).look(Goals(everywhere=None, named={}, latest=True))).steps
        assert await world.location("db.t") == before

    run_virtual(main())


def test_r06_rows_are_not_doubled_unless_that_is_wanted() -> None:
    async def main() -> None:
        world = await world_with()
        await produce(world, range(100))
        await world.land(settings=QUICK)
        reset = resetter(world)
        with pytest.raises(Refused, match=r"100 rows of table db\.t would be there twice"):
            await reset.apply(await reset.look(EARLIEST), delete_rows=False, allow_duplicates=False)
        assert await progress(world) == {0: 100}
        await apply_anew(reset, EARLIEST, delete_rows=False, allow_duplicates=True)
        assert await progress(world) == {0: 0}
        assert (await last_summary(world))["frazil.reset"] == "t[0] 100 to 0"
        await world.land(settings=QUICK)
        assert await ids(world) == sorted([*range(100), *range(100)])

    run_virtual(main())


def test_r06_rows_that_are_read_again_are_deleted_in_the_same_commit() -> None:
    async def main() -> None:
        world = await world_with()
        for start in (0, 50, 100):
            await produce(world, range(start, start + 50))
            await world.land(2.0, settings=QUICK)
        await produce(world, range(500, 510), partition=1)
        await world.land(2.0, settings=QUICK)
        reset = resetter(world)
        goals = Goals(everywhere=None, named={("t", 0): Mark(offset=70)})
        await apply_anew(reset, goals, delete_rows=True, allow_duplicates=False)
        assert await ids(world) == [*range(70), *range(500, 510)]
        assert await progress(world) == {0: 70, 1: 10}
        await apply_anew(reset, Goals(everywhere=None, named={("t", 0): Mark(offset=60)}), delete_rows=True, allow_duplicates=False)
        assert await ids(world) == [*range(60), *range(500, 510)]
        await world.land(settings=QUICK)
        assert await ids(world) == [*range(150), *range(500, 510)]
        assert (await world.status("db.t")).behind_records == 0

    run_virtual(main())


def test_f10_a_reset_forwards_records_what_it_passes_over() -> None:
    async def main() -> None:
        world = await world_with()
        await produce(world, range(100))
        await world.land(settings=QUICK)
        await produce(world, range(100, 200))
        await apply_anew(resetter(world), Goals(everywhere=Mark(offset=150), named={}), delete_rows=False, allow_duplicates=False)
        assert (await last_summary(world))["frazil.loss"] == "t[0] 100-149"
        await world.land(settings=QUICK)
        assert await ids(world) == [*range(100), *range(150, 200)]

    run_virtual(main())


def test_r06_a_reset_works_while_landing_runs() -> None:
    """Landing's next commit is refused by the head, it looks at the table again and goes on from there."""

    async def main() -> None:
        world = await world_with()
        await produce(world, range(100))
        task = spawn("land", world.land(60.0, settings=QUICK))
        for start in range(100, 1_000, 50):
            await produce(world, range(start, start + 50))
            await asyncio.sleep(0.7)
            if start == 500:
                await apply_anew(resetter(world), EARLIEST, delete_rows=True, allow_duplicates=False)
        await task
        assert await ids(world) == list(range(1_000))

    run_virtual(main())


def test_r06_an_idle_landing_takes_a_reset_up() -> None:
    async def main() -> None:
        world = await world_with()
        await produce(world, range(100))
        task = spawn("land", world.land(30.0, settings=QUICK))
        await asyncio.sleep(10)
        await apply_anew(resetter(world), EARLIEST, delete_rows=True, allow_duplicates=False)
        assert await ids(world) == []
        await task
        assert await ids(world) == list(range(100))
        status = await world.status("db.t")
        assert (status.state, status.reason) == ("idle", "progress was set back: t[0] 100 to 0")

    run_virtual(main())


def test_r06_of_two_resets_at_once_one_is_looked_at_again() -> None:
    async def main() -> None:
        world = await world_with()
        await produce(world, range(100))
        await world.land(settings=QUICK)
        one, other = resetter(world), resetter(world)
        seen = await one.look(EARLIEST)
        await apply_anew(other, Goals(everywhere=Mark(offset=50), named={}), delete_rows=True, allow_duplicates=False)
        assert not await one.apply(seen, delete_rows=True, allow_duplicates=False)
        await apply_anew(one, EARLIEST, delete_rows=True, allow_duplicates=False)
        await world.land(settings=QUICK)
        assert await ids(world) == list(range(100))

    run_virtual(main())


def test_f03_rows_of_an_earlier_topic_of_the_name_are_never_deleted() -> None:
    async def main() -> None:
        world = await world_with(partitions=1)
        await produce(world, range(100))
        await world.land(settings=QUICK)
        await world.topics.delete("t")
        await world.topics.create("t", 1)
        await produce(world, range(1_000, 1_005))
        await world.land(settings=QUICK)
        assert await ids(world) == [*range(100), *range(1_000, 1_005)]
        reset = resetter(world)
        with pytest.raises(Refused, match="an earlier topic of the name"):
            await reset.apply(await reset.look(EARLIEST), delete_rows=True, allow_duplicates=False)
        assert len(await ids(world)) == 105

    run_virtual(main())


def test_without_metadata_columns_nobody_can_tell_which_rows_would_double() -> None:
    async def main() -> None:
        spec = replace(SPEC, metadata_columns=False)
        world = await world_with(spec)
        await produce(world, range(10))
        await world.land(settings=QUICK)
        reset = resetter(world, spec)
        look = await reset.look(EARLIEST)
        assert [step.rows for step in look.steps] == [None]
        for delete_rows in (False, True):
            with pytest.raises(Refused, match="no metadata columns"):
                await reset.apply(look, delete_rows=delete_rows, allow_duplicates=False)

    run_virtual(main())


@pytest.mark.parametrize("named", [{("t", 9): Mark(offset=0)}, {("u", 0): Mark(offset=0)}, {("t", 0): Mark(offset=101)}])
def test_a_place_that_is_not_there_is_refused(named: dict[tuple[str, int], Mark]) -> None:
    async def main() -> None:
        world = await world_with()
        await produce(world, range(100))
        await world.land(settings=QUICK)
        with pytest.raises(Refused):
            await resetter(world).look(Goals(everywhere=None, named=named))

    run_virtual(main())
