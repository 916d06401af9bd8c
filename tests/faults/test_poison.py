"""Poison for landing: batches the broker must take (their CRC is right) and values nobody can put into a table.

Real broker and landing processes. Every offset ends in the table or in a dead letter, landing lives, the other table goes on.
"""

from __future__ import annotations

import json
import pathlib
import random
import socket
import time
from collections.abc import Callable

import confluent_kafka
import pytest
from tests.compat.clients import librdkafka
from tests.compat.flow import Plan
from tests.compat.process import Processes
from tests.faults import batches, readers
from tests.faults.mutate import produce_frame

pytestmark = [pytest.mark.server, pytest.mark.slow]
RSS_BYTES_MAX = 1536 * 1024 * 1024
SEED = 11

GOOD_VALUES: dict[str, bytes] = {
    "giant text": json.dumps({"id": 1, "text": "x" * 900_000}).encode(),
    "escapes": b'{"id": 2, "text": "\\u0000\\u001f \\ud83e\\uddca \\n"}',
    "many numbers": json.dumps({"id": 3, "list": list(range(20_000))}).encode(),
    "keys with dots": b'{"id": 4, "a.b": 1, "": 2, " ": 3, "_offset": 9}',
    "tombstone": b"",
}
"""Whether they become rows or letters is landing's choice; they must not stop it."""

ODD_VALUES: dict[str, bytes] = {
    "deep arrays": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep but closed wrongly": b'{"a":' * 5_000,
    "wide": json.dumps({f"column_{n}": n for n in range(20_000)}).encode(),
    "long key": json.dumps({"k" * 50_000: 1}).encode(),
    "giant number": b'{"id": ' + b"9" * 100_000 + b"}",
    "giant exponent": b'{"id": 1e999999999}',
    "not a number": b'{"id": NaN}',
    "infinity": b'{"id": -Infinity}',
    "lone surrogate": b'{"id": 5, "text": "\\ud800"}',
    "not UTF-8": b'{"id": 5, "text": "\xff\xfe"}',
    "cut": b'{"id": 5',
    "twice the key": b'{"id": 5, "id": "x"}',
    "other type": b'{"id": "five"}',
    "other shape": b'{"id": {"a": [1, {"b": 2}]}}',
    "array": b"[1, 2]",
    "null": b"null",
    "number": b"5",
    "spaces": b"   ",
    "two values": b'{"id": 1}{"id": 2}',
    "nul bytes": b"\0" * 1000,
    "comment": b'{"id": 1} // x',
}


def send_raw(port: int, batch: bytes, topic: str) -> int:
    """Produces one batch as it is; the base offset it was given. Asserts that the broker took it."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as peer:
        peer.sendall(produce_frame(batch, topic))
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
            answer += peer.recv(65536)
    at = 4 + 4 + 4 + 2 + len(topic) + 4 + 4
    code = int.from_bytes(answer[at : at + 2], "big")
    assert code == 0, f"the broker refused with {code}"
    return int.from_bytes(answer[at + 2 : at + 10], "big", signed=True)


class Story:
    """Two topics, one of them poisoned, landed by real processes."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.data = processes.directory / "data"
        self.healthy = 0
        for topic in ("poison", "healthy"):
            librdkafka.create(Plan(processes.bootstrap, topic, "", partitions=1), {"max.message.bytes": "20000000"})
        self.producer = confluent_kafka.Producer({"bootstrap.servers": processes.bootstrap, "message.max.bytes": 2_000_000, "log_level": 0})

    def good(self, number: int, topic: str = "poison") -> None:
        self.producer.produce(topic, json.dumps({"id": number, "text": "fine"}).encode(), partition=0)
        assert self.producer.flush(30) == 0

    def healthy_goes_on(self, within_s: float = 30) -> None:
        """A record produced to the healthy topic now is in its table soon."""
        self.good(self.healthy, "healthy")
        self.healthy += 1

        def there() -> bool:
            return len(readers.landed(self.data, "lake.healthy")) == self.healthy

        self.await_true(there, "the healthy table stands still", within_s)

    def await_true(self, question: Callable[[], bool], what: str, within_s: float) -> None:
        end = time.monotonic() + within_s
        while not question():
            assert self.processes.alive("land"), self.processes.log("land")[-4000:]
            assert time.monotonic() < end, f"{what}: " + self.processes.log("land")[-3000:]
            time.sleep(0.3)

    def offsets_told(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Offsets in the table, and ranges in dead letters."""
        rows = [offset for _, offset in readers.landed(self.data, "lake.poison")]
        location = readers.metadata_location(self.data, "lake.poison_dead")
        if location is None or not readers.has_snapshot(location):
            return rows, []
        found = readers.query(f'SELECT "offset", last_offset FROM iceberg_scan(\'{location}\') ORDER BY 1')
        return rows, [(int(str(first)), int(str(last))) for first, last in found]

    def all_told(self, end: int, within_s: float = 60) -> tuple[set[int], list[tuple[int, int]]]:
        """Waits until every offset below ``end`` is in the table or in a letter; no offset twice in either."""

        def done() -> bool:
            rows, letters = self.offsets_told()
            return {*rows, *(n for first, last in letters for n in range(first, last + 1))} >= set(range(end))

        self.await_true(done, "not every offset is told", within_s)
        rows, letters = self.offsets_told()
        assert len(rows) == len(set(rows)), "a row twice"
        assert len(letters) == len(set(letters)), "a letter twice"
        buried = [n for first, last in letters for n in range(first, last + 1)]
        assert not set(rows) & set(buried), "landed and buried"
        for table in ("lake.poison", "lake.poison_dead", "lake.healthy"):
            location = readers.metadata_location(self.data, table)
            if location:
                readers.check_whole(location)
        return set(rows), letters


@pytest.fixture
def story(tmp_path: pathlib.Path):  # type: ignore[no-untyped-def]
    with Processes(tmp_path, settings=("landing.commit_interval_ms=1000", "landing.namespace=lake")) as processes:
        processes.start("broker")
        processes.start("land")
        yield Story(processes)
        for role in ("broker", "land"):
            assert processes.alive(role), processes.log(role)[-3000:]
            assert "Traceback" not in processes.log(role), processes.log(role)[-6000:]
        assert processes.rss_bytes("land", highest=True) < RSS_BYTES_MAX
        assert processes.rss_bytes("broker", highest=True) < RSS_BYTES_MAX
        print({role: processes.rss_bytes(role, highest=True) // 2**20 for role in ("broker", "land")}, "MiB")
        assert processes.log_bytes("land") < 1_000_000


def test_rotten_batches_become_letters(story: Story):
    chance = random.Random(SEED)
    bad: list[tuple[int, int]] = []
    number = 0
    story.good(number)
    for kind in batches.ROTTEN * 2:
        batch = batches.rotten(kind, chance)
        base = send_raw(story.processes.port, batch, "poison")
        bad.append((base, base + int.from_bytes(batch[23:27], "big")))
        number += 1
        story.good(number)
    end = bad[-1][1] + 2
    rows, letters = story.all_told(end)
    assert {n for n in range(end) if not any(first <= n <= last for first, last in bad)} == rows
    assert letters == bad
    story.healthy_goes_on()


def test_bombs_become_letters(story: Story):
    story.good(0)
    bombs = [batches.bomb(codec) for codec in (batches.GZIP, batches.LZ4, batches.ZSTD, batches.SNAPPY)]
    bombs += [batches.nested_bomb(), batches.many_records(600_000)]
    story.healthy_goes_on()
    bases = [send_raw(story.processes.port, bomb, "poison") for bomb in bombs]
    story.good(1)
    story.healthy_goes_on(within_s=90)
    _, end = confluent_watermarks(story)

    def passed() -> bool:
        return {0, end - 1} <= {offset for _, offset in readers.landed(story.data, "lake.poison")}

    story.await_true(passed, "landing does not get past the bombs", 120)
    rows, letters = story.offsets_told()
    told = len(set(rows)) + sum(last - first + 1 for first, last in letters)
    assert told == end, f"{told} of {end} offsets told"
    assert {bases[0], bases[1], bases[2]} <= {first for first, _ in letters}


def confluent_watermarks(story: Story) -> tuple[int, int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": story.processes.bootstrap, "group.id": "x", "log_level": 0})
    found = consumer.get_watermark_offsets(confluent_kafka.TopicPartition("poison", 0), timeout=20)
    consumer.close()
    return int(found[0]), int(found[1])


def test_values_nobody_can_read_become_letters(story: Story):
    sent: dict[int, str] = {}
    offset = 0
    for name, value in [*GOOD_VALUES.items(), *ODD_VALUES.items()]:
        story.good(1000 + offset)
        story.producer.produce("poison", value, partition=0)
        assert story.producer.flush(30) == 0
        sent[offset + 1] = name
        offset += 2
    story.good(1)
    rows, letters = story.all_told(offset + 1)
    assert set(range(0, offset + 1, 2)) <= rows, "good neighbours landed"
    refused = {sent[first] for first, _ in letters}
    assert not refused & {"giant text", "escapes", "many numbers"}
    assert refused >= {
        "deep arrays", "deep objects", "deep but closed wrongly", "not a number", "not UTF-8", "cut", "array", "spaces", "two values",
        "nul bytes", "comment", "other shape",
    }, refused  # fmt: skip
    story.healthy_goes_on()


def test_thousands_of_different_columns_do_not_stop_the_others(story: Story):
    """Each record brings new columns: the table stops growing somewhere, the rest are letters."""
    for number in range(300):
        story.producer.produce("poison", json.dumps({"id": number, **{f"c{number}_{n}": n for n in range(20)}}).encode(), partition=0)
    assert story.producer.flush(30) == 0
    story.healthy_goes_on(within_s=60)
    rows, letters = story.all_told(300, within_s=120)
    assert rows
    assert letters, "6,000 columns in one table"
    story.good(1)
    story.all_told(301)
