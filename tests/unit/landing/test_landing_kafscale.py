"""Landing from sealed segments alone (R27): exact across kills, progress in the table only, another log is another source."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.world import FAST, Killed, World, auto_off

from frazil.catalogs.progress import read_progress
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import InlineOffload, spawn
from frazil.landing import Landing, LandingDeps
from frazil.landing.naming import ListedNaming
from frazil.landing.settings import LandingSettings
from frazil.log.cache import BlockCache
from frazil.log.listing import ListingPolicy, SegmentListing
from frazil.log.read import LogReader
from frazil.metadata.landings import LandingSpec
from frazil.metadata.stores.memory import MemoryMetadata, MemoryState
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record
from frazil.segments.kfs import build_segment

TABLE = "analytics.streaming_events"
SPEC = LandingSpec(table=TABLE, topics=("events",), commit_interval_ms=1_000, options={"catalog": "lake", "manifest": "IcebergProcessor/p"})
PATIENCE_MS = 20_000


class Bucket:
    """The source: another bucket than the lake's."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.bucket = MemoryBucket()
        self.objects = MemoryObjects(self.bucket, world.clock)

    async def put(self, base: int, ids: range, *, partition: int = 0, created_ms: int = 100) -> None:
        records = [Record(key=None, value=b'{"id": %d}' % number, timestamp_ms=1_000) for number in ids]
        built = build_segment([build_batch(records, options=BatchOptions(base_offset=base))], created_ms=created_ms)
        stem = f"segments/events/{partition}/segment-{base:020d}"
        await self.objects.put_if_absent(f"{stem}.kfs", built.kfs)
        await self.objects.put_if_absent(f"{stem}.index", built.index)

    async def wipe(self) -> None:
        await self.objects.delete(list(self.bucket.objects))

    async def drop(self, base: int) -> None:
        await self.objects.delete([key for key in self.bucket.objects if f"{base:020d}" in key])

    def landing(self, *, faults: FaultPoints | None = None, spec: LandingSpec = SPEC, settings: LandingSettings | None = None) -> Landing:
        """A fresh process; its metadata store is its own memory."""
        world, faults = self.world, faults or FaultPoints()
        listing = SegmentListing(
            self.objects,
            world.clock,
            prefix="segments/",
            topics=("events",),
            policy=ListingPolicy(interval_ms=200, gap_patience_ms=PATIENCE_MS),
        )
        reader = LogReader(self.objects, listing, BlockCache(1 << 24), offload=InlineOffload())
        listing.changed = reader.forget
        deps = LandingDeps(
            store=MemoryMetadata(MemoryState(), world.clock),
            topics=listing,
            index=listing,
            reader=reader,
            objects=world.objects,
            catalogs={"lake": world.catalog(faults)},
            source="kafscale:s3://b/segments/",
            clock=world.clock,
            chance=random.Random(world.chance.random()),
            offload=InlineOffload(),
            faults=faults,
            specs=(spec,),
            label="p:",
            naming=ListedNaming("kafscale:s3://b/segments/", listing.identity, listing.bounds),
        )
        return Landing(deps, settings or replace(auto_off(FAST), progress_idle_ms=1_000))

    async def land(self, seconds: float = 5.0, **options: object) -> Landing:
        landing = self.landing(**options)  # type: ignore[arg-type]
        task = spawn("landing", landing.run())
        await asyncio.sleep(seconds)
        landing.stop()
        await task
        return landing

    async def land_until_killed(self, point: str) -> None:
        def hook(name: str) -> None:
            if name == point:
                raise Killed

        task = spawn("doomed", self.landing(faults=FaultPoints(hook)).run())
        await asyncio.wait({task}, timeout=30)
        assert isinstance(task.exception(), Killed)

    async def ids(self) -> list[int]:
        return sorted(row["id"] for row in await self.world.rows(TABLE))

    async def sources(self) -> list[str]:
        progress = await read_progress(self.world.objects, await self.world.catalog().load(TABLE))
        return sorted(at.source for at in progress)


def play(story: Callable[[Bucket], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Bucket(World()))

    run_virtual(main())


@pytest.mark.parametrize("point", ["P1", "P3", "P4", "P5", "P6", "P7"])
def test_r27_segments_land_once_whatever_kills_the_process(point: str) -> None:
    async def story(bucket: Bucket) -> None:
        await bucket.put(0, range(100))
        await bucket.put(0, range(100, 150), partition=3)
        await bucket.land_until_killed(point)
        await bucket.land()
        assert await bucket.ids() == list(range(150))
        await bucket.put(100, range(150, 200))
        await bucket.land_until_killed(point)
        await bucket.land()
        assert await bucket.ids() == list(range(200))

    play(story)


def test_r27_new_segments_are_taken_while_it_runs() -> None:
    async def story(bucket: Bucket) -> None:
        task = spawn("land", bucket.land(20))
        for number in range(10):
            await bucket.put(number * 10, range(number * 10, number * 10 + 10))
            await asyncio.sleep(1)
        await task
        assert await bucket.ids() == list(range(100))

    play(story)


def test_r27_two_processes_by_mistake_land_once() -> None:
    async def story(bucket: Bucket) -> None:
        tasks = [spawn("land", bucket.land(20)) for _ in range(2)]
        for number in range(10):
            await bucket.put(number * 10, range(number * 10, number * 10 + 10))
            await asyncio.sleep(1.3)
        await asyncio.gather(*tasks)
        assert await bucket.ids() == list(range(100))

    play(story)


def test_f03_a_wiped_and_refilled_log_is_landed_from_its_beginning_once() -> None:
    async def story(bucket: Bucket) -> None:
        await bucket.put(0, range(100))
        await bucket.land()
        await bucket.wipe()
        await bucket.put(0, range(100, 130), created_ms=200)
        await bucket.land()
        await bucket.land()
        assert await bucket.ids() == list(range(130))
        await bucket.put(30, range(130, 140), created_ms=300)
        await bucket.land()
        assert await bucket.ids() == list(range(140))
        first, second = await bucket.sources()
        assert first.startswith("kafscale:s3://b/segments/#0.") and second.startswith("kafscale:s3://b/segments/#0.") and first != second

    play(story)


def test_f03_a_log_wiped_and_refilled_under_a_running_process() -> None:
    async def story(bucket: Bucket) -> None:
        task = spawn("land", bucket.land(30))
        await bucket.put(0, range(100))
        await asyncio.sleep(6)
        assert await bucket.ids() == list(range(100))
        await bucket.wipe()
        await asyncio.sleep(6)
        await bucket.put(0, range(100, 130), created_ms=200)
        await task
        assert await bucket.ids() == list(range(130))

    play(story)


def test_f10_retention_of_what_was_landed_changes_nothing() -> None:
    async def story(bucket: Bucket) -> None:
        await bucket.put(0, range(50), created_ms=100)
        await bucket.put(50, range(50, 100), created_ms=200)
        await bucket.land()
        await bucket.drop(0)
        await bucket.put(100, range(100, 120), created_ms=300)
        await bucket.land()
        assert await bucket.ids() == list(range(120))
        assert len(await bucket.sources()) == 1
        assert "frazil.loss" not in str(await bucket.world.snapshots(TABLE))

    play(story)


def test_f10_retention_of_what_was_not_landed_is_a_recorded_loss() -> None:
    async def story(bucket: Bucket) -> None:
        await bucket.put(0, range(50), created_ms=100)
        await bucket.land()
        await bucket.put(50, range(50, 100), created_ms=200)
        await bucket.put(100, range(100, 120), created_ms=300)
        await bucket.drop(0)
        await bucket.drop(50)
        await bucket.land()
        assert await bucket.ids() == [*range(50), *range(100, 120)]
        assert "events[0] 50-99" in str(await bucket.world.snapshots(TABLE))

    play(story)


def test_a_missing_segment_is_waited_for_then_a_recorded_loss() -> None:
    async def story(bucket: Bucket) -> None:
        await bucket.put(0, range(10))
        await bucket.put(20, range(20, 30))
        landing = bucket.landing()
        task = spawn("land", landing.run())
        await asyncio.sleep(5)
        assert await bucket.ids() == list(range(10))
        (status,) = landing.statuses()
        assert (status.state, status.topic, status.partition) == ("failed", "events", 0)
        assert "offsets 10-19 are in no whole segment" in status.reason
        await asyncio.sleep(PATIENCE_MS / 1000 + 5)
        landing.stop()
        await task
        assert await bucket.ids() == [*range(10), *range(20, 30)]
        assert "events[0] 10-19" in str(await bucket.world.snapshots(TABLE))

    play(story)


def test_overlapping_segments_land_each_offset_once() -> None:
    async def story(bucket: Bucket) -> None:
        await bucket.put(0, range(10))
        await bucket.put(5, range(5, 15))
        await bucket.put(15, range(15, 20))
        await bucket.land()
        assert await bucket.ids() == list(range(20))

    play(story)


def test_r35_a_table_of_another_manifest_is_refused() -> None:
    async def story(bucket: Bucket) -> None:
        await bucket.put(0, range(10))
        await bucket.land()
        other = replace(SPEC, options={**SPEC.options, "manifest": "IcebergProcessor/q"})
        landing = await bucket.land(spec=other)
        (status,) = landing.statuses()
        assert "is written by manifest IcebergProcessor/p, and IcebergProcessor/q would write it too" in status.reason
        assert await bucket.ids() == list(range(10))

    play(story)


def test_care_stays_away_from_a_managed_catalog() -> None:
    async def story(bucket: Bucket) -> None:
        for managed, left in ((frozenset({"lake"}), 30), (frozenset[str](), 10)):
            landing = bucket.landing(settings=replace(auto_off(FAST), care_interval_ms=2_000, snapshots_keep=2, commit_interval_ms=1_000))
            deps = replace(landing._deps, managed=managed)
            landing = Landing(deps, landing._settings)
            task = spawn("land", landing.run())
            begin = len(await bucket.ids()) if managed == frozenset() else 0
            for number in range(begin // 10, begin // 10 + 15):
                await bucket.put(number * 10, range(number * 10, number * 10 + 10), created_ms=number)
                await asyncio.sleep(1.2)
            await asyncio.sleep(5)
            landing.stop()
            await task
            count = len(await bucket.world.snapshots(TABLE))
            assert count >= 12 if managed else count <= left

    play(story)


@pytest.mark.parametrize("delay_s", [0.1, 0.5, 1.0, 1.4])
def test_f03_a_log_exchanged_while_a_slice_is_read_is_landed_once(delay_s: float) -> None:
    """The listing sees the new log while the old one is read: the reader finds its object gone and gets the new log's bytes."""

    async def story(bucket: Bucket) -> None:
        await bucket.put(0, range(100))
        await bucket.land()
        await bucket.put(100, range(100, 110), created_ms=150)
        inner = bucket.objects.get

        async def slow(key: str, **options: int) -> bytes:
            if not options.get("end"):  # a whole object: the reader, not the listing
                await asyncio.sleep(1.5)
            return await inner(key, **options)

        bucket.objects.get = slow  # type: ignore[method-assign,assignment]
        patient = replace(auto_off(FAST), progress_idle_ms=1_000, read_patience_ms=20_000)
        task = spawn("land", bucket.land(40, settings=patient))
        await asyncio.sleep(delay_s)
        await bucket.wipe()
        await bucket.put(0, range(1000, 1200), created_ms=200)
        await task
        assert await bucket.ids() == [*range(100), *range(1000, 1200)]

    play(story)
