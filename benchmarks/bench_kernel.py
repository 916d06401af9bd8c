"""Batches of records → columns, one core: the kernel, its Python twin, and aiokafka's Cython records, on the same bytes.

    python benchmarks/bench_kernel.py [--out docs/results/bench-kernel.json] [--mb 64]

Batches hold about 1 MB of records before compression, as a producer with default settings sends them. Measured is CPU time of the process,
best and median of several rounds, for MB of uncompressed values. Each way ends at columns: offsets, timestamps, keys, values, headers as
Arrow arrays. aiokafka's records are iterated and put into Arrow by ``pa.array``, which is how its users get there.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiokafka
import pyarrow as pa
from aiokafka.record.memory_records import MemoryRecords

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.json_events import events_of_bytes
from benchmarks.results import frame, write
from frazil.kit.kernel import kernel
from frazil.records import Codec, build_batch, patch
from frazil.records.building import BatchOptions, Record
from frazil.records.tables import RECORD_SCHEMA, ScanLimits, open_scanner

BATCH_BYTES = 1_000_000
DISTINCT_BATCHES = 8
LIMITS = ScanLimits(uncompressed_bytes_max=128 << 20)
HEADERS = (("trace-id", b"0af7651916cd43dd8448eb211c80319c"), ("source", b"bench"), ("empty", None))


@dataclass(frozen=True)
class Load:
    """A patched run of whole batches."""

    run: bytes
    records: int
    value_bytes: int


def make_load(kind: str, codec: Codec, total: int, *, headers: bool) -> Load:
    """About ``total`` bytes of values; eight distinct batches come again and again, since building them is slow."""
    values = events_of_bytes(kind, BATCH_BYTES * DISTINCT_BATCHES)
    per_batch = len(values) // DISTINCT_BATCHES
    made = []
    for number in range(DISTINCT_BATCHES):
        part = values[number * per_batch : (number + 1) * per_batch]
        records = [
            Record(key=b"user-%06d" % at, value=value, timestamp_ms=1_764_000_000_000 + at, headers=HEADERS if headers else ())
            for at, value in enumerate(part)
        ]
        made.append((bytes(build_batch(records, options=BatchOptions(codec=codec))), len(part), sum(map(len, part))))
    times = max(1, total // sum(size for _, _, size in made))
    run = b"".join(data for data, _, _ in made) * times
    return Load(run=bytes(patch(run, 0)), records=sum(n for _, n, _ in made) * times, value_bytes=sum(s for _, _, s in made) * times)


def by_scanner(load: Load, *, use_kernel: bool) -> pa.RecordBatch:
    """Kernel or twin."""
    scanner = open_scanner(LIMITS, use_kernel=use_kernel)
    found = scanner.add(load.run)
    assert not found.faults and found.stopped is None
    return scanner.finish()


def by_aiokafka(load: Load) -> pa.RecordBatch:
    """aiokafka's records, made into columns."""
    offsets, times, keys, values, headers = [], [], [], [], []
    batches = MemoryRecords(load.run)
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            offsets.append(record.offset)
            times.append(record.timestamp)
            keys.append(record.key)
            values.append(record.value)
            headers.append(record.headers)
    pairs = [[{"key": name, "value": value} for name, value in row] for row in headers] if any(headers) else [[]] * len(headers)
    columns = [pa.array(column, kind) for column, kind in zip((offsets, times, keys, values, pairs), RECORD_SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


def measure(load: Load, work: Callable[[Load], pa.RecordBatch], rounds: int) -> dict[str, Any]:
    """Speeds of ``work``; its answer is freed before the clock starts again."""
    spans = []
    for _ in range(rounds + 1):
        started = time.process_time()
        found = work(load)
        spans.append(time.process_time() - started)
        assert found.num_rows == load.records
        del found
    spans = spans[1:] or spans  # the first round pays for memory that the others find
    middle, best = statistics.median(spans), min(spans)
    return {
        "mb_s": round(load.value_bytes / middle / 1e6, 1),
        "best_mb_s": round(load.value_bytes / best / 1e6, 1),
        "records_s": round(load.records / middle),
    }


def case(kind: str, codec: Codec, total: int, *, headers: bool) -> dict[str, Any]:
    """All three ways on one load, equal answers demanded."""
    load = make_load(kind, codec, total, headers=headers)
    small = make_load(kind, codec, BATCH_BYTES * DISTINCT_BATCHES, headers=headers)
    reference = by_aiokafka(small)
    assert by_scanner(small, use_kernel=True).equals(reference)
    assert by_scanner(small, use_kernel=False).equals(reference)
    found: dict[str, Any] = {
        "ratio": round(load.value_bytes / len(load.run), 2),
        "kernel": measure(load, lambda load: by_scanner(load, use_kernel=True), 9),
        "twin": measure(small, lambda load: by_scanner(load, use_kernel=False), 2),
        "aiokafka": measure(small, by_aiokafka, 2),
    }
    found["times_aiokafka"] = round(found["kernel"]["mb_s"] / found["aiokafka"]["mb_s"], 1)
    found["times_twin"] = round(found["kernel"]["mb_s"] / found["twin"]["mb_s"], 1)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--mb", type=int, default=64, help="megabytes of values per round of the kernel")
    options = parser.parse_args()
    if kernel() is None:
        print("there is no kernel here", file=sys.stderr)
        return 1
    pa.set_cpu_count(1)
    results: dict[str, Any] = {}
    for kind in ("s", "b"):
        for codec in Codec:
            name = f"{kind}_{codec.name.lower()}"
            results[name] = case(kind, codec, options.mb * 1_000_000, headers=False)
    results["s_zstd_headers"] = case("s", Codec.ZSTD, options.mb * 1_000_000, headers=True)
    for codec in Codec:
        slowest = min(results[f"{kind}_{codec.name.lower()}"]["kernel"]["mb_s"] for kind in ("s", "b"))
        results[f"{codec.name.lower()}_mb_s_min"] = slowest
    for name, found in results.items():
        if isinstance(found, dict):
            print(f"{name:15}", {way: found[way]["mb_s"] for way in ("kernel", "twin", "aiokafka")}, f"ratio {found['ratio']}")
    if options.out:
        what = "Kafka v2 batches of 1 MB to Arrow columns, MB of uncompressed values per CPU second; s: 279-byte, b: 1-KB records"
        write(options.out, frame("python " + sys.argv[0], what, results, {"aiokafka": aiokafka.__version__}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
