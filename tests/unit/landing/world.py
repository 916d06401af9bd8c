"""A small cluster in memory: one log writer, any number of landing processes that live and die, an independent look at tables."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.unit.landing.oracle import Oracle

from frazil.catalogs.faulty import FaultPlan, FaultyCatalog
from frazil.catalogs.kinds.memory import MemoryPointers
from frazil.catalogs.pointers import PointerCatalog
from frazil.catalogs.port import Catalog, CatalogDeps
from frazil.kit.clock import LoopClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import PartitionId, PartitionKey
from frazil.kit.tasks import InlineOffload, spawn
from frazil.landing import AutoLanding, Landing, LandingDeps, LandingSettings
from frazil.landing.sharing import Alone, Shared
from frazil.log.append import AppendDeps, Appended, Appender, AppendRun, FlushPolicy
from frazil.log.cache import BlockCache
from frazil.log.index import LogIndex
from frazil.log.read import LogReader
from frazil.metadata.landings import LandingStatus, list_statuses
from frazil.metadata.stores.memory import MemoryMetadata, MemoryState
from frazil.metadata.topics import Topics
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects
from frazil.records import build_batch, split_batches
from frazil.records.building import BatchOptions, Record

SHARDS = 4
FAST = LandingSettings(
    commit_interval_ms=1_000,
    discover_interval_ms=200,
    status_interval_ms=200,
    read_patience_ms=2_000,
    backoff_min_ms=50,
    backoff_max_ms=2_000,
)


class Killed(BaseException):
    """The process ends at a fault point."""


class World:
    """Everything that outlives a process. Make it inside the loop."""

    def __init__(self, seed: int = 1) -> None:
        self.chance = random.Random(seed)
        self.clock = LoopClock()
        self.state = MemoryState()
        self.bucket = MemoryBucket()
        self.pointers = MemoryPointers()
        self.oracle = Oracle(self.bucket.objects)
        self.store = MemoryMetadata(self.state, self.clock)
        self.objects = MemoryObjects(self.bucket, self.clock)
        self.topics = Topics(self.store, self.clock, self.chance)
        self.index = LogIndex(self.store, shards=SHARDS)
        self.appender = Appender(
            AppendDeps(
                store=self.store, objects=self.objects, index=self.index, clock=self.clock, chance=self.chance, faults=FaultPoints()
            ),
            FlushPolicy(),
        )
        self.followers: list[asyncio.Task[None]] = []
        self.writer = spawn("appender", self.appender.run())

    async def produce(self, topic: str, values: Sequence[bytes | None], *, partition: int = 0, **options: Any) -> list[int]:
        """Appends one batch; the offsets it got."""
        now = self.clock.now_ms()
        records = [Record(key=b"k", value=value, timestamp_ms=now + at) for at, value in enumerate(values)]
        return await self.append(topic, partition, bytes(build_batch(records, options=BatchOptions(**options))))

    async def append(self, topic: str, partition: int, data: bytes) -> list[int]:
        await self.topics.refresh()
        record = self.topics.get(topic)
        assert record is not None
        key = PartitionKey(record.topic_id, PartitionId(partition))
        batches = split_batches(data, batch_bytes_max=1 << 26)
        (result,) = await self.appender.append([AppendRun(key=key, data=data, batches=batches)])
        assert isinstance(result, Appended), result
        count = sum(batch.offset_count for batch in batches)
        return list(range(result.base_offset, result.base_offset + count))

    def key(self, topic: str, partition: int = 0) -> PartitionKey:
        record = self.topics.get(topic)
        assert record is not None
        return PartitionKey(record.topic_id, PartitionId(partition))

    # --- landing processes -----------------------------------------------------------------------------------------

    def catalog(self, faults: FaultPoints | None = None, *, objects: Any = None) -> Catalog:
        return PointerCatalog(self.pointers, self._catalog_deps(faults or FaultPoints(), objects or self.objects))

    def _catalog_deps(self, faults: FaultPoints, objects: Any) -> CatalogDeps:
        return CatalogDeps(objects=objects, offload=InlineOffload(), clock=self.clock, chance=self.chance, faults=faults)

    def faulty_catalog(self, plan: FaultPlan, faults: FaultPoints | None = None) -> FaultyCatalog:
        return FaultyCatalog(self.catalog(faults), self.chance, plan)

    def landing(
        self,
        settings: LandingSettings = FAST,
        *,
        faults: FaultPoints | None = None,
        catalogs: dict[str, Catalog] | None = None,
        mid_put: Callable[[str], None] | None = None,
        objects: Any = None,
        reader: Any = None,
        incarnation: int = 1,
        registry: Any = None,
        share: str = "",
    ) -> Landing:
        """A fresh process: nothing is shared with others but what is stored. ``share``: its name, when it shares tables with others."""
        faults = faults or FaultPoints()
        store = MemoryMetadata(self.state, self.clock)
        objects = objects or MemoryObjects(self.bucket, self.clock, mid_put=mid_put)
        index = LogIndex(store, shards=SHARDS)
        self.followers.append(spawn("follow log", index.follow()))
        deps = LandingDeps(
            store=store,
            topics=Topics(store, self.clock, self.chance),
            index=index,
            reader=reader(index) if reader else LogReader(objects, index, BlockCache(1 << 26), offload=InlineOffload()),
            objects=objects,
            catalogs=catalogs or {"default": self.catalog(faults, objects=objects)},
            source=f"cluster/{incarnation}",
            clock=self.clock,
            chance=random.Random(self.chance.random()),
            offload=InlineOffload(),
            faults=faults,
            registry=registry,
            sharing=Shared(store, self.clock, process=share, lease_ms=3_000) if share else Alone(),
        )
        return Landing(deps, settings)

    async def land(self, seconds: float = 6.0, settings: LandingSettings = FAST, **options: Any) -> None:
        """One process for so long, then a clean stop."""
        landing = self.landing(settings, **options)
        task = spawn("landing", landing.run())
        await asyncio.sleep(seconds)
        landing.stop()
        await task

    async def land_until_killed(
        self, point: str, passage: int = 1, *, seconds: float = 60.0, settings: LandingSettings = FAST, registry: Any = None
    ) -> bool:
        """One process that dies at the ``passage``-th passage of ``point``; False when it never came there."""
        left = passage

        def hook(name: str) -> None:
            nonlocal left
            if name == point:
                left -= 1
                if left == 0:
                    raise Killed

        faults = FaultPoints(hook)
        mid_put = (lambda key: hook("P2") if "/data/" in key else None) if point == "P2" else None
        landing = self.landing(settings, faults=faults, mid_put=mid_put, registry=registry)
        task = spawn("doomed landing", landing.run())
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            landing.stop()
            await task
            return False
        assert isinstance(task.exception(), Killed), task.exception()
        return True

    # --- looking -----------------------------------------------------------------------------------------------------

    async def location(self, table: str) -> str:
        return (await self.catalog().load(table)).metadata_location

    async def rows(self, table: str) -> list[dict[str, Any]]:
        return self.oracle.rows(await self.location(table))

    async def offsets(self, table: str, *, partition: int = 0) -> list[int]:
        return sorted(row["_offset"] for row in await self.rows(table) if row["_kafka_partition"] == partition)

    async def snapshots(self, table: str) -> list[dict[str, Any]]:
        return self.oracle.snapshots(await self.location(table))

    async def status(self, table: str) -> LandingStatus:
        return {status.table: status for status in await list_statuses(self.store)}[table]


def auto_off(settings: LandingSettings = FAST) -> LandingSettings:
    return replace(settings, auto=None)


def auto(value: str, settings: LandingSettings = FAST) -> LandingSettings:
    return replace(settings, auto=AutoLanding(value=value))
