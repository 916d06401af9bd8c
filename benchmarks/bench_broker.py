"""The broker as clients feel it: produce and consume through librdkafka, and single-record idempotent requests from a raw client.

    python benchmarks/bench_broker.py                      memory stores
    python benchmarks/bench_broker.py --stores file        fsynced files and SQLite in a fresh directory
    python benchmarks/bench_broker.py --out docs/results/broker.json

The broker runs in a process of its own; its CPU is read from /proc around each load. The raw client holds 50 connections with
5 requests in flight each; it patches sequence number, correlation id and CRC of a prepared frame, so that it costs less than the
broker. Records are 1 KB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import platform
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from crc32c import crc32c

from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record
from frazil.wire.client import encode_request
from frazil.wire.frame import RequestHeader, encode_request_frame
from frazil.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ROOT = pathlib.Path(__file__).resolve().parents[1]
VALUE = b"x" * 1024
CONNECTIONS = 50
IN_FLIGHT = 5
PARTITIONS = 8
_BATCH_CRC = 17
_BATCH_ATTRIBUTES = 21
_BATCH_SEQUENCE = 53


async def serve(stores: str, directory: str) -> None:
    """The broker's process: prints its port, runs until it is killed."""
    import random

    from frazil.broker import Broker, BrokerDeps, BrokerSettings
    from frazil.kit.clock import SystemClock
    from frazil.kit.faultpoints import FaultPoints
    from frazil.kit.tasks import ThreadOffload
    from frazil.log.append import AppendDeps, Appender, FlushPolicy
    from frazil.log.cache import BlockCache
    from frazil.log.index import LogIndex
    from frazil.log.read import LogReader
    from frazil.metadata import open_metadata
    from frazil.metadata.topics import Topics
    from frazil.objects.opening import open_objects

    clock, chance, faults, offload = SystemClock(), random.Random(1), FaultPoints(), ThreadOffload("bench")
    urls = ("memory:", "memory:") if stores == "memory" else (f"sqlite://{directory}/metadata.db", f"file://{directory}/objects")
    store = open_metadata(urls[0], clock=clock)
    objects = open_objects(urls[1], offload=offload, clock=clock)
    index = LogIndex(store, shards=64)
    cache = BlockCache(256 * 1024 * 1024)
    append_deps = AppendDeps(store=store, objects=objects, index=index, clock=clock, chance=chance, faults=faults, cache=cache)
    appender = Appender(append_deps, FlushPolicy(buffer_bytes_max=256 * 1024 * 1024))
    reader = LogReader(objects, index, cache, offload=offload)

    async def no_delete(key: object, before: int) -> int:
        return before

    deps = BrokerDeps(
        clock=clock,
        chance=chance,
        faults=faults,
        store=store,
        topics=Topics(store, clock, chance),
        index=index,
        appender=appender,
        reader=reader,
        delete_records=no_delete,
    )
    broker = Broker(BrokerSettings(port=0), deps)
    tasks = [asyncio.create_task(appender.run()), asyncio.create_task(index.follow())]
    await broker.start()
    print(broker.port, flush=True)
    await asyncio.gather(broker.run(), *tasks)


def cpu_s(pid: int) -> float:
    """User and system seconds of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(pid: int, load: Callable[[], tuple[int, int]]) -> dict[str, float]:
    """Runs ``load`` → (units, bytes); rates, and the broker's CPU per unit and per GB."""
    cpu, began = cpu_s(pid), time.perf_counter()
    units, size = load()
    took, cpu = time.perf_counter() - began, cpu_s(pid) - cpu
    return {
        "units": units,
        "seconds": round(took, 2),
        "per_second": round(units / took),
        "mb_per_second": round(size / took / 1e6, 1),
        "broker_cores": round(cpu / took, 2),
        "broker_us_per_unit": round(cpu / max(1, units) * 1e6, 1),
        "broker_cpu_s_per_gb": round(cpu / (size / 1e9), 2),
    }


def produce(address: str, topic: str, seconds: float) -> tuple[int, int]:
    """librdkafka with its own defaults, all partitions."""
    producer = Producer({"bootstrap.servers": address, "queue.buffering.max.messages": 200_000})
    failed: list[object] = []
    count = 0
    end = time.perf_counter() + seconds

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    while time.perf_counter() < end:
        for _ in range(1000):
            try:
                producer.produce(topic, VALUE, on_delivery=delivered)
                count += 1
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush(60)
    if failed:
        raise SystemExit(f"{len(failed)} records failed: {failed[0]}")
    return count, count * len(VALUE)


def consume(address: str, topic: str, count: int) -> tuple[int, int]:
    """librdkafka from the beginning until ``count`` records have come."""
    consumer = Consumer({
        "bootstrap.servers": address,
        "group.id": "bench",
        "enable.auto.commit": False,
        "queued.max.messages.kbytes": 262_144,
        "fetch.queue.backoff.ms": 10,
    })
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    seen = 0
    end = time.perf_counter() + 60
    while seen < count and time.perf_counter() < end:
        seen += len(consumer.consume(10_000, 0.5))
    consumer.close()
    return seen, seen * len(VALUE)


class RawProducer(asyncio.Protocol):
    """Keeps ``IN_FLIGHT`` single-record idempotent requests open on one connection."""

    def __init__(self, topic: str, number: int, stop_at: float) -> None:
        options = BatchOptions(producer_id=1_000_000 + number, producer_epoch=0, base_sequence=0)
        record = Record(key=None, value=VALUE, timestamp_ms=1_700_000_000_000)
        batch = build_batch([record], options=options)
        partition = PartitionProduceData(index=number % PARTITIONS, records=batch)
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[partition])])
        body = encode_request(0, 9, request)
        self._frame = bytearray(encode_request_frame(RequestHeader(0, 9, 0, "raw", 0), body))
        self._batch = self._frame.find(batch)
        self._batch_end = self._batch + len(batch)
        self._sequence = 0
        self._stop_at = stop_at
        self._pending = b""
        self._sent_at: dict[int, float] = {}
        self.latencies_ms: list[float] = []
        self.done = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._send(IN_FLIGHT)

    def _send(self, count: int) -> None:
        frame, batch = self._frame, self._batch
        out = bytearray()
        now = time.perf_counter()
        for _ in range(count):
            struct.pack_into(">i", frame, 8, self._sequence)
            struct.pack_into(">i", frame, batch + _BATCH_SEQUENCE, self._sequence)
            crc = crc32c(memoryview(frame)[batch + _BATCH_ATTRIBUTES : self._batch_end])
            struct.pack_into(">I", frame, batch + _BATCH_CRC, crc)
            self._sent_at[self._sequence] = now
            self._sequence += 1
            out += frame
        if self._transport is not None:
            self._transport.write(out)

    def data_received(self, data: bytes) -> None:
        data = self._pending + data
        at = answered = 0
        now = time.perf_counter()
        while len(data) - at >= 4:
            size = int.from_bytes(data[at : at + 4], "big")
            if len(data) - at - 4 < size:
                break
            correlation = int.from_bytes(data[at + 4 : at + 8], "big")
            code = struct.unpack_from(">h", data, at + 4 + 4 + 1 + 1 + 1 + len(b"single") + 1 + 4)[0]
            if code:
                self.done.set_exception(SystemExit(f"a request failed with code {code}"))
                return
            self.latencies_ms.append((now - self._sent_at.pop(correlation)) * 1000)
            at += 4 + size
            answered += 1
        self._pending = data[at:]
        if now < self._stop_at:
            self._send(answered)
        elif not self._sent_at and not self.done.done():
            self.done.set_result(None)


async def raw_load(port: int, topic: str, seconds: float) -> list[float]:
    """All raw connections for ``seconds``; the latencies."""
    loop = asyncio.get_running_loop()
    stop_at = time.perf_counter() + seconds
    pairs = [await loop.create_connection(lambda n=n: RawProducer(topic, n, stop_at), "127.0.0.1", port) for n in range(CONNECTIONS)]
    await asyncio.gather(*(protocol.done for _, protocol in pairs))
    for transport, _ in pairs:
        transport.close()
    return sorted(latency for _, protocol in pairs for latency in protocol.latencies_ms)


def run(stores: str, seconds: float) -> dict[str, Any]:
    """All loads against one broker."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, __file__, "--serve", stores, "--directory", directory]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        try:
            if server.stdout is None:
                raise SystemExit("the broker has no output")
            port = int(server.stdout.readline())
            address = f"127.0.0.1:{port}"
            admin = AdminClient({"bootstrap.servers": address})
            for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("bulk1", "single")]).values():
                future.result(10)
            results: dict[str, Any] = {}
            results["produce"] = measured(server.pid, lambda: produce(address, "bulk1", seconds))
            count = int(results["produce"]["units"])
            results["consume"] = measured(server.pid, lambda: consume(address, "bulk1", count))
            latencies: list[float] = []

            def single() -> tuple[int, int]:
                latencies.extend(asyncio.run(raw_load(port, "single", seconds)))
                return len(latencies), len(latencies) * len(VALUE)

            results["single"] = measured(server.pid, single)
            results["single"]["p50_ms"] = round(latencies[len(latencies) // 2], 2)
            results["single"]["p99_ms"] = round(latencies[len(latencies) * 99 // 100], 2)
            return results
        finally:
            server.kill()
            server.wait()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", default="")
    parser.add_argument("--directory", default="")
    parser.add_argument("--stores", choices=("memory", "file"), default="memory")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--out", default="")
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.serve, given.directory))
        return
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False).stdout.strip()
    report = {
        "commit": commit,
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "load_before": round(os.getloadavg()[0], 1),
        "client": f"confluent-kafka {version('confluent-kafka')}",
        "stores": given.stores,
        **run(given.stores, given.seconds),
    }
    text = json.dumps(report, indent=2)
    print(text)
    if given.out:
        pathlib.Path(given.out).write_text(text + "\n")


if __name__ == "__main__":
    main()
