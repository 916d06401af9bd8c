"""How fast producers are served: librdkafka with its defaults, and single-record idempotent requests; then every record is counted.

    python benchmarks/bench_produce.py --out docs/results/bench-produce.json
    python benchmarks/bench_produce.py --rounds 1 --seconds 2 --without-peer     a quick look

Each round starts a fresh broker (memory objects, SQLite metadata with synchronous=FULL, CRC checked) and runs, one after the other:
``frazil-load``: 50 connections with 5 single-record idempotent requests in flight each, every answer checked (``single``);
confluent-kafka with nothing set but its servers, 1 KB records; librdkafka's own ``rdkafka_performance``, plain and idempotent; the
single-record requests once more (``later``), while our broker seals the gigabytes the others left, in the same process and memory; then
``frazil-load count`` reads every topic from its first to its last record and counts. The peer gets the same clients with the same flags
in the same run. Results are the medians of the rounds. Wants two idle cores: one for the broker, one for the client.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from confluent_kafka import Producer, libversion

from benchmarks.brokers import TANSU, Broker, frazil, load_binary, measured, performance_binary, run_load, tansu, tansu_binary
from benchmarks.results import frame, write

VALUE = b"x" * 1024
CONNECTIONS = 50
IN_FLIGHT = 5
BULK_TOPICS = ("confluent", "performance", "idempotent")


def confluent(broker: Broker, topic: str, seconds: float) -> tuple[int, int]:
    """confluent-kafka, defaults, through its batch call. Whether everything arrived is told by the count at the end."""
    producer = Producer({"bootstrap.servers": broker.address})
    messages = [{"value": VALUE} for _ in range(1000)]
    count = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        taken = producer.produce_batch(topic, [dict(message) for message in messages])
        count += taken
        producer.poll(0 if taken == len(messages) else 0.01)
    if producer.flush(60):
        raise SystemExit(f"{broker.name}: {topic}: records were not delivered in a minute")
    return count, count * len(VALUE)


def performance(broker: Broker, binary: pathlib.Path, topic: str, count: int, *settings: str) -> tuple[int, int]:
    """librdkafka's own program: ``count`` records, defaults but for ``settings``."""
    command = [str(binary), "-P", "-q", "-t", topic, "-b", broker.address, "-c", str(count), "-s", str(len(VALUE))]
    for setting in settings:
        command += ["-X", setting]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not re.search(rf"\b{count} delivered|\|\s+{count}\s+\|", done.stdout + done.stderr):
        print((done.stdout + done.stderr)[-500:], file=sys.stderr)
    return count, count * len(VALUE)


def single(broker: Broker, topic: str, seconds: float) -> dict[str, Any]:
    """Idempotent requests of one record: how many were answered, and how fast."""
    report: dict[str, Any] = {}

    def load() -> tuple[int, int]:
        flags = {"connections": CONNECTIONS, "in_flight": IN_FLIGHT, "bytes": len(VALUE), "seconds": seconds}
        report.update(run_load(broker, "produce", topic, **flags))
        return report["requests"], report["bytes"]

    found: dict[str, Any] = measured(broker, load)
    found |= {"per_second": report["requests_per_second"], "p50_ms": report["p50_ms"], "p99_ms": report["p99_ms"]}
    return found


def round_of(make: Callable[[], AbstractContextManager[Broker]], seconds: float, program: pathlib.Path | None) -> dict[str, Any]:
    """All loads against one fresh broker, and the count of all they were acknowledged."""
    with make() as broker:
        broker.create(*BULK_TOPICS, "single", "later")
        found: dict[str, Any] = {"single": single(broker, "single", seconds)}
        found["confluent"] = measured(broker, lambda: confluent(broker, "confluent", seconds))
        count = max(100_000, round(found["confluent"]["per_second"] * seconds / 100_000) * 100_000)
        if program is not None:
            found["performance"] = measured(broker, lambda: performance(broker, program, "performance", count))
            safe = "enable.idempotence=true"
            found["idempotent"] = measured(broker, lambda: performance(broker, program, "idempotent", count // 2, safe))
        found["later"] = single(broker, "later", seconds)
        counted = {name: run_load(broker, "count", name, check_crc=1)["records"] for name in found}
        found["acknowledged"] = sum(int(found[name]["units"]) for name in counted)
        found["counted"] = sum(counted.values())
        found["miscounted"] = [name for name in counted if counted[name] != found[name]["units"]]
        found["broker_rss_mb"] = broker.rss_mb()
        if broker.name == "frazil":
            found["metadata"] = metadata_of(broker)
        return found


def metadata_of(broker: Broker) -> dict[str, Any]:
    """What SQLite was told to do for this broker's file, asked through the call the broker opens it with, and its commits so far."""
    from frazil.metadata.sqlite_file import open_file

    connection = open_file(broker.directory / "metadata.db")
    try:
        journal, synchronous = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous"))
        commits = connection.execute("SELECT revision FROM meta").fetchone()[0]
    finally:
        connection.close()
    if (journal, synchronous) != ("wal", 2):
        raise SystemExit(f"SQLite runs with journal_mode={journal}, synchronous={synchronous}; FULL (2) was promised")
    return {"journal_mode": journal, "synchronous": "FULL", "commits": commits}


def median_of(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of numbers, sums of counts, the rest of the last round."""
    last = rounds[-1]
    found: dict[str, Any] = {}
    for name, value in last.items():
        if isinstance(value, dict):
            found[name] = median_of([one[name] for one in rounds])
        elif name in ("acknowledged", "counted"):
            found[name] = sum(one[name] for one in rounds)
        elif isinstance(value, int | float):
            found[name] = statistics.median([one[name] for one in rounds])
        elif isinstance(value, list):
            found[name] = [item for one in rounds for item in one[name]]
        else:
            found[name] = value
    return found


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-peer", action="store_true")
    parser.add_argument("--without-program", action="store_true", help="leave rdkafka_performance out")
    parser.add_argument("--out", default="")
    given = parser.parse_args()
    load_binary()
    program = None if given.without_program else performance_binary()
    makers: dict[str, Callable[[], AbstractContextManager[Broker]]] = {"frazil": frazil}
    if not given.without_peer:
        tansu_binary()
        makers["tansu"] = tansu
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in makers}
    for number in range(given.rounds):
        for name, make in makers.items():
            found = round_of(make, given.seconds, program)
            rounds[name].append(found)
            shown = {load: value["mb_per_second"] for load, value in found.items() if isinstance(value, dict) and "units" in value}
            line = f"round {number + 1}, {name}: MB/s {shown}, {found['single']['per_second']} requests/s"
            print(line, file=sys.stderr, flush=True)
    results: dict[str, Any] = {name: median_of(several) | {"rounds": several} for name, several in rounds.items()}
    ours = results["frazil"]
    bulk = [name for name in ("confluent", "performance") if name in ours]
    results["produce_mb_per_second"] = max(ours[name]["mb_per_second"] for name in bulk)
    results["single_requests_per_second"] = ours["single"]["per_second"]
    results["uncounted"] = ours["acknowledged"] - ours["counted"]
    results["sqlite_full"] = int(ours["metadata"]["synchronous"] == "FULL")
    more = {"librdkafka": libversion()[0], "tansu": TANSU}
    what = "producers: librdkafka with its defaults, single-record idempotent requests"
    document = frame("python benchmarks/bench_produce.py", what, results, more)
    if given.out:
        write(given.out, document)
    print({name: value for name, value in results.items() if not isinstance(value, dict)})
    return 1 if ours["miscounted"] else 0


if __name__ == "__main__":
    sys.exit(main())
