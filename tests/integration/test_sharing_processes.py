"""Two real landing processes share one huge topic; one is killed in the middle: every record is in the table once."""

from __future__ import annotations

import json
import pathlib
import time

import confluent_kafka
import pytest
from tests.compat.process import Processes, frazil

pytestmark = [pytest.mark.server]

PARTITIONS, RECORDS = 8, 40_000
COUNTS = 'SELECT count(*) AS n, count(DISTINCT (_topic, _kafka_partition, _offset)) AS places, max(_offset) AS last FROM lake."events"'
SETTINGS = [
    "landing.share=true",
    "landing.share_lease_ms=1000",
    "landing.slice_bytes_max=65536",
    "landing.commit_interval_ms=1000",
    "landing.snapshots_max=10000",
]


def ask(data: list[str]) -> dict[str, int]:
    done = frazil(*data, "sql", COUNTS, "-o", "json")
    return dict(json.loads(done.stdout.splitlines()[0])) if done.returncode == 0 else {"n": 0, "places": 0, "last": 0}


def test_two_processes_share_a_topic_and_one_is_killed(tmp_path: pathlib.Path) -> None:
    data = ["-d", str(tmp_path / "data")]
    with Processes(tmp_path, settings=SETTINGS) as processes:
        processes.start("broker")
        assert frazil(*data, "-b", processes.bootstrap, "topic", "create", "events", "--partitions", str(PARTITIONS)).returncode == 0
        producer = confluent_kafka.Producer({"bootstrap.servers": processes.bootstrap, "batch.size": 30_000})
        for at in range(RECORDS):
            producer.produce("events", b'{"n": %d, "text": "%s"}' % (at, b"x" * 60), partition=at % PARTITIONS)
        assert producer.flush(20) == 0
        for name in ("one", "two"):
            processes.start("land")
            processes.running[name] = processes.running.pop("land")
        end = time.monotonic() + 40
        while not ask(data)["n"]:
            assert time.monotonic() < end, processes.log("land")[-3000:]
        processes.kill("one")
        while (found := ask(data))["n"] < RECORDS:
            assert time.monotonic() < end, (found, processes.log("land")[-3000:])
        assert found == {"n": RECORDS, "places": RECORDS, "last": RECORDS // PARTITIONS - 1}
        assert processes.stop("two") == 0
