"""A broker wired by hand over memory stores: on its own thread and socket for foreign clients, or on the caller's loop."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from frazil.broker import Broker, BrokerDeps, BrokerSettings
from frazil.kit.clock import Clock, SystemClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import InlineOffload
from frazil.log.append import AppendDeps, Appender, FlushPolicy
from frazil.log.cache import BlockCache
from frazil.log.index import LogIndex
from frazil.log.read import LogReader
from frazil.log.retain import Retainer
from frazil.log.upkeep import UpkeepDeps, UpkeepPolicy
from frazil.metadata.faulty import FaultyMetadata, MetadataFaults
from frazil.metadata.port import MetadataStore
from frazil.metadata.stores.memory import MemoryMetadata, MemoryState
from frazil.metadata.topics import Topics
from frazil.objects.port import ObjectStore
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects

SHARDS = 8


@dataclass
class World:
    """What outlives a broker: its stores."""

    state: MemoryState = field(default_factory=MemoryState)
    bucket: MemoryBucket = field(default_factory=MemoryBucket)
    seed: int = 1
    plan: MetadataFaults | None = None
    """Faults of the brokers' metadata stores."""


@dataclass
class Parts:
    """One broker with the parts whose tasks its owner runs."""

    broker: Broker
    appender: Appender
    index: LogIndex
    store: MetadataStore
    objects: ObjectStore
    faults: FaultPoints


def make(world: World, settings: BrokerSettings, *, clock: Clock | None = None) -> Parts:
    clock = clock or SystemClock()
    world.seed += 1
    chance = random.Random(world.seed)
    store: MetadataStore = MemoryMetadata(world.state, clock)
    if world.plan is not None:
        store = FaultyMetadata(store, random.Random(world.seed + 1000), world.plan)
    objects = MemoryObjects(world.bucket, clock)
    index = LogIndex(store, shards=settings.shards)
    cache = BlockCache(64 * 1024 * 1024)
    faults = FaultPoints()
    deps = AppendDeps(store=store, objects=objects, index=index, clock=clock, chance=chance, faults=faults, cache=cache)
    appender = Appender(deps, FlushPolicy())
    reader = LogReader(objects, index, cache, offload=InlineOffload())
    topics = Topics(store, clock, chance)
    upkeep = UpkeepDeps(
        store=store, objects=objects, index=index, topics=topics, clock=clock, chance=chance, offload=InlineOffload(), cache=cache
    )
    broker = Broker(
        settings,
        BrokerDeps(
            clock=clock,
            chance=chance,
            faults=faults,
            store=store,
            topics=topics,
            index=index,
            appender=appender,
            reader=reader,
            delete_records=Retainer(upkeep, UpkeepPolicy()).delete_records,
        ),
    )
    return Parts(broker=broker, appender=appender, index=index, store=store, objects=objects, faults=faults)


def settings_of(node_id: int = 0, **changes: object) -> BrokerSettings:
    return BrokerSettings(**{"node_id": node_id, "port": 0, "shards": SHARDS, **changes})  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def running(world: World, settings: BrokerSettings, *, listen: bool = True, clock: Clock | None = None) -> AsyncIterator[Parts]:
    """A started broker on this loop. Without ``listen`` it only joins the cluster."""
    parts = make(world, settings, clock=clock)
    tasks = [
        asyncio.create_task(parts.appender.run(), name="appender"),
        asyncio.create_task(parts.index.follow(), name="index"),
    ]
    try:
        if listen:
            await parts.broker.start()
        else:
            await parts.broker.join_cluster(9000 + settings.node_id)
        yield parts
    finally:
        await parts.broker.stop()
        await parts.appender.close()
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class BrokerThread:
    """A broker on a thread of its own, for clients that block."""

    def __init__(self, world: World, settings: BrokerSettings) -> None:
        self._world = world
        self._settings = settings
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"broker {settings.node_id}")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self.parts: Parts | None = None

    def start(self) -> BrokerThread:
        self._thread.start()
        self._ready.wait(20)
        if self._failure is not None:
            raise self._failure
        return self

    @property
    def port(self) -> int:
        assert self.parts is not None
        return self.parts.broker.port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self._failure = error
            self._ready.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with running(self._world, self._settings) as parts:
            self.parts = parts
            self._ready.set()
            await self._stop.wait()


@contextlib.contextmanager
def brokers(count: int = 1, world: World | None = None, **changes: object) -> Iterator[list[BrokerThread]]:
    """``count`` brokers over one world."""
    world = world or World()
    started: list[BrokerThread] = []
    try:
        for node_id in range(count):
            started.append(BrokerThread(world, settings_of(node_id, **changes)).start())
        yield started
    finally:
        for thread in started:
            thread.stop()
