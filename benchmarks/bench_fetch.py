"""How fast consumers are served from the cache: fetch requests of 1 MB and more, round and round; then every record once.

    python benchmarks/bench_fetch.py --out docs/results/bench-fetch.json
    python benchmarks/bench_fetch.py --seconds 2 --without-peer     a quick look

A fresh broker gets ``--megabytes`` of 1 KB records from confluent-kafka with its defaults, all of which fit its cache. Then ``frazil-load``
fetches them over 4 connections, 2 requests in flight on each; it looks at frame sizes and batch headers, counts records and checks that
offsets have no gap. ``count`` then reads each record exactly once and checks the CRC of each batch. confluent-kafka consumes once, too.
The peer gets the same clients with the same flags in the same run. Wants two idle cores.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from confluent_kafka import Consumer, Producer, TopicPartition, libversion

from benchmarks.brokers import PARTITIONS, TANSU, Broker, frazil, load_binary, measured, run_load, tansu, tansu_binary
from benchmarks.results import frame, write

VALUE = b"x" * 1024
TOPIC = "fetched"
CACHE_BYTES = 1 << 30


def fill(broker: Broker, count: int) -> None:
    """``count`` records by confluent-kafka, defaults."""
    producer = Producer({"bootstrap.servers": broker.address})
    done = 0
    while done < count:
        taken = producer.produce_batch(TOPIC, [{"value": VALUE} for _ in range(min(1000, count - done))])
        done += taken
        producer.poll(0 if taken else 0.01)
    if producer.flush(60):
        raise SystemExit(f"{broker.name}: records were not delivered in a minute")


def consume(broker: Broker, count: int) -> tuple[int, int]:
    """confluent-kafka from the beginning until ``count`` records have come; one minute at most."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    seen = 0
    end = time.perf_counter() + 60
    while seen < count and time.perf_counter() < end:
        seen += len(consumer.consume(10_000, 0.5))
    consumer.close()
    return seen, seen * len(VALUE)


def fetched(broker: Broker, mode: str, **options: object) -> dict[str, Any]:
    """One run of the cheap client."""
    report: dict[str, Any] = {}

    def load() -> tuple[int, int]:
        report.update(run_load(broker, mode, TOPIC, **options))
        return report["records"], report["bytes"]

    found: dict[str, Any] = measured(broker, load)
    return found | {"requests": report["requests"], "mb_per_second": report["mb_per_second"]}


def against(make: Callable[[], AbstractContextManager[Broker]], count: int, seconds: float) -> dict[str, Any]:
    """All loads against one fresh broker."""
    with make() as broker:
        broker.create(TOPIC)
        fill(broker, count)
        found: dict[str, Any] = {"produced": count}
        found["fetch_1mb"] = fetched(broker, "fetch", seconds=seconds, connections=4, in_flight=2, fetch_bytes=1 << 20)
        found["fetch_4mb"] = fetched(broker, "fetch", seconds=seconds, connections=4, in_flight=2, fetch_bytes=4 << 20)
        found["count"] = fetched(broker, "count", connections=4, check_crc=1)
        found["confluent"] = measured(broker, lambda: consume(broker, count))
        found["broker_rss_mb"] = broker.rss_mb()
        return found


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each fetch load")
    parser.add_argument("--megabytes", type=int, default=600)
    parser.add_argument("--without-peer", action="store_true")
    parser.add_argument("--out", default="")
    given = parser.parse_args()
    count = given.megabytes * 1_000_000 // len(VALUE)
    load_binary()
    results: dict[str, Any] = {"frazil": against(lambda: frazil(f"broker.cache_bytes={CACHE_BYTES}"), count, given.seconds)}
    if not given.without_peer:
        tansu_binary()
        results["tansu"] = against(tansu, count, given.seconds)
    ours = results["frazil"]
    results["fetch_mb_per_second"] = ours["fetch_1mb"]["mb_per_second"]
    results["uncounted"] = count - ours["count"]["units"]
    more = {"librdkafka": libversion()[0], "tansu": TANSU}
    document = frame("python benchmarks/bench_fetch.py", "consumers: fetch requests of 1 MB and more, served from the cache", results, more)
    if given.out:
        write(given.out, document)
    shown = {name: found["fetch_1mb"]["mb_per_second"] for name, found in results.items() if isinstance(found, dict)}
    print({"fetch_1mb MB/s": shown, "uncounted": results["uncounted"]})
    return 1 if results["uncounted"] else 0


if __name__ == "__main__":
    sys.exit(main())
