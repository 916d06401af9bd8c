"""R22 with real processes: yesterday's metadata file over today's bucket is refused, restored, and used again without an offset twice."""

from __future__ import annotations

import pathlib
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

import confluent_kafka
import pytest
from tests.faults import readers
from tests.faults.rig import PARTITIONS, TABLE, TOPIC, Deployment, Workload, number_of

pytestmark = [pytest.mark.server]


@pytest.fixture
def deployment(tmp_path: pathlib.Path) -> Iterator[Deployment]:
    made = Deployment(tmp_path / "data")
    yield made
    made.close()


def frazil(deployment: Deployment, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "frazil", "-d", str(deployment.directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def copy_metadata(deployment: Deployment, to: pathlib.Path) -> None:
    with sqlite3.connect(deployment.directory / "metadata.db") as source, sqlite3.connect(to) as target:
        source.backup(target)


def put_back(deployment: Deployment, copy: pathlib.Path) -> None:
    for name in ("metadata.db-wal", "metadata.db-shm"):
        (deployment.directory / name).unlink(missing_ok=True)
    (deployment.directory / "metadata.db").write_bytes(copy.read_bytes())


def await_segments(deployment: Deployment, more_than: int) -> None:
    end = time.monotonic() + 30
    while len(list((deployment.directory / "objects").glob("default/*/*/*.kfs"))) <= more_than:
        assert time.monotonic() < end, "nothing was sealed"
        time.sleep(0.1)


def read_what_exists(deployment: Deployment) -> dict[readers.Position, bytes]:
    """Everything from the log start to the end; unlike ``readers.read_log`` it expects lost offsets, not records at each."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": deployment.bootstrap, "group.id": "judge", "auto.offset.reset": "error"})
    found: dict[readers.Position, bytes] = {}
    try:
        left = {}
        places = []
        for partition in range(PARTITIONS):
            low, high = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(TOPIC, partition), timeout=10)
            places.append(confluent_kafka.TopicPartition(TOPIC, partition, low))
            left[partition] = high
        consumer.assign(places)
        end = time.monotonic() + 20
        while left and time.monotonic() < end:
            for message in consumer.consume(1000, timeout=0.5):
                assert message.error() is None, message.error()
                position = (message.partition() or 0, message.offset() or 0)
                assert position not in found
                found[position] = message.value() or b""
                if position[1] + 1 == left.get(position[0]):
                    del left[position[0]]
        assert not left, f"the ends {left} were not reached"
    finally:
        consumer.close()
    return found


def await_landed(deployment: Deployment, wanted: set[readers.Position]) -> list[readers.Position]:
    end = time.monotonic() + 30
    while True:
        rows = readers.landed(deployment.directory, TABLE) + readers.dead_letters(deployment.directory, TABLE)
        if wanted <= set(rows):
            return rows
        assert time.monotonic() < end, (sorted(wanted - set(rows))[:5], (deployment.directory / "land.log").read_text()[-1500:])
        time.sleep(0.2)


def test_r22_old_metadata_is_refused_restored_and_no_offset_is_issued_twice(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "yesterday.db"
    deployment.start("broker")
    deployment.start("land")
    work = Workload(deployment, idempotent=False)
    work.send(300)
    work.settle()
    await_landed(deployment, set(work.acknowledged))
    copy_metadata(deployment, copy)
    work.send(300)
    work.settle()
    await_segments(deployment, PARTITIONS)
    time.sleep(3)  # the whole of it is sealed, by passes one second apart
    assert deployment.stop("land") == 0
    work.send(60)  # not sealed, not landed: nothing will know their order
    work.settle()
    before = dict(work.acknowledged)
    sealed_and_first = {position for position, number in before.items() if number < 600}
    assert deployment.stop("broker") == 0

    put_back(deployment, copy)
    for role in ("broker", "land"):
        deployment.start(role)
        assert deployment.processes[role].wait(30) == 1
        assert "metadata is older than the bucket" in (deployment.directory / f"{role}.log").read_text()
    preview = frazil(deployment, "restore")
    assert preview.returncode == 0, preview.stderr
    assert "metadata is older than the bucket" in preview.stderr
    assert "nothing was changed" in preview.stderr
    assert frazil(deployment, "table", "list").returncode == 1, "the preview changed nothing"
    end = time.monotonic() + 30
    while (done := frazil(deployment, "restore", "--yes")).returncode != 0:
        assert "is registered" in done.stderr, done.stderr  # the copy was made while the broker ran: its lease ends by itself
        assert time.monotonic() < end
        time.sleep(1)
    assert "restored" in done.stderr

    deployment.start("broker")
    deployment.start("land")
    after = Workload(deployment, idempotent=True)
    after.attempted = 1000
    after.send(300)
    after.settle()
    for partition in range(PARTITIONS):
        highest = max(offset for p, offset in before if p == partition)
        assert min(offset for p, offset in after.acknowledged if p == partition) > highest

    log = read_what_exists(deployment)
    expected = {**before, **after.acknowledged}
    assert {position: number_of(value) for position, value in log.items() if position not in expected} == {}
    assert all(number_of(value) == expected[position] for position, value in log.items())
    assert sealed_and_first | set(after.acknowledged) <= set(log)

    rows = await_landed(deployment, set(after.acknowledged) | sealed_and_first)
    assert [position for position, times in Counter(rows).items() if times > 1] == []
    location = readers.metadata_location(deployment.directory, TABLE)
    assert location is not None
    readers.check_whole(location)
    assert "frazil.loss" in readers.local(location).read_text(), "landing has recorded what it passed"
    assert deployment.stop("land") == 0
    assert deployment.stop("broker") == 0
    deployment.start("broker")  # and the next start is an ordinary one
    assert not deployment.dead("broker")


@pytest.mark.slow
def test_r22_a_broker_whose_metadata_does_not_answer_still_stops_and_says_so(deployment: Deployment) -> None:
    deployment.start("broker")
    work = Workload(deployment, idempotent=False)
    work.send(3)
    work.settle()
    with sqlite3.connect(deployment.directory / "metadata.db", isolation_level=None) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        work.send(3)
        work.producer.poll(0.5)
        deployment.processes["broker"].terminate()
        assert deployment.processes["broker"].wait(45) == 1
        lock.execute("ROLLBACK")
    assert "undecided" in (deployment.directory / "broker.log").read_text()
