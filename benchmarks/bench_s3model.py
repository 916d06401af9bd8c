"""Produce and end-to-end latency, and PUTs per second, on a model of S3 (log-normal PUT p50 60 / p99 300 ms, GET 30 / 150 ms).

    python benchmarks/bench_s3model.py --out docs/results/bench-s3model.json

The broker is the real process (`frazil broker` with its balanced preset, SQLite metadata on disk) whose object store counts its
calls. Producer and consumer are librdkafka with their defaults, each in a process of its own; a record carries the time at which it
was handed to the producer. Three loads:

- ``load_50``: 50 MB/s of 1 KB records into 12 partitions; the model's latencies include the transfer;
- ``link_50``: 20 MB/s into 12 partitions; the transfer comes on top, and all transfers together move 50 MB/s;
- ``partitions_1000``: 5,000 records/s over 1,000 partitions, with the balanced and with the economy preset: what R13 says about
  PUTs holds however many partitions are active.

The figures at the top of the result are those of ``load_50``, and with ``link_`` in front those of ``link_50``.
Latencies count from ``produce()`` to the delivery report, the producer's own linger included. A result is valid when the machine was
idle for at least a tenth of its time.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import multiprocessing
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import results

RECORD = 1024
WARM_UP_S = 6.0
IDLE_LEAST = 0.10
STAMP = 8
PUTS_SLACK = 1.05
"""Second PUTs when the first is slow: one in twenty (R25)."""
PUTS_SAVED = 5
"""As many of them may have been saved up before the count began; and one cut falls on its edge."""


@dataclass(frozen=True)
class Load:
    """One run."""

    name: str
    store: str
    partitions: int
    records_per_s: int
    preset: str = "balanced"


LOADS = (
    Load("load_50", "s3model:memory:?seed=7", 12, 50_000_000 // RECORD),
    Load("link_50", "s3model:memory:?mb_per_s=50&seed=7", 12, 20_000_000 // RECORD),
    Load("partitions_1000", "s3model:memory:?seed=7", 1000, 5_000),
    Load("partitions_1000_economy", "s3model:memory:?seed=7", 1000, 5_000, "economy"),
)
CUTS_PER_S = {"balanced": 1000 / 40, "economy": 1000 / 250}


# --- the broker's process ---------------------------------------------------------------------------------------------


def serve(flags: Sequence[str], counts: str) -> None:
    """`frazil broker`, its object store wrapped so that calls are counted into a file twice a second."""
    from frazil.assembly import stores
    from frazil.assembly.broker import run_broker
    from frazil.assembly.load import load_settings
    from frazil.assembly.loops import run_on_fast_loop

    seen: collections.Counter[str] = collections.Counter()
    open_objects = stores.open_objects

    def counting(url: str, **options: object) -> object:
        store = open_objects(url, **options)
        put, get = store.put_if_absent, store.get

        async def put_if_absent(key: str, data: bytes) -> None:
            seen["put_bundle" if key.startswith("bundles/") else "put_other"] += 1
            seen["put_bytes"] += len(data)
            await put(key, data)

        async def counted_get(key: str, **span: int) -> bytes:
            seen["get"] += 1
            return await get(key, **span)

        store.put_if_absent, store.get = put_if_absent, counted_get  # type: ignore[method-assign]
        return store

    stores.open_objects = counting  # type: ignore[assignment]

    async def tell() -> None:
        late_ms: collections.deque[float] = collections.deque(maxlen=1_000)
        while True:
            part = pathlib.Path(f"{counts}.part")
            late = round(sorted(late_ms)[int(len(late_ms) * 0.99)], 1) if late_ms else 0.0
            part.write_text(json.dumps({"at": time.monotonic(), "late_p99_ms": late, **seen}))
            part.replace(counts)
            for _ in range(25):
                due = time.monotonic() + 0.02
                await asyncio.sleep(0.02)
                late_ms.append((time.monotonic() - due) * 1000)

    async def both() -> None:
        telling = asyncio.create_task(tell())
        try:
            await run_broker(load_settings(config=None, flags=dict(flag.split("=", 1) for flag in flags)).settings, supervised=False)
        finally:
            telling.cancel()

    run_on_fast_loop(both())


@contextmanager
def broker(load: Load, directory: pathlib.Path) -> Iterator[tuple[str, int, Callable[[], dict[str, float]]]]:
    """A running broker: its address, its process id, and how to read its counts."""
    counts = directory / "counts.json"
    flags = [
        f"data_dir={directory}", f"store.objects={load.store}", "broker.port=0", "log_level=warning",
        f"broker.flush_preset={load.preset}",
    ]  # fmt: skip
    command = [sys.executable, __file__, "--serve", str(counts), *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        while line and "listens on" not in line:
            line = process.stderr.readline()
        if not line:
            raise SystemExit("the broker did not start")
        address = line.split()[-1]
        yield address, process.pid, lambda: json.loads(counts.read_text())
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


# --- the clients' processes -------------------------------------------------------------------------------------------


def produce(address: str, load: Load, seconds: float, answer: Connection) -> None:
    """Records at an even rate, round robin over the partitions; sends back the delivery latencies after the warm-up."""
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "queue.buffering.max.messages": 1_000_000})
    took: list[float] = []
    failed: list[object] = []
    filler = os.urandom(RECORD - STAMP)
    began = time.monotonic()
    measured_from = began + WARM_UP_S
    sent = behind = 0

    def delivered_at(at: float) -> Callable[[object, object], None]:
        def delivered(error: object, _: object) -> None:
            if error is not None:
                failed.append(error)
            elif at >= measured_from:
                took.append(time.monotonic() - at)

        return delivered

    every = max(1, load.records_per_s // 5_000)  # latencies of 5,000 records a second are enough
    while (now := time.monotonic()) < began + seconds:
        due = int((now - began) * load.records_per_s)
        behind = max(behind, due - sent)
        for _ in range(min(due - sent, 2_000)):
            now = time.monotonic()
            value = time.time_ns().to_bytes(STAMP, "big") + filler
            partition = sent % load.partitions
            if sent % every:
                producer.produce("load", value, partition=partition)
            else:
                producer.produce("load", value, partition=partition, on_delivery=delivered_at(now))
            sent += 1
        producer.poll(0.001)
    left = producer.flush(60)
    answer.send({"sent": sent, "failed": len(failed) + left, "took": took, "behind_s": behind / load.records_per_s, "cpu_s": own_cpu_s()})


def consume(address: str, load: Load, seconds: float, answer: Connection) -> None:
    """Everything, from the beginning; sends back how old records were when they came, after the warm-up."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition("load", partition, 0) for partition in range(load.partitions)])
    answer.send("ready")
    age: list[float] = []
    count, end, began = 0, time.monotonic() + seconds + 30, 0.0
    target: int | None = None
    while time.monotonic() < end and (target is None or count < target):
        if target is None and answer.poll():
            target = answer.recv()
        messages = consumer.consume(5_000, 0.1)
        now_ns, now = time.time_ns(), time.monotonic()
        began = began or (now if messages else 0.0)
        for message in messages:
            if message.error() is not None:
                raise SystemExit(str(message.error()))
            count += 1
            if now > began + WARM_UP_S and count % 10 == 0:
                age.append((now_ns - int.from_bytes(message.value()[:STAMP], "big")) / 1e9)
    consumer.close()
    answer.send({"received": count, "age": age, "cpu_s": own_cpu_s()})


def own_cpu_s() -> float:
    """What this process has used so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# --- one run ----------------------------------------------------------------------------------------------------------


def idle_and_total() -> tuple[int, int]:
    """Idle ticks and all ticks of the machine so far."""
    ticks = [int(part) for part in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def cpu_s(pid: int) -> float:
    """User and system seconds of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def at(share: float, values: list[float]) -> float:
    """A quantile, in milliseconds."""
    return round(sorted(values)[int(len(values) * share)] * 1000, 1) if values else float("inf")


def measure(load: Load, seconds: float) -> dict[str, Any]:
    """Runs broker, producer and consumer."""
    with tempfile.TemporaryDirectory() as directory, broker(load, pathlib.Path(directory)) as (address, pid, counts):
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic("load", num_partitions=load.partitions)])["load"].result(30)
        consumer_end, consumer_answer = multiprocessing.Pipe()
        producer_end, producer_answer = multiprocessing.Pipe()
        reading = multiprocessing.Process(target=consume, args=(address, load, seconds, consumer_answer))
        reading.start()
        consumer_end.recv()
        time.sleep(1)
        writing = multiprocessing.Process(target=produce, args=(address, load, seconds, producer_answer))
        writing.start()
        time.sleep(WARM_UP_S)
        before, idle, cpu = counts(), idle_and_total(), cpu_s(pid)
        time.sleep(seconds - WARM_UP_S - 1)
        after, idle_after, cpu_after = counts(), idle_and_total(), cpu_s(pid)
        made = producer_end.recv()
        consumer_end.send(made["sent"] - made["failed"])
        seen = consumer_end.recv()
        writing.join()
        reading.join()
    span = after["at"] - before["at"]
    puts = (after["put_bundle"] - before["put_bundle"]) / span
    idle_share = (idle_after[0] - idle[0]) / max(1, idle_after[1] - idle[1])
    return {
        "store": load.store,
        "preset": load.preset,
        "partitions": load.partitions,
        "offered_mb_per_s": round(load.records_per_s * RECORD / 1e6, 1),
        "records": made["sent"],
        "failed": made["failed"],
        "consumed": seen["received"],
        "producer_behind_s": round(made["behind_s"], 2),
        "produce_p50_ms": at(0.50, made["took"]),
        "produce_p99_ms": at(0.99, made["took"]),
        "end_to_end_p50_ms": at(0.50, seen["age"]),
        "end_to_end_p99_ms": at(0.99, seen["age"]),
        "bundle_puts_per_s": round(puts, 2),
        "cuts_per_s_at_most": CUTS_PER_S[load.preset],
        "puts_as_r13_says": int(puts * span <= CUTS_PER_S[load.preset] * span * PUTS_SLACK + PUTS_SAVED),
        "stored_mb_per_s": round((after["put_bytes"] - before["put_bytes"]) / span / 1e6, 1),
        "gets_per_s": round((after.get("get", 0) - before.get("get", 0)) / span, 2),
        "broker_timers_late_p99_ms": after["late_p99_ms"],
        "broker_cores": round((cpu_after - cpu) / (seconds - WARM_UP_S - 1), 2),
        "producer_cores": round(made["cpu_s"] / seconds, 2),
        "consumer_cores": round(seen["cpu_s"] / seconds, 2),
        "cpu_idle_share": round(idle_share, 3),
        "valid": int(idle_share >= IDLE_LEAST),
    }


def main() -> int:
    """Exit code 1 when a run was not valid or lost a record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", default="", help="result file")
    options.add_argument("--seconds", type=float, default=30.0, help="of each load, its warm-up included")
    options.add_argument("--only", default="", help="names of loads, comma-separated")
    options.add_argument("--serve", nargs="+", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.serve:
        serve(given.serve[1:], given.serve[0])
        return 0
    runs = {}
    for load in LOADS:
        if not given.only or load.name in given.only.split(","):
            runs[load.name] = measure(load, given.seconds)
            print(load.name, json.dumps(runs[load.name], indent=1), flush=True)
    keys = ("produce_p50_ms", "produce_p99_ms", "end_to_end_p99_ms")
    headline = {key: runs["load_50"][key] for key in keys if "load_50" in runs}
    headline |= {f"link_{key}": runs["link_50"][key] for key in keys if "link_50" in runs}
    lost = sum(run["records"] - run["consumed"] for run in runs.values())
    summary = {
        **headline,
        "puts_as_r13_says": min(run["puts_as_r13_says"] for run in runs.values()),
        "cpu_idle_share_least": min(run["cpu_idle_share"] for run in runs.values()),
        "valid": min(run["valid"] for run in runs.values()),
        "lost": lost,
        "runs": runs,
    }
    if given.out:
        command = "python benchmarks/bench_s3model.py --out docs/results/bench-s3model.json"
        libraries = {"librdkafka": confluent_kafka.libversion()[0]}
        what = "latency of produce and of produce to consume, PUTs per second, on the S3 model with the balanced preset"
        results.write(given.out, results.frame(command, what, summary, libraries))
    print(json.dumps({key: value for key, value in summary.items() if key != "runs"}, indent=1))
    return 0 if summary["valid"] and not lost else 1


if __name__ == "__main__":
    sys.exit(main())
