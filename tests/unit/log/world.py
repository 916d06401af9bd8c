"""A small world for tests of the log: memory stores, several brokers over them, virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from tests.simulation.loop import run_virtual

from frazil.kit.clock import LoopClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.kit.tasks import InlineOffload
from frazil.log.append import AppendDeps, Appender, AppendRun, FlushPolicy
from frazil.log.cache import BlockCache
from frazil.log.caretaker import Caretaker
from frazil.log.index import LogIndex
from frazil.log.read import LogReader
from frazil.log.upkeep import UpkeepDeps, UpkeepPolicy
from frazil.metadata.stores.memory import MemoryMetadata, MemoryState
from frazil.metadata.topics import TopicRecord, Topics
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects
from frazil.records import build_batch, scan, split_batches
from frazil.records.building import BatchOptions, Record

T = TypeVar("T")
TOPIC = TopicId(bytes(range(16)))
OTHER = TopicId(bytes(range(16, 32)))
SHARDS = 8


def key(partition: int = 0, topic: TopicId = TOPIC) -> PartitionKey:
    return PartitionKey(topic, PartitionId(partition))


def batch(values: Sequence[str], *, pid: int = -1, epoch: int = -1, sequence: int = -1, at_ms: int = 1000) -> bytes:
    records = [Record(key=None, value=value.encode(), timestamp_ms=at_ms + n) for n, value in enumerate(values)]
    return build_batch(records, options=BatchOptions(producer_id=pid, producer_epoch=epoch, base_sequence=sequence))


def run_of(where: PartitionKey, *batches: bytes) -> AppendRun:
    data = b"".join(batches)
    return AppendRun(where, data, split_batches(data, batch_bytes_max=1 << 30))


class Broker:
    """Index, appender, reader of one process."""

    def __init__(
        self,
        world: World,
        *,
        store: Any = None,
        objects: Any = None,
        policy: FlushPolicy | None = None,
        seed: int = 1,
        cache: BlockCache | None = None,
    ) -> None:
        self.store = store or MemoryMetadata(world.metadata, world.clock)
        self.objects = objects or MemoryObjects(world.bucket, world.clock)
        self.index = LogIndex(self.store, shards=SHARDS)
        self.cache = cache or BlockCache(64 << 20)
        self.faults = FaultPoints()
        self.chance = random.Random(seed)
        deps = AppendDeps(
            store=self.store,
            objects=self.objects,
            index=self.index,
            clock=world.clock,
            chance=self.chance,
            faults=self.faults,
            cache=self.cache,
        )
        self.appender = Appender(deps, policy or FlushPolicy())
        self.reader = LogReader(self.objects, self.index, self.cache, offload=InlineOffload())
        self.task: asyncio.Task[None] | None = None
        self.topics = Topics(self.store, world.clock, self.chance)
        self._clock = world.clock

    def caretaker(self, **policy: Any) -> Caretaker:
        deps = UpkeepDeps(
            store=self.store,
            objects=self.objects,
            index=self.index,
            topics=self.topics,
            clock=self._clock,
            chance=self.chance,
            offload=InlineOffload(),
            cache=self.cache,
        )
        return Caretaker(deps, UpkeepPolicy(**policy), name="test")

    async def topic(self, name: str, partitions: int = 1, **configs: str) -> TopicRecord:
        """Keeps records for ever unless told otherwise: tests use small timestamps."""
        named = {config.replace("_", "."): value for config, value in configs.items()}
        return await self.topics.create(name, partitions, {"retention.ms": "-1", **named})

    def start(self) -> Broker:
        self.task = asyncio.get_running_loop().create_task(self.appender.run(), name="appender")
        return self

    async def stop(self) -> None:
        await self.appender.close()
        assert self.task is not None
        await self.task

    async def append(self, where: PartitionKey, *batches: bytes) -> Any:
        return (await self.appender.append([run_of(where, *batches)]))[0]


class World:
    """The shared stores."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.metadata = MemoryState()
        self.bucket = MemoryBucket()

    def broker(self, **options: Any) -> Broker:
        return Broker(self, **options)

    async def fresh(self, **options: Any) -> Broker:
        """A process that has just started and read everything."""
        broker = self.broker(**options)
        await broker.index.refresh()
        return broker

    def objects(self, prefix: str = "") -> list[str]:
        return [name for name in self.bucket.keys if name.startswith(prefix)]

    def rows(self, prefix: str) -> list[str]:
        return [entry.key for entry in self.metadata.read(prefix, prefix + "\U0010ffff", 0).entries]

    def commit_keys(self) -> list[str]:
        return [entry.key for entry in self.metadata.read("log/commit/", "log/commit0", 0).entries]


async def values(reader: LogReader, where: PartitionKey, *, start: int = 0, bytes_max: int = 1 << 20) -> list[tuple[int, str]]:
    """Everything from ``start`` to the end, as (offset, value), read as a consumer would."""
    found: list[tuple[int, str]] = []
    offset = start
    while True:
        piece = await reader.fetch(where, offset, bytes_max=bytes_max)
        if not piece.data:
            return found
        assert piece.base <= offset < piece.end
        columns, faults = scan(piece.data, uncompressed_bytes_max=1 << 30)
        assert not faults
        found += [(o, (v or b"").decode()) for o, v in zip(columns.offsets, columns.values, strict=True) if o >= offset]
        offset = piece.end


def in_world(body: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    """Runs ``body`` on a virtual loop."""

    async def main() -> T:
        return await body(World())

    return run_virtual(main())


async def until(done: Callable[[], bool] | Callable[[], Awaitable[bool]], *, turns: int = 10_000) -> None:
    for _ in range(turns):
        result = done()
        if isinstance(result, Awaitable):
            result = await result
        if result:
            return
        await asyncio.sleep(0)
    raise AssertionError("never came true")
