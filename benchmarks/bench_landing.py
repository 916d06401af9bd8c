"""Landing, one process, all stores in memory: from lz4 batches in the log to committed Parquet, CPU seconds of the whole process.

Run: python benchmarks/bench_landing.py [records] [--profile]. Records look like flights: 19 columns, about 340 bytes of JSON.
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import pstats
import random
import sys
import time
from dataclasses import dataclass

from frazil.catalogs.opening import open_catalog
from frazil.catalogs.port import CatalogDeps
from frazil.kit.clock import SystemClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import PartitionId, PartitionKey
from frazil.kit.tasks import InlineOffload, spawn
from frazil.landing import Landing, LandingDeps, LandingSettings
from frazil.log.append import AppendDeps, Appender, AppendRun, FlushPolicy
from frazil.log.cache import BlockCache
from frazil.log.index import LogIndex
from frazil.log.read import LogReader
from frazil.metadata import MetadataStore, open_metadata
from frazil.metadata.topics import Topics
from frazil.objects import ObjectStore, open_objects
from frazil.records import Codec, build_batch, split_batches
from frazil.records.building import BatchOptions, Record

BATCH_RECORDS = 500
SHARDS = 4


def flight(number: int) -> bytes:
    fields = {
        "year": 2013, "month": number % 12 + 1, "day": number % 28 + 1, "dep_time": 517 + number % 1800, "sched_dep_time": 515,
        "dep_delay": number % 90 - 10 if number % 40 else None, "arr_time": 830, "sched_arr_time": 819, "arr_delay": 11.0, "carrier": "UA",
        "flight": number % 8500, "tailnum": f"N{number % 4000:05}", "origin": "EWR", "dest": "IAH", "air_time": 227, "distance": 1400,
        "hour": 5, "minute": 15, "time_hour": "2013-01-01T10:00:00Z",
    }  # fmt: skip
    return json.dumps(fields).encode()


@dataclass
class Cluster:
    store: MetadataStore
    objects: ObjectStore
    clock: SystemClock
    chance: random.Random
    faults: FaultPoints


async def fill(cluster: Cluster, records: int) -> int:
    """Appends the records to four partitions of one topic; the bytes of their values."""
    topics = Topics(cluster.store, cluster.clock, cluster.chance)
    topic = await topics.create("flights", 4)
    index = LogIndex(cluster.store, shards=SHARDS)
    deps = AppendDeps(
        store=cluster.store, objects=cluster.objects, index=index, clock=cluster.clock, chance=cluster.chance, faults=cluster.faults
    )
    appender = Appender(deps, FlushPolicy())
    task = spawn("appender", appender.run())
    size = 0
    for number, start in enumerate(range(0, records, BATCH_RECORDS)):
        values = [flight(at) for at in range(start, min(start + BATCH_RECORDS, records))]
        size += sum(map(len, values))
        batch = [Record(key=None, value=value, timestamp_ms=cluster.clock.now_ms()) for value in values]
        data = bytes(build_batch(batch, options=BatchOptions(codec=Codec.LZ4)))
        key = PartitionKey(topic.topic_id, PartitionId(number % 4))
        await appender.append([AppendRun(key=key, data=data, batches=split_batches(data, batch_bytes_max=1 << 26))])
    await appender.close()
    await task
    return size


async def land(cluster: Cluster, records: int) -> tuple[float, int]:
    """CPU seconds and commits until the table has all records."""
    offload = InlineOffload()
    catalog_deps = CatalogDeps(objects=cluster.objects, offload=offload, clock=cluster.clock, chance=cluster.chance, faults=cluster.faults)
    catalog = open_catalog("memory:", catalog_deps)
    index = LogIndex(cluster.store, shards=SHARDS)
    deps = LandingDeps(
        store=cluster.store,
        topics=Topics(cluster.store, cluster.clock, cluster.chance),
        index=index,
        reader=LogReader(cluster.objects, index, BlockCache(64 << 20), offload=offload),
        objects=cluster.objects,
        catalogs={"default": catalog},
        source="bench/1",
        clock=cluster.clock,
        chance=cluster.chance,
        offload=offload,
        faults=cluster.faults,
    )
    landing = Landing(deps, LandingSettings())
    started = time.process_time()
    task = spawn("landing", landing.run())
    while not any(status.rows_landed >= records for status in landing.statuses()):
        await asyncio.sleep(0.02)
    spent = time.process_time() - started
    landing.stop()
    await task
    table = await catalog.load("default.flights")
    assert int(table.metadata["snapshots"][-1]["summary"]["total-records"]) == records
    return spent, len(table.metadata["snapshots"])


async def bench(records: int, *, profile: bool) -> None:
    clock, chance = SystemClock(), random.Random(1)
    cluster = Cluster(
        store=open_metadata("memory:", clock=clock),
        objects=open_objects("memory:", offload=InlineOffload(), clock=clock),
        clock=clock,
        chance=chance,
        faults=FaultPoints(),
    )
    size = await fill(cluster, records)
    profiler = cProfile.Profile() if profile else None
    if profiler:
        profiler.enable()
    spent, commits = await land(cluster, records)
    if profiler:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    rate, speed = records / spent, size / spent / 1e6
    print(f"{records} records, {size / 1e6:.1f} MB of JSON, {commits} commits: {spent:.2f} s CPU, {rate:,.0f} records/s, {speed:.1f} MB/s")


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    asyncio.run(bench(numbers[0] if numbers else 336_776, profile="--profile" in sys.argv))
