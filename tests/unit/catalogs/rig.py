"""A table on a real file store and SQLite catalog, driven in virtual time; the judges are DuckDB and PyIceberg, not our own reader."""

from __future__ import annotations

import asyncio
import pathlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa

from frazil.catalogs import Catalog, CatalogDeps, Committer, CreateTable, Landed, LoadedTable, open_catalog
from frazil.catalogs.commit import CommitOutcome, CommitPolicy, Committed, Lost
from frazil.catalogs.faulty import FaultPlan, FaultyCatalog
from frazil.catalogs.files import DataFile
from frazil.catalogs.progress import Move, SourcePartition, read_progress
from frazil.catalogs.write import FileWriter
from frazil.kit.clock import LoopClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import TopicId
from frazil.objects.opening import open_objects

T = TypeVar("T")
IDENT = "lake.events"
SCHEMA = pa.schema([("_partition", pa.int32()), ("_offset", pa.int64()), ("text", pa.string())])
TOPIC = TopicId(bytes(range(16)))


def source(partition: int = 0) -> SourcePartition:
    return SourcePartition("cluster-a/1", TOPIC, partition)


def rows(start: int, end: int, partition: int = 0) -> pa.Table:
    count = end - start
    data = {"_partition": [partition] * count, "_offset": list(range(start, end)), "text": [f"v{at}" for at in range(start, end)]}
    return pa.table(data, schema=SCHEMA)


@dataclass
class Rig:
    deps: CatalogDeps
    inner: Catalog
    catalog: FaultyCatalog
    writer: FileWriter
    committer: Committer

    async def table(self) -> LoadedTable:
        return await self.inner.load(IDENT)

    async def progress(self) -> dict[SourcePartition, int]:
        return await read_progress(self.deps.objects, await self.table())

    async def file(self, start: int, end: int, partition: int = 0) -> DataFile:
        (file,) = await self.writer.write(await self.table(), rows(start, end, partition))
        return file

    async def land_once(self, end: int, partition: int = 0, *, base: LoadedTable | None = None) -> CommitOutcome:
        """One try to bring a partition's progress to ``end`` from what ``base`` says."""
        base = base or await self.table()
        found = (await read_progress(self.deps.objects, base)).get(source(partition))
        file = await self.file(found or 0, end, partition)
        moves = {source(partition): Move(found, end)}
        return await self.committer.commit(Landed(base=base, files=[file], moves=moves))

    async def land(self, end: int, partition: int = 0) -> Committed:
        """As landing does: plans again from the table when a commit is lost, deleting what it is told to."""
        while True:
            outcome = await self.land_once(end, partition)
            if isinstance(outcome, Committed):
                return outcome
            assert isinstance(outcome, Lost)
            await self.deps.objects.delete(outcome.orphans)
            if outcome.progress.get(source(partition), 0) >= end:
                raise AssertionError("somebody else landed it")

    def rival(self, seed: int = 99, script: Sequence[str] = ()) -> Rig:
        """Another process with the same idea."""
        return make(self.deps, self.inner, seed=seed, script=script)


def make(deps: CatalogDeps, inner: Catalog, *, seed: int = 1, script: Sequence[str] = (), **plan: Any) -> Rig:
    mine = CatalogDeps(objects=deps.objects, offload=deps.offload, clock=deps.clock, chance=random.Random(seed), faults=FaultPoints())
    catalog = FaultyCatalog(inner, random.Random(seed + 1), FaultPlan(script=script, **plan))
    policy = CommitPolicy(request_timeout_ms=5_000, backoff_min_ms=50, backoff_max_ms=1_000)
    return Rig(deps=mine, inner=inner, catalog=catalog, writer=FileWriter(mine), committer=Committer(catalog, mine, policy))


class YieldingOffload:
    """Every piece of blocking work is a point where others may run, as with threads, but in an order that replays."""

    def __init__(self, seed: int = 5) -> None:
        self._chance = random.Random(seed)

    async def run(self, work: Callable[[], T]) -> T:
        for _ in range(self._chance.randrange(4)):  # uneven, so that nobody keeps step
            await asyncio.sleep(0)
        result = work()
        for _ in range(self._chance.randrange(4)):
            await asyncio.sleep(0)
        return result


def deps_at(path: pathlib.Path, *, seed: int = 0) -> CatalogDeps:
    offload, clock = YieldingOffload(), LoopClock()
    objects = open_objects(f"file://{path}/objects", offload=offload, clock=clock)
    return CatalogDeps(objects=objects, offload=offload, clock=clock, chance=random.Random(seed), faults=FaultPoints())


async def rig(path: pathlib.Path, *, script: Sequence[str] = (), seed: int = 1, **plan: Any) -> Rig:
    deps = deps_at(path, seed=seed)
    inner = open_catalog(f"sql://{path}/catalog.db", deps)
    await inner.create(IDENT, CreateTable(schema=SCHEMA))
    return make(deps, inner, seed=seed, script=script, **plan)


def connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    for module in (duckdb_extension_avro, duckdb_extension_iceberg):
        assert module.__file__
        path = next(pathlib.Path(module.__file__).parent.rglob("*.duckdb_extension"))
        connection.execute(f"LOAD '{path}'")
    return connection


def offsets(table: LoadedTable, partition: int = 0) -> list[int]:
    """Offsets in the table by DuckDB, every column read."""
    query = f"SELECT _offset, text FROM iceberg_scan('{table.metadata_location}') WHERE _partition = {partition} ORDER BY 1"
    with connect() as connection:
        found = connection.execute(query).fetchall()
    assert [text for _, text in found] == [f"v{offset}" for offset, _ in found]
    return [offset for offset, _ in found]


def assert_exactly_once(table: LoadedTable, end: int, partition: int = 0) -> None:
    assert offsets(table, partition) == list(range(end))
