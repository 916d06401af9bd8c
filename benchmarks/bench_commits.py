"""Commits to one table, with care running and a foreign reader reading all the time: is the cost flat, is metadata bounded?

    python benchmarks/bench_commits.py                    2,000 commits; writes docs/results/commits.json
    python benchmarks/bench_commits.py --commits 300      the form for CI; writes nothing unless --out is given

CPU is that of the whole process (all threads) during a commit: manifests, manifest list, metadata.json and the catalog's swap, read-backs
included; writing the Parquet file is measured apart. The reader is DuckDB in a process of its own: it takes the pointer from the SQLite
file, scans the whole table and checks that it holds offsets 0..n-1, each once. Exit status 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import platform
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version

import pyarrow as pa

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

ROOT = pathlib.Path(__file__).resolve().parents[1]
IDENT = "bench.commits"
ROWS = 10
CARE_EVERY = 20
RATIO_MAX = 1.3
CPU_MS_MAX = 20.0


def objects_bound(settings: CareSettings, per_second: float) -> int:
    """Kept: two objects per kept snapshot and the metadata log. On their way out: what the grace plus two passes of care see."""
    keep = settings.keep
    kept = 2 * (keep.last + keep.hours + keep.days + settings.expire_batch + CARE_EVERY) + 2 * settings.manifests_max + 21
    return int(kept + 4 * (per_second * settings.metadata_grace_ms / 1000 + 2 * CARE_EVERY)) + 50


def reader(catalog_file: str, stop_file: str) -> int:
    """Reads until the stop file appears; prints what it saw as JSON."""
    import duckdb
    import duckdb_extension_avro
    import duckdb_extension_iceberg

    reads, errors, last = 0, [], 0
    connection = duckdb.connect(config={"threads": 1})
    for module in (duckdb_extension_avro, duckdb_extension_iceberg):
        connection.execute(f"LOAD '{next(pathlib.Path(module.__file__).parent.rglob('*.duckdb_extension'))}'")
    while not pathlib.Path(stop_file).exists():
        catalog = sqlite3.connect(f"file:{catalog_file}?mode=ro", uri=True, timeout=30)
        (location,) = catalog.execute("SELECT metadata_location FROM iceberg_tables").fetchone()
        catalog.close()
        try:
            query = f"SELECT count(*), coalesce(sum(_offset), 0), count(DISTINCT _offset) FROM iceberg_scan('{location}')"
            count, total, distinct = connection.execute(query).fetchone()
            if count != distinct or total != count * (count - 1) // 2 or count < last:
                errors.append(f"count {count}, distinct {distinct}, sum {total}, before {last}")
            last = count
        except duckdb.Error as error:
            errors.append(str(error)[:300])
        reads += 1
    print(json.dumps({"reads": reads, "errors": errors[:5], "error_count": len(errors), "last_count": last}))
    return 0


class Measured:
    """Series of one run."""

    def __init__(self) -> None:
        self.commit_cpu_ms: list[float] = []
        self.commit_wall_ms: list[float] = []
        self.write_cpu_ms: list[float] = []
        self.care_cpu_ms: list[float] = []
        self.objects: list[int] = []


async def run(folder: pathlib.Path, commits: int, settings: CareSettings) -> tuple[Measured, float]:
    offload = ThreadOffload("bench", threads_max=2)
    objects = open_objects(f"file://{folder}/objects", offload=offload, clock=SystemClock())
    deps = CatalogDeps(objects=objects, offload=offload, clock=SystemClock(), chance=random.Random(7), faults=FaultPoints())
    catalog = open_catalog(f"sql://{folder}/catalog.db", deps)
    schema = pa.schema(
        [("_offset", pa.int64()), ("_timestamp", pa.timestamp("us", tz="UTC")), ("kind", pa.string()), ("price", pa.float64())]
    )
    table = await catalog.create(IDENT, CreateTable(schema=schema))
    committer, writer = Committer(catalog, deps), FileWriter(deps)
    care = Care(committer, settings)
    key = SourcePartition("bench/1", TopicId(bytes(16)), 0)
    seen = Measured()
    before: int | None = None
    started = time.monotonic()
    for number in range(commits):
        start = number * ROWS
        rows = pa.table(
            {
                "_offset": list(range(start, start + ROWS)),
                "_timestamp": [1_700_000_000_000_000 + start + at for at in range(ROWS)],
                "kind": [f"kind-{at % 3}" for at in range(ROWS)],
                "price": [at * 1.5 for at in range(ROWS)],
            },
            schema=None,
        ).cast(schema)
        cpu = time.process_time()
        (file,) = await writer.write(table, rows)
        mid_cpu, mid_wall = time.process_time(), time.monotonic()
        outcome = await committer.commit(Landed(base=table, files=[file], moves={key: Move(before, start + ROWS)}))
        end_cpu = time.process_time()
        assert isinstance(outcome, Committed), outcome
        table, before = outcome.table, start + ROWS
        seen.write_cpu_ms.append((mid_cpu - cpu) * 1000)
        seen.commit_cpu_ms.append((end_cpu - mid_cpu) * 1000)
        seen.commit_wall_ms.append((time.monotonic() - mid_wall) * 1000)
        if number % CARE_EVERY == CARE_EVERY - 1:
            await care.pass_once(IDENT)
            seen.care_cpu_ms.append((time.process_time() - end_cpu) * 1000)
            seen.objects.append(sum(1 for _ in (pathlib.Path(table.location.removeprefix("file://")) / "metadata").iterdir()))
            table = await catalog.load(IDENT)
    took = time.monotonic() - started
    offload.close()
    return seen, took


def summary(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "mean": round(statistics.fmean(values), 2),
        "p50": round(statistics.median(values), 2),
        "p99": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 2),
        "max": round(ordered[-1], 2),
    }


def machine() -> dict[str, object]:
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    names = (
        [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        if cpuinfo.exists()
        else []
    )
    return {
        "cpu": names[0] if names else platform.processor(),
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("pyarrow", "pyiceberg", "duckdb")},
    }


def git_commit() -> str:
    found = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def measure(commits: int, settings: CareSettings) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="bench-commits-") as name:
        folder = pathlib.Path(name)
        watching = None
        stop = folder / "stop"

        async def both() -> tuple[Measured, float]:
            nonlocal watching
            task = asyncio.create_task(run(folder, commits, settings))
            while not task.done() and not _has_table(folder / "catalog.db"):
                await asyncio.sleep(0.05)
            command = [sys.executable, __file__, "--reader", str(folder / "catalog.db"), str(stop)]
            watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            return await task

        try:
            seen, took = asyncio.run(both())
        finally:
            stop.touch()
            if watching is not None:
                try:
                    read, _ = watching.communicate(timeout=120)
                except subprocess.TimeoutExpired:
                    watching.send_signal(signal.SIGKILL)
                    raise
    return report(commits, settings, seen, took, json.loads(read))


def _has_table(path: pathlib.Path) -> bool:
    if not path.exists():
        return False
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)
    try:
        return connection.execute("SELECT count(*) FROM iceberg_tables").fetchone()[0] > 0
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()


def report(commits: int, settings: CareSettings, seen: Measured, took: float, read: dict[str, object]) -> dict[str, object]:
    early, late = seen.commit_cpu_ms[50:250], seen.commit_cpu_ms[-200:] if commits >= 450 else seen.commit_cpu_ms[-50:]
    ratio = statistics.fmean(late) / statistics.fmean(early)
    bound = objects_bound(settings, commits / took)
    checks = {
        f"commit CPU of the last {len(late)} over commits 50-250 at most {RATIO_MAX}": ratio <= RATIO_MAX,
        f"mean commit CPU of the last {len(late)} at most {CPU_MS_MAX} ms": statistics.fmean(late) <= CPU_MS_MAX,
        f"objects in metadata/ never above {bound}": max(seen.objects) <= bound,
        "the reader saw no error": read["error_count"] == 0,
        "the reader read": int(str(read["reads"])) > 0,
    }
    return {
        "what": "commits to one table, file store and SQL catalog, care every 20 commits, one DuckDB reader process",
        "command": f"python benchmarks/bench_commits.py --commits {commits}",
        "git_commit": git_commit(),
        "machine": machine(),
        "commits": commits,
        "rows_per_commit": ROWS,
        "seconds": round(took, 1),
        "commit_cpu_ms_50_250": summary(early),
        "commit_cpu_ms_last": summary(late),
        "ratio": round(ratio, 3),
        "commit_wall_ms": summary(seen.commit_wall_ms[1:]),
        "parquet_write_cpu_ms": summary(seen.write_cpu_ms[1:]),
        "care_cpu_ms_per_pass": summary(seen.care_cpu_ms),
        "metadata_objects": {"max": max(seen.objects), "last": seen.objects[-1], "every_200_commits": seen.objects[9::10]},
        "metadata_grace_ms": settings.metadata_grace_ms,
        "reader": read,
        "checks": checks,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=2_000)
    parser.add_argument("--grace-ms", type=int, help="care.metadata_grace_ms; default 5,000, for short runs 1,000")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--reader", nargs=2, metavar=("CATALOG", "STOP"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.reader:
        return reader(*given.reader)
    found = measure(given.commits, CareSettings(metadata_grace_ms=given.grace_ms or (5_000 if given.commits >= 2_000 else 1_000)))
    text = json.dumps(found, indent=2)
    print(text)
    out = given.out or (ROOT / "docs" / "results" / "commits.json" if given.commits >= 2_000 else None)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")
    checks = found["checks"]
    assert isinstance(checks, dict)
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
