"""Properties of records: what is built is read, foreign readers agree, damage never does more than fail."""

from __future__ import annotations

import random
import struct
import tracemalloc

import aiokafka.record.memory_records
import pytest
from crc32c import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from frazil.kit.errors import Corrupt
from frazil.records import Batch, Codec, build_batch, patch, scan, split_batches
from frazil.records.building import BatchOptions, Record
from frazil.records.codecs import compress, decompress
from frazil.records.scanning import BatchFault

LIMIT = 1 << 20
BLOBS = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=3).map(tuple)
RECORDS = st.builds(Record, key=BLOBS, value=BLOBS, timestamp_ms=st.integers(0, 2**45), headers=HEADERS)
DELTAS = st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=20).map(sorted).map(tuple)


@st.composite
def batches(draw: st.DrawFn, *, gaps: bool = True) -> tuple[list[Record], BatchOptions]:
    deltas = draw(DELTAS) if gaps and draw(st.booleans()) else None
    size = len(deltas) if deltas else draw(st.integers(1, 20))
    options = BatchOptions(
        codec=draw(st.sampled_from(Codec)),
        producer_id=draw(st.integers(-1, 2**63 - 1)),
        producer_epoch=draw(st.integers(-1, 2**15 - 1)),
        base_sequence=draw(st.integers(-1, 2**31 - 1)),
        transactional=draw(st.booleans()),
        log_append_time_ms=draw(st.none() | st.integers(0, 2**45)),
        offset_deltas=deltas,
        last_offset_delta=draw(st.none() | st.integers(deltas[-1], 2**31 - 1)) if deltas else None,
    )
    return draw(st.lists(RECORDS, min_size=size, max_size=size)), options


@given(st.lists(batches(), min_size=1, max_size=4), st.integers(0, 2**50))
@settings(max_examples=100, deadline=None)
def test_built_split_patched_and_scanned_is_what_was_put_in(built: list[tuple[list[Record], BatchOptions]], base: int) -> None:
    run = b"".join(build_batch(records, options=options) for records, options in built)
    heads = split_batches(run, batch_bytes_max=LIMIT)
    columns, faults = scan(patch(run, base), uncompressed_bytes_max=LIMIT)
    assert not faults
    expected = []
    for head, (records, options) in zip(heads, built, strict=True):
        assert (head.producer_id, head.producer_epoch, head.base_sequence) == (
            options.producer_id,
            options.producer_epoch,
            options.base_sequence,
        )
        for delta, record in zip(options.offset_deltas or range(len(records)), records, strict=True):
            time = record.timestamp_ms if options.log_append_time_ms is None else options.log_append_time_ms
            expected.append((base + delta, time, record.key, record.value, record.headers))
        base += head.offset_count
    found = zip(columns.offsets, columns.timestamps_ms, columns.keys, columns.values, columns.headers, strict=True)
    assert list(found) == expected


@given(st.lists(batches(), min_size=1, max_size=3), st.integers(0, 2**50))
@settings(max_examples=100, deadline=None)
def test_aiokafka_reads_the_same(built: list[tuple[list[Record], BatchOptions]], base: int) -> None:
    run = bytes(patch(b"".join(build_batch(records, options=options) for records, options in built), base))
    theirs = []
    foreign = aiokafka.record.memory_records.MemoryRecords(run)
    while (batch := foreign.next_batch()) is not None:
        assert batch.validate_crc()
        theirs += [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    columns, _ = scan(run, uncompressed_bytes_max=LIMIT)
    ours = zip(columns.offsets, columns.timestamps_ms, columns.keys, columns.values, columns.headers, strict=True)
    assert list(ours) == theirs


@given(st.lists(RECORDS, min_size=1, max_size=20), st.sampled_from(Codec))
@settings(max_examples=100, deadline=None)
def test_what_aiokafka_builds_is_read(records: list[Record], codec: Codec) -> None:
    builder = aiokafka.record.default_records.DefaultRecordBatchBuilder(2, int(codec), 0, -1, -1, -1, 1 << 30)
    for offset, record in enumerate(records):
        builder.append(offset, record.timestamp_ms, record.key, record.value, list(record.headers))
    data = bytes(builder.build())
    (head,) = split_batches(data, batch_bytes_max=LIMIT)
    columns, faults = scan(data, uncompressed_bytes_max=LIMIT)
    assert not faults
    assert (columns.keys, columns.values) == ([r.key for r in records], [r.value for r in records])
    assert columns.timestamps_ms.tolist() == [r.timestamp_ms for r in records]
    assert columns.headers == [r.headers for r in records]
    assert head.max_timestamp_ms == max(r.timestamp_ms for r in records)
    if codec is Codec.NONE:
        assert build_batch(records) == data


def damage(chance: random.Random, data: bytes) -> bytes:
    """``data`` with a few bytes changed, cut out or put in."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(changed) + 1)
        match chance.randrange(4):
            case 0:
                changed[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                changed[place : place + 4] = chance.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\x80\0\0\0"])
            case 2:
                del changed[place : place + chance.randint(1, 8)]
            case _:
                changed[place:place] = chance.randbytes(chance.randint(1, 8))
    return bytes(changed)


def sealed(data: bytes) -> bytes:
    """One frame with length and CRC made right, so that damage reaches the records."""
    if len(data) < 61:
        return data
    body = data[21:]
    return struct.pack(">qiib", 0, len(body) + 9, -1, 2) + struct.pack(">I", crc32c(body)) + body


def sample(chance: random.Random) -> bytes:
    records = [
        Record(key=chance.choice([None, b"k"]), value=chance.randbytes(chance.randrange(40)), headers=(("h", b"x"),) * chance.randrange(3))
        for _ in range(chance.randint(1, 12))
    ]
    return build_batch(records, options=BatchOptions(codec=chance.choice(list(Codec)), control=chance.random() < 0.05))


@pytest.mark.parametrize("seed", range(4))
def test_damage_is_corrupt_or_a_fault_and_nothing_else(seed: int) -> None:
    """Random damage, half of it under a right CRC: no other exception, no memory beyond the limit, no good batch lost."""
    chance = random.Random(seed)
    good = build_batch([Record(value=b"good")])
    seen: set[str] = set()
    tracemalloc.start()
    for _ in range(1500):
        bad = damage(chance, sample(chance))
        bad = sealed(bad) if chance.random() < 0.7 else bad
        try:
            split_batches(bad, batch_bytes_max=LIMIT)
        except Corrupt:
            seen.add("split")
        try:
            run = patch(good + bad + good, 0)
            columns, faults = scan(run, uncompressed_bytes_max=LIMIT)
        except Corrupt:
            seen.add("walk")
            continue
        seen.update(fault.code for fault in faults)
        assert all(isinstance(fault, BatchFault) for fault in faults)
        assert columns.values[0] == columns.values[-1] == b"good"
        assert len({len(c) for c in (columns.offsets, columns.timestamps_ms, columns.keys, columns.values, columns.headers)}) == 1
        assert all(one < two for one, two in zip(columns.offsets, columns.offsets[1:], strict=False))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert {"split", "walk", "crc", "records", "decompress"} <= seen
    assert peak < 8 * LIMIT


@given(st.binary(max_size=400), st.sampled_from(Codec))
@example(b"", Codec.ZSTD)
@settings(max_examples=300, deadline=None)
def test_any_bytes_decompress_or_are_corrupt(data: bytes, codec: Codec) -> None:
    try:
        assert len(decompress(codec, data, bytes_max=1 << 16)) <= 1 << 16
    except Corrupt:
        assert codec is not Codec.NONE


@given(st.binary(max_size=2000), st.sampled_from(Codec))
@settings(max_examples=100, deadline=None)
def test_what_is_compressed_comes_back(data: bytes, codec: Codec) -> None:
    assert decompress(codec, compress(codec, data), bytes_max=len(data)) == data


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_bytes_split_or_are_corrupt(data: bytes) -> None:
    try:
        heads: list[Batch] = split_batches(data, batch_bytes_max=LIMIT)
    except Corrupt:
        return
    assert sum(head.length for head in heads) == len(data)
