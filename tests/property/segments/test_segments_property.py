"""Properties of segments and bundles: round trips over any batches, damage never does more than fail."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.kit.errors import Corrupt, Refused
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.records import build_batch, patch, split_batches
from frazil.records.building import BatchOptions, Record
from frazil.segments.bundles import build_bundle, check_run, read_directory
from frazil.segments.indexes import index_of, parse_index
from frazil.segments.keys import SegmentKey, bundle_ulid, parse_segment_key
from frazil.segments.kfs import build_segment, check_index, read_segment
from frazil.segments.sidecars import build_sidecar, read_sidecar

LIMIT = 1 << 20
SIZES = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 50)), min_size=1, max_size=30)
"""Per batch: records, and offsets left free after them."""


def run_of(sizes: list[tuple[int, int]]) -> bytes:
    return b"".join(
        build_batch([Record(value=b"v", timestamp_ms=count)] * count, options=BatchOptions(last_offset_delta=count - 1 + free))
        for count, free in sizes
    )


@given(SIZES, st.integers(0, 2**60), st.integers(0, 2**50))
@settings(max_examples=100, deadline=None)
def test_a_segment_comes_back(sizes: list[tuple[int, int]], base: int, created_ms: int) -> None:
    run = patch(run_of(sizes), base)
    built = build_segment([run], created_ms=created_ms)
    view = read_segment(built.kfs, where="x", batch_bytes_max=LIMIT)
    assert bytes(view.body) == run
    assert (view.base_offset, view.message_count, view.created_ms) == (base, sum(count for count, _ in sizes), created_ms)
    assert view.last_offset == base + sum(count + free for count, free in sizes) - 1
    index = parse_index(built.index, where="x")
    check_index(index, view, where="x")
    for head in view.batches:
        place = index.floor(head.base_offset)
        assert place <= head.position + 32
        skipped = [b.record_count for b in view.batches if place <= b.position + 32 < head.position + 32]
        assert sum(skipped[:-1]) < 100
    sidecar = read_sidecar(build_sidecar(view.batches, segment_crc=view.crc), where="x")
    assert [time.position for time in sidecar.times] == [head.position + 32 for head in view.batches]


@given(SIZES, st.integers(1, 300))
@settings(max_examples=100, deadline=None)
def test_any_interval_gives_a_legal_index(sizes: list[tuple[int, int]], interval: int) -> None:
    built = build_segment([patch(run_of(sizes), 0)], created_ms=0)
    index = index_of(built.batches, interval=interval)
    assert parse_index(index.encode(), where="x") == index


@given(st.dictionaries(st.tuples(st.binary(min_size=16, max_size=16), st.integers(0, 2**31 - 1)), SIZES, min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_a_bundle_comes_back(content: dict[tuple[bytes, int], list[tuple[int, int]]]) -> None:
    runs = {PartitionKey(TopicId(topic), PartitionId(number)): run_of(sizes) for (topic, number), sizes in content.items()}
    built = build_bundle([(key, [run], split_batches(run, batch_bytes_max=LIMIT)) for key, run in runs.items()])
    data = b"".join(built.chunks)
    directory = read_directory(data, len(data), where="x")
    assert directory == built.directory
    for entry in directory:
        body = data[entry.position : entry.position + entry.length]
        check_run(entry, body, where="x")
        assert runs.pop(PartitionKey(entry.topic_id, entry.partition)) == body
    assert not runs


@given(
    st.builds(
        SegmentKey,
        namespace=st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True).filter(lambda name: name not in ("bundles", "compacted")),
        topic=st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,20}", fullmatch=True),
        incarnation=st.integers(1, 10**9),
        partition=st.integers(0, 2**31 - 1),
        base_offset=st.integers(0, 2**63 - 1),
    )
)
def test_a_segment_key_comes_back(key: SegmentKey) -> None:
    assert parse_segment_key(key.kfs()) == key
    assert bundle_ulid(key.kfs()) is None


@given(st.text(max_size=60))
def test_any_text_is_a_key_or_none(text: str) -> None:
    found = parse_segment_key(text)
    assert found is None or found.kfs() == text


@pytest.mark.parametrize("seed", range(3))
def test_damage_is_corrupt_and_nothing_else(seed: int) -> None:
    chance = random.Random(seed)
    run = run_of([(3, 0), (5, 2), (1, 0)])
    built = build_segment([patch(run, 7)], created_ms=0)
    bundle = b"".join(
        build_bundle([(PartitionKey(TopicId(bytes(16)), PartitionId(0)), [run], split_batches(run, batch_bytes_max=LIMIT))]).chunks
    )
    readers = [
        (built.kfs, lambda data: read_segment(data, where="x", batch_bytes_max=LIMIT)),
        (built.index, lambda data: parse_index(data, where="x")),
        (build_sidecar(built.batches, segment_crc=built.crc), lambda data: read_sidecar(data, where="x")),
        (bundle, lambda data: read_directory(data, len(data), where="x")),
    ]
    for _ in range(2000):
        whole, read = chance.choice(readers)
        data = bytearray(whole)
        place = chance.randrange(len(data))
        if chance.random() < 0.7:
            data[place : place + chance.randint(0, 9)] = chance.randbytes(chance.randint(1, 9))
        else:
            del data[chance.randrange(len(data)) :]
        try:
            read(bytes(data))
        except (Corrupt, Refused):
            continue
