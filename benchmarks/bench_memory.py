"""Peak memory of a broker and of a landing process under load, beside the sum of their named bounds.

    python benchmarks/bench_memory.py --out docs/results/bench-memory.json

Each process is real (`frazil broker`, `frazil land`) on file store, SQLite and SQL catalog. Its memory at rest is measured before
the load and counted as a bound of its own ("at rest"). The load is meant to fill every bound:

- broker: connections that send whole batches as fast as they can without waiting for answers, others that ask for large fetches
  and read the answers slowly, while sealing runs all the time;
- landing: several topics with a backlog of JSON, landed at once.

Both run twice, with large and with small bounds: the peak must keep to the sum in both, and be smaller with the small ones.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks import results
from frazil.assembly.load import load_settings
from frazil.assembly.memory import broker_bounds, landing_bounds
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record
from frazil.wire.client import encode_request
from frazil.wire.frame import RequestHeader, encode_request_frame
from frazil.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from frazil.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MIB = 1024 * 1024
PARTITIONS = 8
LARGE = {
    "broker.request_bytes_max": 16 * MIB,
    "broker.requests_bytes_max": 256 * MIB,
    "broker.buffer_bytes_max": 128 * MIB,
    "broker.fetches_bytes_max": 128 * MIB,
    "broker.cache_bytes": 128 * MIB,
    "broker.seal_bytes_max": 192 * MIB,
    "landing.slice_bytes_max": 64 * MIB,
    "landing.slices_bytes_max": 640 * MIB,
    "landing.cache_bytes": 64 * MIB,
}
SMALL = {
    "broker.request_bytes_max": 16 * MIB,
    "broker.requests_bytes_max": 64 * MIB,
    "broker.buffer_bytes_max": 32 * MIB,
    "broker.fetches_bytes_max": 32 * MIB,
    "broker.cache_bytes": 32 * MIB,
    "broker.seal_bytes_max": 48 * MIB,
    "broker.segment_bytes": 16 * MIB,
    "landing.slice_bytes_max": 8 * MIB,
    "landing.slices_bytes_max": 80 * MIB,
    "landing.cache_bytes": 16 * MIB,
}
STEADY = {"broker.upkeep_interval_ms": 1_000, "broker.seal_age_ms": 5_000, "landing.commit_interval_ms": 1_000}


@dataclass
class Process:
    """One of our processes, and its memory."""

    verb: str
    port: int
    popen: subprocess.Popen[str]
    at_rest: int = 0

    def resident(self, what: str) -> int:
        """Bytes by /proc: VmRSS now, VmHWM at the highest."""
        for line in pathlib.Path(f"/proc/{self.popen.pid}/status").read_text().splitlines():
            if line.startswith(what):
                return int(line.split()[1]) * 1024
        raise SystemExit(f"{self.verb} ended under load")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def flags(values: dict[str, Any]) -> list[str]:
    return [word for name, value in values.items() for word in ("-s", f"{name}={value}")]


@contextlib.contextmanager
def running(verb: str, directory: str, port: int, values: dict[str, Any]) -> Iterator[Process]:
    """``frazil broker`` or ``frazil land`` until the block ends."""
    every = {"data_dir": directory, "broker.port": port, "broker.default_partitions": PARTITIONS, **STEADY, **values}
    with open(f"{directory}/{verb}.log", "a") as log:
        popen = subprocess.Popen([sys.executable, "-m", "frazil", verb, *flags(every)], stdout=log, stderr=log, text=True)
    process = Process(verb=verb, port=port, popen=popen)
    try:
        time.sleep(4)
        process.at_rest = process.resident("VmRSS")
        yield process
    finally:
        popen.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            popen.wait(40)
        popen.kill()


def produce_frame(topic: str, partition: int, seed: int) -> bytes:
    """A produce request with four megabytes that do not compress, in one batch."""
    chance = random.Random(seed)
    records = [Record(key=None, value=chance.randbytes(1024), timestamp_ms=1_700_000_000_000, headers=()) for _ in range(4096)]
    batch = build_batch(records, options=BatchOptions())
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    body = encode_request(0, 9, ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data]))
    return bytes(encode_request_frame(RequestHeader(0, 9, 1, "flood", 0), body))


def fetch_frame(topic: str) -> bytes:
    partitions = [FetchPartition(partition=at, fetch_offset=0, partition_max_bytes=8 * MIB) for at in range(PARTITIONS)]
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=50 * MIB, topics=[FetchTopic(topic=topic, partitions=partitions)]
    )
    return bytes(encode_request_frame(RequestHeader(1, 11, 1, "slow", 0), encode_request(1, 11, request)))


@dataclass
class Flood:
    """Connections that do not wait. Every thread ends at ``stop_at``."""

    port: int
    topic: str
    stop_at: float
    sent_bytes: int = 0
    read_bytes: int = 0
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self, senders: int, readers: int) -> None:
        for number in range(senders):
            self.threads.append(threading.Thread(target=self._send, args=(produce_frame(self.topic, number % PARTITIONS, number),)))
        for _ in range(readers):
            self.threads.append(threading.Thread(target=self._read_slowly, args=(fetch_frame(self.topic),)))
        for thread in self.threads:
            thread.start()

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.settimeout(1.0)
        return connection

    def _send(self, frame: bytes) -> None:
        with self._connect() as connection, contextlib.suppress(OSError):
            drain = threading.Thread(target=self._drain, args=(connection,))
            drain.start()
            while time.monotonic() < self.stop_at:
                view = memoryview(frame)
                while view and time.monotonic() < self.stop_at:
                    with contextlib.suppress(TimeoutError):
                        view = view[connection.send(view) :]
                self.sent_bytes += len(frame)
            drain.join()

    def _drain(self, connection: socket.socket) -> None:
        while time.monotonic() < self.stop_at:
            with contextlib.suppress(TimeoutError):
                if not connection.recv(65536):
                    return

    def _read_slowly(self, frame: bytes) -> None:
        with self._connect() as connection, contextlib.suppress(OSError):
            connection.sendall(frame * 4)
            while time.monotonic() < self.stop_at:
                with contextlib.suppress(TimeoutError):
                    self.read_bytes += len(connection.recv(MIB))
                time.sleep(0.05)


def load_broker(values: dict[str, Any], seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="frazil-memory-") as directory:
        port = free_port()
        with running("broker", directory, port, values) as broker:
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
            admin.create_topics([NewTopic("flood", PARTITIONS, config={"max.message.bytes": str(8 * MIB)})])["flood"].result()
            flood = Flood(port=port, topic="flood", stop_at=time.monotonic() + seconds)
            flood.start(senders=16, readers=16)
            for thread in flood.threads:
                thread.join()
            return judged(broker, values, {"sent_mb": flood.sent_bytes // 10**6, "read_mb": flood.read_bytes // 10**6})


def load_landing(values: dict[str, Any], topics: int, records: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="frazil-memory-") as directory:
        port = free_port()
        with running("broker", directory, port, {**values, "broker.seal_age_ms": 600_000}):
            fill(port, ["small"], 1_000)
            with running("land", directory, port, values) as idle:
                wait_until_landed(directory, ["small"], 1_000)
                time.sleep(2)
                at_rest = idle.resident("VmRSS")  # with every library loaded that landing one table takes
            names = [f"events{number}" for number in range(topics)]
            fill(port, names, records)
            with running("land", directory, port, values) as land:
                land.at_rest = at_rest
                rows = wait_until_landed(directory, names, records)
                return judged(land, values, {"topics": topics, "records_each": records, "rows": rows})


def fill(port: int, topics: list[str], records: int) -> None:
    """A backlog of 1 KB JSON events, lz4, in each topic."""
    chance = random.Random(1)
    texts = ["".join(chance.choices("abcdefghij klmnop", k=200)) for _ in range(64)]
    producer = Producer({
        "bootstrap.servers": f"127.0.0.1:{port}", "compression.type": "lz4", "linger.ms": 50, "queue.buffering.max.messages": 500_000
    })  # fmt: skip
    for topic in topics:
        for number in range(records):
            words = ",".join(f'"t{at}":"{texts[(number + at) % 64]}"' for at in range(4))
            value = f'{{"id":{number},"price":{number * 0.01:.2f},"at":"2026-01-02T03:04:05Z",{words}}}'
            while True:
                try:
                    producer.produce(topic, value)
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)
    if producer.flush(120):
        raise SystemExit("the backlog was not produced")


def wait_until_landed(directory: str, topics: list[str], records: int) -> int:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import NoSuchTableError

    end = time.monotonic() + 600
    while time.monotonic() < end:
        time.sleep(2)
        with contextlib.suppress(NoSuchTableError, AttributeError, OSError):
            catalog = SqlCatalog("frazil", uri=f"sqlite:///{directory}/catalog.db")
            tables = [catalog.load_table(f"lake.{topic}") for topic in topics]
            rows = sum(int(table.current_snapshot().summary["total-records"]) for table in tables)
            if rows == len(topics) * records:
                return rows
    raise SystemExit("the backlog was not landed in ten minutes")


def judged(process: Process, values: dict[str, Any], load: dict[str, Any]) -> dict[str, Any]:
    settings = load_settings(config=None, flags={name: str(value) for name, value in values.items()}).settings
    bounds = (broker_bounds if process.verb == "broker" else landing_bounds)(settings)
    named = {"at rest": process.at_rest, **{bound.setting: bound.bytes_max for bound in bounds}}
    peak = process.resident("VmHWM")
    return {
        "bounds_mib": {name: round(size / MIB, 1) for name, size in named.items()},
        "sum_mib": round(sum(named.values()) / MIB, 1),
        "peak_mib": round(peak / MIB, 1),
        "ratio": round(peak / sum(named.values()), 3),
        "load": load,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--topics", type=int, default=6)
    parser.add_argument("--records", type=int, default=150_000)
    parser.add_argument("--only", choices=("broker", "landing"))
    parser.add_argument("--out")
    options = parser.parse_args()
    os.environ["PYTHONUNBUFFERED"] = "1"
    found: dict[str, Any] = {}
    for name, values in (("large", LARGE), ("small", SMALL)):
        if options.only != "landing":
            found[f"broker_{name}"] = load_broker(values, options.seconds)
            print(f"broker {name}: {found[f'broker_{name}']}", flush=True)
        if options.only != "broker":
            found[f"landing_{name}"] = load_landing(values, options.topics, options.records)
            print(f"landing {name}: {found[f'landing_{name}']}", flush=True)
    for process in ("broker", "landing"):
        if f"{process}_small" in found:
            found[f"{process}_lowered"] = round(found[f"{process}_small"]["peak_mib"] / found[f"{process}_large"]["peak_mib"], 3)
    found["ratio_max"] = max(part["ratio"] for part in found.values() if isinstance(part, dict))
    if options.out:
        what = "peak resident memory of broker and landing under load, beside the sum of their named bounds"
        results.write(options.out, results.frame("python benchmarks/bench_memory.py", what, found))


if __name__ == "__main__":
    main()
