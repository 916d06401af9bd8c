"""Files, SQLite and the SQL catalog on disk, a real loop and threads; what landed is read by DuckDB and by PyIceberg."""

from __future__ import annotations

import asyncio
import json
import pathlib
import random
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
from pyiceberg.table import StaticTable

from frazil.catalogs.opening import open_catalog
from frazil.catalogs.port import CatalogDeps
from frazil.kit.clock import SystemClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import PartitionId, PartitionKey
from frazil.kit.tasks import ThreadOffload, spawn
from frazil.landing import Landing, LandingDeps, LandingSettings
from frazil.log.append import AppendDeps, Appender, AppendRun, FlushPolicy
from frazil.log.cache import BlockCache
from frazil.log.index import LogIndex
from frazil.log.read import LogReader
from frazil.metadata import open_metadata
from frazil.metadata.topics import Topics
from frazil.objects import open_objects
from frazil.records import Codec, build_batch, split_batches
from frazil.records.building import BatchOptions, Record


async def land(directory: pathlib.Path, values: list[bytes]) -> tuple[str, str]:
    """Produces the values, lands them; metadata addresses of the table and of its dead letters."""
    clock, chance, faults, offload = SystemClock(), random.Random(1), FaultPoints(), ThreadOffload("test")
    objects = open_objects(f"file://{directory}/objects", offload=offload, clock=clock)
    store = open_metadata(f"sqlite://{directory}/metadata.db", clock=clock)
    deps = CatalogDeps(objects=objects, offload=offload, clock=clock, chance=chance, faults=faults)
    catalog = open_catalog(f"sql://{directory}/catalog.db", deps)
    topics = Topics(store, clock, chance)
    topic = await topics.create("t", 1)
    index = LogIndex(store, shards=4)
    appender = Appender(AppendDeps(store=store, objects=objects, index=index, clock=clock, chance=chance, faults=faults), FlushPolicy())
    writing = spawn("appender", appender.run())
    for start in range(0, len(values), 100):
        records = [Record(key=b"k", value=value, timestamp_ms=1_700_000_000_000) for value in values[start : start + 100]]
        data = bytes(build_batch(records, options=BatchOptions(codec=Codec.ZSTD)))
        run = AppendRun(key=PartitionKey(topic.topic_id, PartitionId(0)), data=data, batches=split_batches(data, batch_bytes_max=1 << 20))
        await appender.append([run])
    await appender.close()
    await writing
    fresh = LogIndex(store, shards=4)
    landing = Landing(
        LandingDeps(
            store=store,
            topics=Topics(store, clock, chance),
            index=fresh,
            reader=LogReader(objects, fresh, BlockCache(1 << 24), offload=offload),
            objects=objects,
            catalogs={"default": catalog},
            source="c/1",
            clock=clock,
            chance=chance,
            offload=offload,
            faults=faults,
        ),
        LandingSettings(commit_interval_ms=1_000),
    )
    running = spawn("landing", landing.run())
    async with asyncio.timeout(60):
        while sum(status.rows_landed + status.rows_rejected for status in landing.statuses()) < len(values):
            await asyncio.sleep(0.05)
    landing.stop()
    await running
    found = (await catalog.load("default.t")).metadata_location, (await catalog.load("default.t_dead")).metadata_location
    await store.close()
    offload.close()
    return found


def ask_duckdb(location: str, select: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for extension in (duckdb_extension_avro, duckdb_extension_iceberg):
            (file,) = pathlib.Path(extension.__path__[0]).glob(f"extensions/v{duckdb.__version__}/*.duckdb_extension")
            connection.load_extension(str(file))
        return connection.execute(f"SELECT {select} FROM iceberg_scan('{location}')").fetchall()


def test_f28_what_landed_reads_equal_in_duckdb_and_pyiceberg(tmp_path: pathlib.Path) -> None:
    values = [json.dumps({"n": n, "half": n / 2, "name": f"№ {n}", "deep": {"a": [n]}}).encode() for n in range(1000)]
    values[500] = b'{"n":'
    table, dead = asyncio.run(land(tmp_path, values))
    want = (999, sum(range(1000)) - 500, len(range(1000)) - 1, 0, 999)
    select = "count(*), sum(n), count(distinct name), min(_offset), max(_offset)"
    assert ask_duckdb(table, select) == [want]
    assert ask_duckdb(table, "count(*), max(deep.a[1]), max(half)") == [(999, 999, 499.5)]
    assert ask_duckdb(dead, 'count(*), min("offset"), max(code)') == [(1, 500, "not-json")]
    rows = StaticTable.from_metadata(table).scan().to_arrow().sort_by("_offset").to_pylist()
    assert [row["_offset"] for row in rows] == [n for n in range(1000) if n != 500]
    assert rows[7]["name"] == "№ 7"
    assert rows[7]["deep"] == {"a": [7]}
    assert rows[7]["_timestamp"].timestamp() == 1_700_000_000
    (letter,) = StaticTable.from_metadata(dead).scan().to_arrow().to_pylist()
    assert (letter["value"], letter["key"]) == (b'{"n":', b"k")
