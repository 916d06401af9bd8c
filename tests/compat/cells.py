"""One cell of the client matrix: a client produces with a codec, consumes its own records and the reference's, in two sessions each.

The judge is ``stored``: the batches as they lie in the object store. The codec is that of their attributes, the records are
checked one by one against what was to be sent, and what a consumer has read must have the digest of what is stored.
"""

from __future__ import annotations

import hashlib
import pathlib
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic
from tests.compat import rows, stored
from tests.compat.programs import harness
from tests.compat.rows import Program

PARTITIONS = 4
CODECS = stored.CODECS
Stored = dict[int, list[stored.StoredBatch]]


@dataclass(frozen=True)
class Place:
    """The broker and the folder of its stores."""

    bootstrap: str
    data: pathlib.Path


@dataclass
class Cell:
    """What was counted. ``problem`` is empty in a good cell."""

    client: str
    codec: str
    acked: int = 0
    stored: int = 0
    batches: int = 0
    stored_codecs: dict[str, int] = field(default_factory=dict)
    """Batches by the codec in their attributes."""
    own_read: list[int] = field(default_factory=list)
    """Records of the first and of the second session."""
    reference_read: list[int] = field(default_factory=list)
    produce_seconds: float = 0.0
    consume_seconds: float = 0.0
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def make_topic(place: Place, topic: str, *, partitions: int = PARTITIONS) -> None:
    """By librdkafka's admin client."""
    admin = AdminClient({"bootstrap.servers": place.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)


@dataclass
class References:
    """Topics with the reference producer's records, one per codec, made when they are first asked for."""

    place: Place
    records: int
    folder: pathlib.Path
    _known: dict[str, Stored] = field(default_factory=dict)

    def get(self, codec: str) -> tuple[str, Stored]:
        topic = f"reference-{codec}"
        if topic not in self._known:
            row = next(row for row in rows.ROWS if row.name == rows.REFERENCE)
            make_topic(self.place, topic)
            with Program(row, self.folder) as program:
                program.ask("produce", bootstrap=self.place.bootstrap, topic=topic, codec=codec, count=self.records, name="reference")
            self._known[topic] = judge_stored(self.place, topic, Cell("reference", codec), self.records)
        return topic, self._known[topic]


def take(program: Program, place: Place, codec: str, *, records: int, references: References) -> Cell:
    """Fills one cell; what goes wrong is written into it."""
    cell = Cell(program.row.name, codec)
    topic = f"{program.slug}-{codec}"
    try:
        make_topic(place, topic)
        began = time.monotonic()
        answer = program.ask("produce", bootstrap=place.bootstrap, topic=topic, codec=codec, count=records)
        cell.acked = answer["acked"]
        cell.produce_seconds = round(time.monotonic() - began, 2)
        assert cell.acked == records, f"{cell.acked} of {records} acknowledged: {answer}"
        found = judge_stored(place, topic, cell, records)
        began = time.monotonic()
        cell.own_read = consume(program, place, topic, found)
        cell.reference_read = consume(program, place, *references.get(codec))
        cell.consume_seconds = round(time.monotonic() - began, 2)
    except AssertionError as error:
        cell.problem = str(error)[:500]
    return cell


def judge_stored(place: Place, topic: str, cell: Cell, records: int) -> Stored:
    """Every batch has the codec; every record is there once, whole, and in order within its partition."""
    found = stored.topic(place.data, topic)
    name = topic.rsplit("-", 1)[0]
    seen: set[int] = set()
    for partition, batches in found.items():
        last, expected = -1, 0
        for batch in batches:
            cell.batches += 1
            cell.stored_codecs[batch.codec] = cell.stored_codecs.get(batch.codec, 0) + 1
            for record in batch.records:
                assert record.value, f"{topic}/{partition}@{record.offset} has no value"
                number = int(record.value[:10])
                assert record.offset == expected and number > last, f"{topic}/{partition}@{record.offset}: record {number} after {last}"
                assert record.value == harness.value_of(number) and record.key == harness.key_of(number), f"{topic}: record {number}"
                wanted = [("client", b"kcat")] if name == "kcat" else harness.headers_of(number, name)
                assert list(record.headers) == wanted, f"{topic}: headers of {number}"
                last, expected = number, record.offset + 1
                seen.add(number)
                cell.stored += 1
    assert cell.stored == len(seen) == records and max(seen) == records - 1, f"{cell.stored} stored, {len(seen)} different"
    assert set(cell.stored_codecs) == {cell.codec}, f"stored with {cell.stored_codecs}"
    return found


def consume(program: Program, place: Place, topic: str, found: Stored) -> list[int]:
    """Two sessions of the client's group, the second from the offsets that the first has committed. The counts of both."""
    group = f"{program.slug}-reads-{topic}"
    ends = {partition: (batches[-1].records[-1].offset + 1 if batches else 0) for partition, batches in found.items()}
    total = sum(ends.values())
    at = dict.fromkeys(ends, 0)
    counts = []
    for enough in (total * 2 // 5, total):
        left = enough - sum(counts)
        answer = program.ask("consume", bootstrap=place.bootstrap, topic=topic, group=group, enough=left)["partitions"]
        for name, (first, end, count, digest) in answer.items():
            partition = int(name)
            assert first == at[partition], f"{topic}/{partition}: began at {first}, committed was {at[partition]}"
            assert count == end - first, f"{topic}/{partition}: {count} records in {first}-{end}"
            assert digest == digest_of(found[partition], first, end), f"{topic}/{partition}: {first}-{end} was read differently"
            at[partition] = end
        counts.append(sum(count for _, _, count, _ in answer.values()))
        assert sum(counts) >= enough, f"{topic}: {sum(counts)} read of {enough}"
        assert committed(place, topic, group) == {p: end for p, end in at.items() if end}, f"{topic}: committed is not what was read"
    assert at == ends
    return counts


def committed(place: Place, topic: str, group: str) -> dict[int, int]:
    """The offsets of the group, asked by librdkafka."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": place.bootstrap, "group.id": group, "log_level": 0})
    try:
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        found = consumer.committed([confluent_kafka.TopicPartition(topic, p) for p in partitions], timeout=20)
    finally:
        consumer.close()
    return {one.partition: one.offset for one in found if one.offset > 0}


def digest_of(batches: list[stored.StoredBatch], first: int, end: int) -> str:
    """What a consumer must say of these offsets."""
    digest = hashlib.sha256()
    for batch in batches:
        if batch.base < end and batch.records[-1].offset >= first:
            for r in batch.records:
                if first <= r.offset < end:
                    digest.update(harness.picture(r.offset, r.key, r.value, r.headers))
    return digest.hexdigest()
