"""Speed of batch handling: split, patch, scan per codec, and bundle building. Run: ``python benchmarks/bench_records.py``.

Prints µs per batch or run, MB/s of batch bytes as stored, thousands of records per second. Best of five.
"""

from __future__ import annotations

import json
import platform
import sys
import timeit
from collections.abc import Callable

from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.records import Codec, build_batch, patch, scan, split_batches
from frazil.records.building import BatchOptions, Record
from frazil.segments import build_bundle, build_segment, read_directory, read_segment

LIMIT = 1 << 26


def seconds(call: Callable[[], object]) -> float:
    """The best of five rounds of about 50 ms."""
    timer = timeit.Timer(call)
    count = max(1, int(timer.autorange()[0] / 4))
    return min(timer.repeat(5, count)) / count


def rows(count: int, size: int) -> list[Record]:
    """JSON-like records of about ``size`` bytes of value, with a key."""
    pad = "x" * max(0, size - 40)
    return [
        Record(key=b"k%d" % (i % 100), value=f'{{"id":{i},"city":"Oslo","n":{i * 7}{pad}}}'.encode(), timestamp_ms=1_700_000_000_000 + i)
        for i in range(count)
    ]


def line(name: str, took: float, *, batches: int, size: int, records: int) -> None:
    """One printed line."""
    print(f"{name:44}{took / batches * 1e6:10.2f} µs/batch{size / took / 1e6:11,.0f} MB/s{records / took / 1e3:12,.0f} k rec/s")


def bench_runs(count: int, size: int, codec: Codec) -> None:
    """Split, patch and scan of 40 batches of ``count`` records."""
    batch = build_batch(rows(count, size), options=BatchOptions(codec=codec))
    run = batch * 40
    patched = bytes(patch(run, 0))
    name = f"{count} x {size} B {codec.name.lower()}"
    facts = {"batches": 40, "size": len(run), "records": 40 * count}
    line(f"split {name}", seconds(lambda: split_batches(run, batch_bytes_max=LIMIT)), **facts)
    line(f"patch {name}", seconds(lambda: patch(run, 0)), **facts)
    line(f"scan  {name}", seconds(lambda: scan(patched, uncompressed_bytes_max=LIMIT)), **facts)


def bench_bundles(partitions: int) -> None:
    """A bundle of one small batch per partition, its directory, and a segment of as many batches."""
    batch = build_batch(rows(10, 100))
    heads = split_batches(batch, batch_bytes_max=LIMIT)
    runs = [(PartitionKey(TopicId(bytes([i % 7]) * 16), PartitionId(i)), [batch], heads) for i in range(partitions)]
    data = b"".join(build_bundle(runs).chunks)
    patched = bytes(patch(batch * partitions, 0))
    kfs = build_segment([patched], created_ms=0).kfs
    facts = {"batches": partitions, "size": len(data), "records": partitions * 10}
    line(f"build bundle of {partitions} runs", seconds(lambda: build_bundle(runs)), **facts)
    line(f"read directory of {partitions} runs", seconds(lambda: read_directory(data, len(data), where="")), **facts)
    line(f"build segment of {partitions} batches", seconds(lambda: build_segment([patched], created_ms=0)), **facts)
    line(f"read segment of {partitions} batches", seconds(lambda: read_segment(kfs, where="", batch_bytes_max=LIMIT)), **facts)


def main() -> None:
    """Print one line per case."""
    print(json.dumps({"python": platform.python_version(), "machine": platform.machine(), "command": " ".join(sys.argv)}))
    bench_runs(1, 1000, Codec.NONE)
    for size in (50, 1000):
        for codec in Codec:
            bench_runs(500, size, codec)
    bench_bundles(1000)


if __name__ == "__main__":
    main()
