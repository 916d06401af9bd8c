"""What the log itself costs per run: one flush of many partitions, everything between request and answer, stores in memory (R32).

    python benchmarks/bench_log.py [partitions] [flushes]

Prints microseconds of CPU per run, without and with producer ids: of the quickest tenth of the flushes, which other load on the machine
disturbs least, and of the median one. Exit status 1 when the former is above the budget of 10 µs without producer ids.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time

from frazil.kit.clock import SystemClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.log.append import AppendDeps, Appended, Appender, AppendRun, FlushPolicy
from frazil.log.index import LogIndex
from frazil.metadata.stores.memory import MemoryMetadata, MemoryState
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects
from frazil.records import build_batch, split_batches
from frazil.records.building import BatchOptions, Record

BUDGET_US = 10.0
SHARDS = 64


def runs_of(partitions: int, flush: int, *, idempotent: bool) -> list[AppendRun]:
    topic = TopicId(bytes(16))
    made = []
    for partition in range(partitions):
        options = BatchOptions(producer_id=partition, producer_epoch=0, base_sequence=flush) if idempotent else BatchOptions()
        data = build_batch([Record(key=None, value=b"x" * 100, timestamp_ms=1_700_000_000_000 + partition)], options=options)
        made.append(AppendRun(PartitionKey(topic, PartitionId(partition)), data, split_batches(data, batch_bytes_max=1 << 20)))
    return made


async def measure(partitions: int, flushes: int, *, idempotent: bool) -> list[float]:
    clock, store = SystemClock(), MemoryMetadata(MemoryState(), SystemClock())
    index = LogIndex(store, shards=SHARDS)
    objects = MemoryObjects(MemoryBucket(), clock)
    deps = AppendDeps(store=store, objects=objects, index=index, clock=clock, chance=random.Random(1), faults=FaultPoints())
    appender = Appender(deps, FlushPolicy())
    task = asyncio.create_task(appender.run())
    spent = []
    for flush in range(flushes):
        runs = runs_of(partitions, flush, idempotent=idempotent)
        began = time.process_time()
        outcomes = await appender.append(runs)
        spent.append((time.process_time() - began) / partitions * 1e6)
        assert outcomes[0] == Appended(flush, 0, -1)
        if flush % 8 == 0:
            await index.refresh()  # as the hints would have it
    await appender.close()
    await task
    return sorted(spent)


def main() -> int:
    partitions, flushes = (int(argument) for argument in (sys.argv[1:] + ["1000", "100"][len(sys.argv) - 1 :]))
    quick = {}
    for name, idempotent in (("without", False), ("with", True)):
        spent = asyncio.run(measure(partitions, flushes, idempotent=idempotent))
        quick[name] = spent[len(spent) // 10]
        print(f"{partitions} partitions, {name} producer ids: {quick[name]:.1f} µs per run, median {spent[len(spent) // 2]:.1f}")
    return int(quick["without"] > BUDGET_US)


if __name__ == "__main__":
    sys.exit(main())
