"""Landing by one process and by two that share, from a log that is full before: how much faster are two?

    python benchmarks/bench_scale.py [--records 6000000] [--out docs/results/bench-scale.json]

Each process is held to one core. Two loads: one huge topic (eight partitions, one table, one committer: parts of a slice are shared) and
four topics with a table each (tables are shared). Rates are read from snapshots, between the first and last tenth of rows,
so that starting processes and waiting for a lease are left out. Every row is counted at the end.

``ceiling``: two processes at once on two clusters that share nothing, against one alone. It is what two processors of this machine give:
two threads of one core give far less than two cores do.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from confluent_kafka import Producer

from benchmarks.json_events import events
from benchmarks.results import frame, write
from frazil.admin.port import TableDetail
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.tables import open_tables
from frazil.kit.errors import Missing

LOADS = {"one_topic": ("huge",), "four_topics": ("a", "b", "c", "d")}
PARTITIONS = {"one_topic": 8, "four_topics": 2}
LIMIT_S = 600


def frazil(directory: pathlib.Path, *words: str, core: int | None = None, **settings: object) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "FRAZIL_DATA_DIR": str(directory), "FRAZIL_LOG_LEVEL": "warning", "FRAZIL_BROKER_PORT": "19791"}
    environment |= {f"FRAZIL_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "frazil", *words]
    return subprocess.Popen(["taskset", "-c", str(core), *command] if core is not None else command, env=environment)


def stop(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        process.wait(60)


def fill(directory: pathlib.Path, load: str, records: int) -> int:
    """The bytes of the values that are in the log now."""
    broker = frazil(directory, "broker")
    values = events("s", 200_000)
    topics = LOADS[load]
    try:
        time.sleep(3)  # the broker binds its port
        for topic in topics:
            made = frazil(directory, "topic", "create", topic, "--partitions", str(PARTITIONS[load]))
            assert made.wait() == 0
        producer = Producer({"bootstrap.servers": "127.0.0.1:19791", "compression.type": "lz4", "linger.ms": 50, "batch.size": 1_000_000})
        size = 0
        for at in range(records):
            value = values[at % len(values)]
            size += len(value)
            partition = at // 2_000 % PARTITIONS[load]
            while True:
                try:
                    producer.produce(topics[at // 20_000 % len(topics)], value, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
            if at % 10_000 == 0:
                producer.poll(0)
        producer.flush()
    finally:
        stop(broker)
    return size


async def details(directory: pathlib.Path, load: str) -> list[TableDetail]:
    settings = FrazilSettings(data_dir=str(directory))
    async with open_tables(settings) as tables:
        found = []
        for topic in LOADS[load]:
            try:
                found.append(await tables.describe(f"lake.{topic}"))
            except Missing:
                continue  # not there yet
        return found


def landing(directory: pathlib.Path, core: int) -> subprocess.Popen[bytes]:
    return frazil(directory, "land", core=core, landing_share="true", landing_commit_interval_ms=1_000, landing_snapshots_max=10_000)


def apart(directory: pathlib.Path, load: str, records: int) -> float:
    """Records per second of two processes on two copies of the log, together."""
    copies = [directory.with_name(f"{directory.name}-{load}-apart-{core}") for core in range(2)]
    for copy in copies:
        shutil.copytree(directory, copy)
    running = [landing(copy, core) for core, copy in enumerate(copies)]
    begun = time.monotonic()
    found: list[list[TableDetail]] = [[], []]
    try:
        while time.monotonic() - begun < LIMIT_S:
            time.sleep(5)  # as in ``land``
            found = [asyncio.run(details(copy, load)) for copy in copies]
            if all(sum(table.snapshots[-1].total_records for table in tables if table.snapshots) >= records for tables in found):
                break
    finally:
        stop(*running)
        for copy in copies:
            shutil.rmtree(copy)
    return sum(measured(tables, records)["records_per_second"] for tables in found)


def land(directory: pathlib.Path, load: str, processes: int, records: int) -> dict[str, Any]:
    """One run on a copy of the full log."""
    copy = directory.with_name(f"{directory.name}-{load}-{processes}")
    shutil.copytree(directory, copy)
    running = [landing(copy, core) for core in range(processes)]
    begun = time.monotonic()
    found: list[TableDetail] = []
    try:
        while time.monotonic() - begun < LIMIT_S:
            time.sleep(5)  # a look costs a core a third of a second, which the processes should have
            found = asyncio.run(details(copy, load))
            if sum(table.snapshots[-1].total_records for table in found if table.snapshots) >= records:
                break
    finally:
        stop(*running)
        shutil.rmtree(copy)
    return measured(found, records)


def measured(found: list[TableDetail], records: int) -> dict[str, Any]:
    points = sorted((shot.at_ms, shot.added_records) for table in found for shot in table.snapshots)
    reached, window = 0, []
    for at_ms, added in points:
        reached += added
        if records * 0.1 <= reached <= records * 0.9:
            window.append((at_ms, reached))
    (first_ms, first), (last_ms, last) = window[0], window[-1]
    return {"rows": reached, "records_per_second": round((last - first) / (last_ms - first_ms) * 1000), "commits": len(points)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out")
    options = parser.parse_args()
    results: dict[str, Any] = {"records": options.records}
    with tempfile.TemporaryDirectory() as root:
        for load in LOADS:
            directory = pathlib.Path(root) / load
            directory.mkdir()
            size = fill(directory, load, options.records)
            rates: dict[int, list[float]] = {1: [], 2: []}
            lost = 0
            for _ in range(options.rounds):
                for processes in (1, 2):
                    run = land(directory, load, processes, options.records)
                    lost += options.records - run["rows"]
                    rates[processes].append(run["records_per_second"] * size / options.records / 1e6)
                    print(load, processes, run, flush=True)
            one, two = (max(rates[processes]) for processes in (1, 2))
            ceiling = apart(directory, load, options.records) * size / options.records / 1e6 / one
            results[load] = {
                "one_mb_s": round(one, 1), "two_mb_s": round(two, 1), "ratio": round(two / one, 3), "lost_or_doubled": lost,
                "ceiling": round(ceiling, 3), "of_ceiling": round(two / one / ceiling, 3),
                "rounds": {str(processes): [round(rate, 1) for rate in found] for processes, found in rates.items()},
            }  # fmt: skip
            print(load, results[load], flush=True)
            shutil.rmtree(directory)
    results["ceiling_max"] = max(results[load]["ceiling"] for load in LOADS)
    results["of_ceiling_min"] = min(results[load]["of_ceiling"] for load in LOADS)
    results["ratio_min"] = min(results[load]["ratio"] for load in LOADS)
    results["lost_or_doubled"] = sum(results[load]["lost_or_doubled"] for load in LOADS)
    if options.out:
        write(options.out, frame(f"python benchmarks/bench_scale.py --records {options.records}", __doc__ or "", results))


if __name__ == "__main__":
    main()
