"""Landing, one core: JSON in lz4 batches in the log → rows in a committed Parquet file of an Iceberg table.

    python benchmarks/bench_landing.py [--out docs/results/bench-landing.json] [--mb 128] [--profile s]

Everything of a real landing runs: the log's index and reader, the owner loop, decoding, Parquet, the committer and a SQL
catalog in a SQLite file; objects are in memory. Beside it, on the same batches and in the same run, the library way: aiokafka
decodes, orjson or pyarrow.json makes columns, PyIceberg appends to a SQL catalog with files on disk, 500,000 rows each time.
All numbers are MB of uncompressed JSON per second of CPU time of the whole process.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pathlib
import pstats
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiokafka
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from aiokafka.record.memory_records import MemoryRecords
from pyiceberg.catalog.sql import SqlCatalog

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.json_events import KINDS, events_of_bytes
from benchmarks.results import frame, write
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
from frazil.metadata.landings import LandingSpec, put_landing
from frazil.metadata.topics import Topics
from frazil.objects import ObjectStore, open_objects
from frazil.records import Codec, build_batch, split_batches
from frazil.records.building import BatchOptions, Record
from frazil.schemas import parse_columns
from frazil.schemas.framing import Found, WriterSchema

BATCH_BYTES = 1_000_000
"""librdkafka's default ``batch.size``."""
PARTITIONS = 4
SHARDS = 4
ROWS_PER_APPEND = 500_000


@dataclass(frozen=True)
class Load:
    """Batches of one kind of event."""

    kind: str
    batches: list[bytes]
    records: int
    json_bytes: int
    """Bytes that the records have as JSON, whatever they are."""
    value: str = "json"
    schema: WriterSchema | None = None


@dataclass(frozen=True)
class Cluster:
    store: MetadataStore
    objects: ObjectStore
    clock: SystemClock
    chance: random.Random
    faults: FaultPoints


def make_load(kind: str, total: int) -> Load:
    """About ``total`` bytes of JSON in lz4 batches, as a producer with default settings makes them."""
    values = events_of_bytes(kind, total)
    return Load(kind=kind, batches=batches_of(values), records=len(values), json_bytes=sum(map(len, values)))


def batches_of(values: Sequence[bytes]) -> list[bytes]:
    """Values as records with keys and times in lz4 batches."""
    batches, start, now_ms = [], 0, 1_764_000_000_000
    per_batch = max(1, BATCH_BYTES * len(values) // sum(map(len, values)))
    while start < len(values):
        part = values[start : start + per_batch]
        records = [
            Record(key=b"user-%06d" % ((start + at) % 100_000), value=value, timestamp_ms=now_ms + at) for at, value in enumerate(part)
        ]
        batches.append(bytes(build_batch(records, options=BatchOptions(codec=Codec.LZ4))))
        start += per_batch
        now_ms += 20
    return batches


async def fill(cluster: Cluster, load: Load) -> None:
    """Appends the batches to the partitions of one topic, in turn."""
    topic = await Topics(cluster.store, cluster.clock, cluster.chance).create("events", PARTITIONS)
    index = LogIndex(cluster.store, shards=SHARDS)
    deps = AppendDeps(
        store=cluster.store, objects=cluster.objects, index=index, clock=cluster.clock, chance=cluster.chance, faults=cluster.faults
    )
    appender = Appender(deps, FlushPolicy())
    task = spawn("appender", appender.run())
    for number, data in enumerate(load.batches):
        key = PartitionKey(topic.topic_id, PartitionId(number % PARTITIONS))
        await appender.append([AppendRun(key=key, data=data, batches=split_batches(data, batch_bytes_max=1 << 26))])
    await appender.close()
    await task


class OneSchema:
    """A registry that answers with one schema, whatever the id."""

    def __init__(self, schema: WriterSchema) -> None:
        self._schema = schema

    async def find(self, ids: Iterable[int]) -> Mapping[int, Found]:
        """See SchemaSource."""
        return dict.fromkeys(ids, self._schema)


async def land(cluster: Cluster, load: Load, directory: pathlib.Path, *, use_kernel: bool) -> dict[str, Any]:
    """CPU seconds until the table has all records, and what the table says."""
    offload = InlineOffload()
    catalog_deps = CatalogDeps(objects=cluster.objects, offload=offload, clock=cluster.clock, chance=cluster.chance, faults=cluster.faults)
    catalog = open_catalog(f"sql://{directory}/catalog.db", catalog_deps)
    index = LogIndex(cluster.store, shards=SHARDS)
    columns = KINDS[load.kind].columns if load.schema is None else ()
    spec = LandingSpec(table="lake.events", topics=("events",), columns=columns, value=load.value)
    await put_landing(cluster.store, spec)
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
        registry=None if load.schema is None else OneSchema(load.schema),
    )
    landing = Landing(deps, LandingSettings(auto=None, use_kernel=use_kernel))
    started = time.process_time()
    task = spawn("landing", landing.run())
    while not any(status.rows_landed >= load.records for status in landing.statuses()):
        await asyncio.sleep(0.02)
    spent = time.process_time() - started
    landing.stop()
    await task
    table = await catalog.load("lake.events")
    summary = table.metadata["snapshots"][-1]["summary"]
    assert int(summary["total-records"]) == load.records, summary
    return {"cpu_s": spent, "commits": len(table.metadata["snapshots"]), "parquet_bytes": int(summary["total-files-size"])}


async def run_frazil(load: Load, *, use_kernel: bool, profiler: cProfile.Profile | None = None) -> dict[str, Any]:
    clock, chance = SystemClock(), random.Random(1)
    objects = open_objects("memory:", offload=InlineOffload(), clock=clock)
    cluster = Cluster(store=open_metadata("memory:", clock=clock), objects=objects, clock=clock, chance=chance, faults=FaultPoints())
    with tempfile.TemporaryDirectory() as directory:
        await fill(cluster, load)
        if profiler:
            profiler.enable()
        found = await land(cluster, load, pathlib.Path(directory), use_kernel=use_kernel)
        if profiler:
            profiler.disable()
    return rated(load, found)


def rated(load: Load, found: dict[str, Any]) -> dict[str, Any]:
    """The same with speeds."""
    spent = found["cpu_s"]
    return {
        "mb_s": round(load.json_bytes / spent / 1e6, 1),
        "records_s": round(load.records / spent),
        "cpu_s": round(spent, 3),
        "commits": found["commits"],
        "json_mb": round(load.json_bytes / 1e6, 1),
        "parquet_ratio": round(load.json_bytes / found["parquet_bytes"], 2),
    }


def library_schema(kind: str) -> pa.Schema:
    """The value columns, and the three that say where a record came from."""
    extra = [pa.field("_offset", pa.int64()), pa.field("_timestamp", pa.timestamp("ms", tz="UTC")), pa.field("_key", pa.binary())]
    return pa.schema([*parse_columns(KINDS[kind].columns), *extra])


def decoded(load: Load) -> Iterator[tuple[list[bytes], list[pa.Array]]]:
    """What aiokafka decodes, in parts of ROWS_PER_APPEND records: values, and the three other columns."""
    values: list[bytes] = []
    offsets: list[int] = []
    times: list[int] = []
    keys: list[bytes] = []

    def part() -> tuple[list[bytes], list[pa.Array]]:
        others = [pa.array(offsets, pa.int64()), pa.array(times, pa.timestamp("ms", tz="UTC")), pa.array(keys, pa.binary())]
        return values, others

    for batch in load.batches:
        for found in iter(MemoryRecords(batch).next_batch, None):
            for record in found:
                values.append(record.value)
                offsets.append(record.offset)
                times.append(record.timestamp)
                keys.append(record.key)
        if len(values) >= ROWS_PER_APPEND:
            yield part()
            values, offsets, times, keys = [], [], [], []
    if values:
        yield part()


def by_orjson(values: list[bytes], schema: pa.Schema) -> list[pa.Array]:
    """Dicts, then columns; texts of time are cast afterwards, because Arrow refuses them on the way in."""
    texts = pa.schema([field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else field for field in schema])
    table = pa.Table.from_pylist([orjson.loads(value) for value in values], schema=texts)
    return [pc.cast(table.column(field.name), field.type) for field in schema]


def by_pyarrow(values: list[bytes], schema: pa.Schema) -> list[pa.Array]:
    """pyarrow.json with an explicit schema and blocks of 1 MB, the fastest of its settings."""
    fields = [field.with_type(pa.timestamp("us")) if pa.types.is_timestamp(field.type) else field for field in schema]
    table = pj.read_json(
        pa.BufferReader(b"\n".join(values)),
        read_options=pj.ReadOptions(use_threads=False, block_size=1 << 20),
        parse_options=pj.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"),
    )
    return [pc.cast(table.column(field.name), field.type) for field in schema]


def run_library(load: Load, columns: Callable[[list[bytes], pa.Schema], list[pa.Array]]) -> dict[str, Any]:
    """The batches as they are through aiokafka, one JSON library and PyIceberg."""
    schema = library_schema(load.kind)
    value_schema = parse_columns(KINDS[load.kind].columns)
    with tempfile.TemporaryDirectory() as directory:
        catalog = SqlCatalog("bench", uri=f"sqlite:///{directory}/catalog.db", warehouse=f"file://{directory}/lake")
        catalog.create_namespace("lake")
        table = catalog.create_table("lake.events", schema=schema)
        started = time.process_time()
        for values, others in decoded(load):
            table.append(pa.Table.from_arrays([*columns(values, value_schema), *others], schema=schema))
        spent = time.process_time() - started
        summary = table.metadata.snapshots[-1].summary
        assert summary is not None
        assert int(summary["total-records"]) == load.records
        found = {"cpu_s": spent, "commits": len(table.metadata.snapshots), "parquet_bytes": int(summary["total-files-size"])}
        catalog.close()
    return rated(load, found)


def middle(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The run with the median speed, and all speeds."""
    ordered = sorted(runs, key=lambda run: float(run["mb_s"]))
    return {**ordered[len(ordered) // 2], "runs_mb_s": [run["mb_s"] for run in runs]}


def measure(kind: str, mb: int) -> dict[str, Any]:
    """All ways for one kind of event. The kernel's first run, which pays for modules and memory, stands by itself."""
    load, small = make_load(kind, mb * 1_000_000), make_load(kind, max(8, mb // 4) * 1_000_000)
    first = asyncio.run(run_frazil(load, use_kernel=True))
    found: dict[str, Any] = {
        "record_bytes": round(load.json_bytes / load.records),
        "lz4_ratio": round(load.json_bytes / sum(map(len, load.batches)), 2),
    }
    found["kernel"] = {**middle([asyncio.run(run_frazil(load, use_kernel=True)) for _ in range(5)]), "first_mb_s": first["mb_s"]}
    found["twin"] = asyncio.run(run_frazil(small, use_kernel=False))
    found["library_pyarrow"] = middle([run_library(load, by_pyarrow) for _ in range(3)])
    found["library_orjson"] = run_library(small, by_orjson)
    library = max(found["library_pyarrow"]["mb_s"], found["library_orjson"]["mb_s"])
    found["times_library"] = round(found["kernel"]["mb_s"] / library, 2)
    found["times_twin"] = round(found["kernel"]["mb_s"] / found["twin"]["mb_s"], 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--mb", type=int, default=128, help="megabytes of JSON per run")
    parser.add_argument("--profile", choices=tuple(KINDS), help="one profiled run of a kind, no result file")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    if options.profile:
        profiler = cProfile.Profile()
        load = make_load(options.profile, options.mb * 1_000_000)
        print(asyncio.run(run_frazil(load, use_kernel=True)))
        print(asyncio.run(run_frazil(load, use_kernel=True, profiler=profiler)))
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
        return
    results: dict[str, Any] = {kind: measure(kind, options.mb) for kind in KINDS}
    results["kernel_mb_s_min"] = min(results[kind]["kernel"]["mb_s"] for kind in KINDS)
    results["times_library_min"] = min(results[kind]["times_library"] for kind in KINDS)
    for kind in KINDS:
        speeds = {way: found["mb_s"] for way, found in results[kind].items() if isinstance(found, dict)}
        print(kind, f"{results[kind]['record_bytes']} B", speeds)
    if options.out:
        more = {"aiokafka": aiokafka.__version__, "orjson": orjson.__version__}
        what = "JSON in lz4 batches of 1 MB to committed Parquet (zstd 1), MB of uncompressed JSON per CPU second"
        write(options.out, frame("python " + sys.argv[0], what, results, more))


if __name__ == "__main__":
    main()
