"""Commits through a REST catalog: what one costs the client, beside PyIceberg's append on the same server.

    python benchmarks/bench_rest_commits.py --out docs/results/bench-rest-commits.json      300 commits, 100 appends of PyIceberg

SeaweedFS is started here (S3 and Iceberg REST catalog, OAuth2, vended credentials). CPU is that of this process, all threads: manifest,
manifest list, two or three S3 requests each with its read-back, one HTTP commit. Writing the Parquet file (S3 PUT and its check) is
measured apart. Care runs every 20 commits and is not counted in. PyIceberg's table has the same schema and rows, and no care.
"""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import random
import statistics
import sys
import time
from dataclasses import replace

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from tests.servers import ACCESS_KEY, REGION, SECRET_KEY, SeaweedFs, running_seaweedfs

from benchmarks.results import frame, write
from frazil.catalogs import CatalogDeps, Committer, CreateTable, Landed, open_catalog
from frazil.catalogs.care import Care, CareSettings
from frazil.catalogs.commit import Committed
from frazil.catalogs.progress import Move, SourcePartition
from frazil.catalogs.write import FileWriter
from frazil.kit.clock import SystemClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import TopicId
from frazil.kit.tasks import ThreadOffload
from frazil.objects.opening import open_objects

SCHEMA = pa.schema([("_offset", pa.int64()), ("kind", pa.string()), ("price", pa.float64())])
ROWS = 10
CARE_EVERY = 20


def rows(start: int) -> pa.Table:
    offsets = list(range(start, start + ROWS))
    return pa.table({"_offset": offsets, "kind": [f"k{at % 3}" for at in offsets], "price": [at * 1.5 for at in offsets]}, schema=SCHEMA)


async def ours(server: SeaweedFs, commits: int) -> dict[str, object]:
    offload = ThreadOffload("bench", threads_max=2)
    plain = open_objects("memory:", offload=offload, clock=SystemClock())
    deps = CatalogDeps(objects=plain, offload=offload, clock=SystemClock(), chance=random.Random(7), faults=FaultPoints())
    properties = {"credential": f"{ACCESS_KEY}:{SECRET_KEY}", "warehouse": server.warehouse}
    catalog = open_catalog(f"rest+{server.catalog}", deps, properties)
    deps = replace(deps, objects=catalog.objects or plain)
    table = await catalog.create("bench.ours", CreateTable(schema=SCHEMA))
    committer, writer = Committer(catalog, deps), FileWriter(deps)
    care = Care(committer, CareSettings())
    key, before = SourcePartition("bench/1", TopicId(bytes(16)), 0), None
    cpu_ms, wall_ms, file_cpu_ms = [], [], []
    for number in range(commits):
        at_cpu = time.process_time()
        (file,) = await writer.write(table, rows(number * ROWS))
        file_cpu_ms.append((time.process_time() - at_cpu) * 1000)
        at_cpu, at_wall = time.process_time(), time.monotonic()
        outcome = await committer.commit(Landed(base=table, files=[file], moves={key: Move(before, (number + 1) * ROWS)}))
        cpu_ms.append((time.process_time() - at_cpu) * 1000)
        wall_ms.append((time.monotonic() - at_wall) * 1000)
        assert isinstance(outcome, Committed), outcome
        table, before = outcome.table, (number + 1) * ROWS
        if number % CARE_EVERY == CARE_EVERY - 1:
            await care.pass_once("bench.ours")
            table = await catalog.load("bench.ours")
    await catalog.close()
    offload.close()
    return {
        "commits": commits,
        "snapshots_at_end": len(table.metadata["snapshots"]),
        "cpu_ms_first_50": round(statistics.fmean(cpu_ms[5:55]), 2),
        "cpu_ms_last_50": round(statistics.fmean(cpu_ms[-50:]), 2),
        "wall_ms_p50": round(statistics.median(wall_ms), 2),
        "data_file_cpu_ms": round(statistics.fmean(file_cpu_ms[5:]), 2),
    }


def pyiceberg_way(server: SeaweedFs, appends: int) -> dict[str, object]:
    catalog = RestCatalog(
        "bench",
        uri=server.catalog,
        **{
            "oauth2-server-uri": server.token_url,
            "credential": f"{ACCESS_KEY}:{SECRET_KEY}",
            "warehouse": server.warehouse,
            "s3.endpoint": server.s3,
            "s3.region": REGION,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
        },
    )
    table = catalog.create_table("bench.theirs", schema=SCHEMA)
    cpu_ms, wall_ms = [], []
    for number in range(appends):
        at_cpu, at_wall = time.process_time(), time.monotonic()
        table.append(rows(number * ROWS))
        cpu_ms.append((time.process_time() - at_cpu) * 1000)
        wall_ms.append((time.monotonic() - at_wall) * 1000)
    return {
        "appends": appends,
        "cpu_ms_first_50": round(statistics.fmean(cpu_ms[5:55]), 2),
        "cpu_ms_last_20": round(statistics.fmean(cpu_ms[-20:]), 2),
        "wall_ms_p50": round(statistics.median(wall_ms), 2),
        "note": "its data file is in these numbers",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--appends", type=int, default=100)
    parser.add_argument("--out")
    options = parser.parse_args()
    with running_seaweedfs() as server:
        result = {"frazil": asyncio.run(ours(server, options.commits)), "pyiceberg": pyiceberg_way(server, options.appends)}
    document = frame("python benchmarks/bench_rest_commits.py", "CPU of a commit through SeaweedFS' REST catalog", result)
    print(result)
    if options.out:
        write(options.out, document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
