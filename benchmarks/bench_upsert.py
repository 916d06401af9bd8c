"""Upserts: a table of many keys takes updates and deletes, late and duplicate ones too, while it is queried.

    python benchmarks/bench_upsert.py [--out docs/results/bench-upsert.json] [--keys 20000000] [--updates 10000000] [--seconds-max 900]

Events are made by SQL (``EVENTS``), written as JSON in lz4 batches into a log on disk (file store, SQLite), and landed by a process of its
own: one table, ``mode=upsert``, deletes by operation and by tombstone, a SQL catalog. First the keys, then
the updates and deletes; the second part is timed: events per second from the start of that process to its last commit, folding included.
Meanwhile DuckDB counts and sums the table and, one after the other, a clean copy made before the updates began. At the end the table is
compared, row by row, with the last event of each key as SQL says it; and what landing does not know of SQL, SQL does not know of landing.

By offset the last event wins: a late event (one of 50,000 events before, sent again now) is the newest, and so is a duplicate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.results import frame, write
from frazil.catalogs.commit import Committer, Landed
from frazil.catalogs.opening import open_catalog
from frazil.catalogs.port import Catalog, CatalogDeps, CreateTable
from frazil.catalogs.write import FileWriter
from frazil.kit.clock import SystemClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import PartitionId, PartitionKey
from frazil.kit.tasks import InlineOffload, ThreadOffload, spawn
from frazil.landing import Landing, LandingDeps, LandingSettings
from frazil.log.append import AppendDeps, Appender, AppendRun, FlushPolicy
from frazil.log.cache import BlockCache
from frazil.log.index import LogIndex
from frazil.log.read import LogReader
from frazil.metadata import open_metadata
from frazil.metadata.landings import LandingSpec, put_landing
from frazil.metadata.topics import Topics
from frazil.objects import open_objects
from frazil.records import Codec, build_batch, split_batches
from frazil.records.building import BatchOptions, Record

PARTITIONS = 4
SHARDS = 4
CHUNK = 200_000
SLICE_ROWS, SLICE_BYTES = 800_000, 128 * 1024 * 1024
"""Of settings that are not the defaults: larger slices, because a backlog of updates writes the table again once a slice."""
BATCH_RECORDS = 10_000
TABLE, CLEAN = "lake.accounts", "lake.clean"
COLUMNS = ("id long", "region string", "customer string", "amount double", "seen timestamptz")
SPEC = LandingSpec(
    table=TABLE,
    topics=("changes",),
    columns=COLUMNS,
    metadata_columns=False,
    options={"mode": "upsert", "upsert.key": "id", "envelope": "op:op", "upsert.deletes": "op,tombstone", "upsert.record-key": "json"},
)
QUESTION = "SELECT count(*), sum(amount) FROM iceberg_scan('{}')"
EVENTS = """
    WITH numbered AS (
        SELECT n, CASE
            WHEN n < {keys} THEN n
            WHEN hash(n, 1) % 20 = 0 AND n - 1000 >= {keys} THEN n - 1000
            WHEN hash(n, 1) % 20 = 1 AND n - 50000 >= {keys} THEN n - 50000
            ELSE n END AS e
        FROM range({first}, {end}) AS r(n))
    SELECT n,
        (CASE WHEN e < {keys} THEN (e * 7919) % {keys} ELSE hash(e, 2) % ({keys} + {keys} // 50) END)::BIGINT AS id,
        CASE WHEN e < {keys} THEN 'c' WHEN hash(e, 3) % 10 = 0 THEN 'd' WHEN hash(e, 3) % 10 = 1 THEN 'tombstone' ELSE 'u' END AS what,
        'region-' || (hash(e, 4) % 16) AS region,
        'customer ' || (hash(e, 5) % 100000000) AS customer,
        (hash(e, 6) % 1000000)::DOUBLE / 4 AS amount,
        make_timestamp((1700000000000000 + e * 1000)::BIGINT) AS seen
    FROM numbered"""


def connect(threads: int = 1) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}; SET TimeZone = 'UTC'")
    for extension in (duckdb_extension_avro, duckdb_extension_iceberg):
        found = sorted(pathlib.Path(extension.__path__[0]).glob(f"extensions/v{duckdb.__version__}/*.duckdb_extension"))
        connection.load_extension(str(found[0]))
    return connection


# --- the log -----------------------------------------------------------------------------------------------------------


def batches(job: tuple[int, int, int]) -> list[tuple[int, bytes]]:
    """(partition, batch) of the events of one range, in order."""
    keys, first, end = job
    events = EVENTS.format(keys=keys, first=first, end=end)
    text = """'{"id":' || id || ',"region":"' || region || '","customer":"' || customer || '","amount":' || amount || ',"seen":"'
        || strftime(seen, '%Y-%m-%dT%H:%M:%S.%fZ') || '","op":"' || what || '"}'"""
    rows = connect().execute(
        f"""SELECT id % {PARTITIONS} AS p, '{{"id":' || id || '}}' AS k, CASE WHEN what <> 'tombstone' THEN {text} END AS v
            FROM ({events}) ORDER BY p, n"""
    )
    by_partition: dict[int, list[Record]] = {}
    while found := rows.fetchmany(50_000):
        for partition, key, value in found:
            record = Record(key=key.encode(), value=None if value is None else value.encode(), timestamp_ms=1_764_000_000_000)
            by_partition.setdefault(partition, []).append(record)
    return [
        (partition, bytes(build_batch(records[at : at + BATCH_RECORDS], options=BatchOptions(codec=Codec.LZ4))))
        for partition, records in sorted(by_partition.items())
        for at in range(0, len(records), BATCH_RECORDS)
    ]


async def fill(directory: pathlib.Path, jobs: Sequence[tuple[int, int, int]]) -> None:
    """Appends the events of all jobs, in order."""
    clock, chance = SystemClock(), random.Random(1)
    store = open_metadata(f"sqlite:///{directory}/metadata.db", clock=clock)
    objects = open_objects(f"file://{directory}/objects", offload=ThreadOffload("bench", threads_max=2), clock=clock)
    topics = Topics(store, clock, chance)
    await topics.refresh()
    topic = topics.get("changes") or await topics.create("changes", PARTITIONS)
    index = LogIndex(store, shards=SHARDS)
    await index.refresh()
    deps = AppendDeps(store=store, objects=objects, index=index, clock=clock, chance=chance, faults=FaultPoints())
    appender = Appender(deps, FlushPolicy())
    task = spawn("appender", appender.run())
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        made: Iterator[list[tuple[int, bytes]]] = pool.imap(batches, jobs)
        while (found := await asyncio.to_thread(lambda: next(made, None))) is not None:
            for partition, data in found:
                key = PartitionKey(topic.topic_id, PartitionId(partition))
                await appender.append([AppendRun(key=key, data=data, batches=split_batches(data, batch_bytes_max=1 << 26))])
    await appender.close()
    await task
    await put_landing(store, SPEC)


# --- the landing process -----------------------------------------------------------------------------------------------


async def land(directory: pathlib.Path, records: int) -> None:
    """Lands until so many records are done; tells how far it is on standard output."""
    clock, chance, offload = SystemClock(), random.Random(2), ThreadOffload("bench", threads_max=4)
    store = open_metadata(f"sqlite:///{directory}/metadata.db", clock=clock)
    objects = open_objects(f"file://{directory}/objects", offload=offload, clock=clock)
    deps = CatalogDeps(objects=objects, offload=offload, clock=clock, chance=chance, faults=FaultPoints())
    index = LogIndex(store, shards=SHARDS)
    landing = Landing(
        LandingDeps(
            store=store,
            topics=Topics(store, clock, chance),
            index=index,
            reader=LogReader(objects, index, BlockCache(64 << 20), offload=offload),
            objects=objects,
            catalogs={"default": open_catalog(f"sql://{directory}/catalog.db", deps)},
            source="bench/1",
            clock=clock,
            chance=chance,
            offload=offload,
            faults=FaultPoints(),
        ),
        LandingSettings(auto=None, slice_rows_max=SLICE_ROWS, slice_bytes_max=SLICE_BYTES),
    )
    task = spawn("landing", landing.run())
    done, begun, seen = 0, time.monotonic(), ""
    while done < records:
        await asyncio.sleep(0.1)
        for status in landing.statuses():
            done = records - status.behind_records if status.rows_landed else 0  # tombstones are no rows
            if status.reason != seen:
                seen = status.reason
                print(json.dumps({"reason": seen}), flush=True)
        print(json.dumps({"s": round(time.monotonic() - begun, 2), "done": done, "cpu_s": round(time.process_time(), 2)}), flush=True)
        if task.done():
            task.result()
    landing.stop()
    await task


def peak_bytes(pid: int) -> int:
    """The most memory a process ever had."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


class Lander:
    """The landing process as its parent sees it."""

    def __init__(self, directory: pathlib.Path, records: int) -> None:
        self._out = (directory / f"landing-{records}.log").open("wb")
        self._path = pathlib.Path(self._out.name)
        command = [sys.executable, __file__, "--land", str(directory), "--records", str(records)]
        self._process = subprocess.Popen(command, stdout=self._out, stderr=subprocess.STDOUT)
        self.peak = 0

    def poll(self) -> dict[str, Any] | None:
        """How far it is; None when it is done."""
        if self._process.poll() is not None:
            if self._process.returncode:
                raise RuntimeError(self._path.read_text()[-3000:])
            return None
        self.peak = max(self.peak, peak_bytes(self._process.pid))
        return self.last()

    def last(self) -> dict[str, Any]:
        lines = [line for line in self._path.read_bytes()[-2000:].splitlines() if line.startswith(b'{"s"') and line.endswith(b"}")]
        return json.loads(lines[-1]) if lines else {"s": 0, "done": 0, "cpu_s": 0}

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


# --- looking -----------------------------------------------------------------------------------------------------------


def catalog_deps(directory: pathlib.Path) -> CatalogDeps:
    clock = SystemClock()
    objects = open_objects(f"file://{directory}/objects", offload=InlineOffload(), clock=clock)
    return CatalogDeps(objects=objects, offload=InlineOffload(), clock=clock, chance=random.Random(3), faults=FaultPoints())


def opened(directory: pathlib.Path) -> Catalog:
    return open_catalog(f"sql://{directory}/catalog.db", catalog_deps(directory))


def location(directory: pathlib.Path, table: str) -> str:
    return asyncio.run(opened(directory).load(table)).metadata_location


def totals(directory: pathlib.Path) -> dict[str, int]:
    table = asyncio.run(opened(directory).load(TABLE))
    head = next(s for s in table.metadata["snapshots"] if s["snapshot-id"] == table.metadata["current-snapshot-id"])
    return {name: int(head["summary"][f"total-{name}"]) for name in ("data-files", "delete-files", "position-deletes", "equality-deletes")}


async def copy_clean(directory: pathlib.Path) -> None:
    """The same rows in files without any deletes, written by the same writer."""
    deps, catalog = catalog_deps(directory), opened(directory)
    table = await catalog.load(TABLE)
    rows = connect(2).execute(f"SELECT * FROM iceberg_scan('{table.metadata_location}')").to_arrow_reader(1_000_000)
    made = None
    writer, files = FileWriter(deps), []
    for batch in rows:
        part = pa.Table.from_batches([batch])
        made = made or await catalog.create(CLEAN, CreateTable(schema=part.schema))
        files += await writer.write(made, part)
    assert made is not None
    await Committer(catalog, deps).commit(Landed(base=made, files=files))


def timed(where: str) -> float:
    """Seconds of one question in a session of its own: one that had seen the files would remember them, and only the clean ones stay."""
    with connect(2) as connection:
        begun = time.perf_counter()
        connection.execute(QUESTION.format(where)).fetchone()
        return time.perf_counter() - begun


def compare(directory: pathlib.Path, keys: int, end: int) -> dict[str, int]:
    """The table beside the last event of each key."""
    connection = connect(2)
    connection.execute("SET memory_limit = '6GB'")
    connection.execute(f"SET temp_directory = '{directory}/spill'")
    events = EVENTS.format(keys=keys, first=0, end=end)
    connection.execute(
        f"""CREATE TABLE wanted AS SELECT e.id, e.region, e.customer, e.amount, e.seen AT TIME ZONE 'UTC' AS seen
            FROM ({events}) e JOIN (SELECT id, max(n) AS n FROM ({events}) GROUP BY id) l USING (n)
            WHERE e.what NOT IN ('d', 'tombstone')"""
    )
    connection.execute(f"CREATE TABLE found AS SELECT * FROM iceberg_scan('{location(directory, TABLE)}')")
    counts = {
        "rows": "SELECT count(*) FROM found",
        "wanted_rows": "SELECT count(*) FROM wanted",
        "missing": "SELECT count(*) FROM wanted w ANTI JOIN found f USING (id, region, customer, amount, seen)",
        "foreign": "SELECT count(*) FROM found f ANTI JOIN wanted w USING (id, region, customer, amount, seen)",
        "doubled": "SELECT count(*) - count(DISTINCT id) FROM found",
    }
    return {name: int(connection.execute(question).fetchone()[0]) for name, question in counts.items()}  # type: ignore[index]


def query_beside(directory: pathlib.Path, lander: Lander, deadline: float, pause_s: float) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Asks both tables while landing goes on; the samples, and how far it was at the end."""
    clean = location(directory, CLEAN)
    timed(clean)
    samples: list[dict[str, Any]] = []
    asked = time.monotonic()
    while (state := lander.poll()) is not None:
        if time.monotonic() > deadline:
            lander.kill()
            break
        if time.monotonic() - asked < pause_s or not state["done"]:
            time.sleep(0.1)
            continue
        pair = {"clean_s": timed(clean), "table_s": timed(location(directory, TABLE)), **totals(directory)}
        pair["clean_s"] = round((pair["clean_s"] + timed(clean)) / 2, 4)
        samples.append({**pair, "table_s": round(pair["table_s"], 4), "done": state["done"]})
        print("  ", samples[-1], flush=True)
        asked = time.monotonic()
    return samples, lander.last()


def measure(directory: pathlib.Path, keys: int, updates: int, seconds_max: float) -> dict[str, Any]:
    begun = time.monotonic()
    asyncio.run(fill(directory, [(keys, at, min(keys, at + CHUNK)) for at in range(0, keys, CHUNK)]))
    print(f"filled {time.monotonic() - begun:.0f} s", flush=True)
    lander = Lander(directory, keys)
    while lander.poll() is not None:
        time.sleep(0.2)
    loaded, load_peak = lander.last(), lander.peak
    print("loaded", loaded, load_peak >> 20, "MiB", totals(directory), flush=True)
    end = keys + updates
    asyncio.run(fill(directory, [(keys, at, min(end, at + CHUNK)) for at in range(keys, end, CHUNK)]))
    asyncio.run(copy_clean(directory))
    print(f"filled again, {time.monotonic() - begun:.0f} s", flush=True)
    lander = Lander(directory, updates)
    samples, last = query_beside(directory, lander, begun + seconds_max, pause_s=max(1.0, updates / 2_000_000))
    print("updated", last, flush=True)
    checked = compare(directory, keys, end)
    ratios = [sample["table_s"] / sample["clean_s"] for sample in samples]
    return {
        "keys": keys,
        "updates": updates,
        "load_events_per_second": round(keys / loaded["s"]),
        "events_per_second": round(updates / last["s"]),
        "cpu_s": last["cpu_s"],
        "peak_rss_mb": round(max(load_peak, lander.peak) / 1e6),
        "queries": len(samples),
        "query_ratio_median": round(statistics.median(ratios), 2) if ratios else None,
        "query_ratio_p90": round(sorted(ratios)[int(0.9 * len(ratios))], 2) if ratios else None,
        "clean_s_median": round(statistics.median(sample["clean_s"] for sample in samples), 3) if samples else None,
        "delete_files_max": max((sample["delete-files"] for sample in samples), default=0),
        "position_deletes_max": max((sample["position-deletes"] for sample in samples), default=0),
        "differences": checked["missing"] + checked["foreign"] + checked["doubled"] + abs(checked["rows"] - checked["wanted_rows"]),
        "rows": checked["rows"],
        "seconds": round(time.monotonic() - begun),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--keys", type=int, default=20_000_000)
    parser.add_argument("--updates", type=int, default=10_000_000)
    parser.add_argument("--seconds-max", type=float, default=900)
    parser.add_argument("--directory", help="kept; default: a temporary one")
    parser.add_argument("--land", help=argparse.SUPPRESS)
    parser.add_argument("--records", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.land:
        asyncio.run(land(pathlib.Path(options.land), options.records))
        return 0
    directory = pathlib.Path(options.directory or tempfile.mkdtemp(prefix="bench-upsert-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        found = measure(directory, options.keys, options.updates, options.seconds_max)
    finally:
        if not options.directory:
            shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps(found, indent=2))
    command = f"python benchmarks/bench_upsert.py --keys {options.keys} --updates {options.updates}"
    document = frame(command, "20 M keys, 10 M updates and deletes, queried meanwhile", found)
    if options.out:
        write(options.out, document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
