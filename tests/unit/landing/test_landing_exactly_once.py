"""EO, WHOLE, LIVE at every kill point and every answer a catalog can give; judged by an independent reader."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.world import FAST, World

from frazil.catalogs.faulty import FaultPlan
from frazil.kit.errors import RetryLater
from frazil.kit.tasks import spawn
from frazil.metadata.landings import LandingSpec, put_landing
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record

TABLE = "default.t"


def js(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def play(story: Callable[[World], Awaitable[None]], seed: int = 1) -> None:
    async def main() -> None:
        await story(World(seed))

    run_virtual(main())


async def fill(world: World, *, batches: int = 6, poison: bool = True, partitions: int = 2) -> set[tuple[int, int]]:
    """Records in several partitions, one poison record per batch; the (partition, offset) of all of them."""
    if world.topics.get("t") is None:
        await world.topics.create("t", partitions)
    all_offsets: set[tuple[int, int]] = set()
    for number in range(batches):
        values = [js(n=number, at=at) for at in range(5)]
        if poison:
            values[2] = b'{"n":'
        offsets = await world.produce("t", values, partition=number % partitions)
        all_offsets |= {(number % partitions, offset) for offset in offsets}
    return all_offsets


async def check(world: World, produced: set[tuple[int, int]], *, poison: bool = True) -> None:
    """Each record once: good ones in the table, poison in the dead-letter table, and progress at the log end."""
    rows = Counter((row["_kafka_partition"], row["_offset"]) for row in await world.rows(TABLE))
    dead = Counter((row["partition"], row["offset"]) for row in await world.rows(TABLE + "_dead")) if poison else Counter()
    assert max(rows.values(), default=1) == 1
    assert max(dead.values(), default=1) == 1
    assert not set(rows) & set(dead)
    assert set(rows) | set(dead) == produced
    progress_text = (world.oracle.metadata(await world.location(TABLE)))["properties"]["frazil.progress"]
    assert "next" in json.loads(progress_text)


SMALL = replace(FAST, slice_bytes_max=300, commit_interval_ms=1_000)


@pytest.mark.parametrize("passage", [1, 2, 3])
@pytest.mark.parametrize("point", ["P1", "P2", "P3", "P4", "P5", "P6", "P7"])
def test_f12_a_process_killed_at_any_point_leaves_each_record_exactly_once(point: str, passage: int) -> None:
    async def story(world: World) -> None:
        produced = await fill(world)
        assert await world.land_until_killed(point, passage, settings=SMALL), f"{point} was not reached {passage} times"
        produced |= await fill(world, batches=2)
        await world.land(settings=SMALL)
        await check(world, produced)

    play(story)


def test_kills_one_after_the_other_still_end_in_each_record_once() -> None:
    async def story(world: World) -> None:
        produced: set[tuple[int, int]] = set()
        for point in ("P5", "P3", "P6", "P2", "P4", "P7", "P1"):
            produced |= await fill(world, batches=2)
            assert await world.land_until_killed(point)
        await world.land()
        await check(world, produced)

    play(story)


def test_offsets_of_a_partition_never_fall_between_snapshots() -> None:
    async def story(world: World) -> None:
        for point in ("P5", "P6"):
            await fill(world, poison=False)
            assert await world.land_until_killed(point, settings=SMALL)
        await world.land()
        last: dict[str, int] = {}
        for snapshot in await world.snapshots(TABLE):
            for topics in json.loads(snapshot["summary"]["frazil.ranges"]).values():
                for partitions in topics.values():
                    for partition, (before, after) in partitions.items():
                        assert (before or 0) == last.get(partition, 0)
                        assert after > (before or 0)
                        last[partition] = after

    play(story)


@pytest.mark.parametrize(
    "word", ["C-409", "C-429", "C-401", "C-5xx/n", "C-5xx/a", "C-cut/n", "C-cut/a", "C-409/a", "C-late(3)", "C-late(30)", "C-hang"]
)
def test_f15_f16_every_answer_of_the_catalog_ends_in_each_record_once(word: str) -> None:
    async def story(world: World) -> None:
        produced = await fill(world)
        catalog = world.faulty_catalog(FaultPlan(script=(word, "ok", word)))
        await world.land(seconds=300.0, settings=SMALL, catalogs={"default": catalog})
        await catalog.settle()
        assert catalog.met.count(word) == 2
        await check(world, produced)

    play(story)


def test_f14_a_late_commit_that_lands_after_the_successor_looked() -> None:
    async def story(world: World) -> None:
        produced = await fill(world, poison=False)
        catalog = world.faulty_catalog(FaultPlan(script=("C-late(5)",)))
        landing = world.landing(catalogs={"default": catalog})
        task = spawn("first", landing.run())
        while not catalog.met:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        produced |= await fill(world, poison=False)
        await world.land(seconds=20.0)
        await catalog.settle()
        await world.land()
        await check(world, produced, poison=False)

    play(story)


@pytest.mark.parametrize("seed", range(3))
def test_f13_two_landing_processes_at_once_do_no_harm(seed: int) -> None:
    async def story(world: World) -> None:
        produced: set[tuple[int, int]] = set()
        both = [world.landing(SMALL), world.landing(SMALL)]
        tasks = [spawn(f"landing {n}", landing.run()) for n, landing in enumerate(both)]
        for _ in range(5):
            produced |= await fill(world, batches=3)
            await asyncio.sleep(world.chance.random() * 3)
        await asyncio.sleep(10)
        for landing in both:
            landing.stop()
        await asyncio.gather(*tasks)
        await check(world, produced)

    play(story, seed)


def test_f08_a_read_that_fails_for_a_while_is_not_passed_over() -> None:
    async def story(world: World) -> None:
        produced = await fill(world, poison=False)
        broken = Unreadable(world, lambda key: key.startswith("bundles/"))
        landing = world.landing(objects=broken)
        task = spawn("landing", landing.run())
        await asyncio.sleep(5)
        status = await world.status(TABLE)
        assert (status.state, status.stage, status.topic) == ("stalled", "read", "t")
        assert "broken on purpose" in status.reason
        broken.broken = False
        produced |= await fill(world, poison=False)
        await asyncio.sleep(10)
        landing.stop()
        await task
        await check(world, produced, poison=False)

    play(story)


class Unreadable:
    """An object store whose reads of some keys fail while ``broken``, at once or after a long wait."""

    def __init__(self, world: World, matches: Callable[[str], bool], *, wait_s: float = 0.0) -> None:
        self._inner: Any = world.objects
        self._matches = matches
        self._wait_s = wait_s
        self.broken = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def get(self, key: str, *, start: int = 0, end: int | None = None) -> bytes:
        if self.broken and self._matches(key):
            if self._wait_s:
                await asyncio.sleep(self._wait_s)
            else:
                raise RetryLater("broken on purpose")
        return await self._inner.get(key, start=start, end=end)


def test_f30_one_slow_object_holds_up_its_partition_only() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 12)
        await world.produce("t", [js(a=0)], partition=0)
        slow = next(key for key in world.bucket.keys if key.startswith("bundles/"))
        for partition in range(1, 12):
            await world.produce("t", [js(a=partition)], partition=partition)
        store = Unreadable(world, lambda key: key == slow, wait_s=60.0)
        landing = world.landing(replace(FAST, call_deadline_ms=120_000), objects=store)
        task = spawn("landing", landing.run())
        await asyncio.sleep(6)
        assert sorted(row["a"] for row in await world.rows(TABLE)) == list(range(1, 12))
        status = await world.status(TABLE)
        assert (status.state, status.stage, status.topic, status.partition) == ("failed", "read", "t", 0)
        await world.produce("t", [js(a=99)], partition=5)
        await asyncio.sleep(3)
        assert 99 in {row["a"] for row in await world.rows(TABLE)}
        await asyncio.sleep(70)
        assert sorted(row["a"] for row in await world.rows(TABLE)) == [*range(12), 99]
        landing.stop()
        await task
        assert (await world.status(TABLE)).state == "idle"

    play(story)


def test_f26_f27_one_broken_table_is_loud_and_the_others_keep_their_latency() -> None:
    async def story(world: World) -> None:
        for name in ("a", "b", "c"):
            await world.topics.create(name, 1)
        await put_landing(world.store, LandingSpec(table="x.b", topics=("b",), options={"catalog": "bad"}))
        bad = world.faulty_catalog(FaultPlan(rates={"C-401": 1.0}))
        landing = world.landing(catalogs={"default": world.catalog(), "bad": bad})
        task = spawn("landing", landing.run())
        for number in range(5):
            for name in ("a", "b", "c"):
                await world.produce(name, [js(n=number)])
            await asyncio.sleep(2)
            for name in ("a", "c"):
                assert len(await world.rows(f"default.{name}")) == number + 1
        status = await world.status("x.b")
        assert (status.state, status.topic) == ("stalled", "b")
        assert status.stage == "commit"
        assert "C-401" in status.reason
        assert (await world.status("default.a")).state in ("idle", "running")
        landing.stop()
        await task
        await world.land(catalogs={"default": world.catalog(), "bad": world.catalog()})
        assert sorted(row["n"] for row in await world.rows("x.b")) == list(range(5))

    play(story)


def test_f29_f23_a_catalog_that_hangs_is_loud_within_two_intervals_and_lives_after() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(a=1)])
        catalog = world.faulty_catalog(FaultPlan(script=("C-hang",) * 3))
        landing = world.landing(catalogs={"default": catalog})
        task = spawn("landing", landing.run())
        await asyncio.sleep(5.5)
        status = await world.status(TABLE)
        assert (status.state, status.stage, status.behind_records) == ("stalled", "commit", 1)
        await asyncio.sleep(300)
        assert len(await world.rows(TABLE)) == 1
        landing.stop()
        await task

    play(story)


class Overtaken:
    """A catalog whose next load takes as long as another landing process needs for everything there is and more."""

    def __init__(self, world: World) -> None:
        self._world, self._inner, self.armed = world, world.catalog(), False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def load(self, ident: str) -> Any:
        if self.armed and ident == TABLE:
            self.armed = False
            await self._world.produce("t", [js(n=n) for n in range(7)])
            await self._world.land(3)
        return await self._inner.load(ident)


def test_a_table_that_another_process_moved_beyond_our_view_of_the_log_is_no_older_copy_of_it() -> None:
    """Two processes land one table; the slower once told people to restore the log."""

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(n=1)])
        catalog: Any = Overtaken(world)
        landing = world.landing(catalogs={"default": catalog})
        world.followers[-1].cancel()  # nothing but the steps themselves freshens its index
        task = spawn("landing", landing.run())
        await asyncio.sleep(3)
        await world.produce("t", [js(n=2)])
        catalog.armed = True
        states = set()
        for _ in range(600):
            await asyncio.sleep(0.01)
            states.update((status.state, status.reason) for status in landing.statuses())
        assert not catalog.armed
        assert {state for state, _ in states} <= {"running", "idle"}, states
        landing.stop()
        await task
        assert await world.offsets(TABLE) == list(range(9))

    play(story)


def test_a_process_whose_progress_without_rows_is_overtaken_looks_at_the_table_again() -> None:
    """Nothing seems to wait, so the table was not loaded anew: the same commit was tried for ever, as fast as the machine could."""

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(n=1)])
        settings = replace(FAST, progress_idle_ms=4_000)
        both = [world.landing(settings), world.landing(settings)]
        tasks = [spawn(f"landing {n}", landing.run()) for n, landing in enumerate(both)]
        await asyncio.sleep(2.5)
        marker = build_batch(
            [Record(key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")],
            options=BatchOptions(control=True, transactional=True, producer_id=7, producer_epoch=0),
        )
        await world.append("t", 0, bytes(marker))  # both hold it back, and both want to commit it at the same time
        await asyncio.sleep(30)
        assert {status.state for landing in both for status in landing.statuses()} == {"idle"}
        for landing in both:
            landing.stop()
        await asyncio.gather(*tasks)
        assert await world.offsets(TABLE) == [0]
        assert len(await world.snapshots(TABLE)) == 2

    play(story)
